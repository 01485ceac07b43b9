"""Twenty training steps of small models, whose losses and trained parameters a float64 run of PyTorch
gave: on ref and cpu, through all tools, fused and not. Then a hundred steps, fused against unfused.
Prints TAP."""
import os, subprocess, sys, tempfile
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__)) + "/../data/models/train_"
CASES = {
    "resnet_momentum": "loss:kind=softmax_cross_entropy:target=y:axis=1,grad,"
                       "momentum:lr=0.05:momentum=0.9:weight_decay=1e-4",
    "mlp_adam_mse": "loss:kind=mse:target=y,grad,adam:lr=0.01",
}
WAYS = {
    "ref": "gg-run --target=ref",
    "cpu": "gg-run --target=cpu",
    "ref, fused": "gg-opt --pipeline=common,optimize | gg-run --target=ref",
    "cpu, fused, all tools": "gg-opt --pipeline=common,optimize | gg-select --target=cpu --layout=auto |"
                             " gg-opt --pipeline=hardware,final,graph_kernel | gg-build | gg-run",
}


def train(model, way, steps, names, out):
    """Losses and parameters after the steps."""
    data = HERE + model
    args = f"-q --data x={data}/x.npy --data y={data}/y.npy --steps={steps} --print loss"
    args += "".join(f" --output {n}={out}/{n}.npy" for n in names)
    line = f"gg-parse {data}/model.onnx | gg-opt --pass={CASES[model]} | {WAYS[way]} {args}"
    text = subprocess.run(["bash", "-o", "pipefail", "-c", line], stdout=subprocess.PIPE, check=True).stdout
    losses = np.array([float(l.split()[1]) for l in text.decode().splitlines()])
    return losses, {n: np.load(f"{out}/{n}.npy").astype("f8") for n in names}


def near(got, want, tolerance):
    """How far apart, relative to the largest element; NaN is far."""
    return np.abs(got - want).max() / max(np.abs(want).max(), 1e-3) <= tolerance


def trained(model):
    final = np.load(HERE + model + "/final.npz")
    return {n: final[n] for n in final if "running" not in n and "tracked" not in n}


def check(model, way, out):
    want, losses = trained(model), np.load(HERE + model + "/loss.npy")
    got_losses, got = train(model, way, len(losses), want, out)
    wrong = [n for n in want if not near(got[n], want[n], 1e-3)]
    if np.abs(got_losses / losses - 1).max() > 1e-4 or len(got_losses) != len(losses):
        wrong.append(f"losses, by {np.abs(got_losses / losses - 1).max():.3g}")
    return wrong


def fused_like_unfused(model, out):
    names = trained(model)
    ways = [train(model, way, 100, names, out) for way in ("cpu", "cpu, fused, all tools")]
    wrong = [n for n in names if not near(ways[0][1][n], ways[1][1][n], 1e-3)]
    return wrong + ([] if np.allclose(ways[0][0], ways[1][0], rtol=1e-3) else ["losses"])


def main():
    tests = [(f"{m}: {w}", check, (m, w)) for m in CASES for w in WAYS]
    tests += [(f"{m}: 100 steps, fused like unfused", fused_like_unfused, (m,)) for m in CASES]
    bad = 0
    with tempfile.TemporaryDirectory() as out:
        for i, (title, f, args) in enumerate(tests):
            try:
                wrong = f(*args, out)
            except subprocess.CalledProcessError:
                wrong = ["it fails"]
            bad += bool(wrong)
            print(f"{'not ' if wrong else ''}ok {i + 1} - {title}{': ' if wrong else ''}{', '.join(wrong)}")
    print(f"1..{len(tests)}")
    return bad > 0


sys.exit(main())
