"""PyTorch: a pointer of its own, by the stable shims; dtypes of every kind; read-only is lost there."""

import weakref

import numpy as np
import torch
from checks import (
    DTYPES,
    SMALL_FLOATS,
    Skip,
    from_threads,
    gone,
    kept_by_consumer,
    kept_by_isthmus,
    made,
    refuses,
    steps,
    values,
)
from waiting import eventually

import isthmus_test_ext as ext

VERSION = torch.__version__


def back(x):
    return ext.hand(x, "torch")


def check_consumer_every_dtype():
    for dtype in [*DTYPES, *SMALL_FLOATS]:
        t = made(dtype, (4,))
        for x in (back(t), torch.from_dlpack(t), t.to("torch")):
            assert type(x) is torch.Tensor
            assert str(x.dtype) == "torch." + dtype, (dtype, x.dtype)
            assert x.data_ptr() == t.data_ptr
            wanted = [1, 2, 3, 4] if dtype in SMALL_FLOATS else np.arange(4).astype(dtype).tolist()
            assert (x.to(torch.float64) if dtype in SMALL_FLOATS else x).tolist() == wanted


def check_consumer_packed_float4():
    if not hasattr(torch, "float4_e2m1fn_x2"):
        raise Skip("this PyTorch has no float4")
    for shape, padded in (([3], False), ([], False), ([4], True)):
        refused = refuses("bad_dtype", back, ext.pages(shape, "float4_e2m1fn", padded=padded))
        assert "float4_e2m1fn_x2, two packed elements a byte" in refused
    pairs = ext.pages([3, 4], "float4_e2m1fn")
    halves = back(pairs)
    assert (halves.dtype, halves.shape, halves.stride()) == (torch.float4_e2m1fn_x2, (3, 2), (2, 1))
    assert halves.data_ptr() == pairs.data_ptr
    x = torch.zeros(4, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    t = ext.tensor_of(x)
    assert t.data_ptr == x.data_ptr()
    assert t.nbytes == 4
    assert back(t) is x


def check_consumer_no_counterpart():
    for dtype in ("float8_e4m3", "float6_e2m3fn", "int4"):
        text = refuses("bad_dtype", back, ext.pages([4], dtype))
        assert "nearest" in text


def check_consumer_strides():
    grid = np.arange(24.0).reshape(4, 6)
    for a in (
        grid.T,
        grid[:, ::2],
        grid[1:, 2:],
        np.asfortranarray(grid),
        np.broadcast_to(grid[0], (3, 6)),
        grid[1, 2, ...],
        grid[:0],
        grid[:, 3:3],
        grid[None, :, None],
    ):
        t = ext.tensor_of(a).as_read_only() if not a.flags.writeable else ext.tensor_of(a)
        for x in (ext.hand(t, "torch", allow_read_only_loss=True), torch.from_dlpack(t)):
            assert tuple(x.shape) == a.shape
            assert x.tolist() == a.tolist()
            if a.size:
                assert x.data_ptr() == a.ctypes.data
                assert steps(x.stride(), x.shape) == [s // 8 for s in steps(a.strides, a.shape)]


def check_consumer_negative_strides_are_an_error():
    a = np.arange(4.0)[::-1]
    assert "negative" in refuses("bad_layout", back, a)
    assert "negative" in refuses("bad_layout", ext.tensor_of(a).to, "torch")


def check_consumer_scalars_and_nothing():
    for shape in ([], [0], [3, 0, 2]):
        t = ext.pages(shape)
        x = back(t)
        assert tuple(x.shape) == tuple(shape)
        assert torch.from_dlpack(t).shape == x.shape


def check_consumer_read_only_needs_the_callers_word():
    for t in (made(read_only=True), made().as_read_only()):
        text = refuses("read_only", t.to, "torch")
        assert "allow_read_only_loss" in text
        assert t.to("torch", allow_read_only_loss=True).data_ptr() == t.data_ptr


def check_consumer_writes_are_seen():
    t = made()
    back(t)[1, 2] = 50
    assert values(t)[1][2] == 50


def check_consumer_lifetime():
    for take in (back, torch.from_dlpack, lambda t: torch.utils.dlpack.from_dlpack(t.__dlpack__())):
        kept_by_consumer(take, torch.Tensor.tolist)


def check_consumer_views_keep_it():
    before = gone()
    x = back(made())[1:, ::2].view(-1)
    assert gone() == before
    assert x.tolist() == [3, 5]
    del x
    assert gone() == before + 1


def check_consumer_asarray():
    t = made()
    assert torch.asarray(t).data_ptr() == t.data_ptr
    assert torch.asarray(t, copy=True).data_ptr() != t.data_ptr


def check_consumer_autograd_works_on_it():
    x = back(made()).requires_grad_()
    (x * x).sum().backward()
    assert x.grad.tolist() == [[0, 2, 4], [6, 8, 10]]


def check_producer_every_dtype():
    for dtype in [*DTYPES, *SMALL_FLOATS]:
        x = back(made(dtype, (4,))).clone()
        t = ext.tensor_of(x)
        assert (t.dtype.name, t.data_ptr, t.shape, t.device.name) == (dtype, x.data_ptr(), (4,), "cpu")
        assert t.owner is x
        assert not t.read_only
        assert torch.from_dlpack(t).data_ptr() == x.data_ptr()


def check_producer_lifetime():
    kept_by_isthmus(lambda: torch.arange(6.0).reshape(2, 3), [[0, 1, 2], [3, 4, 5]])


def check_identity():
    class Sub(torch.Tensor):
        pass

    leaf = torch.ones(3, requires_grad=True)
    for x in (
        torch.zeros(3),
        torch.zeros(4)[1:],
        torch.zeros(2, 2).T,
        torch.zeros(3).as_subclass(Sub),
        torch.tensor(1),
        torch.zeros(0),
    ):
        assert back(x) is x
        assert ext.tensor_of(x).to("torch") is x
        assert ext.hand_like(x, torch.zeros(1)) is x
    for x in (torch.nn.Parameter(torch.zeros(3)), leaf):
        assert ext.tensor_of(x, allow_grad=True).to("torch") is x
    memory = torch.zeros(3)
    assert ext.hand_reshaped(memory, "torch") is not memory
    assert ext.hand_reshaped(memory, "torch").data_ptr() == memory.data_ptr()


def check_identity_keeps_what_python_knows():
    x = torch.zeros(3)
    x.note = "mine"
    t = ext.tensor_of(x)
    del x
    assert t.to("torch").note == "mine"


def check_identity_outlives_the_name():
    x = torch.zeros(3)
    ref = weakref.ref(x)
    t = ext.tensor_of(x)
    del x
    assert t.to("torch").tolist() == [0, 0, 0]
    del t
    eventually(lambda: ref() is None)


def check_like():
    t = made()
    assert type(ext.hand_like(t, torch.zeros(1))) is torch.Tensor
    assert type(ext.hand_like(torch.zeros(2), np.zeros(1))) is np.ndarray
    assert type(ext.hand_like(torch.zeros(2), object())) is type(t)


def check_to_numpy_and_back():
    x = torch.arange(4)
    a = ext.hand(x, "numpy")
    assert a.ctypes.data == x.data_ptr()
    assert ext.hand(np.from_dlpack(ext.tensor_of(x)), "torch").data_ptr() == x.data_ptr()


def check_threads():
    t = made()

    def work():
        x = back(t)
        assert x[1, 2] == 5
        assert back(x) is x
        assert torch.from_dlpack(t).data_ptr() == t.data_ptr

    before = gone()
    from_threads(work)
    assert gone() == before


def check_the_way_before_the_shims():
    """torch.from_dlpack with a capsule of either kind, by the names the documentation gives."""
    t = made()
    for version in (None, (1, 0)):
        assert torch.utils.dlpack.from_dlpack(t.__dlpack__(max_version=version)).data_ptr() == t.data_ptr
