#!/usr/bin/env bats
# Looking into a run: --profile, --dump, --check-finite, --compare=ref layer by layer.

bats_require_minimum_version 1.5.0

setup() {
	cd "$BATS_TEST_TMPDIR"
	cat >m.gg <<-'END'
		graph "m"
		input %x : f32[1,8,6,6]
		param %p : f32[2] = [1, 2]
		const %w : f32[8,8,3,3] = normal(1, 0, 0.2)
		const %v : f32[8,8,3,3] = normal(2, 0, 0.2)
		const %flat : i64[2] = [1, 32]
		%a = Conv(%x, %w)
		%"b/1" = Relu(%a)
		%c = Conv(%"b/1", %v)
		%y = Reshape(%c, %flat)
		%q = Add(%p, %p)
		output %y
		state %p <- %q
	END
	models=$BATS_TEST_DIRNAME/../data/models
}

python() { /usr/bin/python3 "$@"; }

@test "--profile: a trace with the nodes of each call, in order and without overlap" {
	for target in ref cpu; do
		gg-run -q --target=$target --steps=2 --profile=p.json m.gg
		python - $target <<-'END'
			import json, sys
			calls = [e for e in json.load(open('p.json'))['traceEvents'] if e['ph'] == 'X']
			runs = [e for e in calls if e['cat'] == 'run']
			calls = [e for e in calls if e['cat'] != 'run']
			assert [r['args']['run'] for r in runs] == [1, 2]
			for run in 1, 2:
			    mine = [e for e in calls if e['args']['run'] == run]
			    ops = '+'.join(e['args']['op'] for e in mine)
			    assert ops.replace('Reorder+', '') == 'Conv+Relu+Conv+Add', ops
			    nodes = sum((e['args']['nodes'] for e in mine), [])
			    assert [n for n in nodes if n in ('a', 'b/1', 'c', 'q')] == ['a', 'b/1', 'c', 'q']
			    for a, b in zip(mine, mine[1:]):
			        assert a['dur'] >= 0 and a['ts'] + a['dur'] <= b['ts'] + 0.002
			    r = runs[run - 1]
			    assert r['ts'] <= mine[0]['ts'] and mine[-1]['ts'] + mine[-1]['dur'] <= r['ts'] + r['dur'] + 0.002
			assert ('Conv+Relu' in [e['args']['op'] for e in calls]) == (sys.argv[1] == 'cpu') # one call there
			assert calls[0]['args']['kernel'] == ('cpu_conv' if sys.argv[1] == 'cpu' else 'ref')
			assert calls[-1]['args']['output'] == 'f32[2]'
		END
	done
}

@test "--profile: nodes of a body lie within their node, --repeat is seen too" {
	cat >if.gg <<-'END'
		input %c : bool[]
		input %x : f32[2]
		%y = If(%c; %x) {then_branch=graph(%a : f32[2]) {
		  %t = Neg(%a)
		  output %t
		}, else_branch=graph(%a : f32[2]) {
		  %e = Exp(%a)
		  output %e
		}}
		output %y
	END
	gg-run -q --target=ref --fill=ones --profile=p.json --repeat=3 --warmup=0 if.gg
	python - <<-'END'
		import json
		calls = [e for e in json.load(open('p.json'))['traceEvents'] if e['ph'] == 'X' and e['cat'] != 'run']
		assert [e['cat'] for e in calls] == ['Neg', 'If'] * 4
		inner, outer = calls[:2]
		assert outer['ts'] <= inner['ts'] and inner['ts'] + inner['dur'] <= outer['ts'] + outer['dur'] + 0.002
	END
}

@test "--dump: every value, as the layout-free tensor that ref computes" {
	gg-run -q --target=ref --dump ref m.gg
	gg-run -q --target=cpu --poison --dump cpu m.gg
	python - <<-'END'
		import numpy as np, os
		files = sorted(f for f in os.listdir('ref') if f.endswith('.npy'))
		assert files == sorted(['a.npy', 'b%2F1.npy', 'c.npy', 'flat.npy', 'p.npy', 'q.npy', 'v.npy', 'w.npy', 'x.npy', 'y.npy']), files
		for f in files:
		    a, b = np.load('ref/' + f), np.load('cpu/' + f)
		    assert a.shape == b.shape and np.allclose(a, b, 1e-4, 1e-5), f
		assert np.array_equal(np.maximum(np.load('ref/a.npy'), 0), np.load('ref/b%2F1.npy'))
		assert np.array_equal(np.load('cpu/c.npy').ravel(), np.load('cpu/y.npy').ravel())
		rows = [l.rstrip('\n').split('\t') for l in open('cpu/values.tsv')]
		assert ['b%2F1.npy', 'b/1', 'f32', '[1,8,4,4]', 'b/1', 'Relu'] in rows and len(rows) >= len(files)
	END
}

@test "--dump: some values, of several steps" {
	gg-run -q --target=cpu --steps=2 --dump '[pq]=d' --dump 'b*=e' m.gg >out
	[ "$(find d e -type f | sort | paste -sd' ')" = \
		'd/0/p.npy d/0/q.npy d/0/values.tsv d/1/p.npy d/1/q.npy d/1/values.tsv e/0/b%2F1.npy e/0/values.tsv e/1/b%2F1.npy e/1/values.tsv' ]
	cmp d/0/q.npy d/1/p.npy
	run gg-run --fill=ones --dump 'none=d' m.gg
	[[ "$output" = *"note: --dump: no value's name matches 'none'"* ]]
	: >file
	run -5 gg-run -q --dump file m.gg
	[[ "$output" = *"cannot make the folder 'file/"* || "$output" = *"'file/"* || "$output" = *"'file'"* ]]
}

@test "--dump: a value fed by a later output is named for that output" {
	cat >s.gg <<-'END'
		input %x : f32[4]
		%a, %b = Split(%x) {num_outputs=2}
		%y = Neg(%b)
		output %y
	END
	gg-run -q --target=ref --fill=range --dump d s.gg >/dev/null
	python -c "import numpy as np; x, a, b, y = (np.load(f'd/{n}.npy') for n in 'xaby'); assert np.array_equal(b, x[2:]) and np.array_equal(a, x[:2]) and np.array_equal(y, -b)"
}

@test "a value inside is written in row-major order, whatever its layout" {
	gg-run -q --target=ref --output c=r.npy m.gg
	gg-run -q --target=cpu --output c=c.npy m.gg
	python -c "import numpy as np; assert np.allclose(np.load('r.npy'), np.load('c.npy'), 1e-4, 1e-5)"
}

@test "--check-finite names the node inside a run that one kernel covers" {
	cat >f.gg <<-'END'
		input %x : f32[2]
		%e = Neg(%x)
		%l = Log(%e)
		%y = Relu(%l)
		output %y
	END
	for target in ref cpu; do
		run -1 gg-run -q --target=$target --fill=ones --check-finite f.gg
		[[ "$output" = "gg-run: f.gg: node 'l' (Log): output 'l' is not finite: element 0 is "*"nan in run 1" ]]
	done
}

@test "--compare=ref: the first node over tolerance, though the output hides it" {
	cat >h.gg <<-'END'
		input %x : f32[1,64]
		const %w : f32[64,64] = normal(1, 0, 1)
		const %zero : f32[1] = [0]
		%a = Exp(%x)
		%h = MatMul(%a, %w)
		%y = Mul(%h, %zero)
		output %y
	END
	gg-run -q --target=cpu --compare=ref h.gg >out
	grep -q '^[23] values inside match, the furthest off is ' out
	grep -q "^output 'y': 64 values match" out
	run -1 gg-run -q --target=cpu --compare=ref --rtol=0 --atol=0 h.gg
	[[ "${lines[0]}" = "gg-run: h.gg: node '"[ah]"' ("*"): the first that is over tolerance, in output '"[ah]"': "* ]]
	[[ "${lines[1]}" = "output 'y': 64 values match, largest difference 0" ]]
}

@test "--compare=ref: every layer of models, in several steps" {
	for m in half_conv bert_tiny train_mlp_adam_mse; do
		for target in ref cpu; do
			gg-parse -q "$models/$m/model.onnx" | gg-opt -q | gg-run -q --weights="$models/$m" --target=$target --compare=ref --steps=2 >out
			grep -q ' values inside match' out
		done
	done
}
