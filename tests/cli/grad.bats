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
}
