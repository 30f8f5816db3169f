"""Writes the pages of the C++ and the C reference, in Markdown, from the names that headers.py reads."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from headers import CLASSES, Entry

#: What a user includes, in the order of the umbrellas.
HEADERS = [
    "isthmus.h",
    "python.h",
    "shared.h",
    "load.h",
    "op.h",
    "fields.h",
    "records.h",
    "tree.h",
    "module.h",
    "array_like.h",
    "owned.h",
    "visit.h",
    "small_floats.h",
]
HEADERS += ["converted.h", "torch.h", "nanobind.h", "nanobind_stl.h", "nanobind_overloads.h", "pybind11.h"]
HEADERS += ["pybind11_overloads.h", "eigen.h", "eigen_tensor.h", "opencv.h", "xtensor.h", "mdspan.h"]
HEADERS = [f"isthmus/{name}" for name in HEADERS]
C_HEADERS = ["isthmus/c/isthmus.h", "isthmus/c/shared.h"]


@dataclass(frozen=True)
class Page:
    name: str
    title: str
    include: str  # what a user writes
    about: str
    headers: tuple[str, ...]  # how the paths of its headers begin, below isthmus/


PAGES = (
    Page("tensors", "Tensors", "isthmus/isthmus.h", "Owning handles, what they are made of, plain numbers, copies.",
         ("core/tensor.h", "core/tensor_spec", "core/blob", "core/copy", "core/shape", "core/layout",
          "core/config", "core/memory")),
    Page("dtypes", "Dtypes and devices", "isthmus/isthmus.h",
         ("What one element is and where the memory lies. The C++ types of 8 and 16 bits are in "
          "`<isthmus/small_floats.h>`."),
         ("core/dtype", "core/device", "small_floats")),
    Page("views", "Typed views", "isthmus/isthmus.h", "See the guide: [typed views](../../views.md).",
         ("core/view/view", "core/view", "visit.h", "converted.h")),
    Page("errors", "Errors and results", "isthmus/isthmus.h", "What can go wrong, and how a function says so.",
         ("core/error", "core/result")),
    Page("bridge", "The bridge to Python", "isthmus/python.h",
         "See the guides: [the way in](../../import.md), [the way out](../../export.md).",
         ("python/api", "python/py_owner", "python/ref")),
    Page("binding", "Binding functions", "isthmus/python.h",
         "For functions of the bare CPython API, of pybind11 (`<isthmus/pybind11.h>`) and nanobind "
         "(`<isthmus/nanobind.h>`). See the guides: [casters](../../casters.md), [structs and trees](../../fields.md), "
         "[records and dates](../../records.md).",
         ("python/arguments", "python/call_arguments", "python/binding", "python/reply", "python/agreeing",
          "python/overloads", "python/container", "python/annotations", "python/distinct", "python/value_arguments",
          "bind", "module.h", "array_like.h", "owned.h", "fields.h", "records.h", "tensor_protocol.h", "tree.h",
          "nanobind", "pybind11")),
    Page("operators", "Operators", "isthmus/op.h", "See the guide: [operators](../../operators.md).",
         ("op.h", "python/operator")),
    Page("shared", "Shared memory between processes", "isthmus/shared.h",
         "See the guide: [shared memory](../../shared.md).",
         ("shared",)),
    Page("files", "Tensors of a file", "isthmus/load.h", "See the guide: [weights](../../weights.md).", ("load",)),
    Page("torch", "at::Tensor", "isthmus/torch.h",
         "The only header that needs libtorch. See the guide: [torch](../../torch.md).",
         ("torch/api.h",)),
    Page("adapters", "Eigen, OpenCV, xtensor, mdspan", "isthmus/eigen.h",
         "One header each: `<isthmus/eigen.h>`, `<isthmus/eigen_tensor.h>`, `<isthmus/opencv.h>`, "
         "`<isthmus/xtensor.h>`, `<isthmus/mdspan.h>`. See the guide: [typed views](../../views.md).",
         ("eigen", "opencv", "xtensor", "mdspan")),
)  # fmt: skip

#: What is code in the prose of a comment: a name with :: or (), snake_case, a list of arguments in angle brackets.
CODE = re.compile(
    r"`[^`]*`|<\w+(?:/\w+)*\.h>|[\w.]*\b\w+(?:::[\w*=]+)+(?:<[^<>]*(?:<[^<>]*>)?[^<>]*>)?(?:\([^()]*\))?|\b\w+<[^<>]*(?:<[^<>]*>)?[^<>]*>"
    r"(?:\([^()]*\))?|\b\w+\((?:\w+(?:, \w+)*)?\)|\b[A-Za-z]\w*_\w*[A-Za-z0-9]\b"
)


def as_code(found: re.Match[str], known: dict[str, str]) -> str:
    """A name as a link, where it is one of ours and has one meaning; else as code."""
    text = found[0].strip("`")
    target = known.get(re.sub(r"\(.*\)$", "", text))
    return f"{{cpp:any}}`{text} <{target}>`" if target and "<" not in text else f"`{text}`"


def prose(comment: str, known: dict[str, str]) -> str:
    """A comment as Markdown: its code as code, its examples in fences, and nothing else taken for mark-up."""
    lines: list[str] = []
    fenced = False
    for line in comment.splitlines():
        example = line.startswith("    ")
        if example != fenced:
            lines += ["", "```cpp"] if example else ["```", ""]
        fenced = example
        if example:
            lines.append(line[4:])
            continue
        pieces, end = [], 0
        for found in CODE.finditer(line):
            pieces += [escape(line[end : found.start()]), as_code(found, known)]
            end = found.end()
        lines.append("".join([*pieces, escape(line[end:])]))
    return "\n".join([*lines, *(["```"] if fenced else [])]).strip()


def escape(text: str) -> str:
    return re.sub(r"([*_<\[\]#|$~{}])", r"\\\1", text)


def merge(entries: Iterable[Entry]) -> list[Entry]:
    """Overloads that differ in their constraints alone are one entry with the words of each."""
    merged: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        first = merged.setdefault((entry.full_name, re.sub(r"\s", "", entry.signature) or str(entry.line)), entry)
        if first is not entry and entry.comment not in first.comment:
            first.comment += "\n\n" + entry.comment
    return list(merged.values())


def write_entry(entry: Entry, known: dict[str, str], domain: str, depth: int = 8) -> list[str]:
    """The directive of an entry with those of its members inside."""
    if not entry.name:  # an enum of C without a name: its words, then its constants
        lines = [prose(entry.comment, known), ""]
        for member in entry.members:
            lines += [":" * depth + f"{{c:macro}} {member.name}", prose(member.comment, known), ":" * depth, ""]
        return lines
    directive = "enum-class" if domain == "cpp" and entry.directive == "enum" else entry.directive
    fence = ":" * depth
    lines = [f"{fence}{{{domain}:{directive}}} {entry.signature}", "", prose(entry.comment, known), ""]
    for member in merge(entry.members):
        lines += write_entry(member, known, domain, depth - 2)
    return [*lines, fence, ""]


def names_of(entries: list[Entry]) -> dict[str, str]:
    """What a comment may write for a name → its full name; nothing for what means several things."""
    found: dict[str, set[str]] = {}
    for entry in (e for top in entries for e in top.all()):
        parts = entry.full_name.split("::")
        for i in range(1, len(parts)):
            found.setdefault("::".join(parts[i:]), set()).add(entry.full_name)
        found.setdefault(entry.full_name, set()).add(entry.full_name)
    return {name: next(iter(full)) for name, full in found.items() if len(full) == 1}


def page_of(entry: Entry) -> Page:
    path = entry.header.removeprefix("isthmus/")
    for page in PAGES:
        if path.startswith(page.headers):
            return page
    raise SystemExit(
        f"tools/site/reference.py: {entry.full_name} of {entry.header} is on no page; add its header to PAGES"
    )


def write_page(page: Page, entries: list[Entry], known: dict[str, str]) -> str:
    lines = [f"# {page.title}", "", page.about, "", "```cpp", f"#include <{page.include}>", "```", ""]
    scope = None
    headings = sum(e.directive in CLASSES for e in entries) > 1
    for entry in merge(entries):
        if headings and entry.directive in CLASSES:
            lines += [f"## {entry.name}", ""]
        if entry.scope != scope:
            scope = entry.scope
            lines += [f"```{{cpp:namespace}} {scope}", "```", ""]
        lines += write_entry(entry, known, "cpp")
    return "\n".join(lines)


def write_cpp(entries: list[Entry], folder: Path) -> list[str]:
    """The pages of the C++ reference; their names."""
    folder.mkdir(parents=True)
    known = names_of(entries)
    for page in PAGES:
        mine = [e for e in entries if page_of(e) is page]
        # In the order in which the page names its headers, and of the header.
        order = {
            id(e): next(i for i, h in enumerate(page.headers) if e.header.removeprefix("isthmus/").startswith(h))
            for e in mine
        }
        mine.sort(key=lambda e: (order[id(e)], e.scope))
        (folder / f"{page.name}.md").write_text(write_page(page, mine, known))
    return [page.name for page in PAGES]


def write_c(entries: list[Entry], introductions: dict[str, str], file: Path) -> None:
    """The page of the C reference: each header's own introduction, then its names."""
    lines = ["# C", "", "For runtimes that are neither C++ nor Python. See the guide: [blobs](../blobs.md).", ""]
    for header in C_HEADERS:
        lines += [f"## {header}", "", prose(introductions[header], {}), "", "```c", f"#include <{header}>", "```", ""]
        for entry in entries:
            if entry.header == header:
                lines += write_entry(entry, {}, "c")
    file.write_text("\n".join(lines))
