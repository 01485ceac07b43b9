#!/usr/bin/env bats
# Training at the command line: where data come from, how a run stops and goes on, what ends it early.

setup() {
	cd "$BATS_TEST_TMPDIR"
	# Linear regression with its gradients by hand: loss = mean (x w + b - t)^2
	cat >model.gg <<-'END'
		graph "line"
		input %x : f32[N,3]
		input %t : f32[N,1]
		param %w : f32[3,1] = normal(1, 0, 1)
		param %b : f32[1] = zeros
		const %two : f32[] = 2
		const %axes : i64[1] = [0]
		%p = MatMul(%x, %w)
		%y = Add(%p, %b)
		%d = Sub(%y, %t)
		%dd = Mul(%d, %d)
		%loss = ReduceMean(%dd) {keepdims=0}
		%n = Shape(%t) {end=1}
		%nf = Cast(%n) {to=f32}
		%d2 = Mul(%d, %two)
		%dm = Div(%d2, %nf)
		%xt = Transpose(%x) {perm=[1,0]}
		%grad.w = MatMul(%xt, %dm)
		%grad.b = ReduceSum(%dm, %axes) {keepdims=0}
		output %loss
	END
	gg-opt --pass=adam:lr=0.05 -o train.gg model.gg
	/usr/bin/python3 - <<-'END'
		import numpy as np, os
		r = np.random.default_rng(0)
		x = r.normal(size=(100, 3)).astype("f4")
		t = (x @ np.array([[1], [-2], [0.5]]) + 3 + 0.01 * r.normal(size=(100, 1))).astype("f4")
		np.save("x.npy", x); np.save("t.npy", t)
		np.savez("both.npz", x=x, t=t, other=x[:2])
		np.savez_compressed("packed.npz", x=x)
		os.mkdir("shards")
		for i, (a, b) in enumerate([(0, 7), (7, 7), (7, 60), (60, 100)]):
		    np.save(f"shards/x{i}.npy", x[a:b])
		np.save("big.npy", x.astype(">f4")); np.save("fortran.npy", np.asfortranarray(x))
	END
	data=(--data x=x.npy --data t=t.npy --batch=10 --shuffle=4)
}

weights() { # FILE: the state, as text
	gg-dump "$1" | grep '^param'
}

@test "the loss falls" {
	gg-run -q "${data[@]}" --epochs=20 --print loss train.gg >out
	[ "$(wc -l <out)" -eq 200 ]
	awk 'NR == 1 { first = $2 } END { exit !($2 < first / 50) }' out
}

@test "archives, shards, other byte orders: the same rows" {
	gg-run -q "${data[@]}" --steps=25 --print loss train.gg >want
	for x in both.npz both.npz:x shards big.npy fortran.npy; do
		gg-run -q --data x=$x --data t=both.npz --batch=10 --shuffle=4 --steps=25 --print loss train.gg >got
		cmp want got
	done
}

refused() { # STATUS MESSAGE COMMAND...: said on stderr
	local want=$1 text=$2
	shift 2
	run bash -c '"$@" 2>&1 >/dev/null' _ "$@"
	echo "$status $output"
	[ "$status" -eq "$want" ]
	[[ "$output" == *"$text"* ]]
}

@test "archives and folders that will not do" {
	refused 3 "both.npz: no array is named 'z'; it has x.npy, t.npy, other.npy" \
		gg-run --data x=both.npz:z --data t=t.npy --batch=10 train.gg
	refused 4 "packed.npz: 'x' is compressed: write it with numpy.savez" \
		gg-run --data x=packed.npz --data t=t.npy --batch=10 train.gg
	head -c 900 both.npz >cut.npz
	refused 3 "cut.npz: not a valid .npz file" gg-run --data x=cut.npz --data t=t.npy --batch=10 train.gg
	mkdir none
	refused 3 "none: the folder has no .npy files" gg-run --data x=none --data t=t.npy --batch=10 train.gg
	cp t.npy shards/z.npy
	refused 3 "shards/z.npy: its rows are not like those of the shards before it" \
		gg-run --data x=shards --data t=t.npy --batch=10 train.gg
	refused 3 "--data: input 'x': both.npz:other: 2 samples do not fill a batch of 10" \
		gg-run --data x=both.npz:other --data t=t.npy --batch=10 train.gg
}

@test "stop, save, go on: the same bits as in one go, on both targets and after other passes" {
	for target in ref cpu; do
		gg-run -q --target=$target "${data[@]}" --steps=37 --save all.gg --print loss train.gg >all
		gg-run -q --target=$target "${data[@]}" --steps=16 --save half.gg --print loss train.gg >first
		gg-run -q --target=$target "${data[@]}" --steps=21 --save rest.gg --print loss half.gg >second
		cat first second | cmp - all
		[ "$(tail -1 second | cut -f1)" = 36 ]
		cmp all.gg rest.gg
	done
	gg-run -q --target=ref "${data[@]}" --steps=37 --save all.gg train.gg >all
	gg-run -q --target=ref "${data[@]}" --steps=16 --save half.gg train.gg >first
	gg-opt --pipeline=common half.gg | gg-run -q --target=ref "${data[@]}" --steps=21 --save other.gg
	[ "$(weights other.gg | sed 's/<id=[0-9]*>//')" = "$(weights all.gg | sed 's/<id=[0-9]*>//')" ]
	gg-run -q --target=ref "${data[@]}" --steps=21 --load-state half.gg --save again.gg train.gg
	[ "$(weights again.gg)" = "$(weights all.gg)" ]
}

@test "--epochs counts from the start: the same command goes on, and then has nothing to do" {
	gg-run -q "${data[@]}" --epochs=3 --save all.gg --print loss train.gg >want
	gg-run -q "${data[@]}" --steps=13 --save s.gg --print loss train.gg >got
	gg-run -q "${data[@]}" --epochs=3 --save s.gg --print loss s.gg >>got
	cmp want got
	cmp all.gg s.gg
	refused 0 "30 steps are done already: the data have been used 3 times" \
		gg-run "${data[@]}" --epochs=3 --save s.gg --print loss s.gg
	cmp all.gg s.gg
}

@test "options of optimisers that will not do" {
	refused 2 "option 'accumulate' takes a whole number from 1 on" gg-opt --pass=sgd:accumulate=1.5 model.gg
	refused 2 "option 'beta1' takes a number below 1" gg-opt --pass=adam:beta1=1 model.gg
	refused 2 "option 'lr' takes a number from 0 on, not 'fast'" gg-opt --pass=sgd:lr=fast model.gg
	refused 2 "no schedule is named 'never'" gg-opt --pass=sgd:schedule=never model.gg
	refused 2 "schedule 'cosine' needs the option 'over', at least 1" gg-opt --pass=adam:schedule=cosine model.gg
	refused 2 "nesterov goes with dampening 0 only" gg-opt --pass=momentum:nesterov=1:dampening=0.5 model.gg
}

@test "fused and unfused go the same way for 100 steps" {
	gg-opt --pipeline=common,optimize train.gg >fused.gg
	gg-dump fused.gg | grep -q FusedAdam
	gg-run -q "${data[@]}" --steps=100 --save a.gg train.gg
	gg-run -q "${data[@]}" --steps=100 --save b.gg fused.gg
	/usr/bin/python3 - <<-'END'
		import re, subprocess
		def state(f):
		    out = {}
		    for l in subprocess.check_output(["gg-dump", f], text=True).splitlines():
		        m = re.match(r"param %(\S+) .* = (.*)", l)
		        if m: out[m[1]] = [float(x) for x in re.findall(r"-?[0-9.]+(?:e-?\d+)?", m[2])]
		    return out
		a, b = state("a.gg"), state("b.gg")
		assert set(a) == set(b) and len(a) == 7, (a, b)
		for k in a:
		    assert all(abs(x - y) <= 1e-4 * abs(x) + 1e-6 for x, y in zip(a[k], b[k])), (k, a[k], b[k])
	END
}

@test "--save-every, and a signal: the state is on disk and goes on" {
	gg-run -q "${data[@]}" --steps=25 --save-every=10 --save s.gg --print loss train.gg >/dev/null
	gg-dump s.gg | grep -q '^meta "run" {"step":25}'
	for sig in INT TERM; do
		# a shell's background jobs ignore SIGINT
		timeout 20 env --default-signal=INT gg-run "${data[@]}" --steps=100000000 --save i.gg --print loss train.gg >log 2>err &
		pid=$!
		until [ -s log ]; do sleep 0.05; done
		pkill -$sig -P $pid
		wait $pid || status=$?
		[ "$status" -gt 128 ]
		grep -q "stopped after [0-9]* steps: 'i.gg' holds the state" err
		n=$(wc -l <log)
		gg-dump i.gg | grep -q "^meta \"run\" {\"step\":$n}"
		gg-run -q "${data[@]}" --steps=2 --print loss i.gg >more
		[ "$(head -1 more | cut -f1)" = "$n" ]
		rm log
	done
}

@test "held-out data: this graph without its update, and another graph" {
	gg-run -q "${data[@]}" --steps=20 --print loss train.gg >want
	gg-run -q "${data[@]}" --steps=20 --print loss --eval-every=8 --eval-data x=x.npy --eval-data t=t.npy train.gg >got
	grep -v eval got | cmp - want
	[ "$(grep -c eval got)" = 3 ]
	sed '/grad/d;/output/d' model.gg >eval.gg
	printf '%%e = ReduceMax(%%dd) {keepdims=0}\noutput %%loss\noutput %%e\n' >>eval.gg
	gg-run -q "${data[@]}" --steps=200 --json --print loss --eval eval.gg --eval-every=100 \
		--eval-data x=x.npy --eval-data t=t.npy --save s.gg train.gg >log
	[ "$(grep -c '"eval"' log)" = 2 ]
	# the mean over all 100 samples at once
	gg-run -q --load-state s.gg --input x=x.npy --input t=t.npy --output loss=l.npy eval.gg
	/usr/bin/python3 - <<-'END'
		import json, numpy as np
		last = json.loads(open("log").read().splitlines()[-1])
		assert last["step"] == 200 and abs(last["eval"]["loss"] / np.load("l.npy") - 1) < 1e-5, last
	END
	# 100 samples in batches of 30: the last, of 10, counts for 10
	gg-run -q --data x=x.npy --data t=t.npy --batch=30 --steps=1 --load-state s.gg --eval eval.gg --eval-every=1 \
		--eval-data x=x.npy --eval-data t=t.npy train.gg | grep -q eval
}

@test "an evaluation that fails says so, and the state is saved; its results are not the last step's" {
	cat >net.gg <<-'END'
		input %x : f32[N,3]
		param %w : f32[3,4] = normal(1, 0, 1)
		%y = MatMul(%x, %w)
		output %y
	END
	gg-opt --pass=loss:kind=softmax_cross_entropy:target=l,grad,sgd -o t.gg net.gg
	/usr/bin/python3 -c 'import numpy as np; l = np.arange(100) % 4; np.save("l.npy", l); l[3] = 7; np.save("bad.npy", l)'
	for every in "" --save-every=2; do
		rm -f s.gg
		refused 3 "t.gg: step 4: evaluation: node 'loss' (SoftmaxCrossEntropyLoss): label 7, element 3 of 'l'" \
			gg-run --data x=x.npy --data l=l.npy --batch=10 --steps=9 --eval-every=5 --eval-data x=x.npy \
			--eval-data l=bad.npy --save s.gg $every t.gg
		[[ "$output" == *"'s.gg' holds the state after 5 steps"* ]]
		gg-run -q --data x=x.npy --data l=l.npy --batch=10 --steps=5 --save want.gg t.gg
		cmp s.gg want.gg
	done
	gg-run -q --data x=x.npy --data l=l.npy --batch=10 --steps=5 --output y=a.npy t.gg
	gg-run -q --data x=x.npy --data l=l.npy --batch=10 --steps=5 --eval-every=5 --eval-data x=x.npy --eval-data l=l.npy \
		--output y=b.npy t.gg
	cmp a.npy b.npy
	/usr/bin/python3 -c 'import numpy as np; x = np.load("x.npy"); x[2] = np.nan; np.save("nan.npy", x)'
	nan=(--data x=x.npy --data l=l.npy --batch=10 --steps=1 --print loss --eval-every=1 --eval-data x=nan.npy --eval-data l=l.npy)
	[ "$(gg-run -q "${nan[@]}" t.gg | grep eval)" = $'1\teval\tloss=nan' ]
	[ "$(gg-run -q --json "${nan[@]}" t.gg | grep eval)" = '{"step":1,"eval":{"loss":null}}' ]
}

@test "--hold-out: each fifth sample is evaluated and never trained on" {
	/usr/bin/python3 -c 'import numpy as np
x = np.load("x.npy"); t = np.load("t.npy"); k = np.arange(100) % 5 == 4
for n, a in ("x", x), ("t", t):
    np.save("train_" + n, a[~k]); np.save("held_" + n, a[k])'
	for shuffle in "" --shuffle=4; do
		gg-run -q --data x=train_x.npy --data t=train_t.npy --batch=10 $shuffle --steps=20 --print loss --eval-every=10 \
			--eval-data x=held_x.npy --eval-data t=held_t.npy train.gg >want
		gg-run -q --data x=x.npy --data t=t.npy --batch=10 $shuffle --steps=20 --print loss --eval-every=10 \
			--hold-out=5 train.gg >got
		cmp want got
	done
}

@test "a loss that is no number ends it: the step and the tensor are named, the last good state stays" {
	/usr/bin/python3 -c 'import numpy as np
x = np.load("x.npy"); x[25] = np.inf; np.save("bad.npy", x)'
	refused 1 "gg-run: train.gg: step 2: the loss 'loss' is" \
		gg-run --data x=bad.npy --data t=t.npy --batch=10 --steps=10 --save s.gg --save-every=1 train.gg
	[[ "$output" == *"'s.gg' holds the state after 2 steps"* ]]
	gg-dump s.gg | grep -q '^meta "run" {"step":2}'
	# without --save-every too, and the run goes on from there
	for every in "" --save-every=3; do
		rm s.gg
		refused 1 "gg-run: train.gg: step 2: the loss 'loss' is nan: --check-finite names the node" \
			gg-run --data x=bad.npy --data t=t.npy --batch=10 --steps=10 --save s.gg $every train.gg
		[[ "$output" == *"'s.gg' holds the state after 2 steps"* ]]
		gg-run -q --data x=x.npy --data t=t.npy --batch=10 --steps=2 --save want.gg train.gg
		cmp s.gg want.gg
	done
	/usr/bin/python3 -c 'import numpy as np
x = np.load("x.npy"); x[5] = np.nan; np.save("bad.npy", x)'
	rm s.gg
	refused 1 "step 0: the loss 'loss' is nan" gg-run --data x=bad.npy --data t=t.npy --batch=10 --steps=10 --save s.gg train.gg
	[[ "$output" == *"'s.gg' is not written"* ]]
	[ ! -e s.gg ]
}

@test "training that diverges ends at the first loss that is no number, with the state before it" {
	gg-opt --pass=sgd:lr=1e4 -o wild.gg model.gg
	for target in ref cpu; do
		rm -f s.gg
		refused 1 "the loss 'loss' is inf" \
			gg-run --target=$target "${data[@]}" --epochs=9 --save s.gg --print loss wild.gg
		step=$(sed -n "s/.*wild.gg: step \([0-9]*\): the loss.*/\1/p" <<<"$output")
		[ "$step" -gt 0 ]
		[[ "$output" == *"'s.gg' holds the state after $step steps"* ]]
		gg-run -q --target=$target "${data[@]}" --steps="$step" --save want.gg wild.gg
		cmp s.gg want.gg
		! gg-dump s.gg | grep '^param' | grep -E 'nan|inf'
	done
}

@test "a label that is no class, in a later step: named, and the state before it is saved" {
	cat >net.gg <<-'END'
		input %x : f32[N,3]
		param %w : f32[3,4] = normal(1, 0, 1)
		%y = MatMul(%x, %w)
		output %y
	END
	/usr/bin/python3 -c 'import numpy as np; l = np.arange(100) % 4; np.save("l.npy", l); l[57] = 4; np.save("bad.npy", l)'
	for loss in softmax_cross_entropy softmax_cross_entropy:label_smoothing=0.1:weight="'1,2,3,4'"; do
		gg-opt --pass="loss:kind=$loss:target=l,grad,sgd" -o t.gg net.gg
		for target in ref cpu; do
			rm -f s.gg
			refused 3 "gg-run: t.gg: step 5: node '" \
				gg-run --target=$target --data x=x.npy --data l=bad.npy --batch=10 --steps=10 --save s.gg t.gg
			[[ "$output" == *"label 4, element 7 of 'l', is not a class of 4"* ]]
			[[ "$output" == *"'s.gg' holds the state after 5 steps"* ]]
			gg-run -q --target=$target --data x=x.npy --data l=l.npy --batch=10 --steps=5 --save want.gg t.gg
			cmp s.gg want.gg
		done
	done
}

@test "an input without data" {
	refused 2 "input 't' has no data: give it with --data or --input" gg-run --data x=x.npy --batch=10 train.gg
}

@test "a full disk: the state before stays" {
	[ -e /dev/full ] || skip
	refused 5 "/dev/full" gg-run "${data[@]}" --steps=3 --save /dev/full train.gg
	[[ "$output" == *"train.gg: step 2: its state is not saved: '/dev/full' is not written"* ]]
	gg-run -q "${data[@]}" --steps=3 --save s.gg train.gg
	cp s.gg before
	# a plan is run from its file: nothing but the state is written
	gg-select --target=cpu train.gg | gg-build -o train.plan
	run bash -c 'ulimit -f 0; trap "" XFSZ; gg-run -q --data x=x.npy --data t=t.npy --batch=10 --shuffle=4 \
		--load-state s.gg --steps=9 --save-every=4 --save s.gg train.plan 2>&1 | cat; exit "${PIPESTATUS[0]}"'
	echo "$output"
	[ "$status" -eq 5 ]
	[[ "$output" == *"cannot write 's.gg': File too large"* ]]
	[[ "$output" == *"train.plan: step 6: its state is not saved: 's.gg' is not written"* ]]
	cmp s.gg before
}

@test "options that do not go together, and data of another dtype" {
	refused 2 "--epochs goes with --data" gg-run --epochs=2 train.gg
	refused 2 "--save-every goes with --save" gg-run --save-every=2 train.gg
	refused 2 "--eval-every goes with --hold-out or --eval-data" gg-run --eval-every=2 train.gg
	/usr/bin/python3 -c 'import numpy as np; np.save("d.npy", np.load("x.npy").astype("f8"))'
	refused 3 "--data: input 'x' is f32, the file has f64" gg-run --data x=d.npy --data t=t.npy --batch=10 train.gg
}

@test "progress and JSON lines" {
	gg-run "${data[@]}" --steps=30 --progress --json --print loss --print w train.gg >log 2>err
	grep -q "step 30 of 30, loss .* steps/s" err
	/usr/bin/python3 -c 'import json
l = [json.loads(x) for x in open("log")]
assert len(l) == 30 and l[7]["step"] == 7 and len(l[7]["w"]) == 3 and l[7]["loss"] > 0'
}

@test "a scaled loss: an overflow leaves the update out and halves the scale; 2000 good ones double it" {
	cat >scaled.gg <<-'END'
		input %g : f32[2]
		param %w : f32[2] = [1, 2]
		param %loss_scale : f32[] = 1024
		param %loss_scale.good : i64[] = 1997
		%grad.w = Mul(%g, %loss_scale)
		%sum = ReduceSum(%w) {keepdims=0}
		%loss = ScaleGradient(%sum, %loss_scale, %loss_scale.good)
		output %loss
	END
	/usr/bin/python3 -c 'import numpy as np
g = np.ones((6, 2), "f4"); np.save("plain.npy", g[:5]); g[3, 1] = np.inf; np.save("g.npy", g)
g[3, 1] = np.nan; np.save("nan.npy", g)'
	opt=adam:lr=0.1
	sed 's/Mul(%g, %loss_scale)/Identity(%g)/; s/ScaleGradient.*/Identity(%sum)/; /loss_scale/d' scaled.gg | gg-opt --pass=$opt |
		gg-run -q --data g=plain.npy --steps=5 --save want.gg
	for g in g.npy nan.npy; do
		gg-opt --pass=$opt scaled.gg | gg-opt | gg-run -q --data g=$g --steps=6 --save got.gg \
			--print loss_scale --print loss_scale.good >log
		# 1998, 1999, 2000: doubled; then halved, and counted from 0
		[ "$(cut -f2 log | tr '\n' ' ')" = "1024 1024 2048 1024 1024 1024 " ] || { cat log; false; }
		[ "$(cut -f3 log | tr '\n' ' ')" = "1998 1999 0 0 1 2 " ]
		[ "$(weights got.gg | grep -v loss_scale | sed 's/<id=[0-9]*>//' | sort)" = \
			"$(weights want.gg | sed 's/<id=[0-9]*>//' | sort)" ]
	done
	grep -v '^%grad' scaled.gg | sed '$i %grad.w = Identity(%g)' >unscaled.gg
	refused 3 "no gradient is multiplied by 'loss_scale'" gg-opt --pass=sgd unscaled.gg
}

@test "random nodes, also in a body, draw as if there had been no stop" {
	cat >random.gg <<-'END'
		input %x : f32[2]
		param %p : f32[2] = zeros
		const %n : i64[] = 3
		const %go : bool[] = true
		%r = RandomNormalLike(%x)
		%l = Loop(%n, %go, %r) {body=graph(%i : i64[], %c : bool[], %v : f32[2]) {
		  %u = RandomUniformLike(%v) : f32[2]
		  %w = Add(%v, %u) : f32[2]
		  %d = Identity(%c) : bool[]
		  output %d
		  output %w
		}}
		%q = Add(%p, %l)
		output %q
		state %p <- %q
	END
	for target in ref cpu; do
		gg-run -q --target=$target --steps=9 --print q --save all.gg random.gg >want
		gg-run -q --target=$target --steps=4 --print q --save half.gg random.gg >first
		gg-run -q --target=$target --steps=5 --print q --save rest.gg half.gg >second
		cat first second | cmp - want
		cmp all.gg rest.gg
		[ "$(cut -f2 want | sort -u | wc -l)" = 9 ]
	done
}

@test "summary ops: an event file with scalars, histograms, images and tensors" {
	cat >watch.gg <<-'END'
		input %x : f32[1,1,2,3]
		%m = ReduceSum(%x) {keepdims=0}
		ScalarSummary(%m) {tag="sum"}
		HistogramSummary(%x)
		ImageSummary(%x) {tag="pic"}
		%t = Reshape(%x, %two)
		TensorSummary(%t)
		output %m
	END
	sed -i '1a const %two : i64[1] = [6]' watch.gg
	/usr/bin/python3 -c 'import numpy as np
np.save("w.npy", np.array([[0, 0.5, 1, 2, -1, 0.25]] * 4, "f4").reshape(4, 1, 1, 2, 3))'
	for target in ref cpu; do
		rm -rf log
		gg-opt watch.gg | gg-run -q --target=$target --data x=w.npy --steps=4 --summary log --summary-every=2 >/dev/null
		/usr/bin/python3 "$BATS_TEST_DIRNAME/../lib/events.py" log/events.out.tfevents.* >got
		cat >want <<-'END'
			brain.Event:2
			1 sum scalar 2.75
			1 x histogram -1 2 6 [1, 1, 1, 1, 1, 1]
			1 pic/image/0 image 2x3x1 [[0, 128, 255], [255, 0, 64]]
			1 t tensor [6] [0.0, 0.5, 1.0, 2.0, -1.0, 0.25]
			3 sum scalar 2.75
			3 x histogram -1 2 6 [1, 1, 1, 1, 1, 1]
			3 pic/image/0 image 2x3x1 [[0, 128, 255], [255, 0, 64]]
			3 t tensor [6] [0.0, 0.5, 1.0, 2.0, -1.0, 0.25]
		END
		diff want got
	done
	refused 2 "--summary: the graph has no summary ops" gg-run --summary log model.gg
}

@test "recompute: the same bits in less memory" {
	# sixteen layers h = Tanh(h w), their gradients by hand
	/usr/bin/python3 - >deep.gg <<-'END'
		N = 16
		print("input %h0 : f32[256,8]\nconst %one : f32[] = 1")
		for i in range(N):
		    print(f"param %w{i} : f32[8,8] = normal({i}, 0, 0.4)")
		for i in range(N):
		    print(f"%p{i} = MatMul(%h{i}, %w{i})\n%h{i + 1} = Tanh(%p{i})")
		print(f"%loss = ReduceSum(%h{N}) {{keepdims=0}}\n%shape = Shape(%h{N})\n%d{N} = Expand(%one, %shape)")
		for i in reversed(range(N)):
		    print(f"%s{i} = Mul(%h{i + 1}, %h{i + 1})\n%t{i} = Sub(%one, %s{i})\n%e{i} = Mul(%d{i + 1}, %t{i})")
		    print(f"%ht{i} = Transpose(%h{i}) {{perm=[1,0]}}\n%grad.w{i} = MatMul(%ht{i}, %e{i})")
		    print(f"%wt{i} = Transpose(%w{i}) {{perm=[1,0]}}\n%d{i} = MatMul(%e{i}, %wt{i})")
		print("output %loss")
	END
	gg-opt --pass=momentum:lr=0.001 deep.gg | gg-opt --pipeline=common,optimize >train16.gg
	arena() { gg-select --target=cpu "$1" | gg-build | gg-dump --memory | awk '$1 == "arena" { print $2 }'; }
	kept() { gg-select --target=ref "$1" | gg-build | gg-dump --memory | awk '$1 == "kept" { print $2, $4 }'; }
	gg-run -q --target=ref --steps=5 --print loss --save a.gg train16.gg >want
	[ "$(kept train16.gg)" = "131072 (16" ] # the results of all layers, 256 x 8 numbers each
	for o in segments=4 budget=60000; do
		gg-opt --pass=recompute:$o train16.gg | gg-opt --pipeline=common -o less.gg
		gg-run -q --target=ref --steps=5 --print loss --save b.gg less.gg | cmp - want
		[ "$(weights a.gg | sed 's/<id=[0-9]*>//')" = "$(weights b.gg | sed 's/<id=[0-9]*>//')" ]
		[ "$(arena less.gg)" -lt $(($(arena train16.gg) * 2 / 3)) ]
		[ "$(kept less.gg | cut -d' ' -f1)" -le 60000 ]
	done
	refused 4 "pass 'recompute': 5000 bytes are not enough; the least is about" gg-opt --pass=recompute:budget=5000 train16.gg
	[ -z "$(sed 's/loss/less/' deep.gg | gg-dump --memory | grep kept)" ]
	refused 2 "the graph has no value 'loss' to train" bash -c "sed 's/loss/less/' deep.gg | gg-opt --pass=recompute"
}

@test "losses: values by numpy, and frozen parameters" {
	cat >pred.gg <<-'END'
		param %w : f32[3,4] = [1, -2, 0.5, 3, 0, 0.25, -1, 2, 1.5, 1, -0.5, 0]
		param %v : f32[4] = ones
		%logits = Mul(%w, %v)
		output %logits
	END
	/usr/bin/python3 - <<-'END'
		import numpy as np
		y = np.random.default_rng(1).normal(size=(1, 3, 4)).astype("f4")
		np.save("y.npy", y); np.save("z.npy", (y > 0).astype("f4")); np.save("l.npy", np.array([[1, 3, 0]]))
		w = np.array([1, -2, 0.5, 3, 0, 0.25, -1, 2, 1.5, 1, -0.5, 0]).reshape(3, 4)
		lp = w - np.log(np.exp(w).sum(1, keepdims=True)); i = np.arange(3); l = np.array([1, 3, 0])
		z = y[0] > 0; s = 1 / (1 + np.exp(-w))
		want = {"mse y mean": ((w - y[0])**2).mean(), "l1 y sum": abs(w - y[0]).sum(),
		        "bce_with_logits z mean": -np.where(z, np.log(s), np.log(1 - s)).mean(),
		        "softmax_cross_entropy l mean": -lp[i, l].mean(), "softmax_cross_entropy l sum": -lp[i, l].sum(),
		        "nll l mean": -w[i, l].mean(),
		        "huber:delta=0.7 y mean": np.where(abs(w - y[0]) <= 0.7, (w - y[0])**2 / 2, 0.7 * (abs(w - y[0]) - 0.35)).mean(),
		        "softmax_cross_entropy:label_smoothing=0.1 l mean": 0.9 * -lp[i, l].mean() - 0.1 * lp.mean(),
		        "softmax_cross_entropy:label_smoothing=0.1 l sum": 0.9 * -lp[i, l].sum() - 0.1 / 4 * lp.sum()}
		print("\n".join(f"{k} {v:.9g}" for k, v in want.items()), file=open("want", "w"))
	END
	while read -r kind file reduction want; do
		for target in ref cpu; do
			got=$(gg-opt --pass=loss:kind=$kind:target=t:reduction=$reduction,grad,sgd pred.gg |
				gg-run -q --target=$target --data t=$file.npy --print loss | cut -f2)
			awk -v a="$got" -v b="$want" 'BEGIN { d = a / b - 1; exit !(d * d < 1e-10) }' || { echo "$kind $got $want"; false; }
		done
	done <want
	gg-opt --pass=loss:kind=mse:target=t,grad:freeze=v,sgd pred.gg >f.gg
	gg-dump f.gg | grep -q '^state %w '
	! gg-dump f.gg | grep -q 'state %v '
	refused 3 "label 4, element 1 of 't', is not a class of 4" bash -c "gg-opt --pass=loss:kind=nll:target=t,grad,sgd pred.gg |
		gg-run --input t=bad.npy --steps=1" <<<"$(/usr/bin/python3 -c 'import numpy as np; np.save("bad.npy", np.array([1, 4, 0]))')"
}

@test "to_inference gives the network back; what was trained is in it" {
	net=$BATS_TEST_DIRNAME/../data/models/train_resnet_momentum
	gg-parse $net/model.onnx | gg-opt --pass=loss:kind=softmax_cross_entropy:target=y,grad,momentum:lr=0.05 |
		gg-run -q --data x=$net/x.npy --data y=$net/y.npy --steps=5 --save t.gg >/dev/null
	gg-opt --pass=to_inference t.gg -o net.gg
	[ "$(gg-run --list-io net.gg | cut -f1,2 | tr '\t\n' '  ')" = "input x output logits " ]
	! gg-dump net.gg | grep -q 'training_mode=1'
	gg-dump --format=onnx -o net.onnx net.gg
	gg-run -q --output logits=a.npy net.gg 2>/dev/null
	gg-parse net.onnx | gg-run -q --output logits=b.npy 2>/dev/null
	gg-run -q --load-state t.gg --target=ref --output logits=c.npy net.gg 2>/dev/null
	# the same of a plan, whose normalisations were fused
	gg-opt --pipeline=common,optimize t.gg | gg-select --target=cpu --layout=auto |
		gg-opt --pipeline=hardware,final,graph_kernel | gg-build -o t.plan
	gg-dump t.plan | grep -q BatchNormAddRelu
	gg-run -q --data x=$net/x.npy --data y=$net/y.npy --steps=1 --load-state t.gg --save u.gg t.plan >/dev/null
	gg-run -q --data x=$net/x.npy --data y=$net/y.npy --steps=1 --save v.gg t.gg >/dev/null
	gg-opt --pass=to_inference u.gg | gg-run -q --output logits=d.npy 2>/dev/null
	gg-opt --pass=to_inference v.gg | gg-run -q --output logits=e.npy 2>/dev/null
	/usr/bin/python3 -c 'import numpy as np
a, b, c, d, e = (np.load(f + ".npy") for f in "abcde")
assert np.abs(a).max() > 0.01 and np.abs(a - b).max() < 1e-5 and np.abs(a - c).max() < 1e-5
assert np.abs(a - e).max() > 1e-4 and np.abs(d - e).max() < 1e-5'
}

@test "mixed precision learns like f32" {
	digits=$BATS_TEST_DIRNAME/../../examples
	go() { gg-opt --pass=loss:kind=softmax_cross_entropy:target=y,$1grad,adam:lr=0.003 $digits/digits.gg |
		gg-opt --pipeline=common,optimize | gg-run -q --target=ref --data x=$digits/digits/x.npy \
		--data y=$digits/digits/y.npy --batch=8 --steps=4 --print loss; }
	go "" >f32
	for how in autocast:dtype=f16:loss_scale=128, autocast:dtype=bf16,; do
		go $how | paste f32 - | awk '{ d = $4 / $2 - 1; if (d * d > 4e-4) exit 1 }'
	done
}

@test "data that do not go together" {
	/usr/bin/python3 -c 'import numpy as np; np.save("short.npy", np.load("t.npy")[:90])'
	refused 3 "--data: input 'x' has 100 samples, input 't' 90" \
		gg-run --data x=x.npy --data t=short.npy --batch=10 train.gg
	refused 2 "--data: input 'x' is given twice" gg-run "${data[@]}" --data x=x.npy train.gg
	refused 2 "--data: input 'x' is given twice" gg-run "${data[@]}" --input x=x.npy train.gg
	# A slice a step may come round sooner.
	/usr/bin/python3 -c 'import numpy as np; t = np.load("t.npy"); np.save("one.npy", t[None, :10])'
	gg-run -q --data x=x.npy --data t=one.npy --batch=10 --steps=20 train.gg >/dev/null
}

@test "a parameter that became nan where a Relu hides it from the loss" {
	cat >net.gg <<-'END'
		graph "net"
		input %x : f32[N,3]
		param %w : f32[3,8] = normal(1, 0, 1)
		param %b : f32[8] = zeros
		param %u : f32[8,1] = normal(2, 0, 1)
		%h = Gemm(%x, %w, %b)
		%r = Relu(%h)
		%y = MatMul(%r, %u)
		output %y
	END
	gg-opt --pass=loss:kind=mse:target=t,grad,sgd:lr=0.01 -o net_t.gg net.gg
	/usr/bin/python3 -c 'import numpy as np; x = np.load("x.npy"); x[23] = np.nan; np.save("bad.npy", x)'
	for target in ref cpu; do
		run bash -c "gg-run --target=$target --data x=bad.npy --data t=t.npy --batch=10 --epochs=1 --save n.gg net_t.gg 2>&1"
		echo "$output"
		[ "$status" -eq 1 ]
		[[ "$output" == *"step 2: the "*" nan"* ]]
		[[ "$output" == *"'n.gg' holds the state after 2 steps"* ]]
		gg-dump n.gg | grep -q '^meta "run" {"step":2}'
		gg-run -q --target=$target --data x=x.npy --data t=t.npy --batch=10 --steps=2 --save want.gg net_t.gg
		cmp n.gg want.gg
		rm n.gg
	done
}

@test "a Gradient at other values makes nodes with bodies again" {
	cat >g.gg <<-'END'
		const %x : f32[2] = [5, 7]
		const %v : f32[2] = [1, 2]
		const %m : i64[] = 3
		%y = Loop(%m, _, %x; %x) {body=graph(%i : i64[], %c : bool[], %h : f32[2], %a : f32[2]) {
		  %p = Mul(%h, %a)
		  output %c
		  output %p
		}}
		%g = Gradient(%y, %x, %v)
		output %g
	END
	for target in ref cpu; do
		run bash -c "gg-select --target=$target g.gg | gg-run -q"
		[[ "$output" == *"[4 32]" ]]
	done
}

@test "options of loss and grad that mean nothing here" {
	cat >net.gg <<-'END'
		graph "net"
		input %x : f32[N,3]
		param %loss_scale.w : f32[3,4] = normal(1, 0, 1)
		param %b : f32[4] = zeros
		%y = Gemm(%x, %loss_scale.w, %b)
		output %y
	END
	loss=loss:kind=softmax_cross_entropy:target=t
	refused 2 "softmax_cross_entropy has no option 'delta'" gg-opt --pass=$loss:delta=2 net.gg
	refused 2 "mse has no option 'ignore_index'" gg-opt --pass=loss:kind=mse:target=t:ignore_index=2 net.gg
	refused 2 "delta takes a number above 0, not '0'" gg-opt --pass=loss:kind=huber:target=t:delta=0 net.gg
	refused 2 "ignore_index takes a whole number, not 'x'" gg-opt --pass=$loss:ignore_index=x net.gg
	refused 2 "freeze=v* is the name of no parameter" gg-opt "--pass=$loss,grad:freeze=v*" net.gg
	refused 2 "pass 'grad': option 'freeze' is given twice" gg-opt --pass=$loss,grad:freeze=b:freeze=w net.gg
	# No name is autocast's own.
	gg-opt --pass=$loss,autocast,grad,sgd net.gg | gg-run -q --list-io | grep -q "^state.loss_scale.w"
	sed 's/loss_scale.w/loss_scale/' net.gg >scale.gg
	gg-opt --pass=$loss,grad,sgd scale.gg | gg-run -q --list-io | grep -q "^state.loss_scale.f32.\[3,4\]"
	gg-opt --pass=$loss,autocast,grad,sgd scale.gg | gg-run -q --list-io >list
	grep -q "^state.loss_scale.f32.\[3,4\]" list
	grep -q "^state.loss_scale.2.f32.\[\]" list
}

@test "a Gradient in the text form runs on every target, and a graph of text keeps its last good state" {
	printf '%s\n' 'graph "g"' 'input %x : f32[2,3]' '%y = Mul(%x, %x)' '%g = Gradient(%y, %x, %x)' 'output %g' >g.gg
	for target in ref cpu; do
		run gg-run -q --target=$target --fill=range g.gg
		[[ "$output" == "g f32[2,3] min 0 max 10 mean 5 [0 2 4 6 ...]" ]]
	done
	sed 's/Mul(%x, %x)/Unique(%x)/' g.gg >u.gg
	refused 4 "no gradient for this op, on the way to the loss: Unique 'y'" gg-run --target=ref u.gg
	gg-dump train.gg >text.gg
	/usr/bin/python3 -c 'import numpy as np
x = np.load("x.npy"); x[25] = np.inf; np.save("bad.npy", x)'
	refused 1 "text.gg: step 2: the loss 'loss' is nan" \
		gg-run --data x=bad.npy --data t=t.npy --batch=10 --steps=10 --save s.gg text.gg
	[[ "$output" == *"'s.gg' holds the state after 2 steps"* ]]
}
