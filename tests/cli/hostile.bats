#!/usr/bin/env bats
# Files, processes and surroundings that are not as a tool would like them.

setup() {
	data=$BATS_TEST_DIRNAME/../data
	cd "$BATS_TEST_TMPDIR"
	printf '%s\n' 'graph "g"' 'input %x : f32[2]' '%y = Relu(%x)' 'output %y' >g.gg
}

@test "with stdin, stdout and stderr closed no message gets into a file" {
	run bash -c 'gg-run --output y=y.npy g.gg <&- >&- 2>&-'
	[ "$status" = 0 ]
	[ "$(wc -c <y.npy)" = 136 ]
	run bash -c 'gg-opt -v --stats --print-changed -o o.gg g.gg <&- >&- 2>&-'
	[ "$status" = 0 ]
	gg-dump o.gg | grep -q '%y = Relu'
	run bash -c 'gg-dump <&-'
	[ "$status" = 5 ]
	[[ "$output" == *"cannot read '<stdin>': Bad file descriptor"* ]]
	run bash -c 'gg-dump g.gg >&-'
	[ "$status" = 5 ]
	[[ "$output" == *"cannot write '<stdout>': Bad file descriptor"* ]]
}

@test "what is written goes where a link leads, keeps the file's mode, and may have the longest name" {
	mkdir far
	ln -s far/new.gg one.gg
	ln -s one.gg two.gg
	gg-parse -o two.gg g.gg
	[ -L two.gg ] && [ -L one.gg ] && [ -f far/new.gg ]
	chmod 600 far/new.gg
	gg-parse -o one.gg g.gg
	[ "$(stat -c %a far/new.gg)" = 600 ]
	(umask 077 && gg-parse -o mine.gg g.gg)
	[ "$(stat -c %a mine.gg)" = 600 ]
	long=$(printf '%0255d' 0)
	gg-parse -o "$long" g.gg
	gg-dump "$long" | grep -q '%y = Relu'
	[ -z "$(find . -name '*.??????' -newer g.gg)" ]
}

@test "weights that become shorter while a run reads them are named as that" {
	head -c 4000000 /dev/zero >w.bin
	printf '%s\n' 'input %x : f32[1,1000]' 'param %w : f32[1000,1000] = file("w.bin", 0, 4000000)' \
		'%y = MatMul(%x, %w)' '%s = ReduceSum(%y) {keepdims=0}' 'output %s' >w.gg
	gg-run -q --target=ref --steps=1000000 --print s w.gg 2>err | {
		read -r line
		truncate -s 100 w.bin
		cat >/dev/null
		echo "$line"
	} >first
	[ -s first ]
	grep -q '^gg-run: a file became shorter, or its disk failed, while it was read$' err
}

@test "a parent that does not wait for its children changes nothing" {
	python3 -c 'import signal, subprocess, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
p = subprocess.Popen(sys.argv[1:], restore_signals=False, stdout=subprocess.PIPE)
print(p.stdout.read().decode())' gg-opt --reduce='gg-dump | grep -q Relu && exit 7; exit 0' g.gg >out
	grep -q '%y = Relu' out
}

@test "functions that make too many nodes, and names that are too long" {
	run timeout 60 gg-parse "$data/broken/functions.onnx"
	[ "$status" = 4 ]
	[[ "$output" == *"(F"*"): functions make more than a million nodes" ]]
	# ir_version 8, graph { node { input: "xxx..." } }
	python3 -c 'import sys
def field(k, b):
    n, s = len(b), bytes([k << 3 | 2])
    while n > 127:
        s, n = s + bytes([n & 127 | 128]), n >> 7
    return s + bytes([n]) + b
sys.stdout.buffer.write(b"\x08\x08" + field(7, field(1, field(1, b"x" * 70000))))' >name.onnx
	run gg-parse name.onnx
	[ "$status" = 4 ]
	[[ "$output" == "gg-parse: name.onnx: a name of more than 65535 bytes near byte "* ]]
}

@test "a fault in a long line of rules is shown with what is around it" {
	python3 -c 'print("Neg(x) => x where " + "rank(x) == 1 and " * 50 + "ä ö" + " or rank(x) == 2" * 50)' >r.txt
	run gg-opt --rules=r.txt g.gg
	[ "$status" = 2 ]
	[ "${#lines[1]}" -le 102 ]
	at=${lines[2]%^}
	[ "${lines[1]:${#at}:1}" = ä ]
	run gg-run --duration=inf g.gg
	[ "$status" = 2 ]
}
