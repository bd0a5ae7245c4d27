"""Goldens for io/npy: python3 tests/golden/make_numpy.py (needs numpy).

Files that NumPy writes, as hexadecimal text: arrays of each dtype, in both orders of elements and of bytes, and
archives of them. The tests know the values: arange of the shape, reduced to what the dtype can hold.
"""

import io

import numpy as np

import golden


def saved(array, version=None):
    file = io.BytesIO()
    if version is None:
        np.save(file, array)
    else:
        np.lib.format.write_array(file, array, version)
    return file.getvalue().hex()


texts = {}
x = np.arange(6).reshape(2, 3)
for name in ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u1", "u2", "u4", "u8", "?", "c8", "c16"):
    array = (x % 2 if name == "?" else x - 1j * x if name[0] == "c" else x).astype(name)
    kind = "b1" if name == "?" else name
    texts[kind] = saved(array)
    texts[kind + ".fortran"] = saved(np.asfortranarray(array))
    texts[kind + ".big"] = saved(array.astype(array.dtype.newbyteorder(">")))
texts["scalar"] = saved(np.array(2.5))
texts["vector"] = saved(np.arange(12345, dtype=np.int32)[-3:])
texts["empty"] = saved(np.zeros((0, 3), np.float32))
texts["three"] = saved(np.asfortranarray(np.arange(24, dtype=np.float32).reshape(2, 3, 4)))
texts["version2"] = saved(x.astype("f4"), (2, 0))
texts["version3"] = saved(x.astype("f4"), (3, 0))
texts["too_large"] = saved(np.array([2**63], np.uint64))
texts["struct"] = saved(np.zeros(2, [("a", "f4"), ("b", "i4")]))
texts["text"] = saved(np.array(["ab"]))
texts["date"] = saved(np.array(["2026-01-01"], "M8[D]"))
texts["long_double"] = saved(np.zeros(2, np.longdouble))
for name, save in (("npz", np.savez), ("npz_compressed", np.savez_compressed)):
    file = io.BytesIO()
    save(file, x=x.astype("f4"), **{"layer.0": np.arange(3)})
    texts[name] = file.getvalue().hex()
golden.write_texts("numpy_hex.txt", texts)
