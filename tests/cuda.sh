#!/bin/bash
# On a machine with a device: every model through all tools against its reference outputs, in strict
# f32 and with tf32, replayed, from a plan built beforehand, and the kernels against ref.
# `make check-cuda` runs it; `tests/cuda.sh BUILD` needs nothing but bash and what lies in BUILD.
cd "$(dirname "$0")" || exit 1
build=${1:-${GG_BUILD:-../build}}
bin=$(cd "$build/bin" && pwd) || exit 1
PATH=$bin:$PATH
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
	timeout 120 "$@" >"$tmp/log" 2>&1
	say $? "$what"
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
	gg-select -q --weights="$d" --target=cuda:sm_90 --layout=auto --precision=tf32 "$tmp/$m.gg" | gg-build -o "$tmp/$m.plan"
	try "$m, tf32, a plan" gg-run -q --weights="$d" --test "$d" --rtol=0.02 --atol=0.02 --steps=3 "$tmp/$m.plan"
done
for d in data/models/train*/; do
	m=$(basename "$d")
	gg-parse "$d/model.onnx" | gg-opt -o "$tmp/$m.gg" &&
		try "$m, loss against ref" gg-run -q --weights="$d" --target=cuda --compare=ref "$tmp/$m.gg"
done
"$build/tests/device" >"$tmp/sweep" 2>"$tmp/log"
while read -r line; do
	case $line in
	ok*) n=$((n + 1)) && echo "ok $n - ${line#*- }" ;;
	'not ok'*) say 1 "${line#*- }" ;;
	esac
done <"$tmp/sweep"
tail -1 "$tmp/sweep" | grep -q '^1\.\.'
say $? 'the sweep came to its end'
echo "1..$n"
exit $bad
