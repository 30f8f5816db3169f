"""What the tests of operators share: the same operators in a module of each binder."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable

import processes
import pytest

BARE = "isthmus_operators_test_ext"
MODULES = [BARE, "isthmus_operators_nanobind_test_ext", "isthmus_operators_pybind11_test_ext"]

pytest.importorskip(BARE)


@pytest.fixture(params=MODULES)
def ext(request: pytest.FixtureRequest):
    return pytest.importorskip(request.param, reason=f"{request.param} was not built: its library is not installed")


@pytest.fixture
def bare():
    return importlib.import_module(BARE)


def registered_torch():
    """torch, which knows all operators."""
    torch = pytest.importorskip("torch")
    operators = pytest.importorskip("isthmus.operators")
    with contextlib.suppress(importlib.import_module("isthmus").Error):  # both::twice is another module's
        operators.register("torch")
    torch._dynamo.reset()
    return torch


#: By the name of a module's fixture, its operators; torch_kinds is torch.ops.kinds, and so on.
FAMILIES = {
    "kinds": "with the signatures of real kernel libraries",
    "parameters": "with every kind of parameter",
    "lists": "whose arguments are lists",
    "runs": "whose sizes have runs of dimensions",
    "jvp": "with Jacobian-vector products",
    "gradients": "whose gradients say what they take",
    "attention": "with as many parameters as those for attention",
}


def fixtures_of(family: str, words: str) -> tuple[Callable[..., object], Callable[..., object]]:
    @pytest.fixture(name=family)
    def module() -> object:
        return importlib.import_module(f"isthmus_operators_{family}_test_ext")

    @pytest.fixture(name=f"torch_{family}")
    def known_to_torch(request: pytest.FixtureRequest) -> object:
        request.getfixturevalue(family)
        return getattr(registered_torch().ops, family)

    module.__doc__, known_to_torch.__doc__ = f"Operators {words}.", f"Operators {words}, as torch knows them."
    return module, known_to_torch


for family, words in FAMILIES.items():
    globals()[family], globals()[f"torch_{family}"] = fixtures_of(family, words)


@pytest.fixture
def run_script() -> Callable[..., str]:
    """run_script(code): what it prints, in a process of its own: for what an import or a registration leaves behind."""

    def run(code: str, **environment: str) -> str:
        return processes.run_python(code, *sys.path, **environment).stdout

    return run
