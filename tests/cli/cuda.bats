#!/usr/bin/env bats
# The cuda target without a device: what is chosen, built, and said.

bats_require_minimum_version 1.5.0

setup() {
	cd "$BATS_TEST_TMPDIR"
	cat >m.gg <<-'END'
		graph "m"
		input %x : f32[N,2]
		const %w : f32[2,3] = [1, 2, 3, 4, 5, 6]
		const %b : f32[3] = [0, -20, 1]
		%h = MatMul(%x, %w)
		%s = Add(%h, %b)
		%y = Relu(%s)
		output %y
	END
	sed 's/%y = Relu(%s)/%c = CumSum(%s, %one)\n%y = Relu(%c)/; s/^const %w/const %one : i64[] = [1]\n&/' m.gg >host.gg
}

explain() { gg-select --explain "$@" 2>&1 >out.gg | cut -f2,3 | paste -sd' '; }

@test "kernels are chosen without a device" {
	[ "$(explain --target=cuda m.gg)" = 'MatMul	cuda_matmul Add	cuda_pointwise Relu	cuda_pointwise' ]
	gg-build out.gg -o m.plan
	[ "$(explain --target=cuda:sm_90 m.gg)" = 'MatMul	cuda_matmul Add	cuda_pointwise Relu	cuda_pointwise' ]
}

@test "precision tf32 takes other kernels for products" {
	[ "$(explain --target=cuda --precision=tf32 m.gg)" = \
		'MatMul	cuda_matmul_tf32 Add	cuda_pointwise Relu	cuda_pointwise' ]
	run -2 gg-select --target=cuda --precision=f17 m.gg
	run -4 gg-select --target=cpu --precision=tf32 m.gg
}

@test "what is left to the host is said" {
	gg-select --target=cuda host.gg 2>err >/dev/null
	[ "$(cat err)" = "gg-select: host.gg: note: 1 node runs on the host, as target 'cuda' has no kernels for CumSum" ]
}

@test "half-precision convolutions are channels-last, f32 ones only with tf32" {
	cat >c.gg <<-'END'
		graph "c"
		input %x : f32[1,8,6,6]
		const %w : f32[8,8,3,3] = normal(1, 0, 1)
		%a = Conv(%x, %w)
		%b = Conv(%a, %w)
		output %b
	END
	gg-select --target=cuda --layout=auto c.gg | gg-dump | grep -c nhwc >n || true
	[ "$(cat n)" = 0 ]
	gg-select --target=cuda --layout=auto --precision=tf32 c.gg | gg-dump | grep -q nhwc
	sed 's/f32/f16/' c.gg | gg-select --target=cuda --layout=auto | gg-dump | grep -q nhwc
}

@test "gg-run says what is missing" {
	gg-run --devices | grep -q '^cuda	not available' || skip 'a device is there'
	gg-select --target=cuda m.gg | gg-build -o m.plan
	run -5 gg-run -q m.plan
	run -5 gg-run -q --target=cuda m.gg
}
