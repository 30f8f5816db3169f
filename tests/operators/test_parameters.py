"""Arguments of operators that are dtypes, and those that may be None: scalars, strings, tensors that are written."""

from __future__ import annotations

import numpy as np
import pytest

import isthmus

X = np.zeros(3, np.float32)
NAMES = ["float32", "float64", "int32", "int64"]


@pytest.fixture
def torch(torch_parameters):
    return pytest.importorskip("torch")


@pytest.fixture
def jax():
    pytest.importorskip("isthmus.operators")
    return pytest.importorskip("jax")


@pytest.mark.parametrize("name", NAMES)
def test_a_dtype_in_every_spelling(parameters, name):
    spellings = [name, np.dtype(name), getattr(np, name), isthmus.DType(name)]
    for dtype in spellings:
        y = parameters.filled(X, dtype, 2)
        assert (y.dtype, y.tolist()) == (np.dtype(name), [2, 2, 2])
    out = np.empty(3, name)
    assert parameters.filled(X, name, 3, out=out) is out
    assert out.tolist() == [3, 3, 3]
    with pytest.raises(ValueError, match=r"argument 'out': expected float64, got float32|argument 'out': expected"):
        parameters.filled(X, "float64", 3, out=np.empty(3, np.float32))


def test_what_is_no_dtype_is_refused_by_name(parameters):
    with pytest.raises(ValueError, match=r"filled\(\): argument 'dtype': found 'floaty'; expected a name such as"):
        parameters.filled(X, "floaty")
    with pytest.raises(TypeError, match=r"filled\(\): argument 'dtype': found 3; expected a name such as 'float32'"):
        parameters.filled(X, 3)
    with pytest.raises(ValueError, match="argument 'dtype' is a dtype"):
        parameters.filled.ufunc  # noqa: B018


def test_a_dtype_has_a_default_and_may_be_none(parameters):
    assert parameters.bits(X).tolist() == [-1, 16]
    assert parameters.bits(X, None, second="int8").tolist() == [-1, 8]
    assert parameters.bits(X, np.int32).tolist() == [32, 16]
    assert "second='float16'" in str(__import__("inspect").signature(parameters.bits))


@pytest.mark.parametrize("name", NAMES)
def test_a_dtype_in_torch(parameters, torch_parameters, torch, name):
    x, dtype = torch.zeros(3), getattr(torch, name)
    compiled = torch.compile(parameters.filled, fullgraph=True, backend="aot_eager", dynamic=True)
    for f in (parameters.filled, torch_parameters.filled, compiled):
        y = f(x, dtype, 2)
        assert (y.dtype, y.tolist()) == (dtype, [2, 2, 2])
    assert parameters.filled(x, np.dtype(name)).dtype == dtype
    schema = "parameters::filled(Tensor like, ScalarType dtype, float value=1.) -> Tensor"
    assert str(torch_parameters.filled.default._schema) == schema
    torch.library.opcheck(torch_parameters.filled.default, (x, dtype))
    assert torch.vmap(lambda x: parameters.filled(x, dtype, 2))(torch.zeros(4, 3)).dtype == dtype
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        assert parameters.filled(torch.empty(5), name).dtype == dtype


def test_defaults_of_dtypes_in_torch(parameters, torch_parameters, torch):
    x = torch.zeros(3)
    compiled = torch.compile(parameters.bits, fullgraph=True, backend="aot_eager")
    for f in (parameters.bits, compiled):
        assert f(x).tolist() == [-1, 16]
        assert f(x, torch.int8).tolist() == [8, 16]
        assert f(x, second=torch.float64).tolist() == [-1, 64]
    assert torch_parameters.bits(x, None, torch.bfloat16).tolist() == [-1, 16]
    assert torch.vmap(parameters.bits)(torch.zeros(2, 3)).tolist() == [[-1, 16]] * 2
    torch.library.opcheck(torch_parameters.bits.default, (x, torch.int32, torch.int8))


def test_export_of_a_dtype(parameters, torch):
    class Module(torch.nn.Module):
        def forward(self, x):
            return parameters.filled(x, torch.int64, 5)

    exported = torch.export.export(Module(), (torch.zeros(3),))
    assert exported.module()(torch.zeros(3)).tolist() == [5, 5, 5]


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_dtype_in_jax(parameters, jax, name, x64):
    with jax.enable_x64(x64):
        expected = jax.numpy.zeros(1, name).dtype
        x = jax.numpy.zeros(3, jax.numpy.float32)
        for dtype in (name, np.dtype(name), getattr(jax.numpy, name)):
            for f in (parameters.filled, jax.jit(parameters.filled, static_argnums=1)):
                y = f(x, dtype, 2)
                assert (y.dtype, y.tolist()) == (expected, [2, 2, 2])
        mapped = jax.vmap(lambda x: parameters.filled(x, name, 2))(jax.numpy.zeros((4, 3), jax.numpy.float32))
        assert (mapped.shape, mapped.dtype) == ((4, 3), expected)
    assert jax.jit(parameters.bits)(x).tolist() == [-1, 16]
    with pytest.raises(ValueError, match=r"filled\(\): argument 'dtype': .*floaty"):
        jax.jit(lambda x: parameters.filled(x, "floaty"))(x)


@pytest.mark.parametrize("name", ["int32", "int64"])
def test_indices_of_either_width(parameters, torch_parameters, torch, jax, name):
    index = np.array([1, 2], name)
    assert parameters.shifted(index).dtype == name
    assert parameters.shifted.ufunc(index, 3).tolist() == [4, 5]
    of_torch = torch.from_numpy(index)
    compiled = torch.compile(parameters.shifted, fullgraph=True, backend="aot_eager")
    for f in (parameters.shifted, compiled):
        assert f(of_torch).dtype == of_torch.dtype
    with jax.enable_x64(name == "int64"):
        of_jax = jax.numpy.asarray(index)
        for f in (parameters.shifted, jax.jit(parameters.shifted)):
            assert f(of_jax).dtype == name
    assert jax.jit(parameters.shifted)(jax.numpy.array([1, 2])).dtype == "int32"


NONE = [-1, 7, -1, -1]
CALLS = [
    ({}, NONE),
    ({"number": None, "integer": None, "flag": None, "text": None}, [-1, -1, -1, -1]),
    ({"number": 0.0, "integer": 0, "flag": False, "text": ""}, [0, 0, 0, 0]),
    ({"number": 2.5, "integer": 3, "flag": True, "text": "four"}, [2.5, 3, 1, 4]),
]


@pytest.mark.parametrize(("given", "expected"), CALLS, ids=["defaults", "none", "zeros", "all"])
def test_scalars_that_may_be_none(parameters, torch_parameters, torch, jax, given, expected):
    assert parameters.scalars(X, **given).tolist() == expected
    x = torch.zeros(3)
    for backend in ("aot_eager", "inductor"):
        torch._dynamo.reset()
        compiled = torch.compile(parameters.scalars, fullgraph=True, backend=backend)
        assert compiled(x, **given).tolist() == expected
    for f in (parameters.scalars, torch_parameters.scalars):
        assert f(x, **given).tolist() == expected
    torch.library.opcheck(torch_parameters.scalars.default, (x,), given)
    assert torch.vmap(lambda x: parameters.scalars(x, **given))(torch.zeros(2, 3)).tolist() == [expected] * 2
    x = jax.numpy.zeros(3, jax.numpy.float32)
    assert jax.jit(lambda x: parameters.scalars(x, **given))(x).tolist() == expected
    if "text" not in given:
        traced = jax.jit(parameters.scalars)
        assert traced(x, number=2.0, flag=True).tolist() == [2, 7, 1, -1]
        assert jax.vmap(lambda x, number: parameters.scalars(x, number), (None, 0))(
            x, jax.numpy.array([1.0, 2.0])
        ).tolist() == [[1, 7, -1, -1], [2, 7, -1, -1]]


def test_a_scalar_that_may_be_none_is_typed_otherwise(parameters, torch_parameters):
    with pytest.raises(TypeError, match=r"scalars\(\): argument 'number': expected a number, got str"):
        parameters.scalars(X, "two")
    schema = "parameters::scalars(Tensor x, float? number=None, SymInt? integer=7, bool? flag=None, str? text=None)"
    assert str(torch_parameters.scalars.default._schema) == f"{schema} -> Tensor"


def test_a_place_that_may_be_written(parameters, torch_parameters, torch, jax):
    one = np.ones(3, np.float32)
    kept = np.zeros(3, np.float32)
    assert parameters.add_and_keep(one, one).tolist() == [2, 2, 2]
    assert parameters.add_and_keep(one, one, None).tolist() == [2, 2, 2]
    assert parameters.add_and_keep(one, one, kept).tolist() == kept.tolist() == [2, 2, 2]
    kept.flags.writeable = False
    with pytest.raises(ValueError, match=r"argument 'kept': .*read-only"):
        parameters.add_and_keep(one, one, kept)
    x = torch.ones(3)
    assert "Tensor(a!)? kept=None" in str(torch_parameters.add_and_keep.default._schema).replace("(c!)", "(a!)")
    for backend in ("aot_eager", "inductor"):
        torch._dynamo.reset()
        compiled = torch.compile(parameters.add_and_keep, fullgraph=True, backend=backend)
        for f in (parameters.add_and_keep, torch_parameters.add_and_keep, compiled):
            place = torch.zeros(3)
            version = place._version
            assert f(x, x, place).tolist() == place.tolist() == [2, 2, 2]
            assert place._version > version
            if backend != "inductor":  # torch's own custom_op with a Tensor(a!)? of None does not compile there either
                assert f(x, x).tolist() == [2, 2, 2]
    torch.library.opcheck(torch_parameters.add_and_keep.default, (x, x, torch.zeros(3)))
    torch.library.opcheck(torch_parameters.add_and_keep.default, (x, x))
    one = jax.numpy.ones(3, jax.numpy.float32)
    for f in (parameters.add_and_keep, jax.jit(parameters.add_and_keep)):
        assert f(one, one).tolist() == [2, 2, 2]
        total, kept = f(one, one, one)
        assert total.tolist() == [2, 2, 2]
        assert kept.tolist() == [3, 3, 3]
        assert one.tolist() == [1, 1, 1]


def test_all_of_it_before_the_shims(run_script):
    pytest.importorskip("torch")
    pytest.importorskip("isthmus.operators")
    code = """
    import torch, isthmus_operators_parameters_test_ext as ext, isthmus.operators
    isthmus.operators.register("torch")
    ops, x = torch.ops.parameters, torch.zeros(3)
    assert ops.filled(x, torch.int32, 4).tolist() == [4, 4, 4]
    assert ops.filled(x, torch.int32, 4).dtype == torch.int32
    assert ops.bits(x, torch.float64, torch.int8).tolist() == [64, 8]
    assert ops.scalars(x, None, 3, True, "ab").tolist() == [-1, 3, 1, 2]
    kept = torch.zeros(3)
    assert ops.add_and_keep(x + 1, x, kept).tolist() == kept.tolist() == [1, 1, 1]
    assert ops.add_and_keep(x + 1, x).tolist() == [1, 1, 1]
    """
    run_script(code, ISTHMUS_NO_TORCH_SHIMS="1")
