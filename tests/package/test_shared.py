"""isthmus.shared in one process: what is made, what crosses, what is refused."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import sysconfig
import time
import weakref
from pathlib import Path

import embedding
import numpy as np
import pytest

import isthmus
from isthmus import shared

ACCESS = ["read_only", "copy_on_write", "shared"]


@pytest.fixture(params=["SOCK_SEQPACKET", "SOCK_STREAM"])
def ends(request: pytest.FixtureRequest):
    pair = socket.socketpair(socket.AF_UNIX, getattr(socket, request.param))
    yield pair
    for end in pair:
        end.close()


def test_empty_is_a_tensor_at_the_beginning_of_a_page():
    t = shared.empty((3, 4), "int16")
    assert isinstance(t, isthmus.Tensor)
    assert (t.shape, t.strides, t.dtype, t.read_only) == ((3, 4), (4, 1), "int16", False)
    assert t.data_ptr % 4096 == 0
    assert shared.empty((2,)).dtype == "float32"
    assert shared.empty((0, 3)).shape == (0, 3)
    assert shared.empty(()).shape == ()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(3, 4),
        np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1),
        np.asfortranarray(np.arange(6, dtype="int8").reshape(2, 3)),
        np.float32(7),
        np.arange(12).reshape(3, 4)[::-1, ::-1].T,
    ],
    ids=str,
)
def test_share_copies_and_keeps_dense_strides(array):
    array = np.asarray(array)
    t = shared.share(array)
    assert t.strides == tuple(step // array.itemsize for step in array.strides)
    assert t.data_ptr != array.ctypes.data
    np.testing.assert_array_equal(np.asarray(t), array)
    assert not t.read_only


@pytest.mark.parametrize(
    "view", [np.arange(10)[::2], np.arange(10)[::-2], np.broadcast_to(np.float32(3), (2, 3))], ids=str
)
def test_share_makes_anything_else_row_major(view):
    t = shared.share(view)
    assert t.strides == isthmus.from_dlpack(np.ascontiguousarray(view)).strides
    np.testing.assert_array_equal(np.asarray(t), view)


def test_what_is_shared_already_stays_where_it_is():
    t = shared.share(np.arange(10))
    assert shared.share(t).data_ptr == t.data_ptr
    assert shared.share(np.asarray(t)[2:4]).data_ptr == t.data_ptr + 16
    assert shared.is_shared(t)
    assert shared.is_shared(np.asarray(t)[::3])
    assert not shared.is_shared(np.arange(10))


@pytest.mark.parametrize("access", ACCESS)
def test_what_arrives(ends, access):
    array = np.arange(20000, dtype="float32").reshape(100, 200)
    t = shared.share(array.T)
    shared.send(ends[0], t, access)
    got = shared.receive(ends[1])
    assert (got.shape, got.strides, got.dtype) == ((200, 100), (1, 200), "float32")
    assert got.read_only == (access == "read_only")
    mine, theirs = np.asarray(t), np.asarray(got)
    np.testing.assert_array_equal(theirs, array.T)
    assert theirs.flags.writeable == (access != "read_only")
    mine[1, 1] = -1
    assert theirs[1, 1] == -1, "no copy was made"
    if access != "read_only":
        theirs[2, 2] = -2
        assert (mine[2, 2] == -2) == (access == "shared")


def test_read_only_is_the_default(ends):
    shared.send(ends[0], shared.empty((3,)))
    assert shared.receive(ends[1]).read_only


def test_the_receiver_may_take_less(ends):
    t = shared.empty((4,), access="shared")
    shared.send(ends[0], t, "shared")
    assert shared.receive(ends[1], "read_only").read_only
    shared.send(ends[0], t, "shared")
    private = np.asarray(shared.receive(ends[1], "copy_on_write"))
    private[0] = 5
    np.asarray(t)[0] = 1
    assert private[0] == 5
    shared.send(ends[0], shared.empty((4,)), "read_only")
    with pytest.raises(isthmus.Error, match="the sender allows 'read_only'") as caught:
        shared.receive(ends[1], "shared")
    assert caught.value.code == "read_only"


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "bool", "complex64", "uint64", "int4"])
def test_dtypes(ends, dtype):
    t = shared.empty((5, 2), dtype)
    shared.send(ends[0], t)
    got = shared.receive(ends[1])
    assert (got.dtype, got.shape, got.nbytes) == (t.dtype, t.shape, t.nbytes)


def test_views_of_frameworks(ends):
    torch = pytest.importorskip("torch")
    x = shared.empty((6, 4), "bfloat16", access="shared").to("torch")
    x.copy_(torch.arange(24).reshape(6, 4))
    shared.send(ends[0], x[1::2, :3], "shared")
    y = shared.receive(ends[1]).to("torch")
    assert (y.shape, y.stride(), y.dtype) == ((3, 3), (8, 1), torch.bfloat16)
    y[0, 0] = 100
    assert x[1, 0] == 100


def test_the_tensor_may_go_at_once(ends):
    shared.send(ends[0], shared.share(np.full(1000, 3)))
    for _ in range(3):
        shared.share(np.zeros(1000, dtype=int))
    assert np.asarray(shared.receive(ends[1])).tolist() == [3] * 1000


def test_memory_of_another_kind(ends):
    with pytest.raises(isthmus.Error, match=r"argument 'tensor'.*share\(\)") as caught:
        shared.send(ends[0], np.zeros(3))
    assert caught.value.code == "needs_copy"
    with pytest.raises(TypeError, match="argument 'tensor'"):
        shared.send(ends[0], "text")


def test_read_only_tensors_are_not_made_writable(ends):
    array = np.asarray(shared.empty((3,), access="shared"))
    array.flags.writeable = False
    with pytest.raises(isthmus.Error, match="the tensor is read-only"):
        shared.send(ends[0], array, "shared")


@pytest.mark.parametrize(
    ("call", "builtin", "text"),
    [
        (lambda s: shared.empty((1 << 43,), "float64"), MemoryError, "70368744177664 bytes"),
        (lambda s: shared.empty((1 << 62, 4), "float64"), ValueError, "argument 'shape'"),
        (lambda s: shared.empty((-1,)), ValueError, "argument 'shape'"),
        (lambda s: shared.empty("no"), TypeError, "argument 'shape'"),
        (lambda s: shared.empty((1,), "no"), ValueError, "argument 'dtype'"),
        (lambda s: shared.empty((1,), access="no"), ValueError, "argument 'access'"),
        (lambda s: shared.share(7), TypeError, "argument 'x'"),
        (lambda s: shared.send(s, shared.empty((1,)), 3), TypeError, "argument 'access'"),
        (lambda s: shared.Pool(4096).empty((5000,), "uint8"), MemoryError, "limit"),
    ],
)
def test_errors_name_the_argument(ends, call, builtin, text):
    with pytest.raises(isthmus.Error, match=text) as caught:
        call(ends[0])
    assert isinstance(caught.value, builtin)


def test_sockets_of_another_kind():
    with socket.socket(socket.AF_INET) as wrong, pytest.raises(isthmus.Error, match="expected a Unix socket"):
        shared.send(wrong, shared.empty((1,)))
    closed = socket.socket(socket.AF_UNIX)
    closed.close()
    with pytest.raises(isthmus.Error, match="argument 'sock'"):
        shared.receive(closed)


def test_the_end_is_an_eof_error(ends):
    shared.send(ends[0], shared.empty((1,)))
    ends[0].close()
    shared.receive(ends[1])
    for _ in range(2):
        with pytest.raises(EOFError):
            shared.receive(ends[1])
    with pytest.raises(isthmus.Error) as caught:
        shared.send(ends[1], shared.empty((1,)))
    assert isinstance(caught.value, BrokenPipeError)
    assert caught.value.code == "peer_closed"


def test_timeouts_are_those_of_the_socket(ends):
    ends[1].settimeout(0.01)
    with pytest.raises(TimeoutError):
        shared.receive(ends[1])
    ends[1].setblocking(False)
    with pytest.raises(BlockingIOError):
        shared.receive(ends[1])
    ends[0].setblocking(False)
    t = shared.empty((1,))
    with pytest.raises(BlockingIOError):
        fill(ends[0], t)


def fill(end: socket.socket, t: isthmus.Tensor) -> None:
    for _ in range(100000):
        shared.send(end, t)


def test_a_pool_waits_for_what_is_lent(ends):
    pool = shared.Pool(1 << 20)
    t = pool.empty((1 << 20,), "uint8")
    shared.send(ends[0], t)
    del t
    with pytest.raises(MemoryError):
        pool.empty((1,))
    start = time.monotonic()
    with pytest.raises(TimeoutError):
        pool.empty((1,), timeout=0.02)
    assert time.monotonic() - start >= 0.02
    assert pool.stats.lent == 1
    got = shared.receive(ends[1])
    array = np.asarray(got)
    del got
    with pytest.raises(MemoryError):
        pool.empty((1,))
    del array
    assert pool.empty((1,)).shape == (1,)
    pool.trim()


def test_memory_is_used_again():
    pool = shared.Pool()
    first = pool.empty((1 << 18,))
    address = first.data_ptr
    gone = weakref.ref(first)
    del first
    assert gone() is None
    assert pool.empty((1 << 18,)).data_ptr == address
    pool.trim()
    assert pool.stats == (0, 0, 0, 0)


def test_ten_thousand_tensors(ends):
    before = len(os.listdir("/proc/self/fd"))
    pool = shared.Pool()
    held = []
    for i in range(10000):
        t = pool.empty((100,), "int64")
        memoryview(t)[7] = i
        shared.send(ends[0], t)
        held.append((t, shared.receive(ends[1])))
    assert len(os.listdir("/proc/self/fd")) - before <= 64
    assert [memoryview(got)[7] for _, got in held] == list(range(10000))


def test_a_channel_carries_anything():
    left, right = shared.Channel.pair()
    with left, right:
        left.send(np.arange(5))
        left.send(shared.empty((2, 2)))
        mine = left.empty((3,), "int32")
        np.asarray(mine)[:] = 7
        left.send(mine)
        right.send(np.ones(2))
        assert np.asarray(right.receive()).tolist() == [0, 1, 2, 3, 4]
        assert right.receive().shape == (2, 2)
        assert np.asarray(right.receive()).tolist() == [7, 7, 7]
        assert np.asarray(left.receive()).tolist() == [1, 1]
        for i in range(3):
            left.send(np.full(3, i))
        left.close()
        assert [int(np.asarray(t)[0]) for t in right] == [0, 1, 2]
        with pytest.raises(EOFError):
            right.receive()


def test_a_channel_waits_for_a_slow_reader():
    left, right = shared.Channel.pair("copy_on_write", limit=1 << 20)
    with left, right:
        left.settimeout(0.02)
        left.send(np.zeros(1 << 20, dtype="uint8"))
        with pytest.raises(TimeoutError):
            left.send(np.zeros(1))
        del_me = right.receive()
        assert not del_me.read_only
        del del_me
        left.send(np.zeros(1))
        with pytest.raises(ValueError, match="access"):
            right.receive("no")


LIVES = r"""
#include <Python.h>

int main(int, char** arguments) {
    for (int life = 0; life < 3; ++life) {
        Py_Initialize();
        if (PyRun_SimpleString(arguments[1]) != 0) return 1;
        if (Py_FinalizeEx() != 0) return 2;
    }
}
"""
REFUSED_IN_EACH_LIFE = """
import socket
import isthmus
from isthmus import shared

def refused(kind, function, *arguments):
    try:
        function(*arguments)
    except isthmus.Error as error:
        assert isinstance(error, kind) and type(error).__module__ == "isthmus.shared", type(error).__mro__
    else:
        raise AssertionError

refused(MemoryError, shared.empty, (2**46,), "uint8")
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
theirs.close()
refused(BrokenPipeError, shared.send, ours, shared.empty((1,)))
"""


def test_what_is_raised_is_of_the_running_life_of_the_interpreter(tmp_path: Path):
    link = embedding.link_flags()
    if link is None:
        pytest.skip("this Python has no library to embed")
    (tmp_path / "lives.cpp").write_text(LIVES)
    include = sysconfig.get_path("include")
    command = ["c++", f"-I{include}", "lives.cpp", *link, "-o", "lives"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=120)
    environment = embedding.environment(*sys.path)
    done = subprocess.run(
        [tmp_path / "lives", REFUSED_IN_EACH_LIFE], env=environment, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, embedding.complaints(done.stderr)) == (0, "")
