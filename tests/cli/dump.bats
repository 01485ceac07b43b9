#!/usr/bin/env bats
# gg-dump: each form, and what --stats, --memory, --extract and --diff say.

setup() {
	cd "$BATS_TEST_TMPDIR"
	cat >g.gg <<'EOF'
graph "g"
input %x : f32[2,3]
param %w : f32[3,4] = normal(1, 0, 1)
%h = MatMul(%x, %w)
%r = Relu(%h)
%y = Sigmoid(%r)
output %y
EOF
}

@test "text reads back to the same text, JSON to the same stream" {
	gg-dump g.gg >a
	gg-dump a | cmp - a
	gg-opt -O0 g.gg >s
	gg-dump --format=json s | gg-parse --format=json >t
	gg-dump s >x
	gg-dump t | cmp - x
}

@test "dot and csv" {
	gg-dump --format=dot g.gg >d
	grep -q '^digraph "g" {' d
	[ "$(grep -c 'shape=box' d)" = 3 ]
	gg-dump --format=csv g.gg >c
	[ "$(wc -l <c)" = 4 ]
	grep -q '"MatMul","h","x w","h","f32","\[2,4\]","",48,32' c # 2 * 2*4 * 3 operations, 8 floats
}

@test "--stats counts" {
	gg-dump --stats g.gg >s
	grep -Eq '^nodes +3$' s
	grep -Eq '^parameters +1, 12 elements, 48 bytes$' s
	grep -Eq '^flops +64$' s # 48 of the product, 8 each of the two pointwise ops
}

@test "--memory: the plan and its bound" {
	gg-dump --memory g.gg >m
	grep -q '^arena ' m
	grep -q '^bound ' m
}

@test "--memory of a built graph is the plan that gg-build made" {
	gg-select --target=ref g.gg | gg-build >built
	gg-build --no-reuse built | gg-dump --memory >apart
	gg-dump --memory built >m
	[ "$(sed -n 's/^arena *//p' m)" = '64 bytes' ]
	[ "$(sed -n 's/^arena *//p' apart)" = '192 bytes' ]
	grep -q '^bound *64 bytes .* 3.000 of it' apart
	cat >if.gg <<-'EOF'
		input %c : bool[]
		input %x : f32[2]
		%y = If(%c; %x) {then_branch=graph(%a : f32[2]) {
		  %t = Relu(%a)
		  %u = Sigmoid(%t)
		  output %u
		}, else_branch=graph(%a : f32[2]) {
		  output %a
		}}
		output %y
	EOF
	gg-select --target=ref if.gg | gg-build --no-reuse | gg-dump --memory >m
	grep -A1 '^body then_branch' m | grep -q '^arena  *128 bytes'
	grep -A1 '^body else_branch' m | grep -q '^arena  *0 bytes'
}

@test "colour is for a terminal, on the output where the diff goes" {
	sed s/Sigmoid/Tanh/ g.gg >h.gg
	gg-dump --color=always --diff g.gg h.gg | grep -q $'\033'
	script -qec "TERM=xterm gg-dump --diff g.gg h.gg" /dev/null | grep -q $'\033'
	script -qec "TERM=xterm gg-dump --diff g.gg h.gg | cat >plain" /dev/null >/dev/null
	[ -s plain ]
	! grep -q $'\033' plain
}

@test "a format does not go with what is no graph" {
	for o in --stats --memory '--diff g.gg'; do
		run gg-dump --format=json $o g.gg
		[ "$status" = 2 ]
	done
}

@test "--extract cuts a part out" {
	gg-dump --extract=h..r g.gg >e
	[ "$(grep -c '^input' e)" = 1 ]
	grep -q '^input %h : f32\[2,4\]' e
	grep -q '^output %r' e
	! grep -q -e MatMul -e Sigmoid -e param e
	gg-dump e >/dev/null
	run gg-dump --extract=h..nope g.gg
	[ "$status" = 2 ]
	[[ $output == *"'nope'"* ]]
}

@test "--diff tells what differs, and by its status that it does" {
	sed s/Sigmoid/Tanh/ g.gg >h.gg
	run gg-dump --diff g.gg h.gg
	[ "$status" = 1 ]
	[ "${#lines[@]}" = 2 ]
	[[ ${lines[0]} == '- %y = Sigmoid(%r)'* && ${lines[1]} == '+ %y = Tanh(%r)'* ]]
	run gg-dump --diff g.gg g.gg
	[ "$status" = 0 ]
	[ -z "$output" ]
	run gg-dump --diff g.gg
	[ "$status" = 2 ]
}

# The last bytes of the file are opset_import {domain "", version}.
opset_of() {
	printf 'graph "g"\ninput %%x : %s[2]\n%%y = %s\noutput %%y\n' "$1" "$2" |
		gg-dump --format=onnx | tail -c 6 | od -An -tu1
}

@test "an ONNX file says an opset in which its ops have their dtypes" {
	[ "$(opset_of f32 'Celu(%x)')" = "  66   4  10   0  16  21" ]
	[ "$(opset_of f16 'Celu(%x)')" = "  66   4  10   0  16  28" ]
	[ "$(opset_of f16 'Elu(%x)')" = "  66   4  10   0  16  21" ]
	[ "$(opset_of bf16 'Elu(%x)')" = "  66   4  10   0  16  22" ]
	[ "$(opset_of bf16 'Relu(%x)')" = "  66   4  10   0  16  21" ]
	[ "$(opset_of f32 'Mod(%x, %x) {fmod=1}')" = "  66   4  10   0  16  21" ]
	[ "$(opset_of f32 'Mod(%x, %x)')" = "  66   4  10   0  16  28" ]
	[ "$(opset_of i32 'Mod(%x, %x)')" = "  66   4  10   0  16  21" ]
	[ "$(opset_of u8 'BitShift(%x, %x) {direction="LEFT"}')" = "  66   4  10   0  16  21" ]
	[ "$(opset_of i32 'BitShift(%x, %x) {direction="LEFT"}')" = "  66   4  10   0  16  28" ]
}

@test "formats and counts that are not known are usage errors" {
	run gg-dump --format=png g.gg
	[ "$status" = 2 ]
	run gg-dump --elide=x g.gg
	[ "$status" = 2 ]
	q='Attention(%q, %q, %q'
	for want in "23 $q)" "24 $q, _, _, _, %n)"; do
		printf 'graph "g"\ninput %%q : f32[1,2,3,4]\ninput %%n : i64[1]\n%%y = %s\noutput %%y\n' "${want#* }" |
			gg-dump --format=onnx | tail -c 1 | od -An -tu1 | grep -w "${want%% *}"
	done
}

@test "--stats of sizes beyond 2^63 says the most there is" {
	cat >big.gg <<-'END'
		input %x : f32[4611686018427387904]
		param %w : u8[9223372036854775807] = zeros
		param %v : u8[9223372036854775807] = zeros
		%y = Relu(%x)
		%z = Relu(%y)
		%r = Exp(%z)
		output %r
	END
	gg-dump --stats big.gg >s
	grep -qx 'parameters  2, 9223372036854775807 elements, 9223372036854775807 bytes' s
	grep -q '^flops  *9223372036854775807' s
	grep -q '^bytes  *9223372036854775807 written' s
}
