"""`isthmus.load_inline`: C++ in a string, compiled once, and what is said when it cannot be."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from compiling import CXX

import isthmus
from isthmus import inline

np = pytest.importorskip("numpy")

try:
    LIBRARY = isthmus.get_library()
except FileNotFoundError as error:
    pytest.skip(str(error), allow_module_level=True)
pytestmark = pytest.mark.skipif("ISTHMUS_SANITIZER" in os.environ, reason="the compiler would run under the sanitizer")

TWICE = """
isthmus::Tensor twice(isthmus::View<const float, 1> x) {  // (of x)
    isthmus::Tensor result = isthmus::Tensor::empty({x.extent(0)}, isthmus::float32);
    auto y = result.view<float, 1>().value();
    for (std::int64_t i = 0; i < x.extent(0); ++i) y(i) = 2 * x(i);
    return result;
}
"""
ANSWER = "int answer() { return 42; }"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CXX", CXX)
    monkeypatch.setenv("ISTHMUS_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What the compiler was asked to compile."""
    asked: list[list[str]] = []
    run = subprocess.run

    def counting(command: list[str], **options: object) -> object:
        if "-shared" in command:
            asked.append(command)
        return run(command, **options)

    monkeypatch.setattr(inline.subprocess, "run", counting)
    return asked


def test_values_and_errors() -> None:
    module = isthmus.load_inline(
        TWICE
        + """
        using Row = isthmus::View<const double, 1, isthmus::sizes<"n">>;
        double dot(const Row& a, const Row& b) {
            double sum = 0;
            for (std::int64_t i = 0; i < a.extent(0); ++i) sum += a(i) * b(i);
            return sum;
        }
        void scale(isthmus::View<float, 1> x, float k, std::optional<int> times) {
            for (float& v : x) v *= k * times.value_or(1);
        }
        namespace words { std::string repeat(const std::string& word, std::uint8_t n, bool loud) {
            std::string text;
            for (int i = 0; i < n; ++i) text += word;
            return loud ? text + "!" : text;
        } }
        std::pair<std::size_t, std::vector<std::optional<bool>>> parts() { return {3, {true, std::nullopt}}; }
        void fail(int how) {
            if (how == 0) throw std::invalid_argument("how is 0");
            if (how == 1) throw std::bad_alloc();
            throw how;
        }""",
        functions=["twice", "dot", "scale", "words::repeat", "parts", "fail"],
        name="several",
    )
    x = np.arange(3, dtype=np.float32)
    result = module.twice(x)
    assert (type(result), result.tolist(), module.__name__) == (np.ndarray, [0, 2, 4], "several")
    assert module.twice(x=x).tolist() == [0, 2, 4]
    assert module.dot(np.ones(2), b=np.full(2, 3.0)) == 6
    assert module.scale(x, 2, times=3) is None
    assert module.scale(x, k=0.5) is None
    assert x.tolist() == [0, 3, 6]
    assert module.repeat("ab", 2, False) == "abab"
    assert module.parts() == (3, [True, None])

    def said(call: Callable[[], object]) -> str:
        with pytest.raises(Exception) as caught:
            call()
        return (
            f"{type(caught.value).__mro__[1].__name__ if '_' in caught.typename else caught.typename}: {caught.value}"
        )

    assert said(lambda: module.twice(np.ones(3))) == (
        "TensorValueError: twice(): argument 'x': expected float32[:] on cpu, got float64[3] on cpu: dtype differs"
    )
    assert "dot(): argument 'b'" in said(lambda: module.dot(np.ones(2), np.ones(3)))
    assert said(module.twice) == "TypeError: twice() missing required argument 'x'"
    assert "unexpected keyword argument 'y'" in said(lambda: module.twice(x, y=1))
    assert said(lambda: module.parts(1)) == "TypeError: parts() takes 0 positional arguments but 1 was given"
    assert said(lambda: module.repeat("a", 256, True)) == (
        "OverflowError: repeat(): argument 'n': 256 does not fit an integer from 0 to 255"
    )
    assert said(lambda: module.repeat("a", -1, True)).endswith("-1 does not fit an integer from 0 to 255")
    assert said(lambda: module.repeat(1, 2, True)) == "TypeError: repeat(): argument 'word': expected a string, got int"
    assert said(lambda: module.fail(0)) == "ValueError: fail(): how is 0"
    assert said(lambda: module.fail(1)).startswith("MemoryError")
    assert said(lambda: module.fail(2)) == "RuntimeError: fail(): an exception was thrown that is not a std::exception"


def test_signatures_are_known() -> None:
    import inspect

    source = "void f(isthmus::View<float, 1> x, std::optional<double>) { x(0) = 1; }\nint g(int) { return 1; }"
    module = isthmus.load_inline(source, functions={"f": ["x", "k"], "g": []}, cflags=["-O0"])
    assert str(inspect.signature(module.f)) == "(x, k=None)"
    assert str(inspect.signature(module.g)) == "(arg0)"
    body = 'isthmus::def<g>(module, "one", {"n"}); isthmus::def<g>(module, "other", "The other.");'
    module = isthmus.load_inline(source, body=body, cflags=["-O0"])
    assert (module.one(n=0), str(inspect.signature(module.one))) == (1, "(n)")
    assert (module.other(0), str(inspect.signature(module.other)), module.other.__doc__) == (1, "(arg0)", "The other.")
    assert (module.one.__name__, module.one.__module__) == ("one", module.__name__)


def test_a_second_call_compiles_nothing(cache: Path, compiles: list[list[str]], tmp_path: Path) -> None:
    header = tmp_path / "of this.h"
    header.write_text("constexpr int value = 1;\n")
    flags = ["-O0", f"-I{tmp_path}"]
    source = '#include "of this.h"\nint get() { return value; }'
    first = isthmus.load_inline(source, ["get"], cflags=flags)
    assert isthmus.load_inline(source, ["get"], cflags=flags) is first
    inline._loaded.clear()  # as in another process
    assert isthmus.load_inline(source, ["get"], cflags=flags).get() == 1
    assert len(compiles) == 1

    header.write_text("constexpr int value = 23;\n")
    assert isthmus.load_inline(source, ["get"], cflags=flags).get() == 23
    assert isthmus.load_inline(source, ["get"], cflags=[*flags, "-DOTHER"]).get() == 23
    assert len(compiles) == 3
    assert first.get() == 1  # its file is still there
    assert not list(cache.glob("building-*"))


def test_a_damaged_record_is_built_again(cache: Path, compiles: list[list[str]]) -> None:
    isthmus.load_inline(ANSWER, ["answer"], cflags=["-O0"])
    for damage in ("", "[]", '{"file": "none.so", "inputs": {}}'):
        (record,) = cache.glob("*.json")
        record.write_text(damage)
        assert isthmus.load_inline(ANSWER, ["answer"], cflags=["-O0"]).answer() == 42
    assert len(compiles) == 4


def test_the_folder_of_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert inline._cache_folder("here") == Path.cwd() / "here"
    assert inline._cache_folder(None) == tmp_path / "cache"
    monkeypatch.delenv("ISTHMUS_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert inline._cache_folder(None) == tmp_path / "isthmus" / "inline"
    for elsewhere in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", elsewhere)
        assert inline._cache_folder(None) == Path.home() / ".cache" / "isthmus" / "inline"


def test_the_compiler_speaks_for_itself(cache: Path) -> None:
    with pytest.raises(RuntimeError, match="could not compile") as caught:
        isthmus.load_inline("int wrong() {\n    return nothing_here;\n}", ["wrong"])
    said = str(caught.value)
    assert re.search(r"(?m)^source\.cpp:2:12: error: .*nothing_here", said)
    assert "    return nothing_here;" in said
    assert str(cache) not in said.replace(str(Path(CXX)), "")
    assert not list(cache.iterdir())


def test_a_function_that_does_not_exist() -> None:
    with pytest.raises(RuntimeError, match=r"error: .*nowhere"):
        isthmus.load_inline(ANSWER, ["answer", "nowhere"])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((ANSWER,), "the module is empty"),
        (([], ["answer"]), "argument 'source': expected C\\+\\+ text or paths, got none"),
        (("kernel.cpp", ["f"]), "'kernel.cpp' is no C\\+\\+; a file is named by a pathlib.Path"),
        ((ANSWER, ["answer()"]), "argument 'functions': 'answer\\(\\)' is not the name of a C\\+\\+ function"),
    ],
)
def test_what_is_no_module(arguments: tuple, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        isthmus.load_inline(*arguments)


def test_wrong_types_and_names(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"expected names, got the string 'answer': \['answer'\]"):
        isthmus.load_inline(ANSWER, "answer")
    with pytest.raises(TypeError, match=r"argument 'source': expected C\+\+ text or a path, got int"):
        isthmus.load_inline([3], ["answer"])
    with pytest.raises(ValueError, match="argument 'name': 'a b'"):
        isthmus.load_inline(ANSWER, ["answer"], name="a b")
    with pytest.raises(FileNotFoundError):
        isthmus.load_inline(tmp_path / "none.cpp", ["answer"])


def test_a_compiler_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler -m64")
    with pytest.raises(
        RuntimeError, match="CXX is 'no-such-compiler -m64', and there is no program 'no-such-compiler'"
    ):
        isthmus.load_inline(ANSWER, ["answer"])
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RuntimeError, match="no C\\+\\+ compiler was found"):
        isthmus.load_inline(ANSWER, ["answer"])


def test_files_strings_and_folders_with_spaces(tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    (folder / "value.h").write_text("constexpr int value = 7;\n")
    (folder / "first part.cpp").write_text('#include "value.h"\nint of_file() { return value; }\n')
    module = isthmus.load_inline(
        [folder / "first part.cpp", "int both(int n) { return of_file() + n; }"],
        ["of_file", "both"],
        cache=folder / "the cache",
        cflags=["-O0"],
    )
    assert (module.of_file(), module.both(n=1)) == (7, 8)
    assert str(folder / "value.h") in next((folder / "the cache").glob("*.json")).read_text()


def test_operators(tmp_path: Path) -> None:
    source = """
    #include <isthmus/op.h>
    using Row = isthmus::View<const float, 1, isthmus::sizes<"n">>;
    using Result = isthmus::Out<float, 1, isthmus::sizes<"n">>;
    void triple(Row x, isthmus::Out<float, 1, isthmus::sizes<"n">> y) {
        for (std::int64_t i = 0; i < x.extent(0); ++i) y(i) = 3 * x(i);
    }
    void negate(Row x, Result y) { for (std::int64_t i = 0; i < x.extent(0); ++i) y(i) = -x(i); }
    """
    module = isthmus.load_inline(
        source,
        operators=["inlined::triple"],
        body='isthmus::op<"inlined::negate", negate>(module, {"x"});',
        cflags=["-O0"],
    )
    x = np.ones(2, np.float32)
    assert module.triple(x).tolist() == [3, 3]
    assert module.negate(x=x).tolist() == [-1, -1]
    assert module.triple.ufunc(x).tolist() == [3, 3]
    with pytest.raises(ValueError, match="expected \"namespace::function\", got 'triple'"):
        isthmus.load_inline(source, operators=["triple"])
    with pytest.raises(ValueError, match="inputs of 'inlined::none' have no names"):
        isthmus.load_inline(source, operators=["inlined::none"])


def test_an_error_of_the_body_is_raised_by_the_import() -> None:
    with pytest.raises(OverflowError, match="in the body"):
        isthmus.load_inline("", body='throw std::overflow_error("in the body");', cflags=["-O0"])
    with pytest.raises(KeyError, match="of Python"):
        isthmus.load_inline("", body='PyErr_SetString(PyExc_KeyError, "of Python");', cflags=["-O0"])


@pytest.mark.skipif(sys.platform != "linux", reason="the flags are those of GNU's linker")
def test_with_the_compiled_library() -> None:
    source = '#include <isthmus/load.h>\nbool missing() { return !isthmus::load("none"); }'
    module = isthmus.load_inline([TWICE, source], ["twice", "missing"], cflags=["-O0"], abi3=False)
    assert module.missing()
    assert module.twice(np.ones(2, np.float32)).tolist() == [2, 2]


def test_two_processes_build_the_same(cache: Path) -> None:
    program = f"import isthmus\nassert isthmus.load_inline({ANSWER!r}, ['answer'], cflags=['-O0']).answer() == 42"
    running = [subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE) for _ in range(2)]
    assert [(process.communicate()[1], process.returncode) for process in running] == [(b"", 0)] * 2
    assert len(list(cache.glob("*.json"))) == 1
    assert not list(cache.glob("building-*"))
    assert isthmus.load_inline(ANSWER, ["answer"], cflags=["-O0"]).answer() == 42


def test_the_names_of_parameters() -> None:
    code = inline._COMMENT_OR_TEXT.sub(
        " ",
        """
        int f(int a);
        int f(int a, // it's (the first
              const std::vector<std::pair<int, float>> &b, float*c = g(1, 2)) { return f(a); }
        auto g(View<const float, 2, sizes<"n,m)">> x) noexcept { return ')'; }
        void none(void) {}
        void unnamed(int, float) {}
        void op(Row x, double k, Out<float, 1> y, isthmus::Stream s) {}
        """,
    )
    assert inline._parameters("f", code) == ["a", "b", "c"]
    assert inline._parameters("g", code) == ["x"]
    assert inline._parameters("none", code) == []
    assert inline._parameters("op", code) == ["x", "k"]
    assert inline._parameters("nowhere", code) is None


def test_import_of_isthmus_does_not_load_it() -> None:
    program = "import sys, isthmus; assert 'isthmus.inline' not in sys.modules; isthmus.load_inline; isthmus.inline"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.skipif(shutil.which("clang++") is None, reason="clang++ is not installed")
def test_another_compiler_builds_its_own(monkeypatch: pytest.MonkeyPatch, compiles: list[list[str]]) -> None:
    isthmus.load_inline(ANSWER, ["answer"], cflags=["-O0"])
    monkeypatch.setenv("CXX", "clang++")
    assert isthmus.load_inline(ANSWER, ["answer"], cflags=["-O0"]).answer() == 42
    assert len(compiles) == 2
