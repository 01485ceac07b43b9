#!/usr/bin/env bats
# Graphs on which passes like ours have gone wrong elsewhere: what comes out is what the plain graph gives.
# tests/hazards.sh has the whole list.

setup() { cd "$BATS_TEST_TMPDIR"; }

# same GRAPH STEPS GG-OPT-OPTION...: outputs and state after some steps, on ref, with and without the passes
same() {
	local graph=$1 steps=$2 out
	shift 2
	rm -rf want got
	gg-run -q --target=ref --steps="$steps" --fill=normal --outputs want "$graph"
	gg-opt --check=all "$@" "$graph" | gg-run -q --target=ref --steps="$steps" --fill=normal --outputs got -
	for out in want/*.npy; do
		cmp "$out" "got/${out#want/}"
	done
}

@test "hazard 1: Nesterov with any momentum fusion" {
	for g in 'Mul(%d, %k)' 'Add(%wd, %d)' 'Mul(%both, %k)'; do
		cat >g.gg <<-EOF
		input %d : f32[3]
		param %w : f32[3] = [1, 2, 3]
		param %a : f32[3] = zeros
		const %lr : f32[] = 0.1
		const %mom : f32[] = 0.9
		const %k : f32[] = 0.5
		%wd = Mul(%w, %k)
		%both = Add(%wd, %d)
		%g = $g
		%w1, %a1 = ApplyMomentum(%w, %a, %lr, %g, %mom) {use_nesterov=1}
		output %w1
		state %w <- %w1
		state %a <- %a1
		EOF
		same g.gg 3 --pass=dead_code --pipeline=optimize
	done
}

@test "hazard 6: a fused forward pass keeps the gradient of the plain one" {
	cat >g.gg <<-'EOF'
	graph "g"
	input %x : f32[2,4,5]
	param %w : f32[4,4,3] = normal(1, 0, 1)
	param %s : f32[4] = [1, 2, 0.5, 1]
	param %b : f32[4] = [0.5, 0, -1, 0]
	param %m : f32[4] = zeros
	param %v : f32[4] = ones
	param %s0 : f32[4] = [1, 2, 0.5, 1]
	param %b0 : f32[4] = zeros
	param %m0 : f32[4] = zeros
	param %v0 : f32[4] = ones
	%c0 = Conv(%x, %w) {pads=[1, 1]}
	%n0 = BatchNormalization(%c0, %s0, %b0, %m0, %v0)
	%y0 = Relu(%n0)
	%c = Conv(%y0, %w) {pads=[1, 1]}
	%n = BatchNormalization(%c, %s, %b, %m, %v)
	%a = Add(%n, %x)
	%y = Relu(%a)
	output %y
	EOF
	train=loss:kind=mse:target=t,grad,sgd:lr=0.1
	gg-opt --pass=$train g.gg >plain.gg
	gg-run -q --steps=3 --target=ref --fill=normal --output loss=want.npy plain.gg
	for fuse in bn_add_relu bn_relu relu_v2 bn_relu_grad bn_add_relu_grad bn_relu,bn_relu_grad \
		bn_add_relu,bn_add_relu_grad bn_relu,bn_add_relu_grad bn_add_relu,bn_relu_grad; do
		gg-opt --pass=$train,$fuse g.gg >after.gg
		gg-opt --pass=$fuse,$train,$fuse g.gg >before.gg
		for f in after before; do
			gg-run -q --steps=3 --target=ref --fill=normal --rtol=1e-5 --expect loss=want.npy $f.gg
		done
	done
}

@test "hazard 7: one picture whose height, width or channels are 1, in any layout" {
	for x in 1,4,1,6 1,4,6,1 1,1,4,6 1,4,1,1 1,1,1,6 2,4,1,6; do
		c=${x#*,}
		cat >g.gg <<-EOF
		input %x : f32[$x]
		param %w : f32[3,${c%%,*},1,1] = normal(1, 0, 1)
		%c = Conv(%x, %w)
		%s = Softmax(%c) {axis=1}
		%r = ReduceMax(%c)
		output %s
		output %r
		output %c
		EOF
		rm -rf want
		gg-run -q --target=ref --fill=range --outputs want g.gg
		for layout in keep nchw nhwc auto; do
			gg-select --target=cpu --layout=$layout g.gg | gg-opt --pipeline=hardware,final |
				gg-run -q --fill=range --rtol=1e-4 --expect s=want/output_0.npy --expect r=want/output_1.npy \
					--expect c=want/output_2.npy
		done
	done
}

@test "hazard 15: a single AllReduce, one that is an output, and one that feeds another" {
	head='input %x : f32[6]'
	printf '%s\n' "$head" '%y = AllReduce(%x) {fusion=1}' 'output %y' >single.gg
	printf '%s\n' "$head" '%a = AllReduce(%x) {fusion=1}' '%n = Neg(%x)' '%b = AllReduce(%n) {fusion=1}' 'output %a' 'output %b' >output.gg
	printf '%s\n' "$head" '%a = AllReduce(%x) {fusion=1}' '%b = AllReduce(%a) {fusion=1}' '%c = Add(%a, %b)' 'output %c' >chain.gg
	for g in single output chain; do
		rm -rf want got
		gg-run -q --target=ref --world=3 --fill=range --outputs want $g.gg
		gg-opt --pipeline=optimize,hardware,final --check=all $g.gg | gg-run -q --target=ref --world=3 --fill=range --outputs got
		diff -r want got
	done
}

@test "hazard 18: views as outputs, in chains, and nothing but views" {
	cat >g.gg <<-'EOF'
	input %x : f32[2,6]
	const %s : i64[2] = [3, 4]
	const %t : i64[1] = [12]
	%a = Reshape(%x, %s)
	%b = Reshape(%a, %t)
	%c = Identity(%b)
	output %a
	output %c
	EOF
	{ sed '/^output/d' g.gg; printf '%s\n' '%n = Neg(%c)' '%z = Reshape(%n, %s)' 'output %z' 'output %n' 'output %b'; } >h.gg
	for g in g h; do
		same $g.gg 2
		same $g.gg 2 --pipeline=common,inference,optimize,hardware,final
		gg-select --target=cpu $g.gg | gg-opt --pipeline=hardware,final | gg-build | gg-run -q --poison --steps=2 --fill=normal --outputs cpu
		gg-run -q --target=ref --steps=2 --fill=normal --outputs want $g.gg
		diff -r want cpu
	done
}

@test "hazard 23: a weight that a convolution and others read, in two layouts" {
	cat >g.gg <<-'EOF'
	graph "g"
	input %x : f32[1,8,6,6]
	param %w : f32[8,8,3,3] = normal(1, 0, 1)
	const %lr : f32[] = 0.001
	%a = Conv(%x, %w) {pads=[1, 1, 1, 1]}
	%b = MaxPool(%w) {kernel_shape=[2, 2]}
	%t = Transpose(%w) {perm=[1, 0, 2, 3]}
	%c = Conv(%a, %t) {pads=[1, 1, 1, 1]}
	%d = ReduceMean(%c)
	%u = Mul(%w, %lr)
	%w1 = Sub(%w, %u)
	output %c
	output %b
	state %w <- %w1
	EOF
	gg-run -q --target=ref --steps=2 --fill=normal --outputs want --save ref.gg g.gg
	gg-dump ref.gg >want.txt
	for layout in nchw nhwc auto; do
		gg-select --target=cpu --layout=$layout g.gg | gg-opt --pipeline=hardware,final >s.gg
		rm -rf got && mkdir got
		gg-run -q --steps=2 --fill=normal --rtol=1e-3 --atol=1e-3 --expect c=want/output_0.npy --expect b=want/output_1.npy s.gg
	done
}
