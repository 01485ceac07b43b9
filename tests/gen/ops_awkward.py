#!/usr/bin/env python3
"""Awkward shapes, dtypes and indices for tests/unit/ops.c, with numpy's answers.

    tests/gen/ops_awkward.py > tests/data/ops/awkward.gg
"""
import itertools
import numpy as np
from cases import case

rng = np.random.default_rng(7)


def i64(*v):
    return np.array(v, np.int64)


def of(shape, dtype):
    if dtype is str:
        return np.array([f"s{k}" for k in range(int(np.prod(shape)))], dtype=object).reshape(shape)
    return rng.integers(0, 2 if dtype is bool else 100, shape).astype(dtype)


def movement():
    for dtype in (str, bool, np.int8, np.float16, np.uint64):
        x = of((2, 3, 2), dtype)
        case("Transpose", [x], [x.transpose(2, 0, 1)], perm="[2, 0, 1]")
        case("Slice", [x, i64(-1), i64(-9), i64(1), i64(-2)], [x[:, ::-2]])
        case("Concat", [x, x[:, :1], x[:, :0]], [np.concatenate([x, x[:, :1]], 1)], axis=-2)
        case("Pad", [x, i64(0, 1, -1, 1, 0, 0), None if dtype is str else np.array(1, dtype)],
             [np.pad(x[..., 1:], [(0, 1), (1, 0), (0, 0)],
                     constant_values="" if dtype is str else np.array(1, dtype))])
        case("Gather", [x, np.array([[1, -3], [0, 2]], np.int32)], [x[:, [[1, -3], [0, 2]]]], axis=1)
        case("Tile", [x, i64(1, 2, 3)], [np.tile(x, (1, 2, 3))])
        case("Expand", [x[:, :1], i64(4, 1, 3, 1)], [np.broadcast_to(x[:, :1], (4, 2, 3, 2))])
        case("GatherElements", [x, i64([[[-1]], [[0]]]).reshape(2, 1, 1)],
             [np.take_along_axis(x[:, :1, :1], np.array([[[-1]], [[0]]]), 0)], axis=0)
        case("GatherND", [x, i64([0, -1], [1, 0])], [x[[0, 1], [-1, 0]]])
        case("Split", [x, i64(0, 2, 1)], [x[:, :0], x[:, :2], x[:, 2:]], axis=1)
        case("Trilu", [x], [np.array([[["" if dtype is str else dtype(0) if j < i else m[i, j] for j in range(2)]
                                        for i in range(3)] for m in x] if dtype is not str else
                                     [[["" if j < i else m[i, j] for j in range(2)] for i in range(3)] for m in x],
                                     dtype=x.dtype)])
        case("Compress", [x, np.array([True, False, True])], [x[:, [0, 2]]], axis=1)
        case("OneHot", [np.array([[1, -1], [5, 0]]), np.float32(3), x.reshape(-1)[:2]],
             [np.array([[[x.reshape(-1)[int(k == (v + 3 if v < 0 else v))] for v in r] for k in range(3)]
                        for r in [[1, -1], [5, 0]]], dtype=x.dtype)], axis=1)
    for perm in itertools.permutations(range(4)):
        x = rng.integers(-99, 99, (3, 2, 5, 1 + perm[0])).astype(np.int16)
        case("Transpose", [x], [x.transpose(perm)], perm=list(perm))
    x = rng.integers(-99, 99, (19, 37)).astype(np.float32)
    case("Transpose", [x], [x.T])
    case("Transpose", [np.float32(3)], [np.float32(3)])
    case("Transpose", [np.zeros((0, 2), np.float32)], [np.zeros((2, 0), np.float32)])
    for mode, theirs in (("reflect", "reflect"), ("edge", "edge"), ("wrap", "wrap")):
        x = rng.integers(0, 99, (2, 3, 1)).astype(np.int32)
        case("Pad", [x, i64(3, 7, 1, 2, 0, 2)], [np.pad(x, [(3, 2), (7, 0), (1, 2)], theirs)], mode=f'"{mode}"')
        case("Pad", [x, i64(2, 1), None, np.array([-2], np.int32)], [np.pad(x, [(0, 0), (2, 1), (0, 0)], theirs)],
             mode=f'"{mode}"')
    x = np.arange(7, dtype=np.int64)
    big = np.iinfo(np.int64)
    for a, b, s in ((0, big.max, 3), (-1, big.min, -1), (5, 2, -2), (2, -9, 1), (-100, 100, 2), (6, -100, -6)):
        stop = None if b == big.min else b
        stop = None if s < 0 and stop is not None and stop < -7 else stop
        case("Slice", [x, i64(a), i64(b), None, i64(s)], [x[max(a, -7):stop:s]])
    case("Slice", [x, i64(-9), i64(big.min), None, i64(-1)], [x[:1]])  # clamped to [0, dim-1], unlike in Python
    case("Reshape", [np.zeros((0, 3), np.float32), i64(3, 0)], [np.zeros((3, 0), np.float32)], allowzero=1)
    case("Reshape", [np.arange(6), i64(-1, 2)], [np.arange(6).reshape(3, 2)])
    case("Reshape", [np.float32(4), i64()[:0]], [np.float32(4)])
    case("Split", [np.arange(7.0)], [np.arange(3.0), np.arange(3.0, 6), np.arange(6.0, 7)], num_outputs=3)
    case("Split", [np.arange(5)], [np.arange(2), np.arange(2, 4), np.arange(4, 5), np.arange(0)], num_outputs=4)
    case("Squeeze", [np.zeros((1, 2, 1), np.int8)], [np.zeros(2, np.int8)])
    case("Unsqueeze", [np.float32(2), i64(-1, 0)], [np.full((1, 1), 2, np.float32)])
    case("Flatten", [np.arange(6).reshape(1, 2, 3)], [np.arange(6).reshape(2, 3)], axis=-1)
    case("Flatten", [np.int64(5)], [i64(5).reshape(1, 1)], axis=0)
    case("Shape", [np.zeros((2, 0, 4, 5))], [i64(0, 4)], start=-3, end=-1)
    case("Shape", [np.zeros((2, 3))], [i64()[:0]], start=5)
    case("Size", [np.zeros((2, 0))], [np.int64(0)])
    case("Gather", [np.zeros((3, 0), np.float32), i64(2, 0)], [np.zeros((2, 0), np.float32)])
    case("Gather", [np.arange(3), np.int64(-1)], [np.int64(2)])


def scatters():
    for red, f in (("add", np.add), ("mul", np.multiply), ("max", np.maximum), ("min", np.minimum)):
        for dtype in (np.float32, np.int8, np.uint64, np.float16):
            x = rng.integers(0, 9, (4, 3)).astype(dtype)
            idx, u = np.array([[0, -1, 0], [0, 3, 2]]), rng.integers(0, 5, (2, 3)).astype(dtype)
            y, z = x.copy(), x.copy()
            for i in range(2):
                for j in range(3):
                    f.at(y, (idx[i, j], j), u[i, j])
            case("ScatterElements", [x, idx, u], [y], axis=0, reduction=f'"{red}"')
            f.at(z, ([1, -1], [2, 2]), u[0, :2])
            case("ScatterND", [x, i64([1, 2], [-1, 2]), u[0, :2]], [z], reduction=f'"{red}"')
    nan = np.array([1, np.nan, 3], np.float32)
    case("ScatterND", [nan, i64([1], [2]), np.array([5, np.nan], np.float32)],
         [np.array([1, np.nan, np.nan], np.float32)], reduction='"max"')
    case("ScatterElements", [nan, np.zeros(0, np.int64), nan[:0]], [nan])
    x = of((2, 2), str)
    case("ScatterND", [x, i64([1]), np.array([["a", "b"]], object)],
         [np.array([x[0].tolist(), ["a", "b"]], object)])


def reductions():
    nan = np.array([[1, np.nan, 3], [-np.inf, 2, -5]], np.float32)
    for name, f in (("Sum", np.sum), ("Max", np.max), ("Min", np.min), ("Prod", np.prod), ("Mean", np.mean)):
        case(f"Reduce{name}", [nan, i64(1)], [f(nan, 1, keepdims=True)])
        x = rng.standard_normal((2, 3, 4, 2)).astype(np.float32)
        case(f"Reduce{name}", [x, i64(0, -2)], [f(x.astype(np.float64), (0, 2)).astype(np.float32)], keepdims=0)
        case(f"Reduce{name}", [np.float32(3)], [np.float32(3)])
        case(f"Reduce{name}", [x, None], [x], noop_with_empty_axes=1)
        k = rng.integers(-50, 50, (3, 5)).astype(np.int32)
        case(f"Reduce{name}", [k, i64(0)], [(np.trunc(f(k, 0)) if name == "Mean" else f(k, 0)).astype(np.int32)],
             keepdims=0)
    u = np.array([1, 2**63 + 5, 7], np.uint64)
    case("ReduceMax", [u], [u[1:2]])
    case("ReduceMin", [u], [u[:1]])
    case("ReduceMax", [np.zeros((2, 0), np.int8), i64(1)], [np.full((2, 1), -128, np.int8)])
    case("ReduceMin", [np.zeros((2, 0), np.int32), i64(1)], [np.full((2, 1), 2**31 - 1, np.int32)])
    case("ReduceMin", [np.zeros((2, 0), np.uint64), i64(1)], [np.full((2, 1), 2**64 - 1, np.uint64)])
    case("ReduceMax", [np.zeros((1, 0), np.uint64), i64(1)], [np.zeros((1, 1), np.uint64)])
    case("ReduceMax", [np.zeros((2, 0), bool), i64(1)], [np.zeros((2, 1), bool)])
    case("ReduceMin", [np.array([[True, False], [True, True]]), i64(1)], [np.array([[False], [True]])])
    case("ReduceMean", [np.zeros((0, 2), np.float32), i64(0)], [np.full((1, 2), np.nan, np.float32)])
    case("ReduceLogSumExp", [np.array([1000, 1000.5], np.float64)],
         [np.array([1000.5 + np.log(1 + np.exp(-0.5))])])
    case("ReduceLogSumExp", [np.array([[-np.inf, -np.inf], [np.inf, 1], [np.nan, np.inf]]), i64(1)],
         [np.array([[-np.inf], [np.inf], [np.nan]])])
    h = np.full(5000, 0.1, np.float16)
    case("ReduceSum", [h], [np.array([5000 * float(h[0])], np.float16)])
    for name, sign in (("ArgMax", 1), ("ArgMin", -1)):
        x = np.array([[1, np.nan, np.nan, 7], [5, 5, -5, -5]], np.float32)
        f = np.argmax if sign > 0 else np.argmin
        case(name, [x], [f(x, 1).reshape(2, 1)], axis=-1)
        case(name, [x], [3 - f(x[:, ::-1], 1)], axis=1, keepdims=0, select_last_index=1)
        case(name, [u], [np.int64(1 if sign > 0 else 0)], keepdims=0)
        case(name, [np.zeros((0, 2), np.float32)], [np.zeros((0, 1), np.int64)], axis=1)


def sorting():
    x = np.array([[3, 1, 3, 2], [np.nan, 5, 1, 5]], np.float32)
    case("TopK", [x, i64(3)], [np.array([[3, 3, 2], [np.nan, 5, 5]], np.float32), i64([0, 2, 3], [0, 1, 3])])
    case("TopK", [x, i64(2)], [np.array([[1, 2], [1, 5]], np.float32), i64([1, 3], [2, 1])], largest=0)
    case("TopK", [x, i64(0)], [x[:, :0], np.zeros((2, 0), np.int64)])
    case("TopK", [x.T.copy(), i64(1)], [np.array([[3, np.nan]], np.float32), i64([0, 0])], axis=0)
    u = np.array([1, 2**63 + 5, 7], np.uint64)
    case("TopK", [u, i64(1)], [u[1:2], i64(1)])
    s = np.array(["b", "a", "b", "c"], object)
    case("Unique", [s], [np.array(["a", "b", "c"], object), i64(1, 0, 3), i64(1, 0, 1, 2), i64(1, 2, 1)])
    case("Unique", [s], [np.array(["b", "a", "c"], object), i64(0, 1, 3), i64(0, 1, 0, 2), i64(2, 1, 1)], sorted=0)
    case("NonZero", [np.float32(0)], [np.zeros((0, 0), np.int64)])
    case("NonZero", [np.float32(2)], [np.zeros((0, 1), np.int64)])
    case("NonZero", [np.array([["", "x"]], object)], [i64([0], [1])])
    k = rng.integers(-9, 9, (2, 3, 2))
    case("CumSum", [k.astype(np.int32), np.int32(-2)], [np.cumsum(k, 1).astype(np.int32)])
    case("CumSum", [k.astype(np.float32), np.int32(0)], [(np.cumsum(k[::-1], 0)[::-1] - k).astype(np.float32)],
         exclusive=1, reverse=1)
    case("Range", [np.float32(1), np.float32(-1), np.float32(-0.5)], [np.array([1, 0.5, 0, -0.5], np.float32)])
    case("Range", [np.int16(3), np.int16(3), np.int16(1)], [np.zeros(0, np.int16)])
    case("ConstantOfShape", [i64()[:0]], [np.float32(0)])
    case("EyeLike", [np.zeros((2, 3), np.int32)], [np.eye(2, 3, -1, dtype=np.float64)], dtype="f64", k=-1)
    case("EyeLike", [np.zeros((2, 3), np.int32)], [np.zeros((2, 3), np.int32)], k=9)


print("# Written by tests/gen/ops_awkward.py with numpy's answers.")
movement()
scatters()
reductions()
sorting()
