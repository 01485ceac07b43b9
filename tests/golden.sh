#!/bin/sh
# Golden cases, one a file in golden/TOOL/: TAP on stdout.
#
#	# run: gg-opt --pass=cse | gg-dump      a shell command; the text up to the next mark is its input
#	# want                                  its stdout, exactly
#	# err 3                                 its exit status (0 when absent); each line below is in stderr
set -u
cd "$(dirname "$0")" || exit 1
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
n=0 failed=0

section() { # FILE MARK: the lines after a mark, up to the next
	awk -v mark="$2" '/^# (want|err)/ { on = ($2 == mark); next } on' "$1"
}

for f in golden/*/*.gg; do
	[ -e "$f" ] || break
	n=$((n + 1))
	run=$(sed -n 's/^# run: //p' "$f")
	status=$(sed -n 's/^# err //p' "$f")
	awk '/^# (want|err)/ { exit } !/^# run: /' "$f" >"$tmp/in"
	section "$f" want >"$tmp/want"
	section "$f" err >"$tmp/says"
	sh -c "$run" <"$tmp/in" >"$tmp/out" 2>"$tmp/err"
	got=$? why=
	sed -i '/^history /d' "$tmp/out" # it holds the version
	[ "$got" = "${status:-0}" ] || why="exit status $got, expected ${status:-0}"
	[ -n "$run" ] || why='no "# run:" line'
	[ -n "$status" ] || cmp -s "$tmp/want" "$tmp/out" || why='other output'
	while IFS= read -r line; do
		grep -qF -- "$line" "$tmp/err" || why="not said: $line"
	done <"$tmp/says"
	if [ -z "$why" ]; then
		echo "ok $n - $f"
	else
		failed=$((failed + 1))
		echo "not ok $n - $f: $why"
		diff "$tmp/want" "$tmp/out" | sed 's/^/# /' | head -20
		sed 's/^/# stderr: /' "$tmp/err" | head -5
	fi
done
echo "1..$n"
[ "$n" -gt 0 ] && [ "$failed" = 0 ]
