# Sourced by tests of the cuda backend that have no device: kernels compiled for the host by a stand-in for
# CUDA's libraries (tests/cuda/fake.c). Sets build, a tmp folder that goes at the end, and n and bad to 0.
cd "$(dirname "$0")" || exit 1
build=$(cd "${GG_BUILD:-../build}" && pwd)
if [ ! -e "$build/tests/fake/libcuda.so.1" ] || [ ! -e "$build/lib/gg-cuda.so" ]; then
	echo '1..0 # SKIP gg-cuda.so is not built'
	exit 0
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export tmp GG_CUDA_LIBS=$build/tests/fake GG_FAKE_DIR=$tmp GG_FAKE_INCLUDE=$PWD/cuda GG_CACHE=$tmp/cache
export ASAN_OPTIONS=detect_leaks=0 # what the stand-in hands out is never given back
n=0 bad=0
