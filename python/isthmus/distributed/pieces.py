"""The bytes of tensors in a message: which of a storage are sent, and where they end up on arrival."""

from __future__ import annotations

import bisect
import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

from .. import _isthmus
from .._isthmus import Tensor
from ..blob import from_blob
from .counts import count
from .private import private_view
from .spans import LARGEST_ITEM, Layout, Span

#: How an engine moves bytes: called by the pickler with a piece and its protocol, returns what pickle calls a reduce
#: value whose object is an `Arrived`, made with (..., *piece.place()).
Pack = Callable[["Piece", int], tuple[Any, ...]]

#: Makes a row-major copy of a view's elements, and returns its address and owner.
Compact = Callable[[], tuple[int, object]]


@functools.cache
def _memcpy() -> Any:
    function = ctypes.CDLL(None).memcpy
    function.argtypes, function.restype = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t), None
    return function


def flat_bytes(address: int, nbytes: int, owner: object) -> Tensor:
    """`nbytes` bytes from `address` as a one-dimensional uint8 Tensor that keeps `owner`."""
    if nbytes == 0:
        return _isthmus.empty((0,), "uint8")
    return from_blob({"ptr": address, "shape": (nbytes,), "dtype": "uint8", "device": "cpu"}, owner=owner)


class Piece:
    """A range of a storage in a message. Pickled once: the pickler's memo knows it when another view refers to it."""

    __slots__ = ("_owner", "_pack", "_replaced", "address", "high", "is_packed", "low", "nbytes")

    def __init__(
        self,
        pack: Pack,
        address: int,
        nbytes: int,
        owner: object,
        low: int,
        high: int,
        replaced: tuple[Piece, ...] = (),
    ) -> None:
        self._pack, self._owner, self._replaced = pack, owner, replaced
        self.address, self.nbytes = address, nbytes
        #: Of the storage's bytes; `is_packed` if only the elements of one view are in it.
        self.low, self.high, self.is_packed = low, high, nbytes != high - low

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return self._pack(self, int(protocol))

    def place(self) -> tuple[int, bool, tuple[Piece, ...]]:
        """What it is in its storage, for those who receive it."""
        return self.low, self.is_packed, self._replaced

    def data(self) -> Tensor:
        return flat_bytes(self.address, self.nbytes, self._owner)

    def copy(self) -> bytes:
        return ctypes.string_at(self.address, self.nbytes)

    def copy_to(self, address: int) -> None:
        """Copy its bytes without the GIL, which ctypes.memmove() holds."""
        _memcpy()(address, self.address, self.nbytes)

    def holds(self, low: int, high: int, layout: Layout) -> bool:
        return self.low <= low and high <= self.high and (layout.position - self.low) % layout.itemsize == 0


class Storage:
    """What of one storage is in a message."""

    __slots__ = ("_last", "nbytes", "packed", "pieces", "planned")

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        #: What the views that the message was seen to hold share, in order.
        self.planned: list[Span] = []
        #: The ranges so far, in order and disjoint, and the views that travel alone.
        self.pieces: list[Piece] = []
        self.packed: dict[Layout, Piece] = {}
        self._last: Piece | None = None

    def piece_of(
        self, pack: Pack, layout: Layout, reach: tuple[int, int], base: int, owner: object, compact: Compact
    ) -> Piece:
        """The piece that has the elements of `layout`, whose reach is this."""
        low, high = reach
        if self._last is not None and self._last.holds(low, high, layout):
            return self._last
        piece = self._find(low, high, pack, layout, base, owner, compact)
        self._last = None if piece.is_packed else piece
        return piece

    def _find(
        self, low: int, high: int, pack: Pack, layout: Layout, base: int, owner: object, compact: Compact
    ) -> Piece:
        at = bisect.bisect_right(self.pieces, low, key=_low_of)
        if at and self.pieces[at - 1].holds(low, high, layout):
            return self.pieces[at - 1]
        known = self.packed.get(layout)
        if known is not None:
            return known
        planned = bisect.bisect_right(self.planned, (low, sys.maxsize))
        if planned and high <= self.planned[planned - 1].high:
            return self._add(pack, *self.planned[planned - 1], base, owner, layout)
        first = at - 1 if at and low < self.pieces[at - 1].high else at
        if high - low > layout.nbytes and not (first < len(self.pieces) and self.pieces[first].low < high):
            address, keep = compact()
            piece = self.packed[layout] = Piece(pack, address, layout.nbytes, keep, low, high)
            return piece
        return self._add(pack, low, high, base, owner, layout)

    def _meeting(self, low: int, high: int) -> tuple[int, int]:
        """Which ranges so far have bytes in [low, high): the first, and the one after the last."""
        first = bisect.bisect_right(self.pieces, low, key=_high_of)
        return first, bisect.bisect_left(self.pieces, high, lo=first, key=_low_of)

    def _add(self, pack: Pack, low: int, high: int, base: int, owner: object, layout: Layout) -> Piece:
        """A new range, which takes the place of those that it meets. It becomes twice as large as they are, so that
        views that nobody could foresee cost no more than a few times their bytes."""
        first, last = self._meeting(low, high)
        met = tuple(self.pieces[first:last])
        if met:
            low, high = min(low, met[0].low), max(high, met[-1].high)
            more = high - low
            low, high = max(low - more, 0), min(high + more, self.nbytes)
            first, last = self._meeting(low, high)
            met = tuple(self.pieces[first:last])
            low, high = min(low, met[0].low), max(high, met[-1].high)
        if met or (layout.position - low) % layout.itemsize:
            low -= low % LARGEST_ITEM
        if not self.planned and self.packed:
            met += tuple(one for one in self.packed.values() if low <= one.low and one.high <= high)
        piece = Piece(pack, base + low, high - low, owner, low, high, met)
        self.pieces[first:last] = [piece]
        return piece


def _low_of(piece: Piece) -> int:
    return piece.low


def _high_of(piece: Piece) -> int:
    return piece.high


def lone_piece(pack: Pack, layout: Layout, address: int, owner: object, compact: Compact) -> Piece:
    """The piece that has the elements of `layout`, for one tensor alone. `address` is where positions count from."""
    low, high = layout.reach()
    nbytes = layout.nbytes
    if high - low > nbytes:
        where, keep = compact()
        return Piece(pack, where, nbytes, keep, low, high)
    return Piece(pack, address + low, high - low, owner, low, high)


class Arrived:
    """The bytes of a piece, where they arrived: in a buffer that the engine has received."""

    def __init__(self, buffer: Any, start: int, packed: bool, replaced: tuple[Arrived, ...]) -> None:
        self._buffer = buffer
        #: Of the sender's storage, the byte that comes first.
        self.start, self._packed = start, packed
        self._flat_tensor: Tensor | None = None
        #: What views keep in common, by kind: a framework's own storage, once it is made.
        self._made: dict[Any, Any] = {}
        #: The views so far, each with the function that moves it to a wider piece, and what that needs.
        self.views: list[tuple[Any, ...]] = []
        for narrow in replaced:
            for move, *rest in narrow.views:
                move(self, *rest)

    @property
    def _flat(self) -> Tensor:
        if self._flat_tensor is None:
            self._flat_tensor = _isthmus._rebuild(self._buffer, "uint8", (memoryview(self._buffer).nbytes,), False)
        return self._flat_tensor

    def layout(self, original: Layout) -> Layout:
        """Where the elements of a view are, which lie as in `original` in the sender's storage."""
        return original.row_major() if self._packed else original.moved(self.start)

    @property
    def nbytes(self) -> int:
        return memoryview(self._buffer).nbytes

    def read_only(self) -> Tensor:
        """The bytes where they are."""
        count("shared")
        return self._flat.as_read_only()

    def private(self) -> Tensor:
        """The bytes as memory that may be written and that nobody else sees: in place if that is so already, else
        mapped privately, else copied."""
        if not self._flat.read_only:
            count("shared")
            return self._flat
        return private_or_copy(self._flat)

    def copied(self) -> Tensor:
        """The bytes as memory of this process alone."""
        if not self._flat.read_only:
            count("copied")
            return self._flat
        count("copied")
        return _isthmus.from_dlpack(self._flat, copy=True)

    def once(self, kind: Any, make: Callable[[], Any]) -> Any:
        """What `make` returns, the same for all views."""
        if kind not in self._made:
            self._made[kind] = make()
        return self._made[kind]


class Inline(Arrived):
    """The same for a small piece: a copy within the message, of this process alone."""

    def __init__(self, data: bytes, start: int, packed: bool, replaced: tuple[Arrived, ...]) -> None:
        super().__init__(bytearray(data), start, packed, replaced)

    @property
    def buffer(self) -> bytearray:
        count("inline")
        return self._buffer  # type: ignore[no-any-return]

    def read_only(self) -> Tensor:
        return self.private().as_read_only()

    def private(self) -> Tensor:
        count("inline")
        return self._flat

    copied = private


def private_or_copy(flat: Tensor) -> Tensor:
    """The bytes of `flat`, which others may read, as memory that may be written and that nobody else sees."""
    mapped = private_view(flat)
    count("copied" if mapped is None else "copy_on_write")
    return _isthmus.from_dlpack(flat, copy=True) if mapped is None else mapped


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
