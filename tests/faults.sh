#!/bin/bash
# What goes wrong on a device: one message that says what to do about it, the documented exit status, no crash,
# and nothing left behind. By the stand-in for CUDA's libraries (tests/cuda/fake.c).
. "$(dirname "$0")/lib/fake.sh"

check() { # check STATUS WHAT
	n=$((n + 1))
	[ "$1" = 0 ] && echo "ok $n - $2" && return
	echo "not ok $n - $2" && sed 's/^/# /' "$tmp/log" | head -5 && bad=1
}
run() { # run [VAR=VALUE...] [OPTION...]: gg-run on the plan, what it says in $tmp/log, its status in $status
	local set=()
	while [[ ${1:-} == *=* && $1 != --* ]]; do set+=("$1") && shift; done
	rm -f "$tmp/left"
	env "${set[@]}" GG_FAKE_LEFT="$tmp/left" timeout 20 gg-run --data x="$tmp/x.npy" "$@" >"$tmp/out" 2>"$tmp/log"
	status=$?
}
says() { # says STATUS WHAT TEXT...: exit status, no memory left, one line for each TEXT and no other
	local want=$1 what=$2 good=0
	shift 2
	[ $status = "$want" ] && [ ! -s "$tmp/left" ] && [ "$(wc -l <"$tmp/log")" = $# ] || good=1
	for text; do grep -qF -- "$text" "$tmp/log" || good=1; done
	check $good "$what"
}

gg-run -q --target=ref --output s="$tmp/x.npy" cuda/slices.gg
gg-select -q --target=cuda:sm_90 cuda/branches.gg | gg-build -q -o "$tmp/b.plan"
steps=(--steps=4 --expect d="$tmp/want/output_0.npy" --expect e="$tmp/want/output_1.npy" "$tmp/b.plan")
gg-run -q --target=ref --data x="$tmp/x.npy" --steps=4 --outputs "$tmp/want" cuda/branches.gg
run "${steps[@]}"
says 0 'nothing goes wrong'

run GG_FAKE_MEMORY=3000 "${steps[@]}"
says 5 'memory for a weight' "out of memory: 0.000256 MB for 'w', "
grep -q "MB are free; largest so far: 'the memory plan' 0.0[0-9]* MB, 'x' 0.0" "$tmp/log"
check $? 'and who has most of it'
run GG_FAKE_MEMORY=500 "${steps[@]}"
says 5 'memory for the plan' "MB for 'the memory plan', " "note: the largest values of the plan: 'a' of node 'a' 0.000256 MB, "
run GG_FAKE_BAD=3 "${steps[@]}"
says 5 'a bad address in the first run' "step 0: node 'c2' (Softmax): target 'cuda': the device failed: an illegal memory access"
run GG_FAKE_BAD=20 "${steps[@]}"
says 5 'in a replayed one' 'an illegal memory access' 'note: it came from the step as a whole: --check-finite'
run GG_FAKE_BAD=20 --check-finite "${steps[@]}"
says 5 '--check-finite names its node' 'an illegal memory access'
grep -q "step [123]: node '[a-z0-9]*' (" "$tmp/log"
check $? 'and its op'
run GG_FAKE_LOOSE=1 "${steps[@]}"
says 0 'kernels that cannot be recorded' "3 calls cannot be recorded and go to the device one by one: 'a2' (Softmax), 'b2' (Softmax), 'c2' (Softmax)"
run GG_FAKE_LOOSE=0 "${steps[@]}"
says 0 'none can' 'calls cannot be recorded'
run GG_FAKE_SM=80 "${steps[@]}"
says 5 'another kind of device' "selected for sm_90, and this machine's device is an sm_80: select it for 'cuda' or 'cuda:sm_80'"
run GG_FAKE_DRIVER=12020 "${steps[@]}"
says 5 'an older driver' "node 'a2' (Softmax): target 'cuda': the driver, for CUDA 12.2, does not load a kernel that a newer CUDA compiled, NVRTC 13.0.0: build"
gg-select -q --target=cuda:sm_90 cuda/branches.gg | gg-build -q --tune=2 --save-choices="$tmp/timed" -o "$tmp/t.plan" 2>"$tmp/log"
sed 's/, [^,]* ms$//' "$tmp/timed" >"$tmp/untimed"
for k in 1 2; do
	gg-select -q --target=cuda:sm_90 cuda/branches.gg |
		gg-build -q --tune=$k --choices="$tmp/untimed" --save-choices="$tmp/tuned$k" -o "$tmp/k.plan" 2>"$tmp/log"
done
! cmp -s "$tmp/timed" "$tmp/untimed" && cmp "$tmp/untimed" "$tmp/tuned1" && cmp "$tmp/timed" "$tmp/tuned2"
check $? 'a choice without a time is measured by who tunes, and is taken otherwise'
measured=("${steps[@]/b.plan/t.plan}")
run "${measured[@]}"
says 0 'algorithms of the plan'
run GG_FAKE_LT=120900 "${measured[@]}"
says 0 'a library older than the plan' "note: cuBLASLt 12.9.0 is older than the plan's 13.0.0: what that chose and compiled is made again"
run GG_FAKE_LT=130200 "${measured[@]}"
says 0 'a newer one' "note: choices of cuBLASLt 13.0.0, sm_90, fake device, driver for CUDA 13.0 are made again: here is cuBLASLt 13.2.0, sm_90, "
run GG_FAKE_DRIVER=13010 "${measured[@]}"
says 0 'another driver' "note: choices of cuBLASLt 13.0.0, sm_90, fake device, driver for CUDA 13.0 are made again: here is cuBLASLt 13.0.0, sm_90, "

# What the host has to do stops the recording, and the rest is recorded.
cat >"$tmp/host.gg" <<'END'
input %x : f32[8,8]
%a = Exp(%x)
%z = NonZero(%a)
%c = Einsum(%a) {equation="ij->ij"}
%d = Neg(%c)
%n = Shape(%z)
%e = Cast(%n) {to=f32}
output %d
output %e
END
gg-run -q --target=ref --data x="$tmp/x.npy" --steps=4 --outputs "$tmp/host" "$tmp/host.gg"
gg-select -q --target=cuda "$tmp/host.gg" | gg-build -q -o "$tmp/host.plan"
run --steps=4 --expect d="$tmp/host/output_0.npy" --expect e="$tmp/host/output_1.npy" "$tmp/host.plan"
says 0 'what stops the recording' "step 1: note: the step is recorded in 2 pieces, as"
grep -q "'z' (NonZero: " "$tmp/log" && grep -q "'c' (Einsum: no kernel for it)" "$tmp/log"
check $? 'is named, and why'

# Each call in turn fails: it is said, or made good by another way.
one() {
	GG_FAKE_FAIL=$1 GG_FAKE_LEFT=$tmp/left.$1 timeout 20 gg-run -q --data x="$tmp/x.npy" "${@:2}" 2>"$tmp/log.$1" >/dev/null
	local s=$? lines
	lines=$(grep -c '' "$tmp/log.$1")
	[ ! -s "$tmp/left.$1" ] && { [ $s = 5 ] && [ "$lines" = 1 ] || [ $s = 0 ]; } && rm "$tmp/log.$1" && return
	echo "call $1: status $s: $(cat "$tmp/log.$1" "$tmp/left.$1")"
}
export -f one
case $build in *san*) every=5 ;; *) every=1 ;; esac # slow there
seq 1 $every 300 | xargs -P 2 -I{} bash -c "one {} ${steps[*]}" >"$tmp/log"
[ ! -s "$tmp/log" ]
check $? 'each call that fails'
echo "1..$n"
exit $bad
