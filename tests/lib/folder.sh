#!/bin/bash
# One folder with a model, inputs and outputs through the tools: one TAP line without its number
# for each way through, after it `# ` lines that say why not.
#
#	folder.sh DIR WAY...    WAY: long, plain (without gg-opt, memory poisoned), short (gg-parse | gg-run),
#	                        kernel (all pipelines after selection), early (kernels made before it)
#
# DIR/case.txt, where there is one, says `tolerance: exact` or `rtol=R atol=A`, or `must fail: WHAT`:
# then some stage must exit 3 or 4, and stderr hold each word of $SAYS. $TARGETS names the targets, ref and cpu
# unless it is set. Stages that all ways share run once.
set -u
dir=$1 name=$(basename "$1")
shift
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
field() { [ ! -e "$dir/case.txt" ] || sed -n "s/^$1: *//p" "$dir/case.txt"; }
fails=$(field 'must fail')
case $(field tolerance) in
'') tolerance=() ;;
exact) tolerance=(--rtol=0 --atol=0) ;;
*) tolerance=($(field tolerance | sed 's/[ra]tol=/--&/g')) ;;
esac

way() { # TARGET WAY: the first status that is not 0
	case $2 in
	long) gg-select -q --target="$1" "$tmp/opt" | gg-build -q | gg-run -q --test "$dir" "${tolerance[@]}" ;;
	plain) gg-select -q --target="$1" "$tmp/parse" | gg-build -q | gg-run -q --poison --test "$dir" "${tolerance[@]}" ;;
	kernel) gg-select -q --target="$1" --layout=auto "$tmp/opt" | gg-opt -q --pipeline=hardware,final,graph_kernel |
		gg-build -q | gg-run -q --poison --test "$dir" "${tolerance[@]}" ;;
	early) gg-opt -q --pipeline=graph_kernel "$tmp/opt" | gg-select -q --target="$1" --layout=auto | gg-build -q |
		gg-run -q --test "$dir" "${tolerance[@]}" ;;
	short) gg-run -q --target="$1" --test "$dir" "${tolerance[@]}" "$tmp/parse" ;;
	esac >"$tmp/out" 2>>"$tmp/err"
	local all=("${PIPESTATUS[@]}") s
	for s in "${all[@]}"; do [ "$s" = 0 ] || return "$s"; done
}

say() { # STATUS NAME
	if [ "$1" = 0 ]; then
		echo "ok - $2"
	else
		echo "not ok - $2: exit status $1"
		sed 's/^/# /' "$tmp/err" | head -5
	fi
}

gg-parse -q -o "$tmp/parse" "$dir/model.onnx" 2>"$tmp/err"
status=$?
if [ $status = 0 ]; then
	gg-opt -q -o "$tmp/opt" "$tmp/parse" 2>>"$tmp/err"
	status=$?
fi
if [ -n "$fails" ]; then
	[ $status != 0 ] || { way "${TARGETS:-cpu}" short; status=$?; }
	why=
	[ $status = 3 ] || [ $status = 4 ] || why="exit status $status, expected 3 or 4"
	[ "$(wc -l <"$tmp/err")" = 1 ] || why="${why:-more or less than one message}"
	for word in $SAYS; do
		grep -qF -- "$word" "$tmp/err" || why="${why:-the message does not say $word}"
	done
	if [ -z "$why" ]; then
		echo "ok - $name is refused: $fails"
	else
		echo "not ok - $name must be refused: $fails: $why"
		sed 's/^/# /' "$tmp/err" | head -5
	fi
	exit
fi
if [ $status != 0 ]; then
	say $status "$name: gg-parse and gg-opt"
	exit
fi
for target in ${TARGETS:-ref cpu}; do
	for w; do
		: >"$tmp/err"
		way $target "$w"
		say $? "$name on $target, $w"
	done
done
