"""A process that keeps what others have sent until it is fetched, so that it outlives its sender.

Run as a script by `transit`, with the standard library alone: `keeper.py LISTENER PATH LIFELINE`, all descriptors. It
holds the descriptors of memory, not its pages, and ends by itself when nobody is left who could fetch anything.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

#: What a client says: kind, the secret of the sender, the number of the tensor, its bytes, the pipe or the other end of
#: the socket that its message goes through (0: not known), and the parent of the sender, which may fetch it (0: none).
REQUEST = struct.Struct("<B16s3QI")
#: deposit: the message of isthmus.shared follows. fetch: answered by HERE and that message, or by GONE. done: it has
#: arrived. failed: it has not, and may be fetched again. forget: nobody will fetch it. count: answered by COUNTS. read,
#: by who can map no memory: answered by HERE and up to CHUNK of its bytes, from the one that stands for their number.
DEPOSIT, FETCH, DONE, FAILED, FORGET, COUNT, READ = range(1, 8)
HERE, GONE = b"\1", b"\0"
#: With the inode of a socket.
SOCKET = 1 << 63
CHUNK = 1 << 16
COUNTS = struct.Struct("<QQ")

# In a message of isthmus.shared: whether it has a lease; the offset and size of its slot, and the offset of its data.
_LEASED, _SLOT, _SHORTEST = 29, 40, 64
_FLOCK = struct.Struct("hh4xqqi4x")  # struct flock, as fcntl(2) takes it on 64-bit systems
_LONGEST = 1 << 14
_FARTHEST = (1 << 63) - 1  # byte of a file

# Seconds: after the last client is gone, and between two looks for pipes that nobody has open.
_GRACE, _LOOK = 2.0, 10.0
# Reads of every client before a question is answered, at most.
_TURNS = 1000


class Kept(NamedTuple):
    nbytes: int
    pipe: int
    #: Whose segment it is, its device and inode; and the range of it.
    segment: tuple[bytes, int, int]
    offset: int
    size: int
    data: int
    message: bytes
    #: Of its own, if the sender's system has no leases.
    file: int


class Keeper:
    def __init__(self, listeners: list[socket.socket], lifeline: int) -> None:
        self.listeners, self.lifeline = listeners, lifeline
        self.selector = selectors.DefaultSelector()
        self.kept: dict[tuple[bytes, int], Kept] = {}
        #: By segment: the descriptor whose locks are the leases of what is kept, and how many it holds. Each sender has
        #: its own, since the end of one lease is the end of those that it reaches over.
        self.files: dict[tuple[bytes, int, int], int] = {}
        self.held: dict[tuple[bytes, int, int], int] = {}
        #: What a client is about to deposit, and what it has been handed.
        self.coming: dict[socket.socket, tuple[tuple[bytes, int], int, int]] = {}
        self.lent: dict[socket.socket, set[tuple[bytes, int]]] = {}
        self.parents: dict[int, int] = {}
        #: Those that messages go through.
        self.sockets: set[int] = set()
        #: Questions that are answered when everything that was sent before them has been read.
        self.late: list[tuple[Any, ...]] = []
        self.clients = 0
        self.most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] * 3 // 4

    def run(self) -> None:
        for listener in self.listeners:
            listener.setblocking(False)
            self.selector.register(listener, selectors.EVENT_READ)
        self.selector.register(self.lifeline, selectors.EVENT_READ)
        alone = looked = time.monotonic()
        suspects: set[int] = set()
        while True:
            self.turn(_LOOK if self.is_used() else _GRACE / 4)
            now = time.monotonic()
            if self.is_used():
                alone = now
            elif now > alone + _GRACE or not self.kept:
                return
            if now > looked + _LOOK and self.kept:
                looked, suspects = now, self.look(suspects)

    def turn(self, timeout: float) -> None:
        """Wait for something to read, and read it; then answer."""
        for _ in range(_TURNS):
            ready = self.selector.select(timeout)
            for key, _ in ready:
                self.serve(key.fileobj)
            if not self.late:
                break
            timeout = 0  # what was sent before a question may be read after it
            if not ready:
                break
        questions, self.late = self.late, []
        for ask in questions:
            self.guarded(*ask)

    def is_used(self) -> bool:
        """Whether somebody is there who may fetch something."""
        return self.clients > 0 or self.lifeline >= 0 or bool(self.parents and self.kept)

    def serve(self, which: Any) -> None:
        if which in self.listeners:
            self.welcome(which)
        elif which == self.lifeline:
            self.selector.unregister(which)
            os.close(which)
            self.lifeline = -1
        elif isinstance(which, int):  # a parent has ended
            self.selector.unregister(which)
            os.close(which)
            self.parents = {pid: file for pid, file in self.parents.items() if file != which}
        else:
            self.guarded(self.answer, which)

    def guarded(self, act: Callable[..., bool], peer: socket.socket, *rest: Any) -> None:
        """A client that breaks the rules, or does not read, is one less."""
        if peer.fileno() < 0:
            return
        try:
            good = act(peer, *rest)
        except (OSError, OverflowError, struct.error):
            good = False
        if not good:
            self.dismiss(peer)

    def welcome(self, listener: socket.socket) -> None:
        try:
            peer, _ = listener.accept()
        except OSError:
            time.sleep(0.01)
            return
        if self.clients + len(self.files) > self.most:
            peer.close()
            return
        peer.setblocking(False)
        self.selector.register(peer, selectors.EVENT_READ)
        self.clients += 1

    def dismiss(self, peer: socket.socket) -> None:
        """What it was handed and has not acknowledged was lost with it."""
        self.selector.unregister(peer)
        peer.close()
        self.clients -= 1
        self.coming.pop(peer, None)
        for key in self.lent.pop(peer, ()):
            self.drop(key)

    def answer(self, peer: socket.socket) -> bool:
        """One packet; False when there will be no other."""
        try:
            data, files, flags, _ = socket.recv_fds(peer, _LONGEST, 4)
        except BlockingIOError:
            return True
        if peer in self.coming:
            self.deposit(*self.coming.pop(peer), data, files, bool(flags & socket.MSG_CTRUNC))
            return True
        for file in files:
            os.close(file)
        if not data:
            return False
        kind, secret, number, nbytes, pipe, parent = REQUEST.unpack(data)
        key = secret, number
        if kind in (DEPOSIT, COUNT) and not _is_own_user(peer):
            return False
        if kind == DEPOSIT:
            self.watch(parent)
            # One of another network namespace cannot be seen from here, later either.
            is_known = not pipe & SOCKET or pipe in self.sockets or is_open_socket(pipe)
            self.sockets |= {pipe} if is_known and pipe & SOCKET else set()
            self.coming[peer] = key, nbytes, pipe if is_known else 0
        elif kind in (FETCH, READ):
            ask = (self.fetch, peer, key) if kind == FETCH else (self.read, peer, key, nbytes)
            if key in self.kept:
                return ask[0](*ask[1:])
            self.late.append(ask)
        elif kind == DONE:
            self.lent.get(peer, set()).discard(key)
            self.drop(key)
        elif kind == FAILED:
            self.lent.get(peer, set()).discard(key)
        elif kind == FORGET:
            self.drop(key)
        elif kind == COUNT:
            self.late.append((self.count, peer, secret))
        else:
            return False
        return True

    def count(self, peer: socket.socket, secret: bytes) -> bool:
        self.look(None)
        mine = [one.nbytes for (whose, _), one in self.kept.items() if whose == secret]
        peer.send(COUNTS.pack(len(mine), sum(mine)))
        return True

    def watch(self, parent: int) -> None:
        """What is sent to the parent of a process is kept as long as that lives."""
        if parent == 0 or parent in self.parents:
            return
        with contextlib.suppress(OSError):
            self.parents[parent] = file = os.pidfd_open(parent)
            self.selector.register(file, selectors.EVENT_READ)

    def deposit(
        self, key: tuple[bytes, int], nbytes: int, pipe: int, message: bytes, files: list[int], lost: bool
    ) -> None:
        offset, size, data = struct.unpack_from("<3Q", message, _SLOT) if len(message) >= _SHORTEST else (0, 0, 0)
        # A lock of size 0 would reach to the end of the file.
        if lost or len(files) != 1 or size == 0 or offset + size > _FARTHEST:
            for file in files:
                os.close(file)
            return
        self.drop(key)
        file = files[0]
        status = os.fstat(file)
        segment = key[0], status.st_dev, status.st_ino
        own = -1
        if not message[_LEASED]:
            own = file
        elif segment not in self.files:
            self.files[segment] = file
        else:
            try:
                lock(self.files[segment], F_RDLCK, offset, size)
            finally:
                os.close(file)
        self.held[segment] = self.held.get(segment, 0) + 1
        self.kept[key] = Kept(nbytes, pipe, segment, offset, size, data, message, own)

    def lend(self, peer: socket.socket, key: tuple[bytes, int]) -> Kept | None:
        """What a client asks for, which is its own from now on; None if it is gone, or another's."""
        others = (keys for other, keys in self.lent.items() if other is not peer)
        if key not in self.kept or any(key in keys for keys in others):
            peer.send(GONE)
            return None
        self.lent.setdefault(peer, set()).add(key)
        return self.kept[key]

    def read(self, peer: socket.socket, key: tuple[bytes, int], at: int) -> bool:
        one = self.lend(peer, key)
        if one is not None:
            file = one.file if one.file >= 0 else self.files[one.segment]
            fcntl.fcntl(file, _GET_SEALS)  # refused for what is not memory, and may keep a reader waiting
            peer.send(HERE + os.pread(file, min(CHUNK, max(one.nbytes - at, 0)), one.data + at))
        return True

    def fetch(self, peer: socket.socket, key: tuple[bytes, int]) -> bool:
        one = self.lend(peer, key)
        if one is None:
            return True
        peer.send(HERE)
        if one.file >= 0:
            socket.send_fds(peer, [one.message], [one.file])
        else:
            # Leases belong to an open file, and the receiver's has to outlive this one.
            file = os.open(f"/proc/self/fd/{self.files[one.segment]}", os.O_RDWR | os.O_CLOEXEC)
            try:
                lock(file, F_RDLCK, one.offset, one.size)
                socket.send_fds(peer, [one.message], [file])
            finally:
                os.close(file)
        return True

    def drop(self, key: tuple[bytes, int]) -> None:
        one = self.kept.pop(key, None)
        if one is None:
            return
        if one.file >= 0:
            os.close(one.file)
        else:
            lock(self.files[one.segment], F_UNLCK, one.offset, one.size)
        self.held[one.segment] -= 1
        if self.held[one.segment] == 0:
            del self.held[one.segment]
            if one.segment in self.files:
                os.close(self.files.pop(one.segment))

    def look(self, suspects: set[int] | None) -> set[int]:
        """Drop what was sent through pipes that nobody has open any more: what is in them is lost. A descriptor that
        is on its way to another process is in no table, so those of `suspects`, of an earlier look, go first; with
        None all."""
        through = {one.pipe for one in self.kept.values() if one.pipe}
        sockets = {one for one in through if one & SOCKET}
        pipes = through - sockets
        closed = pipes - open_pipes() if pipes else set()
        closed |= {one for one in sockets if not is_open_socket(one)}
        self.sockets &= sockets
        lost = closed if suspects is None else closed & suspects
        for key in [key for key, one in self.kept.items() if one.pipe in lost]:
            self.drop(key)
        return closed - lost


def _is_own_user(peer: socket.socket) -> bool:
    _, user, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return bool(user == os.geteuid())


def open_pipes() -> set[int]:
    """The inodes of all pipes that a process of this user has open."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            folder = f"/proc/{pid}/fd"
            for name in os.listdir(folder):
                with contextlib.suppress(OSError):
                    target = os.readlink(f"{folder}/{name}")
                    if target.startswith("pipe:["):
                        found.add(int(target[6:-1]))
    return found


# What the kernel tells of a Unix socket (sock_diag(7)): asked by inode, and for the inode of the other end.
_ASK = struct.Struct("=IHHII2BH5I")
_BY_FAMILY, _FAILED, _OTHER_END = 20, 2, 4
_HEAD, _ATTRIBUTES = struct.Struct("=IH"), 32
_ATTRIBUTE, _NAME = struct.Struct("=2HI"), 2


def _told_of_socket(inode: int) -> bytes | None:
    """None if there is no such socket in this network namespace. Raises OSError where nobody may ask."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 4) as kernel:
        kernel.settimeout(1)
        anything = 0xFFFFFFFF
        question = _BY_FAMILY, 1, 1, 0, socket.AF_UNIX, 0, 0, anything, inode & anything, _OTHER_END, anything, anything
        kernel.send(_ASK.pack(_ASK.size, *question))
        data = kernel.recv(1024)
    kind = _HEAD.unpack_from(data)[1]
    if kind == _BY_FAMILY:
        return data
    error = -struct.unpack_from("=i", data, 16)[0] if kind == _FAILED else errno.EINVAL
    if error != errno.ENOENT:
        raise OSError(error, os.strerror(error))
    return None


def is_open_socket(which: int) -> bool:
    """Whether anybody has it open, on its way to another process included."""
    try:
        return _told_of_socket(which) is not None
    except OSError:
        return True


def other_end(inode: int) -> int | None:
    """The inode of the socket that a Unix socket is connected to; None if there is none, or nobody tells."""
    try:
        told = _told_of_socket(inode)
    except (OSError, AttributeError):  # only Linux has it
        return None
    if told is None or len(told) < _ATTRIBUTES + _ATTRIBUTE.size:
        return None
    _, name, other = _ATTRIBUTE.unpack_from(told, _ATTRIBUTES)
    return other if name == _NAME else None


if sys.platform != "win32":
    import fcntl
    import resource

    F_RDLCK, F_UNLCK = fcntl.F_RDLCK, fcntl.F_UNLCK
    _SETLK, _GET_SEALS = getattr(fcntl, "F_OFD_SETLK", 37), getattr(fcntl, "F_GET_SEALS", 1034)

    def lock(file: int, kind: int, offset: int, size: int) -> None:
        fcntl.fcntl(file, _SETLK, _FLOCK.pack(kind, os.SEEK_SET, offset, size, 0))


def main() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    numbers = list(map(int, sys.argv[1:]))
    listeners = [socket.socket(fileno=number) for number in numbers[1:]]
    os.chdir("/")
    Keeper(listeners, numbers[0]).run()


if __name__ == "__main__":
    main()
