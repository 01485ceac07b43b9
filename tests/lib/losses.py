"""Losses and their gradients against PyTorch's definitions, written out sample by sample in numpy.
Prints TAP."""
import itertools, subprocess, sys, tempfile
import numpy as np

LOGISTIC = lambda x: 1 / (1 + np.exp(-x))


def reduce(values, weights, how):
    """values of samples; what the mean divides by."""
    return values if how == "none" else values.sum() if how == "sum" else values.sum() / np.sum(weights)


def log_softmax(row):
    return row - row.max() - np.log(np.exp(row - row.max()).sum())


def by_class(x, y, how, probabilities, weight=None, ignore=None, smooth=0.0):
    """Classes are the last axis of x; nll: x holds logarithms already."""
    rows, labels = x.reshape(-1, x.shape[-1]), y.reshape(-1)
    w = np.ones(x.shape[-1]) if weight is None else weight
    hard, soft, total = np.zeros(len(rows)), np.zeros(len(rows)), np.zeros(len(rows))
    for i, (row, label) in enumerate(zip(rows, labels)):
        if label == ignore:
            continue
        p = log_softmax(row) if probabilities else row
        hard[i], soft[i], total[i] = -w[label] * p[label], -(w * p).sum(), w[label]
    shape = y.shape
    loss = (1 - smooth) * reduce(hard.reshape(shape), total, how)
    return loss + smooth / x.shape[-1] * reduce(soft.reshape(shape), total, how)


def distribution(x, y, how, weight=None, smooth=0.0):
    c = x.shape[-1]
    w = np.ones(c) if weight is None else weight
    y = y * (1 - smooth) + smooth / c
    loss = np.array([-(q * w * log_softmax(row)).sum() for row, q in zip(x.reshape(-1, c), y.reshape(-1, c))])
    return reduce(loss.reshape(x.shape[:-1]), np.ones(loss.size), how)


def bce(x, y, how, weight=1.0, pos=1.0):
    p = LOGISTIC(x)
    return reduce(-weight * (pos * y * np.log(p) + (1 - y) * np.log(1 - p)), np.ones(x.size), how)


def elementwise(f):
    return lambda x, y, how: reduce(f(x - y), np.ones(x.size), how)


def huber(delta):
    return elementwise(lambda d: np.where(abs(d) <= delta, d * d / 2, delta * (abs(d) - delta / 2)))


def cases(rng):
    """name, options, x, y, other inputs, the formula of x and how"""
    x, y3 = rng.normal(size=(5, 4)) * 2, rng.normal(size=(2, 3, 3, 4))
    ids, ids3 = rng.integers(0, 4, 5), rng.integers(0, 4, (2, 3, 3))
    w, soft = np.array([0.5, 2, 0, 1.25]), rng.dirichlet(np.ones(4), 5)
    hole, hole3 = ids.copy(), ids3.copy()
    hole[2], hole3[1, 0, 2], hole3[0, 2, 2] = -100, 1, 1
    for kind, p in (("softmax_cross_entropy", True), ("nll", False)):
        for weighted, ignored in itertools.product((False, True), repeat=2):
            o = f"kind={kind}" + ":weight='0.5,2,0,1.25'" * weighted
            wt = w if weighted else None
            yield o + ":ignore_index=-100" * ignored, x, hole if ignored else ids, {}, \
                lambda x, y, how, p=p, wt=wt, i=-100 if ignored else None: by_class(x, y, how, p, wt, i)
            if p:
                yield o + ":label_smoothing=0.1" + ":ignore_index=1" * ignored, y3, hole3 if ignored else ids3, {}, \
                    lambda x, y, how, wt=wt, i=1 if ignored else None: by_class(x, y, how, True, wt, i, 0.1)
    hard = np.eye(4)[ids]
    o = "kind=softmax_cross_entropy:labels=onehot"
    yield o, x, hard, {}, lambda x, y, how: by_class(x, ids, how, True)
    yield o, x, soft, {}, distribution
    yield o + ":label_smoothing=0.2:weight='0.5,2,0,1.25'", x, soft, {}, \
        lambda x, y, how: distribution(x, y, how, w, 0.2)
    yield "kind=mse", x, x * 0.3 + 1, {}, elementwise(lambda d: d * d)
    yield "kind=l1", x, x * 0.3 + 1, {}, elementwise(abs)
    yield "kind=huber", x, x * 0.3 + 1, {}, huber(1)
    yield "kind=huber:delta=0.3", x, x * 0.3 + 1, {}, huber(0.3)
    b, each = (soft > 0.2) * 1.0, rng.uniform(0, 2, x.shape)
    o = "kind=bce_with_logits"
    yield o, x, b, {}, bce
    yield o, x, soft, {}, bce
    yield o + ":pos_weight=3", x, b, {}, lambda x, y, how: bce(x, y, how, 1, 3)
    yield o + ":pos_weight='1,2,3,0.5'", x, b, {}, lambda x, y, how: bce(x, y, how, 1, np.array([1, 2, 3, 0.5]))
    yield o + ":weight='0.5,2,0,1.25'", x, b, {}, lambda x, y, how: bce(x, y, how, w)
    yield o + ":weight=w:pos_weight=2", x, b, {"w": each}, lambda x, y, how: bce(x, y, how, each, 2)


def run(options, x, y, more, how, folder):
    inputs = {"x": x, "y": y.astype("i8") if y.dtype.kind == "i" else y, **more}
    for n, v in inputs.items():
        np.save(f"{folder}/{n}.npy", v)
    open(folder + "/g.gg", "w").write(f"input %x : f64[{','.join(map(str, x.shape))}]\n%p = Identity(%x)\noutput %p\n")
    passes = f"loss:{options}:target=y:reduction={how}" + (",grad:wrt=x:outputs=1" if how != "none" else "")
    out = ["--output", "loss=loss.npy"] + (["--output", "grad.x=grad.npy"] if how != "none" else [])
    subprocess.run(f'gg-opt --pass="{passes}" g.gg -o t.gg', shell=True, check=True, cwd=folder)
    subprocess.run(["gg-run", "-q", "--target=ref", "t.gg"] + [f"--input={n}={n}.npy" for n in inputs] + out,
                   check=True, cwd=folder)
    return np.load(folder + "/loss.npy"), np.load(folder + "/grad.npy") if how != "none" else None


def slope(f, x, h=1e-5):
    g = np.zeros(x.size)
    for i in range(x.size):
        a, b = x.copy().reshape(-1), x.copy().reshape(-1)
        a[i], b[i] = a[i] + h, b[i] - h
        g[i] = (f(a.reshape(x.shape)) - f(b.reshape(x.shape))) / (2 * h)
    return g.reshape(x.shape)


def main():
    number = bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for options, x, y, more, formula in cases(np.random.default_rng(3)):
            for how in ("mean", "sum", "none"):
                number += 1
                try:
                    loss, grad = run(options, x, y, more, how, folder)
                    good = np.allclose(loss, formula(x, y, how), rtol=1e-6, atol=1e-7)
                    good = good and loss.shape == np.shape(formula(x, y, how))
                    if grad is not None:
                        good = good and np.allclose(grad, slope(lambda v: formula(v, y, how), x), rtol=1e-5, atol=1e-6)
                except subprocess.CalledProcessError:
                    good = False
                bad += not good
                print(f"{'ok' if good else 'not ok'} {number} - {options} {how}")
    print(f"1..{number}")
    return bad > 0 or number == 0


sys.exit(main())
