#!/usr/bin/env bats
# gg-run and gg-build at the command line, on graphs in text form. Expected numbers are worked out by hand.

bats_require_minimum_version 1.5.0

setup() {
	cd "$BATS_TEST_TMPDIR"
	cat >m.gg <<-'END'
		graph "m"
		input %x : f32[N,2]
		const %w : f32[2,3] = [1, 2, 3, 4, 5, 6]
		const %b : f32[3] = [0, -20, 1]
		%h = MatMul(%x, %w)
		%s = Add(%h, %b)
		%y = Relu(%s)
		output %y
	END
	cat >state.gg <<-'END'
		graph "state"
		input %x : f32[2]
		param %p : f32[2] = [1, 2]
		param %a : f32[1] = [10]
		param %b : f32[1] = [20]
		const %two : f32[1] = [2]
		%s = Add(%p, %x)
		%twice = Mul(%p, %two)
		%q = Assign(%p, %s)
		output %q
		output %twice
		state %p <- %q
		state %a <- %b
		state %b <- %a
	END
}

npy() { /usr/bin/python3 -c "import numpy as np; np.save('$1', np.array($2).astype('$3'))"; }
load() { /usr/bin/python3 -c "import numpy as np; a = np.load('$1'); print(a.dtype.str, list(a.shape), a.ravel().tolist())"; }

# refused STATUS MESSAGE COMMAND...: one line on stderr
refused() {
	local want=$1 text=$2
	shift 2
	run bash -c '"$@" 2>&1 >/dev/null' _ "$@"
	echo "$status $output"
	[ "$status" -eq "$want" ]
	[ "$output" = "$text" ]
}

@test "an output in one line" {
	npy x.npy '[[1, 2], [3, 4]]' '<f4'
	for target in ref cpu; do
		run gg-run --target=$target --input x=x.npy m.gg
		[ "$output" = 'y f32[2,3] min 0 max 34 mean 14 [9 0 16 19 ...]' ]
	done
}

@test "--output, --outputs, and a value inside" {
	npy x.npy '[[1, 2]]' '<f4'
	gg-run --input x=x.npy --output y=y.npy --output h=h.npy --outputs out m.gg
	[ "$(load y.npy)" = '<f4 [1, 3] [9.0, 0.0, 16.0]' ]
	[ "$(load h.npy)" = '<f4 [1, 3] [9.0, 12.0, 15.0]' ]
	cmp y.npy out/output_0.npy
}

@test "--test and --expect: a match, a difference, the wrong shape or dtype" {
	mkdir t
	npy t/input_0.npy '[[1, 2]]' '<f4'
	npy t/output_0.npy '[[9, 0, 16.001]]' '<f4'
	npy other.npy '[9, 0, 16]' '<f4'
	npy f64.npy '[[9, 0, 16]]' '<f8'
	gg-run --test t m.gg
	refused 1 "gg-run: m.gg: output 'y': 1 of 3 values differ, worst at [0,2]: got 16, expected 16.0009995 (rtol 0, atol 1e-05; would pass with --rtol=6.19e-05 or --atol=0.001)" \
		gg-run --test t --rtol=0 m.gg
	gg-run --test t --rtol=6.25e-5 --atol=0 m.gg
	refused 1 "gg-run: m.gg: 'y' has shape [1,3], expected [3]" gg-run --inputs t --expect y=other.npy m.gg
	refused 1 "gg-run: m.gg: 'y' is f32, expected f64" gg-run --inputs t --expect y=f64.npy m.gg
	rm t/output_0.npy
	refused 3 "gg-run: m.gg: t: no output_0.npy or .pb to compare with" gg-run -q --test t m.gg
}

@test "NaN equals NaN in its place, infinity its own sign" {
	printf 'input %%x : f32[3]\n%%y = Identity(%%x)\noutput %%y\n' >i.gg
	npy a.npy '[np.nan, np.inf, 1]' '<f4'
	npy b.npy '[np.nan, -np.inf, 1]' '<f4'
	gg-run --input x=a.npy --expect y=a.npy i.gg
	refused 1 "gg-run: i.gg: 'y': 1 of 3 values differ, worst at [1]: got inf, expected -inf (rtol 0.001, atol 1e-05; no tolerance would pass)" \
		gg-run --input x=a.npy --expect y=b.npy i.gg
}

@test "inputs that do not fit are refused by name" {
	npy x.npy '[[1, 2, 3]]' '<f4'
	npy d.npy '[[1, 2]]' '<f8'
	npy v.npy '[1, 2]' '<f4'
	refused 3 "gg-run: m.gg: input 'x': axis 1 has size 3, expected 2" gg-run --input x=x.npy m.gg
	refused 3 "gg-run: m.gg: input 'x' has dtype f64, expected f32" gg-run --input x=d.npy m.gg
	refused 3 "gg-run: m.gg: input 'x' has rank 1, expected 2" gg-run --input x=v.npy m.gg
	refused 2 "gg-run: m.gg: --input: the graph has no input 'z'" gg-run --input z=x.npy m.gg
	refused 3 "gg-run: m.gg: gone.npy: cannot read it: No such file or directory" gg-run --input x=gone.npy m.gg
	printf 'input %%a : f32[N]\ninput %%b : f32[N]\n%%y = Add(%%a, %%b)\noutput %%y\n' >two.gg
	npy one.npy '[1]' '<f4'
	refused 3 "gg-run: two.gg: input 'b': axis 0: N is 1, but input 'a' says 2" \
		gg-run --input a=v.npy --input b=one.npy two.gg
}

@test "inputs not given are filled, with a note" {
	refused 0 "gg-run: m.gg: note: input 'x' is not given: filled, f32[4,2], seed 0" gg-run --bind N=4 m.gg
	refused 0 "gg-run: m.gg: note: input 'x' is not given: filled, f32[5,2], seed 7" gg-run --shape x=5,2 --seed 7 m.gg
	[ "$(gg-run -q --fill=ones --bind N=1 m.gg)" = 'y f32[1,3] min 0 max 10 mean 5 [5 0 10]' ]
	[ "$(gg-run -q --seed 1 m.gg)" != "$(gg-run -q --seed 2 m.gg)" ]
	[ "$(gg-run -q --seed 1 m.gg)" = "$(gg-run -q --seed 1 m.gg)" ]
}

@test "filled integers are in the range of their readers" {
	cat >g.gg <<-'END'
		input %i : i64[100]
		input %k : i32[20]
		const %t : f32[3,2] = [0, 1, 10, 11, 20, 21]
		%y = Gather(%t, %i) {axis=0}
		%j = Cast(%k) {to=i64}
		%z = Gather(%t, %j) {axis=1}
		output %y
		output %z
		output %i
	END
	for fill in normal ones zeros range; do gg-run -q --fill=$fill g.gg; done
	gg-run -q g.gg | grep -q '^i i64\[100\] min 0 max 2 '
}

@test "a stage that is left out is run, and its failure is ours" {
	npy x.npy '[[1, 2]]' '<f4'
	gg-select --target=ref m.gg >s.gg
	gg-build s.gg >b.gg
	for f in m.gg s.gg b.gg; do [ "$(gg-run --input x=x.npy $f)" = 'y f32[1,3] min 0 max 16 mean 8.33333 [9 0 16]' ]; done
	refused 2 "gg-run: b.gg: the graph was selected for target 'ref', not 'cpu'" gg-run --target=cpu b.gg
	refused 3 "gg-build: m.gg: the graph has no target: gg-select comes before gg-build" gg-build m.gg
}

@test "state is carried from step to step, printed, saved and loaded" {
	for target in ref cpu; do
		gg-run -q --target=$target --fill=ones --steps 3 --print q --print twice --save s.gg state.gg >out
		printf '0\t2\t3\t2\t4\n1\t3\t4\t4\t6\n2\t4\t5\t6\t8\n' | cmp - out
		gg-dump s.gg | grep -qx 'param %p : f32\[2\] = \[4, 5\]'
		gg-dump s.gg | grep -qx 'param %a : f32\[1\] = \[20\]'
		gg-dump s.gg | grep -qx 'stage "parse"'
		[ "$(gg-run -q --fill=ones --load-state s.gg --print q state.gg)" = "$(printf '3\t5\t6')" ]
	done
	gg-select --target=cpu state.gg | gg-build | gg-run -q --fill=ones --save t.gg >/dev/null
	gg-dump t.gg | grep -qx 'param %p : f32\[2\] = \[2, 3\]'
	! gg-dump t.gg | grep -q kernel
	printf 'input %%x : f32[2]\n%%y = Relu(%%x)\noutput %%y\n' >other.gg
	refused 3 "gg-run: state.gg: other.gg: it has no state 'p'" gg-run -q --load-state other.gg state.gg
}

@test "an initialiser can be given" {
	npy p.npy '[5, 6]' '<f4'
	[ "$(gg-run -q --fill=zeros --input p=p.npy --print q state.gg)" = "$(printf '0\t5\t6')" ]
	npy p.npy '[5, 6, 7]' '<f4'
	refused 3 "gg-run: state.gg: 'p' is f32[3], expected f32[2]" gg-run -q --input p=p.npy state.gg
}

@test "--data: slices, batches, cycling, the short last batch" {
	printf 'input %%x : f32[N]\n%%y = Identity(%%x)\noutput %%y\n' >i.gg
	npy d.npy '[[1, 2], [3, 4]]' '<f4'
	gg-run --data x=d.npy --steps 3 --print y i.gg >out
	printf '0\t1\t2\n1\t3\t4\n2\t1\t2\n' | cmp - out
	npy d.npy '[1, 2, 3, 4, 5]' '<f4'
	gg-run --data x=d.npy --batch=2 --steps 3 --print y i.gg >out 2>err
	printf '0\t1\t2\n1\t3\t4\n2\t1\t2\n' | cmp - out
	grep -q "note: input 'x': the last 1 of 5 samples do not fill a batch" err
	refused 2 "gg-run: i.gg: --data: axis 0 of input 'x' is N: say --batch=N" gg-run --data x=d.npy i.gg
	refused 3 "gg-run: i.gg: --data: input 'x': d.npy: 5 samples do not fill a batch of 6" gg-run --data x=d.npy --batch=6 i.gg
	npy d.npy 'range(8)' '<f4'
	gg-run --data x=d.npy --batch=8 --shuffle=3 --steps 2 --print y i.gg >out
	[ "$(sed -n 1p out | tr '\t' '\n' | tail -n +2 | sort -n | tr '\n' ' ')" = '0 1 2 3 4 5 6 7 ' ]
	[ "$(sed -n 1p out | cut -f2-)" != "$(sed -n 2p out | cut -f2-)" ]
	gg-run --data x=d.npy --batch=8 --shuffle=3 --steps 2 --print y i.gg | cmp - out
}

@test "--data: a large shuffled batch is gathered by threads" {
	printf 'input %%x : f32[32,50000]\nconst %%axis : i64[1] = [1]\n%%y = ReduceMean(%%x, %%axis) {keepdims=0}\noutput %%y\n' >i.gg
	npy d.npy '[[i] * 50000 for i in range(64)]' '<f4'
	for threads in 1 3 4; do
		GG_NUM_THREADS=$threads gg-run -q --target=ref --data x=d.npy --shuffle=3 --steps 2 --print y i.gg >out.$threads
	done
	cmp out.1 out.3
	cmp out.1 out.4
	[ "$(cut -f2- out.1 | tr '\t' '\n' | sort -n | tr '\n' ' ')" = "$(seq 0 63 | tr '\n' ' ')" ]
}

@test "a mean of integers is right where their sum takes more than 64 bits" {
	cat >mean.gg <<-'END'
		const %x : i64[2,3] = [9223372036854775807, 9223372036854775807, 9223372036854775806, -9223372036854775808, -9223372036854775808, -9223372036854775805]
		const %y : u64[3] = [18446744073709551615, 18446744073709551613, 5]
		const %rows : i64[1] = [1]
		%a = ReduceMean(%x, %rows) {keepdims=0}
		%b = ReduceMean(%y) {keepdims=0}
		%c = ReduceMax(%y) {keepdims=0}
		%d = ReduceMin(%y) {keepdims=0}
		output %a
		output %b
		output %c
		output %d
	END
	[ "$(gg-run -q --target=ref --print a --print b --print c --print d mean.gg | tr '\t' ' ')" = '0 9223372036854775806 -9223372036854775807 12297829382473034411 18446744073709551615 5' ]
}

@test "bodies and sizes that depend on data" {
	cat >loop.gg <<-'END'
		input %x : f32[N]
		input %m : i64[]
		%y = Loop(%m, _, %x; %x) {body=graph(%i : i64[], %c : bool[], %s : f32[*], %cap : f32[N]) {
		  %n = Concat(%s, %cap) {axis=0}
		  output %c
		  output %n
		}}
		%z = NonZero(%y)
		output %y
		output %z
	END
	npy x.npy '[7, 0]' '<f4'
	npy m.npy 2 '<i8'
	for target in ref cpu; do
		for more in '' --poison --check-finite; do
			gg-run --target=$target $more --input x=x.npy --input m=m.npy --steps 3 --print y --print z loop.gg >out
			grep -qx "$(printf '2\t7\t0\t7\t0\t7\t0\t0\t2\t4')" out
		done
	done
}

@test "random nodes: each step another, each seed its own" {
	cat >r.gg <<-'END'
		%a = RandomUniform() {shape=[2]}
		%b = RandomUniform() {shape=[2]}
		output %a
		output %b
	END
	gg-run --print a --print b --steps 2 r.gg >out
	[ "$(tr '\t' '\n' <out | sort -u | wc -l)" -eq 10 ]
	gg-run --print a --print b --steps 2 r.gg | cmp - out
	! gg-run --seed 1 --print a --print b --steps 2 r.gg | cmp -s - out
}

@test "--check-finite names the first node" {
	cat >f.gg <<-'END'
		input %x : f32[2]
		%l = Log(%x)
		%y = Exp(%l)
		output %y
	END
	refused 1 "gg-run: f.gg: node 'l' (Log): output 'l' is not finite: element 0 is -inf in run 1" \
		gg-run -q --target=ref --fill=zeros --check-finite f.gg
	gg-run -q --target=ref --fill=ones --check-finite f.gg
}

@test "--check-finite sees a NaN that a Relu inside a product or convolution takes for 0" {
	npy nan.npy '[[[[float("nan"), 1], [2, 3]]]]' f4
	cat >nan.gg <<-'END'
		graph "g"
		input %x : f32[1,1,2,2]
		param %w : f32[2,2] = ones
		param %b : f32[2] = ones
		param %k : f32[1,1,1,1] = ones
		%y = MatMulBias(%x, %w, %b) {activation="Relu"}
		%c = FusedConv(%x, %k) {activation="Relu"}
		%d = FusedConv(%x, %k) {activation="Clip", activation_params=[0.0, 6.0]}
		output %y
		output %c
		output %d
	END
	for v in y:MatMulBias c:FusedConv d:FusedConv; do
		gg-dump --extract=x..${v%:*} nan.gg >one.gg
		refused 1 "gg-run: one.gg: node '${v%:*}' (${v#*:}): output '${v%:*}' is not finite: element 0 is nan in run 1" \
			gg-run -q --input x=nan.npy --check-finite one.gg
	done
}

@test "options that have no effect alone are usage errors" {
	refused 2 "gg-run: --batch and --shuffle go with --data (see gg-run --help)" gg-run --batch=2 m.gg
	refused 2 "gg-run: --json is of times or values: it goes with --repeat, --duration or --print (see gg-run --help)" gg-run --json m.gg
	refused 2 "gg-run: --target takes ref, cpu or cuda, not 'tpu' (see gg-run --help)" gg-run --target=tpu m.gg
}

@test "--repeat puts the state back, --json is one object" {
	gg-run -q --fill=ones --repeat 5 --warmup 2 --json state.gg >t.json
	/usr/bin/python3 -c 'import json; t = json.load(open("t.json")); assert t["runs"] == 5 and t["min"] <= t["p50"] <= t["p99"] <= t["max"]'
	gg-run -q --duration 0.05 state.gg | grep -q '^[0-9]* runs: mean '
}

@test "--compare=ref, --list-io, --devices" {
	[ "$(gg-run -q --bind N=3 --compare=ref m.gg | tail -1)" = "output 'y': 9 values match, largest difference 0" ]
	gg-run -q --compare=ref --steps 2 state.gg | grep -q "^state 'p': 2 values match"
	[ "$(gg-run --list-io m.gg)" = "$(printf 'input\tx\tf32\t[N,2]\noutput\ty\tf32\t[N,3]')" ]
	gg-run --list-io state.gg | grep -qx "$(printf 'state\tp\tf32\t\\[2\\]')"
	gg-run --devices | grep -q '^ref'
	gg-run --devices | grep -q '^cpu.*thread'
}

@test "wrong use is exit 2" {
	for o in --steps=0 --input=x --fill=x --target=x --rtol=-1 --compare=cpu --shape=x=a --batch=0; do
		run gg-run $o m.gg
		[ "$status" -eq 2 ]
	done
	run gg-run m.gg m.gg
	[ "$status" -eq 2 ]
	run gg-build --streams=0 m.gg
	[ "$status" -eq 2 ]
}

@test "gg-build: what a target lacks, the plan, and a second build" {
	gg-select --target=cpu --bind N=2 m.gg >s.gg
	refused 4 "gg-build: s.gg: target 'cpu' has no algorithms to choose" gg-build --tune=2 s.gg
	refused 4 "gg-build: s.gg: target 'cpu' has one stream, not 2" gg-build --streams=2 s.gg
	refused 0 "gg-build: s.gg: note: target 'cpu' has no generated kernels: nothing is written to 'd'" \
		gg-build --dump-kernels=d --streams=1 s.gg
	gg-build s.gg | gg-dump >a
	grep -q '^blob "plan" {"align":64,"streams":1,"arena":' a
	grep -qx 'stage "build"' a
	gg-build s.gg | gg-build | gg-dump | grep -v ^history >b
	grep -v ^history a | cmp - b
	gg-build --no-reuse s.gg | gg-run -q --fill=ones | grep -q '^y f32\[2,3\] min 0 max 10'
}

@test "a plan with its weights inside needs no other file" {
	mkdir w
	npy w/w.npy '[1, 2]' '<f4'
	printf 'input %%x : f32[2]\nparam %%w : f32[2] = npy("w.npy")\n%%y = Mul(%%x, %%w)\noutput %%y\n' >w/m.gg
	gg-select --target=ref w/m.gg | gg-build --embed >p
	rm -r w
	[ "$(gg-run -q --fill=ones p)" = 'y f32[2] min 1 max 2 mean 1.5 [1 2]' ]
}

@test "input_0.pb and output_0.pb" {
	mkdir t
	# onnx.helper.make_tensor('x', FLOAT, [1, 2], [1, 2]) and [1, 3], [9, 0, 16], raw
	printf '\010\001\010\002\020\001\112\010\000\000\200\077\000\000\000\100' >t/input_0.pb
	printf '\010\001\010\003\020\001\112\014\000\000\020\101\000\000\000\000\000\000\200\101' >t/output_0.pb
	gg-run --test t m.gg
	printf '\010\001\010\003\020\001\112\014\000\000\020\101' >t/output_0.pb
	refused 3 "gg-run: m.gg: t/output_0.pb: neither .npy nor a valid TensorProto" gg-run --test t m.gg
}

@test "a plan that asks a kernel for what it does not do is refused" {
	printf 'stage "build"\ntarget "cpu"\ninput %%x : f32[1,8,4,4]\n%%a = Relu<kernel=cpu_conv>(%%x)\noutput %%a\n' >k.gg
	refused 4 "gg-run: k.gg: node 'a' (Relu): target 'cpu' has no kernel 'cpu_conv' for it" gg-run -q k.gg
	cat >k.gg <<-'END'
		stage "build"
		target "cpu"
		input %x : f32[1,8,4,4]
		%a = Relu<kernel=ref>(%x) : f32[1,8,4,4]<layout=nhwc>
		%b = Relu<kernel=ref>(%a) : f32[1,8,4,4]
		output %b
	END
	refused 3 "gg-run: k.gg: node 'a' (Relu): its kernel 'ref' does not take 'a' in layout nhwc" gg-run -q k.gg
}

@test "one graph is read, and its bad end is seen" {
	gg-select --target=ref m.gg | gg-build >b.gg
	refused 3 "gg-run: b2.gg: more than one graph, where one is wanted" bash -c 'cat b.gg b.gg >b2.gg; gg-run -q b2.gg'
	head -c -1 b.gg >cut.gg
	run gg-run -q cut.gg
	[ "$status" -eq 3 ]
	run bash -c 'set -o pipefail; gg-parse broken.onnx 2>/dev/null | gg-run -q'
	[ "$status" -ne 0 ]
	[ "$output" = "gg-run: <stdin>: the input is empty: the tool before this one failed" ]
}

@test "GG_NUM_THREADS that is no number is an error, not a guess" {
	printf 'graph "g"\ninput %%x : f32[4]\n%%y = Relu(%%x)\noutput %%y\n' >"$BATS_TEST_TMPDIR/t.gg"
	GG_NUM_THREADS=many run gg-run -q --target=cpu "$BATS_TEST_TMPDIR/t.gg"
	[ "$status" = 2 ]
	[[ $output == *"GG_NUM_THREADS is 'many', not a number of threads"* ]]
	GG_NUM_THREADS=1 run gg-run -q --target=cpu "$BATS_TEST_TMPDIR/t.gg"
	[ "$status" = 0 ]
}

@test "a product with several constant factors is the same on cpu" {
	cat >"$BATS_TEST_TMPDIR/f.gg" <<'END'
graph "g"
input %x : f32[2,4]
param %w : f32[4,4] = normal(1, 0, 1)
const %c : f32[] = 2
const %s : f32[] = 0.3
%a = MatMul(%x, %w)
%m = Mul(%a, %s)
%r = Relu(%m)
%b = Div(%r, %c)
%y = Mul(%b, %s)
output %y
END
	gg-run -q --target=cpu --compare=ref "$BATS_TEST_TMPDIR/f.gg"
}

@test "u64 above 2^63 are told as they are" {
	npy a.npy 'np.uint64([2**64 - 1, 2**63, 1])' u8
	npy b.npy 'np.uint64([2**64 - 2, 2**63, 1])' u8
	printf 'input %%x : u64[3]\n%%y = Identity(%%x)\noutput %%y\n' >u.gg
	run gg-run --input x=a.npy u.gg
	[ "$output" = 'y u64[3] min 1 max 1.84467e+19 mean 9.22337e+18 [18446744073709551615 9223372036854775808 1]' ]
	run gg-run --input x=a.npy --expect y=b.npy u.gg
	[ "$status" = 1 ]
	[[ $output == *'got 18446744073709551615, expected 18446744073709551614' ]]
}

@test "a symbol whose name is no word, or looks like an expression, is bound like others" {
	printf "input %%x : f32['batch size',2]\ninput %%z : f32['batch size',2]\n%%y = Add(%%x, %%z)\noutput %%y\n" >sym.gg
	npy five.npy 'np.ones((5, 2))' f4
	run gg-run --fill=ones --input x=five.npy --output y=y.npy sym.gg
	[ "$status" = 0 ]
	[[ "$output" != *"nothing binds"* ]]
	[ "$(load y.npy)" = "<f4 [5, 2] [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]" ]
	gg-run -q --shape x=5,2 sym.gg | grep -q '^y f32\[5,2\]'
	gg-parse --shape x=5,2 sym.gg | gg-dump | grep -q '^input %z : f32\[5,2\]'
	printf "input %%x : f32['a b']\ninput %%z : f32[2*'a b']\n%%y = Concat(%%x, %%z) {axis=0}\noutput %%y\n" >twice.gg
	npy z.npy '[1, 2, 3, 4, 5]' f4
	npy x.npy '[1, 2]' f4
	refused 3 "gg-run: twice.gg: input 'z': axis 0 has size 5, but 2*'a b' is 4" gg-run --input x=x.npy --input z=z.npy twice.gg
}

@test "Split: an output that is not wanted takes its part all the same" {
	npy x.npy '[[1, -2, 3], [4, 5, -6]]' f4
	for split in 'Split(%x) {axis=1, num_outputs=3}' 'Split(%x, %ones) {axis=1}'; do
		printf "input %%x : f32[2,3]\nconst %%ones : i64[3] = ones\n%%a, _, %%c = %s\n%%y = Concat(%%c, %%a) {axis=1}\noutput %%y\n" "$split" >split.gg
		for target in ref cpu; do
			gg-run -q --target=$target --input x=x.npy --output y=y.npy split.gg
			[ "$(load y.npy)" = "<f4 [2, 2] [3.0, 1.0, -6.0, 4.0]" ]
		done
		gg-select --target=cuda:sm_90 --explain split.gg 2>&1 >/dev/null | grep -q '^a	Split	ref'
	done
	printf "input %%x : f32[2,7]\n_, %%b, _, %%d = Split(%%x) {axis=1, num_outputs=4}\noutput %%b\noutput %%d\n" >split.gg
	npy x.npy 'np.arange(14).reshape(2, 7)' f4
	gg-run -q --target=ref --input x=x.npy --output b=b.npy --output d=d.npy split.gg
	[ "$(load b.npy)" = "<f4 [2, 2] [2.0, 3.0, 9.0, 10.0]" ]
	[ "$(load d.npy)" = "<f4 [2, 1] [6.0, 13.0]" ]
}

@test "options that would be ignored, and results that would be lost, are refused" {
	echo 'input %x : f32[2]
%y = Neg(%x)
%z = Abs(%x)
output %y
output %z' >m.gg
	run -2 gg-run --repeat=2 --steps=3 m.gg
	[[ "$output" == *"--steps and --epochs do not go with them"* ]]
	run -2 gg-run --fill=ones --output y=f.npy --output z=f.npy m.gg
	[[ "$output" == *"'y' and 'z' would both be written to 'f.npy'"* ]]
	[ ! -e f.npy ]
	gg-run -q --fill=ones --output y=y.npy --output z=z.npy m.gg
	gg-run -q --fill=ones --output y=/dev/null --output z=/dev/null m.gg
}
