"""PyTorch tensors: layouts, dtypes, and every way in which their bytes are not their values.

Run as it is, by libtorch's stable shims where there are some; test_import_torch_older.py runs it again without them.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import weakref

import pytest

import isthmus_test_ext as ext

torch = pytest.importorskip("torch")

SHIMS_HIDDEN = os.environ.get("ISTHMUS_NO_TORCH_SHIMS", "0") != "0"

DTYPES = {
    "bool": "bool", "uint8": "uint8", "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64",
    "float16": "float16", "bfloat16": "bfloat16", "float32": "float32", "float64": "float64", "complex64": "complex64",
    "complex128": "complex128", "complex32": "complex32", "uint16": "uint16", "uint32": "uint32", "uint64": "uint64",
    "float8_e5m2": "float8_e5m2", "float8_e4m3fn": "float8_e4m3fn", "float8_e5m2fnuz": "float8_e5m2fnuz",
    "float8_e4m3fnuz": "float8_e4m3fnuz", "float8_e8m0fnu": "float8_e8m0fnu", "float4_e2m1fn_x2": "float4_e2m1fnx2",
}  # fmt: skip


def grid() -> torch.Tensor:
    return torch.arange(24, dtype=torch.float32).reshape(4, 6)


LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.T,
    "columns": lambda x: x[:, ::2],
    "offset": lambda x: x[1:, 2:],
    "broadcast": lambda x: x[0].expand(3, 6),
    "scalar": lambda x: x[2, 3],
    "one": lambda x: x[:1, :1],
    "empty": lambda x: x[:0],
    "empty_inside": lambda x: x[:, 3:3],
    "added_axes": lambda x: x[None, :, None],
    "diagonal": lambda x: x.diagonal(),
    "windows": lambda x: x[0].unfold(0, 3, 1),
    "channels_last": lambda x: x.reshape(1, 2, 3, 4).contiguous(memory_format=torch.channels_last),
}


def as_bytes(x: torch.Tensor) -> bytes:
    return bytes(x.contiguous().flatten().view(torch.uint8).tolist()) if x.numel() else b""


def check(found: dict, x: torch.Tensor) -> None:
    assert found["data"] == x.data_ptr()
    assert found["shape"] == tuple(x.shape)
    if x.numel():
        assert found["strides"] == x.stride()
    assert found["device"] == "cpu"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(take, layout: str) -> None:
    x = LAYOUTS[layout](grid())
    found = take(x)
    check(found, x)
    assert not found["read_only"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_values(elements, layout: str) -> None:
    x = LAYOUTS[layout](grid())
    assert elements(x) == as_bytes(x)


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes(take, name: str) -> None:
    dtype = getattr(torch, name, None)
    if dtype is None:
        pytest.skip(f"this torch has no {name}")
    x = torch.zeros(16, dtype=torch.uint8).view(dtype)
    try:
        torch.utils.dlpack.to_dlpack(x)
    except (BufferError, RuntimeError):
        if SHIMS_HIDDEN:
            pytest.skip(f"torch's own DLPack has no {name}")
    found = take(x)
    check(found, x)
    assert found["dtype"] == DTYPES[name]
    assert found["itemsize"] == x.itemsize


@pytest.mark.parametrize("name", ["quint4x2", "bits8", "bits1x8", "int1", "uint4"])
def test_dtypes_without_counterpart(take, refused, name: str) -> None:
    dtype = getattr(torch, name, None)
    if dtype is None:
        pytest.skip(f"this torch has no {name}")
    try:
        x = torch.empty(8, dtype=dtype)
    except (RuntimeError, NotImplementedError):
        pytest.skip(f"no tensor of {name} can be made")
    with pytest.raises(ext.Error) as info:
        take(x)
    assert info.value.code in ("bad_dtype", "not_values", "producer_failed")


def test_size_zero_has_no_address(take) -> None:
    x = torch.empty(0, 3)
    assert take(x)["data"] == x.data_ptr() == 0


# Bytes that are not the values


def test_conjugate(take, refused) -> None:
    x = torch.tensor([1 + 2j, 3 - 4j]).conj()
    assert ".resolve_conj()" in str(refused("not_values", BufferError, take, x))
    y = x.resolve_conj()
    check(take(y), y)
    check(take(x.conj()), x.conj())


def test_negative(take, refused) -> None:
    x = torch.tensor([1 + 2j, 3 - 4j]).conj().imag
    assert x.is_neg()
    assert ".resolve_neg()" in str(refused("not_values", BufferError, take, x))
    y = x.resolve_neg()
    check(take(y), y)
    for name in ("float16", "bfloat16", "float32", "float64", "complex64", "complex128"):
        refused("not_values", BufferError, take, torch._neg_view(torch.zeros(3, dtype=getattr(torch, name))))


def test_negative_and_conjugate(take, refused) -> None:
    refused("not_values", BufferError, take, torch._neg_view(torch.zeros(3, dtype=torch.complex64).conj()))


def test_sparse(take, refused) -> None:
    x = torch.eye(3)
    for y in (x.to_sparse(), x.to_sparse_csr(), x.to_sparse_csc(), x.to_sparse_bsr((1, 1)), x.to_sparse_bsc((1, 1))):
        assert ".to_dense()" in str(refused("not_values", BufferError, take, y))


def test_mkldnn(take, refused) -> None:
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this torch has no oneDNN")
    text = str(refused("not_values", BufferError, take, torch.eye(3).to_mkldnn()))
    assert "whose bytes are opaque; call .to_dense()" in text


@pytest.mark.parametrize("layout", ["strided", "jagged"])
def test_nested(take, refused, layout: str) -> None:
    x = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=getattr(torch, layout))
    error = refused("not_values", BufferError, take, x)
    assert "nested" in str(error)


def test_meta(take, refused) -> None:
    assert "meta" in str(refused("not_values", BufferError, take, torch.empty(3, device="meta")))
    refused("not_values", BufferError, take, torch.empty(0, device="meta"))


def test_quantised(take, refused) -> None:
    x = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
    error = refused("not_values", BufferError, take, x)
    assert "dequantize" in str(error)
    y = torch.quantize_per_channel(torch.ones(2, 2), torch.ones(2), torch.zeros(2), 0, torch.quint8)
    refused("not_values", BufferError, take, y)


def test_zero_tensor(take) -> None:
    x = torch._efficientzerotensor(3)
    with pytest.raises(ext.Error) as info:
        take(x)
    assert info.value.code in ("null_data", "not_values")


def test_fake_tensor(take) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        inside = torch.empty(3)
        converted = mode.from_tensor(grid())
    for x in (inside, converted):
        with pytest.raises(ext.Error) as info:
            take(x)
        assert info.value.code in ("null_data", "not_values", "producer_failed")


def test_functional_tensor(take) -> None:
    x = torch._to_functional_tensor(grid())
    with pytest.raises(ext.Error):
        take(x)


def test_batched_tensor_inside_vmap(take) -> None:
    codes = []

    def body(x: torch.Tensor) -> torch.Tensor:
        try:
            take(x)
        except ext.Error as error:
            codes.append(error.code)
        return x

    torch.vmap(body)(grid())
    assert len(codes) == 1


def test_wrapper_subclass(take) -> None:
    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            raise NotImplementedError(function)

    with pytest.raises(ext.Error):
        take(Wrapper(grid()))


def test_subclasses(take) -> None:
    class Named(torch.Tensor):
        pass

    for x in (grid().as_subclass(Named), torch.nn.Parameter(grid(), requires_grad=False), torch.nn.Buffer(grid())):
        check(take(x), x)


# Autograd


def test_grad_is_read_only(take, refused) -> None:
    leaf = grid().requires_grad_()
    found = take(leaf)
    check(found, leaf)
    assert found["read_only"]
    error = refused("requires_grad", BufferError, take, leaf, require_writable=True)
    assert "detach" in str(error)
    assert take(leaf.detach(), require_writable=True)["read_only"] is False


def test_grad_allowed(take) -> None:
    leaf = grid().requires_grad_()
    for options in ({}, {"require_writable": True}):
        found = take(leaf, allow_grad=True, **options)
        check(found, leaf)
        assert not found["read_only"]


def test_grad_mode_off(take) -> None:
    leaf = grid().requires_grad_()
    with torch.no_grad():
        assert take(leaf, require_writable=True)["read_only"] is False
    with torch.inference_mode():
        take(leaf)


def test_grad_of_a_result(take) -> None:
    """An in-place operation is allowed on what is no leaf."""
    result = grid().requires_grad_() * 2
    assert take(result, require_writable=True)["data"] == result.data_ptr()
    assert take(result)["read_only"]


def test_parameter(take, refused) -> None:
    parameter = torch.nn.Parameter(grid())
    assert take(parameter)["read_only"]
    refused("requires_grad", BufferError, take, parameter, require_writable=True)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float64", "complex64"])
def test_grad_of_every_kind(take, refused, name: str) -> None:
    x = torch.zeros(3, dtype=getattr(torch, name), requires_grad=True)
    assert take(x)["read_only"]
    refused("requires_grad", BufferError, take, x, require_writable=True)


def test_version_counter(take) -> None:
    """A write that autograd was told of is found when it spoils a saved tensor."""
    x = grid()
    before = x._version
    take(x)
    assert x._version == before
    take(x, require_writable=True)
    assert x._version == before + 1

    weight = torch.ones(4, 6, requires_grad=True)
    saved = grid()
    result = (weight * saved).sum()
    take(saved, require_writable=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward()


def test_inference_tensor(take) -> None:
    with torch.inference_mode():
        x = grid()
        check(take(x), x)
        check(take(x, require_writable=True), x)
    check(take(x), x)


def test_read_only_data_of_numpy_is_not_known(take) -> None:
    """Torch forgets that memory was read-only; nothing can be told that it does not say."""
    np = pytest.importorskip("numpy")
    a = np.zeros(3, np.float32)
    assert take(torch.from_numpy(a))["data"] == a.ctypes.data


# Ownership


def test_references_are_exact() -> None:
    x = grid()
    before = sys.getrefcount(x)
    for _ in range(100):
        ext.borrow(x)
        ext.own(x)
    assert sys.getrefcount(x) == before
    number = ext.keep(x)
    ext.drop(number)
    assert sys.getrefcount(x) == before


@pytest.mark.parametrize("drop", ["drop", "drop_without_gil", "with the GIL", "without the GIL"])
def test_the_memory_lives_as_long_as_the_handle(drop: str) -> None:
    freed = []
    buffer = (ctypes.c_float * 8)()
    owner = type("Owner", (), {})()
    weakref.finalize(owner, freed.append, 1)
    view = memoryview(buffer)
    buffer.owner = owner
    x = torch.frombuffer(view, dtype=torch.float32)
    del view, buffer, owner
    number = ext.keep(x)
    del x
    gc.collect()
    assert not freed
    assert ext.kept_elements(number) == bytes(32)
    if drop.startswith("drop"):
        getattr(ext, drop)(number)
    else:
        ext.drop_on_thread(number, drop == "with the GIL")
    gc.collect()
    assert freed == [1]


def test_references_after_refusal() -> None:
    x = torch.tensor([1 + 2j]).conj()
    before = sys.getrefcount(x)
    for _ in range(50):
        for call in (ext.borrow, ext.own):
            with pytest.raises(ext.Error):
                call(x)
    assert sys.getrefcount(x) == before


def test_copy(take) -> None:
    x = grid().T
    found = take(x, copy="always")
    assert found["data"] != x.data_ptr()
    assert found["shape"] == (6, 4)
    assert not found["read_only"]
    assert ext.own_elements(x, copy="always") == as_bytes(x)


def test_copy_of_what_is_no_values(take) -> None:
    """A copy of wrong bytes would be wrong too: it is refused, or it has the values."""
    x = torch.tensor([1 + 2j]).conj()
    try:
        found = ext.own_elements(x, copy="always")
    except ext.Error as error:
        assert error.code == "not_values"
    else:
        assert found == as_bytes(x.resolve_conj())


def test_the_type_itself_is_no_tensor(take, refused) -> None:
    refused("not_a_tensor", TypeError, take, torch.Tensor)
    refused("not_a_tensor", TypeError, take, torch.float32)
    refused("not_a_tensor", TypeError, take, torch.nn.Linear(2, 2))


def test_storage_is_no_tensor(take) -> None:
    with pytest.raises(ext.Error):
        take(grid().untyped_storage())


def test_a_layout_is_told_before_autograd(take, refused) -> None:
    x = torch.eye(3).to_sparse().requires_grad_()
    assert ".to_dense()" in str(refused("not_values", BufferError, take, x, require_writable=True))


def test_the_host_has_no_stream(take) -> None:
    assert take(grid(), stream=5)["stream"] == take(grid())["stream"]


@pytest.mark.parametrize("options", [{}, {"copy": "if_needed"}, {"copy": "always"}])
def test_a_subclass_whose_dlpack_refuses(take, refused, options) -> None:
    class Refuses(torch.Tensor):
        def __dlpack__(self, **_: object) -> object:
            raise BufferError("these are ciphers")

    x = torch.ones(3).as_subclass(Refuses)
    assert "these are ciphers" in str(refused("producer_failed", BufferError, take, x, **options))


def test_a_subclass_whose_dlpack_shows_other_memory(take) -> None:
    other = torch.arange(5.0)

    class Redirects(torch.Tensor):
        def __dlpack__(self, **options: object) -> object:
            return other.__dlpack__(**options)

    found = take(torch.ones(3).as_subclass(Redirects))
    assert (found["data"], found["shape"]) == (other.data_ptr(), (5,))
