"""The socket of the keeper of isthmus.distributed, in one process with it: whatever its clients say, it goes on, loses
no descriptor, and what others have handed over stays theirs; and what a keeper may answer does its client no harm.

ISTHMUS_FUZZ_ROUNDS: how many things are said; 4,000 if it is not set.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import socket
import struct
import sys
from collections.abc import Iterator
from typing import Any

import pytest

isthmus = pytest.importorskip("isthmus", reason="isthmus is not installed")
if sys.platform != "linux":
    pytest.skip("a keeper is one of Linux", allow_module_level=True)

from isthmus import shared  # noqa: E402  # which need it
from isthmus.distributed import fetching, keeper, transit  # noqa: E402

ROUNDS = int(os.environ.get("ISTHMUS_FUZZ_ROUNDS", "4000"))
SIZE = 1 << 19
#: Numbers at which something ends.
EDGES = (0, 1, 4095, 4096, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) - 1  # and the one that reads the folder


class Raw:
    """A tensor as isthmus.shared hands it over: the message and the descriptor."""

    def __init__(self, tensor: Any) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            shared.send(ours, tensor, "copy_on_write")
            self.message, (self.file,), _, _ = socket.recv_fds(theirs, 1 << 14, 2)

    def close(self) -> None:
        os.close(self.file)


class Desk:
    """A keeper without a process of its own, and connections to it."""

    def __init__(self) -> None:
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(b"\0isthmus-test-" + secrets.token_hex(8).encode())
        self.listener.listen(64)
        self.here, there = socket.socketpair()
        self.keeper = keeper.Keeper([self.listener], there.detach())
        self.listener.setblocking(False)
        self.keeper.selector.register(self.listener, 1)
        self.keeper.selector.register(self.keeper.lifeline, 1)
        self.fixed = descriptors()
        self.peers: list[socket.socket] = []

    def settle(self) -> None:
        """It has read and answered everything."""
        while self.keeper.selector.select(0):
            self.keeper.turn(0)

    def connect(self) -> socket.socket:
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        peer.connect(self.listener.getsockname())
        peer.setblocking(False)
        self.peers.append(peer)
        self.settle()
        return peer

    def say(self, peer: socket.socket, data: bytes, files: list[int] | None = None) -> None:
        try:
            socket.send_fds(peer, [data], files or [])
        except OSError:  # it has been dismissed
            if peer in self.peers:
                self.peers.remove(peer)
                peer.close()

    def hear(self, peer: socket.socket) -> bytes:
        """Its answer, without what is handed over with it."""
        try:
            data, files, _, _ = socket.recv_fds(peer, 1 << 14, 8)
        except OSError:
            return b""
        for file in files:
            os.close(file)
        return data

    def deposit(self, peer: socket.socket, secret: bytes, number: int, raw: Raw) -> None:
        self.say(peer, keeper.REQUEST.pack(keeper.DEPOSIT, secret, number, SIZE, 0, 0))
        self.say(peer, raw.message, [raw.file])
        self.settle()

    def fetch(self, peer: socket.socket, secret: bytes, number: int) -> Any:
        """The tensor; None if it is not there."""
        self.say(peer, keeper.REQUEST.pack(keeper.FETCH, secret, number, 0, 0, 0))
        self.settle()
        if self.hear(peer) != keeper.HERE:
            return None
        tensor = shared.receive(peer)
        self.say(peer, keeper.REQUEST.pack(keeper.DONE, secret, number, 0, 0, 0))
        self.settle()
        return tensor

    def is_consistent(self) -> bool:
        """Whether what it keeps, counts and has open is the same."""
        k = self.keeper
        own = sum(one.file >= 0 for one in k.kept.values())
        open_now = self.fixed + len(self.peers) + k.clients + len(k.files) + own + len(k.parents)
        return (
            descriptors() == open_now
            and sum(k.held.values()) == len(k.kept)
            and set(k.files) <= set(k.held)
            and all(key in k.kept for keys in k.lent.values() for key in keys)
            and set(k.lent) | set(k.coming) <= {key.fileobj for key in k.selector.get_map().values()}
        )

    def close(self) -> None:
        for peer in self.peers:
            peer.close()
        self.peers.clear()
        for key in list(self.keeper.selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket) and key.fileobj is not self.listener:
                key.fileobj.close()
        for key in list(self.keeper.kept):
            self.keeper.drop(key)
        self.keeper.selector.close()
        os.close(self.keeper.lifeline)
        for file in self.keeper.parents.values():
            os.close(file)
        self.here.close()
        self.listener.close()


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.close()


class Wild:
    """Says what comes to its mind."""

    def __init__(self, desk: Desk, seed: int, raws: list[Raw], secrets_: list[bytes]) -> None:
        self.desk, self.random, self.raws, self.secrets = desk, random.Random(seed), raws, secrets_
        self.folder = os.open("/", os.O_RDONLY)
        self.null = os.open(os.devnull, os.O_RDWR)
        self.pipe = os.pipe()
        self.plain = os.memfd_create("test")
        desk.fixed += 5

    def close(self) -> None:
        for file in (self.folder, self.null, *self.pipe, self.plain):
            os.close(file)
        self.desk.fixed -= 5

    def number(self) -> int:
        return self.random.choice(EDGES) if self.random.random() < 0.3 else self.random.randrange(8)

    def request(self) -> bytes:
        r = self.random
        secret = r.choice(self.secrets)
        parent = r.choice((0, 0, 1, os.getpid(), 1 << 22, (1 << 31) - 1, 1 << 31, (1 << 32) - 1))
        pipe = r.choice((0, 1, os.fstat(self.pipe[0]).st_ino, (1 << 64) - 1))
        kind = r.choice((0, 1, 1, 1, 1, 2, 2, 3, 4, 5, 6, 7, 7, 8, 255))
        return keeper.REQUEST.pack(kind, secret, self.number(), self.number(), pipe, parent)

    def message(self) -> tuple[bytes, list[int]]:
        """What may follow a deposit."""
        r = self.random
        raw = r.choice(self.raws)
        data = bytearray(raw.message)
        for _ in range(r.choice((0, 0, 1, 2))):
            place = r.choice((keeper._SLOT, keeper._SLOT + 8, r.randrange(len(data) - 8)))
            struct.pack_into("<Q", data, place, r.choice(EDGES))
        data[keeper._LEASED] = r.randrange(2)
        if r.random() < 0.1:
            del data[r.randrange(len(data)) :]
        others = (raw.file, self.folder, self.null, *self.pipe, self.plain, self.desk.here.fileno())
        files = [raw.file] if r.random() < 0.7 else [r.choice(others) for _ in range(r.randrange(6))]
        return bytes(data), files

    def speak(self) -> None:
        r, desk = self.random, self.desk
        if not desk.peers or (r.random() < 0.05 and len(desk.peers) < 8):
            desk.connect()
        peer = r.choice(desk.peers)
        what = r.random()
        if what < 0.05:
            desk.peers.remove(peer)
            peer.close()
        elif what < 0.15:
            desk.say(peer, r.randbytes(r.randrange(1, 200)), [self.null] * r.randrange(6))
        elif what < 0.55:
            desk.say(peer, *self.message())
        elif what < 0.6:
            desk.hear(peer)
        else:
            desk.say(peer, self.request())


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_said(desk: Desk, seed: int) -> None:
    pool = shared.Pool(limit=16 * SIZE)
    mine = pool.empty((SIZE,), "uint8", access="copy_on_write")
    memoryview(mine)[:] = b"\7" * SIZE
    secret, theirs = secrets.token_bytes(16), [secrets.token_bytes(16) for _ in range(3)]
    good = Raw(mine)
    raws = [good, *(Raw(pool.empty((4096,), "uint8", access="copy_on_write")) for _ in range(3))]
    desk.fixed = descriptors()
    friend = desk.connect()
    desk.deposit(friend, secret, 1, good)
    wild = Wild(desk, seed, raws, theirs)
    desk.peers.remove(friend)
    desk.fixed += 1
    for round_ in range(ROUNDS // 4):
        wild.speak()
        if round_ % 3 == 0:
            desk.settle()
            assert desk.is_consistent(), round_
        if round_ % 97 == 0:
            desk.keeper.look(set())
            desk.keeper.look(None)
            assert desk.is_consistent(), round_
    desk.settle()
    wild.close()
    for raw in raws:
        raw.close()
    arrived = desk.fetch(friend, secret, 1)
    assert bytes(memoryview(arrived)) == b"\7" * SIZE
    friend.close()


def test_a_deposit_of_another_does_not_end_a_lease(desk: Desk) -> None:
    """One that has got a tensor of the same segment, and says that its slot is larger."""
    pool = shared.Pool(limit=16 * SIZE)
    first = pool.empty((SIZE,), "uint8", access="copy_on_write")
    second = pool.empty((SIZE,), "uint8", access="copy_on_write")
    rest = pool.empty((14 * SIZE,), "uint8", access="copy_on_write")
    victim, other = desk.connect(), desk.connect()
    raw, wide = Raw(second), Raw(first)
    slots = [struct.unpack_from("<2Q", one.message, keeper._SLOT) for one in (wide, raw)]
    assert os.fstat(raw.file).st_ino == os.fstat(wide.file).st_ino
    desk.deposit(victim, b"v" * 16, 1, raw)
    for size in (slots[1][0] + slots[1][1] - slots[0][0], 0, (1 << 63) - 1 - slots[0][0]):
        message = bytearray(wide.message)
        struct.pack_into("<2Q", message, keeper._SLOT, slots[0][0], size)
        wide.message = bytes(message)
        for number in (1, 2):
            desk.deposit(other, b"o" * 16, number, wide)
        for number in (1, 2):
            desk.say(other, keeper.REQUEST.pack(keeper.FORGET, b"o" * 16, number, 0, 0, 0))
        desk.settle()
    raw.close()
    wide.close()
    del second
    with pytest.raises(MemoryError):
        pool.empty((SIZE,), "uint8", access="copy_on_write")
    assert desk.fetch(victim, b"v" * 16, 1) is not None
    del first, rest


def test_a_number_that_is_handed_over_twice_is_kept_once(desk: Desk) -> None:
    pool = shared.Pool()
    peer = desk.connect()
    for value in (1, 2):
        tensor = pool.empty((SIZE,), "uint8", access="copy_on_write")
        memoryview(tensor)[:] = bytes([value]) * SIZE
        raw = Raw(tensor)
        desk.deposit(peer, b"s" * 16, 5, raw)
        raw.close()
    assert len(desk.keeper.kept) == 1
    assert memoryview(desk.fetch(peer, b"s" * 16, 5))[0] == 2
    assert not desk.keeper.held


def test_what_a_keeper_may_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has ended, or another program under its name: one clear error, or nothing that waits."""
    mine = shared.share(bytes(SIZE))
    good = Raw(mine)
    seed = random.Random(1)
    answers = [b"", b"\2", keeper.GONE, keeper.HERE, b"\1" * 64, *(seed.randbytes(n) for n in (1, 15, 17, 64, 300))]
    for answer in answers:
        for follows in (None, good.message, seed.randbytes(len(good.message)), b""):
            here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            here.settimeout(5)
            before = descriptors()
            there.send(answer)
            if follows is not None:
                socket.send_fds(there, [follows], [good.file])
            there.shutdown(socket.SHUT_WR)
            desk = transit._Desk()
            desk.sock = here
            monkeypatch.setattr(desk, "open", lambda here=here: here)
            ticket = transit.Ticket(1, SIZE, b"s" * 16, 1, transit.Address(1, b"\0none", 0))
            if seed.random() < 0.5:
                waiting = desk.waiting()
                assert waiting == (0, 0) or len(answer) == keeper.COUNTS.size
            else:
                with contextlib.suppress(isthmus.Error):
                    by_bytes = seed.random() < 0.5
                    got = fetching._read(here, ticket) if by_bytes else fetching._ask(here, ticket, "read_only")
                    assert got is None or got.tensor.nbytes == SIZE
                    del got
            here.close()
            there.close()
            assert descriptors() == before - 2
    good.close()
