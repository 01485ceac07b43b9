#!/bin/bash
# Every pass alone and twice on every graph in the tree (golden cases, models, cases, examples), and on each
# graph behind some other passes, drawn by SEED. `make pairs` is SHARE=100: behind all others.
set -u
cd "$(dirname "$0")" || exit 1
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
for m in data/models/*/model.onnx data/cases/*/model.onnx; do
	[ ! -e "$m" ] || gg-parse -q -o "$tmp/$(basename "$(dirname "$m")").gg" "$m" 2>/dev/null
done
"${GG_BUILD:-../build}/tests/passes" some "${SEED:-1}" "${SHARE:-30}" golden/gg-opt/*.gg "$tmp"/*.gg ../examples/digits.gg 2>"$tmp/err"
status=$?
[ $status = 0 ] || sed 's/^/# /' "$tmp/err"
exit $status
