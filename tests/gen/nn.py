#!/usr/bin/env python3
"""Neural network ops on awkward shapes and attributes, with onnxruntime's answers (pip install onnx onnxruntime).

    tests/gen/nn.py > tests/data/ops/nn.gg

f16 and f32 cases run in f32 or f64 there where onnxruntime lacks the dtype; what it reads otherwise
than the standard is left out, each with the reason beside it.
"""
import sys
import numpy as np
import onnxruntime as ort
from onnx import helper as h

NAMES = {"float64": "f64", "float32": "f32", "float16": "f16", "int64": "i64", "int32": "i32", "int8": "i8",
         "uint8": "u8"}
rng = np.random.default_rng(11)
count = 0


def number(x):
    if isinstance(x, str):
        return f'"{x}"'
    if isinstance(x, float):
        return "nan" if x != x else "inf" if x == np.inf else "-inf" if x == -np.inf else repr(x)
    return str(x)


def const(name, a):
    return f"const %{name} : {NAMES[str(a.dtype)]}[{', '.join(map(str, a.shape))}] = " \
           f"[{', '.join(number(float(f'{x:.9g}') if a.dtype == np.float32 else x) for x in a.reshape(-1).tolist())}]"


def attribute(v):
    return f"[{', '.join(number(x) for x in v)}]" if isinstance(v, list) else number(v)


def answers(op, inputs, outs, attrs, opset):
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
    ins = [h.make_tensor_value_info(k, h.np_dtype_to_tensor_dtype(x.dtype), x.shape)
           for k, x in zip(names, inputs) if k]
    ys = [f"y{i}" if i in outs else "" for i in range(max(outs) + 1)]
    g = h.make_graph([h.make_node(op, names, ys, **attrs)], "g", ins,
                     [h.make_empty_tensor_value_info(y) for y in ys if y])
    m = h.make_model(g, opset_imports=[h.make_opsetid("", opset)], ir_version=10)
    o = ort.SessionOptions()
    o.log_severity_level = 4
    s = ort.InferenceSession(m.SerializeToString(), o, providers=["CPUExecutionProvider"])
    return ys, s.run(None, {k: x for k, x in zip(names, inputs) if k})


def case(op, inputs, outs=(0,), opset=22, shown=None, **attrs):
    """shown: what the case computes with instead of inputs, whose answers hold for it after rounding."""
    global count
    count += 1
    for o in opset, 21, 13:  # onnxruntime has not all ops in their newest form; these did not change
        try:
            ys, want = answers(op, inputs, outs, attrs, o)
            break
        except Exception as e:
            if "NOT_IMPLEMENTED" not in str(e) or o == 13:
                sys.exit(f"{op}_{count} {attrs}: {e}")
    shown = shown or inputs
    print(f'graph "{op}_{count}"')
    for i, x in enumerate(shown):
        if x is not None:
            print(const(f"x{i}", x))
    args = ", ".join(f"%x{i}" if x is not None else "_" for i, x in enumerate(shown))
    left = ", ".join(f"%{y}" if y else "_" for y in ys)
    text = ", ".join(f"{k}={attribute(v)}" for k, v in attrs.items())
    print(f"{left} = {op}({args}){' {' + text + '}' if text else ''}")
    for y, w in zip([y for y in ys if y], want):
        same = shown[0] is not inputs[0] and w.dtype == inputs[0].dtype
        print(const("want" + y[1:], w.astype(shown[0].dtype) if same else w))
    for y in ys:
        if y:
            print(f"output %{y}")
    print()


def f32(*shape):
    """Eighths: onnxruntime's sums in f32 are then exact."""
    return (np.round(rng.standard_normal(shape) * 8) / 8).astype(np.float32)


def half(op, inputs, **k):
    """The same in f16: inputs that f16 holds exactly, answers of f32 rounded once."""
    small = [None if x is None else x.astype(np.float16) for x in inputs]
    case(op, [None if x is None else x.astype(np.float32) for x in small], shown=small, **k)


def conv():
    for rank, k, a in [
        (1, [3], dict(strides=[2], pads=[2, 1], dilations=[2])),
        (1, [1], {}),
        (1, [5], dict(auto_pad="SAME_LOWER", strides=[3])),
        (2, [3, 2], dict(group=2, strides=[2, 1], pads=[1, 0, 2, 1])),
        (2, [2, 3], dict(auto_pad="SAME_UPPER", strides=[2, 3])),
        (2, [3, 3], dict(auto_pad="VALID", dilations=[1, 2])),
        (2, [1, 1], dict(strides=[2, 2])),
        (3, [2, 1, 3], dict(group=4, pads=[1, 0, 1, 0, 0, 2], strides=[1, 2, 1])),
    ]:
        g = a.get("group", 1)
        x, w, b = f32(2 if rank < 2 else 1, 4, *[6, 5, 4][:rank]), f32(4, 4 // g, *k), f32(4)
        case("Conv", [x, w, b], kernel_shape=k, **a)
        if rank < 3:
            half("Conv", [x, w], **a)
    case("Conv", [f32(0, 2, 4), f32(3, 2, 2)])
    x, w = f32(1, 1, 3, 3), f32(2, 1, 2, 2)
    case("Conv", [x, w], shown=[x.astype(np.float64), w.astype(np.float64)])
    u8 = rng.integers(0, 256, (1, 2, 5, 4)).astype(np.uint8)
    w8 = rng.integers(-128, 128, (3, 2, 2, 3)).astype(np.int8)
    case("ConvInteger", [u8, w8.view(np.uint8), np.array(7, np.uint8), np.array(100, np.uint8)], pads=[1, 1, 0, 1])
    s = lambda v: np.array(v, np.float32)
    case("QLinearConv", [u8, s(0.02), np.array(128, np.uint8), w8, s([0.03, 0.01, 0.05]), np.zeros(3, np.int8), s(0.5),
                         np.array(3, np.uint8), rng.integers(-900, 900, 3).astype(np.int32)], strides=[2, 1])


def conv_transpose():
    for rank, k, a in [
        (1, [3], dict(strides=[2], output_padding=[1], pads=[1, 0])),
        (1, [2], dict(strides=[3], output_shape=[11])),
        (2, [3, 2], dict(group=2, strides=[2, 1], pads=[1, 0, 1, 1], dilations=[1, 2])),
        (2, [3, 3], dict(auto_pad="SAME_LOWER", strides=[2, 2])),
        (2, [2, 2], dict(auto_pad="VALID", strides=[1, 3])),
        (2, [3, 3], dict(auto_pad="SAME_UPPER", strides=[2, 2], output_shape=[9, 8])),
        (3, [2, 3, 1], dict(strides=[1, 2, 2], pads=[0, 1, 0, 1, 1, 0])),
    ]:
        g = a.get("group", 1)
        x, w, b = f32(1, 4, *[5, 4, 3][:rank]), f32(4, 2, *k), f32(2 * g)
        case("ConvTranspose", [x, w, b], **a)
    half("ConvTranspose", [f32(1, 2, 3, 2), f32(2, 1, 2, 2)], strides=[2, 2])


def pools():
    x1, x2, x3 = f32(2, 2, 9), f32(1, 3, 7, 6), f32(1, 2, 5, 4, 6)
    plans = [
        (x1, dict(kernel_shape=[3], strides=[2], pads=[1, 1])),
        (x1, dict(kernel_shape=[4], strides=[3], ceil_mode=1)),
        (x2, dict(kernel_shape=[3, 2], strides=[2, 2], auto_pad="SAME_LOWER")),
        (x2, dict(kernel_shape=[2, 3], strides=[3, 2], ceil_mode=1, pads=[1, 1, 0, 1])),
        (x2, dict(kernel_shape=[2, 2], dilations=[2, 3], auto_pad="VALID")),
        (x3, dict(kernel_shape=[2, 2, 3], strides=[2, 1, 2], pads=[1, 0, 1, 0, 1, 1])),
        (x3, dict(kernel_shape=[3, 2, 2], dilations=[1, 2, 2], ceil_mode=1, strides=[2, 2, 2])),
    ]
    for x, a in plans:
        # storage_order 1 below: onnxruntime's index is that of the standard for two spatial axes
        case("MaxPool", [x], outs=(0, 1), **a)
        case("AveragePool", [x], count_include_pad=0, **a)
        case("LpPool", [x], p=3, **a)
        half("AveragePool", [x], **a)
    case("AveragePool", [x2], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1)
    case("MaxPool", [x2], outs=(0, 1), storage_order=1, kernel_shape=[2, 2])
    case("MaxPool", [rng.integers(-128, 128, (1, 1, 5, 5)).astype(np.int8)], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    for op in "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool":
        case(op, [x3])
        half(op, [x1])
    case("GlobalLpPool", [x2], p=1)


def norms():
    x = f32(3, 4, 5, 2)
    case("BatchNormalization", [x, f32(4), f32(4), f32(4), np.abs(f32(4))], epsilon=1e-2)
    case("BatchNormalization", [f32(5, 3), f32(3), f32(3), f32(3), np.abs(f32(3))])
    case("BatchNormalization", [x, f32(4), f32(4), f32(4), np.abs(f32(4))], outs=(0, 1, 2), training_mode=1, momentum=0.75)
    case("InstanceNormalization", [x, f32(4), f32(4)])
    case("InstanceNormalization", [f32(2, 3, 7), f32(3), f32(3)], epsilon=0.5)
    case("GroupNormalization", [x, f32(4), f32(4)], num_groups=2)
    case("GroupNormalization", [f32(2, 6, 3), f32(6), f32(6)], num_groups=3, epsilon=0.25)
    for axis in -1, 1, 0, 2:
        case("LayerNormalization", [x, f32(*x.shape[axis:]), f32(*x.shape[axis:])], outs=(0, 1, 2), axis=axis)
    case("LayerNormalization", [x, f32(5, 1), f32(2)], axis=2)
    case("LayerNormalization", [x, f32(2)])
    case("RMSNormalization", [x, f32(2)], opset=23)
    case("RMSNormalization", [x, f32(5, 2)], opset=23, axis=-2, epsilon=0.5)
    case("LRN", [f32(2, 7, 3)[..., None]], size=5, alpha=0.5, beta=0.6, bias=2.0)
    case("LRN", [f32(1, 2, 2, 3)], size=9)
    for p in 1, 2:
        case("LpNormalization", [x], p=p, axis=1)
    case("MeanVarianceNormalization", [x])
    case("MeanVarianceNormalization", [x], axes=[0, 2])
    for op in "Softmax", "LogSoftmax", "Hardmax":
        case(op, [x])
        case(op, [f32(4, 1, 3)], axis=1)
        case(op, [np.round(f32(3, 4))], axis=0)
        case(op, [f32(0, 3)])
    half("Softmax", [f32(2, 5)])
    case("LogSoftmax", [np.array([[1e4, 0, -1e4], [-300, -300, 300]], np.float32)])
    case("Softmax", [np.array([[np.inf, 1], [-np.inf, 2], [np.nan, 0], [3, 3]], np.float32)])


def recurrent():
    seq, batch, size, hidden = 4, 3, 2, 5
    for op, gates, funcs, extra in ("RNN", 1, 1, {}), ("GRU", 3, 2, dict(linear_before_reset=1)), ("LSTM", 4, 3, {}):
        outs = (0, 1, 2) if op == "LSTM" else (0, 1)

        def inputs(dirs, lens=None):
            state = [f32(dirs, batch, hidden) for _ in outs[1:]]
            return [f32(seq, batch, size), f32(dirs, gates * hidden, size), f32(dirs, gates * hidden, hidden),
                    f32(dirs, 2 * gates * hidden), lens] + state
        lens = np.array([4, 1, 3], np.int32)
        case(op, inputs(1)[:3], outs, hidden_size=hidden)
        case(op, inputs(1), outs[1:], hidden_size=hidden, direction="reverse", **extra)
        case(op, inputs(2, lens), outs, hidden_size=hidden, direction="bidirectional")
        case(op, inputs(2, lens), outs, hidden_size=hidden, direction="bidirectional", **extra)
        # onnxruntime drops the rest of the parameters where an activation takes only alpha
        case(op, inputs(1, lens), outs, hidden_size=hidden, clip=0.75,
             activations=["HardSigmoid", "ScaledTanh", "Affine"][:funcs],
             activation_alpha=[0.3, 1.25, 0.5][:funcs], activation_beta=[0.4, 0.75, 0.125][:funcs])
        case(op, inputs(1), outs, hidden_size=hidden, activations=["Sigmoid", "LeakyRelu", "Softsign"][:funcs],
             activation_alpha=[0.25])
    x = inputs(1) + [f32(1, 3 * hidden)]
    case("LSTM", x, (0, 1, 2), hidden_size=hidden)
    case("LSTM", x[:4] + [None, None, None, x[7]], (0, 2), hidden_size=hidden, input_forget=1)


def resize():
    x = f32(1, 1, 5, 4)
    up, down = np.array([1.6, 2.5], np.float32), np.array([0.6, 0.75], np.float32)
    size = np.array([7, 3], np.int64)
    for how in "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric":
        a = dict(opset=19, axes=[2, 3], coordinate_transformation_mode=how)
        for mode in "nearest", "linear", "cubic":
            case("Resize", [x, None, down], mode=mode, **a)
            case("Resize", [x, None, None, size], mode=mode, **a)
        for r in "round_prefer_floor", "round_prefer_ceil", "floor", "ceil":
            case("Resize", [x, None, up], nearest_mode=r, **a)
    case("Resize", [x, None, down], opset=19, axes=[2, 3], mode="cubic", exclude_outside=1, cubic_coeff_a=-0.5)
    roi = np.array([0, 0, 0.2, -0.3, 1, 1, 0.9, 1.1], np.float32)
    case("Resize", [x, roi, None, np.array([1, 1, 7, 3], np.int64)], opset=19, mode="linear", extrapolation_value=9.5,
         coordinate_transformation_mode="tf_crop_and_resize")
    for policy in "not_larger", "not_smaller":
        case("Resize", [x, None, None, np.array([7, 9], np.int64)], opset=19, mode="nearest", axes=[2, 3],
             keep_aspect_ratio_policy=policy)
    case("Resize", [f32(1, 1, 9), None, np.array([1, 1, 0.5], np.float32)], opset=19)


for group in conv, conv_transpose, pools, norms, recurrent, resize:
    group()
