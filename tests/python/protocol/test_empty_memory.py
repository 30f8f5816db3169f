"""Tensors without elements: every way out of every owner releases the owner, once.

Promised (law 2): the owner lives until the last export is dropped, and no longer. torch never calls the deleter of a
DLPack tensor whose data is NULL, so no export has NULL there.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import pickle
import weakref
from collections.abc import Callable

import capsules
import numpy as np
import pytest
from owners import gone

import isthmus_test_ext as ext

NATIVE = ["container", "shared_ptr", "function", "const", "with strides", "managed", "managed, versioned", "part"]
FRAMEWORKS = [
    framework
    for framework, module in {
        "numpy": "numpy", "torch": "torch", "jax": "jax", "tvm_ffi": "tvm_ffi", "tensorflow": "tensorflow",
        "paddle": "paddle", "pyarrow": "pyarrow", "mlx": "mlx", "warp": "warp", "onnxruntime": "onnxruntime",
    }.items()
    if importlib.util.find_spec(module) is not None
]  # fmt: skip


class Owner:
    """Seen by a weak reference when it goes."""


def exchange(t: object) -> None:
    api = capsules.exchange_api(type(t))
    managed = ctypes.c_void_p()
    assert api.from_object(id(t), ctypes.byref(managed)) == 0
    found = ctypes.cast(managed, ctypes.POINTER(capsules.ManagedVersioned)).contents
    assert found.tensor.data
    capsules.DELETER(found.deleter)(managed.value)


def by_torch(t: object) -> object:
    import torch

    return torch.from_dlpack(t)


def legacy_to_torch(t: object) -> object:
    import torch

    return torch.utils.dlpack.from_dlpack(t.__dlpack__())


def versioned_to_torch(t: object) -> object:
    import torch

    return torch.utils.dlpack.from_dlpack(t.__dlpack__(max_version=(1, 3)))


EXITS: dict[str, Callable[[object], object]] = {
    **{f"to {name}": lambda t, name=name: t.to(name, allow_read_only_loss=True) for name in FRAMEWORKS},
    "as_read_only, to numpy": lambda t: t.as_read_only().to("numpy"),
    "np.asarray": np.asarray,
    "np.from_dlpack": np.from_dlpack,
    "memoryview": memoryview,
    "capsule": lambda t: t.__dlpack__(max_version=(1, 3)),
    "from_py of a capsule": lambda t: ext.hand(t.__dlpack__(max_version=(1, 3)), "numpy"),
    "exchange API": exchange,
    "arrow": lambda t: t.__arrow_c_array__(),
    "pickle": lambda t: pickle.dumps(t, 5, buffer_callback=lambda _: False),
    "a part": lambda t: t[...][:0],
}
if importlib.util.find_spec("torch") is not None:
    EXITS |= {
        "torch.from_dlpack": by_torch,
        "versioned capsule to torch": versioned_to_torch,
        "a view of torch": lambda t: t.to("torch", allow_read_only_loss=True).view(-1)[:0],
        "legacy capsule to torch": legacy_to_torch,
    }
REFUSES_READ_ONLY = ("torch.from_dlpack", "legacy capsule to torch")


@pytest.mark.parametrize("way", EXITS)
@pytest.mark.parametrize("kind", NATIVE)
def test_owner_in_cpp_goes_once(kind: str, way: str) -> None:
    if kind == "const" and way in REFUSES_READ_ONLY:
        pytest.skip("read-only memory is refused here")
    before = gone()
    t = ext.nothing(kind)
    made = EXITS[way](t)
    del t
    del made
    assert gone() - before == 1


def torch_nothing() -> object:
    torch = pytest.importorskip("torch")
    x = torch.empty(3, 0)
    assert x.data_ptr() == 0
    return x


@pytest.mark.parametrize("way", EXITS)
def test_owner_in_python_goes(way: str) -> None:
    owner = Owner()
    dies = weakref.ref(owner)
    t = ext.own_by_python(torch_nothing(), owner)
    del owner
    made = EXITS[way](t)
    assert dies() is not None
    del t
    del made
    gc.collect()
    assert dies() is None


@pytest.mark.parametrize("way", EXITS)
def test_tensor_of_torch_goes(way: str) -> None:
    x = torch_nothing()
    dies = weakref.ref(x)
    made = EXITS[way](ext.tensor_of(x))
    del x
    del made
    gc.collect()
    assert dies() is None


@pytest.mark.parametrize("framework", ["torch", "numpy"])
def test_the_array_itself_comes_back(framework: str) -> None:
    x = torch_nothing() if framework == "torch" else np.empty((3, 0), np.float32)
    assert ext.hand(x, framework) is x


def test_address_of_cuda_is_null() -> None:
    t = ext.pages([0, 4], device=(2, 0))
    assert t.data_ptr != 0
    assert t.__cuda_array_interface__["data"] == (0, False)
