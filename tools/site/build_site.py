#!/usr/bin/env python3
"""Builds the documentation's site from docs/, the headers' comments and the Python package's docstrings, offline.

Usage:
    tools/site/build_site.py [--output DIR]

The site is DIR/VERSION, with DIR/index.html that leads there and DIR/versions.json, which lists the versions that lie
in DIR. A public name without a comment, a warning of Sphinx (a link that leads nowhere among them) and a malformed
address are errors.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.parse
from pathlib import Path

import headers
import reference
import stubs

ROOT = headers.ROOT
HERE = Path(__file__).resolve().parent
#: Pages whose place in the site is not that in the repository.
ROOT_PAGES = {
    "README.md": "index.md",
    "docs/README.md": "guides.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
#: The folders of examples/ whose README is a tutorial.
TUTORIALS = [
    "one_wheel",
    "with_nanobind",
    "with_pybind11",
    "bare",
    "my_class",
    "camera",
    "threads",
    "torch_op",
    "torch_kernels",
    "operators",
    "nanoflann",
    "embed",
    "shared_weights",
    "rust",
    "java",
]
#: The pages of the site's contents, in the order in which they are read; one that is in none of these is an error.
CONTENTS = {
    "Start": ["guides", "first_module", "install", "publishing", "coming_from", "frameworks", "platforms"],
    "Tutorials": [f"examples/{name}" for name in TUTORIALS],
    "Guides": [
        "import",
        "export",
        "views",
        "casters",
        "fields",
        "records",
        "ownership",
        "threads",
        "devices",
        "operators",
        "torch",
    ],
    "Beyond one process": ["blobs", "shared", "weights", "distributed"],
    "Measured": ["benchmark/method", "cost_study", "reliability"],
    "For developers": ["contributing", "architecture", "abi", "changelog"],
}
#: What a page shows, and does not link to.
PICTURES = (".png", ".jpg", ".svg", ".gif", ".webp")
LINK = re.compile(r"\[(?P<text>[^\]\n]*)\]\((?P<target>[^)\s]+)\)")


def version() -> str:
    text = (ROOT / "include/isthmus/core/config.h").read_text()
    found = re.search(r'#define ISTHMUS_VERSION "([^"]+)"', text)
    assert found is not None
    return found[1]


class Sources:
    """The folder that Sphinx reads: the pages as they are, but for links that leave the site's pages; and the files
    that these lead to, which are added to what Sphinx makes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = folder.with_name(f"{folder.name}-files")
        self.errors: list[str] = []

    def place_of(self, path: Path) -> str | None:
        """Where a file of the repository stands in the site."""
        tutorial = path.parent if path.name == "README.md" else path
        if tutorial.parent == ROOT / "examples" and (tutorial / "README.md").is_file():
            return f"examples/{tutorial.name}.md"
        name = str(path.relative_to(ROOT))
        name = "docs/README.md" if name == "docs" else name
        if name in ROOT_PAGES:
            return ROOT_PAGES[name]
        return name.removeprefix("docs/") if name.startswith("docs/") and path.is_file() else None

    def link(self, page: Path, place: str, found: re.Match[str]) -> str:
        target = found["target"]
        if re.match(r"[a-z]+:", target):
            address = urllib.parse.urlsplit(target)
            if (
                address.scheme not in ("http", "https", "mailto")
                or not (address.netloc or address.path)
                or " " in target
            ):
                self.errors.append(f"{page.relative_to(ROOT)}: {target} is no address")
            return found[0]
        name, _, anchor = target.partition("#")
        if not name:
            return found[0]
        path = (page.parent / name).resolve()
        if not path.exists() or not path.is_relative_to(ROOT):
            self.errors.append(f"{page.relative_to(ROOT)}: {target} leads to nothing")
            return found[0]
        there = self.place_of(path)
        if there is None:
            path = path / "README.md" if path.is_dir() else path
            if not path.is_file():
                return f"`{found['text'].strip('`')}`"
            return self.download(path, found["text"], place)
        if not there.endswith((".md", *PICTURES)):  # a page that Sphinx does not make
            return f'<a href="{os.path.relpath(there, os.path.dirname(place) or ".")}">{found["text"]}</a>'
        relative = os.path.relpath(there, os.path.dirname(place) or ".")
        return f"[{found['text']}]({relative}{'#' + anchor if anchor else ''})"

    def download(self, path: Path, text: str, place: str) -> str:
        """A link to a file of the repository, which a browser stores under its name."""
        there = Path("source") / path.relative_to(ROOT)
        (self.files / there).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, self.files / there)
        return f'<a href="{os.path.relpath(there, os.path.dirname(place) or ".")}" download>{text}</a>'

    def files_of(self, tutorial: Path, place: str) -> str:
        """The last section of a tutorial's page: the files of its project."""
        shown = subprocess.run(["git", "ls-files", "-z", "."], cwd=tutorial, capture_output=True, text=True, check=True)
        names = sorted(name for name in shown.stdout.split("\0") if name and not Path(name).name.startswith("."))
        links = [self.download(tutorial / name, f"`{name}`", place) for name in names if name != "README.md"]
        return "\n## The files\n\n" + ",\n".join(links) + "\n"

    def add(self, page: Path, place: str) -> None:
        pieces = re.split(r"(?ms)(^```.*?^```$|`[^`\n]+`(?!\]))", page.read_text())
        text = "".join(
            piece if i % 2 else LINK.sub(lambda m: self.link(page, place, m), piece) for i, piece in enumerate(pieces)
        )
        # A forge draws mermaid; here the text of the drawing is shown.
        text = text.replace("```mermaid", "```text")
        if place.startswith("examples/"):
            text += self.files_of(page.parent, place)
        target = self.folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def lay_out(self) -> None:
        docs = ROOT / "docs"
        pages = [page for page in docs.rglob("*.md") if page != docs / "README.md"]
        pages += ROOT.glob("examples/*/README.md")
        listed = {f"{name}.md" for names in CONTENTS.values() for name in names}
        for page in sorted(pages):
            place = self.place_of(page)
            if place not in listed:
                self.errors.append(f"{page.relative_to(ROOT)} is in no list of CONTENTS (tools/site/build_site.py)")
            self.add(page, str(place))
        for name, place in ROOT_PAGES.items():
            self.add(ROOT / name, place)
        for file in docs.rglob("*"):
            # Sphinx takes pictures from its sources. A folder with a page that it does not make is copied as well.
            folders = [self.folder] if file.suffix in PICTURES else []
            folders += [self.files] if (file.parent / "index.html").is_file() and file.suffix != ".md" else []
            for folder in folders:
                target = folder / file.relative_to(docs)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, target)
                if folder is self.files and file.suffix == ".html":  # it links to pages of docs/ as a forge shows them
                    target.write_text(re.sub(r"""(href=(["'])[\w/]+)\.md(?=\2)""", r"\1.html", target.read_text()))

    def write_reference(self) -> None:
        cpp = headers.read(reference.HEADERS)
        c = headers.read(reference.C_HEADERS, language="c")
        self.errors += headers.undocumented([*cpp, *c])
        names = [f"reference/cpp/{name}" for name in reference.write_cpp(cpp, self.folder / "reference/cpp")]
        introductions = {h: introduction(ROOT / "include" / h) for h in reference.C_HEADERS}
        reference.write_c(c, introductions, self.folder / "reference/c.md")
        modules, missing = stubs.write_python(ROOT / "python/isthmus", self.folder / "reference/python")
        self.errors += missing
        python = [f"reference/python/{m}" for m in modules]
        self.contents = {
            **CONTENTS,
            "C++ reference": names,
            "Python reference": python,
            "C reference": ["reference/c", "genindex"],
        }

    def write_contents(self) -> None:
        index = self.folder / "index.md"
        lines = [index.read_text()]
        for caption, pages in self.contents.items():
            lines += ["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```"]
        index.write_text("\n".join(lines))


def introduction(header: Path) -> str:
    """The comment at the head of a C header, below its first two lines."""
    text = header.read_text().partition("*/")[0]
    lines = [re.sub(r"^ \* ?", "", line) for line in text.splitlines()[2:]]
    return "\n".join(lines).strip()


def run_sphinx(source: Path, output: Path) -> bool:
    environment = {**os.environ, "ISTHMUS_SITE_VERSION": version()}
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-b",
        "html",
        "-c",
        HERE,
        "-d",
        source.parent / "doctrees",
        "-q",
        "-W",
        "--keep-going",
    ]
    return subprocess.run([*map(str, command), str(source), str(output)], env=environment).returncode == 0


def link_errors(site: Path) -> list[str]:
    """Links of the finished pages, those of the theme and of the pages that Sphinx copied included,
    that lead to no file."""
    errors = []
    for page in site.rglob("*.html"):
        for _, target in re.findall(r"""\b(?:href|src)=(["'])(.+?)\1""", page.read_text()):
            address = urllib.parse.urlsplit(target)
            if address.scheme or address.netloc or not address.path:
                continue
            path = page.parent / urllib.parse.unquote(address.path)
            if not path.exists():
                errors.append(f"{page.relative_to(site)}: {target} leads to no file")
    return errors


def build(output: Path) -> list[str]:
    """Builds the site; what is wrong with it, one line each."""
    work = output.parent / f"{output.name}-work"
    shutil.rmtree(work, ignore_errors=True)
    sources = Sources(work / "source")
    sources.lay_out()
    sources.write_reference()
    sources.write_contents()
    if sources.errors:
        return sources.errors
    site = output / version()
    shutil.rmtree(site, ignore_errors=True)
    if not run_sphinx(sources.folder, site):
        return ["Sphinx warned or failed"]
    shutil.copytree(sources.files, site, dirs_exist_ok=True)
    versions = sorted((p.name for p in output.iterdir() if (p / "index.html").is_file()), reverse=True)
    (output / "versions.json").write_text(json.dumps(versions) + "\n")
    (output / "index.html").write_text(
        f'<!doctype html><meta http-equiv="refresh" content="0; url={version()}/index.html">\n'
    )
    return link_errors(output)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "site")
    options = parser.parse_args()
    errors = build(options.output.absolute())
    for error in errors:
        print(f"[isthmus] {error}", file=sys.stderr)
    if not errors:
        print(f"[isthmus] the site is {options.output / version() / 'index.html'}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
