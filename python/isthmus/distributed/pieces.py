"""The bytes of tensors in a message: which of a storage are sent, and where they end up on arrival."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

from .. import _isthmus
from .._isthmus import Tensor
from ..blob import from_blob
from .counts import count
from .private import private_view

#: How an engine moves bytes: called by the pickler with the bytes and its protocol, returns what pickle calls a reduce
#: value whose object is an `Arrived`, made with (..., start, packed, replaced).
Pack = Callable[[Tensor, int, tuple[Any, ...]], tuple[Any, ...]]

# Every element of a dtype begins at a multiple of its size; complex128 is the largest.
_LARGEST_ITEM = 16


def flat_bytes(address: int, nbytes: int, owner: object) -> Tensor:
    """`nbytes` bytes from `address` as a one-dimensional uint8 Tensor that keeps `owner`."""
    if nbytes == 0:
        return _isthmus.empty((0,), "uint8")
    return from_blob({"ptr": address, "shape": (nbytes,), "dtype": "uint8", "device": "cpu"}, owner=owner)


class Layout(NamedTuple):
    """How the elements of a tensor lie in its storage."""

    #: Bytes from the storage's beginning to the first element.
    position: int
    shape: tuple[int, ...]
    #: In bytes.
    strides: tuple[int, ...]
    itemsize: int

    @property
    def nbytes(self) -> int:
        size = self.itemsize
        for extent in self.shape:
            size *= extent
        return size

    def reach(self) -> tuple[int, int]:
        """The first byte of the elements in the storage, and the one after the last."""
        low = high = self.position
        if self.nbytes == 0:
            return low, high
        for extent, stride in zip(self.shape, self.strides, strict=True):
            low += min(0, (extent - 1) * stride)
            high += max(0, (extent - 1) * stride)
        return low, high + self.itemsize

    def row_major(self) -> Layout:
        """The same elements, alone and one after the other."""
        strides, step = [], self.itemsize
        for extent in reversed(self.shape):
            strides.append(step)
            step *= max(extent, 1)
        return Layout(0, self.shape, tuple(reversed(strides)), self.itemsize)

    def moved(self, start: int) -> Layout:
        """As seen from `start` bytes into the storage."""
        return self._replace(position=self.position - start)


class Piece:
    """A range of a storage in a message. Pickled once: the pickler's memo knows it when another view refers to it."""

    __slots__ = ("__weakref__", "_data", "_end", "_layout", "_pack", "_replaced", "_start", "_whole", "is_replaced")

    def __init__(
        self,
        data: Tensor,
        pack: Pack,
        start: int,
        end: int,
        packed: Layout | None,
        replaced: tuple[Piece, ...],
        whole: object,
    ) -> None:
        self._data, self._pack, self._start, self._end = data, pack, start, end
        #: Of the only view, if the elements are packed and those between them are left out.
        self._layout, self._replaced, self._whole = packed, replaced, whole
        self.is_replaced = False
        for narrow in replaced:
            narrow.is_replaced = True

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return self._pack(self._data, int(protocol), (self._start, self._layout is not None, self._replaced))

    def holds(self, layout: Layout) -> bool:
        low, high = layout.reach()
        if self._layout is not None:
            return layout == self._layout
        return self._start <= low and high <= self._end and (layout.position - self._start) % layout.itemsize == 0

    def overlaps(self, low: int, high: int, layout: Layout | None) -> bool:
        if high <= self._start or self._end <= low:
            return False
        return self._layout is None or layout is None or _share_elements(self._layout, layout)


def _share_elements(a: Layout, b: Layout) -> bool:
    """Whether two tensors of one storage that lie between each other, as columns do, have an element in common."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return True
    arrays = []
    for layout in (a, b):
        # Addresses that are compared and never read; away from NULL.
        interface = {
            "data": (4096 + layout.position, True),
            "shape": layout.shape,
            "strides": layout.strides,
            "typestr": f"|V{layout.itemsize}",
            "version": 3,
        }
        arrays.append(numpy.asarray(SimpleNamespace(__array_interface__=interface)))
    try:
        return bool(numpy.shares_memory(*arrays, max_work=10_000))
    except numpy.exceptions.TooHardError:
        return True


class _Whole:
    """The pieces of one storage in one message."""

    __slots__ = ("__weakref__", "pieces")

    def __init__(self) -> None:
        self.pieces: list[weakref.ref[Piece]] = []

    def living(self) -> list[Piece]:
        """Those that no wider one has replaced."""
        return [piece for piece in (ref() for ref in self.pieces) if piece is not None and not piece.is_replaced]


class _Messages(threading.local):
    """The storages in the messages that this thread is making. A message's pickler keeps its pieces alive, and they
    this: what is here is gone when the message is done, however that ends."""

    def __init__(self) -> None:
        self.wholes: weakref.WeakValueDictionary[Any, _Whole] = weakref.WeakValueDictionary()


_messages = _Messages()


def piece_of(pack: Pack, layout: Layout, base: int, owner: object, compact: Callable[[], tuple[int, object]]) -> Piece:
    """The piece of a message that has the elements of `layout`, shared with other views of the storage in the message.

    base: the address of the storage; owner: what keeps it.
    compact: makes a row-major copy of the elements, and returns its address and owner.

    A view that reaches further than what is in the message already makes a wider piece, which takes its place on
    arrival.
    """
    key = (pack, base)
    whole = _messages.wholes.get(key)
    if whole is None:
        whole = _messages.wholes[key] = _Whole()
    living = whole.living()
    for piece in living:
        if piece.holds(layout):
            return piece
    low, high = layout.reach()
    sparse = high - low > layout.nbytes
    replaced: list[Piece] = []
    grown = True
    while grown:
        met = [
            p
            for p in living
            if p not in replaced and p.overlaps(low, high, layout if sparse and not replaced else None)
        ]
        grown = bool(met)
        replaced += met
        low, high = min([low, *(p._start for p in met)]), max([high, *(p._end for p in met)])
    if replaced:
        low = max(low // _LARGEST_ITEM * _LARGEST_ITEM, 0)
        sparse = False
    address, keep = compact() if sparse else (base + low, owner)
    nbytes = layout.nbytes if sparse else high - low
    data = flat_bytes(address, nbytes, keep)
    piece = Piece(data, pack, low, high, layout if sparse else None, tuple(replaced), whole)
    whole.pieces.append(weakref.ref(piece))
    return piece


def lone_piece(
    pack: Pack, layout: Layout, address: int, owner: object, compact: Callable[[], tuple[int, object]]
) -> Piece:
    """The piece that has the elements of `layout`, for one tensor alone. `address` is where positions count from."""
    low, high = layout.reach()
    sparse = high - low > layout.nbytes
    where, keep = compact() if sparse else (address + low, owner)
    data = flat_bytes(where, layout.nbytes if sparse else high - low, keep)
    return Piece(data, pack, low, high, layout if sparse else None, (), None)


class Arrived:
    """The bytes of a piece, where they arrived: in a buffer that the engine has received."""

    def __init__(
        self, buffer: Any, start: int, packed: bool, replaced: tuple[Arrived, ...], inline: bool = False
    ) -> None:
        self._flat = _isthmus._rebuild(buffer, "uint8", (memoryview(buffer).nbytes,), False)
        self._start, self._packed, self._inline = start, packed, inline
        #: What views keep in common, by kind: a framework's own storage, once it is made.
        self._made: dict[str, Any] = {}
        self._views: list[Callable[[Arrived], None]] = []
        for narrow in replaced:
            for move in narrow._views:
                move(self)

    def layout(self, original: Layout) -> Layout:
        """Where the elements of a view are, which lie as in `original` in the sender's storage."""
        return original.row_major() if self._packed else original.moved(self._start)

    def read_only(self) -> Tensor:
        """The bytes where they are."""
        count("inline" if self._inline else "shared")
        return self._flat.as_read_only()

    def private(self) -> Tensor:
        """The bytes as memory that may be written and that nobody else sees: in place if that is so already, else
        mapped privately, else copied."""
        if not self._flat.read_only:
            count("inline" if self._inline else "shared")
            return self._flat
        mapped = private_view(self._flat)
        count("copied" if mapped is None else "copy_on_write")
        return _isthmus.from_dlpack(self._flat, copy=True) if mapped is None else mapped

    def copied(self) -> Tensor:
        """The bytes as memory of this process alone."""
        if not self._flat.read_only:
            count("inline" if self._inline else "copied")
            return self._flat
        count("copied")
        return _isthmus.from_dlpack(self._flat, copy=True)

    def once(self, kind: str, make: Callable[[], Any]) -> Any:
        """What `make` returns, the same for all views."""
        if kind not in self._made:
            self._made[kind] = make()
        return self._made[kind]

    def when_replaced(self, move: Callable[[Arrived], None]) -> None:
        """`move` is called with the piece that takes this one's place, should there be one in the message."""
        self._views.append(move)


def typed(flat: Tensor, layout: Layout, dtype: str, padded: bool = False) -> Tensor:
    """The elements of `layout` in the bytes of `flat`."""
    address = flat.data_ptr + layout.position
    if address % layout.itemsize and layout.nbytes:
        # Engines may put buffers at any address; elements must be aligned.
        count("copied")
        flat = _isthmus.from_dlpack(flat, copy=True)
        address = flat.data_ptr + layout.position
    strides = tuple(stride // layout.itemsize for stride in layout.strides)
    fields = {"ptr": address, "shape": layout.shape, "strides": strides, "dtype": dtype, "padded": padded}
    return from_blob(fields | {"read_only": flat.read_only}, owner=flat)
