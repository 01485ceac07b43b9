#!/usr/bin/env bats
# What finds a wrong pass: --verify names it, --bisect finds it among all others, --reduce makes the graph small.

setup_file() {
	export ROOT="$BATS_TEST_DIRNAME/../.."
	cd "$BATS_FILE_TMPDIR"
	mkdir -p inc/gg
	cp "$ROOT"/lib/*.h "$ROOT/lib/dtype.inc" inc/gg
	sed 's|"../../lib/gg.h"|"gg.h"|' "$ROOT/tools/gg-opt/pass.h" >inc/gg/pass.h
	# Right but for one case: Neg(Sub(a, b)) => Sub(b, a) also takes the Neg away from other ops.
	cat >wrong.c <<-'EOT'
	#include <gg/pass.h>
	#include <string.h>
	static bool run(gg_pass_run *p, gg_graph *g)
	{
		for (gg_node *n = g->first, *next; n; n = next) {
			next = n->next;
			if (strcmp(n->op->name, "Neg") || !gg_can_replace(n->out[0], gg_in(n, 0)))
				continue;
			if (gg_in(n, 0)->producer && !strcmp(gg_in(n, 0)->producer->op->name, "Abs"))
				continue;
			if (!gg_apply(p, n))
				return true;
			gg_replace_value(n->out[0], gg_in(n, 0));
			gg_remove_node(n);
		}
		return true;
	}
	static const gg_pass pass = {.name = "wrong", .help = "h", .explain = "e", .pipeline = "common:55", .run = run};
	const int gg_plugin_abi = GG_PASS_ABI;
	const gg_pass *const gg_plugin_passes[] = {&pass, 0};
	EOT
	cc -shared -fPIC -Iinc -o wrong.so wrong.c
	# 150 nodes, of which only %n145 is to blame.
	{
		printf 'graph "long"\ninput %%x : f32[2,3]\n%%n0 = Identity(%%x)\n'
		ops=(Tanh Abs Relu Sigmoid)
		for i in {1..149}; do
			case $i in
			145) echo "%n145 = Neg(%n144)" ;;
			*[05]) echo "%n$i = Add(%n$((i - 1)), %n$((i / 2)))" ;;
			*) echo "%n$i = ${ops[i % 4]}(%n$((i - 1)))" ;;
			esac
		done
		printf 'output %%n149\noutput %%n90\n'
	} >long.gg
}

setup() {
	cd "$BATS_TEST_TMPDIR"
	export PLUGIN="--load=$BATS_FILE_TMPDIR/wrong.so" LONG="$BATS_FILE_TMPDIR/long.gg"
}

graph() { # LINE...
	printf 'graph "g"\n'
	printf '%s\n' "$@"
}

@test "--verify: a wrong rule is named with its rewrite, nodes, output, place and values" {
	graph 'input %x : f32[2]' 'input %y : f32[2]' '%p = Add(%x, %y)' '%q = Relu(%p)' '%r = Neg(%q)' 'output %r' >g.gg
	run gg-opt --rewrite='Relu(Add(a, b)) => Add(Relu(a), Relu(b))' --verify -o /dev/null g.gg
	[ "$status" = 1 ]
	[ "${#lines[@]}" = 1 ]
	[[ "$output" == "gg-opt: g.gg: pass 'rewrite', rule 'Relu(Add(a, b))', rewrite 1: "*"(Add), "*"(Relu) => "*": output 'r'["*" is "*", was "*" (normal inputs)" ]]
	run gg-opt --rewrite='Relu(Add(a, b)) => Relu(Add(b, a))' --limit=1 --verify=6 -o /dev/null g.gg
	[ "$status" = 0 ]
	[ -z "$output" ]
}

@test "--verify: a rule that only moves and casts is held to every bit, alone and among others" {
	graph 'input %x : f32[8]' '%h = Cast(%x) {to=f16}' '%f = Cast(%h) {to=f32}' '%a = Relu(%f)' '%b = Neg(%a)' 'output %b' >g.gg
	run gg-opt --rewrite='Cast(Cast(x){to=f16}){to=f32} => x' --verify=1 -o /dev/null g.gg
	[ "$status" = 1 ]
	[ "${#lines[@]}" = 1 ]
	[[ "$output" == *"rule 'Cast(Cast(x){to=f16}){to=f32}', rewrite 1: 'h' (Cast), 'f' (Cast)"*"must keep every bit)" ]]
	printf '%s\n' 'Neg(x) => Mul(x, -1)' 'pair: Cast(Cast(x){to=f16}){to=f32} => x' 'Relu(x) => Max(x, 0)' >my.rules
	run gg-opt --rules=my.rules --verify=1 -o /dev/null g.gg
	[ "$status" = 1 ]
	[ "${#lines[@]}" = 1 ]
	[[ "$output" == *"pass 'rules', rule 'pair', rewrite 1: 'h' (Cast), 'f' (Cast), "*"must keep every bit)" ]]
	# wrong by as little, but it computes: within the tolerance
	run gg-opt --rewrite='Neg(x) => Mul(x, -1.0002)' --verify=1 -o /dev/null g.gg
	[ "$status" = 0 ]
	# right ones among rounding ones
	graph 'input %x : f32[8,3]' '%t = Transpose(%x)' '%u = Transpose(%t)' '%a = Sqrt(%u)' '%c = Cast(%a) {to=f64}' \
		'%d = Cast(%c) {to=f32}' 'output %d' >g.gg
	printf '%s\n' 'Transpose(Transpose(x)) => x' 'Sqrt(x) => Pow(x, 0.5)' 'Cast(Cast(x){to=f64}){to=f32} => x' >my.rules
	run gg-opt --rules=my.rules --verify=6 --stats -o /dev/null g.gg
	[ "$status" = 0 ]
	[[ "$output" == *"rules "*"applied 3, refused 0"* ]]
}

@test "--verify leaves a reproducer that fails in the same way" {
	mkdir out
	graph 'input %x : f32[2]' '%y = Neg(%x)' '%r = Exp(%y)' 'output %r' >g.gg
	run gg-opt "$PLUGIN" --pass=cse,wrong --verify=2 --reproducer=out -o /dev/null g.gg
	[ "$status" = 1 ]
	run sh out/wrong.sh
	[ "$status" = 1 ]
	[[ "$output" == *"pass 'wrong', rewrite 1: 'y' (Neg)"* ]]
}

@test "--verify: of many rewrites the wrong one is told" {
	graph 'input %x : f32[2]' 'const %z : f32[] = 0' '%a = Mul(%x, %z)' '%b = Neg(%a)' '%c = Mul(%b, %z)' '%d = Neg(%c)' \
		'%e = Add(%d, %x)' '%f = Neg(%e)' '%g = Sigmoid(%f)' '%h = Mul(%g, %z)' '%i = Neg(%h)' '%j = Add(%i, %g)' 'output %j' >g.gg
	run gg-opt "$PLUGIN" --pass=wrong --verify=1 -o /dev/null g.gg
	[ "$status" = 1 ]
	[[ "$output" == *"pass 'wrong', rewrite 3: 'f' (Neg)"* ]]
}

@test "--verify: special values, signs of zeros where a pass claims exactness, integers, states" {
	graph 'input %x : f32[64]' '%y = Max(%x, %x)' 'output %y' >g.gg
	run gg-opt --rewrite='Max(x, x) => Relu(x)' --verify -o /dev/null g.gg
	[ "$status" = 1 ]
	graph 'input %x : f32[2]' 'param %w : f32[2] = ones' 'const %k : f32[] = 0.5' '%u = Mul(%w, %k)' '%n = Add(%u, %x)' \
		'%y = Neg(%w)' 'output %y' 'state %w <- %n' >g.gg
	run gg-opt --rewrite='Mul(w, k) => Add(w, k)' --verify -o /dev/null g.gg
	[ "$status" = 1 ]
	[[ "$output" == *"output 'y'[0] is "*", step 2)"* || "$output" == *"state 'w'"* ]]
	graph 'input %x : i32[9]' 'input %i : i64[4]' '%y = Gather(%x, %i)' '%r = Neg(%y)' '%s = Neg(%r)' 'output %s' >g.gg
	run gg-opt --rewrite='Neg(Neg(x)) => Identity(x)' --verify=9 -o /dev/null g.gg
	[ "$status" = 0 ]
	[ -z "$output" ]
	run gg-opt --rewrite='Neg(Neg(x)) => Abs(x)' --verify=9 -o /dev/null g.gg
	[ "$status" = 1 ]
}

@test "--verify: a run that could not be made is told, with its reason" {
	# the graph between the rewrites does not run, though the ones before and after do
	printf '%s\n' 'graph "g"' 'input %x : i32[2]' 'input %u : f32[2]' '%a = Neg(%x)' '%t = Cast(%u) {to=f64}' \
		'%s = Cast(%t) {to=f32}' '%y = Abs(%a)' 'output %y' 'output %s' >g.gg
	printf '%s\n' 'a: Neg(x) => Gather(x, [7, 7])' 'b: Cast(Cast(u){to=f64}){to=f32} => Identity(u)' \
		'c: Abs(Gather(x, k)) => Abs(x)' >my.rules
	run gg-opt --rules=my.rules --verify --stats -o /dev/null g.gg
	[ "$status" = 0 ]
	[ "${lines[0]}" = "gg-opt: g.gg: note: --verify: pass 'rules', rewrites 2 to 2: what only moves and casts is not held to every bit, as the graph before it does not run: node 'a' (Gather): index 7 is outside [-2, 1]" ]
	# what was run again for it is not counted again
	[[ "$output" == *"rules "*"tried 3, applied 3"*"a "*"tried 1, applied 1"*"b "*"tried 1, applied 1"*"c "*"tried 1, applied 1"* ]]
	# with its inputs moved a little the graph does not run: that excuses nothing
	printf '%s\n' 'graph "g"' 'input %x : f32[1]' 'param %v : f32[1] = ones' 'param %w : f32[1] = ones' \
		'param %data : f32[2] = [3, 4]' 'const %big : f32[] = 1e9' '%d = Sub(%v, %w)' '%b = Mul(%d, %big)' \
		'%i = Cast(%b) {to=i64}' '%p = Gather(%data, %i)' '%q = Mul(%p, %x)' '%y = Exp(%q)' 'output %y' >g.gg
	run gg-opt --rewrite='Exp(x) => Add(x, 1)' --verify -o /dev/null g.gg
	[ "$status" = 1 ]
	[[ "${lines[0]}" == *"note: --verify: the graph before the pass did not run on 3 of 4 inputs that were moved a little: they excuse no difference (normal inputs: node 'p' (Gather): index 953 is outside [-2, 1])" ]]
	[[ "${lines[1]}" == *"output 'y'[0] is -2.97801447, was "* ]]
	# and where it runs on no inputs of a kind
	printf '%s\n' 'graph "g"' 'input %x : f32[4]' 'param %data : f32[2] = [3, 4]' '%a = Abs(%x)' \
		'%m = ReduceMax(%a) {keepdims=0}' '%i = Cast(%m) {to=i64}' '%p = Gather(%data, %i)' '%y = Neg(%p)' \
		'%w = Neg(%y)' 'output %w' >g.gg
	run gg-opt --rewrite='Neg(Neg(x)) => x' --verify -o /dev/null g.gg
	[ "$status" = 0 ]
	[[ "$output" == "gg-opt: g.gg: note: --verify: the graph as it is failed on 4 inputs: others were drawn (log-uniform inputs: node 'p' (Gather): index "* ]]
}

@test "--verify: what is not compared is told" {
	graph 'input %x : f32[N,3]' 'param %w : f32[3,2] = normal(1, 0, 1)' '%y = MatMul(%x, %w)' 'output %y' >g.gg
	run gg-opt --pass=loss:kind=mse:target=t,grad,sgd --verify -o /dev/null g.gg
	[ "$status" = 0 ]
	for p in loss grad sgd; do
		[[ "$output" == *"note: --verify: pass '$p' changes what the graph computes: not compared"* ]]
	done
	run gg-opt --verify=0 g.gg
	[ "$status" = 2 ]
	[[ "$output" == *"--verify=0 is not a count from 1 to 10000"* ]]
}

@test "--verify after selection: kernels and layouts of any target are undone" {
	graph 'input %x : f32[1,16,4,4]' 'param %w : f32[16,16,3,3] = normal(1, 0, 1)' \
		'%c = Conv(%x, %w) {pads=[1,1,1,1]}' '%r = Relu(%c)' '%n = Neg(%r)' '%t = Tanh(%n)' 'output %t' >g.gg
	for target in cpu ref cuda:sm_90; do
		gg-select -q --target=$target --layout=auto g.gg >s.gg
		run bash -c "gg-opt --pipeline=hardware,final --verify s.gg | gg-dump"
		[ "$status" = 0 ]
		[[ "$output" != *verify:* ]]
		run gg-opt "$PLUGIN" --pipeline=hardware --pass=wrong --verify -o /dev/null s.gg
		[ "$status" = 1 ]
		[[ "$output" == *"pass 'wrong', rewrite 1: 'n' (Neg)"* ]]
	done
}

@test "--verify: collectives run on a world of ranks" {
	graph 'input %x : f32[4]' '%a = AllReduce(%x)' '%b = Neg(%a)' '%c = Exp(%b)' 'output %c' >g.gg
	run gg-opt "$PLUGIN" --pass=wrong --verify -o /dev/null g.gg
	[ "$status" = 1 ]
	[[ "$output" == *"rank 0 of 3)"* ]]
	run gg-opt --verify -o /dev/null g.gg
	[ "$status" = 0 ]
}

@test "a rule that drops a value with another reader is refused, and why is counted" {
	graph 'input %x : f32[2]' '%a = Relu(%x)' '%b = Neg(%a)' '%c = Tanh(%a)' 'output %b' 'output %c' >g.gg
	run gg-opt --rewrite='Neg(Relu(x)) => Neg(x)' --verify --stats -o out.gg g.gg
	[ "$status" = 0 ]
	[[ "$output" == *"applied 0, refused 1"* ]]
	[[ "$output" == *"is read elsewhere"* || "$output" == *"second reader"* || "$output" == *"another reader"* ]]
	gg-dump --format=csv g.gg | cut -d, -f1-3 >a && gg-dump --format=csv out.gg | cut -d, -f1-3 >b
	cmp a b
}

@test "a wrong pass planted among all others: --verify and --bisect name it, --reduce leaves what it needs" {
	all='common,inference,optimize,hardware,final'
	gg-run -q --target=ref --fill=normal --outputs want "$LONG"
	run gg-opt "$PLUGIN" --pipeline=$all --verify -o /dev/null "$LONG"
	[ "$status" = 1 ]
	[[ "$output" == *"pass 'wrong', rewrite 1: 'n145' (Neg)"* ]]

	run gg-opt "$PLUGIN" --pipeline=$all --bisect='gg-run -q --target=ref --fill=normal --expect n149=want/output_0.npy' "$LONG"
	[ "$status" = 0 ]
	[[ "${lines[0]}" == "pass 'wrong', rewrite 1 (--limit="*"): 'n145' (Neg), 'n146' (Relu) => 'n146' (Relu)" ]]
	[[ "${lines[1]}" == '- %n145 = Neg(%n144) : f32[2,3]' ]]

	gg-opt -q --reduce="gg-opt '$PLUGIN' --pipeline=$all --verify -o /dev/null" -o small.gg "$LONG"
	[ "$(grep -c ' = ' small.gg)" -le 6 ]
	grep -q 'Neg(' small.gg
	run gg-opt "$PLUGIN" --pipeline=$all --verify -o /dev/null small.gg
	[ "$status" = 1 ]
}

@test "--bisect: the first of many rewrites, by number and --limit; what cannot be searched" {
	graph 'input %x : f32[2]' '%a = Identity(%x)' '%b = Neg(%a)' '%c = Exp(%b)' '%d = Neg(%c)' '%e = Exp(%d)' '%f = Neg(%e)' \
		'%g = Exp(%f)' 'output %g' >g.gg
	run gg-opt "$PLUGIN" --pass=identity,wrong,cse --bisect='test $(gg-dump | grep -c Neg) -ge 2' g.gg
	[ "$status" = 0 ]
	[[ "${lines[0]}" == "pass 'wrong', rewrite 2 (--limit=3 of 4): 'd' (Neg)"* ]]
	run bash -c "gg-opt '$PLUGIN' --limit=3 --pass=identity,wrong,cse g.gg | gg-dump | grep -c Neg"
	[ "$output" = 1 ]
	run gg-opt --pass=identity --bisect='exit 7' g.gg
	[ "$status" = 2 ]
	[[ "$output" == *"the command fails on the graph as it is (exit status 7)"* ]]
	run gg-opt --pass=identity --bisect='cat >/dev/null' g.gg
	[ "$status" = 2 ]
	[[ "$output" == *"the command does not fail after all 1 rewrites"* ]]
	run gg-opt --pass=cse --bisect='false' g.gg
	[ "$status" = 2 ]
	[[ "$output" == *"the passes make no rewrite"* ]]
}

@test "--reduce: states, bodies, files and known shapes; the same exit status" {
	graph 'input %x : f32[4]' 'input %c : bool[]' 'param %w : f32[4] = [1,2,3,4]' 'const %k : f32[4] = [0.5,0.25,1,2]' \
		'%y = If(%c; %x) {then_branch=graph "t"(%p : f32[4]) {' '  %q = Sin(%p)' '  %r = Cos(%q)' '  %s = Tan(%r)' '  output %s' \
		'}, else_branch=graph "e"(%o : f32[4]) {' '  %m = Abs(%o)' '  output %m' '}}' '%z = Mul(%y, %k)' '%u = Add(%w, %z)' \
		'output %z' 'state %w <- %u' >g.gg
	gg-opt -q --reduce='! gg-dump | grep -q Cos' -o small.gg g.gg
	grep -q 'Cos(' small.gg
	! grep -q -e Mul -e Sin -e Tan -e state small.gg
	gg-dump small.gg >/dev/null
	run gg-opt --reduce='cat >/dev/null; exit 0' g.gg
	[ "$status" = 2 ]
	[[ "$output" == *"the command does not fail on the graph as it is"* ]]
	run gg-opt --reduce='no-such-program --verify' g.gg
	[ "$status" = 2 ]
	[ "$output" = "gg-opt: g.gg: --reduce: 'no-such-program --verify' cannot be run (exit status 127)" ]
	run gg-opt --reduce='false' --pass=cse g.gg
	[ "$status" = 2 ]
	[[ "$output" == *"--reduce runs no passes"* ]]
	# with 3 for Sin and 4 without, status 3 must stay
	gg-opt -q --reduce='gg-dump | grep -q Sin && exit 3; exit 4' -o small.gg g.gg
	grep -q 'Sin(' small.gg
}
