#!/usr/bin/env bats
# Rules: given on the command line and in files, and the passes that are rules, compared with what they replace.

setup() { cd "$BATS_TEST_TMPDIR"; }

golden="$BATS_TEST_DIRNAME/../golden/gg-opt"

@test "each fusion of the inference pipeline gives what its formula gave, on ref and cpu" {
	n=0
	for f in "$golden"/{gelu,silu,hard_swish,layer_norm,rms_norm,matmul_bias,conv_bias_act}*.gg; do
		grep -q '^# want' "$f" || continue
		awk '/^# want/ { exit } !/^# run: /' "$f" >g.gg
		pass=$(sed -n 's/^# run: .*--pass=\([a-z_,]*\).*/\1/p' "$f")
		rm -rf want && gg-run -q --target=ref --fill=normal --outputs want g.gg
		gg-opt --pass="$pass" --check=all g.gg >fused.gg
		expect=() i=0
		for o in $(sed -n 's/^output %//p' g.gg); do
			expect+=(--expect "$o=want/output_$i.npy")
			i=$((i + 1))
		done
		for target in ref cpu; do
			gg-run -q --target=$target --fill=normal --rtol=1e-4 "${expect[@]}" fused.gg
		done
		n=$((n + 1))
	done
	[ $n -ge 20 ]
}

@test "rules of a file run in the order given among passes, and are counted one by one" {
	cat >my.rules <<-'EOT'
	# two rules, comments and a title
	twice: Neg(Neg(x)) => Identity(x)   # -(-x)
	Relu(Relu(x))
	  => Relu(x)
	  where rank(x) == 1
	EOT
	cat >g.gg <<-'EOT'
	graph "g"
	input %x : f32[2]
	%a = Neg(%x)
	%b = Neg(%a)
	%c = Relu(%b)
	%d = Relu(%c)
	output %d
	EOT
	run bash -c "gg-opt --rules=my.rules --pass=identity --stats g.gg | gg-dump | grep '^%'"
	[[ "$output" == *"rules              tried 2, applied 2, refused 0"* ]]
	[[ "$output" == *"  twice            tried 1, applied 1, refused 0"* ]]
	[[ "$output" == *"%d = Relu(%x)"* ]]
	run bash -c "gg-opt --pass=identity --rules=my.rules g.gg | gg-dump | grep -c '^%'"
	[ "$output" = 2 ]
	run bash -c "gg-opt --limit=1 --rules=my.rules g.gg | gg-dump | grep -c '^%'"
	[ "$output" = 3 ]
}

says() { # RULE TEXT...
	run gg-opt --rewrite="$1" /dev/null
	[ "$status" = 2 ]
	shift
	for t; do [[ "$output" == *"$t"* ]]; done
}

@test "an ill-formed rule is told with its place and what would be right" {
	says 'Relu(x' "--rewrite:1:7: expected ',', found the end"
	says 'Relu(x) -> x' "expected '=>', found '-'"
	says 'Rleu(x) => x' "1:1: no op is named 'Rleu'; did you mean 'Relu'?"
	! gg-opt --rewrite='Relu(x) => Foo(x)' /dev/null 2>&1 | grep -q 'did you mean'
	says 'Relu(x) => Relo(x)' "1:12: no op is named 'Relo'; did you mean 'Relu'?" '           ^'
	says 'Relu(x, y) => x' 'Relu takes 1 input, not 2'
	says 'Softmax(x){axes=1} => x' "Softmax has no attribute 'axes'; it has axis"
	says 'Softmax(x){axis="a"} => x' "'\"a\"' is no value of attribute 'axis' of Softmax"
	says 'Relu(x) => Relu(y)' "'y' is not bound on the left side"
	says 'Relu(x):1 => x' 'Relu has 1 output'
	says 'Relu(x) as r => Neg(x) as r' "'r' is named already"
	says 'Relu(x) => x where rnk(x) == 1' "no predicate is named 'rnk'"
	says 'Relu(x) => x where scaler(x)' "did you mean 'scalar'?"
	says 'Relu(x) as r; Neg(y) as n => Abs(x) as a; r => a, n => a' 'it shares no value with the roots before it'
	says 'Relu(x) as r; Neg(x) as n => Abs(x)' 'which output becomes which must be said'
	says 'Relu(x) => Cast(x)' "1:12: Cast needs attribute 'to'"
	says 'Relu(x) => If(x)' 'If has a body, which no rule can make'
	says 'Softmax(x){axis=k} => Transpose(x){perm=k}' "attribute 'perm' of Transpose is of another type than 'k'"
	says 'Relu(x) keep => x' 'the left side is kept, so nothing is replaced'
	says ' ' 'expected a rule'
	printf 'Neg(Neg(x)) => x\nRelu(x)\n  => Bogus(x)\n' >bad.rules
	run gg-opt --rules=bad.rules /dev/null
	[ "$status" = 2 ]
	[[ "$output" == *"bad.rules:3:6: no op is named 'Bogus'"* ]]
	run gg-opt --rules=absent.rules /dev/null
	[ "$status" = 3 ]
	[[ "$output" == *"cannot read 'absent.rules'"* ]]
}

@test "a commutative tower takes no exponential time" {
	p=x q='%x'
	printf 'graph "g"\ninput %%x : f32[2]\n' >g.gg
	for i in $(seq 15); do
		p="Add($p, Abs(y$i))"
		printf '%%a%d = Abs(%%x)\n%%b%d = Add(%%a%d, %s)\n' $i $i $i "$q" >>g.gg
		q="%b$i"
	done
	printf 'output %%b15\n' >>g.gg
	timeout 10 gg-opt --rewrite="$p => Neg(x) where rank(x) == 3" --stats g.gg >/dev/null
}

@test "--explain prints pattern, replacement and guards" {
	run gg-opt --explain=matmul_bias
	[[ "$output" == *"pattern      Add(MatMul(a, b), c)"* ]]
	[[ "$output" == *"replacement  MatMulBias(a, b, c)"* ]]
	[[ "$output" == *"where        rank(c) <= 1"* ]]
}

@test "an unknown pass: the nearest is named" {
	run gg-opt --pass=bn_rlu /dev/null
	[ "$status" = 2 ]
	[[ "$output" == *"did you mean 'bn_relu'?"* ]]
	run gg-opt --pipeline=comon /dev/null
	[ "$status" = 2 ]
	[[ "$output" == *"no pipeline is named 'comon'; did you mean 'common'?"* ]]
}

@test "limits: nodes, nesting, terms; rules by the thousand" {
	deep() { printf "%${1}s" '' | sed "s/ /$2/g"; }
	says "$(deep 40 'Neg(')x$(deep 40 ')') => x" 'a rule has at most 32 nodes'
	says "Neg(x) => x where $(deep 2000 '(')x" 'nested too deeply'
	says "Neg(x) => x where $(deep 20000 '-')x == 0" 'nested too deeply'
	says "Neg(x) => x where $(deep 9000 'not ')x" 'nested too deeply'
	says "Neg(x) => x where $(deep 5000 '1 + ')x == 0" 'a rule asks for too much'
	says 'Neg(x) => Transpose(x){perm=[1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8]}' 'at most 16 numbers'
	for i in {1..5000}; do echo "r$i: Neg(Abs(Neg(x))) => Neg(Abs(x))"; done >many.rules
	printf 'graph "g"\ninput %%x : f32[2]\n%%a = Neg(%%x)\n%%b = Abs(%%a)\n%%c = Neg(%%b)\noutput %%c\n' >g.gg
	run timeout 10 gg-opt --rules=many.rules --stats -o /dev/null g.gg
	[ "$status" = 0 ]
	[[ "$output" == *"r1               tried 1, applied 1"* ]]
}

@test "a rule that moves a node up a long chain ends, and names stay short; many readers are no trouble" {
	{
		printf 'graph "g"\ninput %%x : f32[2]\n%%v0 = Abs(%%x)\n'
		for i in {1..12000}; do echo "%v$i = Abs(%v$((i - 1)))"; done
		printf '%%r = Relu(%%v12000)\noutput %%r\n'
	} >g.gg
	timeout 10 gg-opt --rewrite='Relu(Abs(x)) => Abs(Relu(x))' -o moved.gg g.gg
	gg-dump moved.gg | grep -m1 '= Relu' >first
	grep -q '(%x)' first
	[ "$(wc -c <first)" -lt 60 ]
	{
		printf 'graph "g"\ninput %%x : f32[2]\n'
		for i in {1..5000}; do echo "%v$i = Neg(%x)"; done
		echo 'output %v1'
	} >g.gg
	timeout 10 gg-opt --rewrite='Neg(x) as p; Neg(x) as q => Sign(x) as s; p => s, q => s where rank(x) == 7' -o /dev/null g.gg
}

@test "rules in bodies; a declared state and its old value stay" {
	cat >g.gg <<-'EOF'
	graph "g"
	input %c : bool[]
	input %n : i64[]
	input %x : f32[N,3]
	param %w : f32[3] = ones
	%h = If(%c; %x) {then_branch=graph(%o : f32[N,3]) {
	  %o1 = Neg(%o)
	  %o2 = Neg(%o1)
	  output %o2
	}, else_branch=graph(%o : f32[N,3]) {
	  %p1 = Neg(%o)
	  %p2 = Neg(%p1)
	  %p3 = Relu(%p2)
	  output %p3
	}}
	%l = Loop(%n, _, %h) {body=graph(%i : i64[], %k : bool[], %s : f32[N,3]) {
	  %t = Neg(%s)
	  %u = Neg(%t)
	  %v = Abs(%u)
	  %k1 = Identity(%k)
	  output %k1
	  output %v
	}}
	%u = Sub(%w, %w)
	output %l
	state %w <- %u
	EOF
	gg-opt --rewrite='Neg(Neg(x)) => x' --stats --verify=3 -o f.gg g.gg 2>err
	grep -q 'applied 3' err
	[ "$(gg-dump f.gg | grep -c '= Neg(')" = 0 ]
	run gg-opt --rewrite='Sub(w, w) => w' --remarks -o /dev/null g.gg
	[[ "$output" == *"its result is a declared output, and its input has a name to keep"* ]]
	run gg-opt --rewrite='Sub(w, w) => Sub(w, 0) where constant(w)' --remarks -o /dev/null g.gg
	[[ "$output" == *"'constant(w)' does not hold"* ]]
}

@test "roots that overlap are merged step by step, with the same results" {
	cat >g.gg <<-'EOF'
	graph "g"
	input %x : f32[2,4]
	param %a : f32[4,4] = normal(1, 0, 1)
	param %b : f32[4,4] = normal(2, 0, 1)
	%p = MatMul(%x, %a)
	%s = Relu(%p)
	%q = MatMul(%x, %b)
	%u = Add(%s, %q)
	%v = MatMul(%u, %b)
	%w = MatMul(%x, %a)
	%t = MatMul(%x, %b)
	output %v
	output %w
	output %t
	EOF
	both='MatMul(x, a) as p; MatMul(x, b) as q => Concat(a, b){axis=1} as w; MatMul(x, w) as m; Split(m){axis=1, num_outputs=2} as s; p => s:0, q => s:1 where same_shape(a, b) and rank(a) == 2'
	gg-opt --rewrite="$both" --verify=3 --check=all -o f.gg g.gg
	[ "$(gg-dump f.gg | grep -c '= MatMul')" = 2 ]
}

@test "the rules in docs/rules.md are rules" {
	awk '/^    [A-Z][A-Za-z]*\(|^    [a-z]+: |^      (=>|where)/ { print substr($0, 5) }' "$BATS_TEST_DIRNAME/../../docs/rules.md" >doc.rules
	[ "$(grep -c '=>' doc.rules)" -ge 4 ]
	printf 'graph "g"\ninput %%x : f32[2]\n%%a = Neg(%%x)\n%%r = Relu(%%a)\noutput %%r\n' >g.gg
	gg-opt --rules=doc.rules --stats -o /dev/null g.gg 2>err
	grep -q '^  title ' err
}

@test "no -1 among u64, neither found nor made" {
	printf 'input %%x : u64[2]\nconst %%k : u64[] = 18446744073709551615\n%%y = Max(%%x, %%k)\noutput %%y\n' >g.gg
	run gg-opt --rewrite='Max(x, -1) => x' --stats -o /dev/null g.gg
	[[ $output == *'applied 0'* ]]
	run gg-opt --rewrite='Max(x, k) => Max(Min(x, -1), k)' --remarks -o /dev/null g.gg
	[[ $output == *'u64 has no -1'* ]]
}
