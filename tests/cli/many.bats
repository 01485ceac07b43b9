#!/usr/bin/env bats
# Graphs of odd form and many parts: what is quadratic in one of them does not end in time.

bats_require_minimum_version 1.5.0

setup() {
	cd "$BATS_TEST_TMPDIR"
	printf 'graph "g"\ninput %%c : bool[]\ninput %%x : f32[2]\n' >g.gg
}

# lines N FORMAT [AWK-EXPRESSION...]: for i from 1 to N
lines() {
	local n=$1 format=$2
	shift 2
	local args=i
	[ $# = 0 ] || args=$(printf ', %s' "$@") args=${args#, }
	awk "BEGIN { for (i = 1; i <= $n; i++) printf \"$format\", $args }" >>g.gg
}

@test "20000 Ifs whose bodies use the same names, to ONNX and back" {
	lines 20000 '%%v%d = If(%%c; %%x) {then_branch=graph(%%a : f32[2]) {\n%%t = Neg(%%a)\noutput %%t\n}, else_branch=graph(%%a : f32[2]) {\noutput %%a\n}} : f32[2]\noutput %%v%d\n' i i
	timeout 30 gg-dump --format=onnx -o g.onnx g.gg
	timeout 30 gg-parse g.onnx | gg-dump --stats | grep -q '^nodes *60000$'
}

@test "a node with 50000 captures, to ONNX and back" {
	lines 50000 '%%v%d = Abs(%%x)\n'
	{
		seq -s, 50000 | sed 's/[0-9][0-9]*/%v&/g; s/^/%y = If(%c; /; s/$/) {then_branch=graph(/'
		seq -s, 50000 | sed 's/[0-9][0-9]*/%v& : f32[2]/g'
		printf ') {\n'
	} >>g.gg
	lines 50000 '%%w%d = Add(%%v%d, %%v1)\noutput %%w%d\n' i i i
	sed -i '/output %w/d' g.gg
	{
		seq -s, 50000 | sed 's/[0-9][0-9]*/%w&/g; s/^/%s = Concat(/; s/$/) {axis=0}/'
		printf 'output %%s\n}, else_branch=graph('
		seq -s, 50000 | sed 's/[0-9][0-9]*/%v& : f32[2]/g'
		printf ') {\noutput %%v1\n}} : f32[*]\noutput %%y\n'
	} >>g.gg
	timeout 30 gg-dump --format=onnx -o g.onnx g.gg
	timeout 30 gg-parse g.onnx >p.gg
}

@test "100000 outputs, 100000 states and a Concat of 100000: written, run, saved" {
	lines 100000 'param %%p%d : f32[] = %d\n%%v%d = Add(%%p%d, %%p%d)\noutput %%v%d\nstate %%p%d <- %%v%d\n' i i i i i i i i
	seq -s, 100000 | sed 's/[0-9][0-9]*/%r&/g; s/^/%y = Concat(/; s/$/) {axis=0}\noutput %y/' >tail
	lines 100000 '%%r%d = Reshape(%%v%d, %%one)\n' i i
	sed -i '2i const %one : i64[1] = [1]' g.gg
	cat tail >>g.gg
	for target in ref cpu; do
		timeout 60 gg-run -q --target=$target --output y=y.npy --save s.gg g.gg
		/usr/bin/python3 -c "import numpy as np; assert (np.load('y.npy') == 2 * np.arange(1, 100001)).all()"
	done
	timeout 60 gg-run -q --load-state s.gg --output y=y.npy g.gg
	/usr/bin/python3 -c "import numpy as np; assert (np.load('y.npy') == 4 * np.arange(1, 100001)).all()"
	sed /^state/d g.gg | timeout 30 gg-dump --format=onnx -o g.onnx
}

@test "40000 inputs with a symbol each" {
	printf 'graph "g"\n' >g.gg
	lines 40000 'input %%x%d : f32[N%d]\n' i i
	lines 40000 '%%y%d = Neg(%%x%d)\noutput %%y%d\n' i i i
	timeout 30 gg-dump --format=onnx -o g.onnx g.gg
	timeout 30 gg-parse g.onnx >p.gg
	timeout 60 gg-run -q --target=ref p.gg >log
	[ "$(wc -l <log)" = 40000 ]
}

@test "a node behind 50000 others" {
	lines 50000 '%%v%d = Abs(%%x)\n'
	seq -s, 50000 | sed 's/[0-9][0-9]*/%v&/g; s/^/%y = Neg<after=[/; s/$/]>(%x)\noutput %y/' >>g.gg
	timeout 30 gg-parse g.gg | timeout 30 gg-dump >p.gg
	[ "$(grep -o '%v[0-9]*' p.gg | sort -u | wc -l)" = 50000 ]
}
