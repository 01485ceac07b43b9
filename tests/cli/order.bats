#!/usr/bin/env bats
# Ops of imported graphs: tuples, tokens, Print.

setup() {
	cd "$BATS_TEST_TMPDIR"
	cat >g.gg <<-'EOF'
	graph "g"
	input %x : f32[2]
	param %w : f32[2] = ones
	const %hello : string[] = "x is"
	%l = Load(%w)
	%y = Add(%x, %l)
	%t0, %t1 = MakeTuple(%y, %x)
	%p = Print(%hello, %x, %y)
	%u = UpdateState(_, %p, %y)
	%z = TupleGetItem(%t0, %t1) {index=0}
	%d = Depend(%z, %u)
	output %d
	EOF
}

@test "they run on ref and on cpu, optimised or not" {
	for target in ref cpu; do
		for level in -O0 --pipeline=common,optimize,hardware,final; do
			gg-opt $level g.gg | gg-run --target=$target --fill=range >out 2>err
			[ "$(cat out)" = "d f32[2] min 1 max 2 mean 1.5 [1 2]" ]
			grep -q 'note: x is \[0 1\] \[1 2\]' err
		done
	done
}

@test "Print is told once a step, not with -q, and needs no reader" {
	cat >p.gg <<-'EOF'
	input %x : f32[20]
	%p = Print(%x)
	%y = Neg(%x)
	output %y
	EOF
	run gg-run --target=ref --fill=ones --steps=3 p.gg
	[ "$(grep -c '1 1 1 \.\.\.\]' <<<"$output")" = 3 ]
	run gg-run -q --target=ref --fill=ones p.gg
	[[ $output != *'...]'*'...]'* ]]
}

@test "Print tells numbers of every kind whole" {
	cat >n.gg <<-'EOF'
	const %x : u64[2] = [18446744073709551615, 3]
	const %c : c64[1] = [(1.5,-2)]
	%p = Print(%x, %c)
	output %x
	EOF
	run gg-run --target=ref n.gg
	[[ $output == *'[18446744073709551615 3] [1.5-2i]'* ]]
}

@test "Load sees the value it was given, though the parameter changes in the step" {
	cat >s.gg <<-'EOF'
	param %w : f32[1] = ones
	const %five : f32[1] = [5]
	%old = Load(%w)
	%new = Assign(%w, %five)
	%u = UpdateState(_, %new)
	%later = Load(%new, %u)
	%before = Neg(%old)
	%after = Neg(%later)
	output %before
	output %after
	state %w <- %new
	EOF
	for level in -O0 --pipeline=common,optimize,hardware,final; do
		run bash -c "gg-opt $level s.gg | gg-run -q --target=ref --steps=1"
		[[ $output == *"before f32[1] min -1 "*"after f32[1] min -5 "* ]]
	done
}
