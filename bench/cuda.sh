#!/bin/sh
# bench/cuda.sh BUILD [ROW...]: gg against PyTorch on this machine's device, in one run. The
# python3 there has torch, torchvision and onnx; GG_BENCH_PYTHON names another one. -P, as torch has a
# package of the name of cuda.py.
build=$(cd "${1:-build}" && pwd) || exit 1
[ $# -gt 0 ] && shift
PATH="$build/bin:$PATH" exec "${GG_BENCH_PYTHON:-python3}" -P -W ignore "$(dirname "$0")/cuda.py" "$build" "$@"
