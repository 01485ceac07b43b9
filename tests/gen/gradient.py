"""Writes tests/data/cases/gradient_*: models with Gradient of ai.onnx.preview.training. Derivatives by hand, in
numpy. Needs the package onnx; the first two are the ONNX standard's own cases.

    gradient.py tests/data/cases"""
import os, sys
import numpy as np
from onnx import TensorProto, checker, helper, save

DOMAIN = "ai.onnx.preview.training"
F = np.float32


def gradient(inputs, outputs, **attrs):
    return helper.make_node("Gradient", inputs, outputs, domain=DOMAIN, **attrs)


def write(folder, name, about, nodes, inputs, outputs):
    def info(pairs):
        return [helper.make_tensor_value_info(n, TensorProto.FLOAT, v.shape) for n, v in pairs.items()]

    path = f"{folder}/gradient_{name}"
    os.makedirs(path, exist_ok=True)
    graph = helper.make_graph(nodes, name, info(inputs), info(outputs))
    opsets = [helper.make_operatorsetid("", 17), helper.make_operatorsetid(DOMAIN, 1)]
    save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path + "/model.onnx")
    open(path + "/case.txt", "w").write(about)
    for kind, arrays in ("input", inputs), ("output", outputs):
        for i, v in enumerate(arrays.values()):
            np.save(f"{path}/{kind}_{i}.npy", v)


def main(folder):
    node, r = helper.make_node, np.random.default_rng(2)
    a, b, one = F(1), F(2), F(1)
    write(folder, "add", "tests: Gradient of a + b\n",
          [node("Add", ["a", "b"], ["c"]), gradient(["a", "b"], ["da", "db"], xs=["a", "b"], y="c")],
          {"a": np.array(a), "b": np.array(b)}, {"c": np.array(a + b), "da": np.array(one), "db": np.array(one)})
    write(folder, "add_mul", "tests: Gradient of a (a + b)\n",
          [node("Add", ["a", "b"], ["c"]), node("Mul", ["c", "a"], ["d"]),
           gradient(["a", "b"], ["da", "db"], xs=["a", "b"], y="d")],
          {"a": np.array(a), "b": np.array(b)}, {"d": np.array(a * (a + b)), "da": np.array(2 * a + b), "db": np.array(a)})
    x, w, t = (r.normal(size=s).astype(F) for s in ((3, 4), (4, 2), (3, 2)))
    e = x @ w - t
    loss = [node("MatMul", ["x", "w"], ["y"]), node("Sub", ["y", "t"], ["e"]), node("Mul", ["e", "e"], ["ee"]),
            node("ReduceSum", ["ee"], ["o"], keepdims=0)]
    write(folder, "intermediate", "tests: Gradient with respect to a value in between, and an output that is left out\n"
          "wrong: what lies before it is differentiated too\n",
          loss + [gradient(["y", "t"], ["dy", ""], xs=["y", "t"], y="o")], {"x": x, "w": w, "t": t}, {"dy": 2 * e})
    write(folder, "twice", "tests: second order: Gradient of a Gradient's output, which is no scalar\n"
          "right: the sum of the elements of do/dw is differentiated\n",
          loss + [gradient(["x", "w", "t"], ["dx", "dw"], xs=["x", "w"], zs=["t"], y="o"),
                  gradient(["x", "w", "t"], ["dxx", "dww"], xs=["x", "w"], zs=["t"], y="dw")],
          {"x": x, "w": w, "t": t},
          {"dw": 2 * x.T @ e, "dww": 2 * np.outer(x.T @ x.sum(1), np.ones(2, F)).astype(F),
           "dxx": (2 * np.outer(x.sum(1), w.sum(1)) + 2 * np.outer(e.sum(1), np.ones(4, F))).astype(F)})
    v = r.normal(size=(3, 2)).astype(F)
    write(folder, "elsewhere", "tests: Gradient at a value of an intermediate that is not the graph's\n"
          "wrong: 2 (x w - t)\n",
          loss + [gradient(["v", "t"], ["dv", "dt"], xs=["y", "t"], y="o")],
          {"x": x, "w": w, "t": t, "v": v}, {"o": np.array((e * e).sum()), "dv": 2 * (v - t), "dt": -2 * (v - t)})
    write(folder, "apart", "tests: Gradient with respect to what y does not depend on: zeros\n",
          loss + [gradient(["x", "w", "t", "v"], ["a", "b", "c", "d"], xs=["x", "w", "t", "v"], y="y")],
          {"x": x, "w": w, "t": t, "v": v},
          {"b": np.outer(x.sum(0), np.ones(2, F)).astype(F), "c": np.zeros_like(t), "d": np.zeros_like(v)})
    write(folder, "unknown", "must fail: it names a value that is not there\n",
          loss + [gradient(["x"], ["dx"], xs=["x"], y="nowhere")], {"x": x, "w": w, "t": t}, {"dx": x})


main(sys.argv[1])
