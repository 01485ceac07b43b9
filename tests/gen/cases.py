"""Prints graphs of constants, one op each, for tests/unit/ops.c."""
import numpy as np

NAMES = {"float64": "f64", "float32": "f32", "float16": "f16", "int64": "i64", "int32": "i32", "int16": "i16",
         "int8": "i8", "uint64": "u64", "uint32": "u32", "uint16": "u16", "uint8": "u8", "bool": "bool",
         "bfloat16": "bf16", "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2", "int4": "i4", "uint4": "u4"}


def element(x):
    if isinstance(x, str):
        return f'"{x}"'
    if isinstance(x, bool):
        return "true" if x else "false"
    if isinstance(x, float):
        return "nan" if x != x else "inf" if x == np.inf else "-inf" if x == -np.inf else repr(x)
    return str(x)


def const(name, a):
    a = np.asarray(a)
    t = "string" if a.dtype.kind in "OU" else NAMES[str(a.dtype)]
    shape = ", ".join(map(str, a.shape))
    if t in ("bf16", "f8e4m3", "f8e5m2", "i4", "u4"):  # ml_dtypes
        a = a.astype(np.int64 if t in ("i4", "u4") else np.float64)
    return f"const %{name} : {t}[{shape}] = [{', '.join(element(x) for x in a.reshape(-1).tolist())}]"


count = 0


def case(op, ins, outs, **attrs):
    global count
    count += 1
    print(f'graph "{op}_{count}"')
    for i, x in enumerate(ins):
        if x is not None:
            print(const(f"x{i}", x))
    args = ", ".join("_" if x is None else f"%x{i}" for i, x in enumerate(ins))
    text = ", ".join(f"{k}={v}" for k, v in attrs.items())
    print(f"{', '.join(f'%y{i}' for i in range(len(outs)))} = {op}({args}){' {' + text + '}' if text else ''}")
    for i, y in enumerate(outs):
        print(const(f"want{i}", y))
    for i in range(len(outs)):
        print(f"output %y{i}")
    print()
