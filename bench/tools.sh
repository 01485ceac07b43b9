#!/bin/bash
# The tools themselves: how fast they start, and how they take large graphs. bench/tools.sh [BUILD]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../build}
export PATH=$build/bin:$PATH
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

best() { # COMMAND...: least wall time of five runs, in milliseconds, and largest resident set in MB
	for _ in 1 2 3 4 5; do
		/usr/bin/time -f '%e %M' -o "$tmp/t" "$@" >/dev/null
		cat "$tmp/t"
	done | sort -n | awk 'NR == 1 { t = $1 } $2 > m { m = $2 } END { printf "%8.0f ms %8.1f MB\n", t * 1000, m / 1024 }'
}

start() { # TOOL: mean of 100 runs of --version
	local from=$(date +%s%N)
	for _ in {1..100}; do "$1" --version >/dev/null; done
	awk -v n=$(($(date +%s%N) - from)) 'BEGIN { printf "%8.2f ms (goal 10)\n", n / 1e8 }'
}

stages() { # FILE GOAL: the four tools, one after the other, each reading the one before it
	gg-parse -q "$1" -o "$tmp/1"
	gg-opt -q "$tmp/1" -o "$tmp/2"
	gg-select -q --target=cpu "$tmp/2" -o "$tmp/3"
	printf '  %-10s' gg-parse && best gg-parse -q "$1"
	printf '  %-10s' gg-opt && best gg-opt -q "$tmp/1"
	printf '  %-10s' gg-select && best gg-select -q --target=cpu "$tmp/2"
	printf '  %-10s' gg-build && best gg-build -q "$tmp/3"
	local least=999999999
	for _ in 1 2 3 4 5; do
		local from=$(date +%s%N)
		gg-parse -q "$1" | gg-opt -q | gg-select -q --target=cpu | gg-build -q >/dev/null
		local took=$((($(date +%s%N) - from) / 1000000))
		[ $took -ge $least ] || least=$took
	done
	printf '  %-10s%8d ms (goal %s)\n' 'all, piped' $least "$2"
}

chain() { # N: about N nodes in a chain with side branches that join it again
	awk -v n="$1" 'BEGIN {
		print "graph \"chain\"\ninput %x : f32[N,64]"; prev = "x"
		for (k = 0; k < n; k++) {
			printf "%%a%d = Relu(%%%s)\n", k, prev
			if (k % 4 != 3) { prev = "a" k; continue }
			printf "%%b%d = Sigmoid(%%%s)\n%%c%d = Add(%%a%d, %%b%d)\n", k, prev, k, k, k
			prev = "c" k; n -= 2
		}
		print "output %" prev }'
}

echo 'start: --version'
for t in gg-parse gg-opt gg-select gg-build gg-run gg-dump; do
	printf '  %-10s' $t && start $t
done

echo 'ResNet-50, 100 MB of weights in an ONNX file (goal: 50 MB resident each)'
gg-parse -q "$here/../examples/resnet50.gg" | gg-dump --format=onnx -o "$tmp/resnet50.onnx"
stages "$tmp/resnet50.onnx" '200 ms'

for n in 100000 1000000; do
	echo "chain and branches, $n nodes"
	chain $n >"$tmp/chain.gg"
	gg-parse -q "$tmp/chain.gg" | gg-dump --format=onnx -o "$tmp/chain.onnx"
	stages "$tmp/chain.onnx" "$([ $n = 100000 ] && echo '1000 ms' || echo '12000 ms')"
done
