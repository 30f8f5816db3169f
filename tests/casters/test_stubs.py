"""What a type checker makes of a module's stub: right calls pass, and what is no tensor is an error before the program
runs."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

MODULE = "isthmus_nanobind_test_ext"
ARRAYS = """\
x = np.zeros((2, 3), np.float32)
doubles = np.zeros(3)
small = np.zeros(3, np.int8)
"""
RIGHT = """
ext.sum(x)
ext.sum(memoryview(b""))
ext.sum(ext.counting(3))
ext.sum(x.__dlpack__())
ext.count(None)
ext.keep(x)
ext.own_row(x)
ext.own_like([1.0, 2.0])
ext.fill(x, 1.0)
ext.signals_sum([x, x])
numpy_result: np.ndarray = ext.counting_numpy(3)
tensor: isthmus.Tensor = ext.counting(3)
owned: isthmus.Tensor = ext.own_row_if(x, True)
text: str = ext.totals(x) + ext.totals(doubles) + ext.totals(tensor)
ext.which_of([doubles])
ext.dtype_back("float32")
ext.dtype_back(np.dtype("float32"))
ext.device_back(("cuda"))
class Grid:
    def __dlpack__(self, **options: object) -> object: return None
ext.sum(Grid())
ext.sum(ext.Producer())
produced: np.ndarray = np.from_dlpack(ext.Producer())
ext.Producer().__dlpack__(max_version=(1, 0), copy=True)
device: tuple[int, int] = ext.Producer().__dlpack_device__()
array_of: np.ndarray = np.asarray(ext.Producer())
rows: memoryview = memoryview(ext.Producer())
interface: dict[str, object] = ext.Producer().__array_interface__
array: np.ndarray = tensor.to("numpy")
"""
WRONG = """
ext.sum("text")
ext.sum([1.0])
ext.sum(3.0)
ext.sum(None)
ext.sum(object())
ext.keep({})
ext.fill(1.0, x)
ext.signals_sum([1.0, 2.0])
ext.sum(doubles)
ext.totals(small)
ext.own_row(doubles)
ext.own_row([1.0])
ext.device_back(1)
other: int = ext.counting_numpy(3)
ext.Producer().__dlpack__(version=1)
ext.Producer().__array_interface__()
number: int = ext.Producer().__array__()
"""
# What the stub of isthmus names of them is looked at as Any: analysing torch takes half a minute.
CONFIGURATION = """
[mypy]
python_version = {version}
[mypy-torch.*,jax.*]
follow_imports = skip
ignore_missing_imports = True
"""


@pytest.fixture
def stub() -> str:
    ext = pytest.importorskip(MODULE)
    stubgen = pytest.importorskip("nanobind.stubgen")
    generator = stubgen.StubGen(ext)
    generator.put(ext)
    return generator.get()


def test_a_stub_is_valid_python(stub: str) -> None:
    compile(stub, "stub.pyi", "exec")
    wanted = "Annotated[isthmus.typing.TensorLike[numpy.float32], 'float32[n, d] on cpu']"
    assert wanted in stub.replace("typing.Annotated", "Annotated").replace('"', "'")


def test_what_tensor_protocol_adds_has_signatures(stub: str) -> None:
    assert "escriptor" not in stub
    wanted = ast.parse(stub[stub.index("class Producer") : stub.index("class Holder")]).body[0]
    assert isinstance(wanted, ast.ClassDef)
    added = {f.name: f for f in wanted.body if isinstance(f, ast.FunctionDef)}
    for name in ("__dlpack__", "__dlpack_device__", "__array__", "__buffer__"):
        assert added[name].returns is not None, name
        assert added[name].decorator_list == [], name
    for name in ("__array_interface__", "__cuda_array_interface__"):
        assert [ast.unparse(d) for d in added[name].decorator_list] == ["property"], name


@pytest.mark.parametrize("module", [MODULE, "isthmus_pybind11_test_ext"])
def test_a_docstring_begins_with_the_signature(module: str) -> None:
    """It is what pybind11-stubgen reads, and it takes a method without one for a static one."""
    producer = pytest.importorskip(module).Producer
    for name in ("__dlpack__", "__dlpack_device__", "__array__", "__buffer__"):
        first, blank, words = producer.__dict__[name].__doc__.split("\n")
        function = ast.parse(f"def {first}: ...").body[0]
        assert isinstance(function, ast.FunctionDef)
        assert (function.name, blank) == (name, "")
        assert function.returns is not None
        assert words
        assert [*function.args.posonlyargs, *function.args.args][0].arg == "self"
        assert inspect.isroutine(producer.__dict__[name])
        with pytest.raises(TypeError, match="cannot create"):
            type(producer.__dict__[name])()
    for name in ("__array_interface__", "__cuda_array_interface__"):
        descriptor = producer.__dict__[name]
        assert descriptor.fget.__doc__.startswith("(self) -> dict[str, object]\n")
        assert descriptor.__name__ == name
        assert inspect.isdatadescriptor(descriptor)
        with pytest.raises(AttributeError, match="read-only"):
            setattr(producer(), name, {})


def test_its_types_need_no_import_but_isthmus(tmp_path: Path) -> None:
    program = "import isthmus\ndef f(x: isthmus.typing.Capsule, y: isthmus.typing.NumpyArray) -> None: ...\n"
    assert complaints("", tmp_path, program, "use.py") == []


def complaints(stub: str, folder: Path, program: str, file: str) -> list[str]:
    """What mypy says of one of the two files."""
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed (requirements/test.txt)")
    (folder / f"{MODULE}.pyi").write_text(stub)
    (folder / "mypy.ini").write_text(CONFIGURATION.format(version="{}.{}".format(*sys.version_info)))
    (folder / "use.py").write_text(program)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        "mypy.ini",
        "--cache-dir",
        "cache",
        "use.py",
        f"{MODULE}.pyi",
    ]
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert found.returncode in (0, 1), found.stdout + found.stderr
    return [line for line in found.stdout.splitlines() if line.startswith(f"{file}:") and ": error:" in line]


#: Overloads that differ in what no type says: the rank, the record, the fields, a name, whether they write.
HIDDEN = {"which", "apply", "which_record", "sum_any", "text_or_dtype", "annotated"}


def defined_at(stub: str, lines: list[int]) -> set[str]:
    return {re.search(r"def (\w+)", stub.splitlines()[line - 1])[1] for line in lines}


def test_overloads_by_dtype_are_told_apart(stub: str, tmp_path: Path) -> None:
    """No signature hides another (overload-cannot-match), but where they differ in what no type says."""
    said = [line for line in complaints(stub, tmp_path, "", f"{MODULE}.pyi") if "overload" in line]
    assert defined_at(stub, [int(line.split(":")[1]) for line in said]) <= HIDDEN, said
    assert {"totals", "which_of", "own_ends"} <= set(re.findall(r"def (\w+)", stub))


def test_pyright_says_the_same(stub: str, tmp_path: Path) -> None:
    if importlib.util.find_spec("pyright") is None:
        pytest.skip("pyright is not installed: pip install pyright")
    try:
        subprocess.run([sys.executable, "-m", "pyright", "--version"], capture_output=True, timeout=120, check=True)
    except subprocess.SubprocessError:
        pytest.skip("pyright cannot fetch its program from npm: python -m pyright --version says why")
    (tmp_path / f"{MODULE}.pyi").write_text(stub)
    head = f"import isthmus, numpy as np, {MODULE} as ext\n" + ARRAYS
    (tmp_path / "use.py").write_text(head + RIGHT + WRONG)
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run([*command, "use.py", f"{MODULE}.pyi"], cwd=tmp_path, capture_output=True, text=True)
    errors: dict[str, list[int]] = {"use.py": [], f"{MODULE}.pyi": []}
    for said in json.loads(done.stdout)["generalDiagnostics"]:
        if said["severity"] == "error":
            errors[Path(said["file"]).name].append(said["range"]["start"]["line"] + 1)
    assert defined_at(stub, errors[f"{MODULE}.pyi"]) <= HIDDEN
    assert set(errors["use.py"]) == lines_of_wrong(head)


def lines_of_wrong(head: str) -> set[int]:
    first = (head + RIGHT).count("\n") + 2  # WRONG begins with an empty line
    return set(range(first, first + WRONG.count("\n") - 1))


def test_a_checker_finds_what_is_no_tensor(stub: str, tmp_path: Path) -> None:
    head = f"import isthmus, numpy as np, {MODULE} as ext\n" + ARRAYS
    said = complaints(stub, tmp_path, head + RIGHT + WRONG, "use.py")
    assert {int(line.split(":")[1]) for line in said} == lines_of_wrong(head), "\n".join(said)
