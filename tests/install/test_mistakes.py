"""What the compiler says of an author's mistakes: one sentence of ours, and at most three errors."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

import compiling
import pytest
from header_programs import ROOT, platforms

NANOBIND = """#include <vector>
#include <isthmus/nanobind.h>
#include <isthmus/python/agreeing.h>
namespace nb = nanobind;
using namespace isthmus;
using V = View<const float, 2>;
"""
BARE = """#include <isthmus/module.h>
using namespace isthmus;
using V = View<const float, 2>;
"""
CORE = """#include <vector>
#include <isthmus/isthmus.h>
using namespace isthmus;
"""
OPERATOR = """#include <isthmus/op.h>
using namespace isthmus;
"""
#: Mistake -> (the program, what the first error has to say).
MISTAKES = {
    "a view as a result": (
        NANOBIND + 'void f(nb::module_& m) { m.def("f", [](V x) { return x; }); }',
        "what is borrowed ends with the call; return a Tensor",
    ),
    "a view by cast": (NANOBIND + "V f(nb::handle h) { return nb::cast<V>(h); }", "take an isthmus::Tensor"),
    "a container without its header": (
        NANOBIND + 'void f(nb::module_& m) { m.def("f", [](std::vector<V> x) { return x.size(); }); }',
        "include <isthmus/nanobind_stl.h>",
    ),
    "a container as a result without it": (
        NANOBIND + 'void f(nb::module_& m) { m.def("f", [] { return std::vector<Reply>(); }); }',
        "include <isthmus/nanobind_stl.h>",
    ),
    "an argument of a number": (
        NANOBIND + 'void f(nb::module_& m) { m.def("f", [](Argument<double> x) { return *x; }); }',
        "an Argument is made of a View",
    ),
    "an Owned of a Tensor": (
        NANOBIND + 'void f(nb::module_& m) { m.def("f", [](Owned<Tensor> x) { return x.tensor(); }); }',
        "a Tensor already owns its memory",
    ),
    "an Owned as an operator's parameter": (
        OPERATOR
        + '#include <isthmus/owned.h>\nvoid g(Owned<View<const float, 1>>, Out<float, 1, sizes<"n">>);\n'
        + 'void f(PyObject* m) { op<"a::g", g>(m, {"x"}); }',
        "a parameter of an operator is",
    ),
    "too few names of sizes": (
        NANOBIND + 'double g(V, V);\nvoid f(nb::module_& m) { m.def("g", with_checked_sizes<"g", "a">(g)); }',
        "wants a name for each argument",
    ),
    "names for another number of parameters": (
        BARE + 'double g(V, double);\nvoid f(PyObject* m) { def<g>(m, "g", {"x"}); }',
        "one name for each parameter",
    ),
    "a lambda for def": (
        BARE + 'void f(PyObject* m) { def<[](V) { return 0; }>(m, "g", {"x"}); }',
        "+ in front of a lambda",
    ),
    "a parameter that is none": (
        BARE + 'struct S {};\nint g(S);\nvoid f(PyObject* m) { def<g>(m, "g", {"x"}); }',
        "an argument is a View, Borrowed, Tensor",
    ),
    "a result that is none": (
        BARE + 'struct S {};\nS g(V);\nvoid f(PyObject* m) { def<g>(m, "g", {"x"}); }',
        "a function returns void, Tensor, Reply",
    ),
    "elements without a dtype": (
        CORE + "struct P { char* text; };\nint f(View<const P, 1> x) { return x.extent(0) > 0; }",
        "this C++ type has no dtype",
    ),
    "a struct without ISTHMUS_RECORD": (
        NANOBIND
        + "struct P { float x; double y; };\n"
        + 'void f(nb::module_& m) { m.def("f", [](View<const P, 1> x) { return x(0).y; }); }',
        "for a struct of numbers write ISTHMUS_RECORD",
    ),
    "a record's field that is not there": (
        NANOBIND
        + "#include <isthmus/records.h>\nstruct P { float x, y; };\nISTHMUS_RECORD(P, x, z);\n"
        + 'void f(nb::module_& m) { m.def("f", [](View<const P, 1> x) { return x(0).y; }); }',
        "names a field that its struct does not have",
    ),
    "sizes for another rank": (
        CORE + 'float f(View<const float, 2, sizes<"n">> x) { return x(0, 0); }',
        "as many sizes as dimensions",
    ),
    "two orders": (
        CORE + "float f(View<const float, 2, c_contiguous, f_contiguous> x) { return x(0, 0); }",
        "contradict each other",
    ),
    "one index of two": (CORE + "float f(View<const float, 2> x) { return x(0); }", "no match for call"),
    "a vector of vectors": (
        CORE + "Tensor f(std::vector<std::vector<float>> x) { return Tensor::own(std::move(x)); }",
        "the rows of a container of containers lie apart",
    ),
    "an operator that returns its result": (
        OPERATOR
        + 'float g(View<const float, 1>) { return 0; }\nvoid f(PyObject* m) { op<"a::g", g>(m, {"x"}).gradient<g>(); }',
        "an operator is made of a function that returns void and writes its Outs",
    ),
    "a parameter of an operator that is none": (
        OPERATOR + 'void g(Tensor, Out<float, 1>) {}\nvoid f(PyObject* m) { op<"a::g", g>(m, {"x"}); }',
        "a parameter of an operator is a View",
    ),
    "a list of results of an operator": (
        OPERATOR
        + "void g(View<const float, 1>, std::span<const Out<float, 1>>) {}\n"
        + 'void f(PyObject* m) { op<"a::g", g>(m, {"x"}); }',
        "as many results as its function has Outs, and no list of them",
    ),
}
MOST = 3


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_in_few_errors(mistake: str, tmp_path: Path) -> None:
    program, said = MISTAKES[mistake]
    source = tmp_path / "author.cpp"
    source.write_text(program + "\n")
    system = [platforms.dlpack(), Path(sysconfig.get_path("include"))]
    if "nanobind" in program:
        system.append(Path(pytest.importorskip("nanobind").__file__).parent / "include")
    folders = [f"-I{ROOT / 'include'}", *(f"-isystem{folder}" for folder in system)]
    command = [compiling.CXX, "-std=c++20", "-fsyntax-only", *folders, source]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    assert 1 <= len(errors) <= MOST, "\n".join(errors)
    assert said in errors[0], "\n".join(errors)
    assert "author.cpp:" in done.stderr, "the author's own line"


#: Library -> a header of ours, the library's first header, what an old one says, what the one error tells.
OLD = {
    "nanobind": ("nanobind", "nanobind/nanobind.h", "#define NB_VERSION_MAJOR 1\n", "Isthmus needs nanobind"),
    "pybind11": ("pybind11", "pybind11/pybind11.h", "#define PYBIND11_VERSION_MAJOR 1\n", "Isthmus needs pybind11"),
    "dlpack": ("isthmus", "dlpack/dlpack.h", "#define DLPACK_VERSION 60\n", "Isthmus needs <dlpack/dlpack.h> 1.3"),
}


def the_error(header: str, *folders: Path) -> str:
    """The one error of a file that includes a header of ours, with these folders before the system's."""
    named = [f"-I{folder}" for folder in (*folders, ROOT / "include")]
    command = [compiling.CXX, "-std=c++20", "-fsyntax-only", *named, f"-isystem{sysconfig.get_path('include')}"]
    source = f"#include <isthmus/{header}.h>\n"
    command += ["-x", "c++", "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, timeout=300, check=False)
    (error,) = (line for line in done.stderr.splitlines() if "error:" in line)
    return error


@pytest.mark.parametrize("library", OLD)
def test_an_old_library_first_on_the_path_is_one_error(library: str, tmp_path: Path) -> None:
    """Without a word on what its older headers lack."""
    header, file, text, said = OLD[library]
    (tmp_path / file).parent.mkdir()
    (tmp_path / file).write_text(text)
    error = the_error(header, tmp_path, *([] if library == "dlpack" else [platforms.dlpack()]))
    assert said in error
    assert "an older one was found first on the include path" in error


def test_a_path_without_dlpack_is_one_error() -> None:
    if Path(sysconfig.get_path("include"), "dlpack").is_dir():
        pytest.skip("this Python's folder of headers has dlpack; a venv without it has not")
    assert "'python -m isthmus --includes' names a folder that has it" in the_error("isthmus")
