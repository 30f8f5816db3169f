"""The two ways in which the bytes of a piece go into a message: as a buffer that the engine moves, or as a ticket."""

from __future__ import annotations

import pickle
from typing import Any, Literal, cast

from .. import _isthmus
from .._isthmus import Tensor
from . import fetching, transit
from .counts import count
from .messages import Message, message
from .pieces import Arrived, Inline, Piece, private_or_copy
from .pipes import LARGEST_ROOM, LEAST_ROOM


def as_buffer(piece: Piece, protocol: int) -> tuple[Any, ...]:
    """Out of band if the engine's pickler takes buffers (PEP 574), else within the message."""
    if protocol >= 5:
        return Arrived, (pickle.PickleBuffer(piece.data()), *piece.place())
    return Arrived, (bytearray(memoryview(piece.data())), *piece.place())


def fits(nbytes: int) -> bool:
    """Whether a tensor goes within the message although it could be handed over: that takes less time for what the pipe
    takes without a reader."""
    if nbytes <= transit.INLINE:
        return True
    if nbytes > LARGEST_ROOM:
        return False
    now = message()
    if now is None:
        return True
    after = now.inline + nbytes
    if after > LEAST_ROOM and after > now.way()[1].room:
        return False
    now.inline = after
    return True


def as_bytes_or_ticket(piece: Piece, protocol: int) -> tuple[Any, ...]:
    """As `as_ticket`, for tensors that need no aligned memory: within the message if they fit."""
    if fits(piece.nbytes):
        return Inline, (piece.copy(), *piece.place())
    return as_ticket(piece, protocol)


def as_ticket(piece: Piece, protocol: int) -> tuple[Any, ...]:
    """For another process of this machine to fetch; within the message if it is small, or if nobody sends it now."""
    if piece.nbytes > transit.INLINE:
        block = block_for(piece.nbytes)
        if block is not None:
            return Part, (block, *block.put(piece), *piece.place())
        ticket = transit.post(piece)
        if ticket is not None:
            return Fetched, (_told(ticket), *piece.place())
    return Inline, (piece.copy(), *piece.place())


def _told(ticket: transit.Ticket) -> tuple[Any, ...]:
    return (*ticket[:-1], tuple(ticket.keeper))


#: The memory of a block: who keeps one tensor that arrived in it keeps so much.
_BLOCK = 1 << 20
#: Larger pieces are handed over alone, which takes less time than their copy.
_LARGEST = 256 << 10
_ALIGNED = 64  # as XLA wants it


class Block:
    """Memory for several pieces of a message, which is handed over once, and filled while the message is pickled."""

    def __init__(self, memory: Tensor, ticket: transit.Ticket) -> None:
        self._memory, self._ticket, self._used = memory, ticket, 0

    def __reduce__(self) -> tuple[Any, ...]:
        return Fetched, (_told(self._ticket), 0, False, ())

    def has_room(self, nbytes: int) -> bool:
        return self._used + nbytes <= self._memory.nbytes

    def put(self, piece: Piece) -> tuple[int, int]:
        """Where in the block the piece is: its first byte, and the one after the last."""
        begin = self._used
        end = begin + piece.nbytes
        piece.copy_to(self._memory.data_ptr + begin)
        self._used = end + -end % _ALIGNED
        return begin, end


def block_for(nbytes: int) -> Block | None:
    """The block of the message for a piece of so many bytes; None if it is better handed over alone."""
    now = message()
    if now is None or nbytes > _LARGEST:
        return None
    block: Block | None = now.block
    if block is None or not block.has_room(nbytes):
        left = _middling(now) - now.in_blocks - now.inline
        if left < 2 * nbytes:
            return None
        posted = transit.post_memory(min(left, _BLOCK))
        if posted is None:
            return None
        block = now.block = Block(*posted)
    now.in_blocks += nbytes + -nbytes % _ALIGNED
    return block


def _middling(now: Message) -> int:
    """The bytes of the tensors in a message that are neither small nor large."""
    if now.middling is None:
        sizes = [getattr(x, "nbytes", 0) for x in now.tensors or ()]
        now.middling = sum([n + -n % _ALIGNED for n in sizes if transit.INLINE < n <= _LARGEST])
    return now.middling


class Part(Arrived):
    """The bytes of a piece that is kept in a block with others."""

    def __init__(
        self, block: Fetched, begin: int, end: int, start: int, packed: bool, replaced: tuple[Arrived, ...]
    ) -> None:
        self._block, self._begin, self._end = block, begin, end
        super().__init__(b"", start, packed, replaced)

    @property
    def nbytes(self) -> int:
        return self._end - self._begin

    def read_only(self) -> Tensor:
        return self._block.read_only()[self._begin : self._end]

    def private(self) -> Tensor:
        return self._block.private()[self._begin : self._end]

    def copied(self) -> Tensor:
        count("copied")
        return _isthmus.from_dlpack(self._block.fetched("read_only")[self._begin : self._end], copy=True)


class Fetched(Arrived):
    """The bytes of a piece that is kept on its way, fetched in the way in which they are first used."""

    def __init__(self, ticket: tuple[Any, ...], start: int, packed: bool, replaced: tuple[Arrived, ...]) -> None:
        pid, nbytes, secret, number, address = ticket
        self._ticket = transit.Ticket(pid, nbytes, secret, number, transit.Address(*address))
        self._got: fetching.Got | None = None
        super().__init__(b"", start, packed, replaced)

    def fetched(self, access: Literal["read_only", "copy_on_write"]) -> Tensor:
        if self._got is None:
            self._got = fetching.fetch(self._ticket, access)
        return self._got.tensor

    def _count(self, name: str) -> None:
        count(name if self._got is not None and self._got.is_mapped else "copied")

    @property
    def nbytes(self) -> int:
        return self._ticket.nbytes

    def read_only(self) -> Tensor:
        flat = self.fetched("read_only")
        self._count("shared")
        return flat.as_read_only()

    def private(self) -> Tensor:
        flat = self.fetched("copy_on_write")
        if flat.read_only:  # the first view of the piece was
            return cast("Tensor", self.once("private", lambda: private_or_copy(flat)))
        self._count("copy_on_write")
        return flat

    def copied(self) -> Tensor:
        flat = self.fetched("read_only")
        count("copied")
        return _isthmus.from_dlpack(flat, copy=True)
