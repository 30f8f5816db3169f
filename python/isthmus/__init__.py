"""Isthmus: tensors shared between frameworks, and between Python and C++, without copying.

>>> import isthmus
>>> t = isthmus.from_dlpack(x)  # x: an array of any framework; t shares its memory
>>> t.to("torch")               # the same memory as a torch.Tensor, or an error that says why not

`Tensor` is what every framework takes: torch.from_dlpack(t), np.asarray(t), memoryview(t), jax.dlpack.from_dlpack(t).
`to_blob` and `from_blob` describe and take memory as plain numbers, for runtimes without a tensor type. `load` shows
the tensors of a safetensors, GGUF or .npz file, and `save` writes a safetensors file. `shared` hands tensors to other
processes without their bytes; `distributed` takes them through Ray, Dask and multiprocessing. `live` lists the tensors
that are alive between Python and C++. `load_inline` compiles C++ in a string. Every failure is an `Error` and the
builtin exception that fits.
"""

from typing import TYPE_CHECKING, Any

from . import operators, shared, testing
from ._isthmus import (
    Device,
    DeviceType,
    DType,
    Error,
    Tensor,
    TensorBufferError,
    TensorTypeError,
    TensorValueError,
    __version__,
    _rebuild,
    empty,
    from_dlpack,
    trim,
)
from ._live import LiveTensor, LiveTensors, live
from .blob import Blob, from_blob, to_blob
from .paths import get_cflags, get_cmake_dir, get_include, get_includes, get_ldflags, get_library
from .tensor_file import TensorFile, load
from .tensor_saving import save

if TYPE_CHECKING:
    from . import distributed
    from . import typing as typing  # stubs name its types after `import isthmus`
    from .inline import load_inline

__all__ = [
    "Blob",
    "DType",
    "Device",
    "DeviceType",
    "Error",
    "LiveTensor",
    "LiveTensors",
    "Tensor",
    "TensorBufferError",
    "TensorFile",
    "TensorTypeError",
    "TensorValueError",
    "__version__",
    "_rebuild",
    "distributed",
    "empty",
    "from_blob",
    "from_dlpack",
    "get_cflags",
    "get_cmake_dir",
    "get_include",
    "get_includes",
    "get_ldflags",
    "get_library",
    "live",
    "load",
    "load_inline",
    "operators",
    "save",
    "shared",
    "testing",
    "to_blob",
    "trim",
]


def __dir__() -> list[str]:
    return sorted(name for name in __all__ if name == "__version__" or not name.startswith("_"))


def __getattr__(name: str) -> Any:
    # Few programs need these, and what they import takes as long as all the rest.
    if name == "distributed":
        from importlib import import_module

        return import_module(".distributed", __name__)
    if name == "load_inline":
        from .inline import load_inline

        globals()[name] = load_inline
        return load_inline
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
