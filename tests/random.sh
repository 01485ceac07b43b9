#!/bin/sh
# Every ordered pair of passes on random graphs: SEED=5000 COUNT=1000 tests/random.sh tries others. One that
# fails is printed by `passes print SEED`, for gg-opt --reduce.
set -u
cd "$(dirname "$0")" || exit 1
exec "${GG_BUILD:-../build}/tests/passes" random "${SEED:-1}" "${COUNT:-60}"
