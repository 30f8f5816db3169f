"""What the tests of the bridge share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import processes
import pytest

# Where the bridge is called from C++; without it there is nothing to test here.
ext = pytest.importorskip("isthmus_test_ext")

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(params=["borrow", "own"])
def take(request: pytest.FixtureRequest) -> Callable:
    """borrow_py and from_py by turns: what they tell of a tensor."""
    return getattr(ext, request.param)


@pytest.fixture(params=["borrow", "own"])
def elements(request: pytest.FixtureRequest) -> Callable:
    """The elements as row-major bytes, read through borrow_py and from_py by turns."""
    return getattr(ext, request.param + "_elements")


@pytest.fixture
def refused() -> Callable:
    """refused(code, builtin, call, x): the call fails with this code, as isthmus.Error and as the builtin exception."""

    def check(code: str, builtin: type, call: Callable, *args: object, **options: object) -> Exception:
        with pytest.raises(ext.Error) as info:
            call(*args, argument="the_argument", **options)
        assert info.value.code == code, info.value
        assert isinstance(info.value, builtin)
        assert "argument 'the_argument': " in str(info.value)
        return info.value

    return check


@pytest.fixture
def child() -> Callable:
    """child(code): runs it in a process of its own, which must end well; what it printed."""

    def run(code: str, *, timeout: int = 300, **environment: str) -> str:
        folders = Path(ext.__file__).parent, processes.SUPPORT
        return processes.run_python(code, *folders, timeout=timeout, cwd=REPOSITORY, **environment).stdout

    return run
