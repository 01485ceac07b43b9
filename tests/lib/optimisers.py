"""The optimiser passes against PyTorch's formulas in numpy, f64: parameters after some steps on given
gradients, on ref and cpu, as written and after the pipelines. Prints TAP."""
import os, subprocess, sys, tempfile
import numpy as np

STEPS = 12
GRAPH = """graph "g"
input %gw : f32[5,3]
input %gb : f32[3]
param %w : f32[5,3] = npy("w.npy")
param %b : f32[3] = npy("b.npy")
%grad.w = Identity(%gw)
%grad.b = Identity(%gb)
%loss = ReduceSum(%b) {keepdims=0}
output %loss
"""


def sgd(o, lr, w, g, s, t):
    g = g + o.get("weight_decay", 0) * w
    return w - lr * g


def momentum(o, lr, w, g, s, t):
    g = g + o.get("weight_decay", 0) * w
    mu, damp = o.get("momentum", 0.9), o.get("dampening", 0)
    s["m"] = mu * s["m"] + (1 - damp) * g if t > 1 else g
    return w - lr * (g + mu * s["m"] if o.get("nesterov") else s["m"])


def direction(o, g, s, t):
    b1, b2 = o.get("beta1", 0.9), o.get("beta2", 0.999)
    s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
    s["v"] = b2 * s.get("v", 0) + (1 - b2) * g * g
    return s["m"] / (1 - b1**t) / (np.sqrt(s["v"]) / np.sqrt(1 - b2**t) + o.get("eps", 1e-8))


def adam(o, lr, w, g, s, t):
    return w - lr * direction(o, g + o.get("weight_decay", 0) * w, s, t)


def adamw(o, lr, w, g, s, t):
    w = w * (1 - lr * o.get("weight_decay", 0.01))
    return w - lr * direction(o, g, s, t)


def lamb(o, lr, w, g, s, t):
    u = direction(o, g, s, t) + o.get("weight_decay", 0.01) * w
    return w - lr * np.linalg.norm(w) / np.linalg.norm(u) * u


def rmsprop(o, lr, w, g, s, t):
    a = o.get("alpha", 0.99)
    g = g + o.get("weight_decay", 0) * w
    s["v"] = a * s.get("v", 0) + (1 - a) * g * g
    v = s["v"]
    if o.get("centered"):
        s["a"] = a * s.get("a", 0) + (1 - a) * g
        v = v - s["a"] ** 2
    u = g / (np.sqrt(v) + o.get("eps", 1e-8))
    s["b"] = o.get("momentum", 0) * s.get("b", 0) + u
    return w - lr * s["b"]


def adagrad(o, lr, w, g, s, t):
    g = g + o.get("weight_decay", 0) * w
    s["v"] = s.get("v", o.get("start", 0)) + g * g
    return w - lr / (1 + (t - 1) * o.get("lr_decay", 0)) * g / (np.sqrt(s["v"]) + o.get("eps", 1e-10))


def rate(o, base, s):
    """s: updates before this one."""
    warm, kind, low = o.get("warmup", 0), o.get("schedule", "constant"), o.get("min_lr", 0)
    if s < warm:
        return base * (s + 1) / warm
    s -= warm
    if kind == "step":
        return base * o.get("gamma", 0.1) ** (s // o["every"])
    if kind == "constant":
        return base
    x = min(s / o["over"], 1)
    if kind == "cosine":
        return low + (base - low) * (1 + np.cos(np.pi * x)) / 2
    return low + (base - low) * (1 - x) ** o.get("power", 1)


def train(rule, o, base, params, grads):
    """params, grads: name -> array; grads have a first axis of steps."""
    p = {k: v.astype(np.float64) for k, v in params.items()}
    state = {k: {"m": 0.0} for k in p} if rule is momentum else {k: {} for k in p}
    total, n, t = {k: 0 for k in p}, int(o.get("accumulate", 1)), 0
    for i in range(STEPS):
        total = {k: total[k] + grads[k][i].astype(np.float64) for k in p}
        if (i + 1) % n:
            continue
        g = {k: total[k] / n for k in p}
        total = {k: 0 for k in p}
        if "clip_value" in o:
            g = {k: np.clip(v, -o["clip_value"], o["clip_value"]) for k, v in g.items()}
        if "clip_norm" in o:
            norm = np.sqrt(sum((v**2).sum() for v in g.values()))
            g = {k: v * min(1, o["clip_norm"] / (norm + 1e-6)) for k, v in g.items()}
        lr = rate(o, o.get("lr", base), t)
        t += 1
        p = {k: rule(o, lr, p[k], g[k], state[k], t) for k in p}
    return p


CASES = [
    (sgd, 1e-3, "lr=0.1"), (sgd, 1e-3, "lr=0.1:weight_decay=0.1:clip_value=0.5"),
    (momentum, 1e-3, "lr=0.05"), (momentum, 1e-3, "lr=0.05:weight_decay=0.01:momentum=0.8"),
    (momentum, 1e-3, "lr=0.05:nesterov=1"), (momentum, 1e-3, "lr=0.05:dampening=0.3"),
    (momentum, 1e-3, "lr=0.05:clip_norm=1"), (momentum, 1e-3, "lr=0.05:clip_norm=1:weight_decay=0.1"),
    (momentum, 1e-3, "lr=0.05:accumulate=3:weight_decay=0.1"),
    (adam, 1e-3, ""), (adam, 1e-3, "lr=0.1:beta1=0.8:beta2=0.9:eps=0.001:weight_decay=0.1"),
    (adam, 1e-3, "lr=0.1:schedule=cosine:over=8:warmup=3:min_lr=0.01"), (adam, 1e-3, "lr=0.1:accumulate=4"),
    (adamw, 1e-3, "lr=0.1"), (adamw, 1e-3, "lr=0.1:weight_decay=0.2:schedule=polynomial:over=10:power=2"),
    (adamw, 1e-3, "lr=0.1:weight_decay=0"),
    (rmsprop, 1e-2, ""), (rmsprop, 1e-2, "momentum=0.9:alpha=0.9:weight_decay=0.1"),
    (rmsprop, 1e-2, "centered=1"), (adagrad, 1e-2, ""), (adagrad, 1e-2, "lr=0.1:lr_decay=0.1:start=0.5"),
    (lamb, 1e-3, "lr=0.1"), (lamb, 1e-3, "lr=0.1:weight_decay=0:schedule=step:every=4:gamma=0.5"),
]
WAYS = [("ref", ""), ("cpu", ""), ("ref", "--pipeline=common,optimize"), ("cpu", "--pipeline=common,optimize")]


def value(text):
    try:
        return float(text)
    except ValueError:
        return text


def run(folder, name, options, target, pipeline):
    spec = name + (":" + options if options else "")
    stages = f"gg-opt --pass={spec} g.gg |" + (f"gg-opt {pipeline} |" if pipeline else "")
    subprocess.run(["bash", "-o", "pipefail", "-c",
                    f"{stages} gg-run -q --target={target} --steps={STEPS} --data gw=gw.npy --data gb=gb.npy "
                    f"--output w=w.out.npy --output b=b.out.npy"], cwd=folder, check=True)
    return {k: np.load(f"{folder}/{k}.out.npy") for k in "wb"}


FUSIONS = "momentum_weight_scale momentum_weight_scale_orders momentum_scale momentum_weight momentum_cast " \
    "combine_momentum combine_momentum_weight fused_adam fused_adam_corrected adam_weight_decay " \
    "adam_weight_decay_factor cast_all addn bce_with_logits bce_with_logits_sum".split()
# What must be left as it is, or be fused right.
TWINS = "momentum_scale_nesterov momentum_weight_nesterov momentum_weight_scale_nesterov momentum_weight_f16 " \
    "momentum_weight_scale_f16 momentum_weight_tensor_decay momentum_weight_scale_tensor_decay " \
    "adam_weight_decay_tensor combine_momentum_mixed".split()


def tensors(folder, target, graph, names):
    """Outputs and state after a hundred steps on the same inputs."""
    os.makedirs(folder, exist_ok=True)
    args = ["gg-run", "-q", "--target=" + target, "--steps=100"] + [f"--output={n}={folder}/{n}.npy" for n in names]
    subprocess.run(args, input=graph, check=True)
    return {n: np.load(f"{folder}/{n}.npy").astype("f8") for n in names}


def fusions(folder, number):
    """Golden cases, those that fire and those that do not, before and after: the same numbers."""
    bad, here = 0, os.path.dirname(os.path.abspath(__file__))
    for name in FUSIONS + TWINS:
        text = open(f"{here}/../golden/gg-opt/{name}.gg").read()
        passes, text = text.split("--pass=")[1].split()[0], text.split("\n# ")[0] + "\n"
        names = [l.split()[1].strip("%") for l in text.splitlines() if l.startswith(("output", "state"))]
        fused = subprocess.run(["gg-opt", "--pass=" + passes, "--pipeline=optimize"], input=text.encode(), stdout=subprocess.PIPE,
                               check=True).stdout
        want, worst = tensors(folder + "/a", "ref", text.encode(), names), ""
        for target in "ref", "cpu":
            got = tensors(folder + "/b", target, fused, names)
            for n in names:
                if not np.allclose(got[n], want[n], rtol=1e-5, atol=1e-6 * max(1, np.abs(want[n]).max())):
                    worst += f" {target} {n}: {np.abs(got[n] - want[n]).max():.3g};"
        number += 1
        bad += bool(worst)
        print(f"{'not ' if worst else ''}ok {number} - fused like unfused: {name}{worst}")
    return bad, number


def main():
    rng = np.random.default_rng(7)
    params = {"w": rng.normal(size=(5, 3)).astype("f4"), "b": rng.normal(size=3).astype("f4")}
    grads = {"w": rng.normal(size=(STEPS, 5, 3)).astype("f4"), "b": rng.normal(size=(STEPS, 3)).astype("f4")}
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        open(folder + "/g.gg", "w").write(GRAPH)
        for k in "wb":
            np.save(f"{folder}/{k}.npy", params[k])
            np.save(f"{folder}/g{k}.npy", grads[k])
        for i, (rule, base, options) in enumerate(CASES):
            o = {k: value(v) for k, v in (x.split("=") for x in options.split(":") if x)}
            want = train(rule, o, base, params, grads)
            worst = ""
            for target, pipeline in WAYS:
                try:
                    got = run(folder, rule.__name__, options, target, pipeline)
                    for k in want:
                        if not np.allclose(got[k], want[k], rtol=2e-5, atol=2e-6):
                            worst += f" {target} {pipeline} {k}: {np.abs(got[k] - want[k]).max():.3g};"
                except subprocess.CalledProcessError:
                    worst += f" {target} {pipeline} fails;"
            bad += bool(worst)
            print(f"{'not ' if worst else ''}ok {i + 1} - {rule.__name__}:{options}{worst}")
        more, total = fusions(folder, len(CASES))
    print(f"1..{total}")
    return bad + more > 0


sys.exit(main())
