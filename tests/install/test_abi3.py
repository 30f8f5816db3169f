"""Modules of the stable ABI (`python -m isthmus --cflags --abi3`): one file that calls the backend of the package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import compiling
import pytest
import readmes

isthmus = pytest.importorskip("isthmus")

pytestmark = pytest.mark.skipif("ISTHMUS_SANITIZER" in os.environ, reason="the compiler would run under the sanitizer")

FUNCTIONS = Path(isthmus.get_include()) / "isthmus" / "backend" / "functions.h"
SOURCE = r"""
#include <isthmus/op.h>
#include <isthmus/core/live.h>
#include <isthmus/python/arguments.h>
#include <isthmus/fields.h>
#include <isthmus/load.h>
using namespace isthmus;

struct Csr {
    View<const int, 1, sizes<"rows+1">> indptr;
    View<const double, 1, sizes<"nnz">> values;
    using fields = isthmus::fields<"indptr", "values">;
};

static PyObject* borrow(PyObject*, PyObject* x) {
    auto t = borrow_py(x, {.argument = "x"});
    if (!t) return set_python_error(t.error()), nullptr;
    auto v = t->view<const float, 1>();
    if (!v) return set_python_error(v.error()), nullptr;
    double sum = 0;
    for (const float e : *v) sum += e;
    return PyFloat_FromDouble(sum);
}
static PyObject* back(PyObject*, PyObject* x) {
    auto t = from_py(x, {.argument = "x"});
    auto r = t ? to_py_like(*t, x) : Result<PyObject*>(t.error());
    return r ? *r : (set_python_error(r.error()), nullptr);
}
static PyObject* half(PyObject*, PyObject* x) {
    try {
        const Tensor t = from_py(x).value();
        const Tensor part = t.slice(0, 0, t.shape()[0] / 2);
        return to_py(part, Framework::numpy).value();
    } catch (const Error& error) {
        set_python_error(error);
        return nullptr;
    }
}
static PyObject* grown(PyObject*, PyObject*) {
    float* values = new float[3]{1, 2, 3};
    const Tensor t = Tensor::wrap(values, {3}, {}, float32, Device::cpu(), [values] { delete[] values; });
    return to_py(t, Framework::numpy).value();
}
static PyObject* scaled(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
    Arguments<View<const float, 1, sizes<"n">>, View<const float, 1, sizes<"n">>, std::optional<double>> in(
        "scaled", {"a", "b", "factor"});
    if (!in.parse(args, nargs, kwnames)) return nullptr;
    auto [a, b, factor] = in.values();
    const Tensor result = Tensor::empty({a.extent(0)}, float32);
    auto out = result.view<float, 1>().value();
    for (std::int64_t i = 0; i < a.extent(0); ++i) out(i) = static_cast<float>(factor.value_or(1)) * a(i) * b(i);
    return in.reply(result);
}
static PyObject* total(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
    Arguments<Csr> in("total", {"matrix"});
    if (!in.parse(args, nargs, kwnames)) return nullptr;
    double sum = 0;
    for (const double value : in.get<0>().values) sum += value;
    return PyFloat_FromDouble(sum);
}
static PyObject* spelled(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
    Arguments<std::string_view, std::optional<std::string>> in("spelled", {"first", "second"});
    if (!in.parse(args, nargs, kwnames)) return nullptr;
    const auto& [first, second] = in.values();
    return PyUnicode_FromString((std::string(first) + "|" + second.value_or("none")).c_str());
}
/// The names, dtypes, shapes and bytes of a file's tensors, its metadata, and the sum of its tensor "x".
static PyObject* loaded(PyObject*, PyObject* path) {
    try {
        const Ref text(PyUnicode_AsUTF8String(path));
        const TensorFile file = load(PyBytes_AsString(text.get())).value();
        std::string words;
        for (const TensorEntry& entry : file.entries())
            words += entry.name + " " + entry.dtype.name() + " " + std::to_string(entry.shape.size()) + " " +
                     std::to_string(entry.end - entry.begin) + "; ";
        for (const auto& [key, value] : file.metadata()) words += key + "=" + value + "; ";
        if (!file.contains("x") || file.contains("y")) return PyErr_Format(PyExc_AssertionError, "contains");
        const Tensor x = file.at("x").value(), copied = file.copy("x").value();
        double sum = 0;
        const auto values = x.view<const float, 1>().value();
        for (const float e : values) sum += e;
        copied.view<float, 1>().value()(0) = 0;
        return PyUnicode_FromString((words + std::to_string(sum)).c_str());
    } catch (const Error& error) {
        set_python_error(error);
        return nullptr;
    }
}
static PyObject* alive(PyObject*, PyObject*) {
    live_tracking(true);
    const Tensor t = Tensor::empty({2, 3}, float32);
    const auto list = live();
    live_tracking(false);
    if (list.size() != 1 || live_tracking() || !live().empty()) return PyErr_Format(PyExc_AssertionError, "live");
    return PyUnicode_FromFormat("%s %d %d", list[0].producer.c_str(), static_cast<int>(list[0].shape[1]),
                                static_cast<int>(list[0].nbytes));
}
static void twice(View<const float, 1, sizes<"n">> x, Out<float, 1, sizes<"n">> y) {
    for (std::int64_t i = 0; i < x.extent(0); ++i) y(i) = 2 * x(i);
}
static void fails(View<const float, 1, sizes<"n">> x, Out<float, 1, sizes<"n">>) {
    if (x(0) == 0) throw Error(ErrorCode::bad_argument, "the kernel says no");
    if (x(0) == 1) throw std::out_of_range("far out");
    if (x(0) == 2) throw std::bad_alloc();
    throw 3;
}

#define FAST(f) {#f, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f)), METH_FASTCALL | METH_KEYWORDS, ""}
static PyMethodDef methods[] = {
    {"borrow", borrow, METH_O, ""}, {"back", back, METH_O, ""}, {"half", half, METH_O, ""},
    {"grown", grown, METH_NOARGS, ""}, FAST(scaled), FAST(spelled), FAST(total), {"loaded", loaded, METH_O, ""},
    {"alive", alive, METH_NOARGS, ""}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "one", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC PyInit_one() {
    PyObject* m = PyModule_Create(&definition);
    if (m == nullptr) return nullptr;
    if (!isthmus::op<"one::twice", twice>(m, {"x"}) || !isthmus::op<"one::fails", fails>(m, {"x"})) return nullptr;
    return m;
}
"""
USE = """
import gc, sys
import one
assert "numpy" not in sys.modules and "torch" not in sys.modules
import numpy as np
x = np.arange(4, dtype=np.float32)
assert one.borrow(x) == 6 and one.back(x) is x
assert one.half(x).tolist() == [0, 1] and np.shares_memory(one.half(x), x)
assert one.grown().tolist() == [1, 2, 3]
assert one.scaled(x, b=x, factor=2.0).tolist() == [0, 2, 8, 18]
assert one.total({"indptr": np.zeros(2, np.int32), "values": np.ones(3)}) == 3
assert one.spelled("größer", second="a") == "größer|a" and one.spelled("") == "|none"
assert one.twice(x).tolist() == [0, 2, 4, 6]
import json, struct
header = json.dumps({"__metadata__": {"made": "here"}, "x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})
header += " " * (-len(header) % 8)
data = struct.pack("<Q", len(header)) + header.encode() + np.array([5, 6], np.float32).tobytes()
open("x.safetensors", "wb").write(data)
assert one.loaded("x.safetensors") == "x float32 1 8; made=here; 11.000000", one.loaded("x.safetensors")
assert one.alive() == "C++ 3 24", one.alive()
counts = sys.getrefcount(x)
for call, words in (
    (lambda: one.borrow(3), "argument 'x': expected a tensor"),
    (lambda: one.borrow(np.zeros(3)), "expected float32[:] on cpu, got float64[3] on cpu"),
    (lambda: one.scaled(x, x[:2]), "scaled(): argument 'b'"),
    (lambda: one.scaled(x), "missing required argument 'b'"),
    (lambda: one.spelled(3), "spelled(): argument 'first': expected a string, got int"),
    (lambda: one.half(np.float32(1)), "dimension"),
    (lambda: one.total({"indptr": np.zeros(2, np.int32)}), "values"),
    (lambda: one.loaded("nowhere"), "nowhere"),
    (lambda: one.loaded("one.cpp"), "one.cpp"),
    (lambda: one.fails(x), "the kernel says no"),
    (lambda: one.fails(x + 1), "fails(): far out"),
    (lambda: one.fails(x + 2), "fails(): no memory"),
    (lambda: one.fails(x + 3), "fails(): an exception was thrown that is not a std::exception"),
):
    try:
        call()
    except (TypeError, ValueError, BufferError, IndexError, MemoryError, RuntimeError, OSError) as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)
gc.collect()
assert sys.getrefcount(x) == counts
print("used")
"""


GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "install.md").read_text().replace(" \\\n  ", " ")


#: The C++ library of LLVM inside the module, over the unwinder that Python's process has: LLVM's own, beside it in one
#: process, would take over its exceptions.
LIBCXX = [
    "-nostdlib++",
    "-Wl,--exclude-libs,ALL,-Bstatic",
    "-lc++",
    "-lc++abi",
    "-Wl,-Bdynamic",
    "-lgcc_s",
    "-lpthread",
]


def compiled(folder: Path, compiler: str, *flags: str) -> Path:
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        pytest.skip("without the GIL there is abi3t alone, which has no PyModuleDef")
    (folder / "one.cpp").write_text(SOURCE)
    told = [*isthmus.get_cflags(abi3=True), "-Wall", "-Wextra", "-Werror", "-shared", "-Wl,-z,now", *flags]
    command = [compiler, *told, str(folder / "one.cpp"), "-o", str(folder / "one.abi3.so")]
    command += LIBCXX if "-stdlib=libc++" in flags else []
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("abi3"), compiling.CXX, "-O1")


def python(folder: Path, source: str, *flags: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, *flags, "-c", source],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_one_file_does_what_a_linked_module_does(folder: Path) -> None:
    pytest.importorskip("numpy")
    assert python(folder, USE) == "used\n"


#: Compilers and C++ libraries that the backend was not made with: no type of theirs crosses.
OTHERS = {
    "the old std::string": [compiling.CXX, "-D_GLIBCXX_USE_CXX11_ABI=0"],
    "no RTTI": [compiling.CXX, "-fno-rtti"],
    "Clang": [compiling.CLANG or ""],
    "libc++": [compiling.CLANG or "", "-stdlib=libc++"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_it_does_the_same_from_another_compiler(name: str, tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    compiler, *flags = OTHERS[name]
    if not compiler:
        pytest.skip("clang++ is not installed: apt-get install clang libc++-dev libc++abi-dev")
    if "-stdlib=libc++" in flags:
        source = "#include <vector>\nint main() {}\n"
        command = [compiler, *flags, "-x", "c++", "-", "-o", os.devnull]
        if subprocess.run(command, input=source, text=True, capture_output=True, check=False).returncode != 0:
            pytest.skip("libc++ is not installed: apt-get install libc++-dev libc++abi-dev")
    assert python(compiled(tmp_path, compiler, "-O1", *flags), USE) == "used\n"


def test_abi3audit_finds_nothing(folder: Path) -> None:
    compiling.audit(folder / "one.abi3.so")


def test_the_command_of_the_guide_compiles_the_example_of_the_readme(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    example = readmes.texts(Path(__file__).resolve().parents[2], "cpp")[1]
    (tmp_path / "mine.cpp").write_text(example.replace("ISTHMUS_MODULE(first,", "ISTHMUS_MODULE(mine,"))
    command = re.search(r"(?m)^```sh\n(g\+\+ .*--abi3.*)$", GUIDE)[1]  # type: ignore[index]
    command = command.replace("g++", compiling.CXX, 1).replace("$(python ", f"$({sys.executable} ")
    subprocess.run(command, shell=True, check=True, cwd=tmp_path, timeout=600)
    use = "import mine, numpy as np; x = np.zeros((1, 2), np.float32); mine.invert(x); assert (x == 1).all()"
    python(tmp_path, use)


TYPED = """
#include <isthmus/module.h>
using namespace isthmus;
using Image = View<const std::uint8_t, 2, sizes<"h w">>;
Made<View<float, 2>> scaled(const Argument<Image>& image, double by) {
    auto out = image.make<View<float, 2>>({image->extent(0), image->extent(1)});
    for_each([by](float& to, std::uint8_t from) { to = static_cast<float>(by * from); }, *out, *image);
    return out;
}
ISTHMUS_MODULE(typed, m) { isthmus::def<scaled>(m, "scaled", {"image", "by"}); }
"""


def test_a_typed_result_of_a_module_without_a_binder(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    (tmp_path / "typed.cpp").write_text(TYPED)
    command = [compiling.CXX, *isthmus.get_cflags(abi3=True), "-O1", "-shared", "typed.cpp", "-o", "typed.abi3.so"]
    subprocess.run(command, check=True, cwd=tmp_path, timeout=600)
    source = """
import numpy as np, typed
made = typed.scaled(np.array([[1, 2]], np.uint8), 2)
assert type(made) is np.ndarray and made.dtype == np.float32 and made.tolist() == [[2, 4]], made
"""
    python(tmp_path, source)


def test_its_tensors_are_those_of_other_modules(folder: Path) -> None:
    source = """
import isthmus, one
t = isthmus.empty((3,), "float32")
assert one.back(t) is t
"""
    python(folder, source)


def test_what_it_needs_of_python_is_in_the_limited_api(folder: Path) -> None:
    # Python's own symbols: https://docs.python.org/3/c-api/stable.html lists them; what begins with an underscore is
    # not among them but for a few that its macros use.
    done = subprocess.run(
        ["nm", "-D", "--undefined-only", folder / "one.abi3.so"], capture_output=True, text=True, check=True
    )
    names = re.findall(r"\b(_?Py\w+)", done.stdout)
    assert names
    assert [name for name in names if name.startswith("_Py") and name not in {"_Py_Dealloc", "_Py_NoneStruct"}] == []
    assert "isthmus" not in done.stdout


def test_without_the_package_the_import_says_what_to_install(folder: Path) -> None:
    source = """
import sys
sys.modules["isthmus"] = None
try:
    import one
except ImportError as error:
    assert "pip install 'isthmus>=" in str(error), error
    assert isinstance(error.__cause__, ImportError)
else:
    raise AssertionError
"""
    python(folder, source)


def test_an_interrupt_while_the_backend_is_imported_is_itself(folder: Path) -> None:
    source = """
import sys
class Interrupted:
    def find_spec(self, name, *others):
        if name == "isthmus":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
try:
    import one
except KeyboardInterrupt:
    pass
else:
    raise AssertionError
"""
    python(folder, source)


def row_count() -> int:
    return int(re.search(r"ISTHMUS_BACKEND_COUNT (\d+)", FUNCTIONS.read_text())[1])  # type: ignore[index]


def test_an_older_backend_is_refused_with_the_version_that_is_needed(folder: Path) -> None:
    source = """
import ctypes, sys, types
class Table(ctypes.Structure):
    _fields_ = [("count", ctypes.c_uint32), ("version", ctypes.c_uint32), ("text", ctypes.c_char_p)]
table = Table(3, 5, b"0.0.5")
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
name = b"isthmus._backend.v1"
module = types.ModuleType("isthmus._backend")
module.v1 = new(ctypes.addressof(table), name, None)
import isthmus
sys.modules["isthmus._backend"] = module
try:
    import one
except ImportError as error:
    said = str(error)
    assert said.startswith("found isthmus 0.0.5 with 3 functions; this module needs isthmus "), said
    assert " or newer, with ROWS: pip install --upgrade 'isthmus>=" in said, said
else:
    raise AssertionError
"""
    python(folder, source.replace("ROWS", str(row_count())))


@pytest.mark.parametrize("compiler", ["GCC", "Clang"])
def test_layouts_and_signatures_are_those_of_the_backend(compiler: str) -> None:
    program = {"GCC": compiling.CXX, "Clang": compiling.CLANG}[compiler]
    if program is None:
        pytest.skip("clang++ is not installed: apt-get install clang")
    source = Path(__file__).resolve().parents[1] / "python" / "ext" / "layouts.cpp"
    command = [program, *isthmus.get_cflags(abi3=True), "-Wall", "-Wextra", "-Werror", "-fsyntax-only", source]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr


ABI3T = r"""
#include <isthmus/module.h>
#include <isthmus/op.h>
#include <isthmus/tree.h>
using namespace isthmus;
static void scale(View<float, 1> x, float k) { for (float& v : x) v *= k; }
static Tensor count(int n) {
    std::vector<float> values(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    return Tensor::own(std::move(values));
}
static void twice(View<const float, 1, sizes<"n">> x, Out<float, 1, sizes<"n">> y) {
    for (std::int64_t i = 0; i < x.extent(0); ++i) y(i) = 2 * x(i);
}
ISTHMUS_MODULE(both, m, free_threaded) {
    isthmus::def<scale>(m, "scale", {"x", "k"}, "In place.");
    isthmus::def<count>(m, "count", {"n"});
    isthmus::op<"both::twice", twice>(m, {"x"});
}
"""


@pytest.mark.skipif(sys.version_info < (3, 15), reason="abi3t begins with Python 3.15")
def test_one_file_for_builds_with_and_without_the_gil(tmp_path: Path) -> None:
    """PEP 803: the module is found by its slots, and shows nothing of a PyObject."""
    pytest.importorskip("numpy")
    (tmp_path / "both.cpp").write_text(ABI3T)
    command = re.search(r"(?m)^(g\+\+ .*Py_TARGET_ABI3T.*)$", GUIDE)[1]  # type: ignore[index]
    command = command.replace("g++", f"{compiling.CXX} -Wall -Wextra -Werror", 1).replace("python3.15", sys.executable)
    done = subprocess.run(
        command.replace("mine", "both"), shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    source = """
import gc, sys, both, numpy as np
x = np.ones(3, np.float32)
references = sys.getrefcount(x)
both.scale(x, 2)
assert x.tolist() == [2, 2, 2] and both.twice(x).tolist() == [4, 4, 4]
assert np.asarray(both.count(3)).tolist() == [0, 1, 2]
try:
    both.scale(np.ones(3), 2)
except ValueError as error:
    assert "scale(): argument 'x': expected writable float32[:]" in str(error), error
else:
    raise AssertionError
gc.collect()
assert sys.getrefcount(x) == references
if not sys._is_gil_enabled():
    print("without the GIL,", end=" ")
print(both.__file__.rpartition(".abi3t")[1])
"""
    told = python(tmp_path, source)
    without_gil = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    assert told == ("without the GIL, .abi3t\n" if without_gil else ".abi3t\n")
    (tmp_path / "isthmus").mkdir()
    (tmp_path / "isthmus" / "__init__.py").touch()
    refused = "try:\n    import both\nexcept ImportError as error:\n    print(error)"
    assert "pip install 'isthmus>=" in python(tmp_path, refused)


def test_every_row_has_its_number() -> None:
    text = FUNCTIONS.read_text()
    numbers = [int(number) for number in re.findall(r"^    [FMTX]\((\d+), ", text, re.MULTILINE)]
    assert sorted(numbers) == list(range(len(numbers)))
    assert row_count() == len(numbers)
