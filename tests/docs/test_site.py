"""The checks of `make docs` find what they are there for, and the site has an entry for every name of the contract."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("clang", reason="run by `make docs`, in its own environment")
pytest.importorskip("sphinx", reason="run by `make docs`, in its own environment")

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "site"))

import build_site  # noqa: E402
import headers  # noqa: E402
import reference  # noqa: E402
import stubs  # noqa: E402

sys.path.pop(0)

HEADER = """
#pragma once
#define ISTHMUS_API inline __attribute__((visibility("hidden")))
namespace isthmus {
inline namespace abi9 __attribute__((visibility("hidden"))) {
namespace detail {
struct Hidden {};
template <class Self> struct Base {
    /// Of the base.
    int inherited() const { return 1; }
};
}
/// What it is. Throws `Error`, as stop() does.
ISTHMUS_API int start(int a = 1) noexcept;
int stop();
/// A class.
template <class T, int N>
class Box : public detail::Base<T> {
public:
    Box(const Box&) = default;
    T value;  ///< what is inside
    /// For layers above: the insides.
    int block();
    void take(detail::Hidden);
    /// Takes any number.
    template <class U> requires(sizeof(U) > 1) && requires(U u) { u + 1; }
    U twice(U u = {.x = 1}) const { return u + u; }
private:
    int secret();
};
enum class Kind : char {
    one,  ///< the first
    two,
};
}
}
"""


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, headers.Entry]:
    include = tmp_path_factory.mktemp("include")
    (include / "isthmus").mkdir()
    (include / "isthmus/box.h").write_text(HEADER.replace("U u = {.x = 1}", "U u"))
    return {e.full_name: e for top in headers.read(["isthmus/box.h"], include) for e in top.all()}


def test_public_names_are_found_and_internal_ones_are_not(entries: dict[str, headers.Entry]) -> None:
    box = "isthmus::Box"
    assert set(entries) == {
        "isthmus::start", "isthmus::stop", box, f"{box}::inherited", f"{box}::value", f"{box}::twice",
        "isthmus::Kind", "isthmus::Kind::one", "isthmus::Kind::two",
    }  # fmt: skip


def test_what_has_no_comment_is_told_with_its_place(entries: dict[str, headers.Entry]) -> None:
    told = headers.undocumented(list(entries.values()))
    assert {line.split(": ")[1].split(" ")[0] for line in told} == {
        "isthmus::stop",
        "isthmus::Kind",
        "isthmus::Kind::two",
    }
    assert all(line.startswith("include/isthmus/box.h:") for line in told)


def test_declarations_are_shown_without_marks_and_constraints(entries: dict[str, headers.Entry]) -> None:
    assert entries["isthmus::start"].signature == "int start(int a = 1) noexcept"
    assert entries["isthmus::Box"].signature == "template <class T, int N> Box"
    assert entries["isthmus::Box::twice"].signature == "template <class U> U twice(U u) const"


def test_comments_become_markdown(entries: dict[str, headers.Entry]) -> None:
    known = reference.names_of(list(entries.values()))
    shown = reference.prose(entries["isthmus::start"].comment + "\nView<const T, 2> * a_b *\n    int x;\ndone", known)
    assert "{cpp:any}`stop() <isthmus::stop>`" in shown
    assert "`View<const T, 2>` \\* `a_b` \\*" in shown
    assert "```cpp\nint x;\n```" in shown


def test_python_without_a_docstring_is_told(tmp_path: Path) -> None:
    (tmp_path / "shared.py").write_text('"""About."""\n__all__ = ["f", "g"]\ndef f(): ...\n')
    module = stubs.Module("isthmus.shared", "isthmus.shared", ("shared.py",))
    page = stubs.Page(tmp_path, module)
    page.write()
    assert len(page.missing) == 2  # f has no docstring, g is nowhere
    assert "isthmus.shared.f " in page.missing[0]


def test_links_that_lead_nowhere_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs/page.md"
    (tmp_path / "docs/page.png").touch()
    links = ["[gone](gone.md)", "[bad](https://)", "[good](https://example.org)", "[there](page.md#x)", "![](page.png)"]
    page.write_text(" ".join([*links, "`[code](not/a/link)`"]))
    monkeypatch.setattr(build_site, "ROOT", tmp_path)
    sources = build_site.Sources(tmp_path / "out")
    sources.add(page, "page.md")
    assert sources.errors == ["docs/page.md: gone.md leads to nothing", "docs/page.md: https:// is no address"]
    (tmp_path / "out/a.html").write_text('<a href="b.html">b</a><a href="a.html#x">a</a><img src="c.png">')
    assert build_site.link_errors(tmp_path / "out") == [
        "a.html: b.html leads to no file",
        "a.html: c.png leads to no file",
    ]


#: Names that the contract promises, in each language.
PROMISED = {
    "cpp": """
        DType Device Error ErrorCode Result Tensor Tensor::empty Tensor::own Tensor::wrap Tensor::from_dlpack
        Tensor::view View tensor_traits Blob to_blob from_blob from_py borrow_py to_py to_py_like PyOwner
        set_python_error ImportOptions Framework
        from_py_torch borrow_py_torch try_from_torch from_torch to_torch
        View::data View::extent View::strides Borrowed::data
        op Out InOut arg empty_like shared::Segment shared::Pool shared::send shared::receive
        float32 bfloat16 float8_e4m3fn float4_e2m1fn complex64 boolean dtype_of
    """,
    "py": """
        from_dlpack Tensor Tensor.data_ptr Tensor.strides Tensor.to Blob.as_dict to_blob from_blob get_include
        get_cmake_dir Error shared.empty shared.share shared.send shared.receive shared.Channel
        distributed.enable distributed.disable distributed.stats operators.register DType.lanes Device.type
    """,
    "c": "isthmus_from_dlpack isthmus_to_dlpack isthmus_shared_send isthmus_from_blob isthmus_last_error",
}


def test_the_site_has_an_entry_for_every_promised_name() -> None:
    from sphinx.util.inventory import InventoryFile

    file = ROOT / "build/site" / build_site.version() / "objects.inv"
    assert file.is_file(), "build the site first: make docs"
    inventory = InventoryFile.loads(file.read_bytes(), uri="").data
    for domain, promised in PROMISED.items():
        there = {name for kind, names in inventory.items() if kind.startswith(f"{domain}:") for name in names}
        prefix = {"cpp": "isthmus::", "py": "isthmus.", "c": ""}[domain]
        assert {name for name in promised.split() if prefix + name not in there} == set()
