"""Types for signatures: what is a tensor to Isthmus, as far as a type checker can tell.

>>> def mean(image: isthmus.typing.TensorLike) -> float: ...

The stubs of extensions that are bound with nanobind and pybind11 use it: a number, a string or a list in a tensor's
place is an error of the checker. ``TensorLike[numpy.float32]`` is a tensor of that dtype: overloads by dtype are told
apart, and a NumPy array whose type says another dtype is an error too. Of the other frameworks' arrays no checker knows
the dtype. The expected sizes are beside it, in ``typing.Annotated``, for readers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from array import array
    from typing import TypeAlias

    import numpy
    import torch
    from typing_extensions import CapsuleType, TypeVar

    from ._isthmus import Device, DType, Tensor

__all__ = [
    "ArrayLike",
    "Capsule",
    "DTypeLike",
    "DeviceLike",
    "NumpyArray",
    "SupportsArray",
    "SupportsArrayInterface",
    "SupportsArrow",
    "SupportsArrowStream",
    "SupportsCudaArrayInterface",
    "SupportsDLPack",
    "TensorLike",
    "bfloat16",
    "float4_e2m1fn",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
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


class bfloat16:  # noqa: N801  # the dtype's own name
    """Stands for the dtype in TensorLike[bfloat16]: NumPy has no class for it."""


class float8_e3m4:  # noqa: N801  # the dtype's own name
    """Stands for the dtype in TensorLike[float8_e3m4]: NumPy has no class for it."""


class float8_e4m3:  # noqa: N801  # the dtype's own name
    """Stands for the dtype in TensorLike[float8_e4m3]: NumPy has no class for it."""


class float8_e4m3b11fnuz:  # noqa: N801  # the dtype's own name
    """Stands for the dtype in TensorLike[float8_e4m3b11fnuz]: NumPy has no class for it."""


class float8_e4m3fn:  # noqa: N801  # the dtype's own name
    """Stands for the dtype in TensorLike[float8_e4m3fn]: NumPy has no class for it."""


class float8_e4m3fnuz:  # noqa: N801  # the dtype's own name
    """Stands for the dtype in TensorLike[float8_e4m3fnuz]: NumPy has no class for it."""


class float8_e5m2:  # noqa: N801  # the dtype's own name
    """Stands for the dtype in TensorLike[float8_e5m2]: NumPy has no class for it."""


class float8_e5m2fnuz:  # noqa: N801  # the dtype's own name
    """Stands for the dtype in TensorLike[float8_e5m2fnuz]: NumPy has no class for it."""


class float8_e8m0fnu:  # noqa: N801  # the dtype's own name
    """Stands for the dtype in TensorLike[float8_e8m0fnu]: NumPy has no class for it."""


class float6_e2m3fn:  # noqa: N801  # the dtype's own name
    """Stands for the dtype in TensorLike[float6_e2m3fn]: NumPy has no class for it."""


class float6_e3m2fn:  # noqa: N801  # the dtype's own name
    """Stands for the dtype in TensorLike[float6_e3m2fn]: NumPy has no class for it."""


class float4_e2m1fn:  # noqa: N801  # the dtype's own name
    """Stands for the dtype in TensorLike[float4_e2m1fn]: NumPy has no class for it."""


if TYPE_CHECKING:
    D = TypeVar("D", default=Any)
    D_co = TypeVar("D_co", covariant=True, default=Any)

    class _DTypeOf(Protocol[D_co]):
        @property
        def type(self) -> type[D_co]: ...

    # Arrays with NumPy's dtypes: NumPy's, JAX', CuPy's.
    class _ArrayOf(Protocol[D_co]):
        @property
        def dtype(self) -> _DTypeOf[D_co]: ...

        def __dlpack__(self) -> Any: ...

        __hash__: ClassVar[None]  # type: ignore[assignment]

    # Arrays whose dtype no checker knows. NumPy's, whose dtype it does, are not hashable, and so are none of these:
    # a checker then sees that overloads by dtype do not overlap.
    class _Producer(SupportsDLPack, Protocol):
        def __hash__(self) -> int: ...

    class _ArrayInterface(SupportsArrayInterface, Protocol):
        def __hash__(self) -> int: ...

    class _Buffer(Protocol):
        def __buffer__(self, flags: int, /) -> memoryview: ...

        def __hash__(self) -> int: ...

    #: Accepted by from_dlpack(), and by a C++ function that takes a tensor of any framework, or of the dtype it names.
    TensorLike: TypeAlias = (
        Tensor
        | _ArrayOf[D]
        | _Producer
        | _ArrayInterface
        | SupportsCudaArrayInterface
        | SupportsArrow
        | SupportsArrowStream
        | _Buffer
        | bytearray
        | array[Any]
        | CapsuleType
    )
    #: Accepted by a C++ function that takes an isthmus::DType: ours, a framework's own, its name, DLPack's numbers.
    DTypeLike: TypeAlias = DType | numpy.dtype[Any] | torch.dtype | type | str | tuple[int, int] | tuple[int, int, int]
    #: Accepted by a C++ function that takes an isthmus::Device: ours, its name, DLPack's numbers.
    DeviceLike: TypeAlias = Device | str | tuple[int, int]
    #: Accepted by a C++ function that takes an ArrayLike: tensors, numbers, and nested sequences of both.
    ArrayLike: TypeAlias = TensorLike | SupportsArray | complex | Sequence["ArrayLike"]
    #: What the `__dlpack__` of a class given isthmus::tensor_protocol() returns.
    Capsule: TypeAlias = CapsuleType
    #: What the `__array__` of such a class returns.
    NumpyArray: TypeAlias = numpy.ndarray[Any, Any]
else:
    # Buffer and CapsuleType have no names in Python before 3.12 and 3.13: at run time everything may be tried.
    class TensorLike:
        """A tensor of any framework; TensorLike[numpy.float32]: of that dtype."""

        def __class_getitem__(cls, _dtype: object) -> type[TensorLike]:
            return cls

    ArrayLike = Any
    Capsule = Any
    DTypeLike = Any
    DeviceLike = Any
    NumpyArray = Any
