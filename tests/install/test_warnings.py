"""A user's own strict flags and older libraries: no warning comes from the headers, and what cannot be compiled is told
in one line."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest
from compiling import package_folder

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tools"))

import test_floors as floors  # noqa: E402
import test_platforms as platforms  # noqa: E402

isthmus = pytest.importorskip("isthmus")

#: A copy of include/ to test in place of the installed one.
INCLUDE = os.environ.get("ISTHMUS_TEST_INCLUDE", isthmus.get_include())
GXX = shutil.which("g++") or shutil.which("c++") or "c++"
CXX = os.environ.get("CXX") or GXX
#: The oldest of each that knows the C++20 of the headers.
OLDEST = {"g++": 12, "clang++": 14}


def installed_compilers() -> dict[str, tuple[str, ...]]:
    """Every GCC and Clang on PATH that is new enough, each once, and the Clang of ziglang."""
    found: dict[str, tuple[str, ...]] = {}
    seen = set()
    candidates = [
        Path(folder, name)
        for folder in os.get_exec_path()
        if Path(folder).is_dir()
        for name in sorted(os.listdir(folder))
    ]
    for path in [Path(CXX), *candidates]:
        named = re.fullmatch(r"(g\+\+|clang\+\+)(-\d+)?", path.name)
        if path.name != Path(CXX).name and not named:
            continue
        executable = shutil.which(path)
        if executable is None:
            continue
        shown = subprocess.run([executable, "-dumpversion"], capture_output=True, text=True, check=False).stdout
        version = re.match(r"\d+", shown)
        if version and named and int(version[0]) < OLDEST[named[1]]:
            continue
        place = Path(executable).resolve()
        if place not in seen:
            seen.add(place)
            found[path.name] = (executable,)
    if importlib.util.find_spec("ziglang"):
        found["ziglang"] = (sys.executable, "-m", "ziglang", "c++")
    return found


COMPILERS = installed_compilers()
STRICT = [
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Wconversion",
    "-Wshadow",
    "-Wsign-conversion",
    "-Wold-style-cast",
    "-Werror",
]

CORE = """
#include <vector>

#include <isthmus/isthmus.h>
#include <isthmus/shared.h>

using isthmus::View, isthmus::sizes, isthmus::one_of, isthmus::c_contiguous;

float sum(View<const float, 3, sizes<"h w 3">, c_contiguous> image) {
    float all = 0;
    for (const float x : image.span()) all += x;
    return all + image(0, 0, 0);
}
void twice(View<one_of<float, double>, isthmus::dynamic_rank> x) {
    x.visit([](auto view) { view.data()[0] *= 2; });
}
void parts(View<float, 2> x, View<const float, 1> bias, View<double, 3, isthmus::on_cuda> far) {
    isthmus::for_each([](float& out, float b) { out += b; }, x, bias.broadcast_to({x.extent(0), x.extent(1)}));
    for (auto row : x.transpose().slice(0, 1, -1, 2).reshape({-1, 1}).rows())
        for (float& element : row) element = 0;
    for (float& element : x.transpose().transpose().contiguous().span()) element = 0;
    (void)far.select(0).select(1, 2).transpose({0}).contiguous().nbytes();
    const auto copied = isthmus::copy_of(x).value();
    (void)copied.select(0, 1).broadcast_to({2, 3}).transpose().contiguous().reshape({6}).slice(0, 1);
}
isthmus::Tensor made() { return isthmus::Tensor::own(std::vector<float>(6), {2, 3}); }
isthmus::Result<isthmus::Tensor> described() { return isthmus::from_blob(isthmus::to_blob(made())); }
"""
BRIDGE = (
    """
#include <isthmus/python.h>
#include <isthmus/op.h>
#include <isthmus/python/arguments.h>
"""
    + CORE
    + """
void scale(View<const float, 1, sizes<"n">> x, double k, isthmus::Out<float, 1, sizes<"n">> y) {
    for (std::int64_t i = 0; i < x.extent(0); ++i) y(i) = static_cast<float>(k) * x(i);
}
PyObject* call(PyObject*, PyObject* const* values, Py_ssize_t count) {
    isthmus::Arguments<View<const float, 3, sizes<"h w 3">, c_contiguous>> arguments("f", {"image"});
    if (!arguments.parse(values, count)) return nullptr;
    return PyFloat_FromDouble(static_cast<double>(sum(arguments.get<0>())));
}
PyObject* back(PyObject* x) {
    auto tensor = isthmus::from_py(x);
    auto object = tensor ? isthmus::to_py(*tensor, isthmus::Framework::numpy)
                         : isthmus::Result<PyObject*>(tensor.error());
    return object ? *object : (isthmus::set_python_error(object.error()), nullptr);
}
int fill(PyObject* module) { return isthmus::op<"strict::scale", scale>(module, {"x", "k"}) ? 0 : -1; }
"""
)
PROGRAMS = {
    "core": CORE,
    "bridge": BRIDGE,
    "nanobind": "#include <isthmus/nanobind.h>\n" + CORE,
    "pybind11": "#include <isthmus/pybind11.h>\n" + CORE,
}


def compile_(source: str, *flags: str, compiler: tuple[str, ...] = (CXX,)) -> subprocess.CompletedProcess[str]:
    folders = [f"-isystem{sysconfig.get_path('include')}"]
    if isthmus.get_include() != INCLUDE:
        folders.append(f"-isystem{isthmus.get_include()}")  # for dlpack.h
    for library in ("nanobind", "pybind11"):
        if f"isthmus/{library}.h" in source:
            folders.append(f"-isystem{Path(pytest.importorskip(library).__file__).parent / 'include'}")
    with tempfile.TemporaryDirectory() as work:
        environment = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": work, "ZIG_LOCAL_CACHE_DIR": work}
        file = Path(work, "user.cpp")
        file.write_text(source)
        # Isthmus's own by -I: warnings of system folders are not shown.
        command = platforms.front_end(compiler, f"-I{INCLUDE}", *flags, *folders, file, environment=environment)
        return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)


@pytest.mark.slow
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(
    "flags", ["-std=c++20", "-std=c++2b -DNDEBUG -O2", "-std=c++20 -DISTHMUS_IMPLEMENTATION -fno-rtti"]
)
@pytest.mark.parametrize("program", PROGRAMS)
def test_no_warning(program: str, flags: str, compiler: str) -> None:
    if "-fno-rtti" in flags and program in ("nanobind", "pybind11"):
        pytest.skip("the library itself needs it")
    done = compile_(PROGRAMS[program], *STRICT, *flags.split(), compiler=COMPILERS[compiler])
    assert done.returncode == 0, done.stderr


OLDEST_NANOBIND = """
#include <isthmus/nanobind.h>
#include <isthmus/nanobind_stl.h>
using V = isthmus::View<const float, 2>;
isthmus::Reply twice(const isthmus::Argument<V>& x) { return x.reply(isthmus::empty_like(x)); }
NB_MODULE(oldest, m) {
    m.def("rows", [](V v) { return v.extent(0); });
    m.def("given", [](std::optional<V> v) { return v.has_value(); }, nanobind::arg("v").none());
    m.def("count", [](const std::vector<V>& v) { return v.size(); });
    m.def("twice", twice);
    m.def("own", [](isthmus::Tensor x) { return x; });
}
"""


def test_the_oldest_nanobind() -> None:
    headers = Path(sys.prefix, "nanobind-2.7", "nanobind", "include")
    if not headers.is_dir():
        pytest.skip("nanobind 2.7 is not installed beside the newest; `make test` installs it")
    done = compile_(OLDEST_NANOBIND, "-std=c++20", f"-isystem{headers}")
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["", "-DISTHMUS_IMPLEMENTATION"], ids=["library", "header-only"])
def test_torch(mode: str) -> None:
    found = package_folder("torch")
    if found is None:
        pytest.skip("torch is not installed")
    include = found / "include"
    folders = [f"-isystem{folder}" for folder in (include, include / "torch/csrc/api/include")]
    done = compile_("#include <isthmus/torch.h>\n", "-std=c++20", *mode.split(), *folders)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("-std=c++17", "Isthmus needs C++20"),
        ("-std=c++20 -fno-exceptions", "Isthmus needs exceptions"),
        ("-std=c++20 -UUINTPTR_MAX -include stdint.h -include narrow.h", "Isthmus needs a 64-bit system"),
        ("-std=c++20 -DPYPY_VERSION", "Isthmus needs CPython: PyPy"),
    ],
    ids=["C++17", "no exceptions", "32 bit", "PyPy"],
)
def test_one_error_tells_what_is_needed(flags: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "narrow.h").write_text("#undef UINTPTR_MAX\n#define UINTPTR_MAX UINT32_MAX\n")
    done = compile_("#include <isthmus/python.h>\n", *flags.split(), f"-I{tmp_path}")
    assert done.returncode != 0
    (error,) = (line for line in done.stderr.splitlines() if "error:" in line)
    assert said in error


#: A header of ours -> (the library's that tells its version, how it does, what the first error calls the library).
VERSIONED = {
    "nanobind": ("nanobind/nanobind.h", "#define NB_VERSION_MAJOR {}\n#define NB_VERSION_MINOR {}\n", "nanobind"),
    "pybind11": (
        "pybind11/pybind11.h", "#define PYBIND11_VERSION_MAJOR {}\n#define PYBIND11_VERSION_MINOR {}\n", "pybind11",
    ),
    "torch": ("torch/version.h", "#define TORCH_VERSION_MAJOR {}\n#define TORCH_VERSION_MINOR {}\n", "PyTorch"),
}  # fmt: skip


@pytest.mark.parametrize("header", VERSIONED)
def test_a_library_that_is_too_old_is_told_in_the_first_error(header: str, tmp_path: Path) -> None:
    file, text, name = VERSIONED[header]
    major, minor = map(int, floors.floor(header).split("."))
    (tmp_path / file).parent.mkdir()
    for version, refused in (
        ((major, minor - 1), True),
        ((major - 1, 99), True),
        ((major, minor), False),
        ((major + 1, 0), False),
    ):
        (tmp_path / file).write_text(text.format(*version))
        # Preprocessed alone: there is no more of the library, and it is a tenth of the time.
        done = compile_(f"#include <isthmus/{header}.h>\n", "-std=c++20", "-E", f"-I{tmp_path}")
        first = next((line for line in done.stderr.splitlines() if "error" in line), "")
        assert (f"needs {name} {major}.{minor} or newer" in first) is refused, (version, first)
