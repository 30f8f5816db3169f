"""isthmus.Tensor as a Python object: what it says, how it compares, and that it goes when it should."""

from __future__ import annotations

import gc
import sys
import threading
import types
import weakref

import numpy as np
import pytest
from owners import gone

import isthmus_test_ext as ext

Tensor = type(ext.pages([1]))


def made(**options) -> object:
    return ext.pages([2, 3], data=np.arange(6, dtype=np.float32), **options)


class TestAttributes:
    def test_all(self):
        t = ext.pages([4, 3], "int16", strides=[1, 4], offset=128)
        assert t.data_ptr % 4096 == 128
        assert (t.shape, t.strides, t.byte_strides) == ((4, 3), (1, 4), (2, 8))
        assert (t.ndim, t.size, t.itemsize, t.nbytes) == (2, 12, 2, 24)
        assert (t.read_only, t.is_copied, t.is_contiguous) == (False, False, False)
        assert t.owner is None

    def test_dtype(self):
        dtype = made().dtype
        assert (dtype.name, dtype.code, dtype.bits, dtype.lanes, dtype.itemsize) == ("float32", 2, 32, 1, 4)
        assert tuple(dtype) == (2, 32, 1)
        assert str(dtype) == "float32"
        assert dtype == "float32"
        assert dtype == made().dtype
        assert dtype != "float64"
        assert hash(dtype) == hash(made().dtype)

    def test_device(self):
        device = ext.pages([1], device=(2, 3)).device
        assert str(device) == "cuda:3"
        assert (device.type, device.id) == (2, 3)
        assert device.type == "cuda"
        assert tuple(device) == (2, 3)
        assert device == "cuda:3"
        assert device != made().device

    def test_owner(self):
        a = np.zeros(3)
        assert ext.tensor_of(a).owner is a
        keeper = object()
        assert ext.own_by_python(a, keeper).owner is keeper

    def test_nothing_can_be_set(self):
        t = made()
        for name in ("data_ptr", "shape", "strides", "dtype", "device", "read_only", "owner", "anything"):
            with pytest.raises((AttributeError, TypeError)):
                setattr(t, name, 0)

    def test_packed(self):
        t = ext.pages([5], "float4_e2m1fn")
        assert (t.size, t.itemsize, t.nbytes) == (5, 1, 3)
        assert ext.pages([5], "float4_e2m1fn", padded=True).nbytes == 5

    def test_read_only_memory_is_not_borrowed_to_be_written(self, take, refused):
        refused("read_only", BufferError, take, made(read_only=True), require_writable=True)
        assert not take(made(), require_writable=True)["read_only"]

    def test_arguments_are_counted(self):
        t = made()
        for call in (lambda: t.__array__(None, None, None), lambda: t.__reduce_ex__("x"), lambda: t.to()):
            with pytest.raises(TypeError):
                call()

    @pytest.mark.parametrize("wrong", [(2, 32.0, 1), (2, 1 << 40, 1), (2, "32"), (2,), (2, 32, 1, 1), "float31", None])
    def test_no_dtype(self, wrong):
        with pytest.raises(ValueError, match="expected a name such as 'float32'") as info:
            type(made().dtype)(wrong)
        assert info.value.code == "bad_dtype"

    @pytest.mark.parametrize(
        "wrong", [(258, 32, 1), (-254, 32, 1), (2, 288, 1), (2, -224, 1), (2, 32, 65537), (2, 32, 0)]
    )
    def test_numbers_that_would_wrap_around(self, wrong):
        with pytest.raises(ValueError, match=r"expected numbers that DLPack 1\.3 defines"):
            type(made().dtype)(*wrong)

    @pytest.mark.parametrize("wrong", [(1, 1 << 40), (1.0, 0), (1,), (1, 0, 0), "gpu", None])
    def test_no_device(self, wrong):
        with pytest.raises(ValueError, match="expected a name such as 'cuda:0'") as info:
            type(made().device)(wrong)
        assert info.value.code == "bad_device"

    def test_what_cannot_be_shown_in_the_error(self):
        class Lone:
            def __repr__(self):
                return "\ud800"

        for call in (lambda: type(made().dtype)(Lone()), lambda: made().__dlpack__(max_version=Lone())):
            with pytest.raises(UnicodeEncodeError):
                call()


class TestRepr:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({}, ["isthmus.Tensor(", "float32[2, 3]", "cpu", "0x"]),
            ({"read_only": True}, ["read-only"]),
            ({"device": (2, 1)}, ["cuda:1"]),
            ({"strides": [1, 2]}, ["strides", "1, 2"]),
        ],
    )
    def test_says_what_it_is(self, options, words):
        text = repr(ext.pages([2, 3], **options))
        assert all(word in text for word in words), text

    def test_says_whose_it_is(self):
        assert "numpy.ndarray" in repr(ext.tensor_of(np.zeros(2)))

    def test_says_where(self):
        t = made()
        assert hex(t.data_ptr) in repr(t)

    def test_no_values(self):
        """The memory may be a device's, or huge."""
        assert len(repr(ext.pages([1 << 30]))) < 200


class TestTo:
    def test_a_module_without_a_name(self):
        nameless = types.ModuleType("x")
        del nameless.__name__
        with pytest.raises(SystemError, match="nameless module"):
            made().to(nameless)

    def test_a_name_that_is_no_text(self):
        with pytest.raises(UnicodeEncodeError):
            made().to("\udc80")


class TestIdentity:
    def test_the_tensor_itself(self):
        t = made()
        assert ext.tensor_of(t) is t
        assert ext.hand(t, "tensor") is t
        assert t.to("tensor") is t

    def test_one_object_while_it_lives(self):
        t = made()
        a = ext.hand(t, "numpy")
        assert a.base is t
        assert ext.tensor_of(a).owner is a

    def test_as_read_only(self):
        t = made()
        locked = t.as_read_only()
        assert locked is not t
        assert locked.read_only
        assert locked.data_ptr == t.data_ptr
        assert not t.read_only
        assert locked.as_read_only() is locked
        before = gone()
        del t
        assert gone() == before
        del locked
        assert gone() == before + 1

    def test_the_references_of_a_round_trip(self):
        a = np.zeros(3)
        count = sys.getrefcount(a)
        for _ in range(1000):
            assert ext.hand(a, "numpy") is a
        assert sys.getrefcount(a) == count


class TestWeakReferences:
    def test_alive_and_dead(self):
        t = made()
        ref = weakref.ref(t)
        assert ref() is t
        del t
        assert ref() is None

    def test_callback(self):
        said = []
        t = made()
        weakref.finalize(t, said.append, "gone")
        ref = weakref.ref(t, lambda _: said.append("called"))
        del t
        assert sorted(said) == ["called", "gone"]
        assert ref() is None

    def test_the_object_goes_before_the_memory(self):
        t = made()
        ref, view = weakref.ref(t), t.__dlpack__(max_version=(1, 0))
        before = gone()
        del t
        assert ref() is None
        assert gone() == before
        del view
        assert gone() == before + 1


class Node:
    """Anything that can be part of a cycle."""


class ArrayNode(np.ndarray):
    pass


class BytesNode(bytearray):
    pass


class ProducerNode:
    def __init__(self):
        self.array = np.zeros(3)

    def __dlpack__(self, **keywords):
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return (1, 0)


class TestCycles:
    @pytest.mark.parametrize(
        "make",
        [lambda: np.zeros(3).view(ArrayNode), lambda: BytesNode(b"abc"), ProducerNode],
        ids=["array", "buffer", "dlpack"],
    )
    def test_a_producer_that_holds_its_tensor(self, make):
        gc.collect()
        node = make()
        node.tensor = ext.tensor_of(node)
        ref = weakref.ref(node)
        del node
        assert ref() is not None
        gc.collect()
        assert ref() is None

    def test_an_owner_that_holds_its_tensor(self):
        node = Node()
        node.tensor = ext.own_by_python(np.zeros(3), node)
        ref = weakref.ref(node)
        del node
        gc.collect()
        assert ref() is None

    def test_a_longer_way_round(self):
        node, other = Node(), Node()
        node.tensor = ext.own_by_python(np.zeros(3), [other])
        other.back = {"node": node}
        ref = weakref.ref(node)
        del node, other
        gc.collect()
        assert ref() is None

    def test_not_while_a_capsule_holds_it(self):
        node = Node()
        node.tensor = ext.own_by_python(np.arange(3.0), node)
        ref = weakref.ref(node)
        capsule = node.tensor.__dlpack__(max_version=(1, 0))
        del node
        gc.collect()
        assert ref() is not None
        assert ref().tensor.shape == (3,)
        del capsule
        gc.collect()
        assert ref() is None

    def test_not_while_cpp_holds_it(self):
        node = Node()
        node.tensor = ext.own_by_python(np.arange(3.0), node)
        ref = weakref.ref(node)
        kept = ext.keep(node.tensor)
        del node
        gc.collect()
        assert ref() is not None
        ext.drop_on_thread(kept, False)
        for _ in range(10):
            gc.collect()
        assert ref() is None

    def test_not_while_cpp_holds_the_root_of_an_alias(self):
        node = ProducerNode()
        kept = ext.keep(node)
        node.tensor = ext.kept_read_only(kept)
        ref = weakref.ref(node)
        del node
        gc.collect()
        assert ref() is not None
        assert np.frombuffer(ext.kept_elements(kept), ref().array.dtype).tolist() == ref().array.tolist()
        ext.drop(kept)
        gc.collect()
        assert ref() is None

    def test_the_collector_sees_it(self):
        a = np.zeros(3)
        t = ext.tensor_of(a)
        assert gc.is_tracked(t)
        assert any(x is a for x in gc.get_referents(t))

    def test_a_finalizer_that_looks_at_a_dying_cycle(self):
        said = []

        class Looks:
            def __del__(self):
                said.append((self.tensor.shape, np.from_dlpack(self.tensor).tolist()))

        node = Looks()
        elements = np.arange(2.0)  # of which the owner knows nothing
        node.tensor = ext.own_by_python(elements, node)
        del node
        gc.collect()
        assert said == [((2,), elements.tolist())]


class TestType:
    def test_no_constructor(self):
        with pytest.raises(TypeError, match="from_dlpack"):
            Tensor()

    def test_no_subclass(self):
        with pytest.raises(TypeError):
            type("Sub", (Tensor,), {})

    def test_name(self):
        assert (Tensor.__module__, Tensor.__qualname__) == ("isthmus", "Tensor")
        assert Tensor.__doc__

    def test_every_attribute_is_documented(self):
        for name in (
            "data_ptr",
            "shape",
            "strides",
            "dtype",
            "device",
            "read_only",
            "ndim",
            "size",
            "itemsize",
            "nbytes",
            "owner",
            "to",
            "__dlpack__",
        ):
            assert getattr(Tensor, name).__doc__, name

    def test_by_identity(self):
        t = made()
        assert t == t
        assert t != made()
        assert t in {t}


def test_threads_share_one_tensor():
    before = gone()
    held = [made()]
    failures = []

    def work():
        t = held[0]
        try:
            for _ in range(300):
                assert np.asarray(t)[1, 2] == 5
                assert memoryview(t)[0, 1] == 1
                assert ext.tensor_of(t) is t
                assert t.as_read_only().read_only
        except Exception as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    held.clear()
    assert gone() == before + 1
