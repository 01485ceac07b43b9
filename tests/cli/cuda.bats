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
	sed 's/%y = Relu(%s)/%c = Einsum(%s) {equation="ij->ij"}\n%y = Relu(%c)/' m.gg >host.gg
}

explain() { gg-select --explain "$@" 2>&1 >out.gg | cut -f2,3 | paste -sd' '; }

@test "kernels are chosen without a device" {
	[ "$(explain --target=cuda m.gg)" = 'MatMul	cuda_matmul Add	cuda_pointwise Relu	cuda_pointwise' ]
	gg-build out.gg -o m.plan
	[ "$(explain --target=cuda:sm_90 m.gg)" = 'MatMul	cuda_matmul Add	cuda_pointwise Relu	cuda_pointwise' ]
}

@test "indices and sizes: on the device, but for sizes that are not known" {
	cat >i.gg <<-'END'
		graph "i"
		input %x : f32[2,3,4]
		input %k : i64[2,3,4]
		input %n : i64[1]
		const %s : i64[1] = 9
		const %r : i64[3] = [1, 2, 1]
		%a = GatherElements(%x, %k)
		%b = ScatterElements(%a, %k, %x) {reduction="max"}
		%c = Tile(%b, %r)
		%d = Trilu(%c)
		%e = Resize(%d, _, _, %s) {axes=[2], mode="cubic"}
		%f = Resize(%e, _, _, %n) {axes=[2]}
		output %f
	END
	gg-select --target=cuda:sm_90 --explain i.gg 2>err >out.gg
	[ "$(grep -v note err | cut -f3 | paste -sd' ')" = 'cuda_gather_elements cuda_scatter_elements cuda_repeat cuda_trilu cuda_resize ref (no cuda row: roi, scales or sizes are not constant)' ]
}

@test "what is left to the load is counted, and named with -v" {
	sed "s/N,2/2,2/" m.gg | gg-select --target=cuda:sm_90 -o out.gg
	gg-build out.gg -o m.plan 2>err
	grep -q 'note: chosen when the plan is loaded: 1 cuBLASLt algorithm$' err
	! grep -q 'by cuBLASLt' err
	gg-build -v out.gg -o m.plan 2>err
	[ "$(grep -c 'chosen when the plan is loaded, by cuBLASLt, sm_90: matmul f32 rows' err)" = 1 ]
}

@test "precision tf32 takes other kernels for products" {
	[ "$(explain --target=cuda --precision=tf32 m.gg)" = \
		'MatMul	cuda_matmul_tf32 Add	cuda_pointwise Relu	cuda_pointwise' ]
	run -2 gg-select --target=cuda --precision=f17 m.gg
	run -4 gg-select --target=cpu --precision=tf32 m.gg
}

@test "what is left to the host is said" {
	gg-select --target=cuda host.gg 2>err >/dev/null
	[ "$(cat err)" = "gg-select: host.gg: note: 1 node runs on the host, as target 'cuda' has no kernels for Einsum" ]
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

@test "generated kernels are compiled into the plan, and cached by content" {
	export GG_CACHE=$PWD/cache
	cat >k.gg <<-'END'
		input %x : f32[4,2]
		const %w : f32[2,3] = [1, 2, 3, 4, 5, 6]
		%h = MatMul(%x, %w)
		%e = Exp(%h)
		%s = Softmax(%e)
		output %s
		output %e
	END
	gg-select -q --target=cuda k.gg >s.gg
	gg-build -v --dump-kernels=src s.gg -o a.plan 2>err
	grep -q ' kernels compiled for cuda$' err || skip 'there is no NVRTC here'
	grep -q 'note: chosen when the plan is loaded: 1 cuBLASLt algorithm$' err
	n=$(gg-dump a.plan | grep -c '^blob .*"kind":"cubin"')
	[ "$n" -ge 1 ] && [ "$(ls src/sm_90-*.cu | wc -l)" = "$n" ] && [ "$(ls cache/sm_90-*.cubin | wc -l)" = "$n" ]
	grep -q KERNEL src/*.cu
	# From the cache, from a damaged one, and without one: the same plan.
	gg-build -q --dump-kernels=src s.gg | cmp - a.plan
	for f in cache/*; do head -c 100 "$f" >cut && mv cut "$f"; done
	gg-build -q --dump-kernels=src s.gg | cmp - a.plan
	GG_CACHE=off gg-build -q --dump-kernels=src s.gg | cmp - a.plan
	# Another kind of device has kernels of its own; a second build leaves none of the first.
	gg-select -q --target=cuda:sm_80 k.gg | gg-build -q | gg-build -q | gg-dump >b
	[ "$(grep -c '^blob .*"name":"sm_80-' b)" = "$n" ]
	! grep -q sm_90 b
	gg-build -q --no-kernels s.gg | gg-dump >b
	! grep -q cubin b
}

@test "the cache has a limit, and what was not used for longest goes" {
	export GG_CACHE=$PWD/cache
	mkdir cache
	head -c 3000000 /dev/zero >cache/old.cubin
	head -c 700000 /dev/zero >cache/new.cubin
	head -c 3000000 /dev/zero >cache/mine.txt
	touch -d '2 days ago' cache/old.cubin cache/mine.txt
	touch -d '1 day ago' cache/new.cubin
	sed "s/N,2/2,2/; s/Relu/Exp/" m.gg >k.gg
	gg-select -q --target=cuda k.gg | gg-build -v -o a.plan 2>err
	grep -q ' kernels compiled for cuda$' err || skip 'there is no NVRTC here'
	[ -e cache/old.cubin ]
	rm cache/sm_*
	gg-select -q --target=cuda k.gg | GG_CACHE_LIMIT=1 gg-build -q | cmp - a.plan
	[ ! -e cache/old.cubin ] && [ -e cache/new.cubin ] && [ -e cache/mine.txt ] && ls cache/sm_*
}

@test "where a shape is not known, kernels are left to the load" {
	gg-select -q --target=cuda m.gg | gg-build -v 2>err | gg-dump >out
	! grep -q cubin out
	grep -q 'kernels are compiled when the plan is loaded' err
}

@test "a device by a file that describes it" {
	cp "$BATS_TEST_DIRNAME/../../lib/target/h200.json" .
	gg-select --target=cuda:h200.json m.gg | gg-dump >a
	cmp <(grep -v ^history a) <(gg-select --target=cuda:sm_90 m.gg | gg-dump | grep -v ^history)
	grep -qx 'target "cuda:sm_90"' a
	run -2 gg-select --target=cuda:none.json m.gg
	[[ "$output" = *"target 'cuda:none.json': neither sm_NN nor a file that describes a device: "* ]]
	echo '{}' >bad.json
	run -3 gg-select --target=cuda:bad.json m.gg
	run -2 gg-select --target=cuda:sm_x m.gg
	run -2 gg-select --target=cpu:sm_90 m.gg
}

@test "what describes a device goes along with the graph" {
	sed 's/"multiProcessorCount":132/"multiProcessorCount":78/' "$BATS_TEST_DIRNAME/../../lib/target/h200.json" >small.json
	gg-select --target=cuda:small.json m.gg >s.gg
	gg-dump s.gg | grep -q '^meta "device" .*multiProcessorCount.*:78,'
	gg-dump s.gg | gg-build | gg-dump | grep -q '^meta "device" .*multiProcessorCount.*:78,'
	gg-select --target=cuda s.gg | gg-dump >a
	! grep -q '^meta "device"' a
	gg-dump s.gg | sed 's/multiProcessorCount/processors/' >bad.gg
	sed -i 's/N,2/2,2/' bad.gg
	run -3 gg-build bad.gg
	[[ "$output" = *"the graph's device: it does not describe a device: "* ]]
}

same() { cmp <(gg-dump | grep -v ^history) <(gg-dump "$1" | grep -v ^history); }

conv() {
	cat >c.gg <<-'END'
		input %x : f16[1,16,8,8]
		const %w : f16[16,16,3,3] = normal(1, 0, 0.1)
		%c = Conv(%x, %w) {pads=[1,1,1,1]}
		output %c
	END
	gg-select -q --target=cuda --layout=auto c.gg -o c.s
	gg-build -q --save-choices=a.txt c.s -o a.plan || skip 'there is no NVRTC here'
	grep -q 'engine ' a.txt || skip 'there is no cuDNN here'
}

@test "cuDNN chooses without a device; choices are text and are made again" {
	conv
	[ "$(head -1 a.txt)" = 'gg-choices 1' ]
	[[ "$(sed -n 2p a.txt)" = cuDNN\ 9.*,\ sm_90$'\t'conv\ f16\ batch\ 1\ cin\ 16\ cout\ 16\ *\ kernel\ 3x3\ *\ nhwc$'\t'engine\ * ]]
	gg-dump a.plan | grep -q '^blob .*"kind":"engine"'
	gg-dump a.plan | grep -q '^blob .*"kind":"choices"'
	gg-dump a.plan | grep -q '^blob .*"kind":"libraries"'
	gg-build --choices=a.txt --save-choices=b.txt c.s 2>err | same a.plan
	cmp a.txt b.txt && [ ! -s err ]
	# An engine that cuDNN would not have taken first.
	gg-dump a.plan >a.text
	sed 's/engine .*/engine 0/' a.txt >own.txt
	gg-build --choices=own.txt --save-choices=b.txt c.s -o b.plan
	cmp own.txt b.txt || grep -q 'engine' b.txt
	# Made by another version: chosen again, and said once.
	sed 's/cuDNN 9[0-9.]*/cuDNN 9.1.0/' a.txt >old.txt
	gg-build --choices=old.txt --save-choices=b.txt c.s 2>err >/dev/null
	cmp a.txt b.txt
	[ "$(grep -c 'note: choices of cuDNN 9.1.0, sm_90 are made again: here is cuDNN 9' err)" = 1 ]
}

@test "cuDNN walks convolutions back; one that crops is a kernel of our own" {
	conv
	cat >t.gg <<-END
		input %x : f16[1,16,8,8]
		const %w : f16[16,8,4,4] = normal(1, 0, 0.1)
		%c = ConvTranspose(%x, %w) {strides=[2,2], pads=[1,1,1,1]}
		output %c
	END
	gg-select -q --target=cuda --layout=auto t.gg -o t.s
	gg-build -q --save-choices=t.txt t.s -o t.plan
	[[ "$(sed -n 2p t.txt)" = *$'\t'conv\ f16\ *\ cin\ 8\ cout\ 16\ *\ in\ 16x16\ *\ out\ 8x8\ *\ nhwc\ back$'\t'engine\ * ]]
	gg-build -q --choices=t.txt t.s | same t.plan
	sed 's/1,1,1,1/-1,0,0,0/' t.gg | gg-select -q --target=cuda --layout=auto -o t.s
	run -4 gg-build -q --save-choices=t.txt t.s -o t.plan
	[ "$output" = "gg-build: t.s: there are no choices to write to 't.txt'" ]
}

@test "deterministic choices are marked, and others do not serve them" {
	conv
	gg-build -q --deterministic --save-choices=d.txt c.s -o d.plan
	[ "$(sed -n 2p d.txt)" = deterministic ]
	gg-build -q --choices=d.txt c.s | same d.plan
	gg-build -q --deterministic --choices=a.txt --save-choices=b.txt c.s | same d.plan
	cmp b.txt d.txt
}

@test "refusals of --tune and --choices" {
	sed 's/N,2/2,2/' m.gg | gg-select -q --target=cuda -o s.gg
	gg-select -q --target=cpu m.gg -o cpu.gg
	echo 'gg-choices 2' >bad.txt
	run -3 gg-build --choices=bad.txt s.gg
	[ "$output" = "gg-build: s.gg: bad.txt: these are no choices of gg-build" ] || skip 'there is no NVRTC here'
	run -2 gg-build --tune=0 s.gg
	run -2 gg-build --tune=2 --no-kernels s.gg
	run -4 gg-build --choices=bad.txt cpu.gg
	[ "$output" = "gg-build: cpu.gg: target 'cpu' has no algorithms to choose" ]
	gg-select -q --target=cuda m.gg -o n.gg
	run -4 gg-build --save-choices=x.txt n.gg
	[ "$output" = "gg-build: n.gg: --tune and --save-choices want shapes that are known" ]
	gg-run --devices | grep -q '^cuda	not available' || skip 'a device is there'
	run -5 gg-build --tune=2 s.gg
	run -5 gg-run --describe-device
	run -4 gg-run --describe-device --target=cpu
	[ "$output" = "gg-run: target 'cpu' has no device to describe" ]
}

@test "gg-run says what is missing" {
	gg-run --devices | grep -q '^cuda	not available' || skip 'a device is there'
	gg-select --target=cuda m.gg | gg-build -o m.plan
	run -5 gg-run -q m.plan
	run -5 gg-run -q --target=cuda m.gg
}
