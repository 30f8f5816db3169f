"""A Python extension in Rust over the backend's table: examples/rust/extension, one file for every Python."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import compiling
import pytest
import readmes

pytest.importorskip("numpy")
isthmus = pytest.importorskip("isthmus")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "rust"
EXTENSION = EXAMPLE / "extension"
TABLE = EXTENSION / "src" / "table.rs"

pytestmark = pytest.mark.skipif(
    "ISTHMUS_SANITIZER" in os.environ, reason="Rust's runtime would run under the sanitizer"
)


def test_table_rs_is_what_the_headers_say(tmp_path: Path) -> None:
    """Numbers, parameters and layouts: table.cpp reads them from the headers."""
    includes = [f"-I{folder}" for folder in isthmus.get_includes()]
    program = [*includes, "-std=c++20", "-O0", "-Wall", "-Wextra", "-Werror", "-Wno-invalid-offsetof"]
    done = subprocess.run(
        [compiling.CXX, *program, EXTENSION / "table.cpp", "-o", tmp_path / "table"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = subprocess.run([tmp_path / "table"], capture_output=True, text=True, check=True).stdout
    assert printed == TABLE.read_text(), "run table.cpp again: src/table.rs is what it prints"


@pytest.fixture(scope="module")
def folder() -> Path:
    """A folder with rusty.abi3.so: built once, by whichever Python comes first, and loaded by all."""
    if shutil.which("cargo") is None or shutil.which("cc") is None:
        pytest.skip("cargo or cc is not installed")
    state = hashlib.sha256()
    for path in sorted(path for path in EXTENSION.rglob("*") if path.suffix in (".rs", ".toml")):
        state.update(path.read_bytes())
    with compiling.locked_folder(f"rust-{state.hexdigest()[:24]}") as folder:
        if not (folder / "rusty.abi3.so").exists():
            copy = folder / "extension"
            shutil.copytree(EXTENSION, copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns("target"))
            command = ["cargo", "build", "--offline", "--quiet", "--release", "--example", "rusty"]
            environment = {**os.environ, "CARGO_TARGET_DIR": str(folder / "target")}
            done = subprocess.run(
                command, cwd=copy, env=environment, capture_output=True, text=True, timeout=600, check=False
            )
            assert done.returncode == 0, done.stderr
            assert "warning" not in done.stderr, done.stderr
            (folder / "target/release/examples/librusty.so").rename(folder / "rusty.abi3.so")
    return folder


def python(folder: Path, *arguments: str) -> str:
    packages = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": packages},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_exchanges_what_the_readme_says(folder: Path) -> None:
    torch = ["torch"] if importlib.util.find_spec("torch") else []
    printed = python(folder, str(EXTENSION / "exchange.py"), *torch)
    wanted = next(text for language, text in readmes.blocks(EXAMPLE) if language == "text" and "ndarray: " in text)
    if not torch:
        wanted = "".join(line for line in wanted.splitlines(True) if not line.startswith("Tensor: "))
    assert readmes.shown(wanted, printed) == ""


HARD = """
import gc, sys
import rusty
assert "numpy" not in sys.modules and "torch" not in sys.modules
import isthmus
import numpy as np

def refusal(code, words, function, *arguments):
    try:
        function(*arguments)
    except Exception as error:
        assert words in str(error) and getattr(error, "code", None) == code, (type(error), error)
    else:
        raise AssertionError(words)

x = np.arange(4, dtype=np.float32)
references = sys.getrefcount(x)
refusal("not_a_tensor", "scale(): argument 'x': expected a tensor", rusty.scale, 3, 1)
refusal("not_a_tensor", "keep(): argument 'x': expected a tensor", rusty.keep, 3)
refusal("bad_layout", "dot(): argument 'b': expected float32[:] C-contiguous on cpu, got float32[2] on cpu: strides "
        "(2,) are not C-contiguous", rusty.dot, x, x[::2])
refusal("bad_layout", "number of dimensions differs", rusty.dot, x, x.reshape(2, 2))
refusal("bad_dtype", "squares(): argument 'x': expected float32[:]", rusty.squares, x.astype(np.int32))
refusal("bad_layout", "4 elements cannot have the shape [1, 3]", rusty.reshaped, x, 3)
refusal("bad_layout", "cannot have the shape [4, -1]", rusty.reshaped, x, -1)
refusal(None, "dot(): assertion `left == right` failed: the vectors differ in length", rusty.dot, x, x[:2])
refusal(None, "scale() takes 2 arguments (1 given)", rusty.scale, x)
refusal(None, "must be real number, not str", rusty.scale, x, "k")
assert x.tolist() == [0, 1, 2, 3]
assert rusty.squares(np.zeros(0, np.float32)).shape == (0,)
assert rusty.dot(np.zeros(0, np.float32), np.zeros(0, np.float32)) == 0

# A capsule is whole again after a call that is refused for another argument, and taken once by one that is not.
capsule = x.__dlpack__()
refusal("not_a_tensor", "dot(): argument 'b'", rusty.dot, capsule, 3)
assert rusty.dot(capsule, x) == 14
refusal("consumed_capsule", "dot(): argument 'a'", rusty.dot, capsule, x)

# What Rust makes is a tensor like any other: the list of live tensors shows it, and its end.
isthmus.live.enable()
made = rusty.squares(isthmus.from_dlpack(x))
assert isinstance(made, isthmus.Tensor) and np.asarray(rusty.squares(made)).tolist() == [0, 1, 16, 81]
(one,) = isthmus.live()
assert one.shape == (4,) and one.producer == "C++", one
del made, one
gc.collect()
assert isthmus.live() == []
isthmus.live.disable()

rusty.keep(x)
assert rusty.kept(x) is x and rusty.kept(x) is None
del capsule
gc.collect()
assert sys.getrefcount(x) == references
print("good")
"""


def test_its_refusals_and_owners_are_those_of_the_library(folder: Path) -> None:
    assert python(folder, "-c", HARD) == "good\n"


TORCH = """
import torch, rusty
x = torch.arange(4.0)
version = x._version
assert rusty.scale(x, 2) is x and x._version == version + 1
rusty.dot(x, x)
assert x._version == version + 1
for function, arguments in ((rusty.scale, (x.clone().requires_grad_(), 2)), (rusty.squares, (x[::2],))):
    before = arguments[0].tolist()
    try:
        function(*arguments)
    except Exception as error:
        assert error.code in ("requires_grad", "bad_layout"), error
    else:
        raise AssertionError
    assert arguments[0].tolist() == before
print(type(rusty.squares(x)).__module__)
"""


def test_autograd_is_told_of_a_write(folder: Path) -> None:
    pytest.importorskip("torch")
    assert python(folder, "-c", TORCH) == "torch\n"


BACKENDS = """
import ctypes, sys, types
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
class Table(ctypes.Structure):
    _fields_ = [("count", ctypes.c_uint32), ("version", ctypes.c_uint32), ("text", ctypes.c_char_p)]
table, name = Table(3, 5, b"0.0.5"), b"isthmus._backend.v1"
import isthmus
module = types.ModuleType("isthmus._backend")
module.v1 = new(ctypes.addressof(table), name, None)
for backend, words in ((None, "pip install 'isthmus>="), (module, "found isthmus 0.0.5; this module needs isthmus ")):
    sys.modules["isthmus._backend"] = backend
    try:
        import rusty
    except ImportError as error:
        assert words in str(error), error
        assert isinstance(error.__cause__, ImportError) == (backend is None), error.__cause__
    else:
        raise AssertionError(words)
print("refused")
"""


def test_without_a_backend_the_import_says_what_to_install(folder: Path) -> None:
    assert python(folder, "-c", BACKENDS) == "refused\n"


def test_it_links_nothing_and_needs_the_limited_api_alone(folder: Path) -> None:
    shown = subprocess.run(["nm", "-D", "--undefined-only", folder / "rusty.abi3.so"], capture_output=True, text=True)
    names = re.findall(r"\b(_?Py\w+)", shown.stdout)
    assert names
    assert [name for name in names if name.startswith("_Py") and name != "_Py_NoneStruct"] == []
    assert "isthmus" not in shown.stdout


def test_abi3audit_finds_nothing(folder: Path) -> None:
    compiling.audit(folder / "rusty.abi3.so")
