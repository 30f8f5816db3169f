"""isthmus.live: which tensors are alive, and whose they are."""

from __future__ import annotations

import _thread
import dataclasses
import subprocess
import sys
import threading

import numpy as np
import pytest
from waiting import eventually

import isthmus


@pytest.fixture(params=[False, True], ids=["plain", "tracing"])
def live(request):
    assert not isthmus.live.enabled
    isthmus.live.enable(tracing=request.param)
    yield isthmus.live
    isthmus.live.disable()


@pytest.fixture
def x() -> np.ndarray:
    return np.arange(6, dtype="float32").reshape(2, 3)


def test_off_it_warns_and_is_empty(x):
    t = isthmus.from_dlpack(x)
    with pytest.warns(RuntimeWarning, match=r"call isthmus.live.enable\(\)"):
        assert isthmus.live() == []
    del t


def test_an_import_is_listed_until_it_dies(live, x):
    t = isthmus.from_dlpack(x)
    (entry,) = live()
    assert (entry.ptr, entry.nbytes, entry.shape) == (x.ctypes.data, 24, (2, 3))
    assert (entry.dtype, entry.device, entry.read_only, entry.borrowed) == ("float32", "cpu", False, False)
    assert (entry.producer, entry.consumer, entry.handles) == ("numpy.ndarray", "isthmus.Tensor", 1)
    assert 0 <= entry.age < 60
    del t
    assert live() == []


def test_in_order_of_birth(live, x):
    tensors = [isthmus.from_dlpack(x.copy()) for _ in range(20)]
    assert [entry.ptr for entry in live()] == [t.data_ptr for t in tensors]
    del tensors[::2]
    assert [entry.ptr for entry in live()] == [t.data_ptr for t in tensors]


def test_entries_share_what_they_have_in_common(live):
    """A list of a million took 4 s: each entry had its own dtype, device and texts."""
    kept = [isthmus.empty(3) for _ in range(1000)]
    live()  # the first call keeps what later ones find
    before = sys.getallocatedblocks()
    tensors = live()
    assert (sys.getallocatedblocks() - before) / len(kept) <= 7
    assert len(tensors) == len(kept)
    assert tensors[0].dtype is tensors[999].dtype
    assert tensors[0] == type(tensors[0])(*dataclasses.astuple(tensors[0]))


def test_the_consumer_keeps_it_listed(live):
    t = isthmus.empty((4,))
    assert live()[0].producer == "C++"
    a = t.to("numpy")
    (entry,) = live()
    assert entry.consumer == "numpy"
    del t
    assert len(live()) == 1
    del a
    assert live() == []


@pytest.mark.parametrize(
    ("hand_over", "name"),
    [
        (lambda t: t.__dlpack__(max_version=(1, 0)), "__dlpack__"),
        (memoryview, "buffer"),
        (lambda t: t.to("capsule"), "capsule"),
    ],
)
def test_consumers(live, hand_over, name):
    t = isthmus.empty((4,))
    held = hand_over(t)
    assert live()[0].consumer == name
    del held


def test_consumers_that_are_refused_are_none(live, x):
    x.flags.writeable = False
    t = isthmus.from_dlpack(x)
    with pytest.raises(isthmus.Error):
        t.to("capsule_legacy")
    assert live()[0].consumer == "isthmus.Tensor"


def test_producers_and_consumers_of_frameworks(live):
    torch = pytest.importorskip("torch")
    y = torch.zeros(3)
    t = isthmus.from_dlpack(y)
    assert live()[0].producer == "torch.Tensor"
    assert t.to("torch") is y
    assert live()[0].consumer == "isthmus.Tensor"
    z = isthmus.empty((3,)).to("torch")
    assert live()[1].consumer == "torch"
    del z


def test_borrowed_memory_is_marked(live, x):
    described = isthmus.to_blob(x).as_dict()
    kept = isthmus.from_blob(described, owner=x)
    risky = isthmus.from_blob(described)
    first, second = live()
    assert (first.borrowed, first.producer) == (False, "blob of numpy.ndarray")
    assert (second.borrowed, second.producer) == (True, "blob without owner")
    assert "nobody keeps the memory" in str(second)
    del kept, risky


def test_what_was_there_before_is_not_listed(x):
    before = isthmus.from_dlpack(x)
    isthmus.live.enable()
    try:
        after = isthmus.from_dlpack(x.copy())
        assert [entry.ptr for entry in isthmus.live()] == [after.data_ptr]
        del before
        assert len(isthmus.live()) == 1
    finally:
        isthmus.live.disable()


def test_off_and_on_again_forgets(x):
    isthmus.live.enable()
    t = isthmus.from_dlpack(x)
    isthmus.live.disable()
    isthmus.live.enable()
    try:
        assert isthmus.live() == []
        del t
        u = isthmus.from_dlpack(x)
        assert len(isthmus.live()) == 1
        del u
    finally:
        isthmus.live.disable()


def test_the_place_of_an_import(x):
    isthmus.live.enable(tracing=True)
    try:
        t = isthmus.from_dlpack(x)
        v = isthmus.from_blob(isthmus.to_blob(x).as_dict(), owner=x)
        for entry in isthmus.live():
            # The caller's line, also where the package has Python of its own in between.
            assert entry.place.startswith(f"{__file__}:")
            assert entry.place.endswith(" in test_the_place_of_an_import")
        files = [call.rpartition(" in ")[2].split("+")[0] for call in isthmus.live()[0].cpp_place.split(" < ")]
        assert any("_isthmus" in file for file in files)
        assert not any(file.startswith(("python", "libpython")) for file in files), (
            "the interpreter's own calls say nothing"
        )
        assert entry.place in str(entry)
        del t, v
    finally:
        isthmus.live.disable()


def test_an_import_where_no_python_runs_has_no_place(x):
    isthmus.live.enable(tracing=True)
    try:
        found: list = []
        # A thread that runs functions of C alone has no frame.
        _thread.start_new_thread(found.extend, (map(isthmus.from_dlpack, [x]),))
        eventually(lambda: bool(found))
        assert [entry.place for entry in isthmus.live()] == [""]
        found.clear()
    finally:
        isthmus.live.disable()


def test_without_tracing_no_place(x):
    isthmus.live.enable()
    try:
        t = isthmus.from_dlpack(x)
        (entry,) = isthmus.live()
        assert (entry.place, entry.cpp_place) == ("", "")
        del t
    finally:
        isthmus.live.disable()


def test_tensors_of_other_extensions_are_listed(x, live):
    ext = pytest.importorskip("isthmus_test_ext")
    t = ext.tensor_of(x)
    (entry,) = live()
    assert (entry.ptr, entry.producer) == (x.ctypes.data, "numpy.ndarray")
    del t
    assert live() == []


def test_many_threads(live):
    def work() -> None:
        for _ in range(200):
            kept = [isthmus.empty((2,)) for _ in range(5)]
            live()
            del kept

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert live() == []


def test_an_exception_that_is_under_way_survives(live, x):
    class Producer:
        def __dlpack__(self, **options):
            return x.__dlpack__()

        def __dlpack_device__(self):
            return (1, 0)

    def import_while_it_passes() -> isthmus.Tensor:
        try:
            raise KeyError("mine")
        finally:
            kept.append(isthmus.from_dlpack(Producer()))

    kept: list = []
    with pytest.raises(KeyError, match="mine"):
        import_while_it_passes()
    assert live()[0].producer.endswith("Producer")
    kept.clear()


@pytest.mark.parametrize(("wish", "shown"), [("1", "True False"), ("trace", "True True"), ("0", "False False")])
def test_from_the_start(wish, shown, monkeypatch):
    monkeypatch.setenv("ISTHMUS_LIVE", wish)
    code = """
import warnings; warnings.simplefilter('ignore')
import isthmus
t = isthmus.empty((2,))
print(isthmus.live.enabled, any(e.place for e in isthmus.live()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == shown


def test_repr():
    assert repr(isthmus.live) == "<isthmus.live: off>"
