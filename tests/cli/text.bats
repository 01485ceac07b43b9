#!/usr/bin/env bats
# The text form as the tools read it: what comes back, what is refused, and how it is said.

setup() {
	cd "$BATS_TEST_TMPDIR"
	cat >m.gg <<-'END'
		graph "m"
		stage "parse"
		input %x : f32[N,2]
		param %w : f32[2,3] = normal(1, 0, 0.5)
		const %b : f32[3] = [0.1, -2, 1e-30]
		%h = MatMul(%x, %w) : f32[N,3]
		%y = Add(%h, %b) : f32[N,3]  #@ "m.onnx" "sum"
		output %y
	END
}

# refused STATUS MESSAGE: what stands in bad.gg.
refused() {
	run gg-dump bad.gg
	[ "$status" -eq "$1" ]
	[ "$output" = "gg-dump: bad.gg: $2" ]
}

@test "what gg-dump prints, it reads and prints again" {
	gg-dump m.gg >a.gg
	diff m.gg a.gg
	gg-dump <a.gg | diff a.gg -
}

@test "two texts are two graphs" {
	cat m.gg m.gg >two.gg
	gg-dump two.gg | diff two.gg -
}

@test "types may be left out" {
	sed 's/ = \(.*\)) : f32.*/ = \1)/' m.gg >short.gg
	grep -q 'MatMul(%x, %w)$' short.gg
	gg-dump short.gg | sed 's/  #@.*//' >a
	sed 's/  #@.*//' m.gg | diff - a
}

@test "symbols are bound in the text too" {
	gg-dump --bind N=4 m.gg | grep -q '^%y = Add(%h, %b) : f32\[4,3\]'
}

@test "arrays and raw files stand beside the text" {
	mkdir sub
	/usr/bin/python3 -c 'import numpy; numpy.save("sub/w.npy", numpy.array([[1, 2.5]], dtype="<f4"))'
	printf '\001\002\003\004\005' >sub/raw.bin
	cat >sub/t.gg <<-'END'
		const %w = npy("w.npy")
		const %typed : f32[1,2] = npy("w.npy")
		const %r : u8[2] = file("raw.bin", 3)
		output %w
		output %r
	END
	gg-dump sub/t.gg >a.gg
	grep -qx 'const %w : f32\[1,2\] = \[1, 2.5\]' a.gg
	grep -q 'const %r : u8\[2\] = file("raw.bin", 3, 2, 5, [0-9]*)$' a.gg
	gg-dump a.gg | diff a.gg -
}

@test "a wrong type of an array is said" {
	/usr/bin/python3 -c 'import numpy; numpy.save("w.npy", numpy.zeros((1, 2), dtype="<f4"))'
	echo 'const %w : f32[2] = npy("w.npy")' >bad.gg
	refused 3 "line 1, column 24: 'w.npy' holds f32[1,2]"
}

@test "a file that is missing, short or elsewhere is refused" {
	printf '\001\002' >raw.bin
	echo 'const %r : u8[2] = file("none.bin")' >bad.gg
	refused 3 "tensor 'r': cannot read its file 'none.bin': No such file or directory"
	echo 'const %r : u8[2] = file("raw.bin", 1)' >bad.gg
	refused 3 "tensor 'r': its file 'raw.bin' has 2 bytes, 2 at 1 wanted"
	echo 'const %r : u8[2] = file("../raw.bin")' >bad.gg
	refused 3 "tensor 'r': its file '../raw.bin' lies outside the model's folder (--allow-outside reads it)"
	echo 'const %r = npy("/etc/passwd")' >bad.gg
	refused 3 "tensor 'r': its file '/etc/passwd' lies outside the model's folder (--allow-outside reads it)"
}

@test "an unknown op is not supported, and names its neighbour" {
	sed 's/MatMul/MatMull/' m.gg >bad.gg
	refused 4 "line 6, column 6: op 'MatMull' is not known; the nearest is 'MatMul'"
}

@test "a slip of the pen is malformed, with its place" {
	sed 's/%y = Add(%h, %b)/%y = Add(%h %b)/' m.gg >bad.gg
	refused 3 "line 7, column 13: expected ')', found '%b'"
	sed 's/output %y/output %z/' m.gg >bad.gg
	refused 3 "line 8, column 8: value 'z' is not defined before this line"
}

@test "shapes that do not go together are found when types are left out" {
	sed -e 's/f32\[3\] = .*/f32[4] = zeros/' -e 's/) : .*/)/' m.gg >bad.gg
	run gg-dump bad.gg
	[ "$status" -eq 3 ]
	[[ "$output" == "gg-dump: bad.gg: node 'y' (Add): "* ]]
}

@test "constants left out cannot be read back" {
	gg-dump --elide=2 m.gg >bad.gg
	grep -q 'const %b : f32\[3\] = elided(3, ' bad.gg
	refused 3 "line 5, column 21: 'b' was left out when this text was written; it cannot be read back"
}

@test "garbage is refused at once" {
	for bytes in 'graph "' 'input %%x : f32[' '%%%%' '<<<<' '}' 'graph graph graph' '%%x = ' 'x\000y' '"\377'; do
		printf "$bytes" >bad.gg
		run gg-dump bad.gg
		[ "$status" -eq 3 ] || [ "$status" -eq 4 ]
		[ "${#lines[@]}" -eq 1 ]
		[[ "$output" == "gg-dump: bad.gg: "* ]]
	done
	head -c 2000000 /dev/zero | tr '\0' '(' >bad.gg
	run timeout 5 gg-dump bad.gg
	[ "$status" -eq 3 ]
	{ printf 'input %%x : f32['; head -c 2000000 /dev/zero | tr '\0' '('; } >bad.gg
	run timeout 5 gg-dump bad.gg
	[ "$status" -eq 3 ]
	{ printf 'meta "k" '; head -c 2000000 /dev/zero | tr '\0' '['; } >bad.gg
	run timeout 5 gg-dump bad.gg
	[ "$status" -eq 3 ]
}

@test "time grows with the length alone" {
	awk 'BEGIN { print "input %v0 : f32[N]"
		for (i = 1; i < 50000; i++) printf "%%v%d = Add(%%v%d, %%v%d) : f32[N]\n", i, i - 1, int(i / 2)
		print "output %v49999" }' >big.gg
	timeout 5 gg-dump big.gg | cmp - <(printf 'graph\nstage "parse"\n'; cat big.gg)
}

@test "nothing is written when the text is bad" {
	sed 's/MatMul/MatMull/' m.gg >bad.gg
	run gg-dump -o out.gg bad.gg
	[ "$status" -eq 4 ]
	[ ! -e out.gg ]
}

@test "the example in docs/graph.md is a graph" {
	sed -n '/^    graph "mlp"/,/^$/s/^    //p' "$BATS_TEST_DIRNAME/../../docs/graph.md" >mlp.gg
	gg-dump mlp.gg | grep -qx '%y = Relu(%s) : f32\[N,8\]'
}

@test "the examples are what their script prints, and come back" {
	cd "$BATS_TEST_DIRNAME/../../examples"
	for name in resnet50 bert_base; do
		/usr/bin/python3 networks.py $name | cmp - $name.gg
		gg-dump -o "$BATS_TEST_TMPDIR/a" $name.gg
		gg-dump "$BATS_TEST_TMPDIR/a" | cmp - "$BATS_TEST_TMPDIR/a"
	done
	[ "$(gg-dump resnet50.gg | grep -c ' = Conv(')" -eq 53 ]
	gg-dump resnet50.gg | grep -q '^%output = .* : f32\[N,1000\]'
	gg-dump bert_base.gg | grep -q '^%last_hidden_state = .* : f32\[N,128,768\]'
}

@test "--bind: a symbol that is no plain word, as the text writes it or bare" {
	printf "input %%x : f32['batch size',3]\n%%y = Relu(%%x)\noutput %%y\n" >sym.gg
	gg-dump --bind "'batch size'=4" sym.gg | grep -q '^input %x : f32\[4,3\]'
	gg-dump --bind 'batch size=4' sym.gg | grep -q '^input %x : f32\[4,3\]'
	run gg-dump --bind a=1 --bind a=2 sym.gg
	[ "$status" -eq 2 ]
}

@test "a folder is no graph: exit 3, as for a file that is not there" {
	mkdir d
	for f in d none.gg; do
		run gg-dump $f
		[ "$status" -eq 3 ]
		[[ "$output" == "gg-dump: cannot read '$f': "* ]]
	done
}
