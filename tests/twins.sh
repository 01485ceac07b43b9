#!/bin/sh
# Every pass of gg-opt --list has a golden case on which it fires, and a twin on which it does not: it is refused,
# finds nothing or is an error. TAP on stdout.
set -u
cd "$(dirname "$0")" || exit 1
said=$(mktemp) || exit 1
trap 'rm -f "$said"' EXIT
n=0 failed=0

fires() { # PASS FILE
	run=$(sed -n '1s/^# run: gg-opt /gg-opt --stats /p' "$2")
	sed '/^# want/,$d; /^# err/,$d' "$2" | sh -c "$run" >/dev/null 2>"$said" || return 1
	grep -q "^$1 .*, applied [1-9]" "$said"
}

for pass in $(gg-opt --list | sed 's/ .*//'); do
	n=$((n + 1)) does='' not=''
	for f in $(grep -lE "^# run: .*[=,]$pass([:, ]|$)" golden/gg-opt/*.gg); do
		if fires "$pass" "$f"; then does=$f; else not=$f; fi
		[ "$does" ] && [ "$not" ] && break
	done
	what="$pass has a golden case that fires and one that does not"
	[ "$does" ] || what="$pass: no golden case fires"
	[ "$not" ] || what="$pass: every golden case fires: it has no twin"
	if [ "$does" ] && [ "$not" ]; then
		echo "ok $n - $what"
	else
		failed=$((failed + 1))
		echo "not ok $n - $what"
	fi
done
echo "1..$n"
[ "$n" -gt 0 ] && [ "$failed" = 0 ]
