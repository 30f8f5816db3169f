"""Tensors on their way to another process of this machine: kept here until they are fetched, over a Unix socket.

A message names them by a ticket; who unpickles it asks the sender, and gets them as isthmus.shared hands memory over.
The socket has no name in any file system, and nobody but this user is served.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import secrets
import selectors
import socket
import struct
import sys
import threading
import time
from typing import NamedTuple

from .. import shared
from .._isthmus import Error, Tensor

#: Smaller ones travel within the message: no more than a pipe takes before it blocks.
INLINE = 1 << 15

# Seconds that the end of a process waits for what is not fetched: a child of multiprocessing, and any other.
_CHILD_WAITS, _MAIN_WAITS = 60.0, 1.0

_REQUEST = struct.Struct("16sQ")
_HERE, _GONE = b"\1", b"\0"
_KEEP = 64  # connections to senders


class _Desk:
    """Tensors that this process has sent and nobody has fetched yet, and the thread that serves them."""

    def __init__(self) -> None:
        self.lock = threading.Condition()
        self.waiting: dict[int, Tensor] = {}
        #: A request is being answered: its tensor waits no more, and has not gone yet.
        self.answering = False
        self.bytes = 0
        self.last = 0.0
        self.numbers = itertools.count(1)
        self.secret = b""
        self.name = b""
        self.pool: shared.Pool | None = None
        self.listener: socket.socket | None = None
        self.selector: selectors.BaseSelector | None = None

    def open(self) -> shared.Pool:
        """Starts the thread when first needed."""
        with self.lock:
            if self.pool is None:
                self.secret = secrets.token_bytes(16)
                self.name = b"\0isthmus-%d-" % os.getpid() + secrets.token_hex(8).encode()
                self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                self.listener.bind(self.name)
                self.listener.listen(128)
                self.listener.setblocking(False)
                self.selector = selectors.DefaultSelector()
                self.selector.register(self.listener, selectors.EVENT_READ)
                threading.Thread(target=self.serve, name="isthmus-transit", daemon=True).start()
                self.pool = shared.Pool()
            return self.pool

    def offer(self, tensor: Tensor) -> int:
        with self.lock:
            number = next(self.numbers)
            self.waiting[number] = tensor
            self.bytes += tensor.nbytes
            self.last = time.monotonic()
            return number

    def take(self, number: int) -> Tensor | None:
        with self.lock:
            tensor = self.waiting.pop(number, None)
            if tensor is not None:
                self.bytes -= tensor.nbytes
                self.last = time.monotonic()
                self.lock.notify_all()
            return tensor

    def serve(self) -> None:
        selector, listener = self.selector, self.listener
        assert selector is not None
        assert listener is not None
        while True:
            for key, _ in selector.select():
                peer = key.fileobj
                assert isinstance(peer, socket.socket)
                if peer is listener:
                    self.welcome(listener, selector)
                    continue
                with self.lock:
                    self.answering = True
                good = self.answer(peer)
                with self.lock:
                    self.answering = False
                    self.lock.notify_all()
                if not good:
                    selector.unregister(peer)
                    peer.close()

    @staticmethod
    def welcome(listener: socket.socket, selector: selectors.BaseSelector) -> None:
        try:
            peer, _ = listener.accept()
        except OSError:  # gone again, or no descriptor left: who waits in the queue is seen at the next turn
            time.sleep(0.01)
            return
        _, user, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if user != os.geteuid():
            peer.close()
            return
        peer.settimeout(30)
        selector.register(peer, selectors.EVENT_READ)

    def answer(self, peer: socket.socket) -> bool:
        """One request; False when there will be no other."""
        try:
            request = peer.recv(_REQUEST.size + 1)
            if len(request) != _REQUEST.size:
                return False
            secret, number = _REQUEST.unpack(request)
            if not secrets.compare_digest(secret, self.secret):
                return False
            tensor = self.take(number)
            if tensor is None:
                peer.send(_GONE)
                return True
            peer.send(_HERE)
            shared.send(peer, tensor, "copy_on_write")
        except (OSError, Error):
            return False
        return True

    def wait(self, seconds: float) -> None:
        """Until everything is fetched, or nothing was for so long, or the parent has ended."""
        from multiprocessing import parent_process

        parent = parent_process()
        with self.lock:
            while (
                (self.waiting or self.answering)
                and time.monotonic() < self.last + seconds
                and (parent is None or parent.is_alive())
            ):
                self.lock.wait(0.05)


_desk = _Desk()


class _Exit:
    """Makes the end of this process wait for what was sent, and that of its forked children."""

    def __init__(self) -> None:
        self.is_set = False

    def set(self) -> None:
        from multiprocessing import util

        if not self.is_set:
            self.is_set = True
            # A forked child of multiprocessing starts without its parent's finalizers, and calls this.
            util.register_after_fork(self, _Exit.finalize)
            self.finalize()

    def finalize(self) -> None:
        from multiprocessing import parent_process, util

        # After its queues have written what they hold, which is at -5. Set before a queue's thread sends anything: what
        # is added while the finalizers run is not run.
        util.Finalize(
            None, lambda: _desk.wait(_MAIN_WAITS if parent_process() is None else _CHILD_WAITS), exitpriority=-10
        )


_exit = _Exit()


def wait_at_exit() -> None:
    """From now on this process does not end before what it sent is fetched, nor do those that multiprocessing forks
    from it; a child of multiprocessing waits for a minute after the last fetch or as long as its parent lives, others
    for a second."""
    _exit.set()


def _most_bytes() -> int:
    """What may wait to be fetched: beyond a quarter of the memory, tensors travel within their messages, whose pipe
    holds the sender back."""
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) // 4


def waiting() -> tuple[int, int]:
    """How many tensors this process has sent that nobody has fetched, and their bytes."""
    with _desk.lock:
        return len(_desk.waiting), _desk.bytes


class Ticket(NamedTuple):
    """Names what waits."""

    pid: int
    #: Of the sender's socket, and the message that it expects.
    name: bytes
    secret: bytes
    number: int
    nbytes: int


#: Memory of the pool that nobody writes any more, by address: the next message that has it takes it as it is.
_given: dict[int, Tensor] = {}


def memory(nbytes: int) -> Tensor:
    """Memory that can be handed over: flat bytes, not initialised. Raises isthmus.Error if there is none."""
    return _desk.open().empty((nbytes,), "uint8", access="copy_on_write")


def give(tensor: Tensor) -> None:
    """Let the message that has all of `tensor`, which `memory` made, take it without a copy."""
    _given[tensor.data_ptr] = tensor


def take_back(address: int) -> None:
    """What was given there has not been sent, or has been."""
    _given.pop(address, None)


def post(data: Tensor) -> Ticket | None:
    """Keep a copy of `data`, flat bytes, for another process to fetch. None if it has to travel within the message."""
    if sys.platform != "linux" or data.nbytes <= INLINE or _desk.bytes + data.nbytes > _most_bytes():
        return None
    try:
        kept = _given.pop(data.data_ptr, None)
        if kept is None or kept.nbytes != data.nbytes:
            kept = memory(data.nbytes)
            ctypes.memmove(kept.data_ptr, data.data_ptr, data.nbytes)
    except (Error, OSError):  # no memory or no descriptor to spare
        return None
    return Ticket(os.getpid(), _desk.name, _desk.secret, _desk.offer(kept), data.nbytes)


class _Senders:
    """Connections to processes that have sent something, kept for what they will send."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.idle: dict[bytes, list[socket.socket]] = {}

    def connect(self, name: bytes) -> tuple[socket.socket, bool]:
        """A connection that nobody else uses now, and whether it has been used before."""
        with self.lock:
            known = self.idle.get(name)
            if known:
                return known.pop(), True
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            sock.connect(name)
        except OSError:
            sock.close()
            raise
        return sock, False

    def keep(self, name: bytes, sock: socket.socket) -> None:
        with self.lock:
            self.idle[name] = [*self.idle.pop(name, []), sock]  # the last used comes last
            extra = [self.idle.pop(next(iter(self.idle))) for _ in range(len(self.idle) - _KEEP)]
        for group in extra:
            for old in group:
                old.close()


_senders = _Senders()


def _failed(text: str, code: str) -> Error:
    error = Error(text)
    error.code = code
    return error


def _ask(sock: socket.socket, ticket: Ticket, access: shared.Access) -> Tensor | None:
    """None when the connection has ended."""
    pid, _, secret, number, nbytes = ticket
    try:
        sock.send(_REQUEST.pack(secret, number))
        answer = sock.recv(1)
    except ConnectionError:
        return None
    if answer == _GONE:
        raise _failed(
            f"the tensor of {nbytes} bytes from process {pid} has been fetched already: a message is read once",
            "consumed_capsule",
        )
    if answer != _HERE:
        return None
    try:
        return shared.receive(sock, access)
    except EOFError:
        return None


def fetch(ticket: Ticket, access: shared.Access) -> Tensor:
    """The bytes that a ticket names: read-only, or writable and private.

    Raises isthmus.Error when the sender has ended, or the message has been read before.
    """
    pid, name, _, number, nbytes = ticket
    if pid == os.getpid() and name == _desk.name:
        own = _desk.take(number)
        if own is None:
            raise _failed(
                f"the tensor of {nbytes} bytes has been fetched already: a message is read once", "consumed_capsule"
            )
        # Sent and received within this process too, which maps it anew: forked children must not see writes to it.
        ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ends[0], ends[1]:
            shared.send(ends[0], own, "copy_on_write")
            return shared.receive(ends[1], access)
    for _ in range(_KEEP + 1):
        try:
            sock, used = _senders.connect(name)
        except OSError:
            break
        try:
            tensor = _ask(sock, ticket, access)
        except Error as error:
            if error.code == "consumed_capsule":
                _senders.keep(name, sock)
            else:
                sock.close()
            raise
        except BaseException:
            sock.close()
            raise
        if tensor is not None:
            _senders.keep(name, sock)
            return tensor
        sock.close()
        if not used:
            break
    raise _failed(f"process {pid} has ended before its tensor of {nbytes} bytes was fetched", "peer_closed")


def _after_fork() -> None:
    """The parent serves the tensors that it has sent, and its connections are the parent's."""
    global _desk, _senders
    before, connections = _desk, _senders
    _desk, _senders = _Desk(), _Senders()
    with contextlib.suppress(OSError):
        if before.selector is not None:
            for key in list(before.selector.get_map().values()):
                key.fileobj.close()  # type: ignore[union-attr]
            before.selector.close()
    for group in connections.idle.values():
        for sock in group:
            sock.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
