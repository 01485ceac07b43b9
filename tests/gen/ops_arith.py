#!/usr/bin/env python3
"""Arithmetic at the edges for tests/unit/ops.c: small floats, extreme integers, NaN, empty shapes.

    tests/gen/ops_arith.py > tests/data/ops/edges.gg      (needs numpy and ml_dtypes)

Floats are computed by numpy in float64 and rounded once; integers by Python, wrapped.
"""
import math
import ml_dtypes
import numpy as np
from cases import case

rng = np.random.default_rng(11)
bf16, e4m3, e5m2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
nan, inf = math.nan, math.inf
np.seterr(all="ignore")


def wrapped(values, dtype, shape):
    """Python integers as numpy would wrap them."""
    bits, signed = np.iinfo(dtype).bits, np.iinfo(dtype).min < 0
    low = [int(v) % 2**bits for v in values]
    return np.array([v - 2**bits if signed and v >= 2 ** (bits - 1) else v for v in low], dtype).reshape(shape)


def floats():
    x = np.array([nan, inf, -inf, -0.0, 0.0, 1e-7, -1.5, 2.5, 3.5, 0.333, 60000.0, -7.0])
    y = np.array([1.0, 0.0, 2.0, 0.0, -0.0, 3e-5, 0.1, -2.0, nan, 7.0, 60000.0, inf])
    two = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Min": np.minimum,
           "Max": np.maximum, "Pow": np.power}
    one = {"Abs": np.abs, "Neg": np.negative, "Sign": np.sign, "Sqrt": np.sqrt, "Exp": np.exp, "Floor": np.floor,
           "Ceil": np.ceil, "Round": np.rint, "Tanh": np.tanh, "Reciprocal": lambda v: 1 / v,
           "Sigmoid": lambda v: 1 / (1 + np.exp(-v)), "Softplus": lambda v: np.logaddexp(v, 0),
           "LeakyRelu": lambda v: np.where(v < 0, np.float32(0.01) * v, v), "Relu": lambda v: np.where(v < 0, 0, v)}
    for t in (np.float16, bf16, np.float32, np.float64):
        a, b = x.astype(t), y.astype(t)
        a64, b64 = a.astype(np.float64), b.astype(np.float64)
        for op, f in two.items():
            case(op, [a.reshape(3, 1, 4), b[:4]], [f(a64.reshape(3, 1, 4), b64[:4]).astype(t)])
            case(op, [a, b], [f(a64, b64).astype(t)])
        for op, f in one.items():
            case(op, [a], [f(a64).astype(t)])
        case("Sum", [a[:4], b[4:8].reshape(4, 1), a[8]], [(a64[:4] + b64[4:8].reshape(4, 1) + a64[8]).astype(t)])
        case("Mean", [a[3:6], b[4:5]], [((a64[3:6] + b64[4]) / 2).astype(t)])
        case("Less", [a, b], [a64 < b64])
        case("GreaterOrEqual", [a, b], [a64 >= b64])
        case("Equal", [a, a], [a64 == a64])
        case("IsNaN", [a], [np.isnan(a64)])
        case("IsInf", [a], [np.isinf(a64) & (a64 > 0)], detect_negative=0)
        case("Clip", [a, np.array(-1).astype(t), np.array(2).astype(t)], [np.clip(a64, -1, 2).astype(t)])
        case("Clip", [a, np.array(3).astype(t), np.array(2).astype(t)], [np.where(np.isnan(a64), nan, 2).astype(t)])
        case("Mod", [a[5:], b[5:]], [np.fmod(a64[5:], b64[5:]).astype(t)], fmod=1)
    # Mod's special cases, as ONNX lists them.
    case("Mod", [np.float32([0.0, -0.0, inf, 5, 5, -5, 5, -5, 7, nan]), np.float32([-3, 3, 2, 0, inf, inf, -inf, 3, -4, 1])],
         [np.float32([-0.0, 0.0, nan, nan, 5, inf, -inf, 1, -1, nan])])


def integers():
    for t in (np.int8, np.int32, np.int64, np.uint8, np.uint32, np.uint64):
        i = np.iinfo(t)
        x = np.array([i.min, i.max, 0, 7, 100, i.max - 1, i.min, 9], t)
        y = np.array([i.max, 2, 0, 3, 33, 2, i.max if i.min == 0 else -1, 0], t)
        px, py = [int(v) for v in x], [int(v) for v in y]
        div = [0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a, b in zip(px, py)]
        case("Add", [x, y], [wrapped([a + b for a, b in zip(px, py)], t, 8)])
        case("Sub", [x, y], [wrapped([a - b for a, b in zip(px, py)], t, 8)])
        case("Mul", [x, y], [wrapped([a * b for a, b in zip(px, py)], t, 8)])
        case("Div", [x, y], [wrapped(div, t, 8)])
        case("Mod", [x, y], [wrapped([a % b if b else 0 for a, b in zip(px, py)], t, 8)])
        case("Mod", [x, y], [wrapped([a - b * q if b else 0 for a, b, q in zip(px, py, div)], t, 8)], fmod=1)
        case("Max", [x, y, x[:1]], [np.maximum(np.maximum(x, y), x[:1])])
        case("Min", [x, y], [np.minimum(x, y)])
        case("Greater", [x, y], [x > y])
        case("LessOrEqual", [x.reshape(8, 1), y], [x.reshape(8, 1) <= y])
        case("Abs", [x], [wrapped([abs(a) for a in px], t, 8)])
        case("Sign", [x], [np.sign(x).astype(t)])
        case("BitwiseNot", [x], [~x])
        case("BitwiseXor", [x, y], [x ^ y])
        case("Clip", [x, t(3), t(50)], [np.clip(x, 3, 50)])
        n = np.array([0, 1, i.bits - 1, i.bits, 3, 2, i.max, 5], t)
        shifts = [int(v) for v in n]
        case("BitShift", [x, n], [wrapped([a << s if s < i.bits else 0 for a, s in zip(px, shifts)], t, 8)],
             direction='"LEFT"')
        case("BitShift", [x, n], [wrapped([a >> min(s, 200) for a, s in zip(px, shifts)], t, 8)], direction='"RIGHT"')
    case("Pow", [np.int32([2, -3, 0, 7, -1]), np.int64([31, 3, 0, -1, -5])], [np.int32([-2**31, -27, 1, 0, -1])])
    case("Pow", [np.int64([9, 2, 5]), np.float32([0.5, 0.5, 2])], [np.int64([3, 1, 25])])
    case("Pow", [np.float16([2, -2]), np.int8([3, -1])], [np.float16([8, -0.5])])


def casts():
    f = np.array([nan, inf, -inf, 0.4, -0.6, 3.9, -3.9, 448, 465, 1e6, 1.06, -2**-10, 57344, 70000])
    for t in (np.float16, bf16, e4m3, e5m2):
        sat = f.astype(np.float32).astype(t)
        if t in (e4m3, e5m2):
            case("Cast", [f.astype(np.float32)], [sat], to={"float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2"}[t.__name__],
                 saturate=0)
            top = 448.0 if t is e4m3 else 57344.0
            case("Cast", [f.astype(np.float32)], [np.clip(f, -top, top).astype(np.float32).astype(t)],
                 to={"float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2"}[t.__name__])
        else:
            case("Cast", [f], [f.astype(t)], to="bf16" if t is bf16 else "f16")
    u = np.array([0, 1, 2**53 + 1, 2**63, 2**64 - 1, 2**63 + 2**10 + 1], np.uint64)
    case("Cast", [u], [u.astype(np.float64)], to="f64")
    case("Cast", [u], [u.astype(np.float32)], to="f32")
    case("Cast", [u], [wrapped(u, np.int8, 6)], to="i8")
    case("Cast", [u], [u != 0], to="bool")
    i = np.array([2**53 + 1, -2**63, 255, -129, 2**62 + 2**37 + 1], np.int64)
    case("Cast", [i], [i.astype(np.float32)], to="f32")
    case("Cast", [i], [wrapped(i, np.int8, 5)], to="i8")
    case("Cast", [i], [wrapped(i, np.uint16, 5)], to="u16")
    case("Cast", [np.float64([-5e-324, 0.0, -0.0, nan])], [np.array([True, False, False, True])], to="bool")
    case("Cast", [np.array([True, False])], [np.array([1, 0], np.float16)], to="f16")
    case("Cast", [np.float32([1.0, 0.1, 1e-5, 3e38, nan, -inf])],
         [np.array(["1", "0.1", "1e-05", "3e+38", "NaN", "-INF"], object)], to="string")
    case("Cast", [np.int64([-2**63, 5])], [np.array(["-9223372036854775808", "5"], object)], to="string")
    case("Cast", [np.array(["1.5", "-1e3", "+INF", "nan", "16777217"], object)],
         [np.float32([1.5, -1000, inf, nan, 16777216])], to="f32")
    case("Cast", [np.array(["9223372036854775807", "-3"], object)], [np.int64([2**63 - 1, -3])], to="i64")
    case("Cast", [np.array(["18446744073709551615"], object)], [np.uint64([2**64 - 1])], to="u64")
    case("CastLike", [np.float32([1.5, -2.5]), np.zeros(0, np.int32)], [np.int32([1, -2])])
    case("Cast", [np.zeros((2, 0), np.float32)], [np.zeros((2, 0), np.int8)], to="i8")


def products():
    for a, b in (((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((5, 1, 2, 3), (4, 3, 2)),
                 ((2, 2, 3), (3,)), ((3,), (2, 3, 4)), ((2, 0), (0, 3)), ((0, 3), (3, 2)), ((2, 0, 3), (3, 2)),
                 ((1, 1), (1, 1)), ((33, 70), (70, 3)), ((3, 5), (5, 131)), ((2, 33, 5), (2, 5, 3))):
        for t in (np.float32, np.float16, bf16, np.int32, np.uint64):
            if t is not np.float32 and max(a + b) > 8:
                continue
            x, y = rng.integers(0 if t is np.uint64 else -4, 5, a), rng.integers(0 if t is np.uint64 else -4, 5, b)
            case("MatMul", [x.astype(t), y.astype(t)], [np.matmul(x, y).astype(t)])
    for ta in (0, 1):
        for tb in (0, 1):
            x, y = rng.integers(-4, 5, (3, 5)), rng.integers(-4, 5, (5, 2))
            for c in ((), (2,), (3, 1), (3, 2), (1, 1)):
                z = rng.integers(-4, 5, c)
                case("Gemm", [(x.T if ta else x).astype(np.float32), (y.T if tb else y).astype(np.float32), z.astype(np.float32)],
                     [(0.5 * (x @ y) - 2 * z).astype(np.float32)], alpha=0.5, beta=-2.0, transA=ta, transB=tb)
    x, y = rng.integers(-4, 5, (3, 5)), rng.integers(-4, 5, (5, 2))
    case("Gemm", [x.astype(np.int32), y.astype(np.int32), np.int32(7)], [(3 * (x @ y) + 7).astype(np.int32)], alpha=3.0)
    case("Gemm", [np.zeros((2, 0), np.float32), np.zeros((0, 3), np.float32), np.float32([1, 2, 3])],
         [np.float32([[1, 2, 3]] * 2)])
    case("MatMul", [np.float64([[1e16, 1, -1e16]]), np.float64([[1], [1], [1]])], [np.float64([[0]])])
    half = np.full((1, 4096), 1, np.float16)
    case("MatMul", [half, half.T.copy()], [np.float16([[4096]])])
    u, v = rng.integers(0, 255, (2, 3)).astype(np.uint8), rng.integers(-128, 127, (3, 4)).astype(np.int8)
    ints = u.astype(np.int32), v.astype(np.int32)
    case("MatMulInteger", [u, v], [ints[0] @ ints[1]])
    za, zb = np.uint8([200, 3]), np.int8([-128, 0, 5, 127])
    case("MatMulInteger", [u, v, za, zb], [(ints[0] - za.astype(np.int32)[:, None]) @ (ints[1] - zb.astype(np.int32))])
    case("MatMulBias", [np.float32([[1, 2]]), np.float32([[1, -1], [2, -2]]), np.float32([1, 2])], [np.float32([[6, 0]])],
         activation='"Relu"')
    case("MatMulBias", [np.float32([1, 2]), np.float32([[1, -1], [2, -2]]), np.float32(1)], [np.float32([6, -4])])
    for eq, shapes in (("ij->ji", [(2, 3)]), ("ii", [(3, 3)]), ("ii->i", [(3, 3)]), ("...ii->...i", [(2, 3, 3)]),
                       ("bij,bjk", [(2, 3, 2), (2, 2, 3)]), ("...ij,...jk->...ik", [(4, 1, 2, 3), (2, 3, 2)]),
                       ("i,j,k->kji", [(2,), (3,), (2,)]), ("ij->", [(2, 3)]), (",i->i", [(), (3,)]),
                       ("Ab,bA->Ab", [(2, 3), (3, 2)]), ("i...,...j", [(2, 3), (3, 4)]), ("iij,jk->k", [(2, 2, 3), (3, 2)]),
                       ("ab,bc,cd->ad", [(2, 3), (3, 4), (4, 2)]), ("ij,jk", [(2, 0), (0, 3)])):
        for t in (np.float32, np.int16):
            xs = [rng.integers(-4, 5, s) for s in shapes]
            case("Einsum", [x.astype(t) for x in xs], [np.einsum(eq, *xs).astype(t)], equation=f'" {eq.replace(",", " , ")} "')


def quantised():
    x = np.float32([[-1000, -1.5, -0.5, 0.5], [1.5, 2.5, nan, 1000]])
    lim = {np.uint8: (0, 255), np.int8: (-128, 127), np.uint16: (0, 65535), np.int16: (-32768, 32767)}
    for t, (lo, hi) in lim.items():
        z = t(5)
        q = np.clip(np.where(np.isnan(x), 0, np.rint(x)) + 5, lo, hi).astype(t)
        case("QuantizeLinear", [x, np.float32(1), z], [q])
        case("DequantizeLinear", [q, np.float32(0.5), z], [((q.astype(np.float64) - 5) * 0.5).astype(np.float32)])
    for t, lo, hi in ((ml_dtypes.int4, -8, 7), (ml_dtypes.uint4, 0, 15)):
        s = np.float32([1, 100])
        q = np.clip(np.where(np.isnan(x), 0, np.rint(x / s[:, None])), lo, hi).astype(np.int8).astype(t)
        case("QuantizeLinear", [x, s, np.zeros(2, np.int8).astype(t)], [q], axis=0)
        case("DequantizeLinear", [q, s.astype(np.float16)], [(q.astype(np.float64) * s[:, None]).astype(np.float16)], axis=-2)
    # Quotients that are ties in float32, but not in float64.
    a, s = np.float32([7.5, 0.15, 0.25, 0.35, 0.45]), np.float32(0.1)
    case("QuantizeLinear", [a, s], [np.rint(a / s).astype(np.uint8)])
    block = np.float32([[1, 2], [3, 4]])
    k = np.arange(10).reshape(2, 5)
    spread = np.repeat(block, 3, axis=1)[:, :5]
    case("DequantizeLinear", [k.astype(np.int8), block], [(k * spread).astype(np.float32)], axis=1, block_size=3)
    case("QuantizeLinear", [k.astype(np.float32), block], [np.rint(k / spread).astype(np.uint8)], axis=1, block_size=3)
    case("DynamicQuantizeLinear", [np.zeros((0,), np.float32)], [np.zeros((0,), np.uint8), np.float32(1), np.uint8(0)])


def rest():
    x = rng.integers(-9, 9, (2, 1, 3))
    c = np.array([[True], [False]])
    for t in (np.float64, np.int8, np.uint16, bool, object):
        a = np.array([f"s{v}" for v in x.reshape(-1)], object).reshape(x.shape) if t is object else x.astype(t)
        b = a.reshape(-1)[:1].reshape(())
        case("Where", [c, a, b], [np.where(c, a, b)])
        case("Identity", [a], [a])
        case("Equal", [a, b], [np.array(a == b, bool)]) if t is not bool else None
    for op in ("Add", "Mul", "Max"):
        case(op, [np.zeros((0, 3), np.float32), np.float32(1)], [np.zeros((0, 3), np.float32)])
        case(op, [np.zeros((2, 1, 0), np.int64), np.zeros((3, 1), np.int64)], [np.zeros((2, 3, 0), np.int64)])
    case("Exp", [np.zeros((0,), np.float32)], [np.zeros((0,), np.float32)])
    t, f = np.array([[True], [False]]), np.array([True, False])
    case("And", [t, f], [t & f])
    case("Or", [t, f], [t | f])
    case("Xor", [t, f], [t ^ f])
    case("Not", [t], [~t])
    case("PRelu", [np.int32([[-2, 3]]), np.int32([[4, 5]])], [np.int32([[-8, 3]])])
    case("PRelu", [np.float32([[-2], [3]]), np.float32([5])], [np.float32([[-10], [3]])])
    case("LabelEncoder", [np.float32([nan, -0.0, 2, 9])], [np.array(["n", "z", "t", "?"], object)],
         keys_floats="[2, nan, 0]", values_strings='["t", "n", "z"]', default_string='"?"')
    case("LabelEncoder", [np.array(["a", "b", "c"], object)], [np.int64([3, -1, 2])], keys_strings='["a", "c", "a"]',
         values_int64s="[1, 2, 3]")
    case("Dropout", [np.float16([1, 2]), np.float32(0.9), np.array(False)], [np.float16([1, 2]), np.array([True, True])])
    r, g = np.float64(0.1), np.float64([0.5, -1])
    case("Momentum", [r, np.int64(0), np.float64([1, 2]), g, np.float64([0.25, 0])],
         [[1, 2] - r * (g + np.float32(0.9) * np.float64([0.25, 0])), np.float64([0.25, 0]) * np.float32(0.9) + g],
         alpha=0.9, beta=0.5, mode='"standard"', norm_coefficient=0.0)
    big = np.uint64([[2**63 + 6, 0, 3], [2**64 - 1, 1, 0]])
    mean = np.uint64([sum(map(int, row)) // 3 for row in big])  # a sum in 64 bits would wrap
    for op, want in (("ReduceMean", mean), ("ReduceL1", big.sum(1)), ("ReduceSum", big.sum(1)),
                     ("ReduceMax", big.max(1)), ("ReduceMin", big.min(1)), ("ReduceProd", big.prod(1))):
        case(op, [big, np.int64([1])], [want], keepdims=0)


print("# Written by tests/gen/ops_arith.py with numpy's answers.")
floats()
integers()
casts()
products()
quantised()
rest()
