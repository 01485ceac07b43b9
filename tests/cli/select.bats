#!/usr/bin/env bats
# gg-select: what it chooses, says, saves and refuses.

setup() {
	cd "$BATS_TEST_TMPDIR"
	cat >m.gg <<-'END'
		graph "m"
		input %x : f32[2,7]
		param %w : f32[7,3] = normal(1, 0, 0.5)
		%h = MatMul(%x, %w)
		%"a b" = Relu(%h)
		%c = Cast(%"a b") {to=f64}
		%d = Exp(%c)
		output %d
	END
	cat >conv.gg <<-'END'
		graph "conv"
		input %x : f32[1,3,8,8]
		param %w : f32[4,3,3,3] = normal(1, 0, 0.5)
		param %w2 : f32[4,4,3,3] = normal(2, 0, 0.5)
		%a = Conv(%x, %w) {pads=[1,1,1,1]}
		%b = Relu(%a)
		%c = Conv(%b, %w2) {pads=[1,1,1,1]}
		%r = Add(%c, %b)
		%g = GlobalAveragePool(%r)
		%t = Softmax(%r)
		output %g
		output %t
	END
}

@test "kernels of the target, and ref where it has none, with the reason" {
	gg-select --explain m.gg 2>log >/dev/null
	diff log - <<-'END'
		h	MatMul	cpu_matmul
		a b	Relu	cpu_pointwise
		c	Cast	ref (no cpu row: op)
		d	Exp	ref (no cpu row: dtype of input 0)
	END
}

@test "target ref runs everything" {
	gg-select --target=ref --explain m.gg 2>log >/dev/null
	[ "$(cut -f3 log | sort -u)" = ref ]
}

@test "the target and kernels are in the stream" {
	gg-select m.gg | gg-dump >out
	grep -q '^target "cpu"' out
	grep -q 'MatMul<kernel=cpu_matmul>' out
}

@test "layouts: kept, plain, or channels-last where that converts less" {
	gg-select conv.gg | gg-dump >keep
	! grep nhwc keep
	gg-select --layout=nchw conv.gg | gg-dump | grep -v ^history | diff <(grep -v ^history keep) -
	gg-select --layout=auto conv.gg | gg-dump >auto
	[ "$(grep -c 'layout=nhwc' auto)" -eq 4 ]
}

@test "layouts: what converting would cost is said" {
	gg-select --layout=auto --explain conv.gg 2>log >/dev/null
	diff log - <<-'END'
		a	Conv	cpu_conv nhwc (plain would convert 2048 bytes more, 1 reorder instead of 0)
		b	Relu	cpu_pointwise nhwc (plain would convert 3072 bytes more, 2 reorders instead of 0)
		c	Conv	cpu_conv nhwc (plain would convert 2048 bytes more, 1 reorder instead of 0)
		r	Add	cpu_pointwise nhwc (plain would convert 1024 bytes more, 2 reorders instead of 1)
		g	GlobalAveragePool	cpu_global_pool
		t	Softmax	cpu_softmax
		layouts: chosen for 4 nodes; 1 reorder, 1792 bytes converted in all
	END
}

@test "layouts: one conversion saved is not worth two, and the whole graph decides" {
	cat >g.gg <<-'END'
		input %x : f32[1,8,16,16]
		param %w : f32[8,8,1,1] = normal(1, 0, 0.5)
		%s = Softmax(%x) {axis=1}
		%e = Exp(%s)
		%c = Conv(%e, %w)
		%m = Mul(%c, %e)
		%u = Softmax(%m) {axis=1}
		output %u
	END
	[ "$(gg-select --layout=auto g.gg | gg-build | gg-dump --stats | sed -n 's/^reorders *//p')" -eq 0 ]
	[ "$(gg-select --layout=nhwc g.gg | gg-build | gg-dump --stats | sed -n 's/^reorders *//p')" -gt 0 ]
	for l in auto nhwc; do
		gg-select --layout=$l g.gg | gg-build | gg-run -q --compare=ref
	done
}

@test "layouts: what moves, joins, cuts or adds up channels-last values needs no conversion" {
	cat >g.gg <<-'END'
		input %x : f32[1,8,12,12]
		param %w : f32[8,8,3,3] = normal(1, 0, 0.2)
		const %sizes : i64[2] = [3, 5]
		const %from : i64[1] = [2]
		const %to : i64[1] = [10]
		const %axis : i64[1] = [2]
		const %spatial : i64[2] = [2, 3]
		const %scales : f32[4] = [1, 1, 2, 2]
		%a = Conv(%x, %w) {pads=[1,1,1,1]}
		%p, %q = Split(%a, %sizes) {axis=1}
		%c = Concat(%q, %p) {axis=1}
		%u = Resize(%c, _, %scales) {mode="linear"}
		%s = Slice(%u, %from, %to, %axis)
		%d = Conv(%s, %w) {pads=[1,1,1,1]}
		%m = ReduceMean(%d, %spatial)
		%e = Sub(%d, %m)
		%y = Conv(%e, %w) {pads=[1,1,1,1]}
		%t = Transpose(%y) {perm=[0,2,3,1]}
		%z = Softmax(%t)
		output %z
	END
	gg-select --layout=auto g.gg | gg-build | gg-dump >built
	! grep Reorder built
	[ "$(grep -o layout=nhwc built | wc -l)" -eq 9 ]
	gg-select --layout=auto g.gg | gg-run -q --compare=ref
}

@test "it adds no node; gg-build adds the conversions" {
	gg-select --layout=auto conv.gg | gg-dump >auto
	! grep Reorder auto
	gg-select --layout=auto conv.gg | gg-build | gg-dump >built
	[ "$(grep -c '= Reorder' built)" -eq 1 ]
	gg-select --layout=auto conv.gg | gg-build | gg-run -q --compare=ref
}

@test "choices are saved as text, and loaded" {
	gg-select --layout=auto --save-choices=choices conv.gg >a
	diff choices - <<-'END'
		cpu_conv nhwc Conv "a"
		cpu_pointwise nhwc Relu "b"
		cpu_conv nhwc Conv "c"
		cpu_pointwise nhwc Add "r"
		cpu_global_pool plain GlobalAveragePool "g"
		cpu_softmax plain Softmax "t"
	END
	sed -i 's/cpu_pointwise nhwc Relu/ref plain Relu/' choices
	gg-select --layout=auto --load-choices=choices --explain conv.gg 2>log >b
	grep -qP '^b\tRelu\tref' log
	gg-build b | gg-run -q --compare=ref
	gg-select --layout=auto --load-choices=<(grep nhwc.Add choices) conv.gg | gg-build | gg-run -q --compare=ref
}

@test "a choice that does not exist: exit 4, with those that do" {
	echo 'cpu_pool plain Relu "a b"' >choices
	run gg-select --load-choices=choices m.gg
	[ "$status" -eq 4 ]
	[[ "$output" == *"node 'a b' (Relu): target 'cpu' has no kernel 'cpu_pool' for it: op differs; there are: cpu_pointwise(in 0 f32 plain nhwc), ref(any plain)" ]]
	echo 'cpu_pointwise plain Exp "d"' >choices
	run gg-select --load-choices=choices m.gg
	[ "$status" -eq 4 ]
	[[ "$output" == *"dtype of input 0 differs"* ]]
	echo 'cpu_matmul nhwc MatMul "h"' >choices
	run gg-select --load-choices=choices m.gg
	[ "$status" -eq 4 ]
	[[ "$output" == *"layout 'nhwc' of output 0 differs"* ]]
}

@test "choices that are malformed, or of another graph: exit 3" {
	for line in 'cpu_conv' 'cpu_conv plain Conv' 'cpu_matmul odd MatMul "h"' 'cpu_matmul plain MatMul "z"' \
		'cpu_pointwise plain Tanh "a b"'; do
		echo "$line" >choices
		run gg-select --load-choices=choices m.gg
		[ "$status" -eq 3 ]
		[[ "$output" == *choices:*"line 1"* ]]
	done
}

@test "targets, precisions and layouts that there are not" {
	run gg-select --target=tpu m.gg
	[ "$status" -eq 4 ]
	[ "$output" = "gg-select: m.gg: target 'tpu' is not built in; there are: ref, cpu, cuda" ]
	run gg-select --precision=bf16 m.gg
	[ "$status" -eq 4 ]
	run gg-select --target=ref --layout=nhwc m.gg
	[ "$status" -eq 4 ]
	run gg-select --precision=odd m.gg
	[ "$status" -eq 2 ]
	run gg-select --layout=odd m.gg
	[ "$status" -eq 2 ]
}

@test "a choices file that cannot be written: exit 5, no stream" {
	run gg-select --save-choices=/none/x -o out m.gg
	[ "$status" -eq 5 ]
	[ ! -e out ]
	[ "$output" = "gg-select: cannot write '/none/x': No such file or directory" ]
	run gg-select --save-choices=/dev/full -o out m.gg
	[ "$status" -eq 5 ]
	[ ! -e out ]
}

@test "a kernel whose outputs agree: one that is declared otherwise is converted" {
	cat >bn.gg <<-'END'
		graph "bn"
		input %x : f32[2,3,8,8]
		param %w : f32[4,3,3,3] = normal(1, 0, 0.5)
		param %w2 : f32[4,4,3,3] = normal(3, 0, 0.5)
		param %s : f32[4] = normal(2, 0, 0.5)
		%c = Conv(%x, %w)
		%r = Relu(%c)
		%g = Conv(%r, %w2) {pads=[1,1,1,1]}
		%dx, %ds, %db, %dz = BatchNormAddReluGrad(%g, %r, %c, %s) {training_mode=1}
		%y = Conv(%dx, %w2)
		output %y
		output %dz
		output %ds
	END
	for layout in keep auto; do
		gg-select --layout=$layout bn.gg | gg-run -q --compare=ref
	done
	gg-select --layout=auto bn.gg | gg-build | gg-dump >built
	grep '%dx.*BatchNormAddReluGrad' built | grep -q cpu_batchnorm_grad
	grep -q '%dz = Reorder' built
}

@test "attention without a kernel for it is written out, with its caches, windows and thirds of rows" {
	cat >a.gg <<-'END'
		graph "a"
		input %x : f32[2,9,48]
		input %m : bool[2,1,1,9]
		input %q : f32[2,4,3,8]
		input %k : f32[2,2,3,8]
		input %p : f32[2,2,5,8]
		%y = PackedAttention(%x, %m) {heads=2, scale=0.25}
		%z = PackedAttention(%x) {heads=4, is_causal=1, scale=0.25}
		%a, %b, %c, %s = Attention(%q, %k, %k, _, %p, %p) {is_causal=1, left_window_size=4}
		output %y
		output %z
		output %a
		output %b
		output %s
	END
	gg-select --explain a.gg 2>log | gg-run -q --compare=ref
	! grep Attention log
	grep -q 'Softmax.cpu_softmax' log
	gg-select --target=cuda --explain a.gg 2>log >/dev/null
	[ "$(grep -c cuda_attention log)" = 2 ]
	! grep -q 'ref (no cuda row' log
	sed 's/, %s = Attention/ = Attention/; /output %s/d' a.gg | gg-select --target=cuda --explain 2>log >/dev/null
	[ "$(grep -c cuda_attention log)" = 3 ]
}
