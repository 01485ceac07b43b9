#!/bin/sh
# A pass in shell: every Relu becomes a LeakyRelu.
#
#     gg-parse model.onnx | examples/passes/leaky.sh 0.1 | gg-run
#
# Needs jq, and gg-dump and gg-parse on the PATH.
set -eu
json=$(mktemp)
trap 'rm -f "$json"' EXIT
gg-dump --format=json >"$json" # its failure is ours: a pipe would hide it
jq -c --arg alpha "${1:-0.01}" '
	if .[0] == "node" and .[1].op == "Relu"
	then .[1].op = "LeakyRelu" | .[1].attr = {alpha: ($alpha | tonumber)}
	else . end' "$json" | gg-parse --format=json
