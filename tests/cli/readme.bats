#!/usr/bin/env bats
# What README.md tells a newcomer to type, as it stands there, in a copy of what it names.

setup() {
	top=$BATS_TEST_DIRNAME/../..
	mkdir -p "$BATS_TEST_TMPDIR/tests/data/models"
	cp -r "$top/examples" "$BATS_TEST_TMPDIR/"
	cp -r "$top/tests/data/models/squeezenet1_1" "$BATS_TEST_TMPDIR/tests/data/models/"
	cd "$BATS_TEST_TMPDIR"
}

# The commands of sections "## $1": indented, without what is a file or the machine's own.
commands() {
	awk -v from="## $1" '/^## /{on = index($0, from) == 1} on && /^    /{print substr($0, 5)}' "$top/README.md" |
		sed 's/^\$ //; /^export PATH/d; s/| less/| cat/; s#/tmp/#'"$BATS_TEST_TMPDIR"'/#g'
}

@test "First steps, the plan, the graph by hand, your own pass" {
	{
		echo 'set -eo pipefail'
		commands 'First steps' | sed "/^cat mlp.gg/,/^output/{s/^cat mlp.gg/cat >mlp.gg <<'END'/;s/^output.*/&\\nEND/}"
		commands 'Your own pass'
		commands 'Training'
	} >all.sh
	[ "$(grep -c '^gg-' all.sh)" -ge 17 ]
	bash all.sh >out 2>err || { tail -n 5 err; false; }
	! grep -v ': note: ' err | grep '^gg-.*: '
	[ -s result.npy ]
	grep -q '^input	x	f32	\[1,3,96,96\]' out
	grep -q "^output '117': 10 values match" out
	grep -q '^y f32\[2,8\] ' out
}
