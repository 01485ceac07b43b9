#!/bin/sh
# A convolutional network learns handwritten digits, is tested on those it has not seen, and reads one:
# what `make demo` shows. The arguments are options of gg-run.
set -eu
here=$(dirname "$0")
export PATH="${BIN:-$here/../build/bin}:$PATH"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
data="--data x=$here/digits/x.npy --data y=$here/digits/y.npy"

# The loss, its gradients and the optimiser are passes; so are the fusions after them.
echo '$ gg-opt --pass=loss:kind=softmax_cross_entropy:target=y,grad,momentum:lr=0.1:weight_decay=1e-3:schedule=cosine:over=660 digits.gg | gg-opt --pipeline=common,optimize'
gg-opt --pass=loss:kind=softmax_cross_entropy:target=y,grad,momentum:lr=0.1:weight_decay=1e-3:schedule=cosine:over=660 "$here/digits.gg" |
	gg-opt --pipeline=common,optimize >"$tmp/train.gg"
gg-dump --stats "$tmp/train.gg" | head -6

# What looks at the held-out fifth: the network, and how often it is right.
{
	cat "$here/digits.gg"
	cat <<-'END'
		input %y : i64[N]
		%class = ArgMax(%logits) {axis=1, keepdims=0}
		%right = Equal(%class, %y)
		%ones = Cast(%right) {to=f32}
		%accuracy = ReduceMean(%ones) {keepdims=0}
		output %accuracy
	END
} >"$tmp/eval.gg"

echo
echo '$ gg-run --data x=x.npy --data y=y.npy --batch=32 --shuffle=1 --epochs=15 --hold-out=5 --print loss ...'
# shellcheck disable=SC2086
gg-run -q $data --batch=32 --shuffle=1 --epochs=15 --hold-out=5 --print loss --eval="$tmp/eval.gg" \
	--eval-every=132 --save="$tmp/trained.gg" "$@" "$tmp/train.gg" >"$tmp/log"
awk -F '\t' '$2 == "eval" { print "after " $1 " steps: " $3 " on the held-out fifth" }
	$2 != "eval" && $1 % 44 == 0 { printf "step %3d  loss %.4f  ", $1, $2
		for (i = 0; i < $2 * 20; i++) printf "#"; print "" }' "$tmp/log"

# The trained parameters go into a network for inference, which becomes a plan of one file.
gg-opt --pass=to_inference "$tmp/trained.gg" | gg-dump >"$tmp/net.gg"
printf '%%class = ArgMax(%%logits) {axis=1, keepdims=0}\noutput %%class\n' >>"$tmp/net.gg"
gg-opt "$tmp/net.gg" | gg-select --target=cpu --layout=auto | gg-build -o "$tmp/digits.plan"
echo
echo "One of the held-out digits, through the plan ($(wc -c <"$tmp/digits.plan") bytes):"
# shellcheck disable=SC2086
gg-run -q --data x="$here/digits/x.npy" --batch=1 --steps=5 --print x --print class \
	"$tmp/digits.plan" | tail -1 | awk -F '\t' '{
		for (r = 0; r < 8; r++) { printf "    "
			for (c = 0; c < 8; c++) { s = substr(" .:-=+*#%@@", int($(2 + 8 * r + c) * 10 / 16) + 1, 1); printf "%s%s", s, s }
			print "" }
		print "  the network says: " $66 }'
accuracy=$(sed -n 's/.*\taccuracy=//p' "$tmp/log" | tail -1)
echo
echo "accuracy on the 359 held-out digits: $accuracy"
awk -v a="$accuracy" 'BEGIN { exit !(a > 0.97) }'
