#!/usr/bin/env bats
# Collectives, and several ranks in one process.

setup() { cd "$BATS_TEST_TMPDIR"; }
running_sum() { # NAME: g.gg adds up the inputs of all ranks and steps; its output is a rank's own sum
	cat >g.gg <<-EOF
	input %x : f32[2]
	param %w : f32[1] = zeros
	%$1 = ReduceSum(%x) {keepdims=0}
	%r = AllReduce(%$1)
	%n = Add(%w, %r)
	%m = Assign(%w, %n)
	output %$1
	state %w <- %m
	EOF
}
ranks() { gg-run -q --target=ref --world=3 --fill=range "$@"; }

@test "each collective gives what it says, at a world of 3" {
	cat >g.gg <<-'EOF'
	input %x : f32[2,3]
	input %k : i32[3]
	%r = AllReduce(%x)
	%m = AllReduce(%x) {reduction="mean"}
	%i = AllReduce(%k) {reduction="max"}
	%g = AllGather(%x)
	%s = ReduceScatter(%g)
	%b = Broadcast(%x) {root=1}
	%t = AllToAll(%g) {split_count=3, split_dim=0, concat_dim=-1}
	output %r
	output %m
	output %i
	output %g
	output %s
	output %b
	output %t
	EOF
	ranks --outputs out g.gg
	/usr/bin/python3 - <<-'EOF'
	import numpy as np
	x = [np.arange(6, dtype='f4').reshape(2, 3) + 6 * r for r in range(3)]
	g = np.concatenate(x)
	for r in range(3):
	    o = [np.load(f'out/output_{k}.r{r}.npy') for k in range(7)]
	    want = [sum(x), sum(x) / 3, None, g, 3 * g[2 * r:2 * r + 2], x[1], np.concatenate([x[r]] * 3, axis=1)]
	    for a, b in zip(o, want):
	        assert b is None or np.array_equal(a, b), (r, a, b)
	EOF
}

@test "a group is a partition of the ranks" {
	cat >g.gg <<-'EOF'
	input %x : f32[1]
	%r = AllReduce(%x) {group="0,2;1"}
	output %r
	EOF
	run ranks g.gg
	[ "$status" = 0 ]
	[[ $output == *"r.r0 f32[1] min 2 "*"r.r1 f32[1] min 1 "*"r.r2 f32[1] min 2 "* ]]
	sed 's/0,2;1/0,1/' g.gg >h.gg
	run ranks h.gg
	[ "$status" = 3 ]
	[[ $output == *"rank 2 is not in group '0,1'"* ]]
	sed 's/0,2;1/red/' g.gg >h.gg
	run ranks h.gg
	[ "$status" = 4 ]
}

@test "rank and world are symbols, and shapes may follow them" {
	cat >g.gg <<-'EOF'
	input %x : f32[2]
	%g = AllGather(%x) : f32[2*world]
	output %g
	EOF
	run ranks g.gg
	[[ $output == *"g.r2 f32[6] min 0 max 5"* ]]
	cat >s.gg <<-'EOF'
	input %x : f32[rank+1]
	%r = AllReduce(%x)
	output %r
	EOF
	run ranks s.gg
	[ "$status" = 3 ]
	[[ $output == *"node 'r' (AllReduce): input 0 is f32[2] on rank 1, f32[1] on rank 0"* ]]
}

@test "ranks that meet at different nodes are named, both of them" {
	cat >g.gg <<-'EOF'
	input %x : f32[1]
	const %half : f32[] = 0.5
	%s = ReduceSum(%x) {keepdims=0}
	%c = Greater(%s, %half)
	%y = If(%c; %x) {then_branch=graph(%a : f32[1]) {
	  %p = AllReduce(%a)
	  output %p
	}, else_branch=graph(%b : f32[1]) {
	  %q = AllReduce(%b)
	  output %q
	}}
	output %y
	EOF
	run timeout 20 bash -c 'gg-run -q --target=ref --world=3 --fill=range g.gg'
	[ "$status" = 3 ]
	[[ $output == *"node 'p' (AllReduce): rank "*" is here, rank 0 at 'q' (AllReduce)"* ]]
}

@test "a rank that ends, or fails, ends all" {
	cat >g.gg <<-'EOF'
	input %x : f32[1]
	const %half : f32[] = 0.5
	%s = ReduceSum(%x) {keepdims=0}
	%c = Greater(%s, %half)
	%y = If(%c; %x) {then_branch=graph(%a : f32[1]) {
	  %p = AllReduce(%a)
	  output %p
	}, else_branch=graph(%b : f32[1]) {
	  %q = Neg(%b)
	  output %q
	}}
	output %y
	EOF
	run timeout 20 bash -c 'gg-run -q --target=ref --world=3 --fill=range g.gg'
	[ "$status" = 3 ]
	[[ $output == *"rank 1 waits for rank 0, which has ended"* ]]
	cat >f.gg <<-'EOF'
	input %x : f32[2]
	const %w : f32[3] = [1, 2, 3]
	%i = Cast(%x) {to=i64}
	%v = Gather(%w, %i)
	%p = AllReduce(%v)
	output %p
	EOF
	run timeout 20 bash -c 'gg-run -q --target=ref --world=3 --fill=range f.gg'
	[ "$status" = 3 ]
	[[ $output == *"rank 1: node 'v' (Gather)"* ]]
	[ "$(wc -l <<<"$output")" -le 2 ]
}

@test "each rank has its slice of the data, its own state, and the same gradients" {
	running_sum s
	/usr/bin/python3 -c "import numpy as np; np.save('x.npy', np.arange(12, dtype='f4'))"
	run gg-run -q --target=ref --world=3 --data x=x.npy --steps=2 --print=s --save w.gg g.gg
	[ "$status" = 0 ]
	[[ $output == *$'0\tr0\t1\n1\tr0\t13\n0\tr1\t5\n1\tr1\t17\n0\tr2\t9\n1\tr2\t21'* ]]
	gg-dump w.r2.gg | grep -q 'param %w : f32\[1\] = \[66\]'
	/usr/bin/python3 -c "import numpy as np; np.save('y.npy', np.arange(6, dtype='f4'))"
	run gg-run -q --target=ref --world=3 --input x=y.npy g.gg
	[[ $output == *"s.r0 f32[] min 1 "*"s.r2 f32[] min 9 "* ]]
}

@test "a step that fails on one rank: all keep the state of the step before" {
	running_sum loss
	# in step 2, on each of three ranks: those after the first one to fail may have got further
	for bad in 12 14 16; do
		/usr/bin/python3 -c "import numpy as np; x = np.arange(24, dtype='f4'); x[$bad] = np.nan; np.save('x.npy', x)"
		rm -f w.*
		run timeout 20 gg-run --target=ref --world=3 --data x=x.npy --steps=4 --save w.gg g.gg
		[ "$status" = 1 ]
		[[ $output == *": step 2: "*" is nan"* ]]
		for r in 0 1 2; do
			[[ $output == *"'w.r$r.gg' holds the state after 2 steps"* ]]
			gg-dump w.r$r.gg | grep -q '^meta "run" {"step":2}'
			gg-dump w.r$r.gg | grep -q 'param %w : f32\[1\] = \[66\]'
		done
	done
}

@test "gradients through collectives are those of the sum of all ranks' losses" {
	cat >check.py <<-'END'
		import numpy as np, subprocess
		def parts(v): return np.split(v.sum(0), 3)
		# op, shape of x on a rank, what the ranks get from all x
		cases = [("AllReduce(%x)", (2,), lambda x: [x.sum(0)] * 3),
		         ('AllReduce(%x) {reduction="mean"}', (2, 2), lambda x: [x.mean(0)] * 3),
		         ("AllGather(%x)", (2,), lambda x: [np.concatenate(x)] * 3),
		         ("ReduceScatter(%x)", (6,), parts),
		         ('ReduceScatter(%x) {reduction="mean", rank_size=3}', (3, 2), lambda x: [p / 3 for p in parts(x)]),
		         ("AllToAll(%x) {split_count=3, split_dim=0, concat_dim=1}", (3, 2),
		          lambda x: [np.concatenate([x[r][s:s + 1] for r in range(3)], 1) for s in range(3)]),
		         ("Broadcast(%x) {root=1, rank_size=3}", (2, 2), lambda x: [x[1]] * 3),
		         # rows 0, 1 and the rest go to ranks 2, 0 and 1; what comes is not read all
		         ("const %n : i64[3] = [1, 1, 1]\n%p, %q, %r = Split(%x, %n)\n"
		          "%a, %b, %d = AllToAllv(%p, %q, %r) {send_rank_ids=[2,0,1], recv_rank_ids=[1,2,0]}\n"
		          "%y = Concat(%a, %d) {axis=0}", (3, 2),
		          lambda x: [np.stack([x[k][[1, 2, 0][s]] for k in (1, 0)]) for s in range(3)])]
		rng = np.random.default_rng(1)
		for op, shape, ranks in cases:
		    x = rng.normal(size=(3, *shape))
		    c = rng.normal(size=(3, *ranks(x)[0].shape))
		    dims = lambda s: ",".join(map(str, s))
		    open("g.gg", "w").write(f"input %x : f64[{dims(shape)}]\ninput %c : f64[{dims(c.shape[1:])}]\n"
		        f"{op if '%y' in op else '%y = ' + op}\n%z = Mul(%y, %y)\n%l = Mul(%z, %c)\n%loss = ReduceSum(%l) {{keepdims=0}}\noutput %loss\n")
		    np.save("x.npy", x.reshape(-1, *shape[1:])); np.save("c.npy", c.reshape(-1, *c.shape[2:]))
		    subprocess.run("gg-opt --bind world=3 --pass=grad:wrt=x:outputs=1 g.gg | gg-run -q --target=ref --world=3 "
		        "--input x=x.npy --input c=c.npy --output grad.x=d.npy", shell=True, check=True)
		    total = lambda v: sum((y * y * k).sum() for y, k in zip(ranks(v), c))
		    want, h = np.zeros_like(x), 1e-5
		    for i in np.ndindex(x.shape):
		        for s in 1, -1:
		            v = x.copy(); v[i] += s * h; want[i] += s * total(v) / (2 * h)
		    got = np.stack([np.load(f"d.r{r}.npy") for r in range(3)])
		    assert got.shape == want.shape and abs(got - want).max() < 1e-6, (op, got, want)
	END
	/usr/bin/python3 check.py
	printf '%s\n' 'input %x : f32[2]' '%y = AllReduce(%x) {reduction="max"}' '%loss = ReduceSum(%y) {keepdims=0}' 'output %loss' >g.gg
	run gg-opt --pass=grad:wrt=x g.gg
	[ "$status" = 4 ]
	[[ $output == *"node 'y' (AllReduce): no gradient: its reduction is neither sum nor mean"* ]]
}

@test "a world of one needs no option; more than one need ref" {
	cat >g.gg <<-'EOF'
	input %x : f32[2]
	%r = AllReduce(%x)
	%g = AllGather(%r)
	output %g
	EOF
	for target in ref cpu; do
		run gg-run -q --target=$target --fill=range g.gg
		[[ $output == "g f32[2] min 0 max 1 mean 0.5 [0 1]" ]]
	done
	run gg-run --world=2 g.gg
	[ "$status" = 2 ]
	run bash -c 'gg-select --target=cpu g.gg | gg-run --target=ref --world=2'
	[ "$status" = 2 ]
	run bash -c 'gg-select --target=ref g.gg | gg-build | gg-run -q --target=ref --world=2 --fill=range'
	[[ $output == *"g.r1 f32[4] min 2 max 4 "* ]]
	run gg-run --world=65 --target=ref g.gg
	[ "$status" = 2 ]
}

# A graph with every case of the passes on collectives: members out of order, a chain, readers between.
@test "the passes on collectives change nothing at a world of 3" {
	cat >g.gg <<-'EOF'
	input %a : f32[2]
	input %b : f32[3]
	input %c : f32[6]
	param %w : f32[2] = ones
	%ra = AllReduce(%a) {rank_size=3, fusion=1, index=4}
	%n = Neg(%ra)
	%s = Sigmoid(%n)
	%rb = AllReduce(%b) {rank_size=3, fusion=1, index=3}
	%ga = AllGather(%n) {rank_size=3, fusion=2}
	%gn = Tanh(%ga)
	%gb = AllGather(%b) {rank_size=3, fusion=2}
	%rc = AllReduce(%c) {rank_size=3, fusion=1, index=1}
	%ss = Add(%s, %w)
	%new = Assign(%w, %ss)
	%u = UpdateState(_, %new)
	%l = Load(%new, %u)
	%rd = AllReduce(%l) {rank_size=3, fusion=1, index=2}
	%t = AllToAll(%rc) {rank_size=3, split_count=3, split_dim=0, concat_dim=0}
	output %rb
	output %rc
	output %rd
	output %gn
	output %gb
	output %t
	output %s
	state %w <- %new
	EOF
	gg-run -q --target=ref --world=3 --steps=2 --save s.gg g.gg >want
	gg-dump s.r1.gg | grep param >state
	for p in --pass=allreduce_fusion "--pass=allreduce_fusion:split='0,2'" --pass=allgather_fusion \
		--pass=allgather_fusion,concat_allgather --pass=alltoall --pipeline=common,optimize,hardware,final; do
		gg-opt "$p" --check=all g.gg >h.gg
		gg-run -q --target=ref --world=3 --steps=2 --save s.gg h.gg >got
		cmp want got
		gg-dump s.r1.gg | grep param | sed 's/<id=[0-9]*>//' | cmp - <(sed 's/<id=[0-9]*>//' state)
	done
	[ "$(gg-dump h.gg | grep -c 'AllReduce')" = 2 ]
	[ "$(gg-dump h.gg | grep -c 'AllGather')" = 1 ]
}

@test "hazard 14: fused AllReduce reads the version of a parameter that each read" {
	cat >g.gg <<-'EOF'
	input %a : f32[2]
	param %w : f32[2] = ones
	const %two : f32[2] = [2, 2]
	%old = Load(%w)
	%ra = AllReduce(%old) {rank_size=3, fusion=1}
	%new = Assign(%w, %two)
	%u = UpdateState(_, %new)
	%l = Load(%new, %u)
	%rb = AllReduce(%l) {rank_size=3, fusion=1}
	output %ra
	output %rb
	state %w <- %new
	EOF
	for p in -O0 --pass=allreduce_fusion --pipeline=common,optimize,hardware,final; do
		run bash -c "gg-opt $p g.gg | gg-run -q --target=ref --world=3 --fill=range"
		[[ $output == *"ra.r2 f32[2] min 3 max 3 "*"rb.r2 f32[2] min 6 max 6 "* ]]
	done
	[ "$(gg-opt --pass=allreduce_fusion g.gg | gg-dump | grep -c AllReduce)" = 1 ]
}

@test "u64 above 2^63 are no negative numbers" {
	cat >g.gg <<-'END'
		graph "g"
		input %x : u64[1]
		const %k : u64[1] = 9223372036854775806
		const %h : u64[1] = 4611686018427387904
		%y = Add(%x, %k)
		%max = AllReduce(%y) {reduction="max"}
		%min = AllReduce(%y) {reduction="min"}
		%z = Add(%x, %h)
		%mean = AllReduce(%z) {reduction="mean"}
		output %max
		output %min
		output %mean
	END
	/usr/bin/python3 -c "import numpy as np; np.save('x.npy', np.array([0, 3, 3], 'u8'))"
	gg-run -q --target=ref --world=3 --input x=x.npy g.gg >out
	grep -F 'max.r1 u64[1] min 9.22337e+18 max 9.22337e+18 mean 9.22337e+18 [9223372036854775809]' out
	grep -F '[9223372036854775806]' out | grep '^min.r2'
	grep -F '[4611686018427387906]' out | grep '^mean.r0'
}

@test "a mean of integers does not wrap" {
	cat >m.gg <<-'EOF'
	input %x : i64[2]
	input %u : u64[2]
	%m = AllReduce(%x) {reduction="mean"}
	%v = AllReduce(%u) {reduction="mean"}
	%s = ReduceScatter(%x) {reduction="mean"}
	output %m
	output %v
	output %s
	EOF
	/usr/bin/python3 -c "
import numpy as np
np.save('x.npy', np.array([2**63 - 1, -2**63]))
np.save('u.npy', np.array([2**64 - 1, 2**64 - 3], np.uint64))"
	gg-run -q --target=ref --world=2 --input x=x.npy --input u=u.npy --output m=m.npy --output v=v.npy --output s=s.npy m.gg
	/usr/bin/python3 -c "
import numpy as np
assert np.load('m.r0.npy').tolist() == [2**63 - 1, -2**63]
assert np.load('v.r1.npy').tolist() == [2**64 - 1, 2**64 - 3]
assert np.load('s.r1.npy').tolist() == [-2**63]"
}
