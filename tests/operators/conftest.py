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


@pytest.fixture
def kinds():
    """Operators with the signatures of real kernel libraries."""
    return importlib.import_module("isthmus_operators_kinds_test_ext")


@pytest.fixture
def parameters():
    """Operators with every kind of parameter."""
    return importlib.import_module("isthmus_operators_parameters_test_ext")


@pytest.fixture
def lists():
    """Operators whose arguments are lists."""
    return importlib.import_module("isthmus_operators_lists_test_ext")


@pytest.fixture
def runs():
    """Operators whose sizes have runs of dimensions."""
    return importlib.import_module("isthmus_operators_runs_test_ext")


@pytest.fixture
def jvp():
    """Operators with Jacobian-vector products."""
    return importlib.import_module("isthmus_operators_jvp_test_ext")


@pytest.fixture
def gradients():
    """Operators whose gradients say what they take."""
    return importlib.import_module("isthmus_operators_gradients_test_ext")


def registered_torch():
    """torch, which knows all operators."""
    torch = pytest.importorskip("torch")
    operators = pytest.importorskip("isthmus.operators")
    with contextlib.suppress(importlib.import_module("isthmus").Error):  # both::twice is another module's
        operators.register("torch")
    torch._dynamo.reset()
    return torch


@pytest.fixture
def torch_kinds(kinds):
    """The same as torch knows them: torch.ops.kinds."""
    return registered_torch().ops.kinds


@pytest.fixture
def torch_parameters(parameters):
    """The same as torch knows them: torch.ops.parameters."""
    return registered_torch().ops.parameters


@pytest.fixture
def torch_lists(lists):
    """The same as torch knows them: torch.ops.lists."""
    return registered_torch().ops.lists


@pytest.fixture
def torch_runs(runs):
    """The same as torch knows them: torch.ops.runs."""
    return registered_torch().ops.runs


@pytest.fixture
def torch_jvp(jvp):
    """The same as torch knows them: torch.ops.jvp."""
    return registered_torch().ops.jvp


@pytest.fixture
def torch_gradients(gradients):
    """The same as torch knows them: torch.ops.gradients."""
    return registered_torch().ops.gradients


@pytest.fixture
def run_script() -> Callable[..., str]:
    """run_script(code): what it prints, in a process of its own: for what an import or a registration leaves behind."""

    def run(code: str, **environment: str) -> str:
        return processes.run_python(code, *sys.path, **environment).stdout

    return run
