"""torch tensors in an extension that neither includes nor links torch: its stable shims,
and what older versions offer."""

from __future__ import annotations

import gc
import os
import sys
import threading
import weakref

import pytest

torch = pytest.importorskip("torch", exc_type=ImportError)
np = pytest.importorskip("numpy")
ext = pytest.importorskip("isthmus_torch_stable_ext")

WAY = ext.protocol(torch.zeros(1))
if os.environ.get("ISTHMUS_TEST_NO_UNPROMISED"):
    ext.hide_unpromised()
stable = pytest.mark.skipif(WAY != "stable", reason=f"torch is imported by {WAY} here")
VERSION = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])


def test_the_way_in_is_the_expected_one() -> None:
    hidden = os.environ.get("ISTHMUS_NO_TORCH_SHIMS", "0") not in ("", "0")
    if VERSION >= (2, 14) and not hidden:
        assert WAY == "stable"
    elif VERSION >= (2, 10) and not os.environ.get("ISTHMUS_TEST_NO_EXCHANGE_API"):
        assert WAY == "exchange"
    else:
        assert WAY == "method"


DTYPES = [
    "uint8", "int8", "int16", "int32", "int64", "bool", "float16", "bfloat16", "float32", "float64", "complex64",
    "complex128", "float8_e5m2", "float8_e4m3fn",
]  # fmt: skip


@pytest.mark.parametrize("name", DTYPES)
def test_describes_every_dtype(name: str) -> None:
    dtype = getattr(torch, name)
    if WAY != "stable" and name.startswith("float8") and VERSION < (2, 10):
        pytest.skip("this torch exports no float8")
    x = torch.zeros(4, 6, dtype=dtype)[1:, ::2]
    told = ext.own(x)
    assert told["data"] == x.data_ptr()
    assert told["shape"] == (3, 3)
    assert told["strides"] == (6, 2)
    assert told["dtype"] == {"bool": "bool"}.get(name, name)
    assert told["device"] == "cpu"
    assert not told["read_only"]
    assert ext.borrow(x) == x.data_ptr()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3, 4, 5, 6)])
def test_any_rank(shape: tuple[int, ...]) -> None:
    x = torch.zeros(shape)
    assert ext.own(x)["shape"] == shape
    assert ext.there_and_back(x) is x


def test_there_and_back_is_the_same_object() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    assert ext.there_and_back(x) is x
    assert ext.there_and_back_like(x) is x


def test_the_history_survives() -> None:
    a = torch.ones(3, requires_grad=True)
    y = a * 2
    back = ext.there_and_back(y)
    assert back is y
    assert back.grad_fn is y.grad_fn
    back.sum().backward()
    assert a.grad.tolist() == [2.0, 2.0, 2.0]


def test_parameters_subclasses_and_hooks_survive() -> None:
    class Mine(torch.Tensor):
        pass

    parameter = torch.nn.Parameter(torch.ones(2))
    assert ext.there_and_back(parameter) is parameter
    mine = torch.ones(2).as_subclass(Mine)
    mine.note = "kept"
    assert ext.there_and_back(mine) is mine
    assert ext.there_and_back(mine).note == "kept"

    seen = []
    leaf = torch.ones(2, requires_grad=True)
    leaf.register_hook(lambda grad: seen.append(grad.tolist()))
    (ext.there_and_back(leaf) * 3).sum().backward()
    assert seen == [[3.0, 3.0]]


@stable
def test_the_object_survives_its_last_python_reference() -> None:
    class Mine(torch.Tensor):
        pass

    x = torch.ones(2).as_subclass(Mine)
    x.note = "kept"
    number = ext.keep(x)
    del x
    gc.collect()
    back = ext.give(number, "torch")
    assert type(back) is Mine
    assert back.note == "kept"
    ext.drop(number)


def test_reference_counts_python_last() -> None:
    x = torch.ones(4)
    before = sys.getrefcount(x)
    numbers = [ext.keep(x) for _ in range(5)]
    assert ext.kept(numbers[0])["use_count"] == 1
    for drop in (ext.drop, ext.drop_without_gil, ext.drop_on_thread, ext.drop, ext.drop):
        drop(numbers.pop())
    assert sys.getrefcount(x) == before


@pytest.mark.parametrize("drop", ["drop", "drop_without_gil", "drop_on_thread"])
def test_the_memory_lives_until_the_last_handle(drop: str) -> None:
    x = torch.ones(4)
    storage = weakref.ref(x.untyped_storage())
    memory = np.from_dlpack(x)
    alive = weakref.ref(x)
    number = ext.keep(x)
    address = x.data_ptr()
    del x, memory
    gc.collect()
    assert ext.kept(number)["data"] == address
    getattr(ext, drop)(number)
    gc.collect()
    assert alive() is None
    assert storage() is None


@pytest.mark.parametrize("drop", ["drop", "drop_without_gil", "drop_on_thread"])
def test_memory_of_cpp_lives_until_torch_drops_it(drop: str) -> None:
    before = ext.buffers()
    number = ext.buffer(8)
    x = ext.give(number, "torch")
    assert x.tolist() == list(range(8))
    assert x.data_ptr() == ext.kept(number)["data"]
    getattr(ext, drop)(number)
    assert ext.buffers() == before + 1
    view = x[2:]
    del x
    assert view[0] == 2
    assert ext.buffers() == before + 1
    del view
    assert ext.buffers() == before


def test_memory_of_cpp_lives_until_cpp_drops_it() -> None:
    before = ext.buffers()
    number = ext.buffer(8)
    x = ext.give(number, "torch")
    x += 1
    del x
    assert ext.buffers() == before + 1
    assert ext.give(number, "torch")[0] == 1
    ext.drop(number)
    assert ext.buffers() == before


def test_torch_drops_on_a_thread_of_its_own() -> None:
    before = ext.buffers()
    number = ext.buffer(8)
    box = [ext.give(number, "torch")]
    ext.drop(number)
    thread = threading.Thread(target=box.clear)
    thread.start()
    thread.join()
    assert ext.buffers() == before


def test_writes_are_seen_on_both_sides() -> None:
    x = torch.zeros(3)
    ext.add_in_place(x, 2.0)
    assert x.tolist() == [2, 2, 2]
    number = ext.buffer(3)
    seen = ext.give(number, "torch")
    seen.mul_(10)
    assert ext.give(number, "torch").tolist() == [0, 10, 20]
    ext.drop(number)


@pytest.mark.skipif(WAY == "method" and VERSION < (2, 4), reason="this torch cannot be told")
def test_autograd_hears_of_a_write() -> None:
    a = torch.ones(3, requires_grad=True)
    b = a * 1
    c = b.exp()  # saves its result
    ext.add_in_place(c, 1.0)
    assert c._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        c.sum().backward()


def test_a_leaf_is_not_written_behind_autograd() -> None:
    leaf = torch.ones(3, requires_grad=True)
    with pytest.raises(BufferError, match="leaf tensor that requires grad") as caught:
        ext.add_in_place(leaf, 1.0)
    assert caught.value.code == "requires_grad"
    assert leaf.tolist() == [1, 1, 1]
    with torch.no_grad():
        ext.add_in_place(leaf, 1.0)
    assert leaf.tolist() == [2, 2, 2]
    assert ext.own(leaf)["read_only"]
    assert not ext.own(leaf, allow_grad=True)["read_only"]
    with torch.no_grad():
        assert not ext.own(leaf)["read_only"]


def test_an_inference_tensor_is_not_written_outside_inference_mode() -> None:
    with torch.inference_mode():
        x = torch.ones(3)
        ext.add_in_place(x, 1.0)
    assert ext.there_and_back(x) is x
    with pytest.raises(BufferError, match="inference tensor"):
        ext.add_in_place(x, 1.0)


REFUSED = {
    "conj": (lambda: torch.ones(3, dtype=torch.complex64).conj(), "not_values", "conjugate bit"),
    "neg": (lambda: torch.ones(3, dtype=torch.complex64).conj().imag, "not_values", "negative bit"),
    "sparse": (lambda: torch.eye(3).to_sparse(), "not_values", "torch.sparse_coo"),
    "csr": (lambda: torch.eye(3).to_sparse_csr(), "not_values", "torch.sparse_csr"),
    "meta": (lambda: torch.ones(3, device="meta"), "not_values", "meta device"),
    "quantised": (lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), "not_values", "torch.qint8"),
    "mkldnn": (lambda: torch.ones(3).to_mkldnn(), "not_values", "mkldnn"),
    "nested": (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "not_values", "nested"),
    "zero": (lambda: torch._efficientzerotensor((3,)), "null_data", "data is NULL"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REFUSED)
def test_bytes_that_are_not_values_are_refused(name: str) -> None:
    make, code, text = REFUSED[name]
    try:
        x = make()
    except RuntimeError as error:
        pytest.skip(f"this torch makes none: {error}")
    # CPython 3.14 counts a local variable in some places and not in others.
    held = [x]
    before = sys.getrefcount(held[0])
    for call in (ext.own, ext.borrow):
        with pytest.raises(BufferError, match=text) as caught:
            call(x, argument="image")
        assert "argument 'image': " in str(caught.value)
        if WAY == "stable" or code == "not_values":
            assert caught.value.code == code
    del caught
    after = sys.getrefcount(held[0])  # not in the assert, where pytest holds what it shows
    assert after == before


def test_fake_tensors_are_refused() -> None:
    fake = pytest.importorskip("torch._subclasses.fake_tensor")
    with fake.FakeTensorMode():
        x = torch.ones(3)
    with pytest.raises(BufferError):
        ext.own(x)


def test_what_torch_cannot_take_is_said() -> None:
    number = ext.buffer(4)
    for how, text in (("reversed", "strides .* are negative"), ("int4", "int4"), ("read_only", "read-only")):
        derived = ext.derive(number, how)
        with pytest.raises(BufferError, match=text):
            ext.give(derived, "torch")
        ext.drop(derived)
    allowed = ext.derive(number, "read_only")
    assert ext.give(allowed, "torch", True).tolist() == [0, 1, 2, 3]
    ext.drop(allowed)
    before = ext.buffers()
    ext.drop(number)
    assert ext.buffers() == before - 1


def test_another_framework_gets_its_own_kind() -> None:
    x = torch.arange(3.0)
    number = ext.keep(x)
    shown = ext.give(number, "numpy")
    assert isinstance(shown, np.ndarray)
    assert shown.ctypes.data == x.data_ptr()
    ext.drop(number)
    del x
    assert shown.tolist() == [0, 1, 2]


def test_many_threads_at_once() -> None:
    x = torch.ones(4)
    before = sys.getrefcount(x)

    def work() -> None:
        for _ in range(300):
            number = ext.keep(x)
            assert ext.give(number, "torch") is x
            ext.drop_without_gil(number)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sys.getrefcount(x) == before


@pytest.mark.skipif(
    WAY != "stable" or bool(os.environ.get("ISTHMUS_TEST_NO_UNPROMISED")),
    reason="the tensor is held by a handle, into which the collector cannot look",
)
def test_a_cycle_through_its_attributes_is_collected() -> None:
    x = torch.zeros(3)
    number = ext.keep(x)
    x.seen = ext.give(number, "tensor")
    ext.drop(number)
    ref = weakref.ref(x)
    del x
    assert ref() is not None
    gc.collect()
    assert ref() is None


def test_no_memory_is_lost() -> None:
    import resource

    x = torch.ones(4)
    refused = torch.ones(3, dtype=torch.complex64).conj()

    def rounds(n: int) -> None:
        for _ in range(n):
            ext.there_and_back(x)
            number = ext.buffer(8)
            ext.give(number, "torch")
            ext.drop(number)
            with pytest.raises(BufferError):
                ext.own(refused)

    rounds(500)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rounds(5000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4096
