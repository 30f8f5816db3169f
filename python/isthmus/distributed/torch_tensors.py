"""torch's tensors in a message: a storage once, and how each view lies in it."""

from __future__ import annotations

import bisect
import functools
import sys
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..dtypes import dtype_of
from .messages import Message
from .messages import message as current
from .pieces import Arrived, Inline, Pack, Piece, Storage, typed
from .spans import Layout, Span, spans


def types() -> tuple[type, ...]:
    torch = sys.modules["torch"]
    return torch.Tensor, torch.nn.Parameter


@functools.cache
def _name_of(dtype: Any) -> str:
    """DLPack's name of a torch dtype; empty if it has none."""
    try:
        return dtype_of(dtype)[0].name
    except (TypeError, ValueError):
        return ""


def _is_plain(x: Any, torch: Any) -> bool:
    """Whether its bytes are its values, and all that there is to it."""
    return (
        type(x) in (torch.Tensor, torch.nn.Parameter)
        and x.layout is torch.strided
        and x.is_cpu
        and not (
            x.is_nested
            or x.is_conj()
            or x.is_neg()
            or x.is_quantized
            or x._is_zerotensor()
            or any(getattr(x, "names", ()))
        )
        and (x.is_leaf or not x.requires_grad)
        and not x.__dict__
        and not x._backward_hooks
    )


@functools.lru_cache(maxsize=1024)
def _told(dtype: Any, requires_grad: bool, is_parameter: bool) -> tuple[str, bool, bool, str]:
    """One object for all alike, which a pickler writes once."""
    return str(dtype).removeprefix("torch."), requires_grad, is_parameter, _name_of(dtype)


class _View(NamedTuple):
    """What a message needs to know of a tensor."""

    tensor: Any
    storage: Any
    base: int
    storage_nbytes: int
    layout: Layout
    #: Of the layout.
    reach: tuple[int, int]


def _view_of(x: Any, torch: Any) -> _View | None:
    if not _is_plain(x, torch):
        return None
    try:
        storage = x.untyped_storage()
        base = storage.data_ptr()
    except RuntimeError:  # a wrapper of one of torch's transformations
        return None
    item = x.element_size()
    layout = Layout(x.storage_offset() * item, tuple(x.shape), tuple([step * item for step in x.stride()]), item)
    if base == 0 and layout.nbytes:
        return None
    return _View(x, storage, base, storage.nbytes(), layout, layout.reach())


def _plan(message: Message, torch: Any) -> None:
    """Find out which views of which storages the message holds, before the first of them is pickled."""
    message.views[0] = None  # not again, if nothing is found
    found: dict[tuple[int, int], list[_View]] = {}
    for x in message.tensors or ():
        if type(x) not in (torch.Tensor, torch.nn.Parameter):
            continue
        view = _view_of(x, torch)
        message.views[id(x)] = view
        if view is not None:
            found.setdefault((view.base, view.storage_nbytes), []).append(view)
    for (base, nbytes), views in found.items():
        if len(views) > 1:
            planned = _storage(message, base, nbytes).planned = spans([(*view.reach, view.layout) for view in views])
            if len(views) >= _MANY and not views[0].storage.is_shared():
                message.members.update(_members(message, planned, views))


class Family:
    """Views of one span of a storage that differ in their position only, while a message is pickled."""

    def __init__(self) -> None:
        #: What `frameworks.describe` has made of the first of them.
        self.described: tuple[Any, ...] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        from .frameworks import relatives

        assert self.described is not None
        return relatives, self.described


#: Of one storage in a message: fewer views are described one by one.
_MANY = 16


def _members(message: Message, planned: list[Span], views: list[_View]) -> Iterator[tuple[int, Member]]:
    """By id, the views that belong to a family: those that a planned span holds."""
    families: dict[Any, Family] = {}
    for view in views:
        (low, high), x, layout = view.reach, view.tensor, view.layout
        at = bisect.bisect_right(planned, (low, sys.maxsize)) - 1
        if at < 0 or high > planned[at].high or (layout.position - planned[at].low) % layout.itemsize:
            continue
        is_plain = message.is_plain(x)
        key = at, is_plain, layout.shape, layout.strides, x.dtype, x.requires_grad, type(x)
        family = families.get(key)
        if family is None:
            family = families[key] = Family()
        yield id(x), Member(x, family, layout.position)


class Member(NamedTuple):
    tensor: Any
    family: Family
    position: int


class Relatives:
    """A family where it has arrived."""

    def __init__(self, arrived: Arrived, layout: Layout, told: Any, terms: Any) -> None:
        self._arrived, self._layout, self._told, self._terms = arrived, layout, told, terms
        dtype, requires_grad, is_parameter, name = told
        self._is_special = requires_grad or is_parameter or (terms.as_tensor and name)
        if not self._is_special:
            self._dtype = getattr(sys.modules["torch"], dtype)
            self._storage = _storage_in(arrived, terms)
            self._like = arrived.once(self._dtype, lambda: _empty(self._dtype))
            self._shape, self._strides = layout.shape, _strides_of(layout)

    def at(self, position: int) -> object:
        """The view that begins there in the sender's storage."""
        if self._is_special:
            return rebuild(self._arrived, self._layout._replace(position=position), self._told, self._terms)
        offset = (position - self._arrived.start) // self._layout.itemsize
        made = self._like.data.set_(self._storage, offset, self._shape, self._strides)
        self._arrived.views.append((_move_relative, weakref.ref(made), self, position))
        return made

    def move(self, wide: Arrived, weak: Any, position: int) -> None:
        _move(wide, weak, self._layout._replace(position=position), self._dtype, self._terms)


def _move_relative(wide: Arrived, weak: Any, relatives: Relatives, position: int) -> None:
    relatives.move(wide, weak, position)


def _storage(message: Message | None, base: int, nbytes: int) -> Storage:
    if message is None:
        return Storage(nbytes)
    known = message.storages.get(base)
    if known is None or known.nbytes != nbytes:
        known = message.storages[base] = Storage(nbytes)
    return known


def describe(x: Any, pack: Pack) -> tuple[Piece, Layout, Any] | None:
    torch = sys.modules["torch"]
    message = current()
    view = None if message is None else message.views.get(id(x))
    if view is None or view.tensor is not x:
        view = _view_of(x, torch)
        if view is None:
            return None
        if message is not None and not message.views and view.reach not in ((0, view.storage_nbytes), (0, 0)):
            _plan(message, torch)
    layout = view.layout

    def compact() -> tuple[int, object]:
        copy = x.detach().contiguous()
        return copy.data_ptr(), copy

    storage = _storage(message, view.base, view.storage_nbytes)
    piece = storage.piece_of(pack, layout, view.reach, view.base, view.storage, compact)
    return piece, layout, _told(x.dtype, x.requires_grad, type(x) is not torch.Tensor)


def _view(arrived: Arrived, original: Layout, dtype: Any, terms: Any) -> Any:
    layout = arrived.layout(original)
    # A tensor like one of no elements takes a third of the time that the first one does.
    made = arrived.once(dtype, lambda: _empty(dtype)).data
    storage = _storage_in(arrived, terms)
    return made.set_(storage, layout.position // layout.itemsize, layout.shape, _strides_of(layout))


def _strides_of(layout: Layout) -> tuple[int, ...]:
    return tuple([step // layout.itemsize for step in layout.strides])


def _storage_in(arrived: Arrived, terms: Any) -> Any:
    return arrived.once("torch", lambda: _storage_of(arrived, terms))


def _empty(dtype: Any) -> Any:
    return sys.modules["torch"].empty(0, dtype=dtype, device="cpu")


def _storage_of(arrived: Arrived, terms: Any) -> Any:
    if isinstance(arrived, Inline) and arrived.nbytes:
        torch = sys.modules["torch"]
        return torch.frombuffer(arrived.buffer, dtype=torch.uint8).untyped_storage()
    flat = arrived.copied() if terms.policy == "copy" else arrived.private()
    return flat.to("torch").untyped_storage()


def _move(wide: Arrived, weak: Any, original: Layout, dtype: Any, terms: Any) -> None:
    """A wider piece of the storage has followed in the message: the tensor becomes a view of that one."""
    living = weak()
    if living is not None:
        living.data = _view(wide, original, dtype, terms)
        wide.views.append((_move, weak, original, dtype, terms))


def rebuild(arrived: Arrived, original: Layout, told: Any, terms: Any) -> object:
    dtype, requires_grad, is_parameter, name = told
    if terms.as_tensor and name:
        return typed(arrived.once("tensor", arrived.read_only), arrived.layout(original), name)
    import torch

    kind = getattr(torch, dtype)
    made = _view(arrived, original, kind, terms)
    if is_parameter:
        made = torch.nn.Parameter(made, requires_grad=requires_grad)
    elif requires_grad:
        made.requires_grad_()
    arrived.views.append((_move, weakref.ref(made), original, kind, terms))
    return made
