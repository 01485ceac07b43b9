#!/bin/sh
# What has gone wrong in compilers like this one, and the test that it does not here: TAP on stdout. A name
# is a golden case of gg-opt, FILE.bats:TITLE (a part of it) a test in cli/. A line whose test is gone fails.
set -u
cd "$(dirname "$0")" || exit 1
table() {
	cat <<-'END'
	 1 momentum_scale_nesterov                        a fused momentum step drops Nesterov
	 1 momentum_weight_nesterov
	 1 momentum_weight_scale_nesterov
	 1 hazards.bats:hazard 1:
	 2 momentum_weight_f16                            momentum of f16 weights does not compile
	 2 momentum_weight_scale_f16
	 3 momentum_weight_tensor_decay                   a weight decay per element is read as one number
	 3 momentum_weight_scale_tensor_decay
	 3 adam_weight_decay_tensor
	 4 hazard_4_second_reader                         a reader of BatchNormalization gets what Relu made
	 4 bn_relu_second_reader
	 4 bn_relu_index
	 5 hazard_5_z_depends_on_bn                       what is added to BatchNormalization depends on it,
	 5 hazard_5_broadcast_z                           is broadcast,
	 5 hazard_5_index_not_0                           or is added to a statistic
	 6 hazards.bats:hazard 6:                         plain forward with fused backward
	 6 bn_relu_grad_plain_forward
	 6 bn_add_relu_grad_plain_forward
	 7 insert_format_unit                             a transposition taken for a reshape: N is 1, and one more
	 7 transposes_units_one
	 7 hazards.bats:hazard 7:
	 8 remove_format_pair_extents                     transpositions of equal extents, taken for a pair
	 8 transposes_extents
	 9 hazard_9_other_gradient                        dx summed in place where dz is meant,
	 9 hazard_9_dx
	 9 hazard_9_broadcast                             where the sum is broadcast,
	 9 fused.bats:hazard 9:                           or out of order after sorting
	10 hazard_10_broadcast                            AddReluV2 of broadcast operands
	11 reduce_precision_range                         numbers beyond 2^31 cut off
	12 hazard_12_mixed_slots                          slots of i32 and i64, chosen apart from one another
	13 combine_momentum_mixed                         gradients of two dtypes in one combined step
	14 hazard_14_load_of_written_parameter            a fused AllReduce reads what the step wrote
	14 world.bats:hazard 14:
	15 hazards.bats:hazard 15:                        AllReduce alone, as an output, behind another
	15 allreduce_fusion_chain
	18 hazards.bats:hazard 18:                        views as outputs, in chains, and nothing else
	19 run.bats:sizes that depend on data             the host does not learn a size that depends on data
	21 world.bats:a rank that ends, or fails          a rank that fails, and all others wait
	23 hazards.bats:hazard 23:                        a weight in two layouts
	END
}
n=0 failed=0
list=$(mktemp) || exit 1
trap 'rm -f "$list"' EXIT
table >"$list"

ok() { # STATUS TEXT
	n=$((n + 1))
	[ "$1" = 0 ] && echo "ok $n - $2" && return
	failed=$((failed + 1))
	echo "not ok $n - $2"
}

while read -r number test; do
	test=${test%%   *}
	case $test in
	*.bats:*) grep -q "^@test \".*${test#*:}" "cli/${test%%:*}" ;;
	*) [ -e "golden/gg-opt/$test.gg" ] ;;
	esac
	ok $? "hazard $number: $test"
done <"$list"
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 18 23; do # those of passes
	grep -q "^ *$i " "$list"
	ok $? "hazard $i has a test"
done
echo "1..$n"
[ "$failed" = 0 ]
