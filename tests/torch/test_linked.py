"""isthmus/torch.h: an extension that links libtorch."""

from __future__ import annotations

import gc
import sys
import threading
from types import ModuleType
from unittest import mock

import pytest

torch = pytest.importorskip("torch", exc_type=ImportError)
np = pytest.importorskip("numpy")
stable = pytest.importorskip("isthmus_torch_stable_ext")


@pytest.fixture(params=["isthmus_torch_test_ext", "isthmus_torch_backend_test_ext"])
def ext(request: pytest.FixtureRequest) -> ModuleType:
    """The extension with the bridge in it, and the one that reaches it by the backend's table."""
    return pytest.importorskip(request.param, reason="not built: configure with -DISTHMUS_TORCH=ON")


class Mine(torch.Tensor):
    pass


def tensors() -> dict[str, torch.Tensor]:
    return {
        "plain": torch.arange(3.0),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "subclass": torch.ones(2).as_subclass(Mine),
        "history": torch.ones(2, requires_grad=True) * 2,
        "view": torch.ones(4, 6)[1:, ::2],
        "conj": torch.ones(2, dtype=torch.complex64).conj(),
        "sparse": torch.eye(3).to_sparse(),
        "empty": torch.ones(0),
        "meta": torch.ones(2, device="meta"),
    }


@pytest.mark.parametrize("name", tensors())
def test_there_and_back_is_the_same_object(ext: ModuleType, name: str) -> None:
    x = tensors()[name]
    assert ext.there_and_back(x) is x
    assert ext.own(x)[0] == ext.borrow(x)[0]


def test_own_adds_one_reference_and_borrow_none(ext: ModuleType) -> None:
    x = torch.ones(3)
    python, tensor = sys.getrefcount(x), ext.borrow(x)[1]
    assert ext.own(x)[1] == tensor + 1
    assert ext.borrow(x)[1] == tensor
    assert sys.getrefcount(x) == python


def test_hooks_subclass_and_history_survive_the_last_python_reference(ext: ModuleType) -> None:
    a = torch.ones(2, requires_grad=True)
    seen = []
    x = (a * 2).as_subclass(Mine)
    x.note = "kept"
    x.register_hook(lambda grad: seen.append(grad.tolist()))
    number = ext.keep(x)
    del x
    gc.collect()
    back = ext.give(number)
    assert type(back) is Mine
    assert back.note == "kept"
    back.sum().backward()
    assert a.grad.tolist() == [2, 2]
    assert seen == [[1, 1]]
    ext.drop(number)


@pytest.mark.parametrize("drop", ["drop", "drop_without_gil", "drop_on_thread"])
def test_counts_with_python_last(ext: ModuleType, drop: str) -> None:
    x = torch.ones(3)
    python, tensor = sys.getrefcount(x), ext.borrow(x)[1]
    numbers = [ext.keep(x) for _ in range(4)]
    assert ext.borrow(x)[1] == tensor + 4
    for number in numbers:
        getattr(ext, drop)(number)
    assert ext.borrow(x)[1] == tensor
    assert sys.getrefcount(x) == python


@pytest.mark.parametrize("drop", ["drop", "drop_without_gil", "drop_on_thread"])
def test_counts_with_cpp_last(ext: ModuleType, drop: str) -> None:
    before = ext.buffers()
    x = ext.buffer(4)
    number = ext.keep(x)
    del x
    gc.collect()
    assert ext.buffers() == before + 1
    assert ext.kept(number)[1] in (1, 2)  # the dormant PyObject counts in some versions of torch
    getattr(ext, drop)(number)
    assert ext.buffers() == before


@pytest.mark.parametrize("drop", ["drop_tensor", "drop_tensor_without_gil", "drop_tensor_on_thread"])
@pytest.mark.parametrize("python_last", [True, False])
def test_counts_through_an_isthmus_tensor(ext: ModuleType, drop: str, python_last: bool) -> None:
    before = ext.buffers()
    x = ext.buffer(4)
    python, tensor = sys.getrefcount(x), ext.borrow(x)[1]
    number = ext.keep_tensor(x)
    # One more of the at::Tensor, or of the torch.Tensor if the bridge is behind the table.
    assert ext.borrow(x)[1] == tensor + 1 or sys.getrefcount(x) == python + 1
    if python_last:
        assert ext.give_tensor(number) is x
        getattr(ext, drop)(number)
        assert (sys.getrefcount(x), ext.borrow(x)[1]) == (python, tensor)
        del x
    else:
        del x
        gc.collect()
        assert ext.give_tensor(number).tolist() == [0, 1, 2, 3]
        assert ext.buffers() == before + 1
        getattr(ext, drop)(number)
    assert ext.buffers() == before


def test_a_tensor_made_without_the_gil(ext: ModuleType) -> None:
    before = ext.buffers()
    number = ext.make_on_thread(4)
    x = ext.give(number)
    assert x.tolist() == [0, 1, 2, 3]
    assert ext.give(number) is x
    ext.drop_on_thread(number)
    assert x[3] == 3
    del x
    assert ext.buffers() == before


def test_a_tensor_from_torch_is_the_same_again(ext: ModuleType) -> None:
    x = (torch.ones(3, requires_grad=True) * 2).as_subclass(Mine)
    impl = ext.borrow(x)[0]
    assert ext.through_isthmus(x) is x
    found, back = ext.to_at(x)
    assert found == impl
    assert back is x


def test_other_extensions_find_the_object_too(ext: ModuleType) -> None:
    x = torch.ones(3)
    shared = ext.as_isthmus(x)
    number = stable.keep(shared)
    assert stable.give(number, "torch") is x
    assert "owner torch.Tensor" in repr(shared)
    stable.drop(number)
    # and the other way round: imported by the shims there, an at::Tensor here
    number = stable.keep(x)
    assert ext.to_at(stable.give(number, "tensor"))[1] is x
    stable.drop(number)


def test_other_arrays_become_at_tensors(ext: ModuleType) -> None:
    a = np.arange(6.0).reshape(2, 3)[:, ::2]
    x = ext.to_at(a)[1]
    assert x.tolist() == a.tolist()
    assert x.data_ptr() == a.ctypes.data
    a[0, 0] = 7
    assert x[0, 0] == 7
    a.flags.writeable = False
    with pytest.raises(BufferError, match="read-only"):
        ext.to_at(a)
    assert ext.to_at(a, True)[1].tolist() == a.tolist()


DTYPES = [
    "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "bool", "float16", "bfloat16", "float32",
    "float64", "complex32", "complex64", "complex128", "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz",
    "float8_e4m3fnuz", "float8_e8m0fnu",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype(ext: ModuleType, name: str) -> None:
    x = torch.empty(2, 3, dtype=getattr(torch, name))
    data, shape, strides, dtype, device, read_only = ext.describe(x)
    assert (data, shape, strides, device, read_only) == (x.data_ptr(), (2, 3), (3, 1), "cpu", False)
    assert dtype == name
    if name.startswith("float8") and not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        return  # older than 2.10: exports no float8, so there is no way in but this one
    back = ext.to_at(stable_alias(x))[1]
    assert back.dtype == x.dtype
    assert back.data_ptr() == x.data_ptr()


def stable_alias(x: torch.Tensor) -> object:
    """An isthmus.Tensor of the same memory that does not know it came from torch."""
    number = stable.keep(x)
    shared = stable.give(number, "capsule")
    stable.drop(number)
    return shared


REFUSED = {
    "conj": (lambda: torch.ones(3, dtype=torch.complex64).conj(), "not_values", "conjugate bit"),
    "neg": (lambda: torch.ones(3, dtype=torch.complex64).conj().imag, "not_values", "negative bit"),
    "sparse": (lambda: torch.eye(3).to_sparse(), "not_values", "sparse"),
    "csr": (lambda: torch.eye(3).to_sparse_csr(), "not_values", "sparse"),
    "meta": (lambda: torch.ones(3, device="meta"), "not_values", "meta device"),
    "quantised": (lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), "not_values", "dequantize"),
    "mkldnn": (lambda: torch.ones(3).to_mkldnn(), "not_values", "mkldnn"),
    "nested": (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "not_values", "nested"),
    "zero": (lambda: torch._efficientzerotensor((3,)), "null_data", "data is NULL"),
    "bits": (lambda: torch.zeros(3, dtype=torch.uint8).view(torch.bits8), "bad_dtype", "its8"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REFUSED)
def test_bytes_that_are_not_values_are_refused(ext: ModuleType, name: str) -> None:
    make, code, text = REFUSED[name]
    try:
        x = make()
    except RuntimeError as error:
        pytest.skip(f"this torch makes none: {error}")
    # CPython 3.14 counts a local variable in some places and not in others.
    held = [x]
    python, tensor = sys.getrefcount(held[0]), ext.borrow(x)[1]
    with pytest.raises(BufferError, match=text) as caught:
        ext.describe(x, argument="image")
    assert caught.value.code == code
    assert str(caught.value).startswith("argument 'image': ")
    assert "Exception raised from" not in str(caught.value)
    assert text in ext.thrown(x)
    del caught
    after = sys.getrefcount(held[0]), ext.borrow(x)[1]  # not in the assert, where pytest holds what it shows
    assert after == (python, tensor)


def test_fake_tensors_are_refused(ext: ModuleType) -> None:
    fake = pytest.importorskip("torch._subclasses.fake_tensor")
    with fake.FakeTensorMode():
        x = torch.ones(3)
    with pytest.raises(BufferError):
        ext.describe(x)


def test_writes_are_seen_on_both_sides(ext: ModuleType) -> None:
    x = torch.zeros(3)
    ext.add_in_place(x, 2.0)
    assert x.tolist() == [2, 2, 2]
    assert x._version == 1
    mine = ext.buffer(3)
    mine.add_(1)
    ext.add_in_place(mine, 1.0)
    assert mine.tolist() == [2, 3, 4]


def test_autograd_complains_of_a_write(ext: ModuleType) -> None:
    a = torch.ones(3, requires_grad=True)
    c = (a * 1).exp()
    ext.add_in_place(c, 1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        c.sum().backward()
    with pytest.raises(BufferError, match="leaf tensor that requires grad") as caught:
        ext.add_in_place(a, 1.0)
    assert caught.value.code == "requires_grad"
    with torch.no_grad():
        ext.add_in_place(a, 1.0)
    assert a.tolist() == [2, 2, 2]
    assert ext.describe(a)[-1]
    assert not ext.describe(a, allow_grad=True)[-1]
    with torch.inference_mode():
        x = torch.ones(3)
    with pytest.raises(BufferError, match="nference tensor"):
        ext.add_in_place(x, 1.0)


@pytest.mark.parametrize("x", [None, 3, [1.0], np.zeros(3), torch.Tensor, torch.float32, mock.Mock(spec=torch.Tensor)])
def test_what_is_no_tensor_is_named(ext: ModuleType, x: object) -> None:
    for call in (ext.own, ext.borrow):
        with pytest.raises(TypeError, match=r"expected torch\.Tensor, got") as caught:
            call(x)
        assert caught.value.code == "not_a_tensor"
        assert str(caught.value).startswith("argument 'x': ")
    name = str(caught.value).rsplit("got ", 1)[1]
    assert type(x).__name__ in name


def test_undefined_tensors(ext: ModuleType) -> None:
    with pytest.raises(BufferError, match="undefined"):
        ext.undefined()
    with pytest.raises(BufferError, match="undefined"):
        ext.from_undefined()
    with pytest.raises(TypeError, match="NULL"):
        ext.from_null()
    assert ext.there_and_back_or_none(None) is None
    x = torch.ones(1)
    assert ext.there_and_back_or_none(x) is x
    with pytest.raises(TypeError, match="got int"):
        ext.there_and_back_or_none(3)


@pytest.mark.parametrize(
    ("how", "text"), [("reversed", "negative"), ("int4", "int4"), ("read_only", "read-only"), ("none", "empty")]
)
def test_what_torch_cannot_take_is_said(ext: ModuleType, how: str, text: str) -> None:
    before = ext.buffers()
    with pytest.raises((BufferError, ValueError), match=text):
        ext.refused_buffer(how)
    assert ext.buffers() == before


def test_many_threads_at_once(ext: ModuleType) -> None:
    x = torch.ones(4)
    python, tensor = sys.getrefcount(x), ext.borrow(x)[1]

    def work() -> None:
        for _ in range(300):
            number = ext.keep_tensor(x)
            assert ext.give_tensor(number) is x
            ext.drop_tensor_without_gil(number)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (sys.getrefcount(x), ext.borrow(x)[1]) == (python, tensor)


def test_torch_is_imported_after_the_extension(ext: ModuleType, run_script) -> None:
    run_script(f"""
import sys, {ext.__name__} as ext
for x in (object(), None, 3):
    try:
        ext.own(x)
    except TypeError as error:
        assert "torch is not imported" in str(error), error
    else:
        raise AssertionError
assert "torch" not in sys.modules
y = ext.buffer(3)   # the way out imports it
import torch
assert type(y) is torch.Tensor and ext.there_and_back(y) is y
""")


def test_another_version_of_torch_is_refused(ext: ModuleType, run_script) -> None:
    run_script(f"""
import torch
torch.__version__ = "2.3.1"
import {ext.__name__} as ext
for call, argument in ((ext.own, torch.ones(1)), (ext.buffer, 3)):
    try:
        call(argument)
    except BufferError as error:
        assert error.code == "unavailable" and "torch is 2.3.1" in str(error), error
    else:
        raise AssertionError
""")


def test_the_interpreter_ends_with_tensors_on_both_sides(ext: ModuleType, run_script) -> None:
    code = f"""
import torch, {ext.__name__} as ext
for i in range(40):
    x = torch.ones(10); x.note = i
    ext.keep(x)
    ext.keep_tensor_until_exit(ext.keep_tensor(x))
    y = ext.buffer(10)
    ext.keep_tensor_until_exit(ext.keep_tensor(y))
    torch.left = getattr(torch, "left", []) + [y]
    z = torch.ones(10); z.note = i
    ext.drop_tensor_later(ext.keep_tensor(z), 700 * i)
"""
    for _ in range(3):
        assert run_script(code).stderr == ""
