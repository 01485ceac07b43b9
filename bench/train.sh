#!/bin/sh
# bench/train.sh BUILD [BATCH]: a training step of gg against PyTorch on this machine's CPU, in one run.
# PyTorch is installed from PyPI into BUILD/bench-train (a virtual environment); GG_BENCH_PYTHON names
# another python that has torch and numpy.
set -e
build=${1:-build}
[ $# -gt 0 ] && shift
python=${GG_BENCH_PYTHON:-$build/bench-train/bin/python}
if [ ! -x "$python" ]; then
	python3 -m venv "$build/bench-train"
	"$build/bench-train/bin/pip" install -q torch numpy
fi
# -P: cuda.py must not hide a package of that name
PATH="$build/bin:$PATH" exec "$python" -P "$(dirname "$0")/train.py" "$build" "$@"
