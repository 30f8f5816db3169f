"""One message after another: what is sent is what is there then, each byte once, and small things cost little."""

from __future__ import annotations

import fcntl
import io
import multiprocessing
import pickle
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import pytest

isthmus = pytest.importorskip("isthmus", reason="isthmus is not installed")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from isthmus.distributed import frameworks, messages, packs, pipes, policies  # noqa: E402  # which need it


@pytest.fixture(autouse=True)
def enabled() -> None:
    isthmus.distributed.enable("multiprocessing")


def through(x: Any) -> Any:
    """As it arrives at the other end of a pipe."""
    ours, theirs = multiprocessing.Pipe()
    with ours, theirs:
        ours.send(x)
        return theirs.recv()


def through_thread(x: Any) -> Any:
    """The same for more than a pipe takes at once."""
    ours, theirs = multiprocessing.Pipe()
    with ours, theirs:
        sender = threading.Thread(target=ours.send, args=(x,))
        sender.start()
        try:
            return theirs.recv()
        finally:
            sender.join()


class Fails:
    def __reduce__(self) -> Any:
        raise ValueError("not this one")


VIEWS = {
    "strided": lambda base: base[::2],
    "column": lambda base: base.reshape(100, 100)[:, 3],
    "block": lambda base: base.reshape(100, 100)[:, 3:50],
    "transposed": lambda base: base.reshape(100, 100)[10:20].t(),
    "slice": lambda base: base[1000:9000],
}


@pytest.mark.parametrize("kind", VIEWS)
@pytest.mark.parametrize("how", ["reducers", "pickler", "connection"])
def test_a_failed_message_leaves_nothing_to_the_next(kind: str, how: str):
    """The pickler, its memo and the exception live on; the elements have changed."""
    base = torch.zeros(10_000)
    view = VIEWS[kind](base)
    kept: list[Any] = []
    try:
        if how == "reducers":
            made = ForkingPickler._extra_reducers[torch.Tensor](view)
            kept.append(made)
            ForkingPickler.dumps((view, Fails()))
        elif how == "pickler":
            pickler = ForkingPickler(io.BytesIO())
            kept.append(pickler)
            pickler.dump((view, Fails()))
        else:
            through((view, Fails()))
    except ValueError as error:
        kept.append(error)
    base += 1
    assert torch.equal(through(view), view)
    assert torch.equal(pickle.loads(ForkingPickler.dumps(view)), view)
    assert kept


def test_a_view_after_a_failed_message_ships_its_own_bytes():
    base = torch.arange(1e6)
    pickler = ForkingPickler(io.BytesIO())
    with pytest.raises(ValueError, match="not this"):
        pickler.dump((base, Fails()))
    assert through(base[:10_000]).untyped_storage().nbytes() == 40_000
    assert len(ForkingPickler.dumps(base[:100])) < 4000


def seconds(f: Any) -> float:
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


def test_many_views_of_one_storage_take_linear_time():
    x = torch.arange(4000.0 * 16).reshape(4000, 16)
    rows = list(x)
    took = seconds(lambda: through_thread(rows))
    assert took < 3  # 24 s if each is compared with all
    there = through_thread(rows)
    assert torch.equal(torch.stack(there), x)
    there[5][0] = -1
    assert through(list(x.t()))[3][7] == x[7, 3]


def test_overlapping_windows_are_sent_as_their_union():
    base = torch.arange(200_000.0)
    windows = [base[i : i + 8192] for i in range(0, 150_000, 64)]
    assert len(ForkingPickler.dumps(windows)) < base.nbytes * 1.2 + 300 * len(windows)
    start = time.perf_counter()
    there = through_thread(windows)
    assert time.perf_counter() - start < 5  # 113 s if each is wider than the one before
    assert all(torch.equal(a, b) for a, b in zip(there, windows, strict=True))
    assert sum({x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in there}.values()) <= base.nbytes
    there[0][64] = -1
    assert there[1][0] == -1


class Hides:
    """Makes its view only when it is pickled, so that nobody can see it before."""

    def __init__(self, make: Any) -> None:
        self.make = make

    def __reduce__(self) -> Any:
        return list, ((self.make(),),)


def test_views_that_cannot_be_foreseen_share_and_cost_a_few_times_their_bytes():
    base = torch.arange(1e6)

    hidden = [Hides(lambda i=i: base[i : i + 64]) for i in range(0, 4000, 8)]
    data = ForkingPickler.dumps(hidden)
    assert len(data) < 4000 * 4 * 8 + 400 * len(hidden)
    there = [x for (x,) in pickle.loads(data)]
    assert all(torch.equal(x, base[i : i + 64]) for x, i in zip(there, range(0, 4000, 8), strict=True))
    there[0][8] = -1
    assert there[1][0] == -1


def test_columns_and_lattices():
    """Views that lie between each other are compact; those with an element in common share it."""
    x = torch.arange(1e6).reshape(1000, 1000)
    apart = through([x[:, i] for i in range(0, 1000, 50)] + [x[:, 7:9]])
    assert sum(part.untyped_storage().nbytes() for part in apart) == 22 * 4000
    a, b, c = through((x[:, 3], x[100:200, 3], x[:, 5]))
    b[0] = -5
    assert a[100] == -5
    assert torch.equal(c, x[:, 5])


def calls(f: Callable[[], object]) -> int:
    """How many functions `f` calls, Python's and C's."""
    made = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal made
        made += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        f()
    finally:
        sys.setprofile(None)
    return made


@pytest.mark.parametrize("count", [100, 10_000])
def test_small_arrays_cost_little(count: int):
    """19 calls for each, there and back, are 1.2 times the time of NumPy's own pickling."""
    xs = [np.full(25, i, "float32") for i in range(count)]
    isthmus.distributed.disable("multiprocessing")
    default = ForkingPickler.dumps(xs)
    isthmus.distributed.enable("multiprocessing")
    data = ForkingPickler.dumps(xs)
    assert len(data) < len(default)
    assert calls(lambda: ForkingPickler.dumps(xs)) <= 13 * count + 100
    assert calls(lambda: pickle.loads(data)) <= 6 * count + 100
    there = pickle.loads(data)
    assert all(np.array_equal(a, b) and a.flags.writeable for a, b in zip(there, xs, strict=True))


def test_an_array_goes_into_its_message_without_bytes_between():
    """From 4 KiB on it is a buffer to the pickler, whose own two copies are left."""
    x = np.arange(6000.0)
    ForkingPickler.dumps(x)
    tracemalloc.start()
    data = ForkingPickler.dumps(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert data.nbytes < x.nbytes * 1.02
    assert peak < x.nbytes * 2.5
    for columns in (x.reshape(60, 100).T, x[::2].astype("float16"), x.astype("complex64"), x > 3.0):
        there = pickle.loads(ForkingPickler.dumps(columns))
        assert np.array_equal(there, columns)
        assert there.flags.writeable
        assert there.flags.f_contiguous == columns.flags.f_contiguous


#: The ways between two processes, and what of arrays goes within a message through one. How large a socket may be made
#: is a setting of the system.
WAYS = {"pipe": 240 << 10, "small pipe": 60 << 10, "socket": None}


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("way", WAYS)
def test_a_tensor_goes_within_the_message_if_it_fits_into_a_pipe(framework: str, order: Any, way: str, monkeypatch):
    """That takes less time than a hand-over; what does not fit would wait for the reader."""
    if way == "small pipe":  # as where the user's pipes have what they may have
        monkeypatch.setattr(pipes, "_large", pipes._MOST_LARGE)
    x = np.array(np.arange(6_000.0).reshape(60, 100), order=order)  # 48 kB
    ours, theirs = multiprocessing.Pipe(duplex=way == "socket")
    with ours, theirs:
        room = WAYS[way] or pipes.pipe_of(theirs).room
        assert room >= pipes.LEAST_ROOM
        for several in (1, 2, 4, 30):
            xs = [x + i for i in range(several)]
            theirs.send(xs if framework == "numpy" else [torch.from_numpy(one) for one in xs])  # nobody reads yet
            data = ours.recv_bytes()
            inline = min(several, room // x.nbytes)
            assert inline * x.nbytes < len(data) < inline * (x.nbytes + 1000) + several * 1000
            there = [np.asarray(y) for y in pickle.loads(data)]
            assert there[0].strides == x.strides
            assert all(np.array_equal(x, y) and y.flags.writeable for x, y in zip(xs, there, strict=True))


def pickled(x: Any, engine: str, protocol: int, buffers: list[pickle.PickleBuffer] | None = None) -> bytes:
    """By an engine that is not told which protocol its messages have."""
    chunks = io.BytesIO()
    pickler = pickle.Pickler(chunks, protocol, buffer_callback=None if buffers is None else buffers.append)
    numpys = frameworks.FRAMEWORKS["numpy"]
    pickler.dispatch_table = {np.ndarray: frameworks.reducer(engine, numpys, packs.as_buffer, None, 5)}
    pickler.dump(x)
    return chunks.getvalue()


@pytest.mark.parametrize("dtype", ["f4", ">f4", "c16", "?", "M8[s]", "S3", "bfloat16"])
@pytest.mark.parametrize("shape", [(100, 20), (500, 70), (2, 3, 10_000), (1, 40_000)])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("protocol", [4, 5, "beside"])
def test_a_dense_array_arrives_as_it_was(dtype: str, shape: Any, order: Any, protocol: Any):
    """Within a message, or in a buffer beside it: in memory that may be written, and that nobody else has."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x = np.array((np.arange(np.prod(shape)).reshape(shape) % 97).astype(kind), order=order)
    x.flags.writeable = False
    if protocol == "beside":
        buffers: list[pickle.PickleBuffer] = []
        data = pickled([x, x], "mpi4py", 5, buffers)
        assert len(data) < 1000 + (x.nbytes if not buffers else 0)
        arrived = [bytearray(one.raw()) for one in buffers]
    else:
        data, arrived = pickled([x, x], "mpi4py", protocol), []
        assert len(data) < x.nbytes + 1000
    a, b = pickle.loads(data, buffers=arrived)
    assert a is b
    assert (a.dtype, a.shape) == (x.dtype, x.shape)
    assert a.flags.c_contiguous == x.flags.c_contiguous
    assert a.flags.f_contiguous == x.flags.f_contiguous
    assert a.tobytes() == x.tobytes()
    assert a.flags.writeable
    a[...] = x.flat[1]
    again = pickle.loads(data, buffers=[bytearray(one.raw()) for one in buffers] if protocol == "beside" else [])[0]
    assert again.tobytes() == x.tobytes()


def test_who_reads_a_buffer_that_others_read_too():
    """Ray's: an array of many elements is read-only, few are copied, and an object's may be written."""
    for length, held in ((4_000, False), (100_000, False), (100_000, True)):
        x = np.arange(float(length))
        buffers: list[pickle.PickleBuffer] = []
        thread = messages._thread
        thread.message = messages.Message(Holder(x) if held else [x], None)
        try:
            data = pickled(x, "ray", 5, buffers)
        finally:
            thread.message = None
        shared = [bytes(one.raw()) for one in buffers]
        assert len(shared) == 1
        y = pickle.loads(data, buffers=shared)
        assert np.array_equal(x, y)
        assert y.flags.writeable == (held or length == 4_000)
        assert np.shares_memory(y, np.frombuffer(shared[0])) == (not y.flags.writeable)
        if y.flags.writeable:
            y[:] = -1
            assert shared[0] == x.tobytes()


@pytest.mark.parametrize("policy", ["tensor", "copy"])
def test_a_buffer_under_the_receivers_policy(policy: Any):
    x = np.arange(10_000.0)
    buffers: list[pickle.PickleBuffer] = []
    data = pickled(x, "mpi4py", 5, buffers)
    arrived = bytearray(buffers[0].raw())
    policies.choose("mpi4py", policy)
    try:
        y = pickle.loads(data, buffers=[arrived])
    finally:
        policies.forget("mpi4py")
    assert (type(y) is isthmus.Tensor) == (policy == "tensor")
    assert np.array_equal(np.asarray(y), x)


class Holder:
    def __init__(self, x: Any) -> None:
        self.x = x


@pytest.mark.parametrize("framework", ["numpy", "torch", "tensor"])
def test_middling_ones_are_handed_over_together(framework: str):
    """One hand-over for each MiB, not for each tensor; where they arrive each is alone."""
    make: Any = {"numpy": np.arange, "torch": torch.arange, "tensor": lambda n: isthmus.from_dlpack(np.arange(n))}
    xs = [make[framework](15_000.0 + i) for i in range(100)]  # 60 or 120 kB, in part of another length
    nbytes = sum(x.nbytes for x in xs)
    before = isthmus.distributed.stats()["waiting"]
    taken: list[bytes] = []
    ours, theirs = multiprocessing.Pipe(duplex=False)
    with ours, theirs:
        reader = threading.Thread(target=lambda: taken.append(ours.recv_bytes()))
        reader.start()
        theirs.send(xs)
        reader.join(60)
        waiting = isthmus.distributed.stats()["waiting"] - before
        there = pickle.loads(taken[0])
        assert isthmus.distributed.stats()["waiting"] == before
    assert (nbytes >> 20) - 1 <= waiting <= (nbytes >> 20) + 3
    assert len(taken[0]) < 300_000
    for x, y in zip(xs, there, strict=True):
        assert np.array_equal(np.asarray(x), np.asarray(y))
        assert np.asarray(y).flags.writeable or framework == "tensor"
    if framework == "torch":
        assert all(y.untyped_storage().nbytes() == y.nbytes for y in there)
    if framework != "tensor":
        for y in there:
            y[:] = -1
        assert all(y[0] == -1 and x[0] == 0 for x, y in zip(xs, there, strict=True))


def test_middling_ones_are_aligned_as_xla_wants_it():
    jax = pytest.importorskip("jax")
    xs = [jax.numpy.arange(15_000.0 + i) for i in range(10)]
    before = isthmus.distributed.stats()
    there = through(xs)
    after = isthmus.distributed.stats()
    assert all(np.array_equal(x, y) for x, y in zip(xs, there, strict=True))
    assert (after["copied"] - before["copied"], after["shared"] - before["shared"]) == (0, 10)


def test_middling_ones_of_a_message_that_fails_are_not_kept():
    before = isthmus.distributed.stats()["waiting"]
    xs: list[Any] = [torch.zeros(15_000) for _ in range(40)]
    ours, theirs = multiprocessing.Pipe(duplex=False)
    with ours, theirs, pytest.raises(AttributeError):
        theirs.send([*xs, lambda: None])
    assert isthmus.distributed.stats()["waiting"] == before


def test_few_pipes_are_made_larger(monkeypatch):
    """What a user's pipes may have in all is limited; what is new beyond gets a page or two."""
    monkeypatch.setattr(pipes, "_large", pipes._MOST_LARGE - 1)
    sizes = []
    for _ in range(3):
        ours, theirs = multiprocessing.Pipe(duplex=False)
        with ours, theirs:
            theirs.send(np.zeros(7_500))  # 60 kB, which fit anyhow
            theirs.send(np.zeros(1))
            before = fcntl.fcntl(theirs.fileno(), fcntl.F_GETPIPE_SZ)
            for _ in range(2):
                ours.recv()
            theirs.send(np.zeros(10_000))
            sizes.append((before, fcntl.fcntl(theirs.fileno(), fcntl.F_GETPIPE_SZ)))
            ours.recv()
    assert sizes == [(1 << 16, 1 << 18), (1 << 16, 1 << 16), (1 << 16, 1 << 16)]


@pytest.mark.parametrize("dtype", ["float32", ">f4", "bool", "U3", "M8[s]", [("a", "i4"), ("b", "f8")]])
@pytest.mark.parametrize("order", ["C", "F"])
def test_small_arrays_keep_dtype_and_order(dtype: Any, order: Any):
    x = np.zeros((3, 4), dtype, order)
    there = through(x)
    assert (there.dtype, there.shape, there.strides) == (x.dtype, x.shape, x.strides)
    assert there.flags.writeable
    assert np.array_equal(there, x)


def test_strides_of_one_element_are_kept_in_fortrans_order():
    x = np.zeros((1, 16, 16)).transpose(2, 0, 1)
    assert through(x).strides == x.strides


def test_what_nobody_sends_now_is_complete_in_itself():
    """dumps() of a user, who may store it, send it twice, or read it when this process is gone."""
    x = {"large": torch.arange(1e5), "array": np.arange(1e5), "again": torch.ones(3)}
    data = bytes(ForkingPickler.dumps(x))
    for _ in range(2):
        there = pickle.loads(data)
        assert torch.equal(there["large"], x["large"])
        assert np.array_equal(there["array"], x["array"])
        there["large"][:] = 0
    assert isthmus.distributed.stats()["waiting"] == 0


@pytest.mark.parametrize("layout", ["strided", "jagged"])
def test_nested_tensors_travel(layout: str):
    kind = torch.jagged if layout == "jagged" else torch.strided
    x = torch.nested.nested_tensor([torch.arange(3.0), torch.arange(50_000.0)], layout=kind)
    there = through(x)
    assert there.is_nested
    assert all(torch.equal(a, b) for a, b in zip(there.unbind(), x.unbind(), strict=True))


class Own:
    def __init__(self, x: Any) -> None:
        self.x = x


@pytest.mark.parametrize("size", [10, 100_000])
def test_every_array_may_be_written(size: int):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    scipy_sparse = pytest.importorskip("scipy.sparse", reason="SciPy is not installed")
    there = through(np.arange(float(size)))
    there += 1
    there = through(Own(np.zeros(size))).x
    there[0] = 1
    frame = through(pandas.DataFrame({"a": np.arange(float(size)), "b": np.arange(float(size))}))
    frame.loc[0, "a"] = 5.0
    frame["b"].to_numpy(copy=False)
    matrix = through(scipy_sparse.csr_matrix(np.eye(5) if size == 10 else scipy_sparse.eye(size).tocsr()))
    matrix.data[:] = 2
    matrix.sort_indices()
    tensor = isthmus.shared.empty((size,))
    np.asarray(tensor)[:] = 3
    there = through(tensor)
    np.asarray(there)[0] = 4
    assert through(tensor.as_read_only()).read_only


@pytest.mark.parametrize("size", [10, 100_000])
def test_a_policy_does_not_reach_into_objects(size: int):
    isthmus.distributed.enable("multiprocessing", "tensor")
    own, plain = through((Own(np.zeros(size)), {"x": [np.zeros(size)]}))
    assert isinstance(own.x, np.ndarray)
    own.x[0] = 1
    assert isinstance(plain["x"][0], isthmus.Tensor)
    layer = through(torch.nn.Linear(100, size // 10))
    assert isinstance(layer.weight, torch.nn.Parameter)
    assert layer(torch.ones(1, 100)).shape == (1, size // 10)


def test_a_default_device_does_not_matter():
    x = torch.arange(100_000.0)
    with torch.device("meta"):
        there, column = through((x, x.reshape(100, 1000)[:, 5]))
    assert there.device.type == "cpu"
    assert torch.equal(there, x)
    assert column[1] == 1005


def test_a_message_of_another_form_is_one_clear_error():
    from isthmus.distributed import frameworks

    x = np.ones(5)
    function, (head, *rest) = ForkingPickler._extra_reducers[np.ndarray](x)
    with pytest.raises(isthmus.Error, match="form 99; expected") as caught:
        function((99, *head[1:]), *rest)
    assert caught.value.code == "bad_message"
    assert frameworks.WIRE != 99
