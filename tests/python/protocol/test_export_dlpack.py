"""`__dlpack__` to the letter: array API standard 2024.12, DLPack 1.3."""

from __future__ import annotations

import gc
import itertools
import sys

import capsules
import numpy as np
import pytest
from owners import gone

import isthmus_test_ext as ext

DTYPES = {
    "bool": (6, 8), "int8": (0, 8), "int16": (0, 16), "int32": (0, 32), "int64": (0, 64), "uint8": (1, 8),
    "uint16": (1, 16), "uint32": (1, 32), "uint64": (1, 64), "float16": (2, 16), "float32": (2, 32), "float64": (2, 64),
    "bfloat16": (4, 16), "complex64": (5, 64), "complex128": (5, 128), "float8_e3m4": (7, 8), "float8_e4m3": (8, 8),
    "float8_e4m3b11fnuz": (9, 8), "float8_e4m3fn": (10, 8), "float8_e4m3fnuz": (11, 8), "float8_e5m2": (12, 8),
    "float8_e5m2fnuz": (13, 8), "float8_e8m0fnu": (14, 8), "float4_e2m1fn": (17, 4),
}  # fmt: skip
CUDA = (2, 0)


def made() -> object:
    return ext.pages([2, 3], "float32", data=np.arange(6, dtype=np.float32))


def refuses(code: str, builtin: type, call, *args, **keywords) -> str:
    with pytest.raises(ext.Error) as info:
        call(*args, **keywords)
    assert info.value.code == code, info.value
    assert isinstance(info.value, builtin), info.value
    return str(info.value)


class TestMaxVersion:
    @pytest.mark.parametrize("version", [None, (0, 0), (0, 8), [0, 9]])
    def test_before_1_0_a_legacy_capsule(self, version):
        capsule = made().__dlpack__(max_version=version)
        assert capsules.name_of(capsule) == "dltensor"

    def test_nothing_said_is_legacy(self):
        assert capsules.name_of(made().__dlpack__()) == "dltensor"

    @pytest.mark.parametrize("version", [(1, 0), (1, 3), (2, 0), (100, 3), [1, 1]])
    def test_versioned(self, version):
        capsule = made().__dlpack__(max_version=version)
        found = capsules.read(capsule)
        assert found.versioned
        assert found.version[0] == 1
        assert found.flags == 0

    @pytest.mark.parametrize("version", ["10", 1, (1,), (1, 0, 0), ("a", "b"), object(), {}, (1.5, 0), (10**30, 0)])
    def test_not_a_version(self, version):
        t = made()
        text = refuses("bad_argument", TypeError, t.__dlpack__, max_version=version)
        assert "max_version" in text
        assert repr(version) in text


class TestArguments:
    def test_positional(self):
        with pytest.raises(TypeError, match="keyword"):
            made().__dlpack__(None)

    def test_unknown_keyword(self):
        with pytest.raises(TypeError, match="stresm"):
            made().__dlpack__(stresm=None)

    def test_a_name_that_is_not_interned(self):
        name = "".join(["max", "_version"])
        assert capsules.name_of(made().__dlpack__(**{name: (1, 0)})) == "dltensor_versioned"

    def test_the_type_carries_its_signature(self):
        import inspect

        names = inspect.signature(type(made()).__dlpack__).parameters
        assert [*names][1:] == ["stream", "max_version", "dl_device", "copy"]
        assert all(p.kind is p.KEYWORD_ONLY and p.default is None for p in [*names.values()][1:])

    def test_all_at_once(self):
        capsule = made().__dlpack__(stream=None, max_version=(1, 3), dl_device=(1, 0), copy=False)
        assert capsules.read(capsule).flags == 0


class TestStream:
    def test_host(self):
        t = made()
        t.__dlpack__(stream=None)
        t.__dlpack__(stream=-1)  # "do not synchronise": there is nothing to do

    @pytest.mark.parametrize("stream", [0, 1, 2, 1234, -2])
    def test_host_has_no_streams(self, stream):
        assert "stream" in refuses("bad_argument", ValueError, made().__dlpack__, stream=stream)

    @pytest.mark.parametrize("stream", [object(), "1", 1.0, (1,)])
    def test_not_a_stream(self, stream):
        assert "stream" in refuses("bad_argument", TypeError, made().__dlpack__, stream=stream)

    @pytest.mark.parametrize("stream", [None, -1, 1, 2, 0x1234])
    def test_cuda(self, stream):
        t = ext.pages([4], device=CUDA)
        assert capsules.read(t.__dlpack__(stream=stream, max_version=(1, 0))).device == CUDA

    @pytest.mark.parametrize("stream", [0, -2])
    def test_cuda_ambiguous(self, stream):
        refuses("bad_argument", ValueError, ext.pages([4], device=CUDA).__dlpack__, stream=stream)

    def test_rocm_counts_otherwise(self):
        ext.pages([4], device=(10, 0)).__dlpack__(stream=0)


class TestDevice:
    def test_where_it_is(self):
        t = made()
        assert t.__dlpack_device__() == (1, 0)
        assert capsules.read(t.__dlpack__(dl_device=(1, 0))).data == t.data_ptr

    def test_a_named_tuple_and_an_enum_do(self):
        import enum

        kind = enum.IntEnum("DLDeviceType", {"CPU": 1})
        assert capsules.read(made().__dlpack__(dl_device=(kind.CPU, 0)))

    @pytest.mark.parametrize("device", [(2, 0), (1, 1), (10, 0), (8, 0)])
    def test_elsewhere(self, device):
        text = refuses("bad_device", BufferError, made().__dlpack__, dl_device=device)
        assert "cpu" in text

    def test_elsewhere_even_as_a_copy(self):
        refuses("bad_device", BufferError, made().__dlpack__, dl_device=(2, 0), copy=True)

    @pytest.mark.parametrize(
        "device", ["cpu", 1, (1,), (None, None), (2**32 + 1, 0), (1, 2**32), (1, -(2**63)), (1, 2**64)]
    )
    def test_not_a_device(self, device):
        refuses("bad_argument", TypeError, made().__dlpack__, dl_device=device)

    @pytest.mark.parametrize("pinned", [(3, 0), (11, 0)])
    def test_pinned_memory_is_the_hosts(self, pinned):
        t = ext.pages([2], "float32", device=pinned, data=np.float32([1, 2]))
        assert capsules.read(t.__dlpack__(max_version=(1, 0))).device == pinned
        for copy in (None, False):
            found = capsules.read(t.__dlpack__(dl_device=(1, 0), copy=copy, max_version=(1, 0)))
            assert (found.device, found.data, found.copied) == ((1, 0), t.data_ptr, False)
        assert np.from_dlpack(t, device="cpu").tolist() == [1, 2]

    @pytest.mark.parametrize("pinned", [(3, 0), (11, 0)])
    def test_a_copy_of_pinned_memory_is_not_pinned(self, pinned):
        t = ext.pages([2], "float32", device=pinned)
        found = capsules.read(t.__dlpack__(copy=True, max_version=(1, 0)))
        assert (found.device, found.copied) == ((1, 0), True)
        assert found.data != t.data_ptr
        refuses("bad_device", BufferError, t.__dlpack__, copy=True, dl_device=pinned)

    def test_cuda_to_cpu_is_not_ours(self):
        refuses("bad_device", BufferError, ext.pages([2], device=CUDA).__dlpack__, dl_device=(1, 0))

    @pytest.mark.parametrize(
        "device", [(1, 0), (2, 3), (3, 0), (4, 0), (7, 0), (8, 1), (10, 0), (11, 0), (13, 0), (14, 0)]
    )
    def test_every_device_is_told(self, device):
        t = ext.pages([2], device=device)
        assert t.__dlpack_device__() == device
        assert (t.device.type, t.device.id) == device
        assert capsules.read(t.__dlpack__(max_version=(1, 3))).device == device


class TestCopy:
    @pytest.mark.parametrize("copy", [None, False])
    def test_shares(self, copy):
        t = made()
        found = capsules.read(t.__dlpack__(copy=copy, max_version=(1, 3)))
        assert found.data == t.data_ptr
        assert not found.copied

    @pytest.mark.parametrize("version", [None, (1, 0)])
    def test_copies(self, version):
        t = made()
        capsule = t.__dlpack__(copy=True, max_version=version)
        found = capsules.read(capsule)
        assert found.data != t.data_ptr
        assert found.data % 64 == 0
        assert found.copied == (version is not None)
        assert not found.read_only
        assert ext.own_elements(capsule, copy="if_needed") == np.arange(6, dtype=np.float32).tobytes()

    def test_a_copy_of_read_only_memory_is_writable(self):
        t = ext.pages([2], read_only=True)
        assert capsules.read(t.__dlpack__(copy=True, max_version=(1, 0))).flags == capsules.IS_COPIED
        assert capsules.name_of(t.__dlpack__(copy=True)) == "dltensor"

    def test_a_copy_outlives_the_tensor(self):
        before = gone()
        t = made()
        capsule = t.__dlpack__(copy=True, max_version=(1, 0))
        del t
        assert gone() == before + 1
        assert ext.own_elements(capsule, copy="if_needed") == np.arange(6, dtype=np.float32).tobytes()

    @pytest.mark.parametrize(
        "view", [lambda a: a.T, lambda a: a[:, ::2], lambda a: a[::-1], lambda a: a[0, 0, ...], lambda a: a[:0]]
    )
    def test_a_copy_is_row_major(self, view):
        a = view(np.arange(24, dtype=np.int16).reshape(4, 6))
        b = np.from_dlpack(ext.tensor_of(a), copy=True)
        assert b.tolist() == a.tolist()
        assert b.flags.c_contiguous

    @pytest.mark.parametrize("copy", [np.array([1, 2, 3]), "yes", object(), 2])
    def test_not_a_wish(self, copy):
        refuses("bad_argument", ValueError, made().__dlpack__, copy=copy)

    def test_device_memory_is_not_copied_by_us(self):
        refuses("bad_device", BufferError, ext.pages([2], device=CUDA).__dlpack__, copy=True)

    @pytest.mark.parametrize("dtype", ["float4_e2m1fn", "int4"])
    def test_packed_and_padded_keep_their_kind(self, dtype):
        for padded in (False, True):
            t = ext.pages([5], dtype, padded=padded, data=bytes(range(1, 6)))
            found = capsules.read(capsule := t.__dlpack__(copy=True, max_version=(1, 3)))
            assert bool(found.flags & capsules.PADDED) == padded
            size = 5 if padded else 3
            assert ext.own_elements(capsule, copy="if_needed") == bytes(range(1, size + 1))


class TestReadOnly:
    def test_versioned_says_so(self):
        t = ext.pages([2], read_only=True)
        assert capsules.read(t.__dlpack__(max_version=(1, 0))).flags == capsules.READ_ONLY

    @pytest.mark.parametrize("version", [None, (0, 9)])
    def test_legacy_cannot(self, version):
        text = refuses("read_only", BufferError, ext.pages([2], read_only=True).__dlpack__, max_version=version)
        assert "max_version" in text

    def test_it_survives_every_hand(self):
        a = np.arange(3.0)
        a.flags.writeable = False
        t = ext.tensor_of(ext.tensor_of(ext.tensor_of(a).__dlpack__(max_version=(1, 0))))
        assert t.read_only
        assert not np.from_dlpack(t).flags.writeable

    def test_padding_too(self):
        """A legacy capsule says neither; padded sub-byte elements would be read as packed ones."""
        t = ext.pages([4], "int4", padded=True)
        assert capsules.read(t.__dlpack__(max_version=(1, 3))).flags == capsules.PADDED
        with pytest.raises(BufferError):
            t.__dlpack__()
        refuses("bad_dtype", BufferError, t.to, "capsule_legacy")


class TestContent:
    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("version", [None, (1, 3)])
    def test_dtype(self, dtype, version):
        t = ext.pages([4], dtype)
        found = capsules.read(t.__dlpack__(max_version=version))
        assert found.dtype == (*DTYPES[dtype], 1)
        assert found.data == t.data_ptr
        assert found.shape == (4,)

    @pytest.mark.parametrize(
        ("shape", "strides"),
        [
            ([], None),
            ([0], None),
            ([3, 0, 2], None),
            ([2, 3], None),
            ([3, 2], [1, 3]),
            ([2, 4], [0, 1]),
            ([1, 1], [7, 9]),
            ([1] * 64, None),
        ],
    )
    @pytest.mark.parametrize("version", [None, (1, 3)])
    def test_nothing_is_null(self, shape, strides, version):
        """jax and onnxruntime abort without a deleter, paddle leaks without a context, several read strides blindly."""
        t = ext.pages(shape, strides=strides)
        found = capsules.read(t.__dlpack__(max_version=version))
        assert found.deleter
        assert found.manager_ctx
        assert found.strides is not None
        assert found.shape == tuple(shape)
        if strides:
            assert found.strides == tuple(strides)
        assert found.byte_offset == 0
        assert found.data == t.data_ptr

    def test_row_major_strides_are_written_out(self):
        assert capsules.read(ext.pages([4, 3, 2]).__dlpack__()).strides == (6, 2, 1)

    def test_byte_offset_is_folded(self):
        t = ext.pages([4], offset=64)
        assert t.data_ptr % 4096 == 64
        found = capsules.read(t.__dlpack__(max_version=(1, 0)))
        assert (found.data, found.byte_offset) == (t.data_ptr, 0)

    def test_negative_strides(self):
        t = ext.pages([4], strides=[-1], offset=12, data=np.arange(4, dtype=np.float32))
        assert capsules.read(t.__dlpack__()).strides == (-1,)
        assert np.from_dlpack(t).tolist() == [3, 2, 1, 0]

    def test_every_capsule_has_sizes_of_its_own(self):
        """Some consumers write to them."""
        t = made()
        first, second = t.__dlpack__(max_version=(1, 0)), t.__dlpack__(max_version=(1, 0))
        address = capsules.consume(first)
        capsules.ManagedVersioned.from_address(address).tensor.shape[0] = 99
        assert capsules.read(second).shape == (2, 3)
        assert t.shape == (2, 3)
        capsules.end(address)


class TestLifetime:
    @pytest.mark.parametrize("version", [None, (1, 3)])
    def test_unconsumed_frees_once(self, version):
        before = gone()
        t = made()
        capsule = t.__dlpack__(max_version=version)
        del t
        assert gone() == before
        del capsule
        assert gone() == before + 1

    @pytest.mark.parametrize("version", [None, (1, 3)])
    def test_consumed_belongs_to_the_consumer(self, version):
        before = gone()
        capsule = made().__dlpack__(max_version=version)
        address = capsules.consume(capsule)
        assert capsules.name_of(capsule).startswith("used_dltensor")
        del capsule
        gc.collect()
        assert gone() == before
        capsules.end(address, version is not None)
        assert gone() == before + 1

    @pytest.mark.parametrize("version", [None, (1, 3)])
    def test_ended_without_the_gil(self, version):
        before = gone()
        ext.end_capsule_on_thread(made().__dlpack__(max_version=version))
        assert ext.owners()[1:] == (before + 1, False)

    def test_python_objects_are_given_back_from_a_thread_without_the_gil(self):
        import weakref

        class Owned(np.ndarray):
            pass

        a = np.zeros(4).view(Owned)
        ref = weakref.ref(a)
        capsule = ext.tensor_of(a).__dlpack__(max_version=(1, 0))
        del a
        assert ref() is not None
        ext.end_capsule_on_thread(capsule)
        del capsule
        for _ in range(100):
            if ref() is None:
                break
            gc.collect()
        assert ref() is None

    @pytest.mark.parametrize("order", [*itertools.permutations(range(4))])
    def test_whoever_goes_last(self, order):
        before = gone()
        t = made()
        held = [t, t.__dlpack__(max_version=(1, 0)), np.from_dlpack(t), memoryview(t)]
        del t
        for i, which in enumerate(order):
            assert gone() == before, f"gone while {4 - i} were left"
            held[which] = None
        assert gone() == before + 1

    @pytest.mark.parametrize("kind", ["vector", "unique_ptr", "shared_ptr", "array", "traits", "empty", "const"])
    def test_every_owner(self, kind):
        before = gone()
        a = np.from_dlpack(ext.owned(kind))
        wanted = {"traits": [7] * 24, "const": [1, 2] + [0] * 22}.get(kind, [*range(24)])
        assert a.ravel().tolist() == wanted
        assert a.flags.writeable == (kind != "const")
        del a
        assert gone() == before + 1

    def test_an_owner_that_throws(self):
        before = gone()
        t = ext.owned("throws")
        del t
        assert gone() == before + 1

    def test_from_many_threads(self):
        from concurrent.futures import ThreadPoolExecutor

        before = gone()
        held = [made()]

        def work(n: int) -> float:
            t = held[0]
            total = 0.0
            for i in range(200):
                capsule = t.__dlpack__(max_version=(1, 0) if i % 2 else None)
                if i % 3 == 0:
                    ext.end_capsule_on_thread(capsule)
                else:
                    total += float(np.from_dlpack(t)[1, 2])
                del capsule
            return total

        with ThreadPoolExecutor(4) as pool:
            assert set(pool.map(work, range(8))) == {133 * 5.0}
        assert gone() == before
        held.clear()
        assert gone() == before + 1


class TestCapsuleBack:
    """Ours as a consumer of ours, by nothing but the capsule."""

    @pytest.mark.parametrize("version", [None, (1, 3)])
    def test_consumed_once(self, version):
        t = made()
        capsule = t.__dlpack__(max_version=version)
        back = ext.tensor_of(capsule)
        assert capsules.name_of(capsule) == ("used_dltensor" if version is None else "used_dltensor_versioned")
        assert back.data_ptr == t.data_ptr
        refuses("consumed_capsule", ValueError, ext.tensor_of, capsule)

    def test_the_exits_by_name(self):
        t = made()
        assert capsules.name_of(ext.hand(t, "capsule")) == "dltensor_versioned"
        assert capsules.name_of(ext.hand(t, "capsule_legacy")) == "dltensor"
        assert capsules.name_of(t.to("capsule")) == "dltensor_versioned"
        locked = ext.pages([2], read_only=True)
        refuses("read_only", BufferError, ext.hand, locked, "capsule_legacy")
        assert capsules.name_of(ext.hand(locked, "capsule_legacy", allow_read_only_loss=True)) == "dltensor"


@pytest.mark.parametrize("framework", ["tensor", "capsule"])
def test_no_tensor_is_an_error(framework):
    refuses("bad_argument", ValueError, ext.hand_empty, framework)


class TestGivenAway:
    """to_py() of a handle that is moved in: a capsule has its reference, and nobody else is left."""

    @pytest.mark.parametrize("framework", ["capsule", "capsule_legacy", "numpy", "tensor"])
    def test_the_memory_lives_as_long_as_what_came_of_it(self, framework):
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        before = sys.getrefcount(x)
        for _ in range(3):
            given = ext.give(x, framework)
            if framework == "capsule":
                assert capsules.read(given).shape == (2, 3)
            assert sys.getrefcount(x) == before + 1
            del given
            assert sys.getrefcount(x) == before

    def test_the_same_object_goes_back(self):
        x = np.zeros(3)
        assert ext.give(x, "numpy") is x

    def test_memory_without_an_owner_keeps_the_object_that_shows_it(self):
        shown, given = ext.shown_and_given()
        held = sys.getrefcount(shown)
        del given
        assert sys.getrefcount(shown) == held - 1

    def test_watched_memory_is_withheld(self):
        torch = pytest.importorskip("torch")
        refuses("requires_grad", BufferError, ext.give, torch.zeros(3, requires_grad=True), "capsule")

    def test_read_only_is_said(self):
        assert capsules.read(ext.give(ext.pages([2], read_only=True), "capsule")).flags & 1

    def test_a_listener_hears_of_it(self):
        live = pytest.importorskip("isthmus").live
        live.enable()
        try:
            given = ext.give(np.zeros(3, np.float32), "capsule")
            assert [entry.consumer for entry in live()] == ["capsule"]
            del given
            assert live() == []
        finally:
            live.disable()


@pytest.mark.parametrize("version", [None, (1, 3)])
def test_a_name_of_the_same_letters_is_the_same_name(version):
    """Who renames a capsule and gives it back writes the name anew."""
    before = gone()
    capsule = made().__dlpack__(max_version=version)
    name = capsules.name_of(capsule).encode()
    capsules.rename(capsule, name)
    del capsule
    assert gone() == before + 1
