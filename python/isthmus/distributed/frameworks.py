"""How the tensors of each framework are described in a message, and rebuilt on arrival: one row per framework."""

from __future__ import annotations

import functools
import pickle
import sys
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from .. import _isthmus
from .._isthmus import Error, Tensor
from ..blob import from_blob
from . import torch_tensors
from .counts import count
from .messages import Message, message
from .packs import fits
from .pieces import Arrived, Pack, Piece, lone_piece, typed
from .policies import Policy, policy_of
from .spans import Layout
from .torch_tensors import Relatives
from .transit import INLINE

#: What a message says of a tensor: its bytes, where in them the elements are, and what only the framework understands.
#: None for one that the engine has to send in its own way: on another device, sparse, a subclass.
Description = tuple[Piece, Layout, Any] | None


#: Of the form of messages. A process that receives another one says so.
WIRE = 4

# Engines whose messages may have several readers, which map the same memory.
_SHARED_BY_READERS = ("ray",)


class Terms(NamedTuple):
    """How a tensor may be used where it arrives."""

    policy: Policy
    #: Whether it is an element of the message itself, and not a part of another object, which needs it as it was.
    is_plain: bool
    #: Whether others read the same memory.
    is_shared: bool

    @property
    def read_only(self) -> bool:
        return self.is_plain and self.is_shared and self.policy != "copy"

    def uses_in_place(self, nbytes: int) -> bool:
        """Whether so many bytes, which others read too, are used where they are, and only read."""
        return self.read_only and nbytes > INLINE

    @property
    def as_tensor(self) -> bool:
        return self.is_plain and self.policy == "tensor"


class Framework(NamedTuple):
    name: str
    #: Its types exist once this has been imported.
    module: str
    types: Callable[[], tuple[type, ...]]
    describe: Callable[[Any, Pack], Description]
    rebuild: Callable[[Arrived, Layout, Any, Terms], object]


def _bytes_under(arrived: Arrived, terms: Terms, immutable: bool = False) -> Tensor:
    """The memory that a framework gets: read-only if it has only `immutable` arrays, or if others read the same."""
    if terms.policy == "copy":
        return arrived.copied()
    if immutable or terms.as_tensor or terms.uses_in_place(arrived.nbytes):
        return arrived.read_only()
    return arrived.private()


# NumPy: any dtype without Python objects, ml_dtypes', dates and records among them.


def _describe_numpy(x: Any, pack: Pack) -> Description:
    numpy = sys.modules["numpy"]
    if type(x) is not numpy.ndarray or x.dtype.hasobject or x.dtype.itemsize == 0:
        return None

    def compact() -> tuple[int, object]:
        copy = numpy.ascontiguousarray(x)
        return copy.__array_interface__["data"][0], copy

    layout = Layout(0, x.shape, x.strides, x.dtype.itemsize)
    return lone_piece(pack, layout, x.__array_interface__["data"][0], x, compact), layout, x.dtype


def _rebuild_numpy(arrived: Arrived, original: Layout, dtype: Any, terms: Terms) -> object:
    import numpy

    flat, layout = _bytes_under(arrived, terms), arrived.layout(original)
    array = numpy.ndarray(layout.shape, dtype, flat if layout.nbytes else None, layout.position, layout.strides)
    if flat.read_only:
        array.flags.writeable = False
    return tensor_over(array) if terms.as_tensor else array


def tensor_over(array: Any) -> object:
    array.flags.writeable = False
    try:
        return _isthmus.from_dlpack(array)
    except Error:  # dates, records: NumPy's own
        return array


#: So many bytes at most are copied out of a message in less time than an array over them is made.
_COPIED = 1 << 10


def _rebuild_dense(
    head: Head, dtype: Any, shape: tuple[int, ...], data: bytes, order: Literal["C", "F"] = "C"
) -> object:
    """An array whose elements lie in this order, without gaps, in bytes that are part of the message."""
    import numpy

    if len(data) > _COPIED and (native := numpy.dtype(dtype)).isnative:
        # As NumPy reads its own pickles: nobody else has the bytes, and they are not copied.
        array = numpy.ndarray((0,), "b")
        array.__setstate__((1, shape, native, order == "F", data))
    else:
        array = numpy.ndarray(shape, dtype, bytearray(data), 0, None, order)
    count("inline")
    if head[0] == WIRE and policy_of(head[1], head[2]) != "tensor":
        return array
    return tensor_over(array) if _terms(head).as_tensor else array


def _rebuild_over(
    head: Head, dtype: Any, shape: tuple[int, ...], buffer: Any, order: Literal["C", "F"] = "C"
) -> object:
    """The same in a buffer, which the engine may have received beside the message."""
    import numpy

    terms = _terms(head)
    array = numpy.ndarray(shape, dtype, buffer, 0, None, order)
    if terms.policy == "copy_on_write":
        in_place, is_writable = terms.uses_in_place(array.nbytes), array.flags.writeable
        if in_place or is_writable:
            count("shared")
            if in_place and is_writable:
                array.flags.writeable = False
            return array
    layout = Layout(0, shape, array.strides, array.itemsize)
    return _rebuild_numpy(Arrived(buffer, 0, False, ()), layout, array.dtype, terms)


class _Elements:
    """The elements of an array, for a pickler that may not know buffers (PEP 574)."""

    __slots__ = ("_array",)

    def __init__(self, array: Any) -> None:
        self._array = array

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _received, (pickle.PickleBuffer(self._array) if protocol >= 5 else self._array.tobytes(),)


def _received(data: Any) -> Any:
    return data


def order_of(x: Any) -> str:
    """The order, "C" or "F", in which the elements of an array lie without gaps; "" if in none, if there are none, or
    if they are Python objects."""
    flags = x.flags
    if x.nbytes == 0 or x.dtype.hasobject:
        return ""
    if flags.c_contiguous:
        return "C"
    # The strides of a dimension of one element can be any.
    return "F" if flags.f_contiguous and 1 not in x.shape else ""


#: Fewer bytes are copied in less time than they are described as a buffer.
_FEW = 4 << 10


def _described_dense(engine: str, x: Any, is_c: bool, in_band: bool) -> tuple[Any, ...]:
    dtype, now = x.dtype, message()
    head = head_of(engine, x, now)
    make: Callable[..., object] = _rebuild_dense
    elements: object
    protocol = 0 if now is None else now.protocol
    rows = x if is_c else x.T
    if x.nbytes <= _FEW or (protocol < 5 and (in_band or protocol != 0)) or not _is_buffer(dtype):
        elements = rows.tobytes()
    elif in_band:
        elements = pickle.PickleBuffer(memoryview(rows).toreadonly())  # arrives as bytes
    else:
        make = _rebuild_over
        elements = pickle.PickleBuffer(rows) if protocol else _Elements(rows)
    if now is not None and not now.has_arrays:
        # A name is read in less time than a pickled dtype, and that in less time when it is met again.
        now.has_arrays = True
        dtype = dtype.str if dtype.isbuiltin == 1 else dtype
    return make, (head, dtype, x.shape, elements) if is_c else (head, dtype, x.shape, elements, "F")


def _is_buffer(dtype: Any) -> bool:
    """Whether arrays of this type are buffers (PEP 3118): dates and ml_dtypes are not."""
    return dtype.isbuiltin == 1 and dtype.kind in "biufc"


# isthmus.Tensor itself, and what it knows to read.


def _describe_tensor(x: Tensor, pack: Pack) -> Description:
    if x.device != "cpu":
        return None
    if x.nbytes != x.size * x.itemsize:
        # Several elements in a byte: moved as bytes, and always row-major.
        layout, shape = Layout(0, (x.nbytes,), (1,), 1), x.shape
    else:
        layout, shape = Layout(0, x.shape, x.byte_strides, x.itemsize), None

    def compact() -> tuple[int, object]:
        copy = _isthmus.from_dlpack(x, copy=True)
        return copy.data_ptr, copy

    return lone_piece(pack, layout, x.data_ptr, x, compact), layout, (x.dtype.name, x.is_padded, shape, x.read_only)


def _tensor_of(arrived: Arrived, original: Layout, told: Any, terms: Terms, immutable: bool = False) -> Tensor:
    flat, layout = _bytes_under(arrived, terms, immutable), arrived.layout(original)
    dtype, padded, shape = told[:3]
    if shape is None:
        return typed(flat, layout, dtype, padded)
    fields = {"ptr": flat.data_ptr + layout.position, "shape": shape, "dtype": dtype, "read_only": flat.read_only}
    return from_blob(fields, owner=flat)


def _rebuild_tensor(arrived: Arrived, original: Layout, told: Any, terms: Terms) -> object:
    was_read_only = told[3]
    tensor = _tensor_of(arrived, original, told, terms)
    keeps = terms.policy == "copy" or not (was_read_only or terms.as_tensor)
    return tensor if keeps else tensor.as_read_only()


def _describe_as_tensor(x: Any, pack: Pack) -> Description:
    """By what isthmus.from_dlpack makes of it; None for what it refuses, such as strings."""
    try:
        return _describe_tensor(_isthmus.from_dlpack(x), pack)
    except Error:
        return None


def _to_xla(tensor: Tensor, framework: Literal["jax", "tensorflow"], terms: Terms) -> object:
    if terms.as_tensor:
        return tensor.as_read_only()
    try:
        return tensor.to(framework)
    except Error:  # not aligned as XLA wants it
        count("copied")
        return _isthmus.from_dlpack(tensor, copy=True).to(framework)


# JAX: arrays of one CPU. They are immutable, so the sender's own pages can be used.


def _jax_types() -> tuple[type, ...]:
    module = sys.modules.get("jax._src.array")
    return (module.ArrayImpl,) if module is not None else ()


def _describe_jax(x: Any, pack: Pack) -> Description:
    if type(x) not in _jax_types() or x.is_deleted() or x.weak_type or not x.is_fully_addressable:
        return None
    devices = x.devices()
    if len(devices) != 1 or next(iter(devices)).platform != "cpu":
        return None
    return _describe_as_tensor(x, pack)


def _rebuild_jax(arrived: Arrived, original: Layout, told: Any, terms: Terms) -> object:
    return _to_xla(_tensor_of(arrived, original, told, terms, immutable=True), "jax", terms)


# TensorFlow: immutable too, but an operation may reuse the memory of an operand that is no longer needed.


def _tensorflow_types() -> tuple[type, ...]:
    module = sys.modules.get("tensorflow.python.framework.ops")
    return (module.EagerTensor,) if module is not None else ()


def _describe_tensorflow(x: Any, pack: Pack) -> Description:
    if type(x) not in _tensorflow_types():
        return None
    return _describe_as_tensor(x, pack)


def _rebuild_tensorflow(arrived: Arrived, original: Layout, told: Any, terms: Terms) -> object:
    return _to_xla(_tensor_of(arrived, original, told, terms._replace(is_shared=False)), "tensorflow", terms)


# Paddle: its tensors can be written in place.


def _describe_paddle(x: Any, pack: Pack) -> Description:
    paddle = sys.modules["paddle"]
    if type(x) is not paddle.Tensor or not x.place.is_cpu_place() or not x.is_leaf:
        return None
    described = _describe_as_tensor(x.detach(), pack)
    if described is None:
        return None
    piece, layout, told = described
    return piece, layout, (told, bool(x.stop_gradient), bool(x.persistable))


def _rebuild_paddle(arrived: Arrived, original: Layout, told: Any, terms: Terms) -> object:
    described, stop_gradient, persistable = told
    tensor = _tensor_of(arrived, original, described, terms._replace(is_shared=False))
    if terms.as_tensor:
        return tensor.as_read_only()
    made = tensor.to("paddle")
    made.stop_gradient, made.persistable = stop_gradient, persistable
    return made


def _types_of(module: str, *names: str) -> Callable[[], tuple[type, ...]]:
    return lambda: tuple(getattr(sys.modules[module], name) for name in names)


FRAMEWORKS = {
    row.name: row
    for row in (
        Framework("tensor", "isthmus", _types_of("isthmus", "Tensor"), _describe_tensor, _rebuild_tensor),
        Framework("numpy", "numpy", _types_of("numpy", "ndarray"), _describe_numpy, _rebuild_numpy),
        Framework("torch", "torch", torch_tensors.types, torch_tensors.describe, torch_tensors.rebuild),
        Framework("jax", "jax", _jax_types, _describe_jax, _rebuild_jax),
        Framework("tensorflow", "tensorflow", _tensorflow_types, _describe_tensorflow, _rebuild_tensorflow),
        Framework("paddle", "paddle", _types_of("paddle", "Tensor"), _describe_paddle, _rebuild_paddle),
    )
}


#: What each message says first: its form, the engine, the sender's policy, and whether a tensor is plain (see Terms).
Head = tuple[int, str, Policy, bool]


@functools.lru_cache(maxsize=64)
def _heads(engine: str, policy: Policy) -> tuple[Head, Head]:
    """Of tensors that are not plain, and of those that are. One object for all alike, which a pickler writes once."""
    return (WIRE, engine, policy, False), (WIRE, engine, policy, True)


def head_of(engine: str, x: object, now: Message | None) -> Head:
    if now is None:
        return _heads(engine, policy_of(engine))[True]
    heads = now.heads
    if heads is None:
        heads = now.heads = _heads(engine, policy_of(engine))
    return heads[now.is_plain(x)]


def _terms(head: Head) -> Terms:
    wire, engine, policy, is_plain = head
    if wire != WIRE:
        error = Error(
            f"a tensor in a message of form {wire}; expected {WIRE}: sender and receiver have different versions of "
            "isthmus, and need the same"
        )
        error.code = "bad_message"
        raise error
    return _terms_of(engine, policy_of(engine, policy), is_plain)


@functools.lru_cache(maxsize=64)
def _terms_of(engine: str, policy: Policy, is_plain: bool) -> Terms:
    return Terms(policy, is_plain, engine in _SHARED_BY_READERS)


def describe(engine: str, framework: Framework, x: object, pack: Pack) -> tuple[Any, ...] | None:
    """The arguments that make `rebuild` make `x` again; None for one that the engine has to send in its own way."""
    described = framework.describe(x, pack)
    if described is None:
        return None
    piece, layout, told = described
    return head_of(engine, x, message()), framework.name, piece, tuple(layout), told


def rebuild(head: Head, framework: str, arrived: Arrived, layout: tuple[Any, ...], told: Any) -> object:
    """Make a tensor of what has arrived, under this process's own policy or else under the sender's."""
    return FRAMEWORKS[framework].rebuild(arrived, Layout(*layout), told, _terms(head))


def relatives(head: Head, framework: str, arrived: Arrived, layout: tuple[Any, ...], told: Any) -> Relatives:
    """What makes the views of a family: see torch_tensors."""
    import torch  # noqa: F401

    return Relatives(arrived, Layout(*layout), told, _terms(head))


def _view_at(family: Relatives, position: int) -> object:
    return family.at(position)


def reducer(
    engine: str,
    framework: Framework,
    pack: Pack,
    before: Callable[[Any], Any] | None,
    protocol: int,
    through_pipes: bool = False,
    goes_before: Callable[[Any], bool] | None = None,
) -> Callable[[Any], Any]:
    """The function that reduces a framework's tensors for a pickler; what it cannot send, and what `goes_before`, goes
    through `before`. Dense NumPy arrays are sent as NumPy sends them; if messages go through pipes, those that fit."""

    def reduce(x: Any) -> Any:
        described = None if goes_before is not None and goes_before(x) else describe(engine, framework, x, pack)
        if described is not None:
            return rebuild, described
        return x.__reduce_ex__(protocol) if before is None else before(x)

    def reduce_torch(x: Any) -> Any:
        now = message()
        member = None if now is None else now.members.get(id(x))
        if member is None or member.tensor is not x:
            return reduce(x)
        family = member.family
        if family.described is None:
            family.described = describe(engine, framework, x, pack)
        return _view_at, (family, member.position)

    def reduce_numpy(x: Any) -> Any:
        nbytes, order = x.nbytes, order_of(x)
        if order and (nbytes <= INLINE or (fits(nbytes) if through_pipes else _is_buffer(x.dtype))):
            return _described_dense(engine, x, order == "C", through_pipes)
        return reduce(x)

    return {"numpy": reduce_numpy, "torch": reduce_torch}.get(framework.name, reduce)
