# How one folder of data/cases is run, for cases.sh and cuda.sh, which read this; the folder is tests.
says() { # what the message must hold, by case
	case $1 in
	bad_axis_range) echo Concat 2 ;;
	bad_broadcast) echo 'Add [2,3] [2]' ;;
	bad_cycle) echo cycle ;;
	bad_duplicate_attr) echo n0_LeakyRelu alpha ;;
	bad_duplicate_output) echo "'y'" ;;
	bad_matmul_shape) echo n0_MatMul 3 4 ;;
	bad_missing_value) echo nowhere n0_Add ;;
	bad_negative_dim) echo "'W'" -2 ;;
	bad_truncated) echo model.onnx ;;
	bad_unknown_op) echo Relu6 n0_Relu6 ;;
	gradient_unknown) echo Gradient "'nowhere'" ;;
	external_length_mismatch) echo "'W'" 36 32 ;;
	external_missing) echo "'W'" gone.bin ;;
	external_parent) echo "'W'" .. ;;
	relu_clip_vector_min) echo Clip min ;;
	esac
}
export -f says

run() { # DIR WAYS
	local said
	said=$(SAYS=$(says "$(basename "$1")") lib/folder.sh "$1" $2)
	printf '%s\n' "$said" # at once: several run at a time
}
export -f run
