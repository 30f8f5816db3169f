"""nanoarrow, whose arrays speak Arrow's PyCapsule interface and nothing else."""

import nanoarrow as na
from checks import from_threads, kept_by_isthmus, refuses, values

import isthmus_test_ext as ext

VERSION = na.__version__
NAMES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]


def check_producer_every_dtype():
    for dtype in NAMES:
        kind = getattr(na, dtype)()
        for x in (na.Array([0, 1, 2], kind), na.c_array([0, 1, 2], kind)):
            t = ext.tensor_of(x)
            assert (t.dtype.name, t.shape, t.read_only) == (dtype, (3,), True)
            assert values(t) == [0, 1, 2]
            assert t.owner is x


def check_producer_refusals():
    assert "has nulls" in refuses("not_values", ext.tensor_of, na.c_array([1, None], na.int32()))
    assert "eight to a byte" in refuses("bad_dtype", ext.tensor_of, na.c_array([True, False], na.bool_()))
    assert "no counterpart" in refuses("bad_dtype", ext.tensor_of, na.c_array(["a"], na.string()))
    assert "times" in refuses("bad_dtype", ext.tensor_of, na.c_array([1], na.date32()))


def check_producer_lifetime():
    kept_by_isthmus(lambda: na.c_array([1, 2, 3], na.int64()), [1, 2, 3])


def check_identity():
    x = na.c_array([1, 2, 3], na.int64())
    assert ext.tensor_of(x).owner is x


def check_threads():
    x = na.c_array([1, 2, 3], na.int64())
    from_threads(lambda: values(ext.tensor_of(x)))
