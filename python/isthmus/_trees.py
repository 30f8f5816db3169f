"""Trees of tensors in one piece of shared memory: how a Channel lays them out, and how they are read from it.

The memory begins with the length of a description in JSON, and that; the tensors follow, each at a multiple of 64
bytes. The description names no code: what arrives is built of plain values, and of classes that were imported already.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

from . import _isthmus
from ._isthmus import Error, Tensor
from .errors import refusal

_ALIGNMENT = 64
_LENGTH = 8  # bytes that hold the length of the description
_DEEPEST = 200
_MOST_PARTS = 1 << 16
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE

# What comes of a description that is none.
_WRONG = (
    Error,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    BufferError,
    RecursionError,
    OverflowError,
    StopIteration,
)

# What JSON writes as it is; of exactly these types, since a subclass would arrive as another one.
_PLAIN = frozenset((type(None), bool, int, float, str))

#: How from_dlpack() and Pool.share() name their own argument.
_OF_IMPORT = "argument 'x': "

# Kinds of messages (src/shared/messages.h).
TENSOR, PART, TREE = range(3)


def is_tree(x: object) -> bool:
    """Whether `x` is sent as a tree: a plain value or a container, and not an array."""
    cls = type(x)
    return cls in _PLAIN or cls in (dict, list, tuple, bytes, complex) or _fields_of(cls) is not None


class Leaf(NamedTuple):
    tensor: Tensor
    #: Of its elements from the beginning of the tensors; -1 if it travels as itself, since its memory is shared.
    offset: int


class Plan:
    """What a tree needs, before there is memory for it."""

    def __init__(self, x: object) -> None:
        self.leaves: list[Leaf] = []
        self._size = 0
        self._known: dict[int, int] = {}
        self._kept: list[object] = []  # as long as their ids are compared
        self._root = self._node(x, "x", 0)

    def _node(self, x: Any, path: str, depth: int) -> Any:
        cls = type(x)
        if cls in _PLAIN:
            return x
        if depth > _DEEPEST:
            raise refusal(ValueError, "bad_argument", "x", cls, f"a tree of at most {_DEEPEST} levels, at {path[:60]}")
        below = depth + 1
        if cls is dict:
            items = [[self._key(k, path), self._node(v, f"{path}[{k!r}]", below)] for k, v in x.items()]
            return ["d", *items]
        if cls is list or cls is tuple:
            return ["l" if cls is list else "t", *(self._node(v, f"{path}[{i}]", below) for i, v in enumerate(x))]
        if cls is bytes:
            return ["b", x.decode("latin-1")]
        if cls is complex:
            return ["c", x.real, x.imag]
        names = _fields_of(cls)
        if names is not None:
            self._refuse_more(x, cls, names, path)
            fields = [[name, self._node(getattr(x, name), f"{path}.{name}", below)] for name in names]
            return ["s", cls.__module__, cls.__qualname__, *fields]
        return ["x", self._leaf(x, path)]

    def _refuse_more(self, x: Any, cls: type, names: tuple[str, ...], path: str) -> None:
        """A struct travels as its fields, and is made again of them: it must hold nothing else."""
        more = [name for name in _attributes_of(x) if name not in names]
        if more:
            wanted = f"a {cls.__name__} with no attributes but its fields ({', '.join(names)}), at {path}"
            raise refusal(TypeError, "bad_argument", "x", more[0], wanted)
        if not issubclass(cls, tuple) and _base_in_c(cls) is not object:
            wanted = f"a data class that is not also a {_base_in_c(cls).__name__}, at {path}"
            raise refusal(TypeError, "bad_argument", "x", cls, wanted)

    def _key(self, key: object, path: str) -> Any:
        if type(key) in _PLAIN:
            return key
        raise refusal(TypeError, "bad_argument", "x", key, f"None, a bool, a number or a string as a key of {path}")

    def _leaf(self, x: Any, path: str) -> int:
        known = self._known.get(id(x))
        if known is not None:
            return known
        try:
            tensor = _isthmus.from_dlpack(_array_of_scalar(x))
        except Error as error:
            raise refused(error, x, path) from (None if error.code == "not_a_tensor" else error)
        self._known[id(x)] = len(self.leaves)
        self._kept.append(x)
        offset = -1
        if not _isthmus._shared_is_shared(tensor):
            offset = self._size
            self._size += (tensor.nbytes + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
        self.leaves.append(Leaf(tensor, offset))
        return len(self.leaves) - 1

    @property
    def parts(self) -> list[Tensor]:
        """Tensors that are sent as themselves, before the tree."""
        return [leaf.tensor for leaf in self.leaves if leaf.offset < 0]

    def pack(self, allocate: Callable[[int], Tensor]) -> Tensor:
        """The bytes of the tree, in memory that `allocate` makes."""
        layouts: dict[tuple[Any, ...], int] = {}
        table: list[Any] = []
        for tensor, offset in self.leaves:
            if offset < 0:
                table.append(None)
                continue
            strides, first = _dense_strides(tensor)
            layout = tensor.dtype.name, tensor.shape, strides, tensor.is_padded
            table += (offset - first, layouts.setdefault(layout, len(layouts)))
        text = json.dumps([self._root, table, list(layouts)], separators=(",", ":")).encode()
        begin = _begin(len(text))
        flat = allocate(begin + self._size)
        view = memoryview(flat)
        view[:_LENGTH] = len(text).to_bytes(_LENGTH, "little")
        view[_LENGTH : _LENGTH + len(text)] = text
        for tensor, offset in self.leaves:
            if offset >= 0:
                strides, first = _dense_strides(tensor)
                is_dense = tensor.size != 0 and (tensor.is_contiguous or strides is not None)
                if _isthmus._shared_pack(flat, begin + offset, tensor) != (begin + offset - first, is_dense):
                    raise AssertionError(f"the elements of {tensor!r} do not lie as they were described")
        return flat


def _array_of_scalar(x: object) -> object:
    """An array of a scalar of NumPy, since those of ml_dtypes have no buffer; anything else as it is."""
    numpy = sys.modules.get("numpy")
    return numpy.asarray(x) if numpy is not None and isinstance(x, numpy.generic) else x


def _begin(length: int) -> int:
    """Where the tensors begin after a description of `length` bytes."""
    return (_LENGTH + length + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT


def _dense_strides(tensor: Tensor) -> tuple[tuple[int, ...] | None, int]:
    """The strides that a copy of the elements has, None for row-major, and the bytes from its first element to the
    lowest one: dense elements keep their order, as by isthmus.shared.share."""
    if tensor.is_contiguous or tensor.size == 0:
        return None, 0
    step = 1
    for size, stride in sorted(zip(tensor.shape, tensor.strides, strict=True), key=lambda pair: abs(pair[1])):
        if size != 1 and abs(stride) != step:
            return None, 0
        step *= size
    backward = [(size - 1) * stride for size, stride in zip(tensor.shape, tensor.strides, strict=True) if stride < 0]
    return tensor.strides, sum(backward) * tensor.itemsize


def _fields_of(cls: type) -> tuple[str, ...] | None:
    """The names of the fields of a named tuple or a data class; None for any other class, and for arrays."""
    if hasattr(cls, "__dlpack__"):
        return None
    if issubclass(cls, tuple):
        return getattr(cls, "_fields", None)
    return tuple(field.name for field in dataclasses.fields(cls)) if dataclasses.is_dataclass(cls) else None


def _base_in_c(cls: type) -> type:
    """The class whose instances have memory of their own: `object`, or `dict`, `Exception`, … ."""
    return next(base for base in cls.__mro__ if not base.__flags__ & _HEAP_TYPE)


def _attributes_of(x: object) -> list[str]:
    """The names of the attributes that the object itself has. What a cached_property keeps is made again."""
    cls = type(x)
    found = [name for name in getattr(x, "__dict__", ()) if not isinstance(getattr(cls, name, None), cached_property)]
    for base in cls.__mro__:
        slots = base.__dict__.get("__slots__", ())
        slots = (slots,) if isinstance(slots, str) else slots
        found += [name for name in slots if name not in ("__dict__", "__weakref__") and hasattr(x, name)]
    return found


def refused(error: Error, x: object, path: str = "x") -> Error:
    """What says of an object that is no array, or none that can be sent, where it stands."""
    if error.code != "not_a_tensor":
        said = type(error)(f"argument 'x', at {path}: {str(error).removeprefix(_OF_IMPORT)}")
        said.code = error.code
        return said
    wanted = "an array, None, a bool, a number, a string, bytes, a dict, list, tuple, named tuple or data class"
    plain = next((f"; {base.__name__}() makes one" for base in (dict, list, tuple) if isinstance(x, base)), "")
    return refusal(TypeError, "not_a_tensor", "x", type(x), f"{wanted}, at {path}{plain}")


def _bad(text: str) -> Error:
    error = Error(text)
    error.code = "bad_message"
    return error


def with_part(parts: list[Tensor], part: Tensor) -> list[Tensor]:
    """The parts of a tree so far, with one more."""
    if len(parts) >= _MOST_PARTS:
        parts.clear()
        raise _bad(f"more than {_MOST_PARTS} tensors came, and no tree that they belong to")
    parts.append(part)
    return parts


def unpack(flat: Tensor, parts: list[Tensor]) -> Any:
    """The tree in received bytes. Raises isthmus.Error for bytes that are none, and for a class that this process has
    not imported."""
    try:
        description = _description_in(flat)
        root, table, layouts = json.loads(description)
        return _build(root, _tensors_of(flat, _begin(len(description)), table, layouts, parts))
    except _WRONG as error:
        if isinstance(error, Error) and error.code == "bad_message":
            raise
        raise _bad(f"the message is no tree of isthmus.shared.Channel: {error}") from error


def _description_in(flat: Tensor) -> bytes:
    view = memoryview(flat)
    if view.ndim != 1 or view.itemsize != 1 or len(view) < _LENGTH:
        raise _bad(f"the tree lies in a tensor of shape {flat.shape} and dtype {flat.dtype}; expected bytes")
    length = int.from_bytes(view[:_LENGTH], "little")
    if length > len(view) - _LENGTH:
        raise _bad(f"the tree says a description of {length} bytes in {len(view)}; expected less")
    return bytes(view[_LENGTH : _LENGTH + length])


def _tensors_of(flat: Tensor, begin: int, table: list[Any], layouts: list[Any], parts: list[Tensor]) -> list[Tensor]:
    """The tensors of a tree: one of the last parts for each null in the table, else what lies in `flat`."""
    rest = iter(parts[len(parts) - table.count(None) :])
    rows = iter(table)
    return [
        next(rest) if offset is None else _isthmus._shared_view(flat, begin + offset, *layouts[next(rows)])
        for offset in rows
    ]


def _build(node: Any, tensors: list[Tensor]) -> Any:
    if type(node) is not list:
        return node
    kind, *rest = node
    if kind == "x":
        (i,) = rest
        return tensors[i]
    if kind == "d":
        return {key: _build(value, tensors) for key, value in rest}
    if kind == "l":
        return [_build(value, tensors) for value in rest]
    if kind == "t":
        return tuple([_build(value, tensors) for value in rest])
    if kind == "b":
        return rest[0].encode("latin-1")
    if kind == "c":
        return complex(*rest)
    if kind == "s":
        module, name, *fields = rest
        return _struct(module, name, [(field, _build(value, tensors)) for field, value in fields])
    raise ValueError(f"a node of kind {kind!r}")


def _struct(module: str, name: str, fields: list[tuple[str, Any]]) -> Any:
    """Made as pickle makes it, without a call of its constructor; nothing is imported for it."""
    cls: Any = sys.modules.get(module)
    for part in name.split("."):
        cls = getattr(cls, part, None)
    names = _fields_of(cls) if isinstance(cls, type) else None
    if names is None:
        raise _bad(f"the tree holds a {module}.{name}, which this process does not know; import {module} first")
    if names != tuple(field for field, _ in fields):
        said = ", ".join(field for field, _ in fields)
        raise _bad(f"the tree holds a {module}.{name} of the fields {said}; expected {', '.join(names)}")
    if issubclass(cls, tuple):
        return tuple.__new__(cls, [value for _, value in fields])
    made = object.__new__(cls)
    for field, value in fields:
        object.__setattr__(made, field, value)
    return made
