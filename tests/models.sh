#!/bin/bash
# Every model of data/models with inputs and outputs beside it, on both targets: through all tools,
# without gg-opt, in the short form, and with GraphKernel nodes.
set -u
cd "$(dirname "$0")" || exit 1
ways='long plain short kernel early'
case ${GG_BUILD:-} in *san*) ways='long short kernel' ;; esac

for d in data/models/*/output_0.npy; do
	[ -e "$d" ] && dirname "$d"
done | xargs -P "$(nproc)" -I{} bash -c "s=\$(lib/folder.sh {} $ways); printf '%s\n' \"\$s\"" |
	awk '/^(not )?ok/ { sub(/ok/, "ok " ++n); bad += /^not/ } { print }
	END { print "1.." n + 0; exit n == 0 || bad > 0 }'
