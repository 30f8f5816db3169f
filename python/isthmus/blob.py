"""Tensors as plain numbers: for runtimes without a tensor type."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import filterfalse
from typing import Any, NoReturn

from ._isthmus import Device, DType, Error, Tensor, _from_fields, from_dlpack
from .dtypes import dtype_of
from .errors import refusal, wanted_by

_REQUIRED = ("ptr", "shape", "dtype")
_OPTIONAL = ("strides", "device", "element_size", "read_only", "padded", "owner")
_FIELDS = (*_REQUIRED, *_OPTIONAL)
_values = operator.attrgetter(*_FIELDS)


class _Kept:
    """Objects that the import behind a Blob holds besides the owner: a buffer that must not be resized, a handle."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor | None = None) -> None:
        self.tensor = tensor

    # dataclasses.asdict() makes deep copies: the address would be the original's, the owner a copy.
    def __deepcopy__(self, memo: object) -> NoReturn:
        raise TypeError(
            "a Blob's owner is not copied apart from its address; call blob.as_dict(), or copy the Blob itself"
        )


@dataclass(frozen=True)
class Blob:
    """Memory that holds a tensor: its address, the layout of the elements, and the object that keeps it alive.

    A Blob of `to_blob` keeps the memory alive as long as the Blob itself lives. Its fields are read-only; to take the
    memory back, or any other memory described in the same way, see `from_blob`.

    `dataclasses.replace` and `copy.copy` give another description of the same memory, with the same owner. A deep or a
    pickled copy owns a copy of the elements, row-major, and has its address; the memory must be the host's.
    """

    #: Address of the first element, byte offset included; an address on `device`.
    ptr: int
    #: Sizes, one per dimension.
    shape: tuple[int, ...]
    #: Steps in elements, one per dimension; None for row-major.
    strides: tuple[int, ...] | None
    #: The type of one element.
    dtype: DType
    #: Where the memory is.
    device: Device
    #: Bytes of one element, rounded up to whole bytes.
    element_size: int
    #: The memory must not be written.
    read_only: bool = False
    #: Elements of fewer than 8 bits occupy a whole byte each.
    padded: bool = False
    #: The object that keeps the memory alive: the array that was described, or the Tensor if C++ or a capsule owns it.
    owner: object = field(default=None, repr=False, compare=False)
    _kept: _Kept = field(default_factory=_Kept, repr=False, compare=False)

    def __copy__(self) -> Blob:
        return replace(self)

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        return to_blob, (from_blob(self),)

    def as_dict(self) -> dict[str, Any]:
        """The description as plain integers, strings and tuples, for a message to another runtime.

        Keys: ptr, shape, strides (in elements), dtype and device (their names), element_size, read_only, and padded if
        it is true. **The owner is left out**: keep this Blob, or its owner, until the other side is done. `from_blob`
        is the inverse.
        """
        fields: dict[str, Any] = {
            "ptr": self.ptr,
            "shape": self.shape,
            "strides": self.strides,
            "dtype": str(self.dtype),
            "device": str(self.device),
            "element_size": self.element_size,
            "read_only": self.read_only,
        }
        if self.padded:
            fields["padded"] = True
        return fields


def to_blob(x: object, /) -> Blob:
    """Describe the memory of `x` in constant time, without a copy.

    x: whatever `from_dlpack` takes, on any device.

    The Blob keeps the memory alive. Raises what `from_dlpack` raises.
    """
    tensor = from_dlpack(x)
    owner = tensor.owner
    return Blob(**_description(tensor), owner=tensor if owner is None else owner, _kept=_Kept(tensor))


def from_blob(blob: Blob | Mapping[str, Any] | object, owner: object = None) -> Tensor:
    """The Tensor that `blob` describes, over the memory that is there already, without a copy.

    blob: a Blob, a mapping with these keys, or an object with these attributes (a dataclass, a namespace, a named
        tuple):
        ptr: the address of the first element, on `device`; 0 only when there are no elements.
        shape: the sizes, one per dimension.
        dtype: what one element is: a name ("float32"), an isthmus, numpy, ml_dtypes or torch dtype, or DLPack's triple.
        strides: the steps **in elements**, one per dimension; left out or None for row-major.
        device: a name ("cuda:0"), an isthmus.Device or DLPack's pair; left out or None for "cpu". Memory of another
            device is
            never touched here: it can go to a framework that works on that device.
        element_size: bytes of one element; checked against the dtype when given.
        read_only: whether the memory must not be written; False when left out.
        padded: whether elements of fewer than 8 bits occupy a whole byte each; False when left out.
        owner: as the argument.
    owner: any object that keeps the memory alive. The Tensor holds it, shows it as `.owner`, and releases it when the
        last view of any framework is gone.

    **Without an owner the caller must keep the memory alive**: it must stay valid until the last view is gone;
    `isthmus.live()` marks tensors without an owner. A Blob of `to_blob` brings its owner, also after
    dataclasses.replace(); read-only memory stays read-only.

    Raises an Error that is also a ValueError (TypeError for a wrong type) and names the field, the value found and the
    value expected. Nothing is checked by reading the memory: a wrong address shows only when the memory is accessed.
    """
    tensor: Tensor | None = None
    if isinstance(blob, Blob):
        if owner is None or owner is blob.owner:
            tensor = _tensor_of(blob)
        if tensor is not None and _describes(blob, tensor):
            return tensor
        fields: Mapping[str, Any] = dict(zip(_FIELDS, _values(blob), strict=True))
    elif isinstance(blob, Mapping):
        fields = blob
        _check_keys(fields)
    else:
        fields = _attributes(blob)
    dtype, padded = dtype_of(fields["dtype"])
    device = _device(fields.get("device"))
    _check_element_size(fields.get("element_size"), dtype)
    read_only = _flag(fields, "read_only")
    if tensor is not None and tensor.read_only and not read_only:
        raise refusal(ValueError, "read_only", "read_only", read_only, "True, since the memory is read-only")
    return _from_fields(
        fields["ptr"],
        fields["shape"],
        fields.get("strides"),
        dtype,
        device,
        read_only,
        padded or _flag(fields, "padded"),
        fields.get("owner") if owner is None else owner,
        tensor,
    )


def bytes_of(tensor: Tensor) -> memoryview:
    """The bytes of a row-major tensor in host memory, of any dtype."""
    fields = {"ptr": tensor.data_ptr, "shape": (tensor.nbytes,), "dtype": "uint8", "read_only": tensor.read_only}
    return memoryview(from_blob(fields, owner=tensor))


def _tensor_of(blob: Blob) -> Tensor | None:
    """The tensor that `blob` was made from, unless another owner was put in its place."""
    tensor = blob._kept.tensor
    if tensor is None:
        return None
    owner = tensor.owner
    return tensor if blob.owner is (tensor if owner is None else owner) else None


def _describes(blob: Blob, tensor: Tensor) -> bool:
    """Whether dataclasses.replace() has left the description as it was."""
    return all(getattr(blob, name) == value for name, value in _description(tensor).items())


def _description(tensor: Tensor) -> dict[str, Any]:
    return {
        "ptr": tensor.data_ptr,
        "shape": tensor.shape,
        "strides": tensor.strides,
        "dtype": tensor.dtype,
        "device": tensor.device,
        "element_size": tensor.itemsize,
        "read_only": tensor.read_only,
        "padded": tensor.is_padded,
    }


def _attributes(blob: object) -> Mapping[str, Any]:
    """The fields that an object has as attributes; its other attributes are ignored."""
    fields = {name: getattr(blob, name) for name in _FIELDS if hasattr(blob, name)}
    # A tensor has a shape and a dtype as well; only the address makes it a description of memory.
    if "ptr" not in fields:
        wanted = "an isthmus.Blob or a mapping such as Blob.as_dict() gives, or an object with these attributes"
        raise refusal(TypeError, "bad_argument", "blob", blob, wanted)
    _check_keys(fields, "an object")
    return fields


def _check_keys(fields: Mapping[str, Any], what: str = "a mapping") -> None:
    missing = [*filterfalse(fields.__contains__, _REQUIRED)]
    if missing:
        raise refusal(
            ValueError,
            "bad_argument",
            "blob",
            sorted(map(str, fields)),
            f"{what} with {', '.join(map(repr, missing))} as well",
        )
    unknown = [*filterfalse(_FIELDS.__contains__, fields)]
    if unknown:
        known = ", ".join(_FIELDS)
        raise refusal(ValueError, "bad_argument", "blob", unknown[0], f"no key but {known}")


def _device(device: object) -> Device:
    if device is None:
        return Device("cpu")
    if isinstance(device, Device):
        return device
    # torch.device("cuda") means the current one, and only torch knows which that is.
    kind, index = getattr(device, "type", None), getattr(device, "index", None)
    value = f"{kind}:{index or 0}" if isinstance(kind, str) and isinstance(index, int | None) else device
    wanted = "a name such as 'cuda:0', an isthmus.Device, or DLPack's (type, id)"
    if not isinstance(value, str | tuple):
        raise refusal(TypeError, "bad_device", "device", device, wanted)
    try:
        return Device(value)
    except (Error, TypeError) as error:
        raise refusal(ValueError, "bad_device", "device", device, wanted_by(error, wanted)) from None


def _check_element_size(size: object, dtype: DType) -> None:
    if size is None:
        return
    wanted = f"{dtype.itemsize}, the bytes of one {dtype}"
    try:
        good = not isinstance(size, bool) and operator.index(size) == dtype.itemsize  # type: ignore[arg-type]
    except TypeError:
        raise refusal(TypeError, "bad_dtype", "element_size", size, wanted) from None
    if not good:
        raise refusal(ValueError, "bad_dtype", "element_size", size, wanted)


def _flag(fields: Mapping[str, Any], name: str) -> bool:
    value = fields.get(name)
    if value is None:
        return False
    # 0 and 1 as well: a message of plain numbers may have no booleans.
    if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise refusal(TypeError, "bad_argument", name, value, "True or False")
