#!/bin/sh
# bench/run.sh BUILD: gg against onnxruntime on this machine, as ratios. What onnxruntime needs is
# installed from PyPI into BUILD/bench (a virtual environment); GG_BENCH_PYTHON names another
# python that has onnxruntime and numpy. A training step against PyTorch: train.sh.
set -e
build=${1:-build}
here=$(dirname "$0")
python=${GG_BENCH_PYTHON:-$build/bench/bin/python}
if [ ! -x "$python" ]; then
	python3 -m venv "$build/bench"
	"$build/bench/bin/pip" install -q onnxruntime numpy
fi
"$here/tools.sh" "$build"
PATH="$build/bin:$PATH" exec "$python" "$here/cpu.py" "$build"
