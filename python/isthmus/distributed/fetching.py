"""What a ticket names, fetched from its keeper: as isthmus.shared hands memory over, or else by its bytes."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from typing import NamedTuple

from .. import _isthmus, shared
from .._isthmus import Error, Tensor
from . import keeper, transit
from .transit import Address, Ticket

_KEEP = 64  # connections to keepers


def _failed(text: str, code: str) -> Error:
    error = Error(text)
    error.code = code
    return error


class Got(NamedTuple):
    tensor: Tensor
    #: Whether it has the memory that was handed over, and not a copy.
    is_mapped: bool


class _Connections:
    """Connections to keepers, kept for what will be sent."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.idle: dict[Address, list[socket.socket]] = {}

    def connect(self, address: Address) -> tuple[socket.socket, bool]:
        """A connection that nobody else uses now, and whether it has been used before."""
        with self.lock:
            known = self.idle.get(address)
            if known:
                return known.pop(), True
        return address.connect(), False

    def keep(self, address: Address, sock: socket.socket) -> None:
        with self.lock:
            self.idle[address] = [*self.idle.pop(address, []), sock]  # the last used comes last
            extra = [self.idle.pop(next(iter(self.idle))) for _ in range(len(self.idle) - _KEEP)]
        for group in extra:
            for old in group:
                old.close()


_connections = _Connections()


def _say(sock: socket.socket, kind: int, ticket: Ticket, position: int = 0) -> None:
    sock.send(keeper.REQUEST.pack(kind, ticket.secret, ticket.number, position, 0, 0))


def _name(ticket: Ticket) -> str:
    return f"the tensor of {ticket.nbytes} bytes from process {ticket.pid}"


def _is_here(answer: bytes | bytearray, ticket: Ticket) -> bool:
    if answer == keeper.GONE:
        words = "has been fetched already: a message is read once"
        raise _failed(f"{_name(ticket)} {words}", "consumed_capsule")
    return answer == keeper.HERE


def _map(sock: socket.socket, ticket: Ticket, access: shared.Access) -> Got | None:
    """The memory itself; None when the connection has ended."""
    try:
        _say(sock, keeper.FETCH, ticket)
        answer = sock.recv(1)
    except (ConnectionError, TimeoutError):
        return None
    if not _is_here(answer, ticket):
        return None
    kind = keeper.FAILED
    try:
        tensor = shared.receive(sock, access)
        kind = keeper.DONE
    except EOFError:
        return None
    finally:
        with contextlib.suppress(OSError):
            _say(sock, kind, ticket)
    return Got(tensor, True)


def _read(sock: socket.socket, ticket: Ticket) -> Got | None:
    """A copy of the memory, piece by piece, which needs no descriptor; None when the connection has ended."""
    made = _isthmus.empty((ticket.nbytes,), "uint8")
    view, answer, position = memoryview(made), bytearray(1), 0
    try:
        while position < ticket.nbytes:
            _say(sock, keeper.READ, ticket, position)
            count = sock.recvmsg_into([answer, view[position : position + keeper.CHUNK]])[0]
            if count == 0 or not _is_here(answer, ticket) or count == 1:
                return None
            position += count - 1
        _say(sock, keeper.DONE, ticket)
    except (ConnectionError, TimeoutError):
        return None
    return Got(made, False)


#: The codes of errors of a process that has no descriptor, mapping or memory to spare.
_LACKS = ("system_failed", "out_of_memory")


def _ask(sock: socket.socket, ticket: Ticket, access: shared.Access) -> Got | None:
    """The tensor in the first way that serves; None when the connection has ended."""
    try:
        return _map(sock, ticket, access)
    except Error as error:
        if error.code not in _LACKS:
            raise
        return _read(sock, ticket)


def _ask_once(ticket: Ticket, access: shared.Access) -> tuple[Got | None, bool]:
    """The tensor; None when the connection has ended, and whether it may have ended before. Raises OSError."""
    for is_last in (False, True):
        try:
            sock, used = _connections.connect(ticket.keeper)
            break
        except (ConnectionError, FileNotFoundError, PermissionError):
            return None, False
        except OSError:
            # Without a descriptor for another connection.
            got = transit.ask_at_the_desk(ticket.keeper, lambda sock: _read(sock, ticket))
            if got is not None:
                return got, True
            # A message that failed for the same lack may have closed that one since: its descriptor is free.
            if is_last:
                raise
    try:
        got = _ask(sock, ticket, access)
    except Error:
        _connections.keep(ticket.keeper, sock)
        raise
    except BaseException:
        sock.close()
        raise
    if got is None:
        sock.close()
    else:
        _connections.keep(ticket.keeper, sock)
    return got, used


def fetch(ticket: Ticket, access: shared.Access) -> Got:
    """The bytes that a ticket names: read-only, or writable and private. They are a copy if this process has no
    descriptor or mapping to spare.

    Raises isthmus.Error when the keeper cannot be reached, when the message has been read before, and when this process
    has no memory, or no connection and no descriptor for one: then the tensor stays where it is, and the message may be
    read again.
    """
    for _ in range(_KEEP + 1):
        try:
            got, used = _ask_once(ticket, access)
        except (Error, OSError) as error:
            if getattr(error, "code", "") == "consumed_capsule":
                raise
            words = error if isinstance(error, Error) else error.strerror or error
            raise _failed(
                f"{_name(ticket)} cannot be fetched now: {words}; it is kept, and its message may be read again",
                str(getattr(error, "code", "system_failed")),
            ) from error
        if got is not None:
            return got
        if not used:
            break
    raise _failed(
        f"{_name(ticket)} is lost, or out of reach: process {ticket.keeper.pid}, which kept it, has ended, or is one "
        "of another container",
        "peer_closed",
    )


def _after_fork() -> None:
    """A child has connections of its own."""
    global _connections
    before, _connections = _connections, _Connections()
    for group in before.idle.values():
        for sock in group:
            sock.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
