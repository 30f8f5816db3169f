"""What was sent outlives its sender, is kept when it cannot be received, and goes when nobody can fetch it any more."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import pickle
import resource
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

isthmus = pytest.importorskip("isthmus", reason="isthmus is not installed")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import endings  # noqa: E402  # which needs these

FORK: Any = multiprocessing.get_context("fork")


@pytest.fixture(autouse=True)
def enabled() -> None:
    isthmus.distributed.enable("multiprocessing")


def seconds_since(start: float) -> float:
    return time.monotonic() - start


@pytest.mark.parametrize("start", ["fork", "forkserver", "spawn"])
@pytest.mark.parametrize("how", ["normal", "_exit", "killed"])
def test_what_was_sent_outlives_its_sender(start: str, how: str):
    context: Any = multiprocessing.get_context(start)
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=endings.send_and_end, args=(theirs, how, 1 << 20))
    process.start()
    process.join()
    theirs.close()
    assert ours.recv().sum() == 3 << 18


def test_a_child_that_ends_waits_for_nobody():
    for nbytes in (40_000, 1 << 20):
        queue = FORK.Queue()
        process = FORK.Process(target=endings.put_and_end, args=(queue, nbytes))
        process.start()
        start = time.monotonic()
        process.join()
        assert seconds_since(start) < 5  # 60
        assert queue.get(timeout=30).sum() == 3 * (nbytes // 4)


def test_a_loop_over_batches_that_ends_early():
    loader = torch.utils.data.DataLoader(
        endings.Batches(), batch_size=4, num_workers=2, collate_fn=isthmus.distributed.collate
    )
    for batch in loader:
        assert batch.shape == (4, 1 << 18)
        break
    start = time.monotonic()
    del loader
    gc.collect()
    assert seconds_since(start) < 4  # 5 to 10


PROGRAM = """
import multiprocessing, os, signal, sys, time, torch, isthmus
sys.path.insert(0, {support!r})
import endings
isthmus.distributed.enable("multiprocessing")
context = multiprocessing.get_context("fork")
ours, theirs = context.Pipe()
children = [context.Process(target=endings.sleep, args=(None,)) for _ in range(2)]
for child in children: child.start()
theirs.send(torch.ones(1 << 20))
from isthmus.distributed import transit
print(transit._desk.address.pid, *(child.pid for child in children), flush=True)
time.sleep(60)
"""


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_nothing_is_left_when_all_are_killed():
    support = str(Path(endings.__file__).parent)
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(support=support)], stdout=subprocess.PIPE, text=True, env=without_keeper()
    )
    assert process.stdout is not None
    with process.stdout:
        keeper, *children = map(int, process.stdout.readline().split())
    assert is_alive(keeper)
    for pid in (process.pid, *children):
        os.kill(pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 20
    while is_alive(keeper) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_alive(keeper)


def without_keeper() -> dict[str, str]:
    """The environment for a family of processes of its own."""
    return {name: value for name, value in os.environ.items() if name != "ISTHMUS_KEEPER"}


@contextlib.contextmanager
def without_a_descriptor() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    number = os.dup(0)
    os.close(number)
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("connection", ["of the receiver", "of the sender"])
def test_without_a_descriptor_a_copy_arrives(connection: str):
    """Whoever reads messages, as the thread of a Pool, may have no second try."""
    from isthmus.distributed import fetching

    ours, theirs = multiprocessing.Pipe()
    ours.send(torch.ones(1 << 18))
    assert theirs.recv().sum() == 1 << 18
    sent = [
        np.arange(1e5),
        torch.arange(1e5),
        [np.full(20_000, float(i)) for i in range(9)],
        np.arange(33_333, dtype="u1"),
    ]
    for x in sent:
        ours.send(x)
    if connection == "of the sender":
        fetching._after_fork()
    before = isthmus.distributed.stats()
    with without_a_descriptor():
        for x in sent:
            assert np.array_equal(np.asarray(theirs.recv()), np.asarray(x))
        ours.send(torch.full((1 << 12,), 5.0))
        assert theirs.recv().sum() == 5 << 12
    after = isthmus.distributed.stats()
    assert (after["copied"] - before["copied"] > 2, after["waiting"]) == (True, before["waiting"] - 4)


def double(x: Any) -> Any:
    return x * 2


def test_a_pool_without_a_descriptor():
    x = np.arange(1e5)
    with FORK.Pool(2) as pool:
        with without_a_descriptor():
            doubled = pool.map_async(double, [x] * 6).get(30)
        assert all(np.array_equal(one, 2 * x) for one in (*doubled, *pool.map_async(double, [x] * 6).get(30)))


def test_a_descriptor_that_the_desk_has_let_go_serves(monkeypatch: pytest.MonkeyPatch):
    """A message that cannot be sent for lack of descriptors closes the desk's connection, which another thread wanted
    to read by."""
    from isthmus.distributed import fetching, transit

    fetching._after_fork()
    transit._desk.close()  # the next one takes the lowest descriptor, which is below the limit
    ours, theirs = multiprocessing.Pipe()
    ours.send(np.full(1 << 18, 2.0))
    data = theirs.recv_bytes()
    monkeypatch.setattr(transit, "ask_at_the_desk", lambda *_: transit._desk.close())
    with without_a_descriptor():
        assert pickle.loads(data).sum() == 2 << 18


def test_without_a_connection_nothing_is_lost():
    from isthmus.distributed import fetching, transit

    ours, theirs = multiprocessing.Pipe()
    ours.send(np.full(1 << 18, 2.0))
    data = theirs.recv_bytes()
    fetching._after_fork()
    transit._desk.close()
    with without_a_descriptor():
        for _ in range(2):
            with pytest.raises(isthmus.Error, match="may be read again") as caught:
                pickle.loads(data)
            assert "has ended" not in str(caught.value)
    assert pickle.loads(data).sum() == 2 << 18
    with pytest.raises(isthmus.Error, match="fetched already"):
        pickle.loads(data)


@pytest.mark.parametrize("reader", [endings.read_as_nobody, endings.read_without_network])
def test_a_reader_of_another_user_or_network(reader: Any):
    if os.geteuid() != 0:
        pytest.skip("only root becomes another user")
    requests, answers = FORK.Pipe(), FORK.Pipe()
    process = FORK.Process(target=reader, args=(requests[1], answers[1]))
    process.start()
    requests[0].send(torch.ones(1 << 18))
    total = answers[0].recv()
    process.join()
    if total is None:
        pytest.skip("no network namespaces here")
    assert total == 1 << 18


class Fails:
    def __reduce__(self) -> Any:
        raise ValueError("not this one")


def test_a_message_that_fails_leaves_nothing():
    ours, _theirs = multiprocessing.Pipe()
    before = isthmus.distributed.stats()["waiting"]
    for _ in range(3):
        with pytest.raises(ValueError, match="not this one"):
            ours.send((torch.ones(1 << 18), Fails()))
    assert isthmus.distributed.stats()["waiting"] == before


def test_a_pool_that_is_terminated_leaves_nothing():
    before = isthmus.distributed.stats()["waiting"]
    pool = FORK.Pool(2)
    results = [pool.apply_async(endings.sleep, (torch.ones(1 << 18),)) for _ in range(6)]
    deadline = time.monotonic() + 20
    while isthmus.distributed.stats()["waiting"] < before + 4 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert isthmus.distributed.stats()["waiting"] == before + 4  # two are with the workers
    pool.terminate()
    pool.join()
    del pool, results
    gc.collect()
    assert isthmus.distributed.stats()["waiting"] == before


@pytest.mark.parametrize("duplex", [False, True])
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_what_was_sent_to_a_reader_that_was_killed_is_let_go(start: str, duplex: bool):
    context: Any = multiprocessing.get_context(start)
    before = isthmus.distributed.stats()["waiting"]
    theirs, ours = context.Pipe(duplex)
    process = context.Process(target=endings.sleep, args=(theirs,))
    process.start()
    theirs.close()
    for _ in range(3):
        ours.send(torch.ones(1 << 18))
    time.sleep(1)  # a descriptor on its way to a spawned process is nobody's
    assert isthmus.distributed.stats()["waiting"] == before + 3
    process.kill()
    process.join()
    if not duplex:
        ours.close()  # a pipe is one thing, with two ends
    assert isthmus.distributed.stats()["waiting"] == before


@pytest.mark.parametrize("duplex", [False, True])
def test_a_message_into_a_broken_pipe_leaves_nothing(duplex: bool):
    before = isthmus.distributed.stats()["waiting"]
    theirs, ours = multiprocessing.Pipe(duplex)
    for _ in range(2):
        ours.send(torch.ones(1 << 18))
        assert theirs.recv().sum() == 1 << 18
    theirs.close()
    for _ in range(3):
        with pytest.raises(BrokenPipeError):
            ours.send(torch.ones(1 << 18))
    assert isthmus.distributed.stats()["waiting"] == before


def test_a_connection_by_name_is_not_taken_for_a_broken_one():
    """Its other end is nobody's until it is accepted."""
    from multiprocessing.connection import Client, Listener

    before = isthmus.distributed.stats()["waiting"]
    with Listener(family="AF_UNIX") as listener, Client(listener.address) as client:
        client.send(torch.ones(1 << 18))
        assert isthmus.distributed.stats()["waiting"] == before + 1
        with listener.accept() as peer:
            assert peer.recv().sum() == 1 << 18
            peer.send(torch.ones(1 << 18))
            assert isthmus.distributed.stats()["waiting"] == before + 1
        assert client.recv().sum() == 1 << 18


def shared_mib() -> int:
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("RssShmem")) >> 10


def test_memory_comes_back():
    ours, theirs = multiprocessing.Pipe()
    x = torch.ones(16 << 20)
    isthmus.shared.trim()
    before = shared_mib()
    for _ in range(4):
        ours.send(x)
        theirs.recv()
    gc.collect()
    time.sleep(0.2)  # the keeper reads that it may let go
    isthmus.shared.trim()
    assert shared_mib() - before < 8


def test_the_sender_lets_others_run_while_it_copies():
    ours, theirs = multiprocessing.Pipe()
    x = torch.ones(128 << 20)
    times: list[float] = []
    done = threading.Event()

    def tick() -> None:
        while not done.is_set():
            times.append(time.monotonic())
            time.sleep(0.001)

    from isthmus.distributed import packs, pieces, transit

    kept = transit.memory(x.nbytes)
    piece = pieces.Piece(packs.as_ticket, x.data_ptr(), x.nbytes, x, 0, x.nbytes)
    thread = threading.Thread(target=tick)
    thread.start()
    start = time.monotonic()
    piece.copy_to(kept.data_ptr)
    took = seconds_since(start)
    done.set()
    thread.join()
    inside = [at for at in times if start < at < start + took]
    assert len(inside) > took * 1000 / 50
    ours.close()
    theirs.close()


def test_words_that_nobody_means_do_the_keeper_no_harm():
    """Any process of this machine may connect: what it says is one connection less, and nothing else."""
    from isthmus.distributed import keeper, transit

    ours, theirs = multiprocessing.Pipe()
    ours.send(torch.ones(1 << 18))
    address = transit._desk.address
    random = np.random.default_rng(0)
    for i in range(2000):
        with address.connect() as sock:
            sock.settimeout(5)
            data = random.bytes(int(random.integers(1, 90)))
            if i % 3:
                kind = int(random.integers(0, 9))
                data = keeper.REQUEST.pack(kind, secrets.token_bytes(16), i, 5, 0, 0)
            files = [os.open(os.devnull, os.O_RDONLY)] if i % 5 == 0 else []
            try:
                socket.send_fds(sock, [data], files)
                if i % 2:
                    socket.send_fds(sock, [random.bytes(64 + int(random.integers(0, 32)))], files)
            except OSError:
                pass
            for file in files:
                os.close(file)
    open_files = len(os.listdir(f"/proc/{address.pid}/fd"))
    assert open_files < 64
    assert theirs.recv().sum() == 1 << 18
    ours.send(torch.ones(1 << 18))
    assert theirs.recv().sum() == 1 << 18


def test_another_machine_is_sent_the_elements():
    """A ticket is of no use at the other end of a TCP connection."""
    from multiprocessing.connection import Client, Listener

    with Listener(("127.0.0.1", 0)) as listener:
        with Client(listener.address) as client, listener.accept() as peer:
            thread = threading.Thread(target=client.send, args=(torch.ones(1 << 18),))
            thread.start()
            data = peer.recv_bytes()
            thread.join()
    assert len(data) > 1 << 20
    assert pickle.loads(data).sum() == 1 << 18
