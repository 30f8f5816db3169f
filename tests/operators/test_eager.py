"""Operators called with arrays of any framework, without any of their compilers."""

from __future__ import annotations

import gc
import inspect
import re
import sys
import threading

import numpy as np
import pytest


def points(n: int = 5, m: int = 4, d: int = 3, dtype: str = "float32") -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    return rng.random((n, d)).astype(dtype), rng.random((m, d)).astype(dtype)


def distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return ((a[:, None] - b[None]) ** 2).sum(-1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numpy_arrays_make_a_numpy_array(ext, dtype):
    a, b = points(dtype=dtype)
    result = ext.distance(a, b)
    assert type(result) is np.ndarray
    assert result.dtype == dtype
    assert result.flags.owndata
    np.testing.assert_allclose(result, distances(a, b), rtol=1e-5)
    assert ext.last_call()[0] == a.ctypes.data, "the function reads the array where it lies"


def test_strided_and_empty_operands(ext):
    a, b = points(6, 4)
    np.testing.assert_allclose(ext.distance(a[::-2], b[:, ::1]), distances(a[::-2], b), rtol=1e-5)
    assert ext.distance(a[:0], b).shape == (0, 4)


def test_torch_tensors_make_a_torch_tensor(ext):
    torch = pytest.importorskip("torch")
    a, b = map(torch.from_numpy, points())
    result = ext.distance(a, b)
    assert type(result) is torch.Tensor
    assert result.dtype == torch.float32
    torch.testing.assert_close(result, torch.cdist(a, b) ** 2)
    assert ext.last_call()[0] == a.data_ptr()
    result.resize_(2)  # torch's own memory, as of any operation


def test_jax_arrays_make_a_jax_array(ext):
    jax = pytest.importorskip("jax")
    a, b = points()
    x = jax.numpy.asarray(a)
    result = ext.distance(x, jax.numpy.asarray(b))
    assert isinstance(result, jax.Array)
    np.testing.assert_allclose(result, distances(a, b), rtol=1e-5)
    assert ext.last_call()[0] == x.unsafe_buffer_pointer()


def test_buffers_make_an_isthmus_tensor(ext):
    result = ext.distance(memoryview(points()[0]), points()[1])
    assert type(result).__name__ == "Tensor"
    assert np.asarray(result).shape == (5, 4)


def test_the_first_tensor_argument_decides(ext):
    torch = pytest.importorskip("torch")
    a, b = points()
    assert type(ext.distance(a, torch.from_numpy(b))) is np.ndarray
    assert type(ext.distance(torch.from_numpy(a), b)) is torch.Tensor


def test_keywords_defaults_and_every_kind_of_scalar(ext):
    x = np.array([1, 2, 3], np.float32)
    np.testing.assert_array_equal(ext.scale(x), 2 * x)
    np.testing.assert_array_equal(ext.scale(x, 3.0), 3 * x)
    np.testing.assert_array_equal(ext.scale(x, 3), 3 * x)
    np.testing.assert_array_equal(ext.scale(mode="square", x=x, times=2, negate=True), -((4 * x) ** 2))
    np.testing.assert_array_equal(ext.scale(x, np.float64(3.0), np.int64(2)), 9 * x)


def test_several_results_are_a_tuple_and_an_optional_view_takes_none(ext):
    x = np.arange(3.0)
    total, parts = ext.weighted(x)
    assert total == 3
    assert total.shape == ()
    assert parts.tolist() == [0, 1, 2]
    assert ext.weighted(x, None)[0] == 3
    assert ext.weighted(x, w=np.full(3, 2.0))[0] == 6


def test_what_is_written_is_written_in_place(ext):
    y = np.ones(3, np.float32)
    assert ext.add_to(y, np.arange(3, dtype=np.float32)) is None
    assert y.tolist() == [1, 2, 3]


def test_writing_a_torch_tensor_moves_its_version(ext):
    torch = pytest.importorskip("torch")
    y = torch.ones(3)
    before = y._version
    ext.add_to(y, torch.ones(3))
    assert y.tolist() == [2, 2, 2]
    assert y._version == before + 1
    with pytest.raises(ValueError, match="argument 'x'"):
        ext.add_to(y, torch.ones(4))
    assert y._version == before + 1, "a call that does not take place writes nothing"


def test_a_result_given_by_out_moves_its_version_once_the_call_is_made(ext):
    torch = pytest.importorskip("torch")
    x, total, parts = (torch.empty(shape, dtype=torch.float64) for shape in ((3,), (), (3,)))
    assert (x._version, total._version, parts._version) == (0, 0, 0)
    ext.weighted(x, None, out=(total, parts))
    assert (total._version, parts._version) == (1, 1)
    with pytest.raises(ValueError, match=r"argument 'out\[1\]'"):
        ext.weighted(x, None, out=(total, torch.empty(4).double()))
    with pytest.raises(ValueError, match="shares memory"):
        ext.weighted(x, None, out=(total, x))
    assert (total._version, x._version) == (1, 0)


def test_a_set_of_dtypes_gives_the_result_its_argument_has(ext):
    for dtype in ("float32", "float64", "int32"):
        result = ext.twice(np.arange(6, dtype=dtype).reshape(2, 3))
        assert result.dtype == dtype
        assert result.shape == (2, 3)


def test_a_dtype_that_numpy_has_not_itself_gives_the_result_its_own(ext):
    x = np.arange(3).astype(pytest.importorskip("ml_dtypes").bfloat16)
    result = ext.same(x)
    assert type(result) is np.ndarray
    assert (result.dtype, result.tolist()) == (x.dtype, [0, 1, 2])


@pytest.mark.parametrize("framework", ["numpy", "torch", "tensor"])
def test_a_result_that_is_too_large_is_no_memory(ext, framework):
    x = np.ones(3, np.float32)
    if framework == "torch":
        x = pytest.importorskip("torch").from_numpy(x)
    with pytest.raises(MemoryError):
        ext.first(memoryview(x) if framework == "tensor" else x, 1 << 60)


def test_an_integer_argument_may_be_a_size(ext):
    assert ext.first(np.arange(5, dtype=np.float32), 2).tolist() == [0, 1]
    assert ext.first(np.arange(2, dtype=np.float32), 3).tolist() == [0, 1, 0]


@pytest.mark.parametrize("out", [np.empty, np.zeros])
def test_out_is_written_and_given_back(ext, out):
    a, b = points()
    memory = out((5, 4), np.float32)
    assert ext.distance(a, b, out=memory) is memory
    np.testing.assert_allclose(memory, distances(a, b), rtol=1e-5)
    turned = out((4, 5), np.float32).T
    assert ext.distance(a, b, out=turned) is turned
    np.testing.assert_allclose(turned, distances(a, b), rtol=1e-5)
    pair = np.empty(()), np.empty(3)
    assert ext.weighted(np.arange(3.0), out=pair) is pair
    assert pair[0] == 3


def test_out_that_shares_memory_is_refused(ext):
    x = np.ones((4, 4), np.float32)
    with pytest.raises(ValueError, match=r"distance\(\): argument 'out': shares memory with argument 'b'"):
        ext.distance(x.copy(), x, out=x)
    whole = np.ones(40, np.float32)
    with pytest.raises(ValueError, match="argument 'out': shares memory with argument 'x'"):
        ext.scale(whole[:10], out=whole[9:19])
    with pytest.raises(ValueError, match="argument 'out': shares memory with argument 'a'"):
        ext.distance(whole[:12].reshape(4, 3)[::-1], x[:, :3], out=whole[8:24].reshape(4, 4))
    assert ext.scale(whole[:10], out=whole[10:20]).tolist() == [2] * 10
    assert ext.scale(whole[:0], out=whole[5:5]).size == 0
    memory = np.zeros(3)
    with pytest.raises(ValueError, match=r"argument 'out\[1\]': shares memory with argument 'out\[0\]'"):
        ext.weighted(np.ones(3), out=(memory[1:2].reshape(()), memory))
    with pytest.raises(ValueError, match=r"argument 'out\[1\]': shares memory with argument 'w'"):
        ext.weighted(np.ones(3), memory, out=(np.empty(()), memory))
    assert ext.weighted(np.ones(3), None, out=(np.empty(()), memory))[0] == 3


def test_out_that_shares_padded_elements_is_refused(ext):
    """NumPy gives an element of 4 bits a byte of its own."""
    whole = np.zeros(40, pytest.importorskip("ml_dtypes").float4_e2m1fn)
    with pytest.raises(ValueError, match="argument 'out': shares memory with argument 'x'"):
        ext.any_float(whole[:10], out=whole[9:19])
    apart = whole[10:20]
    assert ext.any_float(whole[:10], out=apart) is apart


def test_leading_dimensions_broadcast_where_asked(ext):
    a, b = np.random.rand(4, 1, 3), np.random.rand(2, 3)
    np.testing.assert_allclose(ext.dot(a, b), (a * b).sum(-1))
    assert ext.dot(np.ones(3), np.ones(3)) == 3
    assert ext.dot(np.ones((0, 3)), np.ones(3)).shape == (0,)
    out = np.empty((4, 2))
    assert ext.dot(a, b, out=out) is out
    rows = np.ones((2, 3), np.float32)
    ext.add_rows(rows, np.arange(3, dtype=np.float32))
    assert rows.tolist() == [[1, 2, 3], [1, 2, 3]]


A, B = points()
READ_ONLY = np.ones(3, np.float32)
READ_ONLY.flags.writeable = False
MISTAKES = {
    "missing": (lambda e: e.distance(A), TypeError, "distance() missing required argument 'b'"),
    "too many": (lambda e: e.distance(A, B, B), TypeError, "distance() takes 2 positional arguments but 3 were given"),
    "unknown": (lambda e: e.distance(A, c=B), TypeError, "distance() got an unexpected keyword argument 'c'"),
    "twice": (lambda e: e.distance(A, B, a=A), TypeError, "distance() got multiple values for argument 'a'"),
    "no out": (lambda e: e.add_to(A[0], A[0], out=B), TypeError, "unexpected keyword argument 'out'"),
    "no tensor": (lambda e: e.distance(3, B), TypeError, "distance(): argument 'a': expected a tensor"),
    "number": (lambda e: e.scale(A, "x"), TypeError, "scale(): argument 'factor': expected a number, got str"),
    "integer": (lambda e: e.scale(A, 1.0, 1.5), TypeError, "scale(): argument 'times': expected an integer, got float"),
    "bool": (lambda e: e.scale(A, negate=1), TypeError, "scale(): argument 'negate': expected True or False, got int"),
    "text": (lambda e: e.scale(A, mode=3), TypeError, "scale(): argument 'mode': expected a string, got int"),
    "overload": (
        lambda e: e.distance(A.astype(int), B),
        ValueError,
        "distance(): argument 'a': expected float32[n, d] on cpu or float64[n, d] on cpu, got int64[5, 3] on cpu",
    ),
    "mixed": (
        lambda e: e.distance(A, B.astype(float)),
        ValueError,
        "distance(): argument 'b': expected float32[m, d] on cpu, got float64[4, 3] on cpu: dtype differs",
    ),
    "size": (lambda e: e.distance(A, B[:, :2]), ValueError, "d is 2 here and 3 in argument 'a'"),
    "rank": (lambda e: e.distance(A[0], B), ValueError,
        "argument 'a': expected float32[n, d] on cpu, got float32[3] on cpu"),
    "order": (lambda e: e.scale(A.T), ValueError, "argument 'x': expected float32[...] C-contiguous on cpu"),
    "negative size": (lambda e: e.first(A[0], -1), ValueError, "argument 'k': found -1"),
    "leading": (lambda e: e.dot(np.ones((4, 3)), np.ones((2, 3))), ValueError, "argument 'b': leading sizes (2,)"),
    "leading written": (
        lambda e: e.add_rows(A[0].copy(), A.copy()),
        ValueError,
        "add_rows(): argument 'y': leading sizes () are written for each of (5,); expected the same sizes",
    ),
    "after others": (lambda e: e.spread(2.0, None, A[0]), ValueError,
        "'x': expected float64[n] on cpu, got float32[3]"),
    "absent size": (lambda e: e.spread(2.0, None, np.ones(3)), ValueError,
        "the size m of result 'out' is that of an argument"),
    "said once": (
        lambda e: e.combine(A[0].astype(int), A[0]),
        ValueError,
        "combine(): argument 'x': expected float32[n] on cpu, got int64[3] on cpu: dtype differs",
    ),
    "second overload": (lambda e: e.combine(A[0], A[0].astype(int)), ValueError, "argument 'y': expected float32[n]"),
    "read-only": (lambda e: e.add_to(READ_ONLY, READ_ONLY), ValueError, "argument 'y': the memory of this"),
    "out sizes": (lambda e: e.distance(A, B, out=A), ValueError,
        "argument 'out': expected sizes (5, 4), got float32[5, 3]"),
    "out dtype": (lambda e: e.distance(A, B, out=np.empty((5, 4))), ValueError, "argument 'out': expected writable"),
    "out set": (lambda e: e.twice(A, out=A.astype(float)), ValueError,
        "argument 'out': expected float32, got float64[5, 3]"),
    "out read-only": (lambda e: e.scale(READ_ONLY, out=READ_ONLY), ValueError, "argument 'out': the memory"),
    "out tuple": (lambda e: e.weighted(np.ones(3), out=A), TypeError, "argument 'out': expected a tuple of 2 tensors"),
    "out of several": (lambda e: e.weighted(np.ones(3), out=(np.empty(()), A)), ValueError, "argument 'out[1]'"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_sentence(ext, mistake):
    call, error, text = MISTAKES[mistake]
    with pytest.raises(error) as caught:
        call(ext)
    assert text in str(caught.value)


def test_a_jax_array_is_not_written(ext):
    jax = pytest.importorskip("jax")
    x = jax.numpy.ones(3, jax.numpy.float32)
    made = ext.add_to(x, x)
    assert made.tolist() == [2, 2, 2]
    assert x.tolist() == [1, 1, 1]


THROWN = {
    "value": (ValueError, "fail(): a bad value"),
    "index": (IndexError, "fail(): far out"),
    "memory": (MemoryError, "fail(): no memory"),
    "error": (BufferError, "only a copy would do"),
    "runtime": (RuntimeError, "fail(): it broke"),
    "int": (RuntimeError, "fail(): an exception was thrown that is not a std::exception"),
}


@pytest.mark.parametrize("how", THROWN)
def test_what_the_function_throws_is_raised(ext, how):
    with pytest.raises(THROWN[how][0]) as caught:
        ext.fail(A[0].copy(), how)
    assert str(caught.value) == THROWN[how][1]


REFUSED = {
    "few names": "found 0 argument names; expected 1",
    "many names": "found 26 argument names; expected 1",
    "no namespace": 'expected a name like "namespace::function"',
    "hyphen": 'expected a name like "namespace::function"',
    "name twice": "two arguments are named 'x'",
    "named out": "found the argument name 'out'",
    "unknown size": "result 'out' has the size m, which no input has",
    "no tensor": "there is no tensor argument whose sizes it could have",
    "default type": "the default of argument 'k' is of another type",
    "gradient inputs": "its gradient takes 1 inputs; expected 2",
    "gradient writes": "its gradient cannot be, since it writes an argument in place",
    "cuda sizes": (
        "its device function has 'y' as float32[m] on cuda; expected the dtype and sizes of float32[n] on cpu"
    ),
    "cuda no sizes": (
        "its device function has 'y' as float32[:] on cuda; expected the dtype and sizes of float32[n] on cpu"
    ),
    "cuda overloads": (
        "its device function has 'y' as float32[m] on cuda; expected the dtype and sizes of float32[n] on cpu"
    ),
    "cuda result": (
        "its device function has 'out' as float64[3] on cuda; expected the dtype and sizes of float64[n] on cpu"
    ),
    "cuda dtype": (
        "its device function has 'x' as float64[n] on cuda; expected the dtype and sizes of float32[n] on cpu"
    ),
    "cuda gradient": "it has no gradient that could have a device function",
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_operator_is_not_registered(bare, what):
    with pytest.raises(ValueError) as caught:
        bare.refuse(what)
    assert REFUSED[what] in str(caught.value)
    assert "operator '" in str(caught.value)


def test_a_binder_throws_where_it_is_not_registered(ext):
    if ext.__name__ == "isthmus_operators_test_ext":
        pytest.skip("the bare API has no exceptions")
    with pytest.raises(ValueError, match="operator 'bad::dot': two arguments are named 'x'"):
        ext.refuse(ext)


def test_an_operator_says_what_it_is(ext):
    assert ext.scale.__name__ == "scale"
    assert ext.scale.__module__ == ext.__name__
    assert ext.scale.__doc__ == "Multiplies."
    assert re.fullmatch(r"<isthmus operator geo(_\w+)?::scale>", repr(ext.scale))
    assert str(inspect.signature(ext.scale)) == "(x, factor=2.0, times=1, negate=False, mode='plain', *, out=None)"
    assert str(inspect.signature(ext.weighted)) == "(x, w=None, *, out=None)"
    assert str(inspect.signature(ext.add_to)) == "(y, x)"
    assert (
        str(inspect.signature(ext.limit))
        == f"(x, most=inf, note={ext.limit._table['inputs'][2]['default']!r}, *, out=None)"
    )
    assert str(inspect.signature(ext.raise_to)) == "(x, factor=2.0, *, power, out=None)"
    assert str(inspect.signature(ext.add_times)) == "(y, x, times=1.0)"


def test_a_signature_needs_the_module_that_makes_one(bare, monkeypatch):
    monkeypatch.setitem(sys.modules, "inspect", None)
    with pytest.raises(ImportError):
        _ = bare.scale.__signature__


def test_the_function_runs_without_the_gil(ext):
    ext.distance(*points())
    assert ext.last_call()[1] == 0


def test_calls_leave_no_reference(ext):
    a, b = points()
    gc.collect()
    before = sys.getrefcount(a), sys.getrefcount(b), sys.getrefcount(None)
    for _ in range(1000):
        ext.distance(a, b)
        with pytest.raises(ValueError):
            ext.distance(a, b[:, :2])
    after = sys.getrefcount(a), sys.getrefcount(b), sys.getrefcount(None)
    assert after[:2] == before[:2]
    assert abs(after[2] - before[2]) < 100


def test_a_capsule_is_whole_again_when_the_call_is_refused(ext):
    isthmus = pytest.importorskip("isthmus")
    capsule = isthmus.from_dlpack(points()[0]).__dlpack__(max_version=(1, 3))
    for _ in range(2):
        with pytest.raises(ValueError, match="argument 'b'"):
            ext.distance(capsule, A.astype(float))
    assert ext.distance(capsule, B).shape == (5, 4)


def test_threads_call_at_once(ext):
    a, b = points(50, 40)
    expected, wrong = distances(a, b), []

    def call():
        for _ in range(200):
            if not np.allclose(ext.distance(a, b), expected, rtol=1e-4):
                wrong.append(1)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_importing_imports_no_framework(run_script):
    said = run_script(
        """
        import isthmus_operators_test_ext, sys
        print({"numpy", "torch", "jax", "isthmus"} & set(sys.modules))
        """
    )
    assert said == "set()\n"
