#!/usr/bin/env bats
# GraphKernel nodes: read, written, checked, run, taken apart.

setup() { cd "$BATS_TEST_TMPDIR"; }

softmax() { # twice the softmax, and its exponentials; N rows
	cat <<-'EOF'
	graph "g"
	input %x : f32[N,4]
	input %s : f32[4]
	%e, %y = GraphKernel(%x, %s) {body=graph(%x : f32[N,4], %s : f32[4]) {
	  const %two : f32[] = 2
	  const %axes : i64[1] = [1]
	  %m = Mul(%x, %s)
	  %e = Exp(%m)
	  %t = ReduceSum(%e, %axes)
	  %d = Div(%e, %t)
	  %y = Mul(%d, %two)
	  output %e
	  output %y
	}}
	%z = Neg(%y)
	output %e
	output %z
	EOF
}

@test "a GraphKernel goes through text, json and the stream as it is" {
	softmax | gg-parse - >g.gg
	gg-dump g.gg >text
	gg-dump text | cmp - text
	gg-dump --format=json g.gg | gg-parse --format=json | gg-dump | cmp - text
	gg-opt -O0 g.gg | gg-dump | grep -v ^history | cmp - text
	[ "$(grep -c 'f32\[N,1\]' text)" = 1 ]
}

@test "a body gives what numpy gives, whole and in plain ops, on every target that runs here" {
	softmax >g.gg
	/usr/bin/python3 - <<-'EOF'
	import numpy as np
	x = (np.arange(12, dtype=np.float32).reshape(3, 4) - 5) / 4
	s = np.array([1, -2, 0.5, 3], dtype=np.float32)
	e = np.exp(x.astype(np.float64) * s)
	np.save('x.npy', x)
	np.save('s.npy', s)
	np.save('e.npy', e.astype(np.float32))
	np.save('z.npy', (-2 * e / e.sum(1, keepdims=True)).astype(np.float32))
	EOF
	test='--input x=x.npy --input s=s.npy --expect e=e.npy --expect z=z.npy --rtol=1e-6 --atol=0'
	for target in ref cpu; do
		gg-run -q --target=$target $test g.gg
		gg-parse g.gg | gg-select --target=$target --layout=auto | gg-build | gg-run -q --poison $test
		gg-parse --bind N=3 g.gg | gg-select --target=$target | gg-build | gg-run -q $test
	done
	gg-dump --format=onnx g.gg | gg-parse - >plain.gg
	run bash -c "gg-dump plain.gg | grep GraphKernel"
	[ -z "$output" ]
	gg-run -q $test plain.gg
}

@test "a device without a kernel for it gets the body's nodes; others keep it whole" {
	softmax | gg-parse - | gg-select --target=cpu | gg-dump | grep 'GraphKernel<kernel='
	run bash -c "$(declare -f softmax); softmax | gg-parse - | gg-select --target=cuda | gg-dump"
	[[ $output != *GraphKernel* ]]
	[[ $output == *'%e = Exp<kernel=cuda'* ]]
	[[ $output == *'output %e'* ]]
}

@test "what a body gives twice, or hands through, keeps its declared name in plain ops" {
	cat >g.gg <<-'EOF'
	graph "g"
	input %x : f32[3]
	%a, %b, %c, %k = GraphKernel(%x) {body=graph(%x : f32[3]) {
	  const %one : f32[] = 1
	  %y = Add(%x, %one)
	  output %y
	  output %y
	  output %x
	  output %one
	}}
	output %a
	output %b
	output %c
	output %k
	EOF
	for target in ref cpu; do gg-run -q --target=$target --fill=range --outputs $target g.gg; done
	gg-parse g.gg | gg-select --target=cuda >plain.gg
	gg-dump plain.gg | grep -c '^output' | grep -qx 4
	gg-dump --format=onnx g.gg | gg-parse - | gg-run -q --fill=range --outputs back
	for f in ref/*.npy; do
		cmp "$f" "cpu/${f#ref/}"
		cmp "$f" "back/${f#ref/}"
	done
}

@test "bodies that are not closed or not pure are refused, and the node is named" {
	body() { # NODE
		printf 'graph "g"\ninput %%x : f32[3]\n%%y = GraphKernel(%%x) {body=graph(%%x : f32[3]) {\n'
		printf '  %s\n  output %%y\n}}\noutput %%y\n' "$1"
	}
	refused() { # MESSAGE
		run gg-dump g.gg
		echo "$output"
		[ "$status" = 3 ]
		[[ $output == *"$1"* ]]
	}
	body '%y = RandomNormal() {shape=[3]}' >g.gg
	refused "its body must be pure, but 'y' (RandomNormal) draws random numbers"
	body '%y = AllReduce(%x)' >g.gg
	refused "'y' (AllReduce) depends on more than its inputs"
	body 'param %p : f32[3] = ones
	%y = Add(%x, %p)' >g.gg
	refused "its body has a parameter, 'p'"
	body '%y = Identity(%x)' | sed 's/%y = GraphKernel(%x)/%y = GraphKernel(%x, %x)/' >g.gg
	refused "body has 1 inputs, expected 2"
}

@test "equal kernels are one, unread ones go, and what nobody reads in a body goes" {
	cat >g.gg <<-'EOF'
	graph "g"
	input %x : f32[3]
	%a = GraphKernel(%x) {body=graph(%x : f32[3]) {
	  %u = Neg(%x)
	  %y = Exp(%x)
	  output %y
	}}
	%b = GraphKernel(%x) {body=graph(%v : f32[3]) {
	  %w = Exp(%v)
	  output %w
	}}
	%c = GraphKernel(%x) {body=graph(%v : f32[3]) {
	  %w = Log(%v)
	  output %w
	}}
	%y = Add(%a, %b)
	output %y
	EOF
	run bash -c "gg-opt --pass=dead_code,cse g.gg | gg-dump"
	[ "$(grep -c GraphKernel <<<"$output")" = 1 ]
	[[ $output != *Neg* ]]
	[[ $output == *'Add(%a, %a)'* ]]
}

rms() { # twice a normalisation of rows that plain ops say, a product between them
	cat <<-'XX'
	graph "g"
	input %x : f32[N,48]
	param %w : f32[48,48] = normal(1, 0, 0.2)
	const %last : i64[1] = [-1]
	const %eps : f32[] = 0.001
	%q = Mul(%x, %x)
	%m = ReduceMean(%q, %last)
	%v = Add(%m, %eps)
	%r = Sqrt(%v)
	%n = Div(%x, %r)
	%p = MatMul(%n, %w)
	%c = Transpose(%p) {perm=[0, 1]}
	%a = Tanh(%c)
	%s = ReduceSum(%a, %last) {keepdims=0}
	%t = Unsqueeze(%s, %last)
	%d = Sub(%a, %t)
	%y = Sigmoid(%d)
	output %y
	output %s
	XX
}

@test "rows and what is made of them run as one kernel on cpu, whatever their number" {
	rms | gg-parse - | gg-select -q --target=cpu --layout=auto | gg-opt -q --pipeline=hardware,final,graph_kernel >k.gg
	[ "$(gg-dump k.gg | grep -c 'GraphKernel<kernel=cpu_graph_kernel_rows>')" = 2 ]
	gg-build -q k.gg >built.gg
	for n in 1 7 300 7; do
		gg-run -q --poison --compare=ref --shape x=$n,48 built.gg
		gg-run -q --threads=3 --compare=ref --shape x=$n,48 built.gg
	done
	rms | gg-opt -q --pipeline=graph_kernel | gg-select -q --target=cpu | gg-build -q | gg-run -q --compare=ref --shape x=9,48
}

@test "graph_kernel twice is graph_kernel once" {
	text() { gg-dump "$1" | sed '/^history/d; s/<id=[0-9]*>//g'; }
	rms | gg-opt -q --pipeline=graph_kernel >once.gg
	gg-opt -q --pipeline=graph_kernel once.gg >twice.gg
	diff <(text once.gg) <(text twice.gg)
}

@test "a kernel has at most 200 nodes" {
	{
		printf 'graph "g"\ninput %%v0 : f32[8]\n'
		for i in {1..401}; do echo "%v$i = Neg(%v$((i - 1)))"; done
		echo 'output %v401'
	} | gg-opt -q --pass=cluster,split --verify=1 | gg-dump >text
	[ "$(grep -c GraphKernel text)" = 2 ]
	[ "$(grep -c '^  %.*Neg' text)" = 400 ]
}

@test "gg-select says which bodies run node by node, and why" {
	body() { printf 'graph "g"\ninput %%x : f32[3]\n%%y = GraphKernel(%%x) {body=graph(%%x : f32[3]) {\n%s\noutput %%y\n}}\noutput %%y\n' "$1"; }
	body '%y = Sin(%x)' | gg-select --target=cpu 2>err | gg-run -q --compare=ref
	[ "$(cat err)" = "gg-select: <stdin>: note: node 'y' (GraphKernel): no kernel takes its body as it is (Sin): its nodes run one by one" ]
	body '%y = Neg(%x)' | gg-select --target=cpu 2>err >/dev/null
	[ ! -s err ]
}
