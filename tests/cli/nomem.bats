#!/usr/bin/env bats
# No memory: whichever allocation fails, a tool says so, exits 5 and leaves no output file. What
# the C library can do without (a buffer of stdio) may also go by unnoticed.

setup() {
	cd "$BATS_TEST_TMPDIR"
	if nm -D "$(command -v gg-opt)" | grep -q __asan; then
		skip "the sanitizer has an allocator of its own"
	fi
	cc -shared -fPIC -o nomem.so "$BATS_TEST_DIRNAME/../lib/nomem.c"
	cat >g.txt <<'END'
graph "g"
input %x : f32[2, 3]
const %c : f32[3] = [1, 2, 3]
%a = Add(%x, %c)
%y = Relu(%a)
output %y
END
	gg-opt -O0 g.txt >g.gg
	gg-select --target=ref g.gg >s.gg
	gg-build s.gg >b.gg
}

# Runs "$@" -o out with the k-th allocation failing, for all k.
all_fail() {
	local k=0 status
	"$@" -o want
	while :; do
		k=$((k + 1))
		rm -f hit out
		status=0
		NOMEM=$k NOMEM_HIT=hit LD_PRELOAD=./nomem.so "$@" -o out >said 2>&1 || status=$?
		[ -e hit ] || break
		if [ "$status" = 0 ]; then
			cmp out want
		elif [ "$status" != 5 ] || [ -e out ] || [ "$(wc -l <said)" != 1 ]; then
			echo "allocation $k: status $status, said: $(cat said)"
			ls
			return 1
		fi
	done
	[ "$status" = 0 ]
	[ $k -gt 10 ]
	ls | { ! grep 'out\.'; } # no temporary file either
}

@test "gg-opt, no memory" { all_fail gg-opt g.gg; }

@test "gg-opt on text, no memory" { all_fail gg-opt -O0 g.txt; }

@test "gg-parse, no memory" {
	all_fail gg-parse "$BATS_TEST_DIRNAME/../data/cases/clip_min_above_max_b/model.onnx"
}

@test "gg-select, no memory" { all_fail gg-select --target=ref g.gg; }

@test "gg-build, no memory" { all_fail gg-build s.gg; }

@test "gg-dump, no memory" { all_fail gg-dump b.gg; }

@test "gg-dump as JSON, no memory" { all_fail gg-dump --format=json b.gg; }

@test "gg-run, no memory" { all_fail gg-run -q --fill=ones b.gg; }

@test "gg-run compared with ref, no memory" { all_fail gg-run -q --target=ref --steps=2 --check-finite --compare=ref g.gg; }
