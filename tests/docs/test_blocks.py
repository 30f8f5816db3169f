"""Every block of code in the documentation is compiled or run: here, or by the test that the table names,
or says why not."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = {"cpp", "c", "python", "pycon", "cmake", "meson", "rust", "sh"}

#: (page, language, number of the block of that language on the page) → the test that compiles or runs it as it stands
#: there.
CLAIMED = {
    **{("README.md", "cpp", i): "tests/install/test_readme.py" for i in range(2)},
    ("README.md", "sh", 0): "tests/install/test_readme.py",
    ("README.md", "pycon", 0): "tests/install/test_readme.py",
    **{("docs/coming_from.md", "cpp", i): "tests/install/test_coming_from.py" for i in range(10)},
    **{("docs/coming_from.md", "rust", i): "tests/install/test_coming_from.py" for i in range(2)},
    ("docs/devices.md", "cpp", 0): "tests/install/test_nvcc.py",
    ("docs/distributed.md", "python", 0): "tests/install/test_distributed_guide.py",
    **{("docs/fields.md", "cpp", i): "tests/install/test_fields_guide.py" for i in range(2)},
    **{("docs/records.md", language, 0): "tests/install/test_records_guide.py" for language in ("cpp", "pycon")},
    **{("docs/install.md", "cmake", i): "tests/install/test_install_guide.py" for i in range(8)},
    **{("docs/install.md", "sh", i): "tests/install/test_install_guide.py" for i in (1, 3, 4, 5, 6, 7)},
    **{("docs/install.md", "sh", i): "tests/install/test_abi3.py" for i in (8, 9)},
    **{("docs/install.md", language, 1): "tests/install/test_install_guide.py" for language in ("python", "meson")},
    **{("docs/install.md", "cpp", i): "tests/install/test_install_guide.py" for i in range(2)},
    **{("docs/install.md", language, 0): "tests/install/test_install_guide.py" for language in ("python", "meson")},
    ("docs/first_module.md", "sh", 1): "tests/install/test_new.py",
    **{("docs/first_module.md", i, 0): "tests/install/test_first_module_guide.py" for i in ("python", "cpp", "sh")},
    **{("docs/operators.md", "cpp", i): "tests/install/test_operators_guide.py" for i in (0, 2, 3)},
    **{("docs/publishing.md", "sh", i): "tests/install/test_publishing_guide.py" for i in (0, 2, 3, 5)},
    **{("docs/shared.md", "python", i): "tests/install/test_shared_guide.py" for i in range(3)},
    ("docs/shared.md", "cpp", 0): "tests/install/test_shared_guide.py",
    **{("README.md", language, i): "tests/install/test_readme.py" for language, i in (("cmake", 0), ("sh", 2))},
    ("docs/weights.md", "python", 0): "tests/install/test_weights_guide.py",
    ("docs/weights.md", "python", 1): "tests/install/test_weights_guide.py",
    ("docs/weights.md", "cpp", 0): "tests/install/test_weights_guide.py",
}

#: The same → why nothing compiles or runs it.
LEFT_OUT = {
    ("README.md", "sh", 1): "the commands of the gate itself",
    ("docs/install.md", "sh", 0): "how the package comes into an environment, as that of the tests did",
    ("docs/install.md", "sh", 2): "it downloads; tests/install/test_consumers.py finds it in CMake's error",
    ("docs/publishing.md", "sh", 1): "an isolated build, which downloads its requirements",
    ("docs/publishing.md", "sh", 4): "it uploads",
    ("docs/threads.md", "sh", 0): "builds a CPython under ThreadSanitizer, for make sanitize-threads",
    ("docs/torch.md", "cmake", 0): "examples/embed/CMakeLists.txt is this with another name",
    ("docs/torch.md", "cpp", 0): "signatures; tests/docs/test_site.py finds each in the reference",
    ("docs/import.md", "cpp", 0): "signatures; tests/docs/test_site.py finds each in the reference",
    (
        "docs/operators.md",
        "python",
        0,
    ): "calls of the module that tests/install/test_operators_guide.py builds and calls so",
    (
        "docs/operators.md",
        "cpp",
        1,
    ): "a part of the program before it; tests/operators has gradients that are written so",
    ("docs/operators.md", "cpp", 4): "needs CUDA to link; tests/operators/test_cuda.py compiles its like",
    ("docs/casters.md", "python", 0): "calls of a class; tests/casters/test_tensor_protocol.py makes them",
    ("docs/ownership.md", "pycon", 0): "a list with times and addresses; tests/package/test_live.py reads its form",
    ("docs/ownership.md", "python", 0): "a fixture; tests/package/test_testing.py uses the context manager",
    (
        "docs/distributed.md",
        "python",
        1,
    ): "a part of a training loop; tests/distributed/test_loader.py runs the whole of one",
}

#: The same → what stands around it, with one %s in its place: all of them together are one program.
FRAGMENTS = {
    ("docs/blobs.md", "cpp", 0): """
        void give_back(std::uint8_t*);
        void fragment(const isthmus::Tensor& tensor, std::uint8_t* pixels) { %s (void)again; (void)image; }""",
    ("docs/export.md", "cpp", 0): """
        void fragment(std::vector<std::uint8_t> vector, PyObject* argument) { %s (void)r; (void)s; }""",
    ("docs/export.md", "cpp", 1): "%s",
    ("docs/export.md", "cpp", 2): """
        extern "C" void* mi_malloc_aligned(std::size_t, std::size_t) noexcept;
        extern "C" void mi_free(void*) noexcept;
        %s""",
    ("docs/views.md", "cpp", 0): """
        void fragment(const isthmus::Tensor& tensor, int i, int j) { %s }""",
    ("docs/views.md", "cpp", 1): """
        void fragment(isthmus::View<const float, 2, isthmus::c_contiguous> view, float total) { %s }""",
    ("docs/views.md", "cpp", 2): """
        using Rows = isthmus::View<const float, 3>;
        void fragment(
            isthmus::View<float, 3> out, Rows image, isthmus::View<const float, 1> bias, int h, int w) { %s }""",
    ("docs/views.md", "cpp", 3): """
        using isthmus::View, isthmus::sizes;
        void fragment(const isthmus::Tensor& tensor_a, const isthmus::Tensor& tensor_b) { %s (void)a; (void)b; }""",
    ("docs/casters.md", "cpp", 0): """
        isthmus::Owned<isthmus::View<const float, 2, isthmus::sizes<"n d">>> weights;
        %s""",
    ("docs/casters.md", "cpp", 1): """
        using Floats = isthmus::View<const float, 1, isthmus::sizes<"n">>;
        using Doubles = isthmus::View<const double, 1, isthmus::sizes<"n">>;
        float sum_float(Floats);
        double sum_double(Doubles);
        void fragment(nb::module_& m) { %s }""",
    **{("docs/casters.md", "cpp", i): "void fragment(nb::module_& m) { %s }" for i in (2, 3, 4, 6, 9)},
    **{
        ("docs/casters.md", "cpp", i): """
        using Rows = isthmus::View<const float, 2, isthmus::sizes<"n d">>;
        void fragment(nb::module_& m) { %s }"""
        for i in (7, 8)
    },
    ("docs/casters.md", "cpp", 10): "void fragment() { %s }",
    ("docs/casters.md", "cpp", 5): "%s",
    ("docs/casters.md", "cpp", 11): "%s",
    ("docs/casters.md", "cpp", 12): """
        struct Grid { isthmus::Tensor tensor(); };
        void fragment(nb::module_& m) { %s }""",
    ("docs/casters.md", "cpp", 13): """
        using Rows = isthmus::View<const float, 2, isthmus::sizes<"n d">>;
        isthmus::Tensor result;
        %s""",
}
#: Sessions of Python that run here as they stand.
SESSIONS = [("docs/blobs.md", "pycon", 0)]
#: Lines of a block that go into functions: statements of a module's body, and methods of a class that is being bound.
STATEMENTS = re.compile(r"(?m)^m\.def\(.*(?:\n(?:\s|\}).*)*")
METHODS = re.compile(r"(?ms)^// 1\. The instance is the owner.*")


def pages() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks() -> dict[tuple[str, str, int], str]:
    found: dict[tuple[str, str, int], str] = {}
    for page in pages():
        numbers: dict[str, int] = {}
        for language, text in re.findall(r"(?ms)^```(\w+)\n(.*?)^```$", page.read_text()):
            if language in CODE:
                number = numbers.get(language, 0)
                numbers[language] = number + 1
                found[str(page.relative_to(ROOT)), language, number] = text
    return found


BLOCKS = blocks()


def test_every_block_is_compiled_or_run_or_says_why_not() -> None:
    told = [*CLAIMED, *FRAGMENTS, *SESSIONS, *LEFT_OUT]
    assert len(told) == len(set(told))
    assert set(BLOCKS) - set(told) == set(), "blocks of code that nothing compiles or runs"
    assert set(told) - set(BLOCKS) == set(), "blocks of code that are gone"


@pytest.mark.parametrize("test", sorted(set(CLAIMED.values())))
def test_the_test_that_is_named_reads_the_page(test: str) -> None:
    source = (ROOT / test).read_text()
    for page, language, _ in (claim for claim, name in CLAIMED.items() if name == test):
        assert f'"{Path(page).name}"' in source
        assert f"```{language}" in source or f'"{language}"' in source


@pytest.mark.parametrize("reason", sorted(set(LEFT_OUT.values())))
def test_what_a_reason_names_is_there(reason: str) -> None:
    for name in re.findall(r"\b(?:tests|examples)/[\w./]+\w", reason):
        assert (ROOT / name).exists(), name


class AnyAddress(doctest.OutputChecker):
    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        texts = (re.sub(r"0x[0-9a-f]+|(?<='ptr': )\d+", "0", text) for text in (want, got))
        return super().check_output(*texts, optionflags)


@pytest.mark.parametrize("block", SESSIONS, ids=str)
def test_sessions_give_what_they_show(block: tuple[str, str, int]) -> None:
    pytest.importorskip("isthmus")
    session = doctest.DocTestParser().get_doctest(BLOCKS[block], {}, block[0], block[0], 0)
    shown: list[str] = []
    results = doctest.DocTestRunner(AnyAddress()).run(session, out=shown.append)
    assert results.attempted
    assert not results.failed, "".join(shown)


def as_code(block: tuple[str, str, int]) -> str:
    """A block with what stands around it; the parts that it leaves out ("…") are left out."""
    text = re.sub(r"\n?…;?|, …(?=\))", "", BLOCKS[block])
    text = re.sub(r"(?m)^#include .*$|(?<=[{;]) +(?=;)", "", text).replace("{ ;", "{")
    if FRAGMENTS[block].strip() == "%s" or FRAGMENTS[block].rstrip().endswith("\n        %s"):
        text = STATEMENTS.sub(lambda m: f"void bind{m.start()}(nb::module_& m) {{ {m[0]}\n}}", text)
        text = METHODS.sub(lambda m: f"void bind(nb::class_<Grid>& grid) {{ grid\n{m[0]}\n; }}", text)
    return FRAGMENTS[block].replace("%s", "\n" + text)


def test_fragments_compile(tmp_path: Path) -> None:
    isthmus = pytest.importorskip("isthmus")
    nanobind = pytest.importorskip("nanobind")
    lines = [
        "#include <isthmus/nanobind_stl.h>",
        "#include <isthmus/nanobind_overloads.h>",
        "#include <isthmus/array_like.h>",
        "#include <isthmus/converted.h>",
        "#include <isthmus/owned.h>",
        "#include <isthmus/tensor_protocol.h>",
    ]
    lines += ["#include <isthmus/isthmus.h>", "#include <isthmus/python.h>", "#include <isthmus/python/arguments.h>"]
    lines += ["#include <nanobind/stl/optional.h>", "#include <cstdio>", "#include <numeric>", "#include <vector>"]
    lines += ["namespace nb = nanobind;"]
    for i, block in enumerate(FRAGMENTS):
        lines += [f"namespace block{i} {{", f'#line 1 "{block[0]}, {block[1]} {block[2]}"', as_code(block), "}"]
    (tmp_path / "fragments.cpp").write_text("\n".join(lines) + "\n")
    include = os.environ.get("ISTHMUS_TEST_INCLUDE", isthmus.get_include())
    folders = [include, *isthmus.get_includes(), nanobind.include_dir(), sysconfig.get_path("include")]
    command = [
        shutil.which("c++") or "c++",
        "-std=c++20",
        "-fsyntax-only",
        *[f"-isystem{folder}" for folder in folders],
    ]
    done = subprocess.run([*command, "fragments.cpp"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-6000:]
