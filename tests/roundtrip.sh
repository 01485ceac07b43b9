#!/bin/bash
# Every model and case that gg-parse takes: dump, parse, dump gives the same text, through text and
# through JSON; and a tool that changes nothing gives the same records, but for the history.
set -u
cd "$(dirname "$0")" || exit 1

same() { # MODEL: why not, or nothing
	local tmp why=
	tmp=$(mktemp -d) || exit 1
	if gg-parse -q -o "$tmp/s" "$1" 2>/dev/null; then
		gg-dump -o "$tmp/text" "$tmp/s"
		gg-parse -q -o "$tmp/t" "$tmp/text" && gg-dump "$tmp/t" | cmp -s - "$tmp/text" || why='text differs'
		cmp -s "$tmp/s" "$tmp/t" || why=${why:-records differ through text}
		gg-dump --format=json "$tmp/s" | gg-parse -q --format=json -o "$tmp/j" && cmp -s "$tmp/s" "$tmp/j" ||
			why=${why:-records differ through JSON}
		gg-opt -q -O0 "$tmp/s" | gg-opt -q -O0 | gg-dump --format=json | grep -v -e '^."gg"' -e '^."end"' >"$tmp/a"
		gg-dump --format=json "$tmp/s" | grep -v -e '^."gg"' -e '^."end"' | cmp -s - "$tmp/a" ||
			why=${why:-records differ after gg-opt -O0}
		[ -z "$why" ] && echo "ok - ${1#data/}" || echo "not ok - ${1#data/}: $why"
	fi
	rm -rf "$tmp"
}
export -f same

printf '%s\n' data/models/*/model.onnx data/cases/*/model.onnx | xargs -P "$(nproc)" -I{} bash -c 'same {}' |
	awk '/^(not )?ok/ { sub(/ok/, "ok " ++n); bad += /^not/ } { print } END { print "1.." n + 0; exit n < 100 || bad > 0 }'
