#!/usr/bin/env python3
"""A training step of ResNet-50 on cpu, gg and PyTorch: the same weights, data, optimiser and threads.

    train.py BUILD [BATCH]

They take turns. PyTorch runs eagerly, with its own layout and with channels last; the faster of the two counts.
gg runs as the passes of `optimize` and `hardware` fuse it, and without them.
"""
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

THREADS = 2
os.environ["OMP_NUM_THREADS"] = str(THREADS)

import numpy as np
import torch
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
TURNS, STEPS, GOAL = 3, 3, 1.20
RATE = {"lr": 0.05, "momentum": 0.9, "weight_decay": 1e-4}


class Bottleneck(nn.Module):
    def __init__(self, cin, width, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(cin, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.relu, self.downsample = nn.ReLU(inplace=True), None
        if stride != 1 or cin != 4 * width:
            self.downsample = nn.Sequential(nn.Conv2d(cin, 4 * width, 1, stride, bias=False),
                                            nn.BatchNorm2d(4 * width))

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return self.relu(y.add_(self.downsample(x) if self.downsample else x))


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.relu, self.pool, cin = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1), 64
        for stage, (blocks, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)], 1):
            layer = []
            for block in range(blocks):
                layer.append(Bottleneck(cin, width, 2 if block == 0 and stage > 1 else 1))
                cin = 4 * width
            setattr(self, f"layer{stage}", nn.Sequential(*layer))
        self.fc = nn.Linear(2048, 1000)

    def forward(self, x):
        x = self.pool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def sh(command):
    subprocess.run(command, shell=True, check=True)


def plans(folder, batch):
    """The training graph, fused and not."""
    options = ":".join(f"{k}={v}" for k, v in RATE.items())
    train, graph = os.path.join(folder, "train.gg"), os.path.join(HERE, "../examples/resnet50.gg")
    sh(f"gg-opt -O0 --bind N={batch} {graph} | "
       f"gg-opt --pass=loss:kind=softmax_cross_entropy:target=y,grad,momentum:{options} -o {train}")
    select = "gg-select --target=cpu --layout=auto"
    sh(f"gg-opt --pipeline=common {train} | {select} | gg-build -o {folder}/unfused.gg")
    sh(f"gg-opt --pipeline=common,optimize {train} | {select} | gg-opt --pipeline=hardware | "
       f"gg-build -o {folder}/fused.gg")


def peer(folder, x, y, last):
    """A step of PyTorch from gg's weights; returns its loss."""
    net = ResNet50()
    names = [n for n, _ in net.state_dict().items() if not n.endswith("num_batches_tracked")]
    outputs = [f"--output={n}={folder}/{i}.npy" for i, n in enumerate(names)]
    subprocess.run(["gg-run", "-q", "--target=ref", "--shape=input=0,3,224,224", *outputs,
                    os.path.join(HERE, "../examples/resnet50.gg")], check=True)
    net.load_state_dict({n: torch.from_numpy(np.load(f"{folder}/{i}.npy")) for i, n in enumerate(names)}, strict=False)
    if last:
        net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    rule, loss = torch.optim.SGD(net.parameters(), **RATE), nn.CrossEntropyLoss()
    net.train()

    def step():
        rule.zero_grad()
        value = loss(net(x), y)
        value.backward()
        rule.step()
        return value.item()
    return step


def time_peer(step):
    """Least wall time of a step and the processor time of one."""
    times, spent = [], time.process_time()
    for _ in range(STEPS):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return min(times), (time.process_time() - spent) / STEPS


def run_gg(plan, steps):
    """Least wall time of a step and the processor time of the process."""
    of = lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    spent = of()
    out = subprocess.run(["gg-run", "-q", "--json", f"--repeat={steps}", f"--threads={THREADS}", plan], check=True,
                         capture_output=True, text=True).stdout
    return json.loads(out)["min"], of() - spent


def time_gg(plan):
    """Least wall time of a step, and the processor time of one run and of one with STEPS more."""
    run_gg(plan, 1)  # the first one after another program's turn loads slowly
    few, once = run_gg(plan, 1)
    many, all = run_gg(plan, 1 + STEPS)
    return min(few, many), once, all


def spent(turns):
    """Processor time of a step. Loading is in both of gg's runs and varies: the least of each kind counts."""
    least = [min(t) for t in list(zip(*turns))[1:]]
    return least[0] if len(least) == 1 else (least[1] - least[0]) / STEPS


def losses(folder, name):
    out = subprocess.run(["gg-run", "-q", f"--threads={THREADS}", f"--data=input={folder}/x.npy",
                          f"--data=y={folder}/y.npy", "--steps=2", "--print=loss", f"{folder}/{name}.gg"],
                         check=True, capture_output=True, text=True).stdout
    return [float(line.split("\t")[1]) for line in out.splitlines()]


def main():
    batch = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    x, y = torch.randn(batch, 3, 224, 224), torch.randint(0, 1000, (batch,))
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/x.npy", x.numpy()[None])
        np.save(f"{folder}/y.npy", y.numpy()[None])
        plans(folder, batch)
        steps = {"PyTorch": peer(folder, x, y, False), "PyTorch, channels last": peer(folder, x, y, True)}
        for name, step in steps.items():
            print(f"losses of {name}: {step():.6f} {step():.6f}")
        for name in ("fused", "unfused"):
            print(f"losses of gg, {name}:", *(f"{v:.6f}" for v in losses(folder, name)), flush=True)
        runs = {name: lambda step=step: time_peer(step) for name, step in steps.items()}
        runs |= {"gg, " + name: lambda plan=f"{folder}/{name}.gg": time_gg(plan) for name in ("fused", "unfused")}
        got = {name: [] for name in runs}
        for _ in range(TURNS):
            for name, run in runs.items():
                got[name].append(run())
    best = {name: min(turn[0] for turn in g) for name, g in got.items()}
    for name, g in got.items():
        print(f"{name:24}{best[name] * 1e3:9.1f} ms, {spent(g) * 1e3:9.1f} ms of processors")
    ratio = best["gg, fused"] / min(best[n] for n in steps)
    print(f"resnet50, training step, batch {batch}, torch {torch.__version__}, {THREADS} threads each: "
          f"ratio {ratio:.2f}, goal {GOAL:.2f}; fused / unfused {best['gg, fused'] / best['gg, unfused']:.2f}")


if __name__ == "__main__":
    main()
