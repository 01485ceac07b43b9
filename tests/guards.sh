#!/bin/sh
# Every condition of a built-in rule has a golden case of its pass that it keeps from firing, and that says so: TAP on
# stdout. Those that shape rules leave nothing to do are listed with the reason.
set -u
cd "$(dirname "$0")" || exit 1
n=0 failed=0

unreachable() {
	cat <<-'END'
		attention_heads dim(hk, 2) == dim(hv, 2)	Attention has as many heads of keys as of values
		momentum_scale dtype(a) == f32	ApplyMomentum has one dtype for both
		momentum_scale same_shape(w, g)	and one shape; a scalar factor keeps it
		momentum_weight dtype(a) == f32	ApplyMomentum has one dtype for both
		momentum_weight_scale dtype(a) == f32	ApplyMomentum has one dtype for both
	END
}

conditions() { # PASS: one a line
	gg-opt --explain="$1" | sed -n 's/^  where        //p' | sed 's/ and /\n/g' | sort -u
}

for pass in $(gg-opt --list | sed 's/ .*//'); do
	files=$(grep -lE "^# run: .*[=,]$pass([:, ]|$)" golden/gg-opt/*.gg)
	while IFS= read -r c; do
		[ -n "$c" ] || continue
		n=$((n + 1))
		if grep -qF -- "'$c' does not hold" $files; then
			echo "ok $n - $pass: $c"
		elif unreachable | grep -qF -- "$pass $c	"; then
			echo "ok $n - $pass: $c # SKIP it cannot fail: $(unreachable | grep -F -- "$pass $c	" | cut -f2)"
		else
			failed=$((failed + 1))
			echo "not ok $n - $pass: no golden case says '$c' does not hold"
		fi
	done <<-END
		$(conditions "$pass")
	END
done
echo "1..$n"
[ "$n" -gt 20 ] && [ "$failed" = 0 ]
