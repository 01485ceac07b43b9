#!/usr/bin/env bats
# gg-parse: ONNX files of all opsets, bodies and functions, and what it refuses; ONNX export.

bats_require_minimum_version 1.5.0

setup_file() {
	export DATA="$BATS_TEST_DIRNAME/../data"
}

setup() {
	cd "$BATS_TEST_TMPDIR"
}

# refused STATUS TEXT... CASE: the last argument is the case; each TEXT stands in the one line of stderr.
refused() {
	local want=$1 name=${*: -1}
	shift
	run --separate-stderr gg-parse "$DATA/cases/$name/model.onnx"
	[ "$status" -eq "$want" ]
	[ -z "$output" ]
	[ "${#stderr_lines[@]}" -eq 1 ]
	for text in "${@:1:$#-1}"; do
		[[ "$stderr" == *"$text"* ]] || { echo "no '$text' in: $stderr"; return 1; }
	done
}

@test "models in old opsets and forms give onnxruntime's results" {
	local failed=0
	for dir in "$DATA"/opset/*/; do
		gg-parse "$dir/model.onnx" | gg-run -q --target=ref --test "$dir" >out 2>&1 || {
			echo "$dir"; cat out; failed=1; }
	done
	[ "$failed" -eq 0 ]
}

@test "what was parsed prints, reads and prints the same, as text and as JSON" {
	for file in "$DATA"/opset/*/model.onnx; do
		gg-parse "$file" >a.gg
		gg-dump a.gg >a.txt
		gg-parse a.txt | gg-dump | cmp - a.txt
		gg-dump --format=json a.gg | gg-parse --format=json | gg-dump | cmp - a.txt
	done
}

@test "an exported graph reads back to the same results" {
	local failed=0
	for dir in "$DATA"/opset/*/; do
		gg-parse "$dir/model.onnx" | gg-dump --format=onnx -o e.onnx
		gg-parse e.onnx | gg-run -q --target=ref --test "$dir" >out 2>&1 || { echo "$dir"; cat out; failed=1; }
	done
	[ "$failed" -eq 0 ]
}

@test "export is a fixed point" {
	for name in if_nested_21_true loop_16 scan_16 shape_arithmetic function_body split_18_uneven; do
		gg-parse "$DATA/opset/$name/model.onnx" | gg-dump --format=onnx -o a.onnx
		gg-parse a.onnx | gg-dump --format=onnx -o b.onnx
		cmp a.onnx b.onnx
	done
}

@test "wrong graphs are refused by name" {
	refused 3 "'n0_Concat'" "axis 2" "rank 2" bad_axis_range
	refused 3 "'n0_Add'" "[2,3]" "[2]" bad_broadcast
	refused 3 "cycle" "'n0_Add'" "'n1_Relu'" bad_cycle
	refused 3 "'n0_LeakyRelu'" "'alpha' is given twice" bad_duplicate_attr
	refused 3 "'y' twice" bad_duplicate_output
	refused 3 "no graph" bad_empty_file
	refused 3 "'n0_MatMul'" "3 and 4" "'x0'" "'W'" bad_matmul_shape
	refused 3 "'n0_Add'" "'nowhere'" bad_missing_value
	refused 3 "'W'" "-2" bad_negative_dim
	refused 3 "bad_truncated/model.onnx" "truncated" bad_truncated
	refused 4 "'n0_Relu6'" "'Relu6'" "did you mean 'Relu'" bad_unknown_op
	refused 3 "'n1_Clip'" "min" "[0]" relu_clip_vector_min
}

@test "external data must be there, fit and lie beside the model" {
	refused 3 "'W'" "36 bytes" "32" external_length_mismatch
	refused 3 "'W'" "'gone.bin'" external_missing
	refused 3 "'W'" "'../external_offset/weights.bin'" external_parent
	gg-parse --allow-outside "$DATA/cases/external_parent/model.onnx" >/dev/null
}

@test "weights are referred to, or embedded, or known by their hash" {
	cp "$DATA/models/half_conv/model.onnx" m.onnx
	chmod u+w m.onnx
	gg-parse m.onnx >by_ref.gg
	gg-parse --embed m.onnx >embedded.gg
	gg-parse --hash m.onnx >hashed.gg
	gg-dump by_ref.gg | grep -q 'file("m.onnx", '
	! gg-dump embedded.gg | grep -q 'file('
	touch -d 2001-01-01 m.onnx
	run gg-run -q --target=ref --test "$DATA/models/half_conv" by_ref.gg
	[ "$status" -eq 3 ]
	[[ "$output" == *"'m.onnx' has changed"* ]]
	gg-run -q --target=ref --test "$DATA/models/half_conv" hashed.gg
	printf '\1' | dd of=m.onnx bs=1 seek=2000 conv=notrunc status=none
	run gg-run -q --target=ref --test "$DATA/models/half_conv" hashed.gg
	[ "$status" -eq 3 ]
	rm m.onnx
	gg-run -q --target=ref --test "$DATA/models/half_conv" embedded.gg
}

@test "a model from a pipe carries its weights" {
	cat "$DATA/models/half_conv/model.onnx" | gg-parse >a.gg
	gg-parse <"$DATA/models/half_conv/model.onnx" >b.gg
	for file in a.gg b.gg; do
		! gg-dump "$file" | grep -q 'file('
		gg-run -q --target=ref --test "$DATA/models/half_conv" "$file"
	done
}

@test "--bind and --shape give sizes to symbols" {
	m="$DATA/cases/symbolic_batch/model.onnx"
	gg-parse "$m" | gg-dump | grep -q '%t1 = .* : f32\[batch,2,2\]'
	gg-parse --bind batch=3 "$m" | gg-dump | grep -q '%t1 = .* : f32\[3,2,2\]'
	gg-parse --shape "'x0'=5,4" "$m" | gg-dump | grep -q '%t1 = .* : f32\[5,2,2\]'
	gg-parse "$m" | gg-dump >m.txt
	gg-parse --shape x0=5,4 m.txt | gg-dump | grep -q '%t1 = .* : f32\[5,2,2\]'
	for bad in x0=5 x0=5,3 y=1 x0=a x0; do
		run gg-parse --shape "$bad" "$m"
		[ "$status" -eq 2 ]
		run gg-parse --shape "$bad" m.txt
		[ "$status" -eq 2 ]
	done
}

@test "what is known of shapes folds, parameters do not" {
	gg-parse "$DATA/cases/conv_reshape_instancenorm/model.onnx" | gg-dump >out
	! grep -q 'Shape(' out
	gg-parse "$DATA/cases/lessorequal_fold_12/model.onnx" | gg-dump | grep -c '^%.* = [A-Z]' | grep -qx 1
	gg-parse --bind batch=4 "$DATA/opset/shape_arithmetic/model.onnx" | gg-dump | grep '^%' >out
	[ "$(wc -l <out)" -eq 1 ]
	gg-parse "$DATA/models/train_mlp_adam_mse/model.onnx" | gg-dump | grep -c '^param' | grep -qx 4
}

@test "formats are told apart, and mindir is not supported" {
	gg-parse "$DATA/opset/unsorted/model.onnx" >a.gg
	gg-dump a.gg >a.txt
	gg-dump --format=json a.gg >a.json
	cp "$DATA/opset/unsorted/model.onnx" plain
	for file in a.gg a.txt a.json plain; do
		gg-parse "$file" | gg-dump | grep -q '%y = Add(%b, %a)'
	done
	run gg-parse --format=mindir a.gg
	[ "$status" -eq 4 ]
	run gg-parse --format=caffe a.gg
	[ "$status" -eq 2 ]
}

@test "a file cut anywhere is refused or is a smaller model, never a crash" {
	m="$DATA/opset/if_nested_7_true/model.onnx"
	for n in $(seq 0 7 "$(stat -c %s "$m")"); do
		head -c "$n" "$m" >cut.onnx
		run gg-parse -o cut.gg cut.onnx
		[ "$status" -eq 0 ] || [ "$status" -eq 3 ] || [ "$status" -eq 4 ]
	done
}

@test "a number where a string belongs is refused" {
	run gg-parse -o out.gg "$DATA/broken/number_for_bytes.onnx"
	[ "$status" -eq 3 ]
	[[ "$output" == *"not a valid ONNX file"* ]]
	[ ! -e out.gg ]
}

@test "export refuses state and a second graph" {
	cat >state.txt <<-'END'
		graph "g"
		stage "parse"
		param %w : f32[2] = [1, 2]
		%v = Add(%w, %w) : f32[2]
		output %v
		state %w <- %v
	END
	run gg-dump --format=onnx -o s.onnx state.txt
	[ "$status" -eq 4 ]
	[[ "$output" == *"'w'"* ]]
	gg-parse "$DATA/opset/unsorted/model.onnx" "$DATA/opset/unsorted/model.onnx" >two.gg
	run gg-dump --format=onnx -o s.onnx two.gg
	[ "$status" -eq 4 ]
	[ ! -e s.onnx ]
}
