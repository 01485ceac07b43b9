#!/usr/bin/env bats
# What goes through the pipes, and what happens when a pipe breaks.

setup() {
	cd "$BATS_TEST_TMPDIR"
	passes=$BATS_TEST_DIRNAME/../../examples/passes
	cat >g.txt <<'END'
graph "g"
input %x : f32[N, 3]
const %c : f32[3] = [1, 2, 3]
const %w : f32[3] = normal(7, 0.1, 0.02)
%a = Add(%x, %c)
%b = Identity(%a)
%s = Sum(%b, %w, %a)
%e = LeakyRelu(%s) {alpha=0.3}
%y = Relu(%e)
output %y
END
	gg-opt -O0 g.txt >g.gg
}

# Without the header, in which each tool writes its line of history.
records() { gg-dump --format=json "$@" | tail -n +2; }

@test "a tool that changes nothing writes the same records" {
	gg-opt -O0 g.gg | gg-opt -O0 - >again.gg
	records g.gg >a
	records again.gg | cmp - a
	[ "$(gg-dump --format=json again.gg | jq -c 'select(.[0] == "gg") | .[1].history | length')" = 3 ]
	gg-opt -O0 g.gg >one
	gg-opt -O0 <g.gg | cmp - one
	cat g.gg | gg-opt -O0 | cmp - one
}

@test "graphs follow one another" {
	cat g.gg g.gg | gg-opt -O0 >two.gg
	[ "$(gg-dump --format=json two.gg | grep -c '^."end"')" = 2 ]
}

@test "the history has options, but no file names" {
	gg-opt -O0 --skip=cse -o o.gg g.gg
	[ "$(gg-dump --format=json o.gg | jq -c '.[1].history[-1] | [.[0], .[2:]]' | head -1)" = \
		'["gg-opt",["-O0","--skip=cse"]]' ]
}

@test "--bind puts a number where a symbol was" {
	gg-opt -O0 --bind=N=4 g.gg >b.gg
	[ "$(gg-dump --format=json b.gg | jq -c 'select(.[1].name == "y") | .[1].shape')" = '[4,3]' ]
	run gg-opt -O0 --bind=N g.gg
	[ "$status" = 2 ]
	run gg-opt -O0 --bind=M=4 -o m.gg g.gg
	[ "$status" = 0 ]
	[[ $output == *"no dim is named 'M'"* ]]
}

@test "a stream that ends early fails in every tool" {
	size=$(wc -c <g.gg)
	for cut in 0 1 100 $((size / 2)) $((size - 1)); do
		head -c $cut g.gg >cut.gg
		for tool in "gg-opt" "gg-select --target=ref" "gg-build" "gg-dump" "gg-run --target=ref"; do
			run $tool cut.gg
			[ "$status" = 3 ]
			[ "${#lines[@]}" = 1 ]
			[[ $output == *"the tool before this one failed"* ]]
		done
	done
}

@test "the tool before this one failed" {
	run bash -c 'false | gg-opt'
	[ "$status" = 3 ]
	[ "$output" = "gg-opt: <stdin>: the input is empty: the tool before this one failed" ]
	echo broken >broken.onnx
	run bash -c 'set -o pipefail; gg-parse --format=onnx broken.onnx | gg-opt | gg-run; echo "${PIPESTATUS[*]}"'
	[[ $output == *"3 3 3" ]]
}

@test "a changed byte is noticed" {
	/usr/bin/python3 - <<'END'
data = bytearray(open("g.gg", "rb").read())
data[len(data) // 2] ^= 1
open("bad.gg", "wb").write(data)
END
	run gg-opt bad.gg
	[ "$status" = 3 ] || [ "$status" = 4 ]
	[ "${#lines[@]}" = 1 ]
}

@test "stdout is full" {
	for tool in "gg-opt" "gg-select --target=ref" "gg-dump" "gg-dump --stats" "gg-dump --help" "gg-opt --list" \
		"gg-opt --version" "gg-run --target=ref --bind=N=2"; do
		run bash -c "$tool g.gg >/dev/full"
		[ "$status" = 5 ]
		[[ $output == *"cannot write '<stdout>': No space left on device"* ]]
	done
}

@test "the reader has gone: no message" {
	for i in $(seq 5000); do echo "%v$i = Relu(%x)"; done >many
	{ echo 'graph "m"'; echo 'input %x : f32[3]'; cat many; echo 'output %x'; } >many.txt
	run bash -c 'gg-opt -O0 many.txt | true; echo "${PIPESTATUS[0]}"'
	[ "$output" = 141 ]
	run bash -c 'trap "" PIPE; gg-dump many.txt | true; echo "${PIPESTATUS[0]}"'
	[ "$output" = 141 ]
}

@test "a device that has no end is no graph, a terminal and /dev/null are as they were" {
	for device in /dev/zero /dev/urandom; do
		for tool in "gg-dump" "gg-parse --format=json" "gg-run --load-state $device g.txt"; do
			run timeout 20 $tool $device
			[ "$status" = 3 ] || [[ $tool == *load-state* ]]
			run timeout 20 $tool <$device
			[ "$status" = 3 ]
			[[ $output == *"cannot read "*": it is a device without an end" ]]
		done
	done
	run gg-dump /dev/null
	[[ $output == *"the input is empty"* ]]
}

@test "-o writes whole or not at all" {
	echo old >out.gg
	run gg-opt nosuch.gg -o out.gg
	[ "$status" = 3 ]
	[ "$(cat out.gg)" = old ]
	run bash -c 'head -c 200 g.gg | cat g.gg - | gg-opt -o out.gg'
	[ "$status" = 3 ]
	[ "$(cat out.gg)" = old ]
	gg-opt -O0 g.gg -o out.gg
	gg-opt -O0 g.gg | cmp - out.gg
	ln -s out.gg link.gg
	gg-opt -O0 g.txt -o link.gg
	[ -L link.gg ]
	run gg-opt -O0 g.gg -o nosuch/out.gg
	[ "$status" = 5 ]
	run gg-opt -O0 g.gg -o /dev/full
	[ "$status" = 5 ]
	gg-opt -O0 g.gg -o /dev/null
	[ -z "$(ls | grep 'out.gg.')" ]
	gg-opt -O0 out.gg -o out.gg # onto its own input
	gg-dump out.gg >/dev/null
}

@test "-o under a limit on file sizes: as on a full disk" {
	printf 'param %%w : f32[500] = [%s]\n%%y = Relu(%%w)\noutput %%y\n' "$(seq -s, 500)" >w.gg
	run bash -c 'ulimit -f 1; gg-parse w.gg -o big.gg'
	[ "$status" -eq 5 ]
	[ "$output" = "gg-parse: cannot write 'big.gg': File too large" ]
	! ls big.gg*
}

@test "no binary on a terminal" {
	run script -qec "gg-opt -O0 g.gg" /dev/null
	[ "$status" = 2 ]
	[[ $output == *"not written to a terminal"* ]]
}

@test "options" {
	run gg-opt --nosuch
	[ "$status" = 2 ]
	[ "$output" = "gg-opt: unknown option '--nosuch' (see gg-opt --help)" ]
	run gg-opt -Z
	[ "$status" = 2 ]
	run gg-opt --skip
	[ "$status" = 2 ]
	run gg-opt --quiet=1
	[ "$status" = 2 ]
	run gg-opt --color=red g.gg
	[ "$status" = 2 ]
	gg-opt -O0 g.gg >a
	gg-opt -qvO0 -oc g.gg
	gg-opt -O0 -- g.gg | cmp - a
	cmp a c
	gg-opt -O0 --output c <g.gg
	cmp a c
	for tool in gg-parse gg-opt gg-select gg-build gg-run gg-dump; do
		run $tool --help
		[ "$status" = 0 ]
		[[ $output == "usage: $tool"*examples:* ]]
		run $tool --version
		[ "$status" = 0 ]
		[[ $output == "$tool "*"stream version 1"* ]]
	done
}

@test "unknown keys and records pass through" {
	gg-dump --format=json g.gg | jq -c '
		if .[0] == "node" then .[1].cost = 2 else . end,
		(select(.[0] == "node") | ["remark", {id: .[1].id, text: .[1].op}])' |
		gg-parse --format=json | gg-opt --pass=identity >k.gg
	[ "$(gg-dump --format=json k.gg | grep -c '^."remark"')" = 4 ]
	[ "$(gg-dump --format=json k.gg | grep -c '"cost":2')" = 4 ]
	run bash -c 'gg-opt -O0 k.gg | gg-opt --pass=identity -o k2.gg'
	[ -z "$output" ]
}

@test "JSON and back is the same stream" {
	gg-dump --format=json g.gg | gg-parse --format=json >back.gg
	records g.gg >a
	records back.gg | cmp - a
	gg-dump --format=json g.gg | jq . | gg-parse --format=json >back.gg
	records back.gg | cmp - a
	run bash -c 'gg-dump --format=json g.gg | head -n -1 | gg-parse --format=json'
	[ "$status" = 3 ]
	[[ $output == *"line "*"stream ends after"* ]]
}

@test "a pass in Python" {
	gg-opt -O0 g.gg | /usr/bin/python3 "$passes/no_identity.py" | gg-opt -O0 >p.gg
	run gg-dump p.gg
	[[ $output == *Add* && $output != *Identity* && $output == *"normal(7, 0.1, 0.02)"* ]]
	gg-run --target=ref --bind=N=2 --seed=1 --print=y g.gg >a
	gg-run --target=ref --bind=N=2 --seed=1 --print=y p.gg | cmp - a
	run bash -c "false | /usr/bin/python3 $passes/no_identity.py | gg-opt"
	[ "$status" = 3 ]
	run bash -c "head -c 300 g.gg | /usr/bin/python3 $passes/no_identity.py | wc -c"
	[[ $output == *"ends early"*0 ]]
}

@test "a pass in shell" {
	"$passes/leaky.sh" 0.5 <g.gg >p.gg
	run gg-dump p.gg
	[[ $output == *"alpha=0.5"* && $output == *"alpha=0.3"* && $output != *" Relu("* ]]
	run bash -c "head -c 300 g.gg | $passes/leaky.sh"
	[ "$status" = 3 ]
}

@test "weights in files: --weights, --allow-outside, and files that are not what they were" {
	mkdir w other
	printf '\0\0\200\077\0\0\0\100\0\0\100\100' >w/c.bin # 1 2 3
	cat >f.txt <<'END'
graph "f"
base "w"
input %x : f32[3]
param %c : f32[3] = file("c.bin")
%y = Add(%x, %c)
output %y
END
	gg-opt -O0 f.txt -o f.gg
	one() { gg-run --target=ref --fill=zeros -q --print=y "$@"; }
	[ "$(one f.gg)" = $'0\t1\t2\t3' ]
	mv w/c.bin other/
	run one f.gg
	[ "$status" = 3 ]
	[[ $output == *"'c'"*"'c.bin'"* ]]
	one --weights=other f.gg
	one --weights other f.txt
	gg-opt -O0 --weights=other f.gg >moved.gg # never opened here
	mv other/c.bin w/
	printf more >>w/c.bin
	run one f.gg
	[ "$status" = 3 ]
	[[ $output == *"has changed"* ]]
	: >w/c.bin
	run one f.gg
	[ "$status" = 3 ]
	sed 's|c.bin|../other/c.bin|' f.txt >out.txt
	printf '\0\0\200\077\0\0\0\100\0\0\100\100' >other/c.bin
	run one out.txt
	[ "$status" = 3 ]
	[[ $output == *"outside"* ]]
	one --allow-outside out.txt
}
