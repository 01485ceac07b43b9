#!/bin/bash
# The cuda backend without a device: its kernels compiled for the host by a stand-in for CUDA's
# libraries (tests/cuda/fake.c). A few models and kernels; tests/cuda.sh is the real thing.
. "$(dirname "$0")/lib/fake.sh"
for m in half_conv lstm_gru; do
	n=$((n + 1))
	if gg-parse "data/models/$m/model.onnx" | gg-opt | gg-run -q --target=cuda --test "data/models/$m" --steps=3 >"$tmp/log" 2>&1; then
		echo "ok $n - $m"
	else
		echo "not ok $n - $m" && sed 's/^/# /' "$tmp/log" && bad=1
	fi
done
for c in 'state and host' 'conv run' 'slices' 'one row' 'arg of' 'topk of ties' 'drawn' 'dropout' 'update' \
	'index tuples' 'index of i64' 'place one hot' 'resize of a crop' 'attention and caches' 'attention in windows' \
	'attention of shared keys' 'attention of no keys' 'deconv' 'logs of sums' 'pool and where' \
	'recur steps' 'layout 1'; do
	n=$((n + 1))
	if "$build/tests/device" "$c" >"$tmp/log" 2>&1; then
		echo "ok $n - $c"
	else
		echo "not ok $n - $c" && grep '^not' "$tmp/log" | sed 's/^/# /' && bad=1
	fi
done
n=$((n + 1))
if "$build/tests/device" rows >"$tmp/log" 2>&1; then
	echo "ok $n - every row has a case"
else
	echo "not ok $n - every row has a case" && grep '^not' "$tmp/log" | sed 's/^/# /' && bad=1
fi
# An index outside: refused where it is known, and else a gather reads the nearest end, a scatter leaves it out.
outside() { # outside NODE RESULT: of x = 0 1 2 at 1 and 7, with updates 0 1
	n=$((n + 1))
	printf '%s\n' 'graph "g"' 'input %x : f32[3]' 'input %k : i64[2,1]' 'input %u : f32[2]' "%y = $1" 'output %y' >"$tmp/k.gg"
	sed 's/input %k : i64\[2,1\]/const %k : i64[2,1] = [1, 7]/' "$tmp/k.gg" >"$tmp/c.gg"
	gg-run -q --target=cuda "$tmp/c.gg" 2>"$tmp/log"
	if [ $? = 3 ] && grep -q "node 'y' (${1%%(*}): index 7 is outside \[-3, 2\]\$" "$tmp/log" &&
		gg-run -q --target=cuda --fill=range --input k="$tmp/k.npy" "$tmp/k.gg" >"$tmp/log" 2>&1 && grep -q "\[$2\]\$" "$tmp/log"; then
		echo "ok $n - ${1%%(*} of an index outside"
	else
		echo "not ok $n - ${1%%(*} of an index outside" && sed 's/^/# /' "$tmp/log" && bad=1
	fi
}
printf '%s\n' 'graph "g"' 'const %k : i64[2,1] = [1, 7]' '%y = Identity(%k)' 'output %y' | gg-run -q --output y="$tmp/k.npy" >"$tmp/log" 2>&1
outside 'Gather(%x, %k)' '1 2'
outside 'GatherND(%x, %k)' '1 2'
outside 'ScatterND(%x, %k, %u)' '0 0 2'
# Sequences longer than the input, likewise: refused, or as long as it is; and shorter than nothing.
n=$((n + 1))
cat >"$tmp/k.gg" <<-'X'
	graph "g"
	input %x : f32[2,2,1]
	input %n : i32[2]
	const %w : f32[1,1,1] = ones
	%y = RNN(%x, %w, %w, _, %n) {activations=["Affine"]}
	output %y
X
printf '%s\n' 'graph "g"' 'const %n : i32[2] = [9, -1]' '%y = Identity(%n)' 'output %y' | gg-run -q --output y="$tmp/n.npy"
sed 's/input %n : i32\[2\]/const %n : i32[2] = [9, -1]/' "$tmp/k.gg" >"$tmp/c.gg"
gg-run -q --target=cuda "$tmp/c.gg" 2>"$tmp/log"
if [ $? = 3 ] && grep -q "node 'y' (RNN): sequence_lens has 9, the input has 2 steps$" "$tmp/log" &&
	gg-run -q --target=cuda --fill=range --input n="$tmp/n.npy" "$tmp/k.gg" >"$tmp/log" 2>&1 && grep -q '\[0 0 2 0\]$' "$tmp/log"; then
	echo "ok $n - sequences of other lengths"
else
	echo "not ok $n - sequences of other lengths" && sed 's/^/# /' "$tmp/log" && bad=1
fi
# Branches on streams of their own, replayed in another legal order each time.
for streams in 1 2 4; do
	n=$((n + 1))
	if gg-run -q --target=ref --steps=9 --output d="$tmp/d.npy" --output e="$tmp/e.npy" cuda/branches.gg >"$tmp/log" 2>&1 &&
		gg-select -q --target=cuda cuda/branches.gg | gg-build -q --streams=$streams -o "$tmp/b.plan" &&
		gg-dump --streams "$tmp/b.plan" | grep -q "^streams	$streams\$" &&
		gg-run -q --poison --steps=9 --expect d="$tmp/d.npy" --expect e="$tmp/e.npy" "$tmp/b.plan" >"$tmp/log" 2>&1; then
		echo "ok $n - $streams streams"
	else
		echo "not ok $n - $streams streams" && sed 's/^/# /' "$tmp/log" && bad=1
	fi
done
# Without a device: a kernel that does not compile is counted, and the plan is made.
n=$((n + 1))
if gg-select -q --target=cuda:sm_90 cuda/branches.gg | GG_CACHE=off GG_FAKE_DIR=$tmp/none gg-build -o "$tmp/b.plan" 2>"$tmp/log" &&
	grep -q 'note: compiled when the plan is loaded: [0-9]* kernels\?$' "$tmp/log" && ! gg-dump "$tmp/b.plan" | grep -q cubin; then
	echo "ok $n - left to the load"
else
	echo "not ok $n - left to the load" && sed 's/^/# /' "$tmp/log" && bad=1
fi
# A step that is replayed draws what the same step draws on the host, and no other one.
gg-run -q --target=ref --steps=7 --output b="$tmp/b.npy" cuda/draws.gg
for streams in 1 3; do
	n=$((n + 1))
	if gg-select -q --target=cuda cuda/draws.gg | gg-build -q --streams=$streams -o "$tmp/r.plan" &&
		gg-run -q --poison --steps=7 --rtol=0 --atol=0 --expect b="$tmp/b.npy" "$tmp/r.plan" >"$tmp/log" 2>&1 &&
		! gg-run -q --steps=6 --rtol=0 --atol=0 --expect b="$tmp/b.npy" "$tmp/r.plan" >"$tmp/log" 2>&1; then
		echo "ok $n - random numbers on $streams streams"
	else
		echo "not ok $n - random numbers on $streams streams" && sed 's/^/# /' "$tmp/log" && bad=1
	fi
done
echo "1..$n"
exit $bad
