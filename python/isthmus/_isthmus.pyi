"""The compiled part of isthmus."""

import builtins
from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from types import EllipsisType, ModuleType
from typing import Any, ClassVar, Literal, NoReturn, SupportsIndex, final, overload

import jax
import numpy.typing
import torch
from typing_extensions import Buffer, CapsuleType

__version__: str
__cxx_library_release__: int

class Error(Exception):
    """Any failure of an exchange."""

    #: The name of the isthmus::ErrorCode: "read_only", "bad_dtype", ...
    code: str | None

class TensorTypeError(Error, TypeError):
    """The wrong kind of object: not a tensor, or not of the expected kind."""

class TensorValueError(Error, ValueError):
    """An argument that does not fit: another dtype, shape or layout than expected, a number out of range."""

class TensorBufferError(Error, BufferError):
    """A tensor that cannot be exchanged as it is: read-only memory, another device, bytes that are not the values."""

class DeviceType(int):
    """DLPack's device type, an int that equals its name. It has no hash: use int(x) or str(x) as a key."""

    __hash__: ClassVar[None]  # type: ignore[assignment]

@final
class DType:
    """The type of one element: DLPack's code, bits and lanes.

    Made from its name, (code, bits, lanes), or a framework's dtype: DType(torch.float32) == x.dtype. Equals its name,
    and NumPy's dtype and scalar type. Its hash is that of NumPy's dtype; if NumPy has none, that of its name.
    """

    @overload
    def __new__(cls, dtype: object, /) -> DType: ...
    @overload
    def __new__(cls, code: int, bits: int, lanes: int = 1, /) -> DType: ...
    @property
    def name(self) -> builtins.str:
        """'float32', 'bfloat16', 'float8_e4m3fn', 'float32x4'"""
    @property
    def code(self) -> int:
        """DLPack's type code (DLDataTypeCode)"""
    @property
    def bits(self) -> int:
        """bits of one lane"""
    @property
    def lanes(self) -> int:
        """lanes of a vector type, else 1"""
    @property
    def itemsize(self) -> int:
        """bytes of one element, rounded up"""
    @property
    def dtype(self) -> numpy.dtype[Any]:
        """NumPy's dtype, or ml_dtypes' one; an AttributeError if they have none"""
    @property
    def __numpy_dtype__(self) -> numpy.dtype[Any]:
        """What numpy.dtype(x) asks for: dtype"""
    @property
    def kind(self) -> builtins.str:
        """As of NumPy's dtype; an AttributeError if NumPy has none."""
    @property
    def char(self) -> builtins.str:
        """As of NumPy's dtype; an AttributeError if NumPy has none."""
    @property
    def str(self) -> builtins.str:
        """As of NumPy's dtype; an AttributeError if NumPy has none."""
    @property
    def type(self) -> builtins.type[Any]:
        """As of NumPy's dtype; an AttributeError if NumPy has none."""
    @property
    def num(self) -> int:
        """As of NumPy's dtype; an AttributeError if NumPy has none."""
    @property
    def byteorder(self) -> builtins.str:
        """As of NumPy's dtype; an AttributeError if NumPy has none."""
    @property
    def isnative(self) -> bool:
        """As of NumPy's dtype; an AttributeError if NumPy has none."""
    @property
    def alignment(self) -> int:
        """As of NumPy's dtype; an AttributeError if NumPy has none."""
    @property
    def hasobject(self) -> bool:
        """As of NumPy's dtype; an AttributeError if NumPy has none."""
    @property
    def names(self) -> tuple[builtins.str, ...] | None:
        """As of NumPy's dtype; an AttributeError if NumPy has none."""
    @property
    def fields(self) -> Any:
        """As of NumPy's dtype; an AttributeError if NumPy has none."""
    @property
    def subdtype(self) -> Any:
        """As of NumPy's dtype; an AttributeError if NumPy has none."""
    @property
    def metadata(self) -> Any:
        """As of NumPy's dtype; an AttributeError if NumPy has none."""
    @property
    def descr(self) -> list[Any]:
        """As of NumPy's dtype; an AttributeError if NumPy has none."""
    @property
    def newbyteorder(self) -> Callable[..., numpy.dtype[Any]]:
        """As of NumPy's dtype; an AttributeError if NumPy has none."""
    def __iter__(self) -> Iterator[int]: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class Device:
    """Where memory is: DLPack's device type and index. Equals its name ('cpu', 'cuda:0'), and has its hash."""

    @overload
    def __new__(cls, device: Device | str | tuple[int, int], /) -> Device: ...
    @overload
    def __new__(cls, type: int, id: int, /) -> Device: ...
    @property
    def name(self) -> str:
        """'cpu', 'cuda:0'"""
    @property
    def type(self) -> DeviceType:
        """DLPack's device type: a number that equals its name, 'cuda'"""
    @property
    def id(self) -> int:
        """index of the device"""
    def __iter__(self) -> Iterator[int]: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...

_Framework = Literal[
    "tensor",
    "capsule",
    "capsule_legacy",
    "numpy",
    "torch",
    "jax",
    "cupy",
    "tensorflow",
    "paddle",
    "mlx",
    "pyarrow",
    "warp",
    "onnxruntime",
    "tvm_ffi",
]

@final
class Tensor:
    """A tensor of any framework, or of C++, that every framework accepts without a copy."""

    __dlpack_c_exchange_api__: CapsuleType
    @property
    def data_ptr(self) -> int:
        """Address of the first element, byte offset included."""
    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes, one per dimension."""
    @property
    def strides(self) -> tuple[int, ...]:
        """Steps in elements, one per dimension."""
    @property
    def byte_strides(self) -> tuple[int, ...]:
        """Steps in bytes, one per dimension."""
    @property
    def dtype(self) -> DType:
        """The type of one element (isthmus.DType)."""
    @property
    def device(self) -> Device:
        """Where the memory is (isthmus.Device)."""
    @property
    def read_only(self) -> bool:
        """The memory must not be written."""
    @property
    def is_copied(self) -> bool:
        """The memory is a copy that was made for this tensor."""
    @property
    def is_padded(self) -> bool:
        """Elements of fewer than 8 bits occupy a whole byte each."""
    @property
    def is_contiguous(self) -> bool:
        """Row-major and compact."""
    @property
    def ndim(self) -> int:
        """Number of dimensions."""
    @property
    def size(self) -> int:
        """Number of elements."""
    @property
    def itemsize(self) -> int:
        """Bytes of one element, rounded up."""
    @property
    def nbytes(self) -> int:
        """Bytes of all elements when compact."""
    @property
    def owner(self) -> Any:
        """The Python object that keeps the memory alive, or None when C++ does."""
    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's array interface, version 3; host memory only."""
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The CUDA array interface, version 3; CUDA memory only."""
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType:
        """A DLPack capsule (array API standard 2024.12, DLPack 1.3)."""
    def __dlpack_device__(self) -> tuple[int, int]:
        """(device type, device id) as DLPack numbers them."""
    @property
    def __numpy_dtype__(self) -> numpy.dtype[Any]:
        """NumPy's dtype, for what asks for that of an array; an AttributeError if it has none."""
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[CapsuleType, CapsuleType]:
        """An Arrow array over the same memory: of numbers, or of tensors of one shape (arrow.fixed_shape_tensor) if
        there is more than one dimension. Host memory, row-major."""
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """A numpy.ndarray over the same memory, or a copy if requested."""
    def ravel(self) -> numpy.typing.NDArray[Any]:
        """A numpy.ndarray of one dimension: the same memory if it is row-major, else a copy."""
    @property
    def ctypes(self) -> Any:
        """As of a numpy.ndarray over the same memory; host memory only."""
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __len__(self) -> int: ...
    def __getitem__(
        self, index: SupportsIndex | slice | EllipsisType | tuple[SupportsIndex | slice | EllipsisType, ...], /
    ) -> Tensor: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    def __contains__(self, value: object, /) -> NoReturn: ...
    def __bool__(self) -> NoReturn: ...
    def __float__(self) -> NoReturn: ...
    def __int__(self) -> NoReturn: ...
    @overload
    def to(
        self, framework: Literal["numpy"], /, *, allow_read_only_loss: bool = False, allow_copy: bool = False
    ) -> numpy.typing.NDArray[Any]:
        """The same memory as an array of `framework` ('numpy', 'torch', 'jax', … or the module), or an error that says
        why not."""
    @overload
    def to(
        self, framework: Literal["torch"], /, *, allow_read_only_loss: bool = False, allow_copy: bool = False
    ) -> torch.Tensor: ...
    @overload
    def to(
        self, framework: Literal["jax"], /, *, allow_read_only_loss: bool = False, allow_copy: bool = False
    ) -> jax.Array: ...
    @overload
    def to(
        self, framework: Literal["tensor"], /, *, allow_read_only_loss: bool = False, allow_copy: bool = False
    ) -> Tensor: ...
    @overload
    def to(
        self, framework: _Framework | ModuleType, /, *, allow_read_only_loss: bool = False, allow_copy: bool = False
    ) -> Any: ...
    def as_read_only(self) -> Tensor:
        """The same memory, to be read only."""

def from_dlpack(
    x: object,
    /,
    *,
    device: Device | str | tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Tensor:
    """The memory of `x` as an isthmus.Tensor, without a copy, in constant time.

    x: an array of any framework, a DLPack capsule, or any object with the buffer protocol or an array interface.
    device: the requested device ('cuda:0', an isthmus.Device, or DLPack's (type, id)). None leaves the data in place;
        for another device than x's, x is requested to copy it there.
    copy: None shares the memory; a copy is made only to reach `device`, or by x itself if it cannot share
        (`is_copied` is then true). False never copies. True always does, and the copy is writable.

    The Tensor keeps x's memory alive. Memory that is read-only in x stays read-only. Raises isthmus.Error, which is
    also a TypeError (x is not a tensor), a BufferError (x cannot be shared) or a ValueError (an argument is wrong); an
    exception of x itself is its __cause__. An isthmus.Tensor is returned unchanged.
    Source: Python array API standard 2024.12, from_dlpack.
    """

def empty(shape: SupportsIndex | Sequence[SupportsIndex], dtype: object = "float32") -> Tensor:
    """A new Tensor in host memory: row-major, not initialised, writable, owned by nobody but its views.

    shape: the sizes, or one number for one dimension. Aligned to 64 bytes, so that JAX shares it too.
    """

def trim(keep: int = 0) -> int:
    """Release the memory of dropped tensors to the system; returns the number of bytes released.

    keep: how many bytes each extension module may keep, the most recently dropped first. A module that is compiled with
        Isthmus keeps the memory of tensors of 64 KiB and more for the next one of about that size, 512 MiB at most; the
        system may reclaim blocks of 32 MiB and more when it runs short (MADV_FREE). Applies to all modules of the
        process. Raises ValueError if it is negative.
    """

_backend_v1: object

def _rebuild(
    buffer: Buffer, dtype: str, shape: tuple[int, ...], padded: bool, strides: tuple[int, ...] | None = None,
    read_only: bool = False, /,
) -> Tensor: ...  # fmt: skip
def _from_fields(
    ptr: object,
    shape: object,
    strides: object,
    dtype: DType,
    device: Device,
    read_only: bool,
    padded: bool,
    owner: object,
    tensor: Tensor | None,
    /,
) -> Tensor: ...
def _live_enable(tracing: bool, /) -> None: ...
def _live_disable() -> None: ...
def _live_enabled() -> bool: ...
def _live_list() -> list[tuple[Any, ...]]: ...
def _protocol_of(x: object, /) -> str: ...
def _protocol_names() -> tuple[str, ...]: ...
def _framework_names() -> tuple[str, ...]: ...
def _nothing(x: object, /) -> None: ...
def _load(
    path: str | bytes | PathLike[str] | PathLike[bytes], access: str, /
) -> tuple[CapsuleType, tuple[str, ...], dict[str, str]]: ...
def _load_bytes(path: str | bytes | PathLike[str] | PathLike[bytes], access: str, /) -> Tensor: ...
def _load_at(file: CapsuleType, name: str, /) -> Tensor: ...
def _load_copy(file: CapsuleType, name: str, /) -> Tensor: ...
def _shared_empty(
    shape: Any, dtype: Any, access: str, pool: CapsuleType | None, timeout: float | None, /
) -> Tensor: ...
def _shared_share(x: object, access: str, pool: CapsuleType | None, timeout: float | None, /) -> Tensor: ...
def _shared_is_shared(x: object, /) -> bool: ...
def _shared_send(socket: int, tensor: object, access: str, timeout: float | None, kind: int, /) -> None: ...
def _shared_receive(socket: int, access: str | None, timeout: float | None, /) -> Tensor: ...
def _shared_receive_any(socket: int, access: str | None, timeout: float | None, /) -> tuple[Tensor, int]: ...
def _shared_pack(flat: Tensor, offset: int, x: object, /) -> tuple[int, bool]: ...
def _shared_view(flat: Tensor, offset: int, dtype: Any, shape: Any, strides: Any, padded: bool, /) -> Tensor: ...
def _shared_pool(limit: int, idle_limit: int, /) -> CapsuleType: ...
def _shared_stats(pool: CapsuleType | None, /) -> tuple[int, int, int, int]: ...
def _operators() -> list[Any]: ...
def _shared_trim(pool: CapsuleType | None, /) -> None: ...
