"""Errors that arrive through nanobind and pybind11: of producers, of functions, of what does not fit."""

from __future__ import annotations

from pathlib import Path

import libraries
import numpy as np
import processes
import pytest


class Raising:
    """A producer whose protocol raises."""

    def __init__(self, exception: BaseException) -> None:
        self.exception = exception

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **_: object) -> object:
        raise self.exception


class Sequence:
    """A sequence that cannot be read."""

    def __init__(self, exception: BaseException) -> None:
        self.exception = exception

    def __len__(self) -> int:
        return 2

    def __getitem__(self, _: int) -> object:
        raise self.exception


TAKERS = [
    "sum",
    "count",
    "which",
    "height",
    "twice",
    "count_of",
    "describe",
    "keep",
    "describe_of",
    "describe_named",
    "distance_checked",
]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError])
@pytest.mark.parametrize("name", TAKERS)
def test_what_no_function_may_swallow_passes_through(ext, name, kind):
    raised = kind("mine")
    given = [Raising(raised)] + ([np.zeros((2, 3), np.float32)] if name == "distance_checked" else [])
    with pytest.raises(kind) as caught:
        getattr(ext, name)(*given)
    assert caught.value is raised


@pytest.mark.parametrize("kind", [KeyboardInterrupt, MemoryError])
def test_it_passes_through_containers(ext, kind):
    for given in ([Raising(kind("mine"))], Sequence(kind("mine"))):
        with pytest.raises(kind, match="mine"):
            ext.total_of_vector(given, lambda: None)


CALLS_FIRST = """
import {module} as ext
try:
    ext.fail()
except BufferError as error:
    assert type(error).__module__ == "isthmus" and error.code == "needs_copy", type(error)
else:
    raise SystemExit("nothing was raised")
"""


def test_an_error_thrown_before_any_tensor_came_in_is_translated(ext):
    processes.run_python(CALLS_FIRST.format(module=ext.__name__), Path(ext.__file__).parent)


class TestArgumentsOfHandles:
    """Argument<Tensor> and Argument<Borrowed>: any tensor, and the Python object that it came from."""

    def test_they_know_their_object(self, ext):
        torch = pytest.importorskip("torch")
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        assert ext.describe_of(x) == "float32(2, 3)"
        assert isinstance(ext.copied_of(x), np.ndarray)
        y = ext.copied_of(torch.arange(3))
        assert isinstance(y, torch.Tensor)
        assert y.tolist() == [0, 1, 2]

    @pytest.mark.parametrize("how", [{"max_version": (1, 0)}, {}], ids=["versioned", "legacy"])
    @pytest.mark.parametrize("name", ["describe_of", "copied_of"])
    def test_a_capsule_is_whole_when_another_argument_misfits(self, ext, name, how):
        capsules = pytest.importorskip("capsules")
        capsule = libraries.capsule(np.zeros((2, 3), np.float32), **how)
        with pytest.raises(TypeError):
            getattr(ext, f"{name}_if")(capsule, "no number")
        assert capsules.is_whole(capsule)
        getattr(ext, f"{name}_if")(capsule, True)
        assert not capsules.is_whole(capsule)

    def test_a_name_raises_the_sentence(self, ext):
        assert ext.describe_named(np.zeros(2, np.int8)) == "int8(2,)"
        with pytest.raises(TypeError, match=r"describe\(\): argument 'x': expected a tensor .*, got str") as raised:
            ext.describe_named("text")
        assert raised.value.code == "not_a_tensor"

    def test_none_is_an_optional_that_is_empty(self, ext):
        assert ext.describe_maybe(None) == "none"
        assert ext.describe_maybe(np.zeros(2, np.int8)) == "int8(2,)"

    def test_a_handle_may_be_kept(self, ext):
        x = np.arange(3.0)
        ext.keep_of(x)
        kept = ext.give_back()
        assert np.shares_memory(np.from_dlpack(kept), x)
