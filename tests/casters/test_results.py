"""Results through nanobind and pybind11: made where the caller lives, and returned in the caller's framework."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import libraries
import numpy as np
import pytest


@pytest.fixture
def replying(ext):
    ext.set_results("reply")
    yield ext
    ext.set_results("tensor")


X = np.arange(3, dtype=np.float32)


class TestMadeWhereTheCallerLives:
    def test_a_torch_tensor_makes_a_torch_tensor(self, ext, torch):
        result = ext.twice_replied(torch.from_numpy(X))
        assert type(result) is torch.Tensor
        assert result.tolist() == [0, 2, 4]

    def test_typed_results(self, ext, torch, jax):
        """make<V>(): of another dtype and rank, in the caller's framework, returned as they are; several too."""
        for x, kind in ((X, np.ndarray), (torch.from_numpy(X), torch.Tensor), (jax.numpy.asarray(X), jax.Array)):
            result = ext.made_columns(x, 2)
            assert isinstance(result, kind)
            assert str(result.dtype).removeprefix("torch.") == "int32"
            assert result.tolist() == [[0, 1], [1, 2], [2, 3]]
            doubled, positive = ext.doubled_and_positive(x, True)
            assert isinstance(doubled, kind)
            assert doubled.tolist() == [0, 2, 4]
            assert isinstance(positive, kind)
            assert positive.tolist() == [False, True, True]
        assert ext.doubled_and_positive(X, False)[1] is None

    def test_a_typed_result_of_other_sizes_is_an_error(self, ext):
        assert ext.three_made_columns(X, 3).shape == (3, 3)
        with pytest.raises(ValueError, match=r"expected writable float64\[n, 3\] on cpu, got float64\[3, 2\] on cpu"):
            ext.three_made_columns(X, 2)

    def test_torchs_own_allocator_made_it(self, ext, torch):
        """The handle leads back to the object, which nobody but torch made."""
        result = ext.twice_there(torch.from_numpy(X))
        assert type(result).__module__ == "isthmus"
        assert isinstance(result.owner, torch.Tensor)
        assert result.to("torch") is result.owner

    def test_numpy_and_jax_take_over_the_librarys_memory(self, ext, jax):
        isthmus = pytest.importorskip("isthmus")
        for x, kind in ((X, np.ndarray), (jax.numpy.asarray(X), jax.Array)):
            result = ext.twice_replied(x)
            assert isinstance(result, kind)
            assert result.tolist() == [0, 2, 4]
        there = ext.twice_there(X)
        assert np.shares_memory(np.asarray(there), isthmus.from_dlpack(there).to("numpy"))

    def test_cupys_pool_makes_what_goes_to_cupy(self, ext, monkeypatch):
        """A stand-in for CuPy, over memory of the host: which of its functions are called, and on which device."""
        made, devices = [], []

        class ndarray:  # noqa: N801  # CuPy's own name for it
            __module__ = "cupy"

            def __init__(self, memory):
                self.memory = memory

            def __dlpack_device__(self):
                return self.memory.__dlpack_device__()

            def __dlpack__(self, **options):
                return libraries.export(self.memory, **options)

        class Device:
            def __init__(self, number):
                self.number = number

            def __enter__(self):
                devices.append(self.number)
                return self

            def __exit__(self, *_):
                devices.append("left")

        def empty(shape, dtype):
            made.append(ndarray(np.empty(shape, dtype)))
            return made[-1]

        standin = ModuleType("cupy")
        standin.empty, standin.cuda, standin.ndarray = empty, SimpleNamespace(Device=Device), ndarray
        monkeypatch.setitem(sys.modules, "cupy", standin)
        result = ext.twice_replied(ndarray(X))
        assert result is made[0]
        assert result.memory.tolist() == [0, 2, 4]
        assert devices == [0, "left"]

    def test_any_shape_and_dtype(self, ext, torch):
        for x in (X, torch.from_numpy(X), torch.zeros(2, dtype=torch.float64)):
            result = ext.zeros_there(x, [2, 0, 3], "int16")
            assert (result.shape, result.dtype.name) == ((2, 0, 3), "int16")
            result = ext.zeros_there(x, [2, 3], "bfloat16")
            assert result.to("torch").tolist() == [[0, 0, 0], [0, 0, 0]]
            assert result.to("torch").dtype == torch.bfloat16
        assert ext.zeros_there(X, [], "float32").shape == ()

    @pytest.mark.parametrize(
        ("shape", "text"),
        [([-1], "negative size"), ([2**62, 2**62], "more bytes than the address space"), ([1] * 65, "dimensions")],
    )
    def test_what_cannot_be_made_is_said(self, ext, torch, shape, text):
        for x in (X, torch.from_numpy(X)):
            with pytest.raises(ValueError, match=text) as raised:
                ext.zeros_there(x, shape, "float32")
            assert "'shape'" in str(raised.value)

    def test_a_tensor_that_requires_grad_gives_one_that_does_not(self, ext, torch):
        result = ext.zeros_there(torch.ones(2, requires_grad=True), [2], "float32")
        assert result.to("torch").requires_grad is False


class TestOut:
    def test_it_is_written_and_given_back(self, replying, torch):
        for out in (np.zeros(3, np.float32), torch.zeros(3)):
            assert replying.twice_into(X, out).tolist() == [0, 2, 4]
            assert out.tolist() == [0, 2, 4]
        out = np.zeros(3, np.float32)
        assert replying.twice_into(X, out) is out
        assert isinstance(replying.twice_into(torch.from_numpy(X), None), torch.Tensor)

    def test_what_does_not_fit_is_named(self, ext):
        with pytest.raises(ValueError, match=r"twice_into\(\): argument 'out': .* n is 4 here and 3 in argument 'x'"):
            ext.twice_into(X, np.zeros(4, np.float32))


class TestTheDefaultOfTheModule:
    def test_without_a_word_it_is_the_librarys_tensor(self, ext, torch):
        for x in (X, torch.from_numpy(X)):
            assert type(ext.twice_there(x)).__module__ == "isthmus"

    def test_a_function_that_took_a_tensor_replies(self, replying, torch, jax):
        for x, kind in ((X, np.ndarray), (torch.from_numpy(X), torch.Tensor), (jax.numpy.asarray(X), jax.Array)):
            result = replying.twice_there(x)
            assert isinstance(result, kind), type(result)
            assert result.tolist() == [0, 2, 4]

    def test_a_function_that_took_none_does_not(self, replying):
        assert type(replying.counting(3)).__module__ == "isthmus"
        assert replying.nothing() is None

    def test_it_is_the_overload_that_ran_whose_argument_counts(self, replying, torch):
        """The first overload takes its tensor, and refuses the call for another argument."""
        x, y = X, torch.from_numpy(X)
        for one, other, kind in ((x, y, torch.Tensor), (y, x, np.ndarray)):
            for name in ("second_of", "second_of_handles"):
                result = getattr(replying, name)(one, other)
                assert isinstance(result, kind), (name, type(result))

    def test_another_call_meanwhile_does_not_change_it(self, replying, torch):
        seen = []

        def callback():
            seen.append(replying.counting(2))
            seen.append(replying.twice_there(X))

        result = replying.twice_after(1.5, torch.from_numpy(X), callback)
        assert isinstance(result, torch.Tensor)
        assert type(seen[0]).__module__ == "isthmus", "it took no tensor itself"
        assert isinstance(seen[1], np.ndarray)
        assert type(replying.counting(2)).__module__ == "isthmus", "nothing is left of the call before"

    def test_the_argument_is_given_back(self, replying):
        x = X.copy()
        count = sys.getrefcount(x)
        for _ in range(10):
            replying.twice_there(x)
        assert sys.getrefcount(x) == count

    def test_one_framework_for_all(self, ext, torch):
        try:
            ext.set_results("torch")
            assert isinstance(ext.twice_there(X), torch.Tensor)
            assert isinstance(ext.counting(3), torch.Tensor)
        finally:
            ext.set_results("tensor")
