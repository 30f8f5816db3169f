"""Operators as torch's own: schema, compilers, autograd, vmap, export, and torch's own checks of them."""

from __future__ import annotations

import contextlib
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch._dynamo.testing")
isthmus = pytest.importorskip("isthmus")
operators = pytest.importorskip("isthmus.operators")


@pytest.fixture
def ext(bare):
    """The operators are the same objects in every binder's module; one test goes through all of them."""
    return bare


@pytest.fixture
def ops(ext):
    """torch.ops of the module's namespace, with all its operators."""
    ext.distance(torch.ones(1, 2), torch.ones(1, 2))
    for name in dir(ext):  # the first call of each would do it
        if isinstance(getattr(ext, name), type(ext.distance)):
            with contextlib.suppress(isthmus.Error):  # both::twice is another module's
                operators._offer(getattr(ext, name), "torch")
    return getattr(torch.ops, repr(ext.distance).split()[-1].split("::")[0])


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*batching rule.*")
        warnings.filterwarnings("error", message=".*autograd kernel was not registered.*")
        yield


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return ((a[:, None] - b[None]) ** 2).sum(-1)


def points(n: int = 5, m: int = 4, d: int = 3, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.rand(n, d, dtype=dtype), torch.rand(m, d, dtype=dtype)


def test_the_schema_is_made_from_the_types(ops):
    schemas = {
        "distance": "(Tensor a, Tensor b) -> Tensor",
        "scale": '(Tensor x, float factor=2., SymInt times=1, bool negate=False, str mode="plain") -> Tensor',
        "weighted": "(Tensor x, Tensor? w=None) -> (Tensor, Tensor)",
        "add_to": "(Tensor(a!) y, Tensor x) -> ()",
        "first": "(Tensor x, SymInt k) -> Tensor",
    }
    for name, schema in schemas.items():
        assert str(getattr(ops, name).default._schema).endswith(f"::{name}{schema}")


@pytest.mark.parametrize("binder", ["nanobind", "pybind11"])
def test_an_operator_of_every_binder(binder):
    module = pytest.importorskip(f"isthmus_operators_{binder}_test_ext")
    a, b = points()
    a.requires_grad_()
    compiled = torch.compile(module.distance, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(a, b), reference(a, b))
    compiled(a, b).sum().backward()
    torch.testing.assert_close(a.grad, 2 * (4 * a - b.sum(0)).detach())
    assert getattr(torch.ops, f"geo_{binder}").distance(a, b).shape == (5, 4)


def test_the_operator_computes(ext, ops):
    a, b = points()
    torch.testing.assert_close(ops.distance(a, b), reference(a, b))
    assert ops.distance(a.double(), b.double()).dtype == torch.float64
    ops.distance(a, b)
    assert ext.last_call()[:2] == (a.data_ptr(), 0), "in place, without the GIL"
    torch.testing.assert_close(ops.scale(a, 3.0, times=2, negate=True, mode="square"), -((9 * a) ** 2))
    x = torch.arange(3).double()
    assert [r.tolist() for r in ops.weighted(x)] == [3.0, [0.0, 1.0, 2.0]]
    assert ops.weighted(x, 2 * torch.ones(3).double())[0] == 6
    assert ops.twice(torch.arange(3, dtype=torch.int32)).tolist() == [0, 2, 4]


def test_what_is_written_moves_its_version(ops):
    y = torch.ones(3)
    assert ops.add_to(y, torch.ones(3)) is None
    assert y.tolist() == [2, 2, 2]
    assert y._version == 1
    with pytest.raises(RuntimeError, match="argument 'y' requires grad"):
        ops.add_to(torch.ones(3, requires_grad=True), y)
    with torch.no_grad():
        ops.add_to(torch.ones(3, requires_grad=True), y)


def test_a_mistake_is_our_sentence(ops):
    a, b = points()
    with pytest.raises(RuntimeError, match=r"distance\(\): argument 'b': expected.*d is 2 here and 3 in argument 'a'"):
        ops.distance(a, b[:, :2])
    with pytest.raises(RuntimeError, match=r"distance\(\): argument 'b': expected float32\[m, d\].*got float64"):
        ops.distance(a, b.double())
    with pytest.raises(RuntimeError, match=r"fail\(\): far out"):
        ops.fail(a[0], "index")


def test_what_cannot_be_described_or_made_is_refused(ops):
    for x in (torch.empty([1] * 65, dtype=torch.float64), torch.empty(3, dtype=torch.bits8)):
        with pytest.raises(
            RuntimeError, match=r"dot\(\): argument 'a': this torch.Tensor has no memory that can be described"
        ):
            ops.dot(x, torch.ones(3).double())
    with pytest.raises(RuntimeError, match=r"first\(\): torch made no tensor of float32\(.*\) for the result"):
        ops.first(torch.ones(3), 1 << 60)


@pytest.mark.parametrize("how", ["function", "operator"])
def test_gradients(ext, ops, how):
    f = ext.distance if how == "function" else ops.distance
    a, b = (t.requires_grad_() for t in points(dtype=torch.float64))
    assert torch.autograd.gradcheck(f, (a, b))
    x, z = (t.detach().clone().requires_grad_() for t in (a, b))
    f(a, b).cos().sum().backward()
    reference(x, z).cos().sum().backward()
    torch.testing.assert_close(a.grad, x.grad)
    torch.testing.assert_close(b.grad, z.grad)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gradients_of_a_set_of_narrow_dtypes(ext, dtype):
    x = torch.ones(3, dtype=dtype, requires_grad=True)
    (2 * ext.same(x)).sum().backward()
    assert x.grad.dtype == dtype
    assert x.grad.tolist() == [2, 2, 2]


def test_gradients_of_a_part(ext):
    a, b = points()
    a.requires_grad_()
    (grad,) = torch.autograd.grad(ext.distance(a, b).sum(), a)
    torch.testing.assert_close(grad, 2 * (4 * a - b.sum(0)).detach())
    x = torch.rand(4, requires_grad=True)
    ext.scale(x, 3.0, 2).sum().backward()
    torch.testing.assert_close(x.grad, torch.full((4,), 9.0))


def test_without_a_gradient_none_is_lost(ext, ops):
    x = torch.ones(3).double().requires_grad_()
    with pytest.raises(BufferError, match="argument 'x': it requires grad, and this operator has no gradient"):
        ext.weighted(x)
    with pytest.raises(BufferError, match="argument 'w': it requires grad, and this operator has no gradient"):
        ext.weighted(x.detach(), x)
    with torch.no_grad():
        assert ext.weighted(x)[0] == 3
    with pytest.raises(RuntimeError, match="weighted has no gradient; register it in C"):
        ops.weighted(x)[0].backward()


def test_a_tangent_is_not_lost(ext, ops):
    a, b = points()
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(a, a)
        with pytest.raises(BufferError, match=r"distance\(\): argument 'a': it has a tangent"):
            ext.distance(dual, b)
        with pytest.raises(NotImplementedError, match=r"distance\(\): argument 'a': it has a tangent"):
            ops.distance(dual, b)
    with pytest.raises(NotImplementedError, match="it has a tangent"):
        torch.func.jvp(ext.distance, (a, b), (a, b))


def test_a_second_derivative_is_refused(ext):
    a, b = points()
    a.requires_grad_()
    (grad,) = torch.autograd.grad(ext.distance(a, b).sum(), a, create_graph=True)
    with pytest.raises(RuntimeError, match="geo::distance_gradient has no gradient"):
        grad.sum().backward()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("how", ["function", "operator"])
def test_compiled_whole_with_gradients(ext, ops, backend, how):
    f = ext.distance if how == "function" else ops.distance
    counter = torch._dynamo.testing.CompileCounterWithBackend(backend)
    compiled = torch.compile(lambda x, y: f(x.sin(), y) + 1, fullgraph=True, dynamic=True, backend=counter)
    for n in (6, 5, 9):
        a, b = points(n, 4)
        a.requires_grad_()
        result = compiled(a, b)
        result.sum().backward()
        x = a.detach().clone().requires_grad_()
        expected = reference(x.sin(), b) + 1
        expected.sum().backward()
        torch.testing.assert_close(result, expected)
        torch.testing.assert_close(a.grad, x.grad)
    assert counter.frame_count == 1, "another size is no reason to compile again"


def test_compiled_scalars_options_writes_and_tuples(ext):
    def f(x, y):
        y = y.clone()
        ext.add_to(y, ext.scale(x, 3.0, negate=True, mode="plain"))
        total, parts = ext.weighted(y.double())
        return total, parts, ext.weighted(y.double(), w=parts)[0], ext.first(y, 2), ext.twice(y)

    x, y = torch.rand(4), torch.rand(4)
    for got, wanted in zip(torch.compile(f, fullgraph=True, backend="aot_eager")(x, y), f(x, y), strict=True):
        torch.testing.assert_close(got, wanted)


def test_a_mistake_is_our_sentence_in_a_compiled_function(ext):
    a, b = points()
    compiled = torch.compile(lambda x, y: ext.distance(x, y), fullgraph=True, backend="aot_eager")
    with pytest.raises(Exception, match=r"argument 'b': expected float32.*d is 2 here and 3 in argument 'a'"):
        compiled(a, b[:, :2])
    with pytest.raises(Exception, match=r"argument 'b': expected float32.*got float64"):
        compiled(a, b.double())


class Distances(torch.nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, a, b):
        return self.f(a, b) + 1


@pytest.mark.parametrize("strict", [False, True])
def test_exported_with_symbolic_sizes(ext, strict):
    a, b = points()
    sizes = {"a": {0: torch.export.Dim("n")}, "b": {0: torch.export.Dim("m")}}
    exported = torch.export.export(Distances(ext.distance), (a, b), dynamic_shapes=sizes, strict=strict)
    assert any("distance.default" in str(node.target) for node in exported.graph.nodes)
    for n, m in ((7, 2), (3, 9)):
        a, b = points(n, m)
        torch.testing.assert_close(exported.module()(a, b), reference(a, b) + 1)


@pytest.mark.slow
def test_packaged_by_aot_inductor(ext, tmp_path):
    a, b = points()
    exported = torch.export.export(Distances(ext.distance), (a, b))
    # For these headers torch reads no variable; for those of its other compiler, tests/conftest.py sets one.
    once = {"aot_inductor.precompile_headers": False}
    path = str(tmp_path / "distances.pt2")
    package = torch._inductor.aoti_compile_and_package(exported, package_path=path, inductor_configs=once)
    torch.testing.assert_close(torch._inductor.aoti_load_package(package)(a, b), reference(a, b) + 1)


def test_a_traced_function_has_the_operator(ext):
    from torch.fx.experimental.proxy_tensor import make_fx

    a, b = points()
    graph = make_fx(ext.distance)(a, b)
    assert "distance.default" in graph.code
    torch.testing.assert_close(graph(2 * a, b), reference(2 * a, b))


def test_fake_tensors_have_the_sizes(ext):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        result = ext.distance(torch.empty(5, 3), torch.empty(4, 3))
        assert result.shape == (5, 4)
        with pytest.raises(ValueError, match=r"argument 'b': expected float32.*d is 2 here and 3 in argument 'a'"):
            ext.distance(torch.empty(5, 3), torch.empty(4, 2))


def test_mapped_by_vmap(ext):
    a, b = torch.rand(2, 5, 3), torch.rand(7, 4, 3)
    once = torch.vmap(ext.distance, in_dims=(0, None))(a, b[0])
    torch.testing.assert_close(once, torch.stack([reference(x, b[0]) for x in a]))
    both = torch.vmap(torch.vmap(ext.distance, in_dims=(None, 0)), in_dims=(0, None))(a, b)
    torch.testing.assert_close(both, torch.stack([torch.stack([reference(x, y) for y in b]) for x in a]))
    last = torch.vmap(ext.distance, in_dims=(2, None), out_dims=1)(a.movedim(0, 2), b[0])
    torch.testing.assert_close(last, once.movedim(0, 1))
    x = torch.rand(3, 4, 2)
    torch.testing.assert_close(torch.vmap(lambda v: ext.scale(v, 3.0), in_dims=2)(x), 3 * x.movedim(2, 0))
    total, parts = torch.vmap(ext.weighted)(x[..., 0].double())
    torch.testing.assert_close(total, parts.sum(-1))


def test_mapped_where_leading_dimensions_broadcast(ext):
    a, b = torch.rand(2, 6, 1, 3).double(), torch.rand(5, 2, 3).double()
    got = torch.vmap(ext.dot, in_dims=(0, 1))(a, b)
    torch.testing.assert_close(got, (a * b.transpose(0, 1)[:, None]).sum(-1))
    got = torch.vmap(ext.dot, in_dims=(0, None))(a[:, 0, 0], b)
    torch.testing.assert_close(got, (a[:, :1] * b).sum(-1))


def test_mapped_writes(ext):
    y, x = torch.zeros(2, 3), torch.rand(2, 3)
    torch.vmap(ext.add_to, out_dims=None)(y, x)
    torch.testing.assert_close(y, x)
    with pytest.raises(Exception, match="argument 'y': vmap does not map it"):
        torch.vmap(ext.add_to, in_dims=(None, 0), out_dims=None)(y[0], x)


def test_transforms_of_transforms(ext):
    a, b = torch.rand(2, 5, 3), torch.rand(4, 3)

    def loss(f):
        return lambda x, y: f(x, y).sin().sum()

    grads = torch.vmap(torch.func.grad(loss(ext.distance)), in_dims=(0, None))(a, b)
    torch.testing.assert_close(grads, torch.vmap(torch.func.grad(loss(reference)), in_dims=(0, None))(a, b))

    def mapped(f):
        return lambda x, y: torch.vmap(f, in_dims=(0, None))(x, y).sin().sum()

    for place in (0, 1):
        got = torch.func.grad(mapped(ext.distance), argnums=place)(a, b)
        torch.testing.assert_close(got, torch.func.grad(mapped(reference), argnums=place)(a, b))
    jacobian = torch.func.jacrev(ext.distance)(a[0], b)
    torch.testing.assert_close(jacobian, torch.func.jacrev(reference)(a[0], b))


CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


def samples(ops):
    a, b = points()
    return {
        "distance": (ops.distance, (a.requires_grad_(), b)),
        "double": (ops.distance, (a.detach().double(), b.double())),
        "batched": (ops.distance_batched, (1, a.detach()[None].requires_grad_(), b[None])),
        "gradient": (ops.distance_gradient, (torch.rand(5, 4), a.detach(), b)),
        "scale": (ops.scale, (torch.rand(3, 4, requires_grad=True), 3.0)),
        "weighted": (ops.weighted, (torch.rand(3).double(), torch.rand(3).double())),
        "add_to": (ops.add_to, (torch.rand(3), torch.rand(3))),
        "twice": (ops.twice, (torch.rand(3, 4),)),
        "first": (ops.first, (torch.rand(5), 2)),
        "dot": (ops.dot, (torch.rand(4, 1, 3).double(), torch.rand(2, 3).double())),
    }


@pytest.mark.parametrize("order", [CHECKS, CHECKS[::-1]], ids=["forward", "backward"])
def test_opcheck_passes_in_any_order_also_after_vmap(ext, ops, order):
    torch.vmap(ext.distance, in_dims=(0, None))(torch.rand(2, 5, 3), torch.rand(4, 3))
    for name, (packet, arguments) in samples(ops).items():
        for check in order:
            result = torch.library.opcheck(packet.default, arguments, test_utils=check)
            assert result == {check: "SUCCESS"}, name


def test_registered_where_torch_comes_first(run_script):
    assert (
        run_script(
            """
        import torch, isthmus_operators_test_ext
        print(torch.ops.geo.distance(torch.ones(1, 2), torch.zeros(3, 2)).tolist())
        """
        )
        == "[[2.0, 2.0, 2.0]]\n"
    )


@pytest.mark.parametrize("by", ["first call", "register", "compiled"])
def test_registered_where_torch_comes_later(run_script, by):
    assert (
        run_script(
            f"""
        import isthmus_operators_test_ext as ext, torch
        assert not hasattr(torch.ops.geo, "distance")
        x = torch.ones(1, 2)
        if "{by}" == "first call":
            ext.distance(x, x)
        elif "{by}" == "register":
            import isthmus
            isthmus.operators.register("torch")
            isthmus.operators.register("torch")
        else:
            torch.compile(lambda x: ext.distance(x, x), fullgraph=True, backend="eager")(x)
        print(torch.ops.geo.distance(x, x).tolist())
        """
        )
        == "[[0.0]]\n"
    )


def test_a_module_imported_again_goes_by_the_same_registration(run_script):
    assert (
        run_script(
            """
        import sys, torch, isthmus_operators_test_ext as first
        del sys.modules["isthmus_operators_test_ext"]
        import isthmus_operators_test_ext as again
        x = torch.ones(1, 2)
        assert first is not again
        print(first.distance(x, x), again.distance(x, x), torch.ops.geo.distance(x, x).item())
        x.requires_grad_()
        again.distance(x, 2 * x.detach()).sum().backward()
        print(x.grad.tolist())
        """
        )
        == "tensor([[0.]]) tensor([[0.]]) 0.0\n[[-2.0, -2.0]]\n"
    )


def test_two_modules_with_one_name(run_script):
    pytest.importorskip("isthmus_operators_pybind11_test_ext")
    assert run_script(
        """
        import torch, isthmus_operators_test_ext as first, isthmus_operators_pybind11_test_ext as second
        x = torch.ones(2)
        print(second.twice(x).tolist(), second.distance(torch.ones(1, 2), torch.ones(1, 2)).tolist())
        import isthmus
        try:
            isthmus.operators.register("torch")
        except isthmus.Error as error:
            print(error)
        """
    ) == (
        "[2.0, 2.0] [[0.0]]\noperator 'both::twice': 'isthmus_operators_test_ext' has registered an operator of this "
        "name with torch, and 'isthmus_operators_pybind11_test_ext' has another; expected another name or namespace "
        "for one of them\n"
    )


def test_without_the_shims_python_implements_it(run_script):
    assert (
        run_script(
            """
        import torch, isthmus_operators_test_ext as ext
        a, b = torch.rand(5, 3), torch.rand(4, 3)
        expected = ((a[:, None] - b[None]) ** 2).sum(-1)
        assert torch.allclose(torch.ops.geo.distance(a, b), expected)
        compiled = torch.compile(lambda a, b: ext.distance(a, b) + 1, fullgraph=True, backend="aot_eager")
        assert torch.allclose(compiled(a, b), expected + 1)
        a.requires_grad_()
        ext.distance(a, b).sum().backward()
        assert torch.allclose(a.grad, 2 * (4 * a - b.sum(0)), atol=1e-5)
        assert torch.vmap(ext.distance, in_dims=(0, None))(torch.rand(2, 5, 3), b).shape == (2, 5, 4)
        print("done")
        """,
            ISTHMUS_NO_TORCH_SHIMS="1",
        )
        == "done\n"
    )


def test_a_result_of_too_many_dimensions_and_impossible_leads_are_refused(run_script):
    said = run_script(
        """
        import torch, isthmus_operators_test_ext as ext
        one = torch.ones([1] * 64, dtype=torch.float64)
        outer, batched = torch.ops.geo.outer, torch.ops.geo.outer_batched
        for call in (
            lambda: ext.outer(one, one),
            lambda: outer(one, one),
            lambda: torch.ops.geo.scale_gradient_batched(
                60, one.float(), one[0, 0, 0, 0, 0].float(), 2., 1, False, "plain"
            ),
            lambda: batched(2, torch.ones(3).double(), torch.ones(2).double()),
            lambda: batched(-1, torch.ones(3).double(), torch.ones(2).double()),
            lambda: batched((1 << 32) + 1, torch.ones(4, 3).double(), torch.ones(4, 2).double()),
        ):
            try:
                print(call().shape)
            except (RuntimeError, ValueError) as error:
                print(str(error).splitlines()[0])
        print(ext.outer(torch.ones([1] * 62).double(), torch.ones(2).double()).ndim)
        """
    )
    lines = said.splitlines()
    assert lines[0] == lines[1] == "outer(): argument 'out': it would have 65 dimensions; expected at most 64"
    assert "argument 'x': expected 60 leading dimensions, got float32" in lines[2]
    assert "argument 'a': expected 2 leading dimensions, got float64" in lines[3]
    assert (
        lines[4] == "outer_batched(): argument 'batch': found -1; expected a number of leading dimensions from 0 to 64"
    )
    assert "argument 'batch': found 4294967297; expected" in lines[5]
    assert lines[6] == "63"


def test_what_torch_refuses_is_told_by_name(run_script):
    said = run_script(
        """
        import torch
        library = torch.library.Library("geo", "FRAGMENT")
        library.define("distance(Tensor x) -> Tensor")
        import isthmus, isthmus_operators_test_ext as ext
        x = torch.ones(1, 2)
        print(ext.distance(x, x).item())
        def register():
            isthmus.operators.register("torch")
        for call in (register, register, lambda: ext.distance(x.clone().requires_grad_(), x)):
            try:
                print(call())
            except isthmus.Error as error:
                print(error)
        """
    ).splitlines()
    assert said[0] == "0.0"
    assert len(said) == 4
    for line in said[1:]:
        assert line.startswith("operator 'geo::distance': torch refused it: Tried to register an operator")


def test_many_threads_register_one_operator_once(run_script):
    said = run_script(
        """
        import threading, time, isthmus_operators_test_ext as ext, torch, isthmus
        from isthmus.operators import _torch
        define, barrier, wrong = _torch.TorchOperator.define, threading.Barrier(8), []
        def slow_define(self):
            time.sleep(0.2)
            define(self)
        _torch.TorchOperator.define = slow_define
        def register():
            barrier.wait()
            try:
                assert _torch.register(ext.distance).overload is torch.ops.geo.distance.default
            except Exception as error:
                wrong.append(error)
        threads = [threading.Thread(target=register) for _ in range(8)]
        [t.start() for t in threads], [t.join() for t in threads]
        print(wrong)
        """
    )
    assert said == "[]\n"


def test_a_write_in_place_with_a_default_left_out(ext, ops):
    y = torch.ones(3)
    ops.add_times(y, torch.ones(3))
    assert y.tolist() == [2, 2, 2]
    with torch.no_grad():
        ops.add_times(y, torch.ones(3))
    assert y.tolist() == [3, 3, 3]
    with pytest.raises(RuntimeError, match="argument 'x' requires grad"):
        ops.add_times(y, torch.ones(3, requires_grad=True))


def test_defaults_that_a_schema_cannot_spell(ext, ops):
    schema = ops.limit.default._schema
    assert str(schema).startswith("geo::limit(Tensor x, float most, str note=")
    assert schema.arguments[2].default_value == '"so" it\'s \\'
    assert str(ops.raise_to.default._schema).endswith("(Tensor x, float factor, float power) -> Tensor")
    x = torch.arange(3).double()
    assert ops.limit(x, 1.0).tolist() == [0, 1, 1]
    compiled = torch.compile(lambda x: ext.limit(x) + 1, fullgraph=True, backend="aot_eager")
    assert compiled(x).tolist() == [1, 2, 3]
    assert torch.vmap(ext.limit)(x[None]).tolist() == [[0, 1, 2]]


def test_an_unknown_framework_is_refused():
    with pytest.raises(ValueError, match="argument 'framework': found 'tensorflow'; expected one of 'torch', 'jax'"):
        operators.register("tensorflow")


def test_numpy_arrays_go_on_as_before(ext):
    assert type(ext.distance(np.ones((1, 2), np.float32), np.ones((1, 2), np.float32))) is np.ndarray
    assert ext.distance.__call__(np.ones((1, 2), np.float32), np.ones((1, 2), np.float32)).shape == (1, 1)


def test_a_compiled_call_is_not_compiled_again(ext):
    x = torch.rand(3, 2)
    compiled = torch.compile(lambda x: ext.distance(x, x), fullgraph=True, backend="eager")
    compiled(x)
    ext.distance.__call__(x, x)  # by name: what the compiler's guards look at stays
    with torch.compiler.set_stance("fail_on_recompile"):
        compiled(x)
