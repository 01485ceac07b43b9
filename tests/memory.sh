#!/bin/bash
# The memory plan of every model with known shapes takes at most 1.05 times the least that any plan
# could, and running with poisoned buffers gives the same results.
set -u
cd "$(dirname "$0")" || exit 1
n=0 failed=0
ok() { # STATUS NAME
	n=$((n + 1))
	if [ "$1" = 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; failed=1; fi
}

plan() { # NAME < stream: arena and bound of the main graph
	gg-build -q --no-kernels | gg-dump --memory | awk -v name="$1" '
		$1 == "arena" && !arena { arena = $2 }
		$1 == "bound" && !bound { bound = $2 }
		END { printf "%s: %d bytes, bound %d\n", name, arena, bound; exit !(bound > 0 && arena <= 1.05 * bound) }'
}

for m in data/models/*/model.onnx ../examples/*.gg; do
	symbols=$(gg-parse -q "$m" | gg-dump | sed -n 's/^input.*\[\(.*\)\].*/\1/p' | tr ',' '\n' | grep '^[A-Za-z]' | sort -u)
	bind=$(printf -- '--bind=%s=2 ' $symbols)
	[ -n "$symbols" ] || bind=
	for layout in keep auto; do
		said=$(gg-parse -q $bind "$m" | gg-opt -q | gg-select -q --target=cpu --layout=$layout | plan "$m, $layout")
		ok $? "$said"
	done
	said=$(gg-parse -q $bind "$m" | gg-opt -q | gg-select -q --target=cuda --layout=auto | plan "$m, streams of cuda")
	ok $? "$said"
done
for d in data/models/*/output_0.npy; do
	d=$(dirname "$d")
	for target in ref cpu; do
		gg-parse -q "$d/model.onnx" | gg-run -q --target=$target --poison --test "$d" >/dev/null
		ok $? "$d on $target with poisoned buffers"
	done
done
echo "1..$n"
[ $n -gt 10 ] && [ $failed = 0 ]
