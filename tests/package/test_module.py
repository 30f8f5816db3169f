"""What the package offers, and that its stubs say the same."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import isthmus
from isthmus import _isthmus

PACKAGE = Path(isthmus.__file__).parent


def test_everything_named_is_there():
    for name in isthmus.__all__:
        assert getattr(isthmus, name) is not None, name


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (isthmus.TensorTypeError, TypeError),
        (isthmus.TensorValueError, ValueError),
        (isthmus.TensorBufferError, BufferError),
    ],
)
def test_errors_are_also_builtin(kind, builtin):
    assert issubclass(kind, isthmus.Error)
    assert issubclass(kind, builtin)


def stub() -> ast.Module:
    return ast.parse((PACKAGE / "_isthmus.pyi").read_text())


def test_the_stub_names_what_the_module_has():
    named = {node.name for node in stub().body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    private = {"_Framework"}
    here = {name for name in vars(_isthmus) if not name.startswith("__")} - {"_backend_v1"}
    assert named - private == here


#: Special names of a type that no stub writes.
OF_CPYTHON = {"__module__", "__weaklistoffset__", "__release_buffer__"}


@pytest.mark.parametrize("name", ["Tensor", "DType", "Device"])
def test_the_stub_names_what_the_types_have(name):
    (found,) = (node for node in stub().body if isinstance(node, ast.ClassDef) and node.name == name)
    named = {node.name for node in found.body if isinstance(node, ast.FunctionDef)}
    fields = {
        node.target.id for node in found.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    kind = getattr(_isthmus, name)
    protocols = {member for member in vars(kind) if member.startswith("__")} - set(dir(object)) - OF_CPYTHON
    assert protocols <= named | fields
    assert {member for member in named if not hasattr(kind, member)} <= {"__buffer__"}  # Python has it from 3.12
    assert {member for member in vars(kind) if not member.startswith("_")} <= named


def stub_docstrings():
    for node in stub().body:
        for member in [node, *node.body] if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(member, ast.FunctionDef) and ast.get_docstring(member):
                owner = getattr(_isthmus, node.name) if member is not node else _isthmus
                yield pytest.param(
                    getattr(owner, member.name), ast.get_docstring(member), id=f"{node.name}.{member.name}"
                )


@pytest.mark.parametrize(("what", "text"), list(stub_docstrings()))
def test_the_stub_says_what_help_says(what, text):
    assert inspect.getdoc(what) == text


@pytest.mark.parametrize("name", ["Tensor", "DType", "Device"])
def test_the_stub_documents_every_public_name(name):
    (found,) = (node for node in stub().body if isinstance(node, ast.ClassDef) and node.name == name)
    told = {node.name for node in found.body if isinstance(node, ast.FunctionDef) and ast.get_docstring(node)}
    assert {node.name for node in found.body if isinstance(node, ast.FunctionDef) and node.name[0] != "_"} <= told


def test_typed():
    assert (PACKAGE / "py.typed").exists()


def test_importing_it_imports_no_framework():
    code = "import sys, isthmus; print([m for m in ('numpy', 'torch', 'jax', 'ml_dtypes') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="told by the module from 3.12 on")
def test_subinterpreters_are_refused():
    code = """
import sys
if sys.version_info >= (3, 14):
    import _interpreters as interpreters
elif sys.version_info >= (3, 13):
    import _interpreters as interpreters
else:
    import _xxsubinterpreters as interpreters
sub = interpreters.create()
program = "try:\\n import isthmus\\nexcept ImportError: print('refused')\\n"
(getattr(interpreters, "run_string", None) or interpreters.exec)(sub, program)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "refused" in done.stdout, done.stderr
