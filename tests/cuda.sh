#!/bin/bash
# On a machine with a device: every model through all tools against its reference outputs, in strict
# f32 and with tf32, replayed, from a plan built beforehand, and the kernels against ref.
# `make check-cuda` runs it; `tests/cuda.sh BUILD` needs nothing but bash and what lies in BUILD.
cd "$(dirname "$0")" || exit 1
build=${1:-${GG_BUILD:-../build}}
bin=$(cd "$build/bin" && pwd) || exit 1
PATH=$bin:$PATH
. lib/cases.sh
n=0 bad=0 tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

say() { # say STATUS WHAT: one TAP line
	n=$((n + 1))
	[ "$1" = 0 ] && echo "ok $n - $2" && return
	bad=1
	echo "not ok $n - $2"
	sed 's/^/# /' "$tmp/log" | tail -5
}
try() { # try WHAT COMMAND...
	local what=$1
	shift
	timeout -k 5 120 "$@" >"$tmp/log" 2>&1
	say $? "$what"
}

take() { # take FILE: TAP lines, numbered anew
	local line
	while read -r line; do
		case $line in
		'ok '*) n=$((n + 1)) && echo "ok $n - ${line#*- }" ;;
		'not ok '*) n=$((n + 1)) bad=1 && echo "not ok $n - ${line#*- }" ;;
		'# '*) echo "$line" ;;
		esac
	done <"$1"
}

if ! gg-run --devices | grep '^cuda' | grep -qv 'not available'; then
	echo '1..0 # SKIP there is no device'
	exit 0
fi
for d in data/models/*/; do
	m=$(basename "$d")
	[ -e "$d/output_0.npy" ] || continue
	gg-parse "$d/model.onnx" | gg-opt -o "$tmp/$m.gg"
	try "$m" gg-run -q --weights="$d" --target=cuda --test "$d" --steps=3 "$tmp/$m.gg"
	gg-select -q --weights="$d" --target=cuda:sm_90 --layout=auto --precision=tf32 "$tmp/$m.gg" | gg-build -q -o "$tmp/$m.plan"
	try "$m, tf32, a plan" gg-run -q --weights="$d" --test "$d" --rtol=0.02 --atol=0.02 --steps=3 "$tmp/$m.plan"
done
for d in data/models/train*/; do
	m=$(basename "$d")
	gg-parse "$d/model.onnx" | gg-opt -o "$tmp/$m.gg" &&
		try "$m, loss against ref" gg-run -q --weights="$d" --target=cuda --compare=ref "$tmp/$m.gg"
done
# Each step gets other inputs: replayed, they give what ref gives.
gg-run -q --target=ref --output s="$tmp/x.npy" cuda/slices.gg >"$tmp/log" 2>&1
for streams in 1 4; do
	gg-select -q --target=cuda cuda/branches.gg | gg-build -q --streams=$streams -o "$tmp/b$streams.plan"
	for steps in 1 2 3 5; do
		gg-run -q --target=ref --data x="$tmp/x.npy" --steps=$steps --outputs="$tmp/want" cuda/branches.gg
		try "$streams streams, step $steps of new inputs" gg-run -q --data x="$tmp/x.npy" --steps=$steps \
			--expect d="$tmp/want/output_0.npy" --expect e="$tmp/want/output_1.npy" "$tmp/b$streams.plan"
	done
done
# A step that is replayed draws what the same step draws on the host.
gg-run -q --target=ref --steps=7 --output b="$tmp/b.npy" cuda/draws.gg
for streams in 1 3; do
	gg-select -q --target=cuda cuda/draws.gg | gg-build -q --streams=$streams -o "$tmp/r.plan"
	try "random numbers on $streams streams" gg-run -q --steps=7 --rtol=0 --atol=0 --expect b="$tmp/b.npy" "$tmp/r.plan"
done
for m in unet squeezenet1_1; do
	d=data/models/$m
	gg-parse "$d/model.onnx" | gg-opt | gg-select -q --target=cuda | gg-build -q --streams=4 -o "$tmp/$m.plan"
	try "$m, up to 4 streams" gg-run -q --weights="$d" --test "$d" --steps=4 "$tmp/$m.plan"
done
# A plan is the same with and without a device, and serves again elsewhere.
gg-select -q --target=cuda cuda/branches.gg | CUDA_VISIBLE_DEVICES='' gg-build -q -o "$tmp/none.plan"
try 'a plan of a machine without a device' cmp "$tmp/none.plan" <(gg-select -q --target=cuda cuda/branches.gg | gg-build -q)
mkdir "$tmp/moved" && mv "$tmp/none.plan" "$tmp/moved/p"
GG_CACHE=off try 'which runs without a compiler or a cache' gg-run -q --data x="$tmp/x.npy" --steps=5 \
	--expect d="$tmp/want/output_0.npy" "$tmp/moved/p"
# Measured choices are text, and are made again without measuring; deterministic ones give the same bits.
for m in half_conv resnet_slim bert_tiny; do
	d=data/models/$m
	gg-parse --bind N=2 "$d/model.onnx" | gg-opt | gg-select -q --layout=auto --precision=tf32 --target=cuda -o "$tmp/s.gg"
	try "$m, tuned" gg-build --weights="$d" --tune=3 --save-choices="$tmp/a.txt" -o "$tmp/t.plan" "$tmp/s.gg"
	try "$m, from there" gg-run -q --weights="$d" --test "$d" --rtol=0.02 --atol=0.02 --steps=3 "$tmp/t.plan"
	gg-build --weights="$d" --tune=3 --choices="$tmp/a.txt" --save-choices="$tmp/b.txt" -o "$tmp/t.plan" "$tmp/s.gg" 2>"$tmp/log"
	try "$m, choices that are read are not measured" cmp "$tmp/a.txt" "$tmp/b.txt"
	gg-build -q --weights="$d" --tune=3 --deterministic -o "$tmp/same.plan" "$tmp/s.gg"
	for k in $(seq 20); do
		gg-run -q --weights="$d" --inputs "$d" --outputs "$tmp/same" "$tmp/same.plan" && cat "$tmp"/same/* | cksum
	done >"$tmp/sums" 2>"$tmp/log"
	[ "$(wc -l <"$tmp/sums")" = 20 ] && [ "$(sort -u "$tmp/sums" | wc -l)" = 1 ]
	say $? "$m, deterministic: 20 runs with the same bits"
done
gg-run --describe-device >"$tmp/here.json" 2>"$tmp/log"
try 'a device that is described' gg-select -q --target="cuda:$tmp/here.json" -o "$tmp/d.gg" cuda/branches.gg
# Two graphs in one process: one learns, the other looks at what it has learned.
x=../examples/digits
gg-opt -q --pass=loss:kind=softmax_cross_entropy:target=y,grad,momentum:lr=0.05 $x.gg | gg-opt -q -o "$tmp/train.gg"
gg-opt -q --pass=loss:kind=softmax_cross_entropy:target=y $x.gg -o "$tmp/eval.gg"
for target in ref cuda; do
	gg-run -q --target=$target --data x=$x/x.npy --data y=$x/y.npy --batch=32 --steps=9 --hold-out=5 --print loss \
		--eval="$tmp/eval.gg" --eval-every=4 "$tmp/train.gg" >"$tmp/two.$target" 2>"$tmp/log"
done
near() { # near A B: the same words, numbers within one part in a hundred
	paste "$1" "$2" | tr '=' '\t' | awk -F '\t' '{ for (i = 1; i <= NF / 2; i++) { a = $i; b = $(i + NF / 2)
		if (a != b && (a - b > 0.01 * (a + b) || b - a > 0.01 * (a + b) || a + b == 0)) { print; bad = 1 } } }
		END { exit bad || NR < 9 }'
}
near "$tmp/two.ref" "$tmp/two.cuda" >"$tmp/log"
say $? 'two graphs in one process'
# The difficult cases, as on ref and cpu.
ls -d data/cases/*/ | TARGETS=cuda xargs -P 8 -I{} bash -c 'run {} "long short"' >"$tmp/cases"
take "$tmp/cases"
shares() { # shares OF COMMAND...: the sweep's shares side by side; what they print is in $tmp/sweep.N
	local of=$1
	shift
	seq "$of" | xargs -P "$of" -I{} bash -c 'timeout -k 5 300 "${@:3}" "$1/$2" >"$tmp/sweep.$1" 2>&1; echo "$1 $?"' - {} "$of" "$@" >"$tmp/ends"
}
export tmp
shares 8 "$build/tests/device"
for i in $(seq 8); do
	take "$tmp/sweep.$i"
	tail -1 "$tmp/sweep.$i" >"$tmp/log"
	grep -q '^1\.\.' "$tmp/log"
	say $? "share $i of the sweep came to its end"
done
"$build/tests/device" rows >"$tmp/rows"
take "$tmp/rows"
# The kernels under compute-sanitizer: no access outside of what was allocated, and none of tensor-core
# kernels' shared memory that another thread is writing.
if checker=$(PATH=$PATH:/usr/local/cuda/bin command -v compute-sanitizer); then
	shares 8 "$checker" --error-exitcode 9 "$build/tests/device"
	cat "$tmp"/sweep.* | grep '^=====' >"$tmp/log"
	[ "$(grep -c ' 0$' "$tmp/ends")" = 8 ]
	say $? 'memcheck'
	for c in 'conv tile of' 'attention of rows' 'attention and padding'; do
		try "racecheck of $c" timeout 110 "$checker" --tool racecheck --error-exitcode 9 "$build/tests/device" "$c"
	done
else
	n=$((n + 1)) && echo "ok $n - memcheck # SKIP there is no compute-sanitizer"
fi
echo "1..$n"
exit $bad
