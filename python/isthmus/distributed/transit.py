"""Tensors on their way to another process of this machine: handed to a keeper, which outlives their sender.

A message names them by a ticket; whoever unpickles it asks the keeper (see `fetching`). The keeper's socket has no name
in any file system, and serves whoever shows the secret in a message.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import secrets
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from .. import shared
from .._isthmus import Error, Tensor
from . import keeper, messages, pipes
from .pieces import Piece

#: Smaller ones travel within the message.
INLINE = 1 << 15

_Answer = TypeVar("_Answer")

# Seconds that a keeper may take to read what it is sent, or to answer.
_PATIENCE = 30.0

# Where the keeper of this process's family is, for those that are started anew.
_VARIABLE = "ISTHMUS_KEEPER"


class Address(NamedTuple):
    """Where a keeper listens."""

    pid: int
    #: Of its socket in the abstract namespace, which is one of a network namespace.
    name: bytes
    #: Of a socket that was in a file system: its descriptor in the keeper. 0: there is none.
    file: int

    def connect(self) -> socket.socket:
        """A new connection. Raises OSError."""
        try:
            return _connected(self.name)
        except ConnectionRefusedError:
            if not self.file:
                raise
            return _connected(f"/proc/{self.pid}/fd/{self.file}".encode())


def _connected(name: bytes) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        sock.connect(name)
    except OSError:
        sock.close()
        raise
    sock.settimeout(_PATIENCE)
    return sock


def _listen() -> tuple[bytes, socket.socket, socket.socket | None, int]:
    """A listening socket by name, and one that other network namespaces reach: bound to a path that is gone again, its
    inode open as the descriptor that is the last result."""
    name = b"\0isthmus-%d-" % os.getpid() + secrets.token_hex(8).encode()
    first = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    first.bind(name)
    first.listen(128)
    second = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        with tempfile.TemporaryDirectory(prefix="isthmus-") as folder:
            path = os.path.join(folder, "s")
            second.bind(path)
            inode = os.open(path, os.O_PATH | os.O_CLOEXEC)
        second.listen(128)
    except OSError:  # no folder to write to, or one with a long name
        second.close()
        return name, first, None, -1
    return name, first, second, inode


def _start_keeper() -> tuple[Address, socket.socket]:
    """A new keeper, no child of this process, and its lifeline: it stays as long as this end of it is open anywhere."""
    name, first, second, inode = _listen()
    here, there = socket.socketpair()
    listeners = [first] if second is None else [first, second]
    numbers = [there.fileno(), *(one.fileno() for one in listeners)]
    from multiprocessing.spawn import get_executable

    executable = get_executable() or sys.executable
    command = [os.fsdecode(executable), "-I", "-S", keeper.__file__, *map(str, numbers)]
    try:
        # A shell starts it in the background, so that nobody here waits for it, and tells its id.
        done = subprocess.run(
            ["/bin/sh", "-c", '"$@" >/dev/null 2>&1 & echo $!', "sh", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=[*numbers, *([inode] if inode >= 0 else [])],
            start_new_session=True,
            check=True,
        )
        return Address(int(done.stdout), name, max(inode, 0)), here
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        here.close()
        raise OSError(f"no keeper could be started: {error}") from error
    finally:
        for sock in (there, *listeners):
            sock.close()
        if inode >= 0:
            os.close(inode)


class _Desk:
    """What this process hands to its keeper."""

    def __init__(self, address: Address | None = None, lifeline: socket.socket | None = None) -> None:
        self.lock = threading.Lock()
        self.numbers = itertools.count(1)
        self.secret = secrets.token_bytes(16)
        #: Bytes handed over since the keeper was last asked how many wait.
        self.bytes = 0
        self.address, self.lifeline = address, lifeline
        self.sock: socket.socket | None = None

    def open(self) -> socket.socket:
        """The connection to the keeper, which is started when first needed. Call with the lock held."""
        if self.sock is not None:
            return self.sock
        known = self.address or _address_in(os.environ.get(_VARIABLE, ""))
        if known is not None:
            with contextlib.suppress(OSError):
                self.sock, self.address = known.connect(), known
                return self.sock
        self.address, self.lifeline = _start_keeper()
        os.environ[_VARIABLE] = f"{self.address.pid}:{self.address.file}:{self.address.name[1:].decode()}"
        self.sock = self.address.connect()
        return self.sock

    def say(self, kind: int, number: int = 0, nbytes: int = 0, pipe: int = 0) -> None:
        self.open().send(keeper.REQUEST.pack(kind, self.secret, number, nbytes, pipe, _parent()))

    def hand_over(self, tensor: Tensor, pipe: int) -> int:
        """The number that the keeper knows `tensor` by. Raises isthmus.Error or OSError."""
        with self.lock:
            for attempt in (0, 1):
                number = next(self.numbers)
                try:
                    self.say(keeper.DEPOSIT, number, tensor.nbytes, pipe)
                    shared.send(self.open(), tensor, "copy_on_write")
                except (OSError, Error):
                    self.close()
                    if attempt:
                        raise
                    continue
                self.bytes += tensor.nbytes
                return number
        raise AssertionError

    def forget(self, number: int) -> None:
        with self.lock, contextlib.suppress(OSError):
            if self.sock is not None:
                self.say(keeper.FORGET, number)

    def waiting(self) -> tuple[int, int]:
        with self.lock:
            if self.sock is None:
                return 0, 0
            try:
                self.say(keeper.COUNT)
                tensors, self.bytes = keeper.COUNTS.unpack(self.sock.recv(64))
            except (OSError, struct.error):  # it has ended, or does not answer
                self.close()
                return 0, 0
            return tensors, self.bytes

    def has_room(self, nbytes: int) -> bool:
        most = _most_bytes()
        return self.bytes + nbytes <= most or self.waiting()[1] + nbytes <= most

    def ask(self, address: Address, question: Callable[[socket.socket], _Answer | None]) -> _Answer | None:
        """The answer of the keeper there, over the connection that is open; None if there is none."""
        with self.lock:
            if self.sock is None or self.address != address:
                return None
            answer = question(self.sock)
            if answer is None:  # nobody knows what it would say next
                self.close()
            return answer

    def close(self) -> None:
        if self.sock is not None:
            self.sock.close()
            self.sock = None


def _address_in(text: str) -> Address | None:
    pid, _, rest = text.partition(":")
    file, _, name = rest.partition(":")
    return Address(int(pid), b"\0" + name.encode(), int(file)) if pid.isdigit() and file.isdigit() else None


def _parent() -> int:
    """The process that has started this one and may read what it sends after its end; 0 if there is none."""
    process = sys.modules.get("multiprocessing.process")
    parent = None if process is None else process.parent_process()
    return 0 if parent is None else int(parent.pid or 0)


_desk = _Desk()


@functools.cache
def _most_bytes() -> int:
    """What may wait to be fetched: beyond a quarter of the memory, tensors travel within their messages, whose pipe
    holds the sender back."""
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) // 4


def ask_at_the_desk(address: Address, question: Callable[[socket.socket], _Answer | None]) -> _Answer | None:
    return _desk.ask(address, question)


def waiting() -> tuple[int, int]:
    """How many tensors this process has sent that nobody has fetched, and their bytes."""
    return _desk.waiting()


class Ticket(NamedTuple):
    """Names what waits."""

    #: Of the sender, for the words of an error.
    pid: int
    nbytes: int
    secret: bytes
    number: int
    keeper: Address


#: Memory of the pool that nobody writes any more, by address: the next message that has it takes it as it is.
_given: dict[int, Tensor] = {}


def memory(nbytes: int) -> Tensor:
    """Memory that can be handed over: flat bytes, not initialised. Raises isthmus.Error if there is none."""
    return shared.empty((nbytes,), "uint8", access="copy_on_write")


def give(tensor: Tensor) -> None:
    """Let the message that has all of `tensor`, which `memory` made, take it without a copy."""
    _given[tensor.data_ptr] = tensor


def take_back(address: int) -> None:
    """What was given there has not been sent, or has been."""
    _given.pop(address, None)


def post(piece: Piece) -> Ticket | None:
    """Keep a copy of a piece for another process to fetch. None if it has to travel within the message: it is small, or
    nobody sends the message, or there is nothing to keep it with."""

    def copied() -> Tensor:
        kept = _given.pop(piece.address, None)
        if kept is None or kept.nbytes != piece.nbytes:
            kept = memory(piece.nbytes)
            piece.copy_to(kept.data_ptr)
        return kept

    posted = _post(piece.nbytes, copied)
    return None if posted is None else posted[1]


def post_memory(nbytes: int) -> tuple[Tensor, Ticket] | None:
    """Memory that is kept for another process to fetch, to be written while the message is pickled; None as `post`."""
    return _post(nbytes, lambda: memory(nbytes))


def _post(nbytes: int, make: Callable[[], Tensor]) -> tuple[Tensor, Ticket] | None:
    message = messages.message()
    if sys.platform != "linux" or nbytes <= INLINE or message is None or message.sender() is None:
        return None
    connection, pipe = message.way()
    # What is written into a broken pipe fails: nobody would fetch what was handed over before.
    if pipe.inode < 0 or pipes.is_broken(connection) or not _desk.has_room(nbytes):
        return None
    try:
        kept = make()
        number = _desk.hand_over(kept, pipe.inode)
    except (Error, OSError):  # no memory, no descriptor or no process to spare
        return None
    message.on_failure.append(lambda: _desk.forget(number))
    assert _desk.address is not None
    return kept, Ticket(os.getpid(), nbytes, _desk.secret, number, _desk.address)


def _after_fork() -> None:
    """A child has the same keeper, by a connection of its own."""
    global _desk
    before = _desk
    _desk = _Desk(before.address, before.lifeline)
    before.close()


def _before_fork() -> None:
    """Children share the keeper that is there when they are forked."""
    if _forks and _desk.address is None:
        with contextlib.suppress(OSError), _desk.lock:
            _desk.open()


_forks = False


def prepare() -> None:
    """From now on a process that forks has a keeper by then."""
    global _forks
    _forks = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
