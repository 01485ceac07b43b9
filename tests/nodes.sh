#!/bin/bash
# ONNX's own backend tests, a few of them, as files: bodies, sizes that hang on data, and long chains
# of shape arithmetic. Through all tools on cpu and in the short form on ref.
set -u
cd "$(dirname "$0")/data/nodes" || exit 1

n=0 bad=0
say() { # STATUS WHAT FILE
	n=$((n + 1))
	if [ "$1" = 0 ]; then
		echo "ok $n - $2"
	else
		echo "not ok $n - $2"
		sed 's/^/# /' "$3"
		bad=1
	fi
}

set -o pipefail
log=$(mktemp) || exit 1
for d in */; do
	d=${d%/}
	: >"$log"
	gg-parse "$d/model.onnx" 2>>"$log" | gg-run --target=ref --test "$d" >/dev/null 2>>"$log"
	say $? "$d on ref" "$log"
	: >"$log"
	gg-parse "$d/model.onnx" 2>>"$log" | gg-opt 2>>"$log" | gg-select --target=cpu 2>>"$log" |
		gg-build 2>>"$log" | gg-run --test "$d" >/dev/null 2>>"$log"
	say $? "$d on cpu, through all tools" "$log"
done
rm -f "$log"
echo "1..$n"
exit $((n == 0 || bad))
