#!/usr/bin/env bats
# gg-opt: what runs, in which order, and what it tells.

setup() {
	cd "$BATS_TEST_TMPDIR"
	top=$BATS_TEST_DIRNAME/../..
	cat >g.gg <<'EOF'
graph "g"
input %x : f32[4]
%a = Identity(%x)
%b = Sigmoid(%a)
%c = Sigmoid(%x)
%y = Add(%b, %c)
output %y
EOF
}

@test "passes run in the order given, pipelines in theirs" {
	run gg-opt --pass=dead_code,cse:: --print-pipeline
	[ "$status" = 2 ]
	run gg-opt --pass=dead_code,cse --print-pipeline
	[ "$output" = $'dead_code\ncse' ]
	run gg-opt --pipeline=hardware --pass=cse --print-pipeline
	[[ $output == *bn_relu*cse ]]
	run gg-opt --print-pipeline
	[[ $output == shape_inference*dead_code*fold_bn* ]]
	run gg-opt -O0 --print-pipeline
	[ -z "$output" ]
	run gg-opt --skip=cse --print-pipeline
	[[ $output != *cse* ]]
}

@test "what is not known is a usage error that names it" {
	run gg-opt --pass=nope g.gg
	[ "$status" = 2 ]
	[[ $output == *"'nope'"* ]]
	run gg-opt --pipeline=nope g.gg
	[ "$status" = 2 ]
	run gg-opt --skip=nope g.gg
	[ "$status" = 2 ]
	run gg-opt --pass=fold_constants:bytes=1 g.gg
	[ "$status" = 2 ]
	[[ $output == *"has no option 'bytes'"*"size=N"* ]]
	run gg-opt --frobnicate g.gg
	[ "$status" = 2 ]
	[[ $output == *frobnicate* ]]
	run gg-opt --print-after=nope g.gg
	[ "$status" = 2 ]
	[[ $output == *"'nope'"* ]]
	run gg-opt --json g.gg
	[ "$status" = 2 ]
}

@test "an option out of range is a usage error that says what would be right" {
	wrong() { # PASS:OPTION=VALUE TEXT
		run gg-opt --pass="$1" -o /dev/null g.gg
		[ "$status" = 2 ]
		[[ $output == *"$2"* ]]
	}
	printf '%s\n' 'input %i : f32[4]' '%r = AllReduce(%i) {fusion=1}' '%s = AllReduce(%r) {fusion=1}' 'output %s' >>g.gg
	sed -i '/%i :/d; s/%i/%x/' g.gg
	wrong fold_constants:size=-1 "size '-1' is not a number of bytes"
	wrong fold_constants:size=1e99 "'1e99'"
	wrong autocast:dtype=f9 "f16 or bf16, not 'f9'"
	wrong reduce_precision:ops=Relo "no op is named 'Relo'; did you mean 'Relu'?"
	wrong "allreduce_fusion:split='5,2'" 'places rise from 0'
	wrong loss:target=t 'kind'
	wrong loss:kind=softmax_cross_entropy:target=t:label_smoothing=2 'at most 1'
	wrong expand:all=2 "'all' takes 1, not '2'"
	wrong identity:weights=0 "'weights' takes 1, not '0'"
	wrong allgather_fusion:split=x 'places rise from 0' # though there is no AllGather
	wrong loss:kind=mse 'target=NAME'
	run gg-opt --limit=-1 g.gg
	[ "$status" = 2 ]
	run gg-opt --verify=many g.gg
	[ "$status" = 2 ]
}

@test "--list has each pass with its help, --explain says what it does and when" {
	want="addn adjust_depend_allgather allgather_fusion allreduce_fusion alltoall attention bce_with_logits bn_add_relu
	bn_relu adam_weight_decay fused_adam add_relu_v2 add_relu_grad_v2 relu_v2 cast_all combine_momentum concat_allgather
	const_to_attr conv_bias_act cse dead_code flatten_tuple fold_bn fold_constants gelu getitem_tuple identity inplace
	insert_cast insert_format layer_norm matmul_bias matmul_bias_act momentum_cast momentum_scale momentum_weight
	momentum_weight_scale pad_conv post_bn_add_relu print_reduce reduce_precision remove_format_pair
	remove_redundant_format rms_norm shape_inference silu transposes casts update_state loss grad sgd momentum adam
	adamw rmsprop adagrad lamb to_inference"
	gg-opt --list --json >list.json
	for p in $want; do
		jq -e --arg p "$p" 'any(.name == $p)' list.json >/dev/null || { echo "no pass $p"; false; }
	done
	for p in $(jq -r '.[].name' list.json); do
		gg-opt --list | grep -q "^$p  *[^ ].* \[" || { echo "no help: $p"; false; }
		gg-opt --explain="$p" >text
		grep -q "^$p: ." text
		grep -q '^pipelines: ' text
		grep -q '^results: ' text
		[ "$(sed '1,2d; /^pipelines: /,$d' text | wc -w)" -ge 5 ] || { echo "no explanation: $p"; false; }
	done
}

@test "-O0 changes nothing but the history" {
	gg-opt -O0 g.gg | gg-dump | grep -v ^history >a
	gg-dump g.gg >b
	cmp a b
}

@test "--print-changed shows what went and what came" {
	gg-opt --pass=identity,cse --print-changed g.gg 2>err >/dev/null
	grep -q '^# identity' err
	grep -q '^- %a = Identity(%x)' err
	grep -q '^# cse' err
	grep -q '^+ %y = Add(%b, %b)' err
}

@test "--print-before and --print-after" {
	gg-opt --pass=identity --print-before=identity --print-after=all g.gg 2>err >/dev/null
	grep -q '^# before identity' err
	grep -q '^# after identity' err
	[ "$(grep -c 'Identity' err)" = 1 ]
}

@test "--limit stops after so many rewrites" {
	gg-opt --pass=identity,cse --limit=1 --stats g.gg 2>err | gg-dump >out
	grep -q 'identity  *tried 1, applied 1' err
	grep -q 'cse  *tried 0, applied 0' err
	[ "$(grep -c Sigmoid out)" = 2 ]
	gg-opt --pass=identity --limit=0 g.gg | gg-dump | grep -q Identity
	# what is done many at a time counts one by one
	printf '%s\n' 'input %x : f32[2]' 'const %a : f32[2] = [1, 2]' 'const %b : f32[2] = [3, 4]' '%c = Add(%a, %b)' \
		'%d = Mul(%c, %b)' '%y = Add(%x, %d)' '%z = Identity(%y)' '%w = Neg(%z)' 'output %w' >f.gg
	for n in 0 1 2 3; do
		run gg-opt --pass=fold_constants,identity,dead_code --limit=$n --stats -o l.gg f.gg
		[ "$(awk '{ n += $5 } END { print n }' <<<"$output")" = $n ]
		[ "$(gg-dump l.gg | grep -c '^%')" = $((5 - n)) ]
	done
	gg-opt --pass=fold_constants,identity --bisect='gg-dump | grep -q Mul' f.gg | grep -q "pass 'fold_constants', rewrite 2 "
}

@test "--time and --list --json" {
	gg-opt --time --pass=cse g.gg 2>&1 >/dev/null | grep -Eq '^cse +[0-9.]+ ms$'
	gg-opt --list --json | jq -e 'map(select(.name == "bn_relu" and .exact)) | length == 1'
	gg-opt --list | grep -q '^cse '
	gg-opt --explain=cse | grep -q 'bit for bit'
}

@test "a plugin's pass runs like the others" {
	cat >neg_neg.c <<'EOF'
#include "pass.h"
#include <string.h>
static bool run(gg_pass_run *p, gg_graph *g)
{
	for (gg_node *n = g->first, *next; n; n = next) {
		next = n->next;
		gg_value *x = gg_in(n, 0);
		gg_node *inner = x ? x->producer : 0;
		if (strcmp(n->op->name, "Neg") || !inner || strcmp(inner->op->name, "Neg"))
			continue;
		if (!gg_can_replace(n->out[0], inner->in[0].value)) {
			gg_refused(p, n, "its result is a declared output");
			continue;
		}
		if (!gg_apply(p, n))
			return true;
		gg_replace_value(n->out[0], inner->in[0].value);
		gg_remove_node(n);
	}
	return true;
}
static const gg_pass neg_neg = {.name = "neg_neg", .help = "h", .explain = "e", .pipeline = "", .run = run};
const int gg_plugin_abi = GG_PASS_ABI;
const gg_pass *const gg_plugin_passes[] = {&neg_neg, 0};
EOF
	cc -shared -fPIC -I"$top/lib" -I"$top/tools/gg-opt" -o neg_neg.so neg_neg.c
	printf 'graph "g"\ninput %%x : f32[4]\n%%a = Neg(%%x)\n%%b = Neg(%%a)\n%%y = Relu(%%b)\noutput %%y\n' >n.gg
	gg-opt --load=neg_neg.so --pass=neg_neg,dead_code n.gg | gg-dump >out
	! grep -q Neg out
	grep -q 'Relu(%x)' out
	run gg-opt --load=nothing.so n.gg
	[ "$status" = 5 ]
}

# x is channels-last after the convolution; what is declared stays plain, whichever node gives it.
selected() {
	cat >s.gg <<'EOF'
graph "s"
input %x : f32[1,3,4,4]
param %w : f32[5,3,1,1] = normal(1, 0, 1)
param %k : f32[5] = uniform(2, 1, 2)
%a = Conv(%x, %w)
%b = BatchNormalization(%a, %k, %k, %k, %k)
%c = Identity(%b)
output %c
EOF
	gg-run --target=ref --output c=want.npy s.gg 2>/dev/null
	gg-select --target=cpu --layout=nhwc s.gg
}

@test "a pass after gg-select leaves an output in its declared layout" {
	selected >sel
	for pass in identity fold_bn,identity identity,fold_bn; do
		gg-opt --pass=$pass sel >o
		! gg-dump o | grep -q Identity
		gg-build o | gg-run --expect c=want.npy 2>/dev/null
	done
}

@test "a pass after gg-build ends the plan, and no pass keeps it" {
	selected | gg-build >plan
	gg-dump plan | grep -q '^blob "plan"'
	gg-opt -O0 plan | gg-dump | grep -q '^blob "plan"'
	gg-opt --pass=identity,fold_bn plan >o
	! gg-dump o | grep -q -e '^blob' -e 'alias=' -e 'mem='
	gg-dump o | grep -q '^stage "select"'
	gg-run --expect c=want.npy o 2>/dev/null
	gg-select --target=ref plan >o
	! gg-dump o | grep -q '^blob "plan"'
	gg-run --expect c=want.npy o 2>/dev/null
}

@test "several graphs in one stream each go through" {
	gg-opt -O0 g.gg >one
	cat one one | gg-opt --pass=identity >two
	[ "$(gg-dump two | grep -c '^graph')" = 2 ]
	[ "$(gg-dump two | grep -c Identity || true)" = 0 ]
}

@test "a failed stage fails every later one" {
	run bash -c 'set -o pipefail; false | gg-opt | gg-dump'
	[ "$status" = 3 ]
	printf 'graph "g"\noutput %%y\n' >bad.gg
	run bash -c 'cat bad.gg | gg-opt | gg-opt | gg-dump; echo "${PIPESTATUS[@]}"'
	[ "${lines[-1]}" = '0 3 3 3' ]
}

@test "transposes leaves the fewest, and never more than there were" {
	for row in "mlp_mixer 1" "vit_tiny 9" "bert_tiny 8" "unet 0"; do
		set -- $row
		[ -e "$BATS_TEST_DIRNAME/../data/models/$1/model.onnx" ] || continue
		n=$(gg-parse "$BATS_TEST_DIRNAME/../data/models/$1/model.onnx" | gg-opt |
			gg-dump --stats | awk '/^transposes/ { print $2 }')
		[ "$n" -le "$2" ]
	done
}

@test "an empty name between commas is no pass; a file of rules that is none is refused" {
	for p in , cse, ,cse cse,,dead_code; do
		run gg-opt --pass=$p -o /dev/null g.gg
		[ "$status" = 2 ]
		[[ $output == "gg-opt: no pass is named ''"* ]]
	done
	run gg-opt --rules=gone.rules -o /dev/null g.gg
	[ "$status" = 3 ]
	[[ $output == "gg-opt: cannot read 'gone.rules': "* ]]
	run timeout 5 gg-opt --rules=/dev/zero -o /dev/null g.gg
	[ "$status" = 2 ]
}
