"""OpenVINO's Tensor: its array shows bf16 as float16 and float8 as bytes; strings and packed elements have none."""

import ml_dtypes
import numpy as np
import openvino as ov
from checks import kept_by_isthmus, refuses

import isthmus_test_ext as ext

VERSION = ov.__version__
ELEMENTS = {
    "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f64": np.float64, "i8": np.int8, "i16": np.int16,
    "i32": np.int32, "i64": np.int64, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    "boolean": np.bool_, "f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2,
    "f8e8m0": ml_dtypes.float8_e8m0fnu,
}  # fmt: skip


def filled(element, shape=(2, 3)):
    x = ov.Tensor(getattr(ov.Type, element), ov.Shape(list(shape)))
    x.data.view(np.uint8)[...] = np.arange(x.byte_size, dtype=np.uint8).reshape(x.data.view(np.uint8).shape) % 2
    return x


def check_producer():
    for element, dtype in ELEMENTS.items():
        x = filled(element)
        t = ext.tensor_of(x)
        assert t.dtype.name == np.dtype(dtype).name, (element, t.dtype.name)
        assert (t.shape, t.strides, t.data_ptr) == ((2, 3), (3, 1), x.data.ctypes.data)
        assert t.owner is x
        assert ext.own_elements(t) == x.data.tobytes()


def check_every_element_type_is_known_or_refused():
    for name in (name for name in dir(ov.Type) if isinstance(getattr(ov.Type, name), ov.Type)):
        kind = getattr(ov.Type, name)
        if name in ELEMENTS or name == "dynamic":
            continue
        if name == "string":
            x = ov.Tensor(["a", "b"])
        else:
            x = ov.Tensor(np.zeros(48, np.uint8), ov.Shape([48 * 8 // kind.bitwidth]), kind)
        assert f"element type {name}" in refuses("bad_dtype", ext.tensor_of, x)


def check_regions_of_interest_keep_their_strides():
    whole = ov.Tensor(np.arange(24, dtype=np.float32).reshape(4, 6))
    t = ext.tensor_of(ov.Tensor(whole, ov.Coordinate([1, 2]), ov.Coordinate([3, 5])))
    assert (t.shape, t.strides) == ((2, 3), (6, 1))
    assert np.asarray(t).tolist() == [[8, 9, 10], [14, 15, 16]]


def check_writes_are_seen_on_both_sides():
    x = filled("f32")
    np.asarray(ext.tensor_of(x))[0, 0] = 7
    assert x.data[0, 0] == 7


def check_scalars_and_nothing():
    assert ext.tensor_of(ov.Tensor(ov.Type.f32, ov.Shape([]))).shape == ()
    assert ext.tensor_of(ov.Tensor(ov.Type.f32, ov.Shape([0, 3]))).shape == (0, 3)


def check_producer_lifetime():
    def make():
        return ov.Tensor(np.arange(6.0).reshape(2, 3))

    kept_by_isthmus(make, [[0, 1, 2], [3, 4, 5]])
