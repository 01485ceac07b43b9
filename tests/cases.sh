#!/bin/bash
# Every folder of data/cases: small models with one difficult thing each. Most run on both targets
# and give the output beside them; some must be refused.
set -u
cd "$(dirname "$0")" || exit 1
ways='long plain short'
case ${GG_BUILD:-} in *san*) ways='long short' ;; esac # slow there; plain is nearly short

. lib/cases.sh

for d in data/cases/*/model.onnx; do
	[ -e "$d" ] && dirname "$d"
done | xargs -P "$(nproc)" -I{} bash -c "run {} '$ways'" |
	awk '/^(not )?ok/ { sub(/ok/, "ok " ++n); bad += /^not/ } { print }
	END { print "1.." n + 0; exit n == 0 || bad > 0 }'
