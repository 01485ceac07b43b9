#!/usr/bin/env python3
"""Makes the folders beside it: small models in older opsets and forms, with onnxruntime's results.

    python3 make.py        needs numpy, onnx and onnxruntime

tests/cli/parse.bats runs each with gg-run --test. A model that onnxruntime cannot run is left out.
"""
import os
import shutil

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

HERE = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(7)
ort.set_default_logger_severity(4)


def info(name, a, sym=False):
    shape = [f"{name}_{i}" for i in range(a.ndim)] if sym else a.shape
    return h.make_tensor_value_info(name, h.np_dtype_to_tensor_dtype(a.dtype), shape)


def save(name, model, inputs, out=None):
    """out: the results, where onnxruntime refuses the model."""
    try:
        if out is not None:
            raise StopIteration
        o = ort.SessionOptions()
        o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        s = ort.InferenceSession(model.SerializeToString(), o, providers=["CPUExecutionProvider"])
        out = s.run(None, {i.name: a for i, a in zip(s.get_inputs(), inputs)})
    except StopIteration:
        pass
    except Exception as e:  # noqa: BLE001
        print(name, "left out:", str(e)[:150])
        return
    d = os.path.join(HERE, name)
    shutil.rmtree(d, ignore_errors=True)
    os.mkdir(d)
    onnx.save(model, os.path.join(d, "model.onnx"))
    for i, a in enumerate(inputs):
        np.save(os.path.join(d, f"input_{i}.npy"), a)
    for i, a in enumerate(out):
        np.save(os.path.join(d, f"output_{i}.npy"), a)


def model(nodes, ins, outs, opset, inits=(), functions=(), domains=(), ir=None):
    g = h.make_graph(nodes, "g", ins, outs, [nh.from_array(a, n) for n, a in inits])
    ops = [h.make_opsetid("", opset)] + [h.make_opsetid(d, v) for d, v in domains]
    if ir is None:
        ir = 3 if opset <= 8 else 10 if opset >= 21 or functions else 8
    if ir == 3:
        g.input.extend(info(n, a) for n, a in inits)
    return h.make_model(g, opset_imports=ops, ir_version=ir, functions=functions)


def one(op, opset, inputs, attrs=None, consts=(), nout=1, sym=False, ml=0, name=None, dtype=T.FLOAT, outs=None):
    """A model of one node. None in consts is an input that is left out."""
    names = [f"x{i}" for i in range(len(inputs))]
    args, inits = list(names), []
    for i, c in enumerate(consts):
        args.append("" if c is None else f"c{i}")
        if c is not None:
            inits.append((f"c{i}", np.asarray(c)))
    ys = outs or [f"y{i}" for i in range(nout)]
    node = h.make_node(op, args, ys, name="n", domain="ai.onnx.ml" if ml else "", **(attrs or {}))
    m = model([node], [info(n, a, sym) for n, a in zip(names, inputs)],
              [h.make_empty_tensor_value_info(y) for y in ys if y], opset, inits,
              domains=[("ai.onnx.ml", ml)] if ml else ())
    for o, t in zip(m.graph.output, dtype if isinstance(dtype, list) else [dtype] * 8):
        o.type.tensor_type.elem_type = t
    save(name or f"{op.lower()}_{opset}", m, inputs)


def f32(*shape):
    return rng.standard_normal(shape).astype(np.float32)


x34 = f32(2, 3, 4)
i64 = np.int64

# limits and ratios that were attributes
one("Clip", 7, [np.array([-np.inf, -2, 0, 5, np.inf], np.float32)], name="clip_7_defaults")
one("Clip", 10, [x34], {"min": -0.5}, name="clip_10_min")
one("Dropout", 10, [x34], {"ratio": 0.3})
one("Dropout", 12, [x34], consts=[np.float32(0.3)])

# axes that were attributes
for opset in (7, 11):
    one("Squeeze", opset, [f32(1, 3, 1)], {"axes": [0, 2]})
    one("Unsqueeze", opset, [f32(3)], {"axes": [0, 2]})
one("Squeeze", 12, [f32(1, 3, 1)], name="squeeze_12_all")
one("Unsqueeze", 12, [f32(3)], {"axes": [-1, 0]})
for op in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"):
    one("Reduce" + op, 7, [np.abs(x34)], {"axes": [1], "keepdims": 0})
    one("Reduce" + op, 13 if op != "Sum" else 12, [np.abs(x34)], {"axes": [-1, 0]})
one("ReduceMean", 11, [x34], name="reducemean_11_all")

one("Split", 7, [x34], {"axis": 2}, nout=2, name="split_7_equal")
one("Split", 11, [x34], {"axis": -1, "split": [1, 3]}, nout=2)
one("Split", 13, [x34], {"axis": 2}, nout=2, name="split_13_equal")
one("Split", 18, [x34], {"axis": 2, "num_outputs": 3}, nout=3, name="split_18_uneven")
one("Slice", 9, [x34], {"starts": [0, -3], "ends": [1, 1000], "axes": [0, 2]})
one("Slice", 7, [x34], {"starts": [1, 0], "ends": [2, -1]}, name="slice_7_no_axes")
one("Pad", 7, [x34], {"pads": [0, 1, 0, 0, 0, 2], "value": 1.5})
one("Pad", 10, [x34], {"pads": [0, 1, 0, 0, 0, 2], "mode": "reflect"}, name="pad_10_reflect")
one("Pad", 11, [x34], {"mode": "edge"}, consts=[np.array([0, 1, 0, 0, 0, 2], i64)], name="pad_11_edge")
one("TopK", 7, [x34], {"k": 2, "axis": 1}, nout=2, dtype=[T.FLOAT, T.INT64])
one("TopK", 10, [x34], consts=[np.array([2], i64)], nout=2, dtype=[T.FLOAT, T.INT64])

# one axis, or all from it on
for op in ("Softmax", "LogSoftmax", "Hardmax"):
    one(op, 7, [x34], {"axis": 1}, name=f"{op.lower()}_7_axis1")
    one(op, 11, [x34], {"axis": -2}, name=f"{op.lower()}_11_axis_2", sym=True)
    one(op, 12, [x34], {"axis": 0}, name=f"{op.lower()}_12_axis0")
    one(op, 12, [f32(4, 3)], name=f"{op.lower()}_12_rank2", sym=True)
    one(op, 13, [x34], name=f"{op.lower()}_13_default")

# resampling
img = f32(1, 2, 3, 4)
up, down = np.array([1, 1, 2, 3], np.float32), np.array([1, 1, 0.6, 0.5], np.float32)
one("Upsample", 7, [img], {"scales": [1.0, 1.0, 2.0, 3.0], "mode": "nearest"})
one("Upsample", 8, [img], {"scales": [1.0, 1.0, 2.0, 1.5], "mode": "linear"}, name="upsample_8_linear")
one("Upsample", 9, [img], {"mode": "linear"}, consts=[up], name="upsample_9_linear")
one("Resize", 10, [img], {"mode": "nearest"}, consts=[up], name="resize_10_up")
one("Resize", 10, [img], {"mode": "nearest"}, consts=[down], name="resize_10_down")
one("Resize", 10, [img], {"mode": "linear"}, consts=[down], name="resize_10_linear")
empty = np.zeros(0, np.float32)
one("Resize", 11, [img], {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    consts=[empty, empty, np.array([1, 2, 5, 7], i64)], name="resize_11_sizes")
one("Resize", 18, [img], {"mode": "cubic", "axes": [2, 3]}, consts=[None, np.array([1.5, 2], np.float32)],
    name="resize_18_axes")
one("Resize", 19, [img], {"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"},
    consts=[None, np.array([1, 1, 1.4, 0.8], np.float32)], name="resize_19_symmetric")

# normalisation
bn = [f32(2), f32(2), f32(2), np.abs(f32(2)) + 1]
one("BatchNormalization", 7, [img], {"epsilon": 1e-3}, consts=bn)
one("BatchNormalization", 9, [img], consts=bn)
one("BatchNormalization", 14, [img], {"training_mode": 1, "momentum": 0.8}, consts=bn, nout=3)
one("GroupNormalization", 18, [f32(2, 6, 3)], {"num_groups": 3}, consts=[f32(3), f32(3)])
one("GroupNormalization", 18, [f32(2, 6, 3)], {"num_groups": 3}, consts=[f32(3), f32(3)], sym=True,
    name="groupnormalization_18_symbolic")
one("GroupNormalization", 21, [f32(2, 6, 3)], {"num_groups": 3}, consts=[f32(6), f32(6)])

# names and defaults
one("Scatter", 9, [f32(3, 3)], {"axis": 1}, consts=[np.array([[1, 0]]), np.array([[5, 6]], np.float32)])
one("GridSample", 16, [img], {"mode": "bilinear"}, consts=[np.clip(f32(1, 2, 2, 2), -1, 1)])
words = nh.from_array(np.array(["b", "a", "zz"], dtype=object), "words")
m = model([h.make_node("LabelEncoder", ["words"], ["k"], "n", domain="ai.onnx.ml", classes_strings=["a", "b"],
                       default_int64=-7), h.make_node("Add", ["k", "x"], ["y"], "add")],
          [h.make_tensor_value_info("x", T.INT64, [3])], [h.make_tensor_value_info("y", T.INT64, [3])], 9,
          domains=[("ai.onnx.ml", 1)])
m.graph.initializer.append(words)
save("labelencoder_1", m, [np.array([10, 20, 30])])
one("Cast", 9, [x34 * 3], {"to": T.INT32}, dtype=T.INT32)
one("Add", 7, [x34], consts=[f32(4)])
one("Gemm", 7, [f32(2, 3)], {"transB": 1}, consts=[f32(4, 3), f32(4)])
one("AveragePool", 7, [img], {"kernel_shape": [2, 2], "pads": [1, 1, 0, 0]})
one("MaxPool", 8, [img], {"kernel_shape": [2, 2]}, nout=2, dtype=[T.FLOAT, T.INT64])
one("Equal", 7, [np.array([1, 2, 3])], consts=[np.array([1, 0, 3])], dtype=T.BOOL)
one("ArgMax", 7, [x34], {"axis": 1}, dtype=T.INT64)
one("Reshape", 7, [x34], consts=[np.array([0, -1])])
one("PRelu", 7, [x34], consts=[f32(4)])
one("Sum", 7, [x34, x34 + 1, x34 * 2])
for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
    one(op, 7, [f32(3, 2, 4)], {"hidden_size": 5}, consts=[f32(1, gates * 5, 4), f32(1, gates * 5, 5)], outs=["y0", "y1"])


# forms of Constant
def constant(name, y, **kw):
    return h.make_node("Constant", [], [y], name, **kw)


sparse = h.make_sparse_tensor(h.make_tensor("v", T.FLOAT, [2], [3.0, 4.0]), h.make_tensor("i", T.INT64, [2], [1, 5]), [2, 3])
nodes = [constant("a", "a", value_int=2), constant("b", "b", value_ints=[3, 1]), constant("c", "c", value_float=0.5),
         constant("s", "s", sparse_value=sparse), h.make_node("Tile", ["x", "b"], ["t"], "tile"),
         h.make_node("Mul", ["t", "c"], ["u"], "mul"), h.make_node("Gather", ["u", "a"], ["v"], "gather", axis=0),
         h.make_node("Add", ["v", "s"], ["y"], "add")]
save("constant_13_forms", model(nodes, [info("x", f32(1, 3))], [h.make_tensor_value_info("y", T.FLOAT, [2, 3])], 13), [f32(1, 3)])

# functions
F = "local"


def function(name, ins, outs, nodes, attrs=(), protos=(), imports=()):
    ops = [h.make_opsetid("", 17)] + [h.make_opsetid(d, 1) for d in imports]
    return h.make_function(F, name, ins, outs, nodes, ops, list(attrs), list(protos))


def ref(node, name, of, t):
    a = node.attribute.add()
    a.name, a.ref_attr_name, a.type = name, of, t
    return node


leaky = function("Leaky", ["x"], ["y"], [ref(h.make_node("LeakyRelu", ["x"], ["t"]), "alpha", "slope", 1),
                                         h.make_node("Neg", ["t"], ["y"])], ["slope"])
scaled = function("Scaled", ["x"], ["y"], [ref(h.make_node("Constant", [], ["k"]), "value_float", "k", 1),
                                           h.make_node("Mul", ["x", "k"], ["t"]),
                                           ref(h.make_node("Leaky", ["t"], ["y"], domain=F), "slope", "k", 1)],
                  protos=[h.make_attribute("k", 0.25)], imports=[F])
swap = function("Swap", ["a", "b"], ["b2", "a"], [h.make_node("Identity", ["b"], ["b2"])])
both = h.make_graph([h.make_node("Add", ["x", "p"], ["r"], "t")], "then", [], [h.make_empty_tensor_value_info("r")])
none = h.make_graph([h.make_node("Sub", ["x", "p"], ["r"], "t")], "else", [], [h.make_empty_tensor_value_info("r")])
for g in (both, none):
    g.output[0].type.tensor_type.elem_type = T.FLOAT
branch = function("Branch", ["c", "x"], ["y"], [h.make_node("Neg", ["x"], ["p"]),
                                               h.make_node("If", ["c"], ["y"], then_branch=both, else_branch=none)])
fy = [h.make_tensor_value_info("y", T.FLOAT, None), h.make_tensor_value_info("z", T.FLOAT, None)]
nodes = [h.make_node("Scaled", ["x"], ["t"], "one", domain=F), h.make_node("Scaled", ["t"], ["u"], "two", domain=F, k=2.0),
         h.make_node("Leaky", ["u"], ["y"], "three", domain=F, slope=0.5)]
save("function_attributes", model(nodes, [info("x", f32(5))], fy[:1], 17, functions=[leaky, scaled], domains=[(F, 1)]), [f32(5)])
nodes = [h.make_node("Neg", ["x"], ["b2"], "neg"), h.make_node("Swap", ["x", "b2"], ["y", "z"], "swap", domain=F)]
a = f32(5)
save("function_passes_through", model(nodes, [info("x", a)], fy, 17, functions=[swap], domains=[(F, 1)]), [a], [-a, a])
nodes = [h.make_node("Branch", ["c", "x"], ["y"], "b1", domain=F), h.make_node("Not", ["c"], ["p"], "not"),
         h.make_node("Branch", ["p", "y"], ["z"], "b2", domain=F)]
save("function_body", model(nodes, [info("c", np.array(True)), info("x", f32(5))], fy, 17, functions=[branch], domains=[(F, 1)]),
     [np.array(True), f32(5)])


# bodies
def body(name, nodes, ins, outs, inits=()):
    return h.make_graph(nodes, name, ins, outs, [nh.from_array(a, n) for n, a in inits])


v = h.make_tensor_value_info
inner = body("inner", [h.make_node("Add", ["x", "k"], ["i"], "add"), h.make_node("Mul", ["i", "deep"], ["ir"], "mul")], [],
             [v("ir", T.FLOAT, None)], [("k", np.float32([10]))])
other = body("other", [h.make_node("Identity", ["deep"], ["or"], "id")], [], [v("or", T.FLOAT, None)])
outer = body("outer", [h.make_node("Neg", ["x"], ["deep"], "neg"),
                       h.make_node("If", ["c2"], ["r"], "if2", then_branch=inner, else_branch=other)], [], [v("r", T.FLOAT, None)])
plain = body("plain", [h.make_node("Abs", ["x"], ["r"], "abs")], [], [v("r", T.FLOAT, None)])
nodes = [h.make_node("Relu", ["x0"], ["x"], "relu"), h.make_node("If", ["c1"], ["y"], "if1", then_branch=outer, else_branch=plain)]
ins = [info("x0", f32(4)), info("c1", np.array(True)), info("c2", np.array(True))]
for opset in (7, 13, 21):
    for c2 in (True, False):
        save(f"if_nested_{opset}_{c2}".lower(), model(nodes, ins, [v("y", T.FLOAT, None)], opset, ir=8),
             [f32(4), np.array(True), np.array(c2)])
loop = body("body", [h.make_node("Add", ["s_in", "x"], ["s_out"], "add"), h.make_node("Identity", ["c_in"], ["c_out"], "id"),
                     h.make_node("Softmax", ["s_out"], ["scan"], "soft", axis=0)],
            [v("i", T.INT64, []), v("c_in", T.BOOL, []), v("s_in", T.FLOAT, None)],
            [v("c_out", T.BOOL, []), v("s_out", T.FLOAT, None), v("scan", T.FLOAT, None)])
nodes = [h.make_node("Loop", ["m", "", "x"], ["y", "z"], "loop", body=loop)]
for opset in (7, 11, 16):
    save(f"loop_{opset}", model(nodes, [info("x", f32(2, 3))], fy, opset, [("m", np.array(3))], ir=8), [f32(2, 3)])
scan = body("body", [h.make_node("Add", ["s_in", "e"], ["s_out"], "add"), h.make_node("Mul", ["s_out", "k"], ["o"], "mul")],
            [v("s_in", T.FLOAT, [2]), v("e", T.FLOAT, [2])], [v("s_out", T.FLOAT, [2]), v("o", T.FLOAT, [2])])
nodes = [h.make_node("Scan", ["s", "x"], ["y", "z"], "scan", body=scan, num_scan_inputs=1)]
for opset in (9, 11, 16):
    save(f"scan_{opset}", model(nodes, [info("s", f32(2)), info("x", f32(3, 2))], fy, opset, [("k", np.float32([3]))]),
         [f32(2), f32(3, 2)])

# an order that only the names give
nodes = [h.make_node("Add", ["b", "a"], ["y"], "last"), h.make_node("Neg", ["a"], ["b"], "second"), h.make_node("Abs", ["x"], ["a"], "first")]
save("unsorted", model(nodes, [info("x", f32(3))], fy[:1], 13), [f32(3)])
# sizes from shapes, with a dim that is a symbol
nodes = [h.make_node("Shape", ["x"], ["s"], "shape"), h.make_node("Gather", ["s", "zero"], ["n"], "gather"),
         h.make_node("Unsqueeze", ["n"], ["n1"], "unsqueeze", axes=[0]), h.make_node("Concat", ["n1", "rest"], ["to"], "concat", axis=0),
         h.make_node("Reshape", ["x", "to"], ["y"], "reshape")]
save("shape_arithmetic", model(nodes, [v("x", T.FLOAT, ["batch", 2, 3])], fy[:1], 11, [("zero", np.array(0)), ("rest", np.array([6]))]),
     [f32(4, 2, 3)])
