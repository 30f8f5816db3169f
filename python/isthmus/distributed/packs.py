"""The two ways in which the bytes of a piece go into a message: as a buffer that the engine moves, or as a ticket."""

from __future__ import annotations

import pickle
from typing import Any, Literal, cast

from .. import _isthmus
from .._isthmus import Tensor
from . import transit
from .counts import count
from .pieces import Arrived, Inline, Piece, private_or_copy


def as_buffer(piece: Piece, protocol: int) -> tuple[Any, ...]:
    """Out of band if the engine's pickler takes buffers (PEP 574), else within the message."""
    if protocol >= 5:
        return Arrived, (pickle.PickleBuffer(piece.data()), *piece.place())
    return Arrived, (bytearray(memoryview(piece.data())), *piece.place())


def as_ticket(piece: Piece, protocol: int) -> tuple[Any, ...]:
    """For another process of this machine to fetch; within the message if it is small, or if nobody sends it now."""
    ticket = None if piece.nbytes <= transit.INLINE else transit.post(piece.data())
    if ticket is None:
        return Inline, (piece.copy(), *piece.place())
    return Fetched, ((*ticket[:-1], tuple(ticket.keeper)), *piece.place())


class Fetched(Arrived):
    """The bytes of a piece that is kept on its way, fetched in the way in which they are first used."""

    def __init__(self, ticket: tuple[Any, ...], start: int, packed: bool, replaced: tuple[Arrived, ...]) -> None:
        pid, nbytes, secret, number, address = ticket
        self._ticket = transit.Ticket(pid, nbytes, secret, number, transit.Address(*address))
        self._fetched: Tensor | None = None
        super().__init__(b"", start, packed, replaced)

    def _fetch(self, access: Literal["read_only", "copy_on_write"]) -> Tensor:
        if self._fetched is None:
            self._fetched = transit.fetch(self._ticket, access)
        return self._fetched

    @property
    def nbytes(self) -> int:
        return self._ticket.nbytes

    def read_only(self) -> Tensor:
        flat = self._fetch("read_only")
        count("shared")
        return flat.as_read_only()

    def private(self) -> Tensor:
        flat = self._fetch("copy_on_write")
        if flat.read_only:  # the first view of the piece was
            return cast("Tensor", self.once("private", lambda: private_or_copy(flat)))
        count("copy_on_write")
        return flat

    def copied(self) -> Tensor:
        flat = self._fetch("read_only")
        count("copied")
        return _isthmus.from_dlpack(flat, copy=True)
