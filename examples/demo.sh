#!/bin/sh
# SqueezeNet from its ONNX file to checked outputs, on both targets: what `make demo` shows.
set -eu
here=$(dirname "$0")
export PATH="${1:-$here/../build/bin}:$PATH"
net=$here/../tests/data/models/squeezenet1_1

echo "The network: $net/model.onnx"
gg-parse "$net/model.onnx" | gg-dump --stats | head -6
for target in ref cpu; do
	echo
	echo "\$ gg-parse model.onnx | gg-opt | gg-select --target=$target --layout=auto | gg-build | gg-run --test ."
	gg-parse "$net/model.onnx" | gg-opt | gg-select --target=$target --layout=auto | gg-build |
		gg-run --test "$net"
done
echo
echo 'What it computed (first values of each output):'
gg-parse "$net/model.onnx" | gg-run --target=cpu --inputs "$net"
echo 'The outputs match the reference outputs beside the model.'
