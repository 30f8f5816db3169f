"""The pipes and sockets that multiprocessing sends messages through: which they are, and how much they take at once."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import stat
import sys
import weakref
from typing import Any, NamedTuple

from . import keeper

if sys.platform == "linux":
    import fcntl

#: What every pipe of Linux takes before its writer waits for a reader, a page for what is around the arrays left out.
LEAST_ROOM = 60 << 10

#: What a pipe or socket is made to take. Beyond, a hand-over takes less time than to write and read the bytes.
LARGEST_ROOM = 256 << 10

#: Pipes of this process that may be so large: what a user's pipes may have in all is 64 MiB, and for every process.
_MOST_LARGE = 32
_large = 0


class Pipe(NamedTuple):
    """What is behind a connection."""

    #: Of the pipe, or, with keeper.SOCKET, of the other end of a socket; 0 if it is not known, -1 for a socket to
    #: another machine.
    inode: int
    #: Bytes that it takes, while it is empty, before its writer waits for a reader.
    room: int


_UNKNOWN = Pipe(0, LEAST_ROOM)
#: By id, which takes less time to find than in a dictionary of weak keys; the reference tells whether the connection is
#: still that one.
_pipes: dict[int, tuple[weakref.ref[Any], Pipe]] = {}


def pipe_of(connection: Any) -> Pipe:
    """The pipe or socket of a connection of multiprocessing, made larger if it can be when first asked for."""
    known = _pipes.get(id(connection))
    if known is not None and known[0]() is connection:
        return known[1]
    return _UNKNOWN if connection is None else _first_look(connection)


def _first_look(connection: Any) -> Pipe:
    pipe, number = _UNKNOWN, id(connection)
    with contextlib.suppress(OSError, AttributeError, TypeError):
        pipe = _pipe(connection.fileno())
    with contextlib.suppress(TypeError):  # not every object can be referred to
        _pipes[number] = weakref.ref(connection, lambda gone: _forget(number, gone)), pipe
    return pipe


def _forget(number: int, gone: weakref.ref[Any]) -> None:
    known = _pipes.get(number)
    if known is not None and known[0] is gone:
        del _pipes[number]


def _pipe(number: int) -> Pipe:
    status = os.fstat(number)
    if stat.S_ISFIFO(status.st_mode):
        return Pipe(status.st_ino, _room_of_pipe(number))
    if stat.S_ISSOCK(status.st_mode):
        with socket.socket(fileno=os.dup(number)) as sock:
            if sock.family != socket.AF_UNIX:
                return Pipe(-1, LEAST_ROOM)
            other = keeper.other_end(status.st_ino) or 0
            return Pipe(other | keeper.SOCKET if other else 0, _room_of_socket(sock))
    return _UNKNOWN


def is_broken(connection: Any) -> bool:
    """Whether nobody has the other end open any more."""
    if connection is None:
        return False
    look = select.poll()
    try:
        look.register(connection.fileno(), 0)
        return any(events & (select.POLLERR | select.POLLHUP) for _, events in look.poll(0))
    except (OSError, ValueError):
        return False


def _room_of_pipe(number: int) -> int:
    global _large
    if sys.platform != "linux":
        return LEAST_ROOM
    size = fcntl.fcntl(number, fcntl.F_GETPIPE_SZ)
    if size < LARGEST_ROOM and _large < _MOST_LARGE:
        with contextlib.suppress(OSError):  # the user's pipes have what they may have
            size = fcntl.fcntl(number, fcntl.F_SETPIPE_SZ, LARGEST_ROOM)
            _large += 1
    return max(size - (16 << 10), LEAST_ROOM)


def _room_of_socket(sock: socket.socket) -> int:
    if sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) < 2 * LARGEST_ROOM:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LARGEST_ROOM)  # of which the kernel makes twice as much
    # What the kernel keeps with the bytes counts too.
    return max(sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) // 2 - (16 << 10), LEAST_ROOM)
