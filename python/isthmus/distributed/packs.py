"""The two ways in which the bytes of a piece go into a message: as a buffer that the engine moves, or as a ticket."""

from __future__ import annotations

import pickle
from typing import Any, Literal, cast

from .. import _isthmus
from .._isthmus import Tensor
from . import transit
from .counts import count
from .pieces import Arrived


def as_buffer(data: Tensor, protocol: int, place: tuple[Any, ...]) -> tuple[Any, ...]:
    """Out of band if the engine's pickler takes buffers (PEP 574), else within the message."""
    if protocol >= 5:
        return Arrived, (pickle.PickleBuffer(data), *place)
    return Arrived, (bytearray(memoryview(data)), *place)


def as_ticket(data: Tensor, protocol: int, place: tuple[Any, ...]) -> tuple[Any, ...]:
    """For another process of this machine to fetch; small ones within the message."""
    ticket = transit.post(data)
    if ticket is None:
        return Arrived, (bytearray(memoryview(data)), *place, True)
    return Fetched, (tuple(ticket), *place)


class Fetched(Arrived):
    """The bytes of a piece that waits at its sender, fetched in the way in which they are used."""

    def __init__(self, ticket: tuple[Any, ...], start: int, packed: bool, replaced: tuple[Arrived, ...]) -> None:
        self._ticket = transit.Ticket(*ticket)
        super().__init__(b"", start, packed, replaced)

    def _fetch(self, access: Literal["read_only", "copy_on_write"]) -> Tensor:
        return cast("Tensor", self.once(access, lambda: transit.fetch(self._ticket, access)))

    def read_only(self) -> Tensor:
        flat = self._fetch("read_only")
        count("shared")
        return flat

    def private(self) -> Tensor:
        flat = self._fetch("copy_on_write")
        count("copy_on_write")
        return flat

    def copied(self) -> Tensor:
        flat = self._fetch("read_only")
        count("copied")
        return _isthmus.from_dlpack(flat, copy=True)
