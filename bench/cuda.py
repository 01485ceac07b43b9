"""bench/cuda.py BUILD [ROW...]: gg against PyTorch on one device, in one run.

Each row: the model is made by PyTorch with seeded weights, exported to ONNX in the row's dtype, taken
through gg-parse, gg-opt, gg-select and gg-build, and run with the inputs that PyTorch got. Both
are compared with PyTorch in float64. Times are of a replayed step with its inputs on the device.
GG_BENCH_PEERS names the peers to run: eager,graph,compile,frozen (default all)."""

import json
import os
import subprocess
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.backends.cudnn.benchmark = True


class Layer(nn.Module):
    def __init__(self, d, heads, inner):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.up, self.down = nn.Linear(d, inner), nn.Linear(inner, d)
        self.n1, self.n2 = nn.LayerNorm(d, 1e-12), nn.LayerNorm(d, 1e-12)

    def forward(self, x):
        b, s, d = x.shape
        split = lambda t: t.view(b, s, self.heads, d // self.heads).transpose(1, 2)
        a = F.scaled_dot_product_attention(split(self.q(x)), split(self.k(x)), split(self.v(x)))
        x = self.n1(x + self.o(a.transpose(1, 2).reshape(b, s, d)))
        return self.n2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    """BERT-base: 12 layers of 768, 12 heads, 3072 between; the last hidden state and the pooler."""

    def __init__(self, d=768, layers=12, heads=12, inner=3072, words=30522):
        super().__init__()
        self.word, self.place = nn.Embedding(words, d), nn.Embedding(512, d)
        self.norm = nn.LayerNorm(d, 1e-12)
        self.layers = nn.ModuleList(Layer(d, heads, inner) for _ in range(layers))
        self.pool = nn.Linear(d, d)
        for m in self.modules():
            if isinstance(m, (nn.Linear, nn.Embedding)):
                nn.init.normal_(m.weight, std=0.02)

    def forward(self, ids):
        x = self.norm(self.word(ids) + self.place.weight[: ids.shape[1]])
        for layer in self.layers:
            x = layer(x)
        return x, torch.tanh(self.pool(x[:, 0]))


def resnet50():
    import torchvision

    m = torchvision.models.resnet50()
    for x in m.modules():  # statistics as after training, so that values keep their size
        if isinstance(x, nn.BatchNorm2d):
            x.running_mean.normal_(0, 0.1)
            x.running_var.uniform_(0.5, 1.5)
            x.weight.data.uniform_(0.5, 1.0)
    for b in m.modules():
        if isinstance(b, torchvision.models.resnet.Bottleneck):
            b.bn3.weight.data.mul_(0.3)
    return m


def image(batch):
    return lambda g: torch.randn(batch, 3, 224, 224, generator=g)


def words(batch, length):
    return lambda g: torch.randint(0, 30522, (batch, length), generator=g)


# name, model, input, dtype, --precision, limit and goal in ms
ROWS = [
    ("resnet50-f16-256", resnet50, image(256), torch.float16, "strict", 4.53, 6.0),
    ("resnet50-f16-32", resnet50, image(32), torch.float16, "strict", 0.57, 0.95),
    ("resnet50-f16-1", resnet50, image(1), torch.float16, "strict", 0.13, 0.35),
    ("resnet50-tf32-256", resnet50, image(256), torch.float32, "tf32", 8.9, 12),
    ("bert-f16-32x128", Bert, words(32, 128), torch.float16, "strict", 1.10, 1.6),
    ("bert-f16-1x128", Bert, words(1, 128), torch.float16, "strict", 0.15, 0.40),
    ("bert-f16-32x512", Bert, words(32, 512), torch.float16, "strict", 4.53, 6.3),
]
PEERS = os.environ.get("GG_BENCH_PEERS", "eager,graph,compile,frozen").split(",")


def median_ms(f, n=30):
    for _ in range(3):
        f()
    torch.cuda.synchronize()
    times = []
    for _ in range(n):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        f()
        b.record()
        b.synchronize()
        times.append(a.elapsed_time(b))
    return sorted(times)[n // 2]


def graphed(f):
    s = torch.cuda.Stream()
    with torch.cuda.stream(s):
        for _ in range(3):
            f()
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        f()
    return g.replay


def peers(model, x):
    got = {}
    with torch.inference_mode():
        if "eager" in PEERS:
            got["eager"] = median_ms(lambda: model(x))
        if "graph" in PEERS:
            got["graph"] = median_ms(graphed(lambda: model(x)))
        for name in ("compile", "frozen"):
            if name not in PEERS:
                continue
            torch._dynamo.reset()
            torch._inductor.config.freezing = name == "frozen"
            c = torch.compile(model)
            c(x)
            got[name] = median_ms(graphed(lambda: c(x)))
    return got


def far(a, b):
    a, b = a.astype(np.float64).ravel(), b.ravel()
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def sh(command, **kw):
    r = subprocess.run(command, shell=True, capture_output=True, text=True, **kw)
    if r.returncode:
        sys.exit(f"{command}\n{r.stderr}")
    return r.stdout


def timed(tmp, name, tune):
    """ms of a replayed step."""
    r = sh(f"gg-run -q --input x={tmp}/x.npy --output y={tmp}/{name}.npy --repeat=20 --warmup=3 --loop-sink=10"
           f" --json {tmp}/m.plan", env={**os.environ, "GG_CUDA_TUNE": tune})
    return 1000 * json.loads(r)["p50"], np.load(f"{tmp}/{name}.npy")


def gg(tmp, precision):
    """Times by heuristics and tuned, the outputs of both, the cold start from the file and from the plan."""
    t = time.time()
    sh(
        f"gg-parse {tmp}/m.onnx | gg-opt | gg-select -q --target=cuda:sm_90 --layout=auto"
        f" --precision={precision} | gg-opt --pipeline=hardware | gg-build -o {tmp}/m.plan"
    )
    built = time.time() - t
    t = time.time()
    sh(f"gg-run -q --input x={tmp}/x.npy --output y={tmp}/y.npy {tmp}/m.plan")
    start = time.time() - t
    return timed(tmp, "y", "0"), timed(tmp, "t", os.environ.get("GG_CUDA_TUNE", "6")), built + start, start


def keep(tmp, name):
    """What was run stays in GG_BENCH_KEEP/ROW, for profilers."""
    if os.environ.get("GG_BENCH_KEEP"):
        to = f"{os.environ['GG_BENCH_KEEP']}/{name}"
        sh(f"mkdir -p {to} && cp {tmp}/m.plan {tmp}/x.npy {tmp}/m.onnx {to}")


def row(tmp, name, make, data, dtype, precision, limit, goal):
    torch.manual_seed(1)
    tf32 = precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    g = torch.Generator().manual_seed(2)
    x = data(g)
    model = make().eval().cuda()
    first = lambda y: y if torch.is_tensor(y) else y[0]
    x = x.cuda().to(dtype) if x.is_floating_point() else x.cuda()
    model.to(dtype)
    sample = x[:8]
    with torch.inference_mode():
        own = first(model(sample)).float().cpu().numpy()
        exact = first(model.double()(sample.double() if x.is_floating_point() else sample)).cpu().numpy()
    model.to(dtype)
    torch.onnx.export(model, (x,), f"{tmp}/m.onnx", input_names=["x"], output_names=["y", "z"][: 1 + (make is Bert)],
                      dynamo=False, opset_version=17, do_constant_folding=False)
    np.save(f"{tmp}/x.npy", x.cpu().numpy())
    torch.cuda.empty_cache()
    (ms, y), (tuned, t), cold, plan = gg(tmp, precision)
    keep(tmp, name)
    if x.dim() == 4:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    got = peers(model, x)
    best = min(got.values(), default=float("nan"))
    print(f"{name:18} gg {ms:7.3f} ms, tuned {tuned:7.3f} | " + " ".join(f"{k} {v:.3f}" for k, v in got.items())
          + f" | tuned/best {tuned / best:.2f} tuned/limit {tuned / limit:.2f} goal {goal}"
          + f" {'met' if tuned <= goal else 'missed'}"
          + f" | error gg {far(y[:8], exact):.2e} tuned {far(t[:8], exact):.2e} torch {far(own, exact):.2e}"
          + f" | cold start {cold:.2f} s, from a plan {plan:.2f} s", flush=True)


def main():
    import tempfile

    want = sys.argv[2:]
    with tempfile.TemporaryDirectory() as tmp:
        for r in ROWS:
            if not want or r[0] in want:
                row(tmp, *r)
                torch.cuda.empty_cache()


main()
