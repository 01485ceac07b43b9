#!/usr/bin/env python3
"""gg on cpu and onnxruntime, the same graphs, threads and machine, taking turns.

    cpu.py BUILD [NAME...]      NAME: resnet50, bert_base, squeezenet1_1

Prints the smallest and the median time of each and their ratios (below 1: gg is faster). The
turns are short, so that whatever else the machine does hits both alike.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime

THREADS = 2
TURNS = 4
HERE = os.path.dirname(os.path.abspath(__file__))
# file, batch sizes, whether the batch is the symbol N
MODELS = {
    "resnet50": ("../examples/resnet50.gg", (1, 8), True),
    "bert_base": ("../examples/bert_base.gg", (1, 8), True),
    "squeezenet1_1": ("../tests/data/models/squeezenet1_1/model.onnx", (1,), False),
}


def sh(command):
    subprocess.run(command, shell=True, check=True)


def peer(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feed = {}
    for i in session.get_inputs():
        if i.type == "tensor(int64)":
            feed[i.name] = np.random.randint(0, 2, i.shape).astype(np.int64)
        else:
            feed[i.name] = np.random.randn(*i.shape).astype(np.float32)
    return lambda: session.run(None, feed)


def time_peer(run, seconds):
    times = []
    run()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return times


def time_gg(plan, seconds):
    """Its minimum and median, from gg-run itself."""
    out = subprocess.run(["gg-run", "-q", "--json", "--warmup=1", f"--duration={seconds}", f"--threads={THREADS}", plan],
                         check=True, capture_output=True, text=True).stdout
    r = json.loads(out)
    return r["min"], r["p50"]


def bench(name, file, batch, symbolic, folder):
    path = os.path.join(HERE, file)
    read = f"gg-parse {'--bind N=%d' % batch if symbolic else ''} {path}" if path.endswith(".onnx") else \
        f"gg-opt -O0 {'--bind N=%d' % batch if symbolic else ''} {path}"
    plan, onnx = os.path.join(folder, "plan.gg"), os.path.join(folder, "model.onnx")
    sh(f"{read} | gg-opt | gg-select --target=cpu --layout=auto | gg-build -o {plan}")
    sh(f"{read} | gg-dump --format=onnx -o {onnx}")
    run = peer(onnx)
    theirs, ours, medians = [], [], []
    time_gg(plan, 0.2)
    for _ in range(TURNS):
        low, mid = time_gg(plan, 1.5)
        ours.append(low)
        medians.append(mid)
        theirs += time_peer(run, 1.5)
    a, b = min(ours), min(theirs)
    c, d = float(np.median(medians)), float(np.median(theirs))
    print(f"{name:14} batch {batch}: gg {a * 1e3:8.2f} ms (median {c * 1e3:8.2f}), onnxruntime {b * 1e3:8.2f} ms "
          f"(median {d * 1e3:8.2f}), ratio {a / b:.2f} (median {c / d:.2f}), goal 1.10", flush=True)


def main():
    names = sys.argv[2:] or list(MODELS)
    os.environ["OMP_NUM_THREADS"] = str(THREADS)
    print(f"onnxruntime {onnxruntime.__version__}, {THREADS} threads each")
    for name in names:
        file, batches, symbolic = MODELS[name]
        for batch in batches:
            with tempfile.TemporaryDirectory() as folder:
                bench(name, file, batch, symbolic, folder)


if __name__ == "__main__":
    main()
