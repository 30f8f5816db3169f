"""A plain call goes by torch's dispatcher wherever that would do more than run the kernel: every mode, key and
subclass that torch has."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("isthmus.operators")

from torch.overrides import TorchFunctionMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

NAME = "kinds.square"


@pytest.fixture
def square(kinds, torch_kinds):
    return kinds.square


@pytest.fixture
def x():
    return torch.arange(1.0, 4.0)


class DispatchMode(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


class FunctionMode(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


class Wrapped(torch.Tensor):
    """A subclass with memory whose operations are its own."""

    seen: ClassVar[list[str]] = []

    @staticmethod
    def __new__(cls, inner):
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(str(func))
        result = func(*(a.inner if isinstance(a, cls) else a for a in args), **(kwargs or {}))
        return cls(result) if isinstance(result, torch.Tensor) else result


class Functions(torch.Tensor):
    """A subclass that torch makes its results of."""

    seen: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(str(func))
        return super().__torch_function__(func, types, args, kwargs or {})


class Bare(torch.Tensor):
    """A subclass without anything."""


def test_the_tracer_of_torchscript(square, x):
    traced = torch.jit.trace(lambda x: square(x) + 1, (x,))
    assert "kinds::square" in str(traced.graph)
    assert traced(2 * x).tolist() == [5, 17, 37]


def test_the_tracer_of_fx(square, kinds, x):
    graph = torch.fx.symbolic_trace(lambda x: square(x) + 1)
    assert NAME in graph.code
    assert graph(2 * x).tolist() == [5, 17, 37]
    sized = torch.fx.symbolic_trace(lambda index, n: kinds.one_hot(index, n))
    assert sized(torch.tensor([1]), 2).tolist() == [[0, 1]]


@pytest.mark.parametrize("mode", ["fake", "real", "symbolic"])
def test_make_fx(square, x, mode):
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(lambda x: square(x) + 1, tracing_mode=mode)(x)
    assert NAME in graph.code
    assert graph(2 * x).tolist() == [5, 17, 37]


def test_modes(square, kinds, x):
    with DispatchMode() as dispatch:
        assert square(x).tolist() == [1, 4, 9]
    assert dispatch.seen == [f"{NAME}.default"]
    with FunctionMode() as function:
        square(x)
    assert function.seen == [f"{NAME}.default"]
    with FunctionMode() as function, torch._C.DisableTorchFunction():
        square(x)
    assert function.seen == []
    with torch.device("cpu"), DispatchMode() as dispatch:
        assert square(x).tolist() == [1, 4, 9]
        index = kinds.take(np.array([1, 0]), torch.eye(2))  # the first argument is not torch's
    assert [name for name in dispatch.seen if name.startswith("kinds")] == [f"{NAME}.default", "kinds.take.default"]
    assert index.tolist() == [[0, 1], [1, 0]]


def test_fake_tensors(square):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        assert type(square(torch.ones(3))).__name__ == "FakeTensor"
        fake = torch.ones(3)
    assert square(fake).shape == (3,)  # outside of its mode too
    del mode


def test_subclasses(square, x):
    Wrapped.seen.clear()
    result = square(Wrapped(x))
    assert type(result) is Wrapped
    assert (result.inner.tolist(), Wrapped.seen[0]) == ([1, 4, 9], f"{NAME}.default")
    Functions.seen.clear()
    assert type(square(x.as_subclass(Functions))) is Functions
    assert f"{NAME}.default" in Functions.seen
    assert type(square(x.as_subclass(Bare))) is Bare


def test_a_subclass_beside_another_framework(kinds, torch_kinds):
    index, rows = np.array([1, 0]), torch.eye(2).as_subclass(Bare)
    assert type(kinds.take(index, rows)) is Bare


def test_what_is_no_subclass_stays_a_plain_call(square, x):
    for plain in (x, torch.nn.Parameter(x, requires_grad=False), torch.nn.Buffer(x)):
        assert type(square(plain)) is torch.Tensor
    with torch.inference_mode():
        assert square(x).is_inference()
    with torch.no_grad():
        assert not square(torch.nn.Parameter(x)).requires_grad


def test_keys_of_tensors(square, x):
    assert square(torch._neg_view(x)).tolist() == [1, 4, 9]
    values = torch.complex(x, x)
    torch.testing.assert_close(square(values.conj()), values.conj().resolve_conj() ** 2)
    torch.testing.assert_close(square(values.conj().imag.contiguous()), x * x)
    assert square(torch._efficientzerotensor(3)).tolist() == [0, 0, 0]
    result = square(x.to("meta"))
    assert (result.device.type, result.shape) == ("meta", (3,))
    functional = torch._to_functional_tensor(x)
    assert torch._is_functional_tensor(square(functional))


@pytest.mark.parametrize(
    "make", [lambda x: x.to_sparse(), lambda x: x.to_mkldnn(), lambda x: x.reshape(1, 3).to_sparse_csr()]
)
def test_a_layout_without_a_kernel_is_our_error(square, x, make):
    with pytest.raises(BufferError, match=r"square\(\): argument 'x': layout is torch\."):
        square(make(x))


def test_a_kernel_that_somebody_registered_for_a_layout(run_script):
    code = """
    import torch, isthmus_operators_kinds_test_ext as kinds, isthmus.operators
    isthmus.operators.register("torch")
    library = torch.library.Library("kinds", "IMPL")
    library.impl("square", lambda x: x.coalesce() * x.coalesce(), "SparseCPU")
    x = torch.arange(3.).to_sparse()
    assert kinds.square(x).to_dense().tolist() == [0, 1, 4]
    """
    run_script(code)


def test_transforms(square, x):
    assert torch.func.functionalize(square)(x).tolist() == [1, 4, 9]
    assert torch.vmap(square)(x.reshape(3, 1)).tolist() == [[1], [4], [9]]
    assert torch.func.grad(lambda x: square(x).sum())(x).tolist() == [2, 4, 6]
    with DispatchMode() as mode:
        torch.vmap(lambda _: square(x))(torch.ones(2))
    assert f"{NAME}.default" in mode.seen


def test_autocast(run_script):
    code = """
    import torch, isthmus_operators_kinds_test_ext as kinds, isthmus.operators
    isthmus.operators.register("torch")
    x = torch.arange(3., dtype=torch.bfloat16)
    torch.library.register_autocast("kinds::square", "cpu", torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert kinds.square(x).dtype == torch.float32
        with torch.autocast("cpu", enabled=False):
            try:
                kinds.square(x)
            except ValueError as error:
                assert "got bfloat16[3]" in str(error)
            else:
                raise AssertionError("a plain call takes no bfloat16")
    for hidden in range(3):
        with torch.autocast("cpu"):
            assert kinds.arange_like(torch.ones(2, 3)).tolist() == [0, 1]
    """
    run_script(code)
    run_script(code, ISTHMUS_NO_TORCH_SHIMS="1")


def test_each_thread_has_a_state_of_its_own(square, x):
    from concurrent.futures import ThreadPoolExecutor

    def in_mode():
        with DispatchMode() as mode:
            square(x)
        return mode.seen

    with ThreadPoolExecutor(4) as pool:
        seen = [pool.submit(in_mode if i % 2 else lambda: square(x).tolist()) for i in range(40)]
        results = [future.result() for future in seen]
    assert results == [[1, 4, 9], [f"{NAME}.default"]] * 20


def test_out_in_a_call_that_torch_sees(square, kinds, x):
    out = torch.zeros(3)
    for mode in (DispatchMode(), FunctionMode()):
        with mode:
            assert square(x, out=out) is out
        assert out.zero_().tolist() == [0, 0, 0]
    compiled = torch.compile(lambda x, out: square(x, out=out), fullgraph=True, backend="aot_eager")
    assert compiled(x, out) is out
    assert out.tolist() == [1, 4, 9]
    inductor = torch.compile(lambda x, out: kinds.square(2 * x, out=out) + 1, fullgraph=True)
    assert inductor(x, out).tolist() == [5, 17, 37]
    assert out.tolist() == [4, 16, 36]
    array = np.zeros(3, np.float32)
    with DispatchMode():
        assert square(x, out=array) is array
    assert array.tolist() == [1, 4, 9]


def test_an_out_that_does_not_fit_such_a_call(square, x):
    with DispatchMode():
        with pytest.raises(ValueError, match=r"square\(\): argument 'out': expected sizes \(3,\), got float32\[4\]"):
            square(x, out=torch.zeros(4))
        with pytest.raises(ValueError, match=r"square\(\): argument 'out': expected float32, got float64\[3\]"):
            square(x, out=torch.zeros(3, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"square\(\): argument 'out': torch records this call .* expected no out="):
        square(x.requires_grad_(), out=torch.zeros(3))


def test_several_results_into_a_tuple(ext, torch_kinds):
    x = torch.arange(3.0, dtype=torch.float64)
    outs = (torch.zeros((), dtype=torch.float64), torch.zeros(3, dtype=torch.float64))
    compiled = torch.compile(lambda x, outs: ext.weighted(x, out=outs), fullgraph=True, backend="aot_eager")
    compiled(x, outs)
    assert (outs[0].item(), outs[1].tolist()) == (3, [0, 1, 2])
    with DispatchMode(), pytest.raises(TypeError, match=r"argument 'out': expected a tuple of 2 tensors, got Tensor"):
        ext.weighted(x, out=outs[0])


def test_the_kernel_before_the_shims_does_not_begin_again(run_script):
    code = """
    import torch, isthmus_operators_kinds_test_ext as kinds, isthmus.operators
    from torch.utils._python_dispatch import TorchDispatchMode
    isthmus.operators.register("torch")
    x = torch.arange(3.)
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))
    with Mode(), torch.autocast("cpu"):
        assert kinds.square(x).tolist() == [0, 1, 4]
    assert torch.jit.trace(lambda x: kinds.square(x), (x,))(2 * x).tolist() == [0, 4, 16]
    """
    run_script(code, ISTHMUS_NO_TORCH_SHIMS="1")
