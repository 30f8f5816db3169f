"""The compiled library of the package (`python -m isthmus --cflags`, `--ldflags`): what a user's flags may be, and that
every public header links with it."""

from __future__ import annotations

import importlib.machinery
import os
import shutil
import subprocess
import sys
from pathlib import Path

import compiling
import pytest
import readmes
from compiling import CLANG, CXX

isthmus = pytest.importorskip("isthmus")

pytestmark = pytest.mark.skipif("ISTHMUS_SANITIZER" in os.environ, reason="the compiler would run under the sanitizer")

HEADERS = Path(isthmus.get_include()) / "isthmus"
CONSUMER = Path(__file__).resolve().parent / "consumer"
FIRST = readmes.texts(Path(__file__).resolve().parents[2], "cpp")[1]  # without a binder
USE_FIRST = """
import numpy as np, first
x = np.zeros((2, 3), np.float32)
first.invert(x)
assert (x == 1).all()
try:
    first.invert(np.zeros((2, 3)))
except ValueError as error:
    assert "argument 'image'" in str(error)
else:
    raise AssertionError("float64 was taken for float32")
"""
#: A module is not to load if anything of ours is missing in it; its other symbols are Python's.
ALL_AT_ONCE = "-Wl,-z,now"


def run(*command: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=600, cwd=cwd)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def errors(*flags: str, source: str = "#include <isthmus/python.h>\n") -> list[str]:
    """The lines of the compiler's errors, of a file that is not to compile."""
    command = [CXX, *isthmus.get_cflags(), *flags, "-fsyntax-only", "-x", "c++", "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, timeout=300)
    assert done.returncode != 0
    return [line for line in done.stderr.splitlines() if "error:" in line]


def clang_flags() -> list[str]:
    """Clang with what its linker alone does, if this machine has it."""
    return ["-O2", "-flto=thin", "-fuse-ld=lld", "-Wl,--icf=all"] if shutil.which("ld.lld") else ["-O2"]


FLAGS = {
    "as in the README": [CXX, "-O2"],
    "before the sources": [CXX, "-O2"],
    "NDEBUG": [CXX, "-O2", "-DNDEBUG"],
    "-O0": [CXX, "-O0"],
    "C++23": [CXX, "-O1", "-std=c++23"],
    "assertions": [CXX, "-O1", "-D_GLIBCXX_ASSERTIONS"],
    "debug containers": [CXX, "-O1", "-D_GLIBCXX_DEBUG"],
    "LTO": [CXX, "-O2", "-flto"],
    "no RTTI": [CXX, "-O1", "-fno-rtti"],
    "default visibility": [CXX, "-O1", "-fvisibility=default"],
    "UBSan": [CXX, "-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all"],
    "Clang": [CLANG or "", *clang_flags()],
}


@pytest.mark.skipif(sys.platform != "linux", reason="the flags are those of GNU's linker")
@pytest.mark.parametrize("name", FLAGS)
def test_it_links_with_what_was_compiled_by(name: str, tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    compiler, *flags = FLAGS[name]
    if not compiler:
        pytest.skip("clang++ is not installed")
    (tmp_path / "first.cpp").write_text(FIRST)
    link = [*isthmus.get_ldflags(), ALL_AT_ONCE]
    before, behind = (link, []) if name == "before the sources" else ([], link)
    run(
        compiler,
        "-shared",
        *before,
        *isthmus.get_cflags(),
        *flags,
        "first.cpp",
        *behind,
        "-o",
        "first.so",
        cwd=tmp_path,
    )
    run(sys.executable, "-c", USE_FIRST, cwd=tmp_path)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["-D_GLIBCXX_USE_CXX11_ABI=0"], "has the new std::string"),
        (["-UISTHMUS_PREBUILT", "-DISTHMUS_PREBUILT=0"], "is of libc++"),
        (["-UISTHMUS_PREBUILT", "-DISTHMUS_PREBUILT=99"], "is of a newer GCC"),
        (["-DISTHMUS_COMPILED"], "ISTHMUS_COMPILED ended: link isthmus::python"),
    ],
    ids=["old ABI", "libc++", "older GCC", "the old name"],
)
def test_what_does_not_fit_is_told_by_the_compiler(flags: list[str], said: str) -> None:
    if isthmus._isthmus.__cxx_library_release__ == 0:
        pytest.skip("the library is of another C++ library than GCC's")
    (error,) = errors(*flags)
    assert said in error


def test_the_library_is_one_object_of_the_whole_bridge() -> None:
    symbols = run("nm", "-C", "--defined-only", isthmus.get_library())
    for name in ("from_py(", "to_py(", "Tensor::empty(", "copy_of("):
        assert name in symbols, name
    assert "-DNDEBUG" not in isthmus.get_cflags(), "that is the user's to say"


@pytest.mark.skipif(sys.platform != "linux", reason="the size is that of ELF")
def test_a_module_has_what_it_calls_and_no_more(tmp_path: Path) -> None:
    """README's module, stripped: without operators, shared memory and files of weights."""
    (tmp_path / "first.cpp").write_text(FIRST)
    flags = run(sys.executable, "-m", "isthmus", "--ldflags").split()
    run(CXX, "-O2", "-shared", *isthmus.get_cflags(), "first.cpp", *flags, "-o", "first.so", cwd=tmp_path)
    symbols = run("nm", "-C", tmp_path / "first.so")
    for left_out in ("OperatorDefinition", "register_torch", "shared::Segment", "load_impl"):
        assert left_out not in symbols
    run("strip", tmp_path / "first.so")
    assert (tmp_path / "first.so").stat().st_size <= 260_000


def nanobind_flags() -> list[str]:
    """nanobind's folders, and its library as an object."""
    return compiling.nanobind_flags(Path(pytest.importorskip("nanobind").include_dir()).parent)


def pybind11_flags() -> list[str]:
    return [f"-isystem{pytest.importorskip('pybind11').get_include()}"]


#: What is said of a header that is not linked here.
ELSEWHERE = {
    "torch.h": "tests/torch: it wants isthmus::torch",
    "eigen.h": "tests/adapters",
    "eigen_tensor.h": "tests/adapters",
    "mdspan.h": "tests/adapters",
    "opencv.h": "tests/adapters",
    "xtensor.h": "tests/adapters",
}
#: What each header has, used by a function that is called when the module is imported: false, and the import fails.
USES = {
    "isthmus.h": """bool use() {
        const auto t = isthmus::copy_of(isthmus::Tensor::own(std::vector<float>{1, 2}, {2})).value();
        const isthmus::Tensor cut = t.slice(0, 1, 2);
        return t.view<const float, 1>().value()(1) == 2 && cut.numel() == 1 && isthmus::from_blob(isthmus::to_blob(t));
    }""",
    "shared.h": """bool use() {
        return bool(isthmus::shared::share(isthmus::Tensor::own(std::vector<float>{1, 2})));
    }""",
    "load.h": """bool use() { return !isthmus::load("/nowhere"); }""",
    "converted.h": """bool use() {
        const auto t = isthmus::Tensor::own(std::vector<double>{1, 2});
        return bool(isthmus::Match("f").view<isthmus::View<const double, 1>>("x", t));
    }
    using Floats = isthmus::Converted<isthmus::View<const float, 1>>;
    PyObject* take(PyObject*, PyObject* const* values, Py_ssize_t count) {
        isthmus::Arguments<Floats> in("take", {"x"});
        return in.parse(values, count) ? PyFloat_FromDouble(in.get<0>()(0)) : nullptr;
    }""",
    "array_like.h": """bool use() { return true; }
    using Rows = isthmus::ArrayLike<isthmus::View<const float, 2>>;
    PyObject* take(PyObject*, PyObject* const* values, Py_ssize_t count) {
        isthmus::Arguments<Rows> in("take", {"x"});
        return in.parse(values, count) ? PyFloat_FromDouble(in.get<0>()(0, 1)) : nullptr;
    }""",
    "owned.h": """bool use() { return true; }
    using Kept = isthmus::Owned<isthmus::View<const float, 1>>;
    PyObject* take(PyObject*, PyObject* const* values, Py_ssize_t count) {
        static Kept kept;
        isthmus::Arguments<Kept> in("take", {"x"});
        if (!in.parse(values, count)) return nullptr;
        kept = in.get<0>();
        return PyFloat_FromDouble((*kept)(0));
    }""",
    "tensor_protocol.h": """bool use() { return true; }
    isthmus::Tensor tensor_of(PyObject*) { return isthmus::Tensor::own(std::vector<float>{1, 2}); }
    PyObject* take(PyObject*, PyObject* const* values, Py_ssize_t) {
        return isthmus::tensor_protocol<tensor_of>(values[0]) ? Py_NewRef(values[0]) : nullptr;
    }""",
    "visit.h": """bool use() {
        const auto t = isthmus::Tensor::own(std::vector<double>{1, 2});
        const auto view = t.view<isthmus::floating, 1>().value();
        double first = 0;
        view.visit([&](auto v) { first = static_cast<double>(v(0)); });
        return first == 1;
    }""",
    "small_floats.h": """bool use() { return static_cast<float>(isthmus::float8_e4m3fn_t(1.5f)) == 1.5f; }""",
    "python.h": """bool use() {
        auto object = isthmus::to_py(isthmus::Tensor::own(std::vector<float>{1, 2}));
        if (!object || !isthmus::from_py(*object) || !isthmus::borrow_py(*object)) return false;
        return Py_DECREF(*object), !isthmus::from_py(Py_None);
    }""",
    "python/arguments.h": """bool use() { return true; }
    PyObject* take(PyObject*, PyObject* const* values, Py_ssize_t count) {
        using Floats = isthmus::View<const float, 1>;
        isthmus::Arguments<Floats, std::optional<double>, std::string_view> in("take", {"x", "k", "name"});
        return in.parse(values, count) ? in.reply(isthmus::empty_like(in.object(0), {2}, isthmus::float32)) : nullptr;
    }""",
    "fields.h": """struct Pair {
        isthmus::Tensor a, b;
        using fields = isthmus::fields<"a", "b">;
    };
    bool use() { return true; }
    PyObject* take(PyObject*, PyObject* const* values, Py_ssize_t count) {
        isthmus::Arguments<Pair> in("take", {"x"});
        if (!in.parse(values, count)) return nullptr;
        return isthmus::fields_to_py(isthmus::FieldsReply<Pair>{in.get<0>(), in.object(0)});
    }""",
    "records.h": """bool use() { return true; }
    struct Point {
        float x, y;
        char name[4];
    };
    ISTHMUS_RECORD(Point, x, y, name);
    PyObject* take(PyObject*, PyObject* const* values, Py_ssize_t count) {
        isthmus::Arguments<isthmus::View<const Point, 1>> in("take", {"x"});
        if (!in.parse(values, count)) return nullptr;
        return result_to_py(isthmus::Records<Point>(std::vector<Point>{in.get<0>()(0)}));
    }""",
    "tree.h": """bool use() {
        auto tree = isthmus::Tree::from_py(Py_None);
        return tree && tree->leaves().empty();
    }""",
    "op.h": """using Size = isthmus::sizes<"n">;
    void twice(isthmus::View<const float, 1, Size> x, isthmus::Out<float, 1, Size> y) {
        for (std::int64_t i = 0; i < x.extent(0); ++i) y(i) = 2 * x(i);
    }
    bool use() { return bool(isthmus::op<"linked::twice", twice>(linked, {"x"})); }""",
    "module.h": """int answer(std::optional<int> plus) { return 42 + plus.value_or(0); }
    bool use() { return isthmus::def<answer>(linked, "answer", {"plus"}), PyErr_Occurred() == nullptr; }""",
    "nanobind.h": """bool use() { return true; }
    float first(isthmus::View<const float, 1> x) { return x(0); }
    isthmus::Tensor made() { return isthmus::Tensor::own(std::vector<float>{1, 2}); }
    void define(nanobind::module_ m) { m.def("first", first), m.def("made", made); }""",
    "nanobind_stl.h": """bool use() { return true; }
    std::size_t first(const std::vector<isthmus::View<const float, 1>>& x) { return x.size(); }
    void define(nanobind::module_ m) { m.def("first", first); }""",
    "nanobind_overloads.h": """bool use() { return true; }
    float of_float(isthmus::View<const float, 1> x) { return x(0); }
    double of_double(isthmus::View<const double, 1> x) { return x(0); }
    void define(nanobind::module_ m) { isthmus::overloads<of_float, of_double>(m, "first"); }""",
    "pybind11.h": """bool use() { return true; }
    float first(isthmus::View<const float, 1> x) { return x(0); }
    isthmus::Tensor made() { return isthmus::Tensor::own(std::vector<float>{1, 2}); }
    void define(pybind11::module_ m) { m.def("first", first), m.def("made", made); }""",
    "pybind11_overloads.h": """bool use() { return true; }
    float of_float(isthmus::View<const float, 1> x) { return x(0); }
    double of_double(isthmus::View<const double, 1> x) { return x(0); }
    void define(pybind11::module_ m) { isthmus::overloads<of_float, of_double>(m, "first"); }""",
}
MODULE = """
#include <Python.h>
static PyObject* linked;
#include <isthmus/%(header)s>
%(more)s
#include <optional>
#include <string_view>
#include <vector>
namespace {
%(use)s
PyMethodDef methods[] = {%(method)s{}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "linked", nullptr, -1, methods};
}
PyMODINIT_FUNC PyInit_linked() {
    linked = PyModule_Create(&definition);
    if (linked == nullptr || use()) return linked;
    if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_RuntimeError, "not as expected");
    return nullptr;
}
"""
BOUND = """
#include <isthmus/%(header)s>
#include <vector>
namespace {
%(use)s
}
%(macro)s(linked, m) { if (use()) define(m); }
"""
#: What a module is asked once it is imported.
ASKED = {
    "converted.h": "linked.take(np.array([1.5])) == 1.5",
    "array_like.h": "linked.take([(1, 2.5)]) == 2.5",
    "owned.h": "linked.take(np.ones(2, 'f4')) == 1",
    "tensor_protocol.h": "np.asarray(linked.take(type('Grid', (), {}))()).tolist() == [1, 2]",
    "python/arguments.h": "type(linked.take(np.ones(3, 'f4'), None, 'a')) is np.ndarray",
    "fields.h": "linked.take({'a': np.ones(1), 'b': np.ones(2)})['b'].shape == (2,)",
    "records.h": "linked.take(np.array([(1, 2, b'ab')], 'f4,f4,S4').astype([('x', 'f4'), ('y', 'f4'), ('name', 'S4')])"
    ").tolist() == [(1, 2, b'ab')]",
    "op.h": "linked.twice(np.ones(2, 'f4'))[1] == 2",
    "module.h": "linked.answer(plus=1) == 43 and linked.answer() == 42",
    "nanobind.h": "linked.first(np.ones(2, 'f4')) == 1 and linked.made().size == 2",
    "nanobind_stl.h": "linked.first([np.ones(2, 'f4')]) == 1",
    "nanobind_overloads.h": "linked.first(np.ones(2)) == linked.first(np.ones(2, 'f4')) == 1",
    "pybind11.h": "linked.first(np.ones(2, 'f4')) == 1 and linked.made().size == 2",
    "pybind11_overloads.h": "linked.first(np.ones(2)) == linked.first(np.ones(2, 'f4')) == 1",
}


def test_every_public_header_is_linked() -> None:
    assert {path.name for path in HEADERS.glob("*.h")} <= {*USES, *ELSEWHERE}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the flags are those of GNU's linker")
@pytest.mark.parametrize("header", USES)
def test_a_header_links(header: str, tmp_path: Path) -> None:
    """A file that includes it alone and calls what it declares."""
    pytest.importorskip("numpy")
    binder = header.split(".")[0].split("_")[0]
    more = {"nanobind": nanobind_flags, "pybind11": pybind11_flags}.get(binder, list)()
    use = USES[header]
    take = '{"take", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(take)), METH_FASTCALL, nullptr}, '
    words = {"header": header, "use": use, "method": take if "PyObject* take(" in use else ""}
    words["more"] = "#include <isthmus/python/arguments.h>" if "Arguments<" in use else ""
    words["macro"] = {"nanobind": "NB_MODULE", "pybind11": "PYBIND11_MODULE"}.get(binder, "")
    (tmp_path / "linked.cpp").write_text((BOUND if more else MODULE) % words)
    flags = ["-O0", *isthmus.get_cflags(), *more, "linked.cpp", *isthmus.get_ldflags(), ALL_AT_ONCE]
    run(CXX, "-shared", *flags, "-o", f"linked{importlib.machinery.EXTENSION_SUFFIXES[-1]}", cwd=tmp_path)
    run(sys.executable, "-c", f"import numpy as np, linked\nassert {ASKED.get(header, True)}", cwd=tmp_path)


#: Those that end with the sources; the other headers begin with them.
SOURCES_LAST = [
    "array_like.h",
    "converted.h",
    "fields.h",
    "module.h",
    "owned.h",
    "python/arguments.h",
    "records.h",
    "small_floats.h",
    "tensor_protocol.h",
    "tree.h",
    "visit.h",
]


@pytest.mark.slow
@pytest.mark.parametrize("header", USES)
def test_a_header_alone_brings_the_sources(header: str, tmp_path: Path) -> None:
    """In the file that defines ISTHMUS_IMPLEMENTATION: those of the core, and of the bridge if it knows Python."""
    source = tmp_path / "implementation.cpp"
    source.write_text(f"#define ISTHMUS_IMPLEMENTATION\n#include <isthmus/{header}>\n")
    binder = header.split(".")[0].split("_")[0]
    more = {"nanobind": nanobind_flags, "pybind11": pybind11_flags}.get(binder, list)()
    folders = [*(f"-I{folder}" for folder in isthmus.get_includes()), *(f for f in more if f.startswith(("-I", "-is")))]
    read = {Path(name).as_posix() for name in run(CXX, "-std=c++20", *folders, "-M", source).split()}
    sources = {"/".join(name.split("/")[-2:]) for name in read if name.endswith(".cpp")}
    wanted = {"src/core.cpp"} if "isthmus/python/api.h" not in "".join(read) else {"src/core.cpp", "src/bridge.cpp"}
    assert wanted <= sources
    if header in SOURCES_LAST:  # the sources need what it declares, whichever header of ours comes first
        run(CXX, "-std=c++20", *folders, "-fsyntax-only", source)
