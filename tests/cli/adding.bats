#!/usr/bin/env bats
# docs/adding.md: the three ways to a pass, as they stand there.

setup() {
	top=$BATS_TEST_DIRNAME/../..
	cd "$BATS_TEST_TMPDIR"
	mkdir -p examples && cp -r "$top/examples/passes" examples/
	block 'this `g.gg`:' >g.gg
}

# The indented block behind the line that ends so.
block() {
	awk -v mark="$1" '!on && length($0) >= length(mark) && substr($0, length($0) - length(mark) + 1) == mark { on = 1; next }
	on && /^    /{ print substr($0, 5); some = 1; next } on && /^$/{ if (some) print ""; next } on && some { exit }' "$top/docs/adding.md"
}

@test "the commands run" {
	{
		echo 'set -eo pipefail'
		sed -n '/^## A pass$/,/^## A kernel$/s/^    \$ //p' "$top/docs/adding.md"
	} >all.sh
	[ "$(grep -c '^gg-' all.sh)" -ge 4 ]
	bash all.sh >out 2>err || { cat err; false; }
	[ "$(grep -c '^%y = Neg(%r)' out)" -ge 2 ]
	grep -q 'applied 1, refused 0' err
	grep -q 'Sqrt(' out
	grep -q 'LeakyRelu(%a) {alpha=0.1}' out
}

@test "the pass file compiles, fires, and its twin does not" {
	block 'tools/gg-opt/pass/relu_abs.c`:' >relu_abs.c
	{
		sed "s|\"../pass.h\"|\"$(realpath "$top")/tools/gg-opt/pass.h\"|" relu_abs.c
		echo 'const int gg_plugin_abi = GG_PASS_ABI;'
		echo 'const gg_pass *const gg_plugin_passes[] = {&gg_pass_relu_abs, 0};'
	} >plugin.c
	cc -shared -fPIC -o relu_abs.so plugin.c
	block 'tests/golden/gg-opt/relu_abs.gg`:' | sed '/^$/d' >case.gg
	sed -n '/^# want/,$p' case.gg | sed 1d >want
	[ -s want ]
	sed '/^# want/,$d; /^# run/d' case.gg | gg-opt --load=./relu_abs.so --pass=relu_abs | gg-dump | grep -v '^history' >got
	diff want got
	block 'tests/golden/gg-opt/relu_abs_reader.gg`:' | sed '/^$/d' >case.gg
	says=$(tail -n 1 case.gg)
	sed '/^# err/,$d; /^# run/d' case.gg | gg-opt --load=./relu_abs.so --pass=relu_abs --remarks -o /dev/null 2>err
	grep -qF "$says" err
}

@test "the predicates of rules are listed" {
	gg-opt --explain=rules | grep -q '^same_shape '
}
