"""Exits to frameworks that are mostly not installed, to stand-ins that have their functions and behave badly.

tests/frameworks asks the real ones. A process each, since what was found of a framework is kept.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import isthmus_test_ext as ext

PREAMBLE = """
import ctypes as ct, sys, types
import numpy as np
import capsules
import isthmus_test_ext as ext

def module(name, **content):
    made = sys.modules[name] = types.ModuleType(name)
    made.__dict__.update(content)
    if "." in name:
        parent, _, own = name.rpartition(".")
        setattr(sys.modules[parent], own, made)
    return made

def refused(code, call):
    try:
        call()
    except ext.Error as error:
        assert error.code == code, error
        return str(error)
    raise SystemExit("nothing was refused")

class Array:
    def __init__(self, given, address):
        self.given, self.address = given, address
    def data_ptr(self):
        return self.address

x = ext.pages([2, 3])
backwards = ext.tensor_of(np.asarray(x)[::-1])
"""
PADDLE = """
given = []
def from_dlpack(capsule):
    given.append(capsules.name_of(capsule))
    return Array(capsule, x.data_ptr)
module("paddle", Tensor=Array)
module("paddle.utils")
module("paddle.utils.dlpack", from_dlpack=from_dlpack)
"""
EXCHANGE = """
made = []
def to_object(managed, out):
    made.append(capsules.ManagedVersioned.from_address(managed).tensor.data)
    if status:
        ct.CFUNCTYPE(None, ct.c_void_p)(capsules.ManagedVersioned.from_address(managed).deleter)(managed)
        return status
    array = Array(managed, made[-1])
    ct.pythonapi.Py_IncRef(ct.py_object(array))
    out[0] = id(array)
    return 0
status = 0
api = capsules.ExchangeAPI(major=1, minor=3)
api.from_object = dict(api._fields_)["from_object"](lambda *_: -1)
api.to_object = dict(api._fields_)["to_object"](to_object)
new = ct.pythonapi.PyCapsule_New
new.restype, new.argtypes = ct.py_object, (ct.c_void_p, ct.c_char_p, ct.c_void_p)
name = b"dlpack_exchange_api"
Array.__dlpack_c_exchange_api__ = new(ct.addressof(api), name, None)
"""


def test_a_versioned_capsule_and_the_checks_around_it(child: Callable) -> None:
    child(f"""{PREAMBLE}{PADDLE}
assert isinstance(ext.hand(x, "paddle"), Array) and given == ["dltensor_versioned"], given
text = refused("bad_layout", lambda: ext.hand(backwards, "paddle"))
assert text.startswith("strides (-3, 1) are negative, which paddle does not support"), text
ext.hand(ext.tensor_of(np.asarray(x)[:1][::-1]), "paddle")  # one row is not stepped through
ext.hand(ext.tensor_of(np.asarray(x)[:, :0][::-1]), "paddle")  # and none neither
address = x.data_ptr
class Elsewhere:
    data_ptr = address + 64
x = Elsewhere
text = refused("needs_copy", lambda: ext.hand(ext.pages([2, 3]), "paddle"))
assert text == "paddle copied the data, which nobody asked for; allow it with allow_copy", text
ext.hand(ext.pages([2, 3]), "paddle", allow_copy=True)
ext.hand(ext.pages([0, 3]), "paddle")  # which lies nowhere
""")


def test_the_exchange_table_of_the_array_type(child: Callable) -> None:
    child(f"""{PREAMBLE}{PADDLE}{EXCHANGE}
array = ext.hand(x, "paddle")
assert array.address == x.data_ptr and made == [x.data_ptr] and given == [], (made, given)
status = -1
text = refused("consumer_failed", lambda: ext.hand(x, "paddle"))
assert text.startswith("paddle's exchange API "), text
""")


def test_an_interrupt_while_the_array_type_is_looked_for(child: Callable) -> None:
    child(f"""{PREAMBLE}{PADDLE}
def __getattr__(name):
    if name == "Tensor":
        raise KeyboardInterrupt
    raise AttributeError(name)
del sys.modules["paddle"].Tensor
sys.modules["paddle"].__getattr__ = __getattr__
try:
    ext.hand(x, "paddle")
except KeyboardInterrupt:
    pass
else:
    raise SystemExit("the interrupt was lost")
assert given == []
sys.modules["paddle"].Tensor = Array
assert isinstance(ext.hand(x, "paddle"), Array)
""")


def test_mlx_that_makes_smaller_elements(child: Callable) -> None:
    child(f"""{PREAMBLE}
class array:
    itemsize = 4
    def __init__(self, given):
        self.given = given
module("mlx")
module("mlx.core", array=array)
assert type(ext.hand(x, "mlx", allow_copy=True)) is array
text = refused("bad_dtype", lambda: ext.hand(ext.pages([2], "float64"), "mlx", allow_copy=True))
assert text.startswith("dtype float64 has no counterpart in mlx, which made elements of 4 bytes of it"), text
""")


def test_onnxruntime_is_asked_as_every_other(child: Callable) -> None:
    child(f"""{PREAMBLE}
sys.modules["onnxruntime"] = None
text = refused("unavailable", lambda: ext.hand(x, "onnxruntime"))
assert text.startswith("importing onnxruntime raised ModuleNotFoundError"), text
class OrtValue(Array):
    @classmethod
    def from_dlpack(cls, capsule, is_bool=False):
        return cls(capsule, x.data_ptr)
module("onnxruntime")
module("onnxruntime.capi")
module("onnxruntime.capi.onnxruntime_pybind11_state", OrtValue=OrtValue)
assert isinstance(ext.hand(x, "onnxruntime"), OrtValue)
text = refused("needs_copy", lambda: ext.hand(backwards, "onnxruntime"))
assert "are not contiguous, as onnxruntime needs" in text, text
text = refused("bad_dtype", lambda: ext.hand(ext.pages([4], "float4_e2m1fn", padded=True), "onnxruntime"))
assert text == "dtype float4_e2m1fn has no counterpart in onnxruntime; nearest is uint8, the bytes", text
""")


def test_no_framework_is_an_error() -> None:
    with pytest.raises(ext.Error) as caught:
        ext.hand_unknown(ext.pages([1]))
    assert caught.value.code == "bad_argument"
    assert str(caught.value) == "argument 'framework': no framework has the number 200"
