#!/usr/bin/env bats
# Fusions after selection: equal to the unfused graph, and to numpy, fused and expanded again.

setup() { cd "$BATS_TEST_TMPDIR"; }

# same GRAPH PASSES OP: bit for bit, on ref and, expanded, through ONNX
same() {
	gg-run -q --target=ref --outputs want "$1"
	gg-opt --pass="$2" --check=all "$1" >fused.gg
	gg-dump fused.gg | grep -q "$3("
	gg-run -q --target=ref --outputs got fused.gg
	gg-run -q --target=cpu --outputs mixed fused.gg
	for f in want/*.npy; do
		cmp "$f" "got/${f#want/}"
	done
	grep -q '^state' "$1" && return # ONNX has no form for it
	gg-dump --format=onnx fused.gg | gg-parse - >plain.gg
	run bash -c "gg-dump plain.gg | grep '$3('"
	[ -z "$output" ]
	gg-run -q --target=ref --outputs back plain.gg
	for f in want/*.npy; do
		cmp "$f" "back/${f#want/}"
	done
}

@test "bn_add_relu and post_bn_add_relu, in inference and training, f32 and f16" {
	for t in f32 f16; do
		for mode in 0 1; do
			outs=$([ $mode = 1 ] && echo '%n, %rm, %rv' || echo '%n')
			cat >g.gg <<-EOF
			input %x : $t[2,3,5]
			input %z : $t[2,3,5]
			param %s : $t[3] = [1, 2, 0.5]
			param %b : $t[3] = [0.5, 0, -1]
			param %m : $t[3] = [0, 1, 0]
			param %v : $t[3] = [1, 2, 3]
			$outs = BatchNormalization(%x, %s, %b, %m, %v) {training_mode=$mode}
			%a = Add(%n, %z)
			%y = Relu(%a)
			output %y
			EOF
			[ $mode = 0 ] || printf '%s\n' 'state %m <- %rm' 'state %v <- %rv' >>g.gg
			same g.gg bn_add_relu BatchNormAddRelu
			sed 's/Add(%n, %z)/Add(%z, %n)/' g.gg >h.gg
			same h.gg post_bn_add_relu BatchNormAddRelu
		done
	done
}

@test "relu_v2, add_relu_v2 and add_relu_grad_v2, at awkward sizes" {
	for s in '[]' '[1]' '[31]' '[32]' '[33]' '[5,7]' '[0,3]'; do
		for t in f32 f16 f64; do
			cat >g.gg <<-EOF
			input %x : $t$s
			input %b : $t$s
			input %dy : $t$s
			%a = Add(%x, %b)
			%y = Relu(%a)
			%d = Add(%dy, %y)
			%dx = ReluGrad(%d, %y)
			output %y
			output %dx
			EOF
			if [ "$s" = '[0,3]' ]; then
				gg-opt --pass=relu_v2,add_relu_v2,add_relu_grad_v2 g.gg | gg-run -q --target=ref >/dev/null
				continue
			fi
			same g.gg relu_v2 ReluV2
			same g.gg relu_v2,add_relu_v2,add_relu_grad_v2 AddReluV2
		done
	done
}

@test "the mask is one bit an element, 32 a word; NaN and -0 have none" {
	cat >g.gg <<-'EOF'
	input %x : f32[2,20]
	%y, %m = ReluV2(%x)
	%dx = ReluGradV2(%x, %m)
	%z, %k = AddReluV2(%x, %x)
	%dz = AddReluGradV2(%x, %x, %m)
	output %y
	output %m
	output %dx
	output %z
	output %k
	output %dz
	EOF
	/usr/bin/python3 - <<-'EOF'
	import numpy as np
	x = np.random.RandomState(1).randn(2, 20).astype('f4')
	x[0, :4] = [np.nan, -0.0, 0.0, np.inf]
	np.save('x.npy', x)
	EOF
	gg-run -q --target=ref --input x=x.npy --outputs out g.gg
	/usr/bin/python3 - <<-'EOF'
	import numpy as np
	x = np.load('x.npy')
	y, m, dx, z, k, dz = [np.load(f'out/output_{i}.npy') for i in range(6)]
	bits = np.packbits(np.pad((x > 0).reshape(-1), (0, 24)), bitorder='little').view('<u4')
	assert m.dtype == np.uint32 and np.array_equal(m, bits) and np.array_equal(k, bits), (m, bits)
	assert np.array_equal(y, np.where(x < 0, 0, x).astype('f4'), equal_nan=True)
	assert np.array_equal(dx, np.where(x > 0, x, 0).astype('f4'))
	assert np.array_equal(dz, np.where(x > 0, x + x, 0).astype('f4'))
	assert np.array_equal(z, np.where(x < 0, 0, x + x).astype('f4'), equal_nan=True)
	EOF
}

@test "inplace; hazard 9: the order holds after sorting, and the buffer of the first is used" {
	for t in f32 f16; do
		cat >g.gg <<-EOF
		input %d : $t[1,2,3,3]
		input %e : $t[1,4,3,3]
		param %w : $t[2,3,3,3] = normal(1, 0, 1)
		param %v : $t[4,3,3,3] = normal(2, 0, 1)
		%a = ConvTranspose(%d, %w)
		%b = ConvTranspose(%e, %v)
		%s = Add(%a, %b)
		%y = Sigmoid(%s)
		output %y
		EOF
		same g.gg inplace ConvTransposeAdd
		gg-opt --pass=inplace g.gg | gg-opt --pipeline=common,hardware,final | gg-run -q --target=ref --poison --outputs late
		cmp want/output_0.npy late/output_0.npy
		gg-opt --pass=inplace g.gg | gg-select --target=ref | gg-build | gg-dump | grep 'ConvTransposeAdd' | grep -q 'alias=%b'
		cat >g.gg <<-EOF
		input %d : $t[2,2,3,3]
		input %g : $t[2,3,5,5]
		input %r : $t[2,3,5,5]
		input %x : $t[2,3,5,5]
		param %k : $t[3] = ones
		param %w : $t[2,3,3,3] = normal(1, 0, 1)
		const %n : i64[4] = [2, 3, 5, 5]
		%a = ConvInputGrad(%d, %w, %n)
		%dx, _, _, %dz = BatchNormAddReluGrad(%g, %r, %x, %k) {training_mode=1}
		%s = Add(%dz, %a)
		%y = Sigmoid(%s)
		output %y
		EOF
		same g.gg inplace ConvInputGradAdd
		gg-opt --pass=inplace g.gg | gg-select --target=ref | gg-build | gg-dump | grep 'ConvInputGradAdd' | grep -q 'alias=%dz'
	done
}

@test "inplace in training: what a residual block's two branches give back is added up in one buffer" {
	cat >g.gg <<-'EOF'
	input %x : f32[2,3,6,6]
	param %v : f32[4,3,3,3] = normal(1, 0, 0.3)
	param %w : f32[4,4,3,3] = normal(2, 0, 0.3)
	param %u : f32[4,4,1,1] = normal(3, 0, 0.3)
	%a = Conv(%x, %v) {pads=[1, 1, 1, 1]}
	%b = Conv(%a, %w) {pads=[1, 1, 1, 1]}
	%c = Conv(%a, %u)
	%y = Mul(%b, %c)
	output %y
	EOF
	gg-opt --pass=loss:kind=mse:target=t,grad,sgd g.gg | gg-dump >t.gg
	same t.gg inplace ConvInputGradAdd
	gg-select --target=cpu t.gg | gg-opt --pass=inplace | gg-dump | grep -q 'ConvInputGradAdd<kernel=cpu_conv_input_grad>('
	# a device has none for these gradients: they are transposed convolutions there
	gg-select -q --target=cuda:sm_90 t.gg | gg-opt --pass=inplace --stats 2>&1 >/dev/null |
		grep -q ' 1: the target has no kernel for ConvTransposeAdd$'
}
