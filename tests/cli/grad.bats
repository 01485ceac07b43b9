#!/usr/bin/env bats
# The primitive gradient ops: their kernels and their plain forms agree.

setup() { cd "$BATS_TEST_TMPDIR"; }

# plain OP TEXT: TEXT is a graph with outputs; the ONNX export has plain ops alone
plain() {
	echo "$2" >g.gg
	gg-dump --format=onnx g.gg | gg-parse - >plain.gg
	run bash -c "gg-dump plain.gg | grep '$1('"
	[ -z "$output" ]
	rm -rf want got
	gg-run -q --target=ref --fill=normal --outputs want g.gg
	gg-run -q --target=ref --fill=normal --outputs got plain.gg
	/usr/bin/python3 - <<-'END'
	import glob, numpy as np
	names = sorted(glob.glob('want/*.npy'))
	assert names
	for f in names:
	    a, b = np.load(f), np.load(f.replace('want', 'got'))
	    assert a.shape == b.shape and a.dtype == b.dtype, (f, a.shape, b.shape)
	    np.testing.assert_allclose(a, b, 1e-10, 1e-12, err_msg=f)
	END
}

@test "ConvInputGrad and ConvWeightGrad in plain ops" {
	while IFS='|' read -r x w dy attrs; do
		dims="f64[$x]"
		plain ConvInputGrad "input %dy : f64[$dy]
input %w : f64[$w]
const %s : i64[$(echo "$x" | awk -F, '{print NF}')] = [$x]
%r = ConvInputGrad(%dy, %w, %s) {$attrs}
output %r"
		plain ConvWeightGrad "input %dy : f64[$dy]
input %x : $dims
const %s : i64[$(echo "$w" | awk -F, '{print NF}')] = [$w]
%r = ConvWeightGrad(%dy, %x, %s) {$attrs}
output %r"
	done <<-'END'
	2,3,7,6|4,3,3,2|2,4,4,6|strides=[2,1], pads=[1,0,2,1]
	2,2,9|3,2,2|2,3,3|strides=[3], dilations=[2], pads=[1,1]
	2,4,7|6,2,3|2,6,3|group=2, strides=[2]
	1,4,5,4|4,1,3,3|1,4,5,4|group=4, auto_pad="SAME_LOWER"
	1,2,3,4,3|2,2,2,2,2|1,2,2,4,3|auto_pad="SAME_UPPER", strides=[2,1,1]
	1,1,1,1|1,1,1,1|1,1,1,1|
	END
}

@test "BatchNormGrad, alone and behind a Relu, in plain ops" {
	for x in 4,3,2,2 4,3; do
		for mode in '' ', %m, %v'; do
			head="input %dy : f64[$x]
input %y : f64[$x]
input %x : f64[$x]
input %s : f64[3]
input %m : f64[3]
const %v : f64[3] = [1, 2, 0.5]"
			attrs="{training_mode=$([ -z "$mode" ] && echo 1 || echo 0), epsilon=0.01}"
			plain BatchNormGrad "$head
%r, %p, %q = BatchNormGrad(%dy, %x, %s$mode) $attrs
output %r
output %p
output %q"
			plain BatchNormReluGrad "$head
%r, %p, %q = BatchNormReluGrad(%dy, %y, %x, %s$mode) $attrs
output %r
output %p
output %q"
			plain BatchNormAddReluGrad "$head
%r, %p, %q, %z = BatchNormAddReluGrad(%dy, %y, %x, %s$mode) $attrs
output %r
output %p
output %q
output %z"
		done
	done
}

@test "MaxPoolGrad and AveragePoolGrad in plain ops" {
	while IFS='|' read -r x dy attrs; do
		plain MaxPoolGrad "input %dy : f64[$dy]
input %x : f64[$x]
%r = MaxPoolGrad(%dy, %x) {$attrs}
output %r"
		[[ $attrs == *ceil* ]] || for pads in 0 1; do
			plain AveragePoolGrad "input %dy : f64[$dy]
const %s : i64[$(echo "$x" | awk -F, '{print NF}')] = [$x]
%r = AveragePoolGrad(%dy, %s) {$attrs, count_include_pad=$pads}
output %r"
		done
	done <<-'END'
	2,3,5,6|2,3,3,6|kernel_shape=[3,2], strides=[2,1], pads=[1,0,1,1]
	1,2,7|1,2,3|kernel_shape=[3], strides=[3], pads=[1,1]
	1,2,8|1,2,2|kernel_shape=[3], strides=[2], dilations=[2]
	1,1,8|1,1,4|kernel_shape=[3], strides=[2], ceil_mode=1
	1,2,3,4,3|1,2,2,4,3|kernel_shape=[2,2,1], strides=[2,1,1], auto_pad="SAME_UPPER"
	END
}

@test "LayerNormGrad, SoftmaxGrad and LogSoftmaxGrad in plain ops" {
	while IFS='|' read -r x s axis; do
		plain LayerNormGrad "input %dy : f64[$x]
input %x : f64[$x]
input %s : f64[$s]
%r, %p, %q = LayerNormGrad(%dy, %x, %s) {axis=$axis, epsilon=0.01}
output %r
output %p
output %q"
		for op in SoftmaxGrad LogSoftmaxGrad; do
			plain $op "input %dy : f64[$x]
input %y : f64[$x]
%r = $op(%dy, %y) {axis=$axis}
output %r"
		done
	done <<-'END'
	3,5|5|-1
	2,3,4|3,4|1
	2,3,4|3,1|-2
	2,1,4|1|0
	END
}

@test "a gradient that plain ops cannot say has no ONNX form" {
	run gg-dump --format=onnx -o g.onnx <<-'END'
		input %dy : f32[1,1,4]
		const %s : i64[3] = [1, 1, 8]
		%r = AveragePoolGrad(%dy, %s) {kernel_shape=[3], strides=[2], ceil_mode=1}
		output %r
	END
	[ "$status" = 4 ]
	[[ $output == *"node 'r' (AveragePoolGrad): ONNX has no form for it" ]]
}

@test "ResizeGrad in plain ops; a long axis has no matrix" {
	while IFS='|' read -r x dy lists attrs; do
		plain ResizeGrad "input %dy : f64[$dy]
const %f : f32[2] = [1.7, 0.5]
const %i : i64[2] = [5, 2]
const %s : i64[4] = [$x]
%r = ResizeGrad(%dy, $lists, %s) {axes=[2,3], $attrs}
output %r"
	done <<-'END'
	2,3,3,5|2,3,5,2|_, %f, _|mode="linear", coordinate_transformation_mode="asymmetric"
	2,3,3,5|2,3,5,2|_, _, %i|mode="cubic", antialias=1, exclude_outside=1
	2,3,3,5|2,3,5,2|_, %f, _|nearest_mode="ceil"
	2,3,5,2|2,3,5,2|_, _, %i|mode="linear"
	END
	cat >long.gg <<-'END'
		input %x : f32[1,1,100000]
		const %s : f32[3] = [1, 1, 1.5]
		param %w : f32[] = 2
		%h = Mul(%x, %w)
		%y = Resize(%h, _, %s) {mode="linear"}
		%m = ReduceSum(%y) {keepdims=0}
		output %m
	END
	gg-opt --pass=grad:of=m:outputs=1 -o g.gg long.gg
	for target in ref cpu; do
		gg-run -q --target=$target --fill=ones --output grad.w=w.npy g.gg
		/usr/bin/python3 -c 'import numpy as np; assert abs(np.load("w.npy") / 150000 - 1) < 1e-5, np.load("w.npy")'
	done
	run gg-dump --format=onnx -o long.onnx g.gg
	[ "$status" = 4 ]
	[[ $output == *"(ResizeGrad): ONNX has no form for it" ]]
}

@test "what does not fit is said" {
	g() { printf 'input %%dy : f32[%s]\ninput %%w : f32[4,3,3]\nconst %%s : i64[%s] = [%s]\n%%r = ConvInputGrad(%%dy, %%w, %%s)\noutput %%r\n' "$1" "$2" "$3"; }
	run bash -c "$(declare -f g); g 2,4,5 3 2,3,8 | gg-dump"
	[ "$status" = 3 ]
	[[ $output == *"dy has shape [2,4,5], the convolution's is [2,4,6]"* ]]
	run bash -c "$(declare -f g); g 2,4,5 2 2,3 | gg-dump"
	[ "$status" = 3 ]
	[[ $output == *"the shape has 2 dims, expected 3"* ]]
	run bash -c "$(declare -f g); g 2,4,5 3 2,3,-7 | gg-dump"
	[ "$status" = 3 ]
	[[ $output == *"the shape has a dim of -7"* ]]
	run gg-dump <<-'END'
		input %dy : f32[1,2,4,4]
		input %x : f32[1,2,3,3]
		input %g : f32[1,4,5,2]
		%r, %h = GridSampleGrad(%dy, %x, %g)
		output %r
		output %h
	END
	[ "$status" = 3 ]
	[[ $output == *"dy has shape [1,2,4,4], the sample's is [1,2,4,5]"* ]]
}

@test "a gradient of the gradient of a grid: named, and the way to the loss" {
	cat >g.gg <<-'END'
		param %x : f64[1,1,3,3] = normal(1, 0, 1)
		param %g : f64[1,2,2,2] = normal(2, 0, 0.5)
		param %d : f64[1,1,2,2] = ones
		%r, %h = GridSampleGrad(%d, %x, %g)
		%loss = ReduceSum(%h) {keepdims=0}
		output %loss
	END
	run gg-opt --pass=grad g.gg
	[ "$status" = 4 ]
	[[ $output == *"no gradient through its output 1, on the way to the loss: GridSampleGrad"*"ReduceSum 'loss'"* ]]
}
