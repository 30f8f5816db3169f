"""Kinds of signatures that kernel libraries have, each by every way to a call: the results are NumPy's."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

Arguments = dict[str, Any]
SIZES = (7, 9)  # no other size: torch.compile takes two that are equal at first for one


class Seed(int):
    """A source of random numbers."""


class Kind(NamedTuple):
    """One kind of signature. arguments(n, real): those of a call, of a size and with this dtype of real numbers."""

    operator: str
    arguments: Callable[[int, str], Arguments]
    without: Mapping[str, str] = {}  # the ways that it does not have, and why
    written: tuple[str, ...] = ()  # the arguments that are written
    differentiable: tuple[str, ...] = ()  # those that have gradients


def reals(*shape: int, real: str = "float32") -> np.ndarray:
    count = int(np.prod(shape))
    return (np.sin(np.arange(1.0, count + 1)) + 0.01 * np.arange(count)).reshape(shape).astype(real)


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def of_rotate(n: int, key: np.ndarray | None, interleaved: bool) -> Arguments:
    tensors = {"positions": np.arange(n) % 3, "query": reals(n, 4), "key": key}
    return {**tensors, "width": 4, "table": reals(3, 4), "interleaved": interleaved}


NO_GRADIENT = {"gradcheck": "it has no gradient", "grad": "it has no gradient"}
WRITES = {"gradcheck": "it writes", "grad": "it writes"}
ROWS = {"vmap": "each call has its own number of rows", "jit": "padded", "jax vmap": "padded"}
UNKNOWN = {"gradcheck": "it has no gradient of such arguments", "grad": "it has no gradient of such arguments"}

KINDS = {
    "a tensor by an index, the index first": Kind(
        "kinds.take", lambda n, real: {"index": integers(0, 2, 1), "x": reals(n, 4, real=real)}, NO_GRADIENT
    ),
    "a reduction of segments, one fewer than borders": Kind(
        "parameters.segments",
        lambda n, real: {"x": reals(n, 3, real=real), "borders": integers(0, 1, n)},
        differentiable=("x",),
    ),
    "two results, of which the integers are what the gradient takes": Kind(
        "gradients.row_max", lambda n, real: {"x": reals(n, 5, real=real)}, differentiable=("x",)
    ),
    "a gradient that is another operator": Kind(
        "gradients.gather",
        lambda n, _real: {"x": reals(n, 2, real="float64"), "index": integers(1, 0, 1)},
        differentiable=("x",),
    ),
    "a tensor that may be None": Kind(
        "kinds.add_bias",
        lambda n, real: {"x": reals(n, 4, real=real), "bias": None},
        differentiable=("x",),
    ),
    "the same, given": Kind(
        "kinds.add_bias",
        lambda n, real: {"x": reals(n, 4, real=real), "bias": reals(4, real=real)},
        differentiable=("x", "bias"),
    ),
    "into a tensor of the caller": Kind(
        "kinds.put_rows",
        lambda n, _real: {"cache": reals(n + 2, 3), "index": np.arange(n), "rows": -reals(n, 3)},
        WRITES,
        ("cache",),
    ),
    "two tensors that are written, with numbers and a flag": Kind(
        "attention.rotate",
        lambda n, _real: of_rotate(n, -reals(n, 4), interleaved=True),
        WRITES,
        ("query", "key"),
    ),
    "the same, one of them None": Kind(
        "attention.rotate",
        lambda n, _real: of_rotate(n, None, interleaved=False),
        WRITES,
        ("query",),
    ),
    "a result and a tensor that is written": Kind(
        "parameters.add_and_keep",
        lambda n, _real: {"x": reals(n), "y": -2 * reals(n), "kept": reals(n)},
        WRITES,
        ("kept",),
    ),
    "numbers and a string that may be None": Kind(
        "parameters.scalars",
        lambda n, _real: {"x": reals(n), "number": 2.5, "integer": None, "flag": True, "text": "four"},
        NO_GRADIENT,
    ),
    "a dtype": Kind(
        "parameters.filled", lambda n, _real: {"like": reals(n), "dtype": "float64", "value": 2.0}, NO_GRADIENT
    ),
    "a dtype that may be None": Kind(
        "parameters.bits", lambda n, _real: {"x": reals(n), "first": None, "second": "int8"}, NO_GRADIENT
    ),
    "sizes by integers": Kind(
        "kinds.one_hot", lambda n, _real: {"index": integers(2, 0), "classes": n, "times": 3}, NO_GRADIENT
    ),
    "sizes by formula": Kind("parameters.unfold", lambda n, _real: {"x": reals(2, 6 * n), "h": 2, "w": 3}, NO_GRADIENT),
    "any number of leading and trailing dimensions": Kind(
        "runs.gather",
        lambda n, real: {"x": reals(2, n, 3, real=real), "index": integers(0, 2, 1, 0).reshape(2, 2)},
        differentiable=("x",),
    ),
    "row-major tensors": Kind(
        "parameters.running",
        lambda n, real: {"x": reals(n, 4, real=real), "w": reals(4, real=real)},
        differentiable=("x", "w"),
    ),
    "indices of either width": Kind(
        "parameters.shifted", lambda n, _real: {"index": np.arange(n), "by": 2}, NO_GRADIENT
    ),
    "rows that the call counts": Kind(
        "parameters.nms64",
        lambda n, _real: {
            "boxes": np.stack([np.arange(n), np.zeros(n), np.arange(n) + 1.7, np.ones(n)], 1).astype("float32"),
            "scores": reals(n),
            "threshold": 0.2,
        },
        {**NO_GRADIENT, **ROWS},
    ),
    "rows that the call counts, with a gradient": Kind(
        "parameters.masked",
        lambda n, _real: {"x": reals(n, 4), "mask": np.arange(n) % 2 == 0},
        {**ROWS, "gradcheck": "it is of float32"},
        differentiable=("x",),
    ),
    "a list of tensors": Kind(
        "lists.weighted",
        lambda n, real: {"xs": [reals(n, real=real), -reals(n, real=real)], "w": reals(2, real=real)},
        differentiable=("w",),
    ),
    "a list of tensors that are written": Kind(
        "lists.copy_blocks",
        lambda n, _real: {"caches": [reals(n, 2), -reals(n, 2)], "mapping": integers(0, 2, 1, 0).reshape(2, 2)},
        WRITES,
        ("caches",),
    ),
    "integers that may be None": Kind(
        "lists.picked",
        lambda n, _real: {"x": reals(n), "places": [0, 2]},
        {"gradcheck": "it is of float32"},
        differentiable=("x",),
    ),
    "a list of integers": Kind("lists.total", lambda n, _real: {"x": reals(n), "by": [1, 2, 3]}, NO_GRADIENT),
    "a source of random numbers": Kind(
        "gradients.dropout",
        lambda n, _real: {"random": Seed(3), "x": reals(n), "p": 0.5},
        {"gradcheck": "it is of float32"},
        differentiable=("x",),
    ),
    "a set of dtypes": Kind("kinds.integers_first", lambda n, _real: {"x": np.arange(n)}, UNKNOWN),
    "without a result": Kind("kinds.observe", lambda n, _real: {"x": reals(n), "weight": 2.0}, NO_GRADIENT),
    "34 arguments and 4 results": Kind(
        "attention.attend",
        lambda n, _real: {
            "q": reals(n, 4),
            "k": reals(3, 4),
            "v": -reals(3, 4),
            "new_k": reals(2, 4),
            "q_v": reals(n, 4),
            "place": reals(n, 4),
            "starts_q": np.arange(3, dtype="int32"),
            "longest_k": 5,
            "pages": np.ones((2, 2), "int32"),
            "scale_v": reals(1),
            "scale": 0.5,
            "left": 6,
            "cap": 30.0,
            "splits": 2,
            "packs": True,
            "margin": 1,
        },
        WRITES,
        ("new_k", "place"),
    ),
    "24 arguments, most of them numbers": Kind(
        "attention.schedule",
        lambda n, _real: {
            "batch": 2,
            "longest_q": n,
            "longest_k": 9,
            "heads": 4,
            "heads_k": 2,
            "width": 64,
            "width_v": 64,
            "dtype": "bfloat16",
            "used_k": np.arange(n, dtype="int32"),
            "page": 16,
            "splits": 3,
        },
        NO_GRADIENT,
    ),
}
WAYS = [
    "torch",
    "torch.ops",
    "compiled",
    "exported",
    "opcheck",
    "gradcheck",
    "vmap",
    "jax",
    "jit",
    "jax vmap",
    "grad",
]
CASES = [(kind, way) for kind in KINDS for way in WAYS if way not in KINDS[kind].without]


def flat(value: Any) -> Iterator[Any]:
    for each in value if isinstance(value, (list, tuple)) else (value,):
        if each is not None:
            yield each


class Call:
    """The calls of one kind."""

    def __init__(self, name: str, request: pytest.FixtureRequest) -> None:
        self.kind = KINDS[name]
        family, self.name = self.kind.operator.split(".")
        self.function = getattr(request.getfixturevalue(family), self.name)
        self.family = family

    def arguments(self, n: int = SIZES[0], real: str = "float32") -> Arguments:
        return self.kind.arguments(n, real)

    def by_numpy(self, arguments: Arguments) -> list[np.ndarray]:
        """The results, then what was written."""
        given = copy.deepcopy(arguments)
        results = self.function(**given)
        return [*flat(results), *self.written(given)]

    def written(self, given: Arguments) -> list[Any]:
        return [each for name in self.kind.written for each in flat(given[name])]

    def is_same(self, found: Any, expected: list[np.ndarray]) -> None:
        found = list(flat(found))
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            assert tuple(a.shape) == b.shape
            np.testing.assert_allclose(np.asarray(a), b, rtol=1e-5, atol=1e-6)


def of_torch(arguments: Arguments, ops: bool = False) -> Arguments:
    """As torch has them. ops: for torch.ops, which has fewer spellings."""
    import torch

    def of(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return torch.from_numpy(value.copy())
        if isinstance(value, list) and isinstance(value[0], np.ndarray):
            return [of(each) for each in value]
        if ops and isinstance(value, Seed):
            return torch.tensor([value, 0, 0, 0], dtype=torch.int32)
        return value

    given = {name: of(value) for name, value in arguments.items()}
    if ops:
        given.update((name, getattr(torch, given[name])) for name in DTYPES if given.get(name))
    return given


DTYPES = ("dtype", "first", "second")  # the arguments that are dtypes


@pytest.fixture
def torch(request: pytest.FixtureRequest) -> Any:
    return pytest.importorskip("torch")


@pytest.fixture
def jax() -> Iterator[Any]:
    pytest.importorskip("isthmus.operators")
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        yield jax


def by_torch(call: Call, function: Callable[..., Any], ops: bool = False, sizes: Sequence[int] = SIZES) -> None:
    for n in sizes:
        arguments = call.arguments(n)
        given = of_torch(arguments, ops)
        results = function(**given)
        call.is_same([*flat(results), *call.written(given)], call.by_numpy(arguments))


def packet(call: Call, request: pytest.FixtureRequest) -> Any:
    return getattr(request.getfixturevalue(f"torch_{call.family}"), call.name)


def check_torch(call: Call, request: pytest.FixtureRequest) -> None:
    packet(call, request)
    by_torch(call, call.function)


def check_ops(call: Call, request: pytest.FixtureRequest) -> None:
    by_torch(call, packet(call, request), ops=True)


def check_compiled(call: Call, request: pytest.FixtureRequest) -> None:
    packet(call, request)
    import torch

    counter = pytest.importorskip("torch._dynamo.testing").CompileCounterWithBackend("aot_eager")
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(call.function, fullgraph=True, dynamic=True, backend=counter)
        by_torch(call, compiled, sizes=SIZES[:1])
        first = counter.frame_count
        by_torch(call, compiled, sizes=SIZES[1:])
    assert counter.frame_count == first  # the graph of one size is that of another


def check_exported(call: Call, request: pytest.FixtureRequest) -> None:
    packet(call, request)
    import torch

    given = of_torch(call.arguments())
    tensors = {name: value for name, value in given.items() if any(isinstance(v, torch.Tensor) for v in flat(value))}
    known = {name: value for name, value in given.items() if name not in tensors}

    class Module(torch.nn.Module):
        def forward(self, tensors: Arguments) -> Any:
            return call.function(**tensors, **known)

    exported = torch.export.export(Module(), (copy.deepcopy(tensors),), strict=False)
    results = exported.module()(tensors)
    call.is_same([*flat(results), *call.written(given)], call.by_numpy(call.arguments()))


def check_opcheck(call: Call, request: pytest.FixtureRequest) -> None:
    import torch

    overload = packet(call, request).default
    given = of_torch(call.arguments(), ops=True)
    for name in call.kind.differentiable:
        if given[name] is not None:
            given[name].requires_grad_()
    counts_rows = "each call has its own number of rows" in call.kind.without.values()
    checks = {"test_utils": ("test_schema", "test_autograd_registration", "test_faketensor")} if counts_rows else {}
    torch.library.opcheck(overload, (), given, **checks)


def check_gradcheck(call: Call, request: pytest.FixtureRequest) -> None:
    import torch

    packet(call, request)
    given = of_torch(call.arguments(real="float64"))
    names = [name for name in call.kind.differentiable if given[name] is not None]

    def function(*values: Any) -> Any:
        results = call.function(**{**given, **dict(zip(names, values, strict=True))})
        return tuple(each for each in flat(results) if each.dtype.is_floating_point)

    assert torch.autograd.gradcheck(function, tuple(given[name].requires_grad_() for name in names))


def check_vmap(call: Call, request: pytest.FixtureRequest) -> None:
    import torch

    packet(call, request)
    one, two = call.arguments(), changed(call.arguments())
    given = of_torch(stacked(one, two))
    names = [name for name, value in given.items() if any(isinstance(v, torch.Tensor) for v in flat(value))]
    known = {name: value for name, value in given.items() if name not in names}

    def function(tensors: Arguments) -> Any:
        return call.function(**tensors, **known)

    expected = both(call, one, two)
    out_dims = 0 if len(expected) > len(call.written(given)) else None
    results = torch.vmap(function, out_dims=out_dims, randomness="same")({name: given[name] for name in names})
    call.is_same([*flat(results), *call.written(given)], expected)


def changed(arguments: Arguments) -> Arguments:
    """The same with other real numbers."""

    def of(value: Any) -> Any:
        if isinstance(value, list):
            return [of(each) for each in value]
        is_real = isinstance(value, np.ndarray) and value.dtype.kind == "f"
        return (value * 1.5).astype(value.dtype) if is_real else value

    return {name: of(value) for name, value in arguments.items()}


def stacked(one: Arguments, two: Arguments) -> Arguments:
    def of(a: Any, b: Any) -> Any:
        if isinstance(a, list):
            return [of(x, y) for x, y in zip(a, b, strict=True)]
        return np.stack([a, b]) if isinstance(a, np.ndarray) else a

    return {name: of(value, two[name]) for name, value in one.items()}


def both(call: Call, one: Arguments, two: Arguments) -> list[np.ndarray]:
    return [np.stack(pair) for pair in zip(call.by_numpy(one), call.by_numpy(two), strict=True)]


def by_jax(call: Call, arguments: Arguments, transform: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Any:
    """A call whose arrays are the arguments of a function that is transformed. What was written comes behind the
    results."""
    import jax

    def of(value: Any) -> Any:
        return [of(each) for each in value] if isinstance(value, list) else jax.numpy.asarray(value)

    arrays = {name: of(value) for name, value in arguments.items() if any(hasattr(v, "shape") for v in flat(value))}
    known = {name: value for name, value in arguments.items() if name not in arrays}
    results = transform(lambda arrays: call.function(**arrays, **known))(arrays)
    return [leaf for each in flat(results) for leaf in flat(each)]


def check_jax(call: Call, _request: pytest.FixtureRequest) -> None:
    for n in SIZES:
        call.is_same(by_jax(call, call.arguments(n), lambda f: f), call.by_numpy(call.arguments(n)))


def check_jit(call: Call, _request: pytest.FixtureRequest) -> None:
    import jax

    call.is_same(by_jax(call, call.arguments(), jax.jit), call.by_numpy(call.arguments()))


def check_jax_vmap(call: Call, _request: pytest.FixtureRequest) -> None:
    import jax

    one, two = call.arguments(), changed(call.arguments())
    found = by_jax(call, stacked(one, two), lambda f: jax.jit(jax.vmap(f)))
    call.is_same(found, both(call, one, two))


def check_grad(call: Call, request: pytest.FixtureRequest) -> None:
    """The gradients of JAX are those of torch."""
    import jax
    import torch

    packet(call, request)
    arguments = call.arguments()
    names = [name for name in call.kind.differentiable if arguments[name] is not None]
    given = of_torch(arguments)
    leaves = [given[name].requires_grad_() for name in names]
    (first, *_) = (each for each in flat(call.function(**given)) if each.dtype.is_floating_point)
    expected = torch.autograd.grad((first * first).sum(), leaves)

    def loss(arrays: Arguments) -> Any:
        results = flat(call.function(**{**arguments, **arrays}))
        (first, *_) = (each for each in results if each.dtype.kind == "f")
        return (first * first).sum()

    found = jax.jit(jax.grad(loss))({name: jax.numpy.asarray(arguments[name]) for name in names})
    call.is_same([found[name] for name in names], [each.numpy() for each in expected])


CHECKS: dict[str, Callable[[Call, pytest.FixtureRequest], None]] = {
    "torch": check_torch,
    "torch.ops": check_ops,
    "compiled": check_compiled,
    "exported": check_exported,
    "opcheck": check_opcheck,
    "gradcheck": check_gradcheck,
    "vmap": check_vmap,
    "jax": check_jax,
    "jit": check_jit,
    "jax vmap": check_jax_vmap,
    "grad": check_grad,
}
OF_JAX = ("jax", "jit", "jax vmap", "grad")


@pytest.mark.parametrize(("kind", "way"), CASES, ids=[f"{kind}: {way}" for kind, way in CASES])
def test_every_way(kind: str, way: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue("jax" if way in OF_JAX else "torch")
    CHECKS[way](Call(kind, request), request)


def test_turned_in_place(attention: Any) -> None:
    x, table = reals(3, 4), np.array([[1.0, 0.0, 0.0, 1.0]], "float32")  # a turn by 0, and one by a right angle
    for interleaved, order, signs in ((True, [0, 1, 3, 2], [1, 1, -1, 1]), (False, [0, 3, 2, 1], [1, -1, 1, 1])):
        given = x.copy()
        attention.rotate(np.zeros(3, np.int64), given, None, 4, table, interleaved)
        np.testing.assert_allclose(given, x[:, order] * signs)


def test_each_of_many_arguments_arrives(attention: Any) -> None:
    arguments = KINDS["34 arguments and 4 results"].arguments(9, "float32")
    out, sums, parts, part_sums = attention.attend(**arguments)
    q, k, v = (arguments[name].astype(float) for name in "qkv")
    i, j = np.ogrid[:9, :3]
    weights = np.where(i - j <= 6, np.exp(30 * np.tanh(0.5 * q @ k.T / 30)), 0)
    np.testing.assert_allclose(sums, np.log(weights.sum(1)), rtol=1e-5)
    np.testing.assert_allclose(out, weights @ v / weights.sum(1, keepdims=True) + arguments["q_v"], rtol=1e-4)
    assert np.array_equal(arguments["place"], out)
    assert np.array_equal(arguments["new_k"], 2 * reals(2, 4))
    assert np.array_equal(parts[0], out)
    assert not parts[1].any()
    # starts_q, scale_v, pages and packs were given, longest_k is 5 and margin 1
    assert part_sums[1].tolist() == [float(1 + 2**11 + 2**12 + 2**16 + 200000 * (2 * 5 + 8))] * 9


def test_a_schedule(attention: Any) -> None:
    arguments = KINDS["24 arguments, most of them numbers"].arguments(3, "float32")
    assert attention.schedule(**arguments).tolist() == [0, 0, 0, 0, 2, 2, 2, 4, 6, 6]
