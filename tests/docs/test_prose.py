"""The pages and the comments: prose of at most 120 columns without the phrases that we do not write, code of at most 88
columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = 120
#: Of code, which is as wide as a page of the site.
CODE_COLUMNS = 88
#: Blocks of these languages show what a program printed, whose lines are as long as they are.
PRINTED = {"", "text", "pycon"}
#: Parts of a page that a script writes.
GENERATED = re.compile(r"(?ms)^<!-- make [\w -]+: begin -->.*?^<!-- make [\w -]+: end -->")

PHRASES = {
    r"\bthe very \w": "say 'the', 'the same' or 'itself'",
    (
        r"\bof (?:its|their|your|our|my|his|one's) own(?=\W*$|[.,;:)]| "
        r"(?:and|or|in|on|for|which|that|with|to|from|over|by|as|at|when|is|if)\b)"
    ): "leave it out, or say what differs",
    r"(?<!here )\b(?:is|are|was|were) no (?!longer\b|more\b|less\b|worse\b|slower\b|faster\b)": "'is not a'",
    r"\bas such\b(?! an?\b)|\bsuch(?=[.,;:)]|\W*$| (?:is|are|was|has|of|with|in|by|for|and|or)\b)": "name it",
    r"\bwanted\b": "'expected', or 'requested'",
    r"\b[gG](?:ive|ives|iven|iving|ave) (?:\w+ )?back\b": "'release', 'return' or 'roll back'",
    r"\bways? (?:in|out)\b(?! which| turn)": "'import path', 'export path'",
    (
        r"(?:^|[.:;]\s+)What (?:is|are|was|were|has|have|comes|goes|does|must|cannot|can|it|they)\b"
        r"(?![^.:;]*\?)"
    ): "begin with its name",
}
PAGES = sorted(
    page for pattern in ("*.md", "docs/*.md", "examples/*/README.md", "packaging/*.md") for page in ROOT.glob(pattern)
)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def marked_lines(page: Path) -> Iterator[tuple[int, str, str | None]]:
    """(number, line, language of the block that it is in) of what people have written on a page."""
    text = GENERATED.sub(lambda part: "\n" * part[0].count("\n"), page.read_text())
    language: str | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            language = line.strip().removeprefix("```") if language is None else None
        else:
            yield number, line, language


def prose_of(page: Path) -> str:
    """The page without its code: blocks, spans and the targets of links."""
    text = "\n".join("" if language is not None else line for _, line, language in marked_lines(page))
    return re.sub(r"`[^`]*`|\]\([^)]*\)", "_", text)


def comments_of(source: Path) -> str:
    """Each run of // comments as one paragraph."""
    paragraphs: list[str] = [""]
    for line in source.read_text().splitlines():
        comment = re.match(r"(.*?)(?:^|(?<=[\s;{}),]))//[/!]?<? ?(.*)", line)
        if comment is None or comment[1].strip():
            paragraphs.append("")
        if comment is not None:
            paragraphs[-1] += " " + comment[2]
    return re.sub(r"`[^`]*`", "_", "\n\n".join(p.strip() for p in paragraphs if p))


def found_in(text: str) -> list[str]:
    found = []
    for paragraph in re.split(r"\n(?=\s*(?:[-*|#]|\d+\.|\n))", text):
        flat = " ".join(paragraph.replace("|", " . ").split()).lstrip("-*#. ")
        for phrase, instead in PHRASES.items():
            found += [f"{flat[max(0, m.start() - 30) : m.end() + 30]!r}: {instead}" for m in re.finditer(phrase, flat)]
    return found


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_lines_are_short(page: Path) -> None:
    lines = [
        (n, line) for n, line, language in marked_lines(page) if language not in PRINTED and not line.startswith("|")
    ]
    assert [f"{n}: {len(line)} columns" for n, line in lines if len(line) > COLUMNS] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_code_fits_the_width_of_a_page(page: Path) -> None:
    lines = [(n, line) for n, line, language in marked_lines(page) if language is not None and language not in PRINTED]
    assert [f"{n}: {len(line)} columns" for n, line in lines if len(line) > CODE_COLUMNS] == []


#: The entries of the changelog stay as they were written.
@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=name)
def test_pages_are_free_of_the_phrases(page: Path) -> None:
    assert found_in(prose_of(page)) == []


@pytest.mark.parametrize("folder", ["include", "src"])
def test_comments_are_free_of_the_phrases(folder: str) -> None:
    sources = (path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in {".h", ".cpp"})
    assert {name(path): found for path in sources if (found := found_in(comments_of(path)))} == {}


def test_a_phrase_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("- It is no leak,\n  of its\n  own. What is kept stays.\n\n```cpp\nint x;  // the very one\n```\n")
    assert len(found_in(prose_of(page))) == 3
    source = tmp_path / "source.h"
    source.write_text("/// Something that is\n/// wanted.\nint x;  // What it is.\nint is_no_comment;\n")
    assert len(found_in(comments_of(source))) == 2
