#!/usr/bin/env bats
# Rules that are wrong, as somebody would type them: each is refused by the engine, with the reason in --stats, or
# caught by --verify, which names the rule and the nodes. A right one of the same kind goes through.

setup() { cd "$BATS_TEST_TMPDIR"; }

graph() { # STATEMENT...: g.gg
	printf '%s\n' 'graph "g"' "$@" >g.gg
}

refused() { # RULE REASON: nothing is done, and that is why
	run gg-opt "--rewrite=$1" --verify --stats -o out.gg g.gg
	[ "$status" = 0 ]
	[[ "${lines[0]}" == "rewrite "*"applied 0, refused 1" ]]
	[[ "${lines[1]}" == *"1: looks like "*", but $2" ]] || { echo "$output" && false; }
}

caught() { # RULE NODES: what --verify says of them
	rm -f out.gg
	run gg-opt "--rewrite=$1" --verify=6 -o out.gg g.gg
	[ "$status" = 1 ]
	[ ! -e out.gg ]
	[[ "${lines[-1]}" == "gg-opt: g.gg: pass 'rewrite', rule '${1%% =>*}', rewrite 1: "*"$2"*" => "*": "* ]] || { echo "$output" && false; }
}

good() { # RULE: it is applied, and nothing is said
	run gg-opt "--rewrite=$1" --verify=6 --stats -o out.gg g.gg
	[ "$status" = 0 ]
	[ "${#lines[@]}" = 1 ]
	[[ "$output" == *"applied 1, refused 0" ]]
}

@test "a value with another reader, an output, a state" {
	graph 'input %x : f32[2]' '%a = Exp(%x)' '%r = Relu(%a)' '%z = Neg(%a)' 'output %r' 'output %z'
	refused 'Relu(Exp(x)) => Exp(x)' 'output 0 of its Exp has a second reader'
	good 'Relu(Exp(x) keep as e) as r => Abs(e)'
	graph 'input %x : f32[2]' '%a = Exp(%x)' '%r = Relu(%a)' 'output %r' 'output %a'
	refused 'Relu(Exp(x)) => Exp(x)' 'output 0 of its Exp is an output or state of the graph'
	graph 'param %p : f32[2] = ones' '%a = Exp(%p)' '%r = Relu(%a)' 'output %r' 'state %p <- %a'
	refused 'Relu(Exp(x)) => Exp(x)' 'output 0 of its Exp is an output or state of the graph'
}

@test "another dtype, another shape, a broadcast that was not there" {
	graph 'input %x : f32[2]' '%a = Exp(%x)' '%r = Relu(%a)' 'output %r'
	refused 'Relu(x) => Cast(Relu(x)){to=f16}' 'its result has dtype f32, the replacement'\''s f16'
	graph 'input %x : f32[2,3]' '%a = Transpose(%x)' '%r = Relu(%a)' 'output %r'
	refused 'Transpose(x){*} => x' 'the replacement'\''s result has another shape'
	graph 'input %x : f32[1,3]' 'input %y : f32[1,3]' 'const %s : i64[2] = [4, 3]' '%e = Expand(%x, %s)' '%r = Mul(%e, %y)' 'output %r'
	refused 'Mul(Expand(a, s), b) => Mul(a, b)' 'the replacement'\''s result has another shape'
	graph 'input %x : f32[2,3]' 'input %y : f32[3]' '%r = Add(%x, %y)' 'output %r'
	refused 'Add(a, b) => AddN(a, b)' 'AddN does not take these inputs'
	graph 'input %x : f32[3,3]' '%a = Transpose(%x)' '%r = Relu(%a)' 'output %r'
	caught 'Transpose(x){*} => x' "'a' (Transpose)"
}

@test "a cycle; what is replaced is read by what replaces it" {
	graph 'input %a : f32[2]' 'input %b : f32[2]' '%x = Add(%a, %b)' '%t = Exp(%x)' '%y = Mul(%a, %t)' 'output %x' 'output %y'
	refused 'Add(a, b) as x; Mul(a, c) as y => Max(a, b, c) as m; x => m, y => m' 'it would make a cycle'
	graph 'input %a : f32[2]' '%n = Neg(%a)' '%e = Exp(%a)' '%z = Add(%n, %e)' 'output %z'
	refused 'Neg(x) as n; Exp(x) as e => Mul(n, e) as m; Neg(x) as k; n => k, e => m' 'a value that the replacement reads would be removed'
}

@test "an effect, its order, chance, an attribute, a body" {
	graph 'input %x : f32[2]' '%t = Print(%x)' '%d = Depend(%x, %t)' '%r = Neg(%d)' 'output %r'
	refused 'Depend(x, *a) => x' 'the order that its Depend says would be lost'
	good 'Neg(Depend(x, *a)) => Depend(Neg(x), *a)'
	graph 'input %x : f32[2]' '%u = RandomUniformLike(%x)' '%r = Add(%u, %x)' 'output %r'
	refused 'RandomUniformLike(x) => Mul(x, 0.5)' 'a node that draws random numbers would be dropped or repeated'
	graph 'input %x : f32[2,3]' '%r = Softmax(%x) {axis=0}' 'output %r'
	refused 'Softmax(x) => Exp(x)' "attribute 'axis' of its Softmax would be lost"
	caught 'Softmax(x){*} => Exp(x)' "'r' (Softmax)"
	graph 'input %c : bool[]' 'input %x : f32[2]' '%r = If(%c; %x) {then_branch=graph "t"(%a : f32[2]) {' '%b = Neg(%a)' 'output %b' \
		'}, else_branch=graph "e"(%a : f32[2]) {' 'output %a' '}}' 'output %r'
	refused 'If(c){*} => Cast(c){to=f32}' 'its If has a body'
	caught 'Neg(x) => Abs(x)' "'b' (Neg)"
}

@test "the new state where the old one is read, and the other way" {
	graph 'param %p : f32[2] = ones' 'input %g : f32[2]' '%o = Neg(%p)' '%n = Add(%p, %g)' 'output %o' 'state %p <- %n'
	caught 'Add(p, g) as n; Neg(p) as o => Add(p, g) as m; Neg(m) as k; n => m, o => k' "'o' (Neg)"
	graph 'param %p : f32[2] = ones' 'input %g : f32[2]' '%n = Assign(%p, %g)' '%o = Neg(%n)' 'output %o' 'state %p <- %n'
	caught 'Neg(Assign(p, v) keep) => Neg(p)' "'o' (Neg)"
}

@test "algebra of the reals: Relu over Add, swapped operands, parts of a sum" {
	graph 'input %a : f32[8]' 'input %b : f32[8]' '%s = Add(%a, %b)' '%r = Relu(%s)' 'output %r'
	caught 'Relu(Add(a, b)) => Add(Relu(a), Relu(b))' "'r' (Relu)"
	graph 'input %a : f32[8]' 'input %b : f32[8]' '%s = Sub(%a, %b)' '%r = Exp(%s)' 'output %r'
	run gg-opt --rewrite='Exp(Sub(a, b)) => Exp(Sub(b, a))' --verify -o out.gg g.gg
	[ "$status" = 2 ]
	[[ "$output" == *"pass 'rewrite': rule 'Exp(Sub(a, b))' does not come to an end: stopped after "* ]]
	caught 'Exp(Sub(a, b)) => Div(Exp(b), Exp(a))' "'r' (Exp)"
	graph 'input %a : f32[3,3]' 'input %b : f32[3,3]' '%m = MatMul(%a, %b)' '%r = Relu(%m)' 'output %r'
	caught 'Relu(MatMul(a, b)) => Clip(MatMul(b, a), 0)' "'m' (MatMul)"
	graph 'input %a : f32[2,3]' 'input %b : f32[3]' 'const %k : i64[1] = [0]' '%m = Mul(%a, %b)' '%r = ReduceSum(%m, %k) {keepdims=0}' 'output %r'
	refused 'ReduceSum(Mul(a, b), k){keepdims=0} => ReduceSum(Mul(a, b)){keepdims=0}' 'the replacement'\''s result has another shape'
	graph 'input %x : i32[64,5]' '%r = ArgMax(%x) {axis=0, select_last_index=1}' 'output %r'
	caught 'ArgMax(x){*} => ArgMin(Neg(x))' "'r' (ArgMax)"
}

@test "integers that overflow, and casts that cut" {
	graph 'input %x : i8[64]' 'const %k : i8[] = 2' '%m = Mul(%x, %k)' '%y = Div(%m, %k)' '%z = Neg(%y)' 'output %z'
	caught 'Div(Mul(x, 2), 2) => x' "'y' (Div)"
	graph 'input %a : i32[64]' 'input %b : i32[64]' 'const %k : i32[] = 2' '%m = Add(%a, %b)' '%y = Div(%m, %k)' 'output %y'
	caught 'Div(Add(a, b), 2) => Add(a, Div(Sub(b, a), 2))' "'y' (Div)"
	graph 'input %a : i64[64]' '%m = Cast(%a) {to=i32}' '%y = Cast(%m) {to=i64}' '%z = Neg(%y)' 'output %z'
	caught 'Cast(Cast(x){to=i32}){to=i64} => x' "'m' (Cast)"
}

@test "f16 where there was none, and none where it was" {
	graph 'input %x : f16[64]' '%c = Cast(%x) {to=f32}' '%y = ReduceSum(%c)' 'output %y'
	caught 'ReduceSum(Cast(x){to=f32}) => Cast(ReduceSum(x)){to=f32}' "'y' (ReduceSum)"
	[[ "$output" == *": it rounds to f16, which it did not before" ]]
	graph 'input %a : f32[64]' 'input %b : f32[64]' '%c = Cast(%a) {to=f16}' '%d = Cast(%b) {to=f16}' '%e = Add(%c, %d)' \
		'%y = Cast(%e) {to=f32}' 'output %y'
	caught 'Cast(Add(Cast(a){to=f16}, Cast(b){to=f16})){to=f32} => Add(a, b)' "'e' (Add)"
	[[ "$output" == *": it does not round to f16 any more" ]]
	graph 'input %x : f32[64]' '%c = Cast(%x) {to=f16}' '%y = Cast(%c) {to=f32}' '%z = Abs(%y)' 'output %z'
	caught 'Cast(Cast(x){to=f16}){to=f32} => x' "'c' (Cast)"
	graph 'input %x : f16[8,2]' '%c = Cast(%x) {to=f32}' '%y = Transpose(%c)' '%z = Abs(%y)' 'output %z'
	good 'Transpose(Cast(x){to=f32}){*} => Cast(Transpose(x)){to=f32}'
}

@test "NaN, infinity, zeros with a sign, overflow" {
	graph 'input %x : f32[64]' 'input %y : f32[64]' '%r = Max(%x, %y)' 'output %r'
	caught 'Max(x, y) => Where(Greater(x, y), x, y)' "'r' (Max)"
	graph 'input %x : f32[64]' 'const %k : f32[] = 0.5' '%r = Pow(%x, %k)' 'output %r' # of -infinity
	caught 'Pow(x, 0.5) => Sqrt(x)' "'r' (Pow)"
	graph 'input %x : f32[64]' 'const %z : f32[] = 0' '%y = Sub(%z, %x)' '%r = Reciprocal(%y)' 'output %r'
	caught 'Sub(0, x) => Neg(x)' "'y' (Sub)"
	graph 'input %x : f32[64]' 'const %z : f32[] = 0' '%r = Mul(%x, %z)' '%s = Relu(%r)' 'output %s'
	caught 'Relu(Mul(x, 0)) => Abs(Mul(Clip(x, -1, 1), 0))' "'r' (Mul)"
	graph 'input %x : f32[64]' '%r = Abs(%x)' 'output %r'
	caught 'Abs(x) => Sqrt(Mul(Mul(x, x), Mul(Mul(x, x), Div(1, Mul(x, x)))))' "'r' (Abs)"
	graph 'input %x : f32[64]' '%m = Mul(%x, %x)' '%r = Sqrt(%m)' 'output %r' # less overflows than before
	good 'Sqrt(Mul(x, x)) => Abs(x)'
}
