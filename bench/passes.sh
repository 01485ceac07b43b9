#!/bin/bash
# The time of every pass against the size of the graph. bench/passes.sh [BUILD [N...]]
#
# The graph is blocks of what passes look for, one after another (convolutions with BatchNormalization, products,
# GELU and layer normalisation spelled out, transposes, casts, views, updates by momentum and Adam, equal nodes).
# Printed: milliseconds for N nodes, and the exponent between the two largest that are long enough to tell.
# 1 is linear; above 1.25 the line is marked and the exit status is 1.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../build}
shift || true
[ $# -gt 0 ] || set -- 1000 10000 100000 300000
export PATH=$build/bin:$PATH
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

graph() { # N: about N nodes
	awk -v n="$1" 'BEGIN {
		print "graph \"blocks\"\ninput %x : f32[2,4,6,6]\ninput %q : f32[2,3,8]\ninput %g : f32[4,8]"
		print "const %z : i64[4] = [2, 3, 8, 1]\nconst %a : i64[1] = [-1]\nconst %u : i64[1] = [3]"
		print "const %half : f32[] = 0.5\nconst %one : f32[] = 1\nconst %root : f32[] = 1.4142135\nconst %two : f32[] = 2"
		print "const %eps : f32[] = 1e-05\nconst %lr : f32[] = 0.01\nconst %b1 : f32[] = 0.9\nconst %c1 : f32[] = 0.1"
		print "param %cw : f32[4,4,3,3] = normal(1, 0, 0.1)\nparam %s : f32[4] = ones\nparam %b : f32[4] = zeros"
		print "param %w : f32[8,8] = normal(2, 0, 0.1)\nparam %v : f32[8] = zeros"
		x = "x"; q = "q"
		for (k = 0; n > 0; k++) {
			p = "%k" k "."
			print p "c = Conv(%" x ", %cw) {pads=[1,1,1,1]}\n" p "n = BatchNormalization(" p "c, %s, %b, %b, %s)"
			print p "r = Relu(" p "n)\n" p "s = Add(" p "r, %" x ")\n" p "y = Relu(" p "s)"
			x = "k" k ".y"
			print p "m = MatMul(%" q ", %w)\n" p "h = Add(" p "m, %v)\n" p "d = Div(" p "h, %root)\n" p "e = Erf(" p "d)"
			print p "f = Add(" p "e, %one)\n" p "o = Mul(" p "h, " p "f)\n" p "p = Mul(" p "o, %half)"
			print p "ln1 = ReduceMean(" p "p, %a)\n" p "ln2 = Sub(" p "p, " p "ln1)\n" p "ln3 = Pow(" p "ln2, %two)"
			print p "ln4 = ReduceMean(" p "ln3, %a)\n" p "ln5 = Add(" p "ln4, %eps)\n" p "ln6 = Sqrt(" p "ln5)"
			print p "ln7 = Div(" p "ln2, " p "ln6)\n" p "ln8 = Mul(" p "ln7, %v)\n" p "ln9 = Add(" p "ln8, %v)"
			print p "t1 = Transpose(" p "ln9) {perm=[0,2,1]}\n" p "t2 = Sigmoid(" p "t1)\n" p "t3 = Transpose(" p "t2) {perm=[0,2,1]}"
			print p "i = Identity(" p "t3)\n" p "v1 = Unsqueeze(" p "i, %u)\n" p "v2 = Reshape(" p "v1, %z)\n" p "v3 = Squeeze(" p "v2, %u)"
			print p "e1 = Neg(" p "v3)\n" p "e2 = Neg(" p "v3)\n" p "q = Add(" p "e1, " p "e2)"
			q = "k" k ".q"
			print "param " p "w : f32[4,8] = ones\nparam " p "a : f32[4,8] = zeros\nparam " p "b : f32[4,8] = zeros"
			print p "g0 = Cast(%g) {to=f64}\n" p "g1 = Cast(" p "g0) {to=f32}\n" p "g2 = Mul(" p "g1, %half)"
			print p "w1, " p "a1 = ApplyMomentum(" p "w, " p "a, %lr, " p "g2, %b1)\n" p "use = Cast(" p "w) {to=f16}"
			print "param " p "w2 : f32[4,8] = ones\nparam " p "mo : f32[4,8] = zeros"
			print p "m1 = Mul(" p "mo, %b1)\n" p "m2 = Mul(" p "g1, %c1)\n" p "m3 = Add(" p "m1, " p "m2)"
			print p "s1 = Mul(" p "b, %b1)\n" p "s2 = Mul(" p "g1, " p "g1)\n" p "s3 = Mul(" p "s2, %c1)\n" p "s4 = Add(" p "s1, " p "s3)"
			print p "s5 = Sqrt(" p "s4)\n" p "s6 = Add(" p "s5, %eps)\n" p "s7 = Div(" p "m3, " p "s6)\n" p "s8 = Mul(" p "s7, %lr)"
			print p "w3 = Sub(" p "w2, " p "s8)"
			end = end "output " p "use\nstate " p "w <- " p "w1\nstate " p "a <- " p "a1\nstate " p "mo <- " p "m3\nstate " p "b <- " p "s4\nstate " p "w2 <- " p "w3\n"
			n -= 52
			if (k % 200 == 199) { ends[++parts] = end; end = "" }
		}
		print "output %" x "\noutput %" q
		for (k = 1; k <= parts; k++) printf "%s", ends[k]
		printf "%s", end }'
}

passes=$(gg-opt --list | awk '{ print $1 }' |
	grep -vxE 'adagrad|adam|adamw|autocast|grad|lamb|loss|momentum|recompute|rmsprop|sgd|to_inference')
for n in "$@"; do
	graph "$n" | gg-parse -q --format=text -o "$tmp/$n" -
	gg-select -q --target=cpu --layout=auto -o "$tmp/$n.selected" "$tmp/$n"
done

times() { # FILE: each pass on the graph as it is: NAME MS, and all of them in a row
	for p in $passes; do gg-opt -q --time --pass="$p" -o /dev/null "$1" 2>&1; done
	gg-opt -q --time -o /dev/null "$1" 2>&1 | awk '{ t += $2 } END { print "default", t }'
	gg-opt -q --time --pipeline=common,inference,optimize,hardware,final,graph_kernel -o /dev/null "$1" 2>&1 |
		awk '{ t += $2 } END { print "everything", t }'
}

for n in "$@"; do
	times "$tmp/$n" | awk -v n="$n" '{ print $1, n, $2 }'
	times "$tmp/$n.selected" | awk -v n="$n" '{ print "selected:" $1, n, $2 }'
done >"$tmp/times"
awk '!($1 in seen) { name[++count] = $1; seen[$1] }
	!($2 in size) { sizes[++nsize] = $2; size[$2] }
	{ ms[$1, $2] = $3 }
	END {
		printf "%-32s", "ms at"
		for (k = 1; k <= nsize; k++) printf "%12d", sizes[k]
		print "   exponent"
		for (i = 1; i <= count; i++) {
			printf "%-32s", name[i]
			for (k = 1; k <= nsize; k++) printf "%12.2f", ms[name[i], sizes[k]]
			a = ms[name[i], sizes[nsize - 1]]; b = ms[name[i], sizes[nsize]]
			if (nsize > 1 && b > 20 && a > 0) {
				e = log(b / a) / log(sizes[nsize] / sizes[nsize - 1])
				printf "%11.2f%s", e, (e > 1.25 ? "  more than linear" : "")
				bad += (e > 1.25)
			}
			print ""
		}
		exit bad > 0 }' "$tmp/times"
