"""Types for signatures: what is a tensor to Isthmus, as far as a type checker can tell.

>>> def mean(image: isthmus.typing.TensorLike) -> float: ...

The stubs of extensions that are bound with nanobind and pybind11 use it: a number, a string or a list in a tensor's
place is an error of the checker. The expected dtype and sizes are beside it, in ``typing.Annotated``, for readers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from typing import TypeAlias

    import numpy
    import torch
    from typing_extensions import Buffer, CapsuleType

    from ._isthmus import Device, DType

__all__ = [
    "ArrayLike",
    "DTypeLike",
    "DeviceLike",
    "SupportsArray",
    "SupportsArrayInterface",
    "SupportsArrow",
    "SupportsArrowStream",
    "SupportsCudaArrayInterface",
    "SupportsDLPack",
    "TensorLike",
]


class SupportsDLPack(Protocol):
    """Arrays of the Python array API standard."""

    def __dlpack__(self) -> Any: ...


class SupportsArrayInterface(Protocol):
    """NumPy's array interface, version 3."""

    @property
    def __array_interface__(self) -> Any: ...


class SupportsCudaArrayInterface(Protocol):
    """Numba's CUDA array interface, version 3."""

    @property
    def __cuda_array_interface__(self) -> Any: ...


class SupportsArrow(Protocol):
    """Arrow's PyCapsule interface, of an array."""

    def __arrow_c_array__(self) -> Any: ...


class SupportsArrowStream(Protocol):
    """Arrow's PyCapsule interface, of a column."""

    def __arrow_c_stream__(self) -> Any: ...


class SupportsArray(Protocol):
    """Objects that NumPy makes an array of by `__array__`."""

    def __array__(self) -> Any: ...


if TYPE_CHECKING:
    #: Accepted by from_dlpack(), and by a C++ function that takes a tensor of any framework.
    TensorLike: TypeAlias = (
        SupportsDLPack
        | SupportsArrayInterface
        | SupportsCudaArrayInterface
        | SupportsArrow
        | SupportsArrowStream
        | Buffer
        | CapsuleType
    )
    #: Accepted by a C++ function that takes an isthmus::DType: ours, a framework's own, its name, DLPack's numbers.
    DTypeLike: TypeAlias = DType | numpy.dtype[Any] | torch.dtype | type | str | tuple[int, int] | tuple[int, int, int]
    #: Accepted by a C++ function that takes an isthmus::Device: ours, its name, DLPack's numbers.
    DeviceLike: TypeAlias = Device | str | tuple[int, int]
    #: Accepted by a C++ function that takes an ArrayLike: tensors, numbers, and nested sequences of both.
    ArrayLike: TypeAlias = TensorLike | SupportsArray | complex | Sequence["ArrayLike"]
else:
    # Buffer and CapsuleType have no names in Python before 3.12 and 3.13: at run time everything may be tried.
    TensorLike = Any
    ArrayLike = Any
    DTypeLike = Any
    DeviceLike = Any
