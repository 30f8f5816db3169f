"""How the tensors of each framework are described in a message, and rebuilt on arrival: one row per framework."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from .. import _isthmus
from .._isthmus import Error, Tensor
from ..blob import from_blob
from . import torch_tensors
from .counts import count
from .pieces import Arrived, Layout, Pack, Piece, lone_piece, typed
from .policies import Policy, policy_of

#: What a message says of a tensor: its bytes, where in them the elements are, and what only the framework understands.
#: None for one that the engine has to send in its own way: on another device, sparse, a subclass.
Description = tuple[Piece, Layout, Any] | None


class Framework(NamedTuple):
    name: str
    #: Its types exist once this has been imported.
    module: str
    types: Callable[[], tuple[type, ...]]
    describe: Callable[[Any, Pack], Description]
    rebuild: Callable[[Arrived, Layout, Any, Policy], object]


def _bytes_under(arrived: Arrived, policy: Policy, writable: bool) -> Tensor:
    """The memory that a framework without read-only arrays (`writable`), or with them, gets under a policy."""
    if policy == "copy":
        return arrived.copied()
    return arrived.private() if writable and policy == "copy_on_write" else arrived.read_only()


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


def _rebuild_numpy(arrived: Arrived, original: Layout, dtype: Any, policy: Policy) -> object:
    import numpy

    flat, layout = _bytes_under(arrived, policy, False), arrived.layout(original)
    array = numpy.ndarray(layout.shape, dtype, flat if layout.nbytes else None, layout.position, layout.strides)
    if flat.read_only or policy != "copy":
        array.flags.writeable = False
    if policy == "tensor":
        try:
            return _isthmus.from_dlpack(array)
        except Error:  # dates, records: NumPy's own
            return array
    return array


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

    return lone_piece(pack, layout, x.data_ptr, x, compact), layout, (x.dtype.name, x.is_padded, shape)


def _tensor_of(arrived: Arrived, original: Layout, told: Any, policy: Policy, writable: bool = False) -> Tensor:
    flat, layout = _bytes_under(arrived, policy, writable), arrived.layout(original)
    dtype, padded, shape = told
    if shape is None:
        return typed(flat, layout, dtype, padded)
    fields = {"ptr": flat.data_ptr + layout.position, "shape": shape, "dtype": dtype, "read_only": flat.read_only}
    return from_blob(fields, owner=flat)


def _rebuild_tensor(arrived: Arrived, original: Layout, told: Any, policy: Policy) -> object:
    tensor = _tensor_of(arrived, original, told, policy)
    return tensor if policy == "copy" else tensor.as_read_only()


def _describe_as_tensor(x: Any, pack: Pack) -> Description:
    """By what isthmus.from_dlpack makes of it; None for what it refuses, such as strings."""
    try:
        return _describe_tensor(_isthmus.from_dlpack(x), pack)
    except Error:
        return None


def _to_xla(tensor: Tensor, framework: Literal["jax", "tensorflow"], policy: Policy) -> object:
    if policy == "tensor":
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


def _rebuild_jax(arrived: Arrived, original: Layout, told: Any, policy: Policy) -> object:
    return _to_xla(_tensor_of(arrived, original, told, policy), "jax", policy)


# TensorFlow: immutable too, but an operation may reuse the memory of an operand that is no longer needed.


def _tensorflow_types() -> tuple[type, ...]:
    module = sys.modules.get("tensorflow.python.framework.ops")
    return (module.EagerTensor,) if module is not None else ()


def _describe_tensorflow(x: Any, pack: Pack) -> Description:
    if type(x) not in _tensorflow_types():
        return None
    return _describe_as_tensor(x, pack)


def _rebuild_tensorflow(arrived: Arrived, original: Layout, told: Any, policy: Policy) -> object:
    return _to_xla(_tensor_of(arrived, original, told, policy, writable=True), "tensorflow", policy)


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


def _rebuild_paddle(arrived: Arrived, original: Layout, told: Any, policy: Policy) -> object:
    described, stop_gradient, persistable = told
    tensor = _tensor_of(arrived, original, described, policy, writable=True)
    if policy == "tensor":
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


def describe(engine: str, framework: Framework, x: object, pack: Pack) -> tuple[Any, ...] | None:
    """The arguments that make `rebuild` make `x` again; None for one that the engine has to send in its own way."""
    described = framework.describe(x, pack)
    if described is None:
        return None
    piece, layout, told = described
    return engine, policy_of(engine), framework.name, piece, tuple(layout), told


def rebuild(
    engine: str, policy: Policy, framework: str, arrived: Arrived, layout: tuple[Any, ...], told: Any
) -> object:
    """Make a tensor of what has arrived, under this process's own policy or else under the sender's."""
    row = FRAMEWORKS[framework]
    return row.rebuild(arrived, Layout(*layout), told, policy_of(engine, policy))
