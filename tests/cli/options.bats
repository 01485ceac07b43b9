#!/usr/bin/env bats
# Each option stands in --help, in the man page and in bash completion, and no page names one that is not there.

setup() {
	docs=$BATS_TEST_DIRNAME/../../docs
	cd "$BATS_TEST_TMPDIR"
	export LC_ALL=C
}

tools='gg-parse gg-opt gg-select gg-build gg-run gg-dump'

listed() { # TOOL: the options in its --help, without letters
	"$1" --help | awk '/^options:/ { on = 1 } /^$/ { on = 0 }
		on && match($0, /^ +(-., )?--[a-z][a-z-]*/) { s = substr($0, 1, RLENGTH); sub(/.*--/, "--", s); print s }' | sort
}

complete_word() { # WORD...: what is offered for the last
	bash -c 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _gg; printf "%s\n" "${COMPREPLY[@]}"' \
		"$docs/completion.bash" "$@"
}

@test "completion offers what --help lists, and no more" {
	for t in $tools; do
		listed "$t" >want
		[ "$(wc -l <want)" -ge 9 ]
		complete_word "$t" -- | sort | diff want -
	done
	[ "$(complete_word gg-build --emb)" = --embed ]
	[ "$(complete_word gg-parse --format o)" = onnx ]
	[ -z "$(complete_word gg-parse --format d)" ]
	[ "$(complete_word gg-run --target = c | sort | xargs)" = 'cpu cuda' ]
	[ "$(complete_word gg-opt --pipeline run_op_)" = run_op_hardware ]
	[ "$(complete_word gg-opt --pass bn_relu_)" = bn_relu_grad ]
}

@test "the man page has each option, with its letter" {
	for t in $tools; do
		sh "$docs/man.sh" "$(command -v "$t")" "$docs/man/$t.txt" >page
		"$t" --help | sed -n '/^options:/,/^$/s/^  \(-.*\)  .*/\1/p' | while read -r option _; do
			grep -qF -- "$(printf '%s' "$option" | sed 's/-/\\-/g')" page
		done
	done
}

@test "an option that a page names is one that a tool has" {
	for t in $tools; do listed "$t"; done | sort -u >all
	for t in $tools; do
		grep -oE -- '(^|[ (`])--[a-z][a-z-]*' "$docs/man/$t.txt" | sed 's/^[ (`]//' | grep -v -- '-$' | sort -u | comm -23 - all >none
		[ ! -s none ] || { echo "$t.txt: $(cat none)" && false; }
	done
	grep -ohE -- '(^|[ (`])--[a-z][a-z-]*' "$docs"/*.md "$docs/../README.md" | sed 's/^[ (`]//' | grep -v -- '-$' | sort -u | comm -23 - all >none
	[ ! -s none ] || { cat none && false; }
}

@test "an option twice, empty, behind operands, behind --" {
	printf '%s\n' 'graph "g"' 'input %x : f32[2]' '%y = Relu(%x)' 'output %y' >g.gg
	cp g.gg ./--seed
	gg-run -q g.gg --seed=1 --seed 2 >a
	gg-run -q --seed 2 -- g.gg | diff a -
	gg-run -q -- --seed | diff - <(gg-run -q g.gg)
	run gg-run g.gg -- --seed
	[ "$status" = 2 ]
	for t in $tools; do
		for o in --nosuch --hel --help=1 --output -o -Z --color= --bind= --bind=N=-1 --bind=N=99999999999999999999; do
			run "$t" "$o"
			[ "$status" = 2 ]
			[[ "$output" == "$t: "* ]]
		done
		"$t" --help --nosuch | grep -q "^usage: $t "
	done
}

@test "an empty value is a usage error, as is an empty option of a pass" {
	for t in $tools; do
		"$t" --help | grep -oE '^ +(-., )?--[a-z-]+\[?=' | grep -oE -- '--[a-z-]+' >valued
		[ "$(wc -l <valued)" -ge 5 ]
		while read -r o; do
			run "$t" "$o="
			[ "$status" = 2 ]
			[ "$output" = "$t: option '$o' needs a value, not '' (see $t --help)" ]
		done <valued
		run "$t" --bind ''
		[ "$status" = 2 ]
	done
	run gg-opt -O ''
	[ "$status" = 2 ]
	run gg-opt --pass=cse,fold_constants:size=
	[ "$status" = 2 ]
	[ "$output" = "gg-opt: pass 'fold_constants': option 'size' needs a value, not '' (see gg-opt --help)" ]
}
