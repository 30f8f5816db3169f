"""A Python object as the owner of memory of C++: one reference, given back once,
on whatever thread and however late."""

from __future__ import annotations

import gc
import sys
import weakref
from pathlib import Path

import numpy as np
import processes
import pytest

import isthmus_test_ext as ext

FOLDER = Path(ext.__file__).parent


class Owner:
    pass


def test_it_takes_a_reference_of_its_own():
    owner = Owner()
    before = sys.getrefcount(owner)
    t = ext.own_by_python(np.arange(3.0), owner)
    assert sys.getrefcount(owner) == before + 1
    assert t.owner is owner
    array = np.from_dlpack(t)
    del t
    assert sys.getrefcount(owner) == before + 1
    del array
    assert sys.getrefcount(owner) == before


def test_any_object_may_be_one():
    for owner in (None, 3, "text", (), Owner, np.arange(2.0), ext):
        assert ext.own_by_python(np.arange(3.0), owner).owner is owner


def test_a_refused_description_gives_it_back():
    owner = Owner()
    before = sys.getrefcount(owner)
    with pytest.raises(ValueError):
        ext.own_by_python(np.arange(3.0), owner, fail=True)
    assert sys.getrefcount(owner) == before


def test_null_and_a_thread_without_the_gil_are_refused():
    assert ext.refused_owners(Owner()) == ("bad_argument", "bad_thread")


@pytest.mark.parametrize("gil", [False, True], ids=["without the GIL", "with the GIL"])
def test_it_is_given_back_on_any_thread(gil):
    owner = Owner()
    ref = weakref.ref(owner)
    number = ext.keep(ext.own_by_python(np.arange(3.0), owner))
    del owner
    gc.collect()
    assert ref() is not None
    ext.drop_on_thread(number, gil)
    assert ref() is None


def test_a_finalizer_may_run_on_that_thread():
    said = []

    class Speaks:
        def __del__(self):
            said.append(ext.own_by_python(np.arange(2.0), 3).owner)

    number = ext.keep(ext.own_by_python(np.arange(3.0), Speaks()))
    ext.drop_on_thread(number, False)
    assert said == [3]


def test_while_the_interpreter_ends():
    code = """
    import isthmus_test_ext as ext, numpy as np, sys
    class Owner:
        pass
    for delay in range(0, 40_000, 500):
        ext.drop_later(ext.keep(ext.own_by_python(np.arange(3.0), Owner())), delay)
    ext.keep_until_exit(ext.own_by_python(np.arange(3.0), Owner()))
    sys.modules["kept to the end"] = ext.own_by_python(np.arange(3.0), Owner())
    """
    for _ in range(3):
        processes.run_python(code, FOLDER)


FRAMEWORKS = ["numpy", "torch", "jax"]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_it_outlives_every_export(framework):
    pytest.importorskip(framework)
    owner = Owner()
    ref = weakref.ref(owner)
    room = np.arange(80, dtype=np.float32)
    memory = room[-room.ctypes.data % 64 // 4 :][:64]  # aligned as JAX wants it
    t = ext.own_by_python(memory, owner)
    x = t.to(framework)
    del owner, t
    gc.collect()
    assert ref() is not None
    assert float(x[3]) == float(memory[3])
    del x
    gc.collect()
    assert ref() is None


class TestATensorWithoutAnOwner:
    """Whoever answers for the memory may watch the isthmus.Tensor: it lives as long as what went out of it."""

    def shown(self):
        t = ext.without_owner(np.arange(64, dtype=np.float32))
        gone = []
        weakref.finalize(t, gone.append, True)
        return t, gone

    @pytest.mark.parametrize(
        "leave",
        [
            lambda t: t.to("numpy"),
            lambda t: t.to("numpy")[1:],
            lambda t: t.to("torch"),
            lambda t: t.to("torch").detach()[1:],
            lambda t: t.to("capsule"),
            lambda t: t.to("capsule_legacy"),
            lambda t: t.__dlpack__(max_version=(1, 0)),
            lambda t: t.__dlpack__(),
            lambda t: np.from_dlpack(t),
            lambda t: np.asarray(t),
            lambda t: memoryview(t),
            lambda t: __import__("torch").from_dlpack(t)[2:],
            lambda t: t.as_read_only(),
            lambda t: t.as_read_only().to("numpy"),
            lambda t: __import__("isthmus").from_dlpack(t.__dlpack__()),
            lambda t: __import__("isthmus").from_dlpack(t.__dlpack__(max_version=(1, 0))).to("torch"),
        ],
    )
    def test_it_is_held_by_what_went_out(self, leave):
        pytest.importorskip("torch")
        pytest.importorskip("isthmus")
        t, gone = self.shown()
        out = leave(t)
        del t
        gc.collect()
        assert gone == []
        del out
        gc.collect()
        assert gone == [True]

    def test_by_a_handle_of_cpp(self):
        t, gone = self.shown()
        number = ext.keep(t)
        del t
        gc.collect()
        assert gone == []
        ext.drop_on_thread(number, False)
        assert gone == [True]

    def test_there_and_back_it_is_the_same_object(self):
        t, _ = self.shown()
        assert ext.tensor_of(t) is t

    def test_one_with_an_owner_is_not(self):
        t = ext.own_by_python(np.arange(4.0), Owner())
        ref = weakref.ref(t)
        capsule = t.__dlpack__(max_version=(1, 0))
        del t
        assert ref() is None
        del capsule
