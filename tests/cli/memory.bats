#!/usr/bin/env bats
# Which results take the buffer of a value that dies, and that nothing is lost by it.

setup() {
	cd "$BATS_TEST_TMPDIR"
	cat >head.gg <<-'END'
		graph "g"
		input %x : f32[1,8,6,6]
		param %w : f32[8,8,1,1] = normal(1, 0, 0.3)
		param %w3 : f32[8,8,3,3] = normal(2, 0, 0.3)
	END
}

# What is on stdin after head.gg, on cpu, against ref, with freed memory poisoned; the values that
# share a buffer.
shared() {
	cat head.gg - >g.gg
	gg-parse g.gg | gg-select --target=cpu --layout=auto | gg-build -o plan
	gg-run -q --compare=ref --poison plan >&2
	gg-dump --memory plan | awk '$1 == "values" { print $4 }'
}

@test "a convolution adds to what lies in its output: the residual, when it dies there" {
	[ "$(shared <<-'END'
		%a = Conv(%x, %w)
		%p = Conv(%a, %w)
		%b = Conv(%p, %w)
		%s = Add(%b, %a)
		%q = Conv(%s, %w)
		%c = Conv(%q, %w3) {pads=[1,1,1,1]}
		%t = Add(%s, %c)
		%y = Conv(%t, %w)
		output %y
	END
	)" = 2 ]
}

@test "not when it is read later, is the convolution's own input, or repeats; an input of the graph stays" {
	[ "$(shared <<-'END'
		%a = Conv(%x, %w)
		%p = Conv(%a, %w)
		%b = Conv(%p, %w)
		%s = Add(%b, %a)
		%c = Conv(%s, %w)
		%d = Conv(%a, %w)
		output %c
		output %d
	END
	)" = 0 ]
	[ "$(shared <<-'END'
		%a = Conv(%x, %w)
		%b = Conv(%a, %w)
		%s = Add(%b, %a)
		%c = Conv(%s, %w)
		output %c
	END
	)" = 0 ]
	[ "$(shared <<-'END'
		%p = Conv(%x, %w)
		%g = GlobalAveragePool(%p)
		%b = Conv(%p, %w)
		%s = Add(%b, %g)
		%c = Conv(%s, %w)
		output %c
	END
	)" = 0 ]
	[ "$(shared <<-'END'
		%p = Conv(%x, %w)
		%b = Conv(%p, %w)
		%s = Add(%b, %x)
		output %s
	END
	)" = 0 ]
}

@test "in plain layouts, behind an activation and beside a second reader the residual is still there" {
	cat head.gg - >g.gg <<-'END'
		%a = Conv(%x, %w)
		%p = Conv(%a, %w)
		%b = Conv(%p, %w)
		%s = Add(%b, %a)
		%q = Conv(%s, %w)
		%c = FusedConv(%q, %w3) {pads=[1,1,1,1], activation="Relu"}
		%t = Add(%s, %c)
		%r = Conv(%t, %w)
		%e = FusedConv(%r, %w, _, %t) {activation="Relu"}
		%u = Exp(%r)
		%f = Add(%e, %u)
		%y = Conv(%f, %w)
		output %y
	END
	for layout in keep auto nchw nhwc; do
		gg-select --target=cpu --layout=$layout g.gg | gg-build -o plan
		gg-run -q --compare=ref --poison plan
		gg-run -q --compare=ref plan
	done
}

@test "views of views and results in place of results are one buffer" {
	cat >g.gg <<-'END'
		graph "g"
		input %x : f32[4,6]
		const %s : i64[2] = [6, 4]
		const %t : i64[1] = [24]
		%a = Exp(%x)
		%b = Reshape(%a, %s)
		%c = Reshape(%b, %t)
		%d = Exp(%c)
		%e = Exp(%d)
		%f = Exp(%e)
		output %f
	END
	gg-select --target=ref g.gg | gg-build -o plan
	gg-dump --memory plan >memory
	cat memory
	grep -Eq '^arena +128 bytes' memory
	gg-run -q --compare=ref --poison plan
}
