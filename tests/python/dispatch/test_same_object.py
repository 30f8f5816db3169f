"""The same object comes back only while it is the same tensor, and only where it is an array of that framework.

Promised (docs/export.md): a tensor that came from the expected framework, *unchanged*, is the same Python object again.
When the object has got other memory, another shape, other strides or another dtype since, an array over the handle's
own memory comes back instead, so that `t.to("torch")`, `np.asarray(t)` and the handle always show the same elements.
"""

from __future__ import annotations

import array
from collections.abc import Callable

import numpy as np
import pytest

import isthmus_test_ext as ext


def torch_tensor() -> object:
    return pytest.importorskip("torch").arange(6.0).reshape(2, 3)


def set_other_data(x: object) -> None:
    x.data = x.detach() + 10


def set_other_storage(x: object) -> None:
    x.set_((x.detach() + 10).clone())


def swap_tensors(x: object) -> None:
    torch = pytest.importorskip("torch")
    torch.utils.swap_tensors(x, x.detach() + 10)


def set_shape(a: np.ndarray) -> None:
    a.shape = (3, 2)


def set_strides(a: np.ndarray) -> None:
    a.strides = (4, 8)


def set_dtype(a: np.ndarray) -> None:
    a.dtype = np.int32


def set_byte_order(a: np.ndarray) -> None:
    a.dtype = a.dtype.newbyteorder()


def set_bytes(a: np.ndarray) -> None:
    a.dtype = "S4"


def numpy_array() -> np.ndarray:
    return np.arange(6, dtype=np.float32).reshape(2, 3)


def one_number_six_times() -> np.ndarray:
    return np.broadcast_to(np.float32([7]), (2, 3))


def set_elements(a: np.ndarray) -> None:
    a.__setstate__((1, a.shape, a.dtype, False, np.arange(10, 16, dtype=np.float32).tobytes()))


def set_one_size(a: np.ndarray) -> None:
    a.shape = (2, 3, 1)


def set_kind(a: np.ndarray) -> None:
    a.dtype = np.uint32


CHANGED: dict[str, tuple[str, Callable[[], object], Callable[[object], object]]] = {
    "x.data = y": ("torch", torch_tensor, set_other_data),
    "x.set_(y)": ("torch", torch_tensor, set_other_storage),
    "swap_tensors": ("torch", torch_tensor, swap_tensors),
    "x.t_()": ("torch", torch_tensor, lambda x: x.t_()),
    "x.unsqueeze_(0)": ("torch", torch_tensor, lambda x: x.unsqueeze_(0)),
    "x.transpose_(0, 1)": ("torch", torch_tensor, lambda x: x.transpose_(0, 1)),
    "x.as_strided_()": ("torch", torch_tensor, lambda x: x.as_strided_((3, 2), (1, 3))),
    "x.as_strided_(), fewer": ("torch", torch_tensor, lambda x: x.as_strided_((1, 3), (3, 1))),
    "a.shape = …": ("numpy", numpy_array, set_shape),
    "a.shape = …, of the same strides": ("numpy", one_number_six_times, set_shape),
    "a.strides = …": ("numpy", numpy_array, set_strides),
    "a.dtype = …": ("numpy", numpy_array, set_dtype),
    "a.__setstate__()": ("numpy", numpy_array, set_elements),
    "a.shape = …, a dimension more": ("numpy", numpy_array, set_one_size),
    "a.dtype = …, of the same size": ("numpy", numpy_array, set_kind),
    "a.dtype = …, swapped": ("numpy", numpy_array, set_byte_order),
    "a.dtype = …, no number": ("numpy", numpy_array, set_bytes),
}


def described(x: object) -> tuple:
    found = ext.own(x)
    return found["data"], found["shape"], found["strides"], found["dtype"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("like", [False, True], ids=["to", "like"])
@pytest.mark.parametrize("name", CHANGED)
def test_changed_since(name: str, like: bool) -> None:
    framework, make, change = CHANGED[name]
    x = make()
    memory = x.untyped_storage() if framework == "torch" else x.base  # what the handle saw lives on
    t = ext.tensor_of(x)
    before, elements = described(t), ext.own_elements(t)
    change(x)
    back = ext.hand_like(t, x) if like else t.to(framework)
    assert back is not x
    assert described(back) == before
    assert ext.own_elements(back) == elements
    assert np.asarray(t).tobytes() == elements
    del memory


@pytest.mark.parametrize("name", CHANGED)
def test_unchanged(name: str) -> None:
    framework, make, _ = CHANGED[name]
    x = make()
    assert ext.tensor_of(x).to(framework) is x
    assert ext.hand_like(ext.tensor_of(x), x) is x


def test_changed_there_and_back_again() -> None:
    """What matters is what the object is now."""
    x = torch_tensor()
    t = ext.tensor_of(x)
    x.t_()
    x.t_()
    assert t.to("torch") is x


def test_a_lazy_bit_since() -> None:
    """The same memory, and other values."""
    torch = pytest.importorskip("torch")
    x = torch.ones(3, dtype=torch.complex64) * 1j
    t = ext.tensor_of(x)
    x.data = x.detach().conj()
    assert ext.own_elements(t.to("torch")) == ext.own_elements(t)


def test_an_array_of_jax_that_was_deleted() -> None:
    """The handle keeps the memory; the array that is gone is not handed back for it."""
    jax = pytest.importorskip("jax")
    x = jax.numpy.arange(16.0)
    t = ext.tensor_of(x)
    assert t.to("jax") is x
    x.delete()
    try:
        back = t.to("jax")
    except ext.Error as error:
        assert error.code == "needs_copy"
    else:
        assert back is not x
        assert back.tolist() == np.asarray(t).tolist()


@pytest.mark.parametrize("scalar", [np.float32(3), np.int8(-1), np.bool_(True), np.complex64(1j)])
def test_a_numpy_scalar_becomes_an_array(scalar: np.generic) -> None:
    """A scalar is immutable and no ndarray: what is expected is an array."""
    back = ext.tensor_of(scalar).to("numpy")
    assert type(back) is np.ndarray
    assert back.shape == ()
    assert back.dtype == scalar.dtype
    assert back.item() == scalar.item()
    assert not back.flags.writeable
    assert type(ext.hand_like(scalar, np.zeros(1))) is np.ndarray


HANDLES = {
    "bytearray": lambda: bytearray(b"123"),
    "bytes": lambda: b"123",
    "memoryview": lambda: memoryview(b"123"),
    "array.array": lambda: array.array("f", [1, 2]),
}


@pytest.mark.parametrize("example", [object(), b"", [], None, 3], ids=["object", "bytes", "list", "None", "int"])
@pytest.mark.parametrize("name", HANDLES)
def test_like_something_that_is_no_framework(name: str, example: object) -> None:
    """`to_py_like` of an example that is of no framework gives an isthmus.Tensor, as it does for every handle."""
    x = HANDLES[name]()
    assert type(ext.hand_like(x, example)).__name__ == "Tensor"


def test_like_a_scalar_of_numpy() -> None:
    """It is no array, and yet whoever passes one works with NumPy."""
    assert type(ext.hand_like(ext.pages([3]), np.float64(1))) is np.ndarray


def test_arrays_of_the_framework_only() -> None:
    """A buffer or a scalar of a package is not the package's array."""
    pa = pytest.importorskip("pyarrow")
    assert isinstance(ext.tensor_of(pa.py_buffer(b"12345678")).to("pyarrow"), pa.Tensor)
