#!/bin/bash
# Engines of cuDNN by the stand-in (tests/cuda/fake_dnn.c): compiled when a plan is loaded, each once, and kept in
# the cache.
. "$(dirname "$0")/lib/fake.sh"
export GG_CUDA_LIBS=$build/tests/fake/dnn
engines=8
{
	printf 'graph "g"\ninput %%x : f16[1,16,6,6]\n'
	for ((i = 1; i <= engines; i++)); do
		((i > 1)) && from=r$((i - 1)) || from=x
		cat <<-END
			const %w$i : f16[16,16,$((i % 2 * 2 + 1)),3] = normal($i, 0, 0.1)
			const %b$i : f16[16] = normal($i, 0, 0.1)
			%c$i = Conv(%$from, %w$i, %b$i) {pads=[$((i % 2)),$((i / 2 + 1)),$((i % 2)),1]}
			%r$i = Relu(%c$i)
		END
	done
	echo "output %r$engines"
} >"$tmp/g.gg"
gg-run -q --target=ref --fill=range --outputs "$tmp/want" "$tmp/g.gg"
gg-opt "$tmp/g.gg" | gg-select -q --target=cuda:sm_90 --layout=auto | gg-build -o "$tmp/g.plan" 2>"$tmp/log"

check() { # check STATUS WHAT
	n=$((n + 1))
	[ "$1" = 0 ] && echo "ok $n - $2" && return
	echo "not ok $n - $2" && sed 's/^/# /' "$tmp/log" | tail -4 && bad=1
}
# What each run must show: the result, and how many engines were compiled.
run() { # run WHAT COMPILED [VAR=VALUE...]
	local what=$1 compiled=$2 good=0
	shift 2
	rm -f "$tmp/built" && touch "$tmp/built"
	env "$@" GG_FAKE_BUILT="$tmp/built" timeout 60 gg-run -v --fill=range --steps=3 \
		--expect "r$engines=$tmp/want/output_0.npy" "$tmp/g.plan" >"$tmp/out" 2>"$tmp/log" || good=1
	[ "$(wc -l <"$tmp/built")" = "$compiled" ] || good=1
	[ "$(grep -c 'cuDNN: conv ' "$tmp/log")" = $engines ] || good=1
	echo "# $(wc -l <"$tmp/built") compiled" >>"$tmp/log"
	check $good "$what"
}

[ "$(grep -c "note: compiled when the plan is loaded: $engines cuDNN engines" "$tmp/log")" = 1 ] ||
	grep -q "when the plan is loaded: .*$engines cuDNN engines" "$tmp/log"
check $? 'left to the load'
run 'without a cache' 8 GG_CACHE=off
run 'with one' 8
run 'which has them' 0
[ "$(grep -c ' from the cache in ' "$tmp/log")" = $engines ]
check $? 'and they come from there'
for f in "$tmp"/cache/*.engine; do echo x >>"$f"; done
run 'damaged ones are made again' 8
# Kernels of cases with what cuDNN does.
for c in 'conv residual relu' 'conv bias, uneven' 'conv plus itself' 'conv times its relu' 'matmul times its sum'; do
	"$build/tests/device" "$c" >"$tmp/log" 2>&1 && grep -q '^ok' "$tmp/log"
	check $? "$c"
done
echo "1..$n"
exit $bad
