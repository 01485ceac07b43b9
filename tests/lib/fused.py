"""A small network trained for a hundred steps, fused and not: the same losses, parameters and state. Each row
names what must fire. On ref most fusions change no bit; on cpu sums round in another order. Prints TAP."""
import os, re, subprocess, sys, tempfile
import numpy as np

STEPS = 100
GRAPH = """graph "net"
input %x : f32[6,3,8,8]
param %w0 : f32[8,3,3,3] = normal(1, 0, 0.3)
param %s0 : f32[8] = uniform(2, 0.5, 1.5)
param %b0 : f32[8] = normal(3, 0, 0.2)
param %m0 : f32[8] = zeros
param %v0 : f32[8] = ones
%c0 = Conv(%x, %w0) {pads=[1,1,1,1]}
%n0 = BatchNormalization(%c0, %s0, %b0, %m0, %v0)
%y0 = Relu(%n0)
%p = MaxPool(%y0) {kernel_shape=[2,2], strides=[2,2]}
param %w1 : f32[8,8,3,3] = normal(4, 0, 0.2)
param %s1 : f32[8] = uniform(5, 0.5, 1.5)
param %b1 : f32[8] = normal(6, 0, 0.2)
param %m1 : f32[8] = zeros
param %v1 : f32[8] = ones
%c1 = Conv(%p, %w1) {pads=[1,1,1,1]}
%n1 = BatchNormalization(%c1, %s1, %b1, %m1, %v1)
%a1 = Add(%n1, %p)
%y1 = Relu(%a1)
param %w2 : f32[8,8,1,1] = normal(7, 0, 0.3)
param %s2 : f32[8] = uniform(8, 0.5, 1.5)
param %b2 : f32[8] = normal(9, 0, 0.2)
param %m2 : f32[8] = zeros
param %v2 : f32[8] = ones
param %w3 : f32[8,8,3,3] = normal(10, 0, 0.2)
%c2 = Conv(%y1, %w2)
%n2 = BatchNormalization(%c2, %s2, %b2, %m2, %v2)
%c3 = Conv(%y1, %w3) {pads=[1,1,1,1]}
%a3 = Add(%c3, %n2)
%y3 = Relu(%a3)
%g = GlobalAveragePool(%y3)
%f = Flatten(%g)
param %w4 : f32[5,8] = normal(11, 0, 0.3)
param %b4 : f32[5] = zeros
%z = Gemm(%f, %w4, %b4) {transB=1}
output %z
"""
MOMENTUM = "momentum:lr=0.02:weight_decay=1e-3"
NORMS = "bn_relu bn_relu_grad bn_add_relu post_bn_add_relu bn_add_relu_grad"
ALL = "--pipeline=common,optimize", "gg-select --target=cpu --layout=auto", "--pipeline=hardware"
# title, between loss and grad, optimiser, how it is fused, what fires, exact on ref
CASES = [
    ("bn_relu", "", MOMENTUM, ["--pass=bn_relu,bn_relu_grad"], "bn_relu bn_relu_grad", True),
    ("bn_add_relu", "", MOMENTUM, ["--pass=bn_add_relu,bn_add_relu_grad"], "bn_add_relu bn_add_relu_grad", True),
    ("post_bn_add_relu", "", MOMENTUM, ["--pass=post_bn_add_relu,bn_add_relu_grad"],
     "post_bn_add_relu bn_add_relu_grad", True),
    ("relu_v2", "", MOMENTUM, ["--pass=relu_v2"], "relu_v2", True),
    ("add_relu_v2", "", MOMENTUM, ["--pass=relu_v2,add_relu_v2,add_relu_grad_v2"],
     "relu_v2 add_relu_v2 add_relu_grad_v2", True),
    ("momentum_weight", "", MOMENTUM, ["--pipeline=optimize"], "momentum_weight", False),
    ("combined momentum", "", "momentum:lr=0.02:clip_norm=1", ["--pipeline=optimize"],
     "momentum_scale combine_momentum", False),
    ("Nesterov", "", MOMENTUM + ":nesterov=1", ALL, NORMS, False),
    ("fused_adam", "", "adam:lr=0.002", ["--pipeline=optimize"], "fused_adam", False),
    ("fused_adam, decay in the gradient", "", "adam:lr=0.002:weight_decay=1e-2", ALL, NORMS + " fused_adam", False),
    ("adam_weight_decay", "", "adamw:lr=0.002", ALL, NORMS + " adam_weight_decay", False),
    ("cast_all", "autocast:dtype=bf16", MOMENTUM, ["--pipeline=common,optimize"], "cast_all", False),
    ("everything", "", MOMENTUM, ALL, NORMS + " momentum_weight", False),
]


def sh(line, folder, **more):
    return subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=folder, check=True, **more)


def train(folder, graph, target, out):
    """Losses, and the state at the end."""
    text = sh(f"gg-dump {graph} | grep ^state", folder, stdout=subprocess.PIPE).stdout.decode()
    names = re.findall(r'^state %("[^"]*"|\S+) <-', text, re.M)
    args = "".join(f" --output={n}={out}{i}.npy" for i, n in enumerate(names))
    got = sh(f"gg-run -q --target={target} --data x=x.npy --data y=y.npy --steps={STEPS} --print loss {args} {graph}",
             folder, stdout=subprocess.PIPE).stdout.decode()
    state = {n: np.load(f"{folder}/{out}{i}.npy").astype("f8") for i, n in enumerate(names)}
    return np.array([float(l.split()[1]) for l in got.splitlines()]), state


def fuse(folder, how):
    """Writes fused.gg; the passes that fired."""
    stages = " | ".join(h if h.startswith("gg-") else f"gg-opt --stats {h}" for h in how)
    said = sh(f"cat plain.gg | {stages} >fused.gg", folder, stderr=subprocess.PIPE).stderr.decode()
    return {m[1] for m in re.finditer(r"^(\w+) +tried \d+, applied [1-9]", said, re.M)}


def differ(a, b, exact):
    (loss, state), (want, wanted) = a, b
    names = [n for n in wanted if n not in state or not near(state[n], wanted[n], exact)]
    return names + ([] if len(want) == STEPS and near(loss, want, exact) else ["loss"])


def near(got, want, exact):
    if exact:
        return np.array_equal(got, want)
    return np.abs(got - want).max() <= 2e-4 * max(np.abs(want).max(), 1e-3)


def check(folder, between, rule, how, fires, exact):
    passes = ",".join(p for p in ("loss:kind=softmax_cross_entropy:target=y", between, "grad", rule) if p)
    sh(f"gg-opt --pass={passes} net.gg >plain.gg", folder)
    fired = fuse(folder, how)
    wrong = [p + " did not fire" for p in fires.split() if p not in fired]
    for target in ("ref", "cpu") if len(how) == 1 else ("cpu",):
        want, got = train(folder, "plain.gg", target, "a"), train(folder, "fused.gg", target, "b")
        wrong += [f"{target}: {n}" for n in differ(got, want, exact and target == "ref")]
    return wrong


def main():
    bad, rng = 0, np.random.default_rng(3)
    with tempfile.TemporaryDirectory() as folder:
        open(folder + "/net.gg", "w").write(GRAPH)
        np.save(folder + "/x.npy", rng.normal(size=(4, 6, 3, 8, 8)).astype("f4"))
        np.save(folder + "/y.npy", rng.integers(0, 5, (4, 6)))
        for i, (title, *args) in enumerate(CASES):
            try:
                wrong = check(folder, *args)
            except subprocess.CalledProcessError:
                wrong = ["it fails"]
            bad += bool(wrong)
            print(f"{'not ' if wrong else ''}ok {i + 1} - {title}{': ' if wrong else ''}{', '.join(wrong)}", flush=True)
    print(f"1..{len(CASES)}")
    return bad > 0


sys.exit(main())
