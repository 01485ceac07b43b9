#!/bin/sh
# A man page on stdout: docs/man.sh build/bin/TOOL docs/man/TOOL.txt. The description comes from the
# text file (paragraphs; a line in capitals is a heading), the rest from TOOL --help.
set -eu
name=$(basename "$1")
"$1" --help | awk -v name="$name" -v version="$("$1" --version | head -1)" -v text="$2" '
	function esc(s) { gsub(/\\/, "\\e", s); gsub(/-/, "\\-", s); sub(/^[.\x27]/, "\\\\\\&&", s); return s }
	NR == 1 { sub(/^usage: [^ ]* /, ""); usage = $0; next }
	NR == 2 {
		printf ".TH %s 1 \"\" \"%s\" \"gg\"\n.SH NAME\n%s \\- %s\n", toupper(name), esc(version), esc(name), esc($0)
		printf ".SH SYNOPSIS\n.B %s\n%s\n.SH DESCRIPTION\n", esc(name), esc(usage)
		while ((getline line < text) > 0) {
			if (line ~ /^[A-Z][A-Z ]+$/) print ".SH " line
			else if (line == "") print ".PP"
			else print esc(line)
		}
		next
	}
	/^(options|examples):$/ { sub(/:/, ""); print ".SH " toupper($0) "\n.nf"; next }
	{ print esc($0) }
	END { print ".fi\n.SH SEE ALSO\ngg-parse(1), gg-opt(1), gg-select(1), gg-build(1), gg-run(1), gg-dump(1)" }'
