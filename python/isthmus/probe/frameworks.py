"""The probe's view of each framework: how to make an array, find its memory, and pass one of ours.

The address always comes from the framework itself, never from Isthmus, or the comparison would prove nothing.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import isthmus

from ..timing import ELEMENTS, way_out


class Unusable(Exception):
    """The framework is installed and cannot be tried on this machine."""


@dataclass(frozen=True)
class Framework:
    """How the probe deals with one framework. Nothing is imported before it is called, and then only in the child
    process."""

    #: Module to look for.
    module: str
    #: Names under which pip may know it, for the version.
    packages: tuple[str, ...]
    #: An array of ELEMENTS numbers in the framework's own memory.
    make: Callable[[], Any]
    #: The address of an array's first element.
    address: Callable[[Any], int]
    #: Whether the framework would let the array be written; None if it has no such notion.
    writable: Callable[[Any], bool | None]
    #: Passes a Tensor, and the framework's name in Tensor.to, if it has one.
    to: str | Callable[[isthmus.Tensor], Any]
    dtype: str = "float32"
    #: Memory to pass, if it must not be the host's.
    tensor: Callable[[], isthmus.Tensor] | None = None

    def leave(self, tensor: isthmus.Tensor) -> Any:
        function, argument = way_out(tensor, self.to)
        return function(argument)


class _PyBuffer(ctypes.Structure):
    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


def _buffer_address(array: Any) -> int:
    """The address by the buffer protocol, without NumPy."""
    buffer = _PyBuffer()
    simple = 0
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(array), ctypes.byref(buffer), ctypes.c_int(simple))
    address = int(buffer.buf or 0)
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))
    return address


def _always(value: bool | None) -> Callable[[Any], bool | None]:
    return lambda array: value


def _module(name: str) -> Any:
    return import_module(name)


def _numpy(dtype: str = "float32") -> Any:
    return _module("numpy").zeros(ELEMENTS, dtype)


def _numpy_writable(array: Any) -> bool:
    return bool(array.flags.writeable)


def _numpy_address(array: Any) -> int:
    return int(array.ctypes.data)


def _jax() -> Any:
    jax = _module("jax")
    return jax.device_put(_module("jax.numpy").zeros(ELEMENTS, "float32"), jax.devices("cpu")[0])


def _tensorflow() -> Any:
    tensorflow = _module("tensorflow")
    with tensorflow.device("CPU"):
        return tensorflow.zeros(ELEMENTS)


def _paddle() -> Any:
    paddle = _module("paddle")
    paddle.set_device("cpu")
    return paddle.zeros([ELEMENTS])


def _mlx() -> Any:
    mlx = _module("mlx.core")
    array = mlx.zeros(ELEMENTS)
    mlx.eval(array)
    return array


def _warp() -> Any:
    warp = _module("warp")
    warp.config.quiet = True
    return warp.zeros(ELEMENTS, dtype=warp.float32, device="cpu")


def _cuda_core_view(array: Any) -> Any:
    return _module("cuda.core.utils").StridedMemoryView.from_any_interface(array, stream_ptr=-1)


def _kornia_image(array: Any) -> Any:
    return _module("kornia_rs.image").Image.from_numpy(array)


def _cupy() -> Any:
    cupy = _module("cupy")
    try:
        if cupy.cuda.runtime.getDeviceCount() == 0:
            raise Unusable("no CUDA device")
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise Unusable(f"no CUDA device ({error})") from None
    return cupy.zeros(ELEMENTS, "float32")


def _cupy_tensor() -> isthmus.Tensor:
    """Memory of the device that has never been CuPy's array, so that the way back cannot shortcut."""
    array = _cupy()
    return isthmus.from_blob(isthmus.to_blob(array).as_dict(), owner=array)


FRAMEWORKS: dict[str, Framework] = {
    "torch": Framework(
        module="torch",
        packages=("torch",),
        make=lambda: _module("torch").zeros(ELEMENTS),
        address=lambda array: int(array.data_ptr()),
        writable=_always(True),
        to="torch",
    ),
    "numpy": Framework(
        module="numpy",
        packages=("numpy",),
        make=_numpy,
        address=_numpy_address,
        writable=_numpy_writable,
        to="numpy",
    ),
    "jax": Framework(
        module="jax",
        packages=("jax",),
        make=_jax,
        address=lambda array: int(array.unsafe_buffer_pointer()),
        writable=_always(False),
        to="jax",
    ),
    "tensorflow": Framework(
        module="tensorflow",
        packages=("tensorflow", "tensorflow-cpu"),
        make=_tensorflow,
        address=_buffer_address,
        writable=_always(False),
        to="tensorflow",
    ),
    "paddle": Framework(
        module="paddle",
        packages=("paddlepaddle", "paddlepaddle-gpu"),
        make=_paddle,
        address=lambda array: int(array.data_ptr()),
        writable=_always(True),
        to="paddle",
    ),
    "mlx": Framework(
        module="mlx.core",
        packages=("mlx",),
        make=_mlx,
        address=_buffer_address,
        writable=_always(False),
        to="mlx",
    ),
    "pyarrow": Framework(
        module="pyarrow",
        packages=("pyarrow",),
        make=lambda: _module("pyarrow").Tensor.from_numpy(_numpy()),
        address=_buffer_address,
        writable=lambda array: bool(array.is_mutable),
        to="pyarrow",
    ),
    "warp": Framework(
        module="warp",
        packages=("warp-lang",),
        make=_warp,
        address=lambda array: int(array.ptr),
        writable=_always(True),
        to="warp",
    ),
    "cuda-core": Framework(
        module="cuda.core",
        packages=("cuda-core",),
        make=lambda: _cuda_core_view(_numpy()),
        address=lambda array: int(array.ptr),
        writable=lambda array: not array.readonly,
        to=_cuda_core_view,
    ),
    "onnxruntime": Framework(
        module="onnxruntime",
        packages=("onnxruntime", "onnxruntime-gpu"),
        make=lambda: _module("onnxruntime").OrtValue.ortvalue_from_numpy(_numpy()),
        address=lambda array: int(array.data_ptr()),
        writable=_always(True),
        to="onnxruntime",
    ),
    "openvino": Framework(
        module="openvino",
        packages=("openvino",),
        make=lambda: _module("openvino").Tensor(_numpy()),
        address=lambda array: int(array.data.ctypes.data),
        writable=_always(True),
        to=lambda tensor: _module("openvino").Tensor(_module("numpy").asarray(tensor), shared_memory=True),
    ),
    "kornia-rs": Framework(
        module="kornia_rs",
        packages=("kornia-rs", "kornia_rs"),
        make=lambda: _kornia_image(_numpy().reshape(10, ELEMENTS // 10, 1)),
        address=lambda array: int(array.data_ptr),
        writable=lambda array: not memoryview(array).readonly,
        to=lambda tensor: _module("kornia_rs.image").Image.from_dlpack(tensor),
        tensor=lambda: isthmus.empty((10, ELEMENTS // 10, 1)),
    ),
    "tvm-ffi": Framework(
        module="tvm_ffi",
        packages=("apache-tvm-ffi",),
        make=lambda: _module("tvm_ffi").from_dlpack(_numpy()),
        address=lambda array: int(array.data_ptr()),
        writable=_always(None),
        to="tvm_ffi",
    ),
    "cupy": Framework(
        module="cupy",
        packages=("cupy", "cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x"),
        make=_cupy,
        address=lambda array: int(array.data.ptr),
        writable=_always(True),
        to="cupy",
        tensor=_cupy_tensor,
    ),
    "ml_dtypes": Framework(
        module="ml_dtypes",
        packages=("ml_dtypes", "ml-dtypes"),
        make=lambda: _numpy(_module("ml_dtypes").bfloat16),
        address=_numpy_address,
        writable=_numpy_writable,
        to="numpy",
        dtype="bfloat16",
    ),
}
