"""The dtypes of the frameworks, as isthmus.DType."""

from __future__ import annotations

import sys
from typing import Any

from ._isthmus import DType, Error
from .errors import refusal, wanted_by


def dtype_of(dtype: object, argument: str = "dtype") -> tuple[DType, bool]:
    """The dtype that `dtype` means, and whether it means elements of fewer than 8 bits that occupy a whole byte each.

    Taken are isthmus.DType, its names ("float32"), DLPack's triple (code, bits, lanes), dtypes and scalar types of
    NumPy and ml_dtypes, and the dtype objects of torch, JAX, TensorFlow and other frameworks. None of them is imported
    for it. Raises TensorTypeError or TensorValueError naming `argument`.
    """
    if isinstance(dtype, DType):
        return dtype, False
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        found = _numpy_dtype(numpy, dtype)
        if found is not None:
            return _from_numpy(found, argument)
    return _own(tuple(dtype) if isinstance(dtype, list) else dtype, dtype, argument), False


def _own(value: Any, found: object, argument: str) -> DType:
    try:
        return DType(value)
    except (Error, TypeError) as error:
        wanted = "a dtype such as 'float32', numpy.float32, torch.float32, or DLPack's (code, bits, lanes)"
        if isinstance(value, tuple):
            wanted = wanted_by(error, wanted)
        kind = (
            ValueError
            if isinstance(found, str | tuple | list) or "dtype" in type(found).__name__.lower()
            else TypeError
        )
        raise refusal(kind, "bad_dtype", argument, found, wanted) from None


def _numpy_dtype(numpy: Any, dtype: object) -> Any:
    """The numpy.dtype behind a dtype, a scalar type, or an object that names one (jax.numpy.float32); else None."""
    if isinstance(dtype, numpy.dtype):
        return dtype
    if isinstance(dtype, type) and issubclass(dtype, numpy.generic):
        return numpy.dtype(dtype)
    inner = getattr(dtype, "dtype", None)
    return inner if isinstance(inner, numpy.dtype) and not hasattr(dtype, "shape") else None


def _from_numpy(dtype: Any, argument: str) -> tuple[DType, bool]:
    if not dtype.isnative:
        raise refusal(
            ValueError, "bad_dtype", argument, dtype, f"the machine's own byte order, {dtype.newbyteorder('=')!r}"
        )
    found = _own(dtype.name, dtype, argument)
    # ml_dtypes stores its int4 and fp4 one to a byte.
    return found, found.bits * found.lanes < 8 * int(dtype.itemsize)
