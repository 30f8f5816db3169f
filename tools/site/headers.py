"""Reads the public names of the headers and their comments with libclang:
what the C++ and the C reference are made of."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import util
from pathlib import Path

from clang import cindex
from clang.cindex import AccessSpecifier, Cursor
from clang.cindex import CursorKind as Kind

ROOT = Path(__file__).resolve().parents[2]
#: Headers of libraries that are not installed for the site, with as much of each as our declarations name.
STAND_INS = Path(__file__).resolve().parent / "stand_ins"
#: The headers that include those.
ADAPTERS = ("torch.h", "eigen.h", "eigen_tensor.h", "opencv.h", "xtensor.h", "mdspan.h")
#: Namespaces that are nobody's business but ours.
INTERNAL = {"detail", "impl", "load_impl", "layout", "flag"}
#: A base that is written by an alias → its class.
ALIASES = {"WindowOf": "Window"}
INTERNALS = re.compile(rf"\b(?:{'|'.join(sorted(INTERNAL))})::")
#: How the comment of a name begins that is public in C++ alone: for the layers above, or to refuse with a better text.
NOT_FOR_USERS = ("For layers above", "Refused:")
#: Skip bodies; go on after errors; leave out a comment-free precompiled preamble.
OPTIONS = 0x40 | 0x200

DIRECTIVES = {
    Kind.FUNCTION_DECL: "function", Kind.FUNCTION_TEMPLATE: "function", Kind.CXX_METHOD: "function",
    Kind.CONSTRUCTOR: "function", Kind.CONVERSION_FUNCTION: "function",
    Kind.CLASS_DECL: "class", Kind.CLASS_TEMPLATE: "class", Kind.STRUCT_DECL: "struct", Kind.UNION_DECL: "union",
    Kind.ENUM_DECL: "enum", Kind.ENUM_CONSTANT_DECL: "enumerator",
    Kind.VAR_DECL: "var", Kind.FIELD_DECL: "member", Kind.UNEXPOSED_DECL: "var",
    Kind.TYPE_ALIAS_DECL: "type", Kind.TYPE_ALIAS_TEMPLATE_DECL: "type", Kind.TYPEDEF_DECL: "type",
    Kind.CONCEPT_DECL: "concept",
}  # fmt: skip
CLASSES = {"class", "struct", "union"}


@dataclass
class Entry:
    """One public name, or one overload of it."""

    directive: str  # of Sphinx's C++ domain, without "cpp:"
    name: str  # in its scope
    scope: str  # "isthmus::shared", "isthmus::Tensor"; empty for C
    signature: str
    comment: str  # Markdown
    header: str  # below include/
    line: int
    members: list[Entry] = field(default_factory=list)

    @property
    def full_name(self) -> str:
        return f"{self.scope}::{self.name}" if self.scope else self.name

    def all(self) -> Iterator[Entry]:
        yield self
        for member in self.members:
            yield from member.all()


def include_folders() -> list[Path]:
    """The headers that ours include: the compiler's own, Python's, DLPack's and the binders'."""
    folders = [Path(sysconfig.get_path("include"))]
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise SystemExit(
            "tools/site: no C++ compiler found, whose headers libclang reads (Debian, Ubuntu: apt install g++)"
        )
    # libclang comes without the headers of a compiler (stddef.h).
    shown = subprocess.run([compiler, "-print-file-name=include"], capture_output=True, text=True).stdout.strip()
    folders.append(Path(shown))
    for package in ("tvm_ffi", "nanobind", "pybind11"):
        found = util.find_spec(package)
        if found is None or not found.submodule_search_locations:
            raise SystemExit(f"tools/site: the package {package} is not installed (requirements/docs.txt)")
        folders.append(Path(found.submodule_search_locations[0]) / "include")
    return folders


def parse(headers: list[str], include: Path, language: str = "c++") -> cindex.TranslationUnit:
    """One translation unit with all headers. What libclang cannot read in ours is an error;
    a stand-in may be incomplete."""
    arguments = ["-x", language, "-std=c++20" if language == "c++" else "-std=c11", "-ferror-limit=0", f"-I{include}"]
    if language == "c":
        arguments.append("-fparse-all-comments")  # C has no "///" of its own
    arguments += [f"-isystem{folder}" for folder in [*include_folders(), STAND_INS]]
    source = "".join(f"#include <{header}>\n" for header in headers)
    name = f"all_headers.{'cpp' if language == 'c++' else 'c'}"
    unit = cindex.Index.create().parse(name, arguments, unsaved_files=[(name, source)], options=OPTIONS)
    # Bodies whose type is deduced are read too, and call what a stand-in lacks.
    adapters = tuple(str(include / "isthmus" / name) for name in ADAPTERS)
    errors = [d for d in unit.diagnostics if d.severity >= cindex.Diagnostic.Error]
    errors = [e for e in errors if not (e.location.file and e.location.file.name in adapters)]
    if errors:
        shown = "\n".join(f"  {e.location.file}:{e.location.line}: {e.spelling}" for e in errors[:20])
        raise SystemExit(f"tools/site: libclang cannot read the headers:\n{shown}")
    return unit


def comment_of(cursor: Cursor) -> str:
    """The text of the `///` or `///<` lines that belong to a declaration, as Markdown."""
    raw = cursor.raw_comment or ""
    if raw.startswith("/*"):
        raw = re.sub(r"^/\*\*?<?|\*/$", "", raw)
        return "\n".join(re.sub(r"^\s*\*? ?", "", line) for line in raw.splitlines()).strip()
    return "\n".join(re.sub(r"^\s*//[/!]<? ?", "", line) for line in raw.splitlines()).strip()


#: Pieces of C++ text: comments, strings, words, anything else.
PIECES = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"])*\"|::|\w+|\s+|.", re.DOTALL)
#: Attributes for the compiler, which a reader need not know.
MARKS = re.compile(r"__attribute__ ?\(\(.*?\)\)|\[\[\w+\]\]|\b(?:ISTHMUS_[A-Z_]+|inline|friend|extern)\b")


@lru_cache
def text_of(file: str) -> bytes:
    return Path(file).read_bytes()


def declaration_text(cursor: Cursor) -> str:
    """The declaration as it is written, up to its body, initialisers or end."""
    # From the text and not by tokens, which begin in a macro's definition where the declaration begins with a macro.
    text = text_of(cursor.location.file.name)[cursor.extent.start.offset :][:4000].decode()
    depth, pieces = 0, []
    for found in PIECES.finditer(text):
        piece = found[0]
        if piece.startswith(("//", "/*")):
            continue
        in_requirement = piece == "{" and re.search(r"\brequires ?(?:\([^()]*\))? ?$", "".join(pieces[-40:]))
        if depth == 0 and piece in ("{", ";", ":") and not in_requirement:
            break
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(piece, 0)
        pieces.append(piece)
    text = re.sub(r"\s+", " ", MARKS.sub("", "".join(pieces))).strip()
    text = re.sub(r"\{\.\w+ = ", "{", text)  # Sphinx reads no designated initialisers
    text = re.sub(r" =(?: default)?$", "", text)
    return re.sub(r"(?<=\() | (?=\))", "", text)


def balanced(text: str, start: int) -> int:
    """Where the bracket at `start` is closed, behind it."""
    opening = text[start]
    closing = {"(": ")", "<": ">", "{": "}"}[opening]
    depth = 0
    for i in range(start, len(text)):
        if text[i] == opening:
            depth += 1
        elif text[i] == closing and text[i - 1] != "-":
            depth -= 1
            if depth == 0:
                return i + 1
    return len(text)


def without_requirement(text: str) -> str:
    """A declaration without its requires-clauses: the comment says in words what it is for."""
    found = re.match(r"template ?(?=<)", text)
    if not found:
        return re.sub(r" requires ?(?:\(.*|\w+)$", "", text)
    end = balanced(text, found.end())
    head, rest = text[:end], text[end:].lstrip()
    if re.match(r"requires\b", rest):
        rest = rest[len("requires") :].lstrip()
        while True:  # a conjunction of primary expressions
            name = re.match(r"(?:requires ?(?:\([^)]*\) ?)?(?={)|!?[\w:]*)", rest)
            rest = rest[name.end() if name else 0 :]
            if rest[:1] in ("(", "<", "{"):
                rest = rest[balanced(rest, 0) :]
            rest = rest.lstrip()
            if not rest.startswith(("&&", "||")):
                break
            rest = rest[2:].lstrip()
    return f"{head} {without_requirement(rest)}"


def variable(cursor: Cursor) -> str:
    """A variable by its type and name, where the text declares several or says `auto`."""
    found = re.fullmatch(r"(.*?)((?:\[\w*\])*)", cursor.type.spelling)
    return f"{found[1]} {cursor.spelling}{found[2]}" if found else str(cursor.spelling)


def signature_of(cursor: Cursor, directive: str) -> str:
    """What Sphinx's C++ domain reads behind the directive."""
    if directive == "enumerator":
        return str(cursor.spelling)
    text = without_requirement(declaration_text(cursor))
    if directive == "enum":
        return re.sub(r"^enum (?:class )?", "", text)
    if directive in CLASSES:
        return re.sub(r"\b(?:class|struct|union) (?=\w+$)", "", re.sub(r" final$", "", text))
    if directive == "var" and cursor.kind == Kind.VAR_DECL:
        return variable(cursor)
    if directive == "member" and re.search(r",(?![^<(]*[>)])", text):  # several in one declaration
        return variable(cursor)
    if directive == "var":
        return re.sub(r" = .*$", "", text)
    if directive == "type":
        text = re.sub(r"\btypedef |\busing ", "", text)
        return re.sub(r" = .*$", "", text) if INTERNALS.search(text.partition(" = ")[2]) else text
    if directive == "concept":
        return re.sub(r"\bconcept (\w+).*$", r"\1", text)
    return text


def is_left_out(cursor: Cursor, comment: str) -> bool:
    """Deleted functions, what the compiler could have written, and what is only for the layers above."""
    if comment.startswith(NOT_FOR_USERS) or cursor.is_deleted_method():
        return True
    if comment:
        return False
    special = cursor.is_copy_constructor() or cursor.is_move_constructor() or cursor.is_default_constructor()
    return bool(special or cursor.spelling in ("operator=", "operator bool") or cursor.kind == Kind.DESTRUCTOR)


class Reader:
    """Collects the entries of a translation unit that lie in headers below `include`."""

    def __init__(self, include: Path) -> None:
        self.include = include
        self.internal: dict[str, Cursor] = {}

    def header_of(self, cursor: Cursor) -> str | None:
        where = cursor.location.file
        path = Path(where.name) if where else None
        return str(path.relative_to(self.include)) if path and path.is_relative_to(self.include) else None

    def entry(self, cursor: Cursor, scope: str) -> Entry | None:
        header, directive = self.header_of(cursor), DIRECTIVES.get(cursor.kind)
        comment = comment_of(cursor)
        name = cursor.spelling
        if header is None or directive is None or cursor.semantic_parent != cursor.lexical_parent:
            return None
        if directive == "var" and cursor.kind == Kind.UNEXPOSED_DECL:
            found = re.search(r"(\w+) = ", declaration_text(cursor) + " = ")
            name = found[1] if found else ""
            if not re.match(r"template\b.*\bconstexpr\b", declaration_text(cursor)):
                return None
        if directive in CLASSES | {"enum"} and not cursor.is_definition():
            return None
        if cursor.kind == Kind.TYPEDEF_DECL and cursor.underlying_typedef_type.get_declaration().is_definition():
            return None  # the struct itself
        if cursor.is_anonymous() and directive == "enum":
            name = ""  # its values are names of the scope around it
        elif not name or is_left_out(cursor, comment):
            return None
        signature = signature_of(cursor, directive)
        # A specialisation is described by its template; a member that names our internals is not shown.
        named = INTERNALS.search(re.sub(r"^template ?<.*?> (?=\w)", "", signature))
        is_member = cursor.semantic_parent.kind not in (Kind.NAMESPACE, Kind.TRANSLATION_UNIT, Kind.LINKAGE_SPEC)
        if signature.startswith("template <>") or signature.endswith("= delete") or (named and is_member):
            return None
        name = re.sub(r"(?<=\w)<.*", "", name) if cursor.kind != Kind.CONVERSION_FUNCTION else name
        entry = Entry(directive, name, scope, signature, comment, header, cursor.location.line)
        if directive in CLASSES:
            inside = entry.full_name
            entry.members = [e for member in self.members(cursor) if (e := self.entry(member, inside))]
        if directive == "enum":
            entry.members = [
                e for child in cursor.get_children() if (e := self.entry(child, entry.full_name.rstrip(":")))
            ]
        share_comments(entry.members)
        return entry

    def members(self, cursor: Cursor) -> Iterator[Cursor]:
        """Public members, those of our internal bases first."""
        for child in cursor.get_children():
            if child.kind == Kind.CXX_BASE_SPECIFIER and child.access_specifier == AccessSpecifier.PUBLIC:
                found = re.search(r"(\w+) ?(?:<|$)", child.spelling)
                name = found[1] if found else ""
                if (base := self.internal.get(ALIASES.get(name, name))) is not None:
                    yield from (member for member in self.members(base) if member.kind != Kind.CONSTRUCTOR)
            elif child.access_specifier == AccessSpecifier.PUBLIC:
                yield child

    def find_internal(self, cursor: Cursor, inside: bool = False) -> None:
        """The classes of our internal namespaces by name, since a base's own cursor does not lead to its template."""
        for child in cursor.get_children():
            if child.kind == Kind.NAMESPACE and self.header_of(child):
                self.find_internal(child, inside or child.spelling in INTERNAL)
            elif inside and child.kind in (Kind.CLASS_TEMPLATE, Kind.CLASS_DECL) and child.is_definition():
                self.internal.setdefault(child.spelling, child)

    def walk(self, cursor: Cursor, scope: str) -> Iterator[Entry]:
        for child in cursor.get_children():
            if child.kind == Kind.NAMESPACE and child.spelling not in INTERNAL:
                if scope or child.spelling == "isthmus":
                    inner = scope if child.spelling.startswith("abi") else f"{scope}::{child.spelling}".lstrip(":")
                    yield from self.walk(child, inner)
            elif child.kind == Kind.LINKAGE_SPEC:
                yield from self.walk(child, scope)
            elif (scope or cursor.kind != Kind.NAMESPACE) and self.header_of(child):
                entry = self.entry(child, scope)
                if entry is not None and (scope or entry.header.startswith("isthmus/c/")):
                    yield entry


def share_comments(entries: list[Entry]) -> None:
    """An overload without a comment is told by the one before it that has one; constants, types and operators that
    follow each other line by line by the first of them."""
    told: dict[str, str] = {}
    for before, entry in zip([None, *entries], entries, strict=False):
        if not entry.comment and entry.name in told:
            entry.comment = told[entry.name]
        if not entry.comment and before is not None and before.header == entry.header:
            alike = before.directive == entry.directive and (
                entry.directive in ("var", "type")
                or entry.name.startswith("operator")
                or entry.name in ("begin", "end")
            )
            if alike and 0 <= entry.line - before.line <= 1:
                entry.comment = before.comment
        if entry.comment:
            told.setdefault(entry.name, entry.comment)


def read(headers: list[str], include: Path = ROOT / "include", language: str = "c++") -> list[Entry]:
    """The public names of the headers, in the order in which they are declared; a declaration that comes again is left
    out, and gives its comment where the first has none."""
    found: dict[tuple[str, str], Entry] = {}
    unit, reader = parse(headers, include, language), Reader(include)
    reader.find_internal(unit.cursor)
    for entry in reader.walk(unit.cursor, ""):
        unnamed = "" if entry.name else f"{entry.header}:{entry.line}"
        key = (entry.full_name + unnamed, re.sub(r" = [^,)]+", "", entry.signature).replace(" ", ""))
        first = found.setdefault(key, entry)
        if first is not entry and not first.comment:
            first.comment = entry.comment
    entries = list(found.values())
    share_comments(entries)
    return entries


def undocumented(entries: list[Entry]) -> list[str]:
    """A line for each public name without a comment."""
    return [
        f"include/{e.header}:{e.line}: {e.full_name} has no comment"
        for top in entries
        for e in top.all()
        if not e.comment
    ]
