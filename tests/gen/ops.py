#!/usr/bin/env python3
"""Cases of single ops for tests/unit/ops.c, from ONNX's own backend tests (pip install onnx).

    tests/gen/ops.py OUT.gg MAX OP... -TEXT...    cases whose tensors have at most MAX elements and
                                                  whose names have none of the texts in them

Each case is a graph of constants: the inputs, one node, and want0, want1, ... for its outputs.
"""
import sys
import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.backend.test.case import node as cases

NAMES = {1: "f32", 11: "f64", 10: "f16", 16: "bf16", 17: "f8e4m3", 19: "f8e5m2", 7: "i64", 6: "i32", 5: "i16",
         3: "i8", 13: "u64", 12: "u32", 4: "u16", 2: "u8", 22: "i4", 21: "u4", 9: "bool", 14: "c64", 8: "string"}


# Cases that are left out, and why.
ELSEWHERE = {
    "test_averagepool_2d_ceil_last_window_starts_on_pad": "answers of four digits",
    "test_gridsample_bicubic": "answers of four digits",
    "test_resize_downsample_scales_cubic_align_corners": "takes input * scale for length_resized, which the standard's "
    "text and onnxruntime take for the length of the output",
    "test_resize_downsample_scales_linear_align_corners": "the same",
}


class Skip(Exception):
    pass


def number(x):
    if isinstance(x, (str, bytes, np.str_)):
        s = x.decode() if isinstance(x, bytes) else str(x)
        return '"' + s.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(x, (bool, np.bool_)):
        return "true" if x else "false"
    if isinstance(x, (int, np.integer)):
        return str(int(x))
    x = float(x)
    return "nan" if x != x else "inf" if x == np.inf else "-inf" if x == -np.inf else repr(x)


def typed(t, array):
    if t not in NAMES:
        raise Skip(f"dtype {t}")
    return f"{NAMES[t]}[{', '.join(map(str, array.shape))}]"


def literal(array):
    short = array.dtype == np.float32
    return "[" + ", ".join(number(float(f"{x:.9g}") if short else x) for x in array.reshape(-1).tolist()) + "]"


def tensor(t):
    """dtype code and values of a TensorProto or an array."""
    if isinstance(t, onnx.TensorProto):
        a = numpy_helper.to_array(t)
        return t.data_type, a.astype(np.float64) if t.data_type in (16, 17, 19) else a
    a = np.asarray(t)
    if a.dtype == object or a.dtype.kind in "US":
        return 8, a
    code = helper.np_dtype_to_tensor_dtype(a.dtype)
    return code, a.astype(np.float64) if code in (16, 17, 19) else a.astype(np.int64) if code in (21, 22) else a


def attribute(a):
    v = helper.get_attribute_value(a)
    if a.name in ("dtype", "to", "output_dtype", "precision"):
        if v not in NAMES:
            raise Skip(f"dtype {v}")
        return f"{a.name}={NAMES[v]}"
    if isinstance(v, onnx.TensorProto):
        t, x = tensor(v)
        return f"{a.name}={typed(t, x)} = {literal(x)}"
    if isinstance(v, (list, tuple)) or type(v).__name__.startswith("Repeated"):
        return f"{a.name}=[{', '.join(number(x) for x in v)}]"
    if isinstance(v, onnx.GraphProto):
        raise Skip("body")
    return f"{a.name}={number(v)}"


def case(c, ops, most):
    g = c.model.graph
    if c.name in ELSEWHERE:
        raise Skip(ELSEWHERE[c.name])
    if len(g.node) != 1 or g.node[0].op_type not in ops or g.initializer or not c.data_sets:
        raise Skip("another op")
    n = g.node[0]
    opset = next(o.version for o in c.model.opset_import if o.domain == n.domain)
    if (onnx.defs.get_schema(n.op_type, opset, n.domain).since_version !=
            onnx.defs.get_schema(n.op_type, domain=n.domain).since_version):
        raise Skip("another op")
    xs, ys = c.data_sets[0]
    lines, given = [f'graph "{c.name}"'], {}
    for i, x in zip(g.input, xs):
        if not isinstance(x, (np.ndarray, np.generic, onnx.TensorProto)):
            raise Skip("no tensor")
        t, a = tensor(x)
        given[i.name] = f"%x{len(given)}"
        lines.append(f"const {given[i.name]} : {typed(t, a)} = {literal(a)}")
        if a.size > most:
            raise Skip("large")
    args = ", ".join(given[i] if i else "_" for i in n.input)
    outs = [f"%y{k}" if o else "_" for k, o in enumerate(n.output)]
    attrs = ", ".join(attribute(a) for a in n.attribute)
    lines.append(f"{', '.join(outs)} = {n.op_type}({args}){' {' + attrs + '}' if attrs else ''}")
    for o, y in zip([o for o in outs if o != "_"], ys):
        t, a = tensor(y)
        if a.size > most:
            raise Skip("large")
        lines.append(f"const %want{o[2:]} : {typed(t, a)} = {literal(a)}")
    lines += [f"output {o}" for o in outs if o != "_"]
    return "\n".join(lines) + "\n"


def main():
    out, most, ops = sys.argv[1], int(sys.argv[2]), set(sys.argv[3:])
    without = [a[1:] for a in sys.argv[3:] if a[0] == "-"]
    texts = []
    for c in sorted(cases.collect_testcases(None), key=lambda c: c.name):
        if any(t in c.name for t in without):
            continue
        try:
            texts.append(case(c, ops, most))
        except Skip as e:
            if str(e) not in ("another op", "large"):
                print(f"{c.name}: {e}", file=sys.stderr)
    with open(out, "w") as f:
        f.write("# Written by tests/gen/ops.py from ONNX's backend tests.\n" + "\n".join(texts))
    print(f"{out}: {len(texts)} cases", file=sys.stderr)


main()
