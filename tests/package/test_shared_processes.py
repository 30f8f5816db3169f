"""isthmus.shared between processes: killed, forked, spawned, hostile."""

from __future__ import annotations

import array
import contextlib
import fcntl
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import processes
import pytest

import isthmus
from isthmus import shared

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks, and looks into /proc")

SHRINK, GROW, FUTURE_WRITE = 2, 4, 16
ADD_SEALS, GET_SEALS = 1033, 1034
SIZE = 1 << 20  # of the first segment of a pool


@pytest.fixture
def ends():
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    yield pair
    for end in pair:
        end.close()


LONGEST = 60  # seconds that a test may wait for another process, and that process for it


# A fork while another thread is in malloc leaves a child that waits for the sanitizer's lock:
# pytest-xdist has such a thread.
ELSEWHERE = "ISTHMUS_SANITIZER" in os.environ and "PYTEST_XDIST_WORKER" in os.environ


@pytest.fixture(autouse=True)
def limited(request: pytest.FixtureRequest):
    if ELSEWHERE is not (request.function is test_all_of_them_in_one_thread):
        pytest.skip("run in a process of one thread" if ELSEWHERE else "for a sanitizer alone")

    with processes.waiting_at_most(LONGEST):
        yield


class Child:
    """A forked process that runs `body`: exit code 0, or 1 with the exception on stderr."""

    def __init__(self, body: Callable[[], object]) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(LONGEST)
            code = 1
            try:
                body()
                code = 0
            except BaseException as error:
                sys.stderr.write(f"child: {error!r}\n")
            finally:
                os._exit(code)

    def wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.wait()


def pause() -> None:
    while True:
        signal.pause()


@pytest.mark.parametrize("access", ["read_only", "copy_on_write", "shared"])
def test_another_process_reads_and_writes(ends, access):
    def body() -> None:
        got = shared.receive(ends[1])
        x = np.asarray(got)
        assert x[123] == 123
        if access == "read_only":
            assert not x.flags.writeable
        else:
            x[123] = -1
            assert x[123] == -1
        ends[1].send(b"!")

    t = shared.share(np.arange(1000))
    child = Child(body)
    shared.send(ends[0], t, access)
    assert ends[0].recv(1) == b"!"
    assert child.wait() == 0
    assert np.asarray(t)[123] == (-1 if access == "shared" else 123)


def test_a_killed_receiver_gives_back_what_it_held(ends):
    pool = shared.Pool(SIZE)

    def body() -> None:
        held = [shared.receive(ends[1], access) for access in ("read_only", "copy_on_write", None)]
        ends[1].send(b"!")
        pause()
        del held

    child = Child(body)
    t = pool.empty((SIZE,), "uint8")
    for _ in range(3):
        shared.send(ends[0], t, "copy_on_write")
    del t
    assert ends[0].recv(1) == b"!"
    with pytest.raises(MemoryError):
        pool.empty((1,))
    child.kill()
    assert pool.empty((SIZE,), "uint8").shape == (SIZE,)


def test_a_killed_sender_leaves_the_memory_with_its_receiver(ends):
    def body() -> None:
        shared.send(ends[0], shared.share(np.arange(100000)))
        pause()

    child = Child(body)
    got = shared.receive(ends[1])
    ends[0].close()
    child.kill()
    assert np.asarray(got).sum() == 99999 * 50000
    with pytest.raises(EOFError):
        shared.receive(ends[1])


def test_a_forked_child_that_drops_the_last_view(ends):
    pool = shared.Pool(SIZE)
    shared.send(ends[0], pool.empty((SIZE,), "uint8"))
    got = shared.receive(ends[1])

    def body() -> None:
        nonlocal got
        del got

    assert Child(body).wait() == 0
    with pytest.raises(MemoryError):
        pool.empty((1,))
    del got
    pool.empty((1,))


def test_forked_and_spawned_processes_take_a_channel():
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        left, right = shared.Channel.pair("copy_on_write", limit=4 * SIZE)
        # A forked child has a copy of both ends, and of its parent's there may be one alone.
        process = context.Process(target=add_one, args=(right, left if method == "fork" else None), daemon=True)
        process.start()
        right.close()
        for i in range(20):
            left.send(np.full(SIZE // 8, float(i)))
            assert np.asarray(left.receive())[-1] == i + 1
        left.close()
        process.join(30)
        assert process.exitcode == 0


def add_one(channel: shared.Channel, inherited: shared.Channel | None) -> None:
    if inherited is not None:
        inherited.close()
    with channel:
        for t in channel:
            x = np.asarray(t)
            x += 1
            channel.send(x)
            del x, t


def test_a_channel_is_not_pickled_otherwise():
    import pickle

    left, right = shared.Channel.pair()
    with left, right, pytest.raises(RuntimeError, match="inheritance"):
        pickle.dumps(left)


def test_a_signal_ends_a_wait(ends):
    def alarm(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, alarm)
    try:
        for wait in (lambda: shared.receive(ends[1]), lambda: fill(ends[0])):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(KeyboardInterrupt):
                wait()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def fill(end: socket.socket) -> None:
    t = shared.empty((1,))
    while True:
        shared.send(end, t)


def test_other_threads_run_while_one_waits(ends):
    ran = threading.Event()
    waiting = threading.Thread(target=lambda: (shared.receive(ends[1]), ran.set()))
    waiting.start()
    time.sleep(0.05)  # the other thread is inside by now; if not, the test is weaker, never wrong
    shared.send(ends[0], shared.empty((1,)))
    assert ran.wait(10)
    waiting.join()
    # Python's end of a thread is not the system's: a fork of the next test while it gives back its memory would find
    # the sanitizer's lock taken.
    while Path(f"/proc/self/task/{waiting.native_id}").exists():
        time.sleep(0.001)


def test_a_full_descriptor_table(ends):
    def body() -> None:
        import resource

        t = shared.empty((8,))
        shared.send(ends[0], t)
        # UBSan looks at the first Error's type through a pipe, and takes a pipe that cannot be opened for a bad object.
        with pytest.raises(isthmus.Error):
            shared.Pool().empty((1 << 46,))
        spare = os.dup(0)
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
        with contextlib.suppress(OSError):
            while True:
                os.dup(0)
        for call in (
            lambda: shared.send(ends[0], t),
            lambda: shared.receive(ends[1]),
            lambda: shared.Pool().empty((1,)),
        ):
            with pytest.raises(isthmus.Error) as caught:
                call()
            assert caught.value.code == "system_failed"
        os.close(spare)
        shared.send(ends[0], t)
        assert shared.receive(ends[1]).shape == (8,)

    assert Child(body).wait() == 0


# What a peer without Isthmus may send: the bytes of a good message, and another descriptor.


def message_of(t: isthmus.Tensor) -> tuple[bytes, int]:
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with left, right:
        shared.send(left, t)
        data, ancillary, _, _ = right.recvmsg(4096, socket.CMSG_SPACE(4))
        descriptors = array.array("i")
        descriptors.frombytes(ancillary[0][2])
        return data, descriptors[0]


def put(end: socket.socket, data: bytes, *descriptors: int) -> None:
    socket.send_fds(end, [data], list(descriptors))


def memory(size: int = SIZE, reserved: int = SIZE, seals: int = SHRINK | GROW | FUTURE_WRITE) -> int:
    descriptor = os.memfd_create("peer", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size)
    if reserved:
        os.posix_fallocate(descriptor, 0, reserved)
    fcntl.fcntl(descriptor, ADD_SEALS, seals)
    return descriptor


def a_pipe() -> int:
    left, right = os.pipe()
    os.close(left)
    return right


HOSTILE: dict[str, Callable[[], int]] = {
    "unsealed": lambda: memory(seals=0),
    "may shrink": lambda: memory(seals=GROW | FUTURE_WRITE),
    "may lose its pages": lambda: memory(seals=GROW | SHRINK),
    "short": lambda: memory(SIZE // 2, SIZE // 2),
    "not reserved": lambda: memory(reserved=0),
    "a page missing": lambda: memory(reserved=SIZE - 4096),
    "a pipe": a_pipe,
    "a regular file": lambda: os.open(__file__, os.O_RDONLY),
    "a device": lambda: os.open("/dev/zero", os.O_RDWR),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_descriptor_that_is_not_as_it_says(ends, kind):
    data, good = message_of(shared.Pool().empty((1000,)))
    wrong = HOSTILE[kind]()
    before = len(os.listdir("/proc/self/fd"))
    put(ends[0], data, wrong)
    with pytest.raises(isthmus.Error) as caught:
        shared.receive(ends[1])
    assert caught.value.code == "bad_message"
    assert len(os.listdir("/proc/self/fd")) == before
    put(ends[0], data, good)
    assert shared.receive(ends[1]).shape == (1000,), "the next message is as good as ever"
    os.close(wrong)
    os.close(good)


@pytest.mark.parametrize("data", [b"", b"x", b"x" * 200], ids=len)
def test_a_message_that_is_none(ends, data):
    descriptor = memory()
    ends[0].send(data) if not data else put(ends[0], data, descriptor)
    with pytest.raises(isthmus.Error):
        shared.receive(ends[1])
    os.close(descriptor)


def test_a_message_cut_short_or_without_its_descriptor(ends):
    data, descriptor = message_of(shared.empty((1000,)))
    for wrong in (
        (data[:-1], descriptor),
        (data[:64], descriptor),
        (data + b"x", descriptor),
        (data,),
        (data,) + (descriptor,) * 2,
    ):
        put(ends[0], *wrong) if len(wrong) > 1 else ends[0].send(data)
        with pytest.raises(isthmus.Error) as caught:
            shared.receive(ends[1])
        assert caught.value.code == "bad_message"
    os.close(descriptor)


def test_what_is_sent_is_sealed_and_cannot_be_mapped_writable():
    import mmap

    _, descriptor = message_of(shared.empty((10,)))
    seals = fcntl.fcntl(descriptor, GET_SEALS)
    assert seals & (SHRINK | GROW | FUTURE_WRITE) == SHRINK | GROW | FUTURE_WRITE
    status = os.fstat(descriptor)
    assert status.st_blocks * 512 >= status.st_size, "reserved whole"
    with pytest.raises(PermissionError):
        mmap.mmap(descriptor, 4096, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    os.close(descriptor)


def test_nothing_has_a_name():
    t = shared.empty((1 << 20,))
    assert not [name for name in os.listdir("/dev/shm") if "isthmus" in name]
    del t


def test_dropped_while_the_interpreter_ends():
    program = """
import atexit, socket
from isthmus import shared
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
t = shared.empty((1000,))
shared.send(a, t)
u = shared.receive(b)
atexit.register(lambda: print(u.shape))
class Late:
    def __del__(self, u=u):
        u.data_ptr
late = Late()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "(1000,)\n", "")


def test_all_of_them_in_one_thread():
    """This file without pytest-xdist."""
    signal.alarm(0)
    # pytest's watch over the time of a test is a thread too, which starts while the test is about to fork.
    options = ["-p", "no:xdist", "-p", "no:cacheprovider", "-o", "faulthandler_timeout=0", "-q"]
    command = [sys.executable, "-m", "pytest", *options, __file__]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
