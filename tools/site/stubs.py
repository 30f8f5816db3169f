"""Writes the Python reference, in Markdown, from the package's stub and sources, which are read and not imported."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Module:
    """A module as users see it, and the files below python/isthmus that define its names."""

    name: str
    title: str
    files: tuple[str, ...]


MODULES = (
    Module("isthmus", "isthmus",
           ("_isthmus.pyi", "blob.py", "tensor_file.py", "tensor_saving.py", "_live.py", "inline.py", "paths.py")),
    Module("isthmus.shared", "isthmus.shared", ("shared.py",)),
    Module("isthmus.distributed", "isthmus.distributed",
           ("distributed/__init__.py", "distributed/loader.py", "distributed/policies.py")),
    Module("isthmus.operators", "isthmus.operators", ("operators/__init__.py",)),
    Module("isthmus.typing", "isthmus.typing", ("typing.py",)),
    Module("isthmus.testing", "isthmus.testing", ("testing.py",)),
)  # fmt: skip


class Page:
    def __init__(self, package: Path, module: Module) -> None:
        self.package, self.module = package, module
        self.missing: list[str] = []
        self.lines: list[str] = []
        init = module.files[0] if module.name != "isthmus" else "__init__.py"
        self.public = exported(ast.parse((package / init).read_text()))

    def document(self, name: str, node: ast.AST, text: str | None) -> str:
        if not text:
            self.missing.append(
                f"python/isthmus: {self.module.name}.{name} (line {getattr(node, 'lineno', 0)}) has no docstring"
            )
        return as_markdown(text or "")

    def write(self) -> str:
        init = ast.parse((self.package / "__init__.py").read_text()) if self.module.name == "isthmus" else None
        about = init or ast.parse((self.package / self.module.files[0]).read_text())
        self.lines = [f"# {self.module.title}", "", f"```{{py:module}} {self.module.name}", "```", ""]
        self.lines += [as_markdown(ast.get_docstring(about) or ""), ""]
        found: set[str] = set()
        for file in self.module.files:
            source = (self.package / file).read_text()
            found |= self.write_body(ast.parse(source).body, source.splitlines(), "", 8)
        left_out = {name for name in self.public - found if not name.startswith("_")}
        # A module has a page of its own; `live` is described by its class.
        left_out -= {module.name.rpartition(".")[2] for module in MODULES}
        self.missing += [
            f"python/isthmus: {self.module.name}.{name} is in __all__ and in no file of its page" for name in left_out
        ]
        return "\n".join(self.lines)

    def write_body(self, body: list[ast.stmt], source: list[str], scope: str, depth: int) -> set[str]:
        found: set[str] = set()
        for node in (inner for outer in body for inner in (outer.body if isinstance(outer, ast.If) else [outer])):
            name = named(node)
            if name is None or name.startswith("_") or (not scope and name not in self.public and name != "Live"):
                continue
            first = name not in found
            found.add(name)
            if isinstance(node, ast.ClassDef):
                self.write_class(node, source, depth)
            elif isinstance(node, ast.FunctionDef):
                self.write_function(node, scope, depth, first)
            elif first:
                self.write_value(node, name, source, scope, depth)
        return found

    def directive(self, kind: str, signature: str, text: str, depth: int, options: tuple[str, ...] = ()) -> None:
        self.lines += [":" * depth + f"{{py:{kind}}} {signature}", *options, "", text, ":" * depth, ""]

    def write_class(self, node: ast.ClassDef, source: list[str], depth: int) -> None:
        exception = any("Error" in ast.unparse(base) or ast.unparse(base) == "Exception" for base in node.bases)
        text = self.document(node.name, node, ast.get_docstring(node))
        bases = ", ".join(ast.unparse(base) for base in node.bases)
        if bases and not any(word in bases for word in ("NamedTuple", "Protocol", "list", "Mapping")):
            text = f"Bases: {', '.join(f'`{ast.unparse(base)}`' for base in node.bases)}\n\n{text}"
        init = next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
        signature = node.name + (arguments(init, skip_self=True) if init else "")
        self.lines += [":" * depth + f"{{py:{'exception' if exception else 'class'}}} {signature}", "", text, ""]
        self.write_body(node.body, source, node.name, depth - 2)
        self.lines += [":" * depth, ""]

    def write_function(self, node: ast.FunctionDef, scope: str, depth: int, first: bool) -> None:
        decorators = {ast.unparse(d) for d in node.decorator_list}
        dotted = f"{scope}.{node.name}".lstrip(".")
        if not first:  # a further overload, which the first one describes
            return
        text = self.document(dotted, node, ast.get_docstring(node))
        if "property" in decorators:
            returns = (f":type: {ast.unparse(node.returns)}",) if node.returns else ()
            self.directive("property", node.name, text, depth, returns)
            return
        kind = "method" if scope else "function"
        options = (":classmethod:",) if "classmethod" in decorators else ()
        # Of overloads the last one takes what all of them take.
        returns = f" -> {ast.unparse(node.returns)}" if node.returns and "overload" not in decorators else ""
        signature = "framework, /, *, allow_read_only_loss=False, allow_copy=False" if dotted == "Tensor.to" else None
        shown = f"({signature})" if signature else arguments(node, skip_self=bool(scope))
        self.directive(kind, f"{node.name}{shown}{returns}", text, depth, options)

    def write_value(self, node: ast.stmt, name: str, source: list[str], scope: str, depth: int) -> None:
        """A field or a constant, which `#:` lines above it describe; a field may do without where its class says it
        all."""
        told, line = [], node.lineno - 2
        while line >= 0 and source[line].strip().startswith("#:"):
            told.insert(0, source[line].strip()[2:].strip())
            line -= 1
        kind = ast.unparse(node.annotation) if isinstance(node, ast.AnnAssign) else None
        options = (
            (f":type: {kind}",)
            if kind
            else (f":value: {ast.unparse(node.value)}",)
            if isinstance(node, ast.Assign)
            else ()
        )
        self.directive(
            "attribute" if scope else "data",
            name,
            self.document(f"{scope}.{name}", node, " ".join(told)),
            depth,
            options,
        )


def exported(tree: ast.Module) -> set[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return {name for node in tree.body if (name := named(node)) and not name.startswith("_")}


def named(node: ast.stmt) -> str | None:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return node.name
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return None


def arguments(node: ast.FunctionDef, skip_self: bool) -> str:
    shown = ast.unparse(node.args)
    if skip_self and node.args.args + node.args.posonlyargs:
        shown = shown.partition(", ")[2] if ", " in shown else ""
        shown = shown.removeprefix("/, ")
    return f"({shown})"


def as_markdown(text: str) -> str:
    """A docstring: its sessions in fences, the lines "name: what it is" as a list,
    names between single back-quotes as code."""
    lines: list[str] = []
    in_session = in_list = False
    for line in text.splitlines():
        session = line.startswith((">>> ", "... "))
        if session != in_session:
            lines += ["", "```pycon"] if session else ["```", ""]
        in_session = session
        item = not session and line[:1].isalpha() and line.partition(":")[0].replace("_", "").isalnum() and ": " in line
        if item and line.partition(":")[0].islower():
            name, _, rest = line.partition(": ")
            lines += [*([] if in_list else [""]), f"- `{name}`: {escape(rest)}"]
            in_list = True
            continue
        in_list = in_list and bool(line.strip())
        if in_list and not line.startswith(" "):
            lines.append("")
            in_list = False
        lines.append(line if session else ("  " if in_list else "") + escape(line.strip()))
    return "\n".join([*lines, *(["```"] if in_session else [])]).strip()


def escape(text: str) -> str:
    pieces = text.split("`")
    return "`".join(
        piece if i % 2 else piece.replace("*", "\\*").replace("<", "\\<").replace("_", "\\_")
        for i, piece in enumerate(pieces)
    )


def write_python(package: Path, folder: Path) -> tuple[list[str], list[str]]:
    """The pages of the Python reference: their names, and a line for each public name without a docstring."""
    folder.mkdir(parents=True)
    missing: list[str] = []
    for module in MODULES:
        page = Page(package, module)
        (folder / f"{module.name}.md").write_text(page.write())
        missing += page.missing
    return [module.name for module in MODULES], missing
