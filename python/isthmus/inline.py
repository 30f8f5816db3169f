"""`load_inline`: C++ in a string becomes a module, which is compiled once and kept."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from . import _isthmus
from .paths import get_cflags, get_ldflags

#: A string of C++, or a file.
Source = str | os.PathLike[str]
#: Names of functions; a mapping has the names of their parameters too.
Names = Sequence[str] | Mapping[str, Sequence[str]]

_NAME = re.compile(r"[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*")
_COMMENT_OR_TEXT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_RESULT = re.compile(r"(?:\w+::)*(?:Out|Stream)\b")

#: The modules that this process has loaded, by their files.
_loaded: dict[Path, ModuleType] = {}


def _flags(abi3: bool | None) -> tuple[list[str], list[str]]:
    """How a module is built: what the compiler and the linker are told. The one place that chooses."""
    if abi3 is None:
        abi3 = not sysconfig.get_config_var("Py_GIL_DISABLED")  # which has no stable ABI before 3.15
    if not abi3:
        return get_cflags(), get_ldflags()
    return get_cflags(abi3=True), ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []


def _compiler() -> list[str]:
    named = shlex.split(os.environ.get("CXX", ""))
    for command in [named] if named else [["c++"], ["g++"], ["clang++"]]:
        found = shutil.which(command[0])
        if found is not None:
            return [found, *command[1:]]
    raise RuntimeError(
        f"isthmus.load_inline: CXX is {os.environ['CXX']!r}, and there is no program {named[0]!r}"
        if named
        else "isthmus.load_inline: no C++ compiler was found (c++, g++, clang++): install one, or set CXX to one"
    )


@functools.cache
def _version_of(compiler: tuple[str, ...]) -> str:
    return subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=False).stdout


def _cache_folder(given: str | os.PathLike[str] | None) -> Path:
    named = given or os.environ.get("ISTHMUS_CACHE_DIR")
    if named:
        return Path(named).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(shared) if os.path.isabs(shared) else Path("~/.cache").expanduser()
    return home / "isthmus" / "inline"


def _read(source: Source | Sequence[Source]) -> list[tuple[str, Path | None]]:
    """The text of each source, and its file if it has one."""
    sources = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    read: list[tuple[str, Path | None]] = []
    for one in sources:
        if not isinstance(one, (str, os.PathLike)):
            raise TypeError(f"load_inline(): argument 'source': expected C++ text or a path, got {type(one).__name__}")
        if isinstance(one, os.PathLike):
            path = Path(one).absolute()
            read.append((path.read_text(encoding="utf-8"), path))
        elif re.fullmatch(r"[^\n;{}]*\.(?:cc|cpp|cxx|h|hpp)", one):
            raise ValueError(f"load_inline(): argument 'source': {one!r} is no C++; a file is named by a pathlib.Path")
        else:
            read.append((one, None))
    if not read:
        raise ValueError("load_inline(): argument 'source': expected C++ text or paths, got none")
    return read


def _parts(text: str, separator: str = ",") -> Iterator[str]:
    """What stands between the separators outside brackets."""
    depth = start = 0
    for at, character in enumerate(text):
        if character in "(<[{":
            depth += 1
        elif character in ")>]}":
            depth -= 1
        elif character == separator and depth == 0:
            yield text[start:at]
            start = at + 1
    yield text[start:]


def _closing(text: str, opening: int) -> int:
    """The place of the bracket that closes the one at `opening`, or -1."""
    depth = 0
    for at in range(opening, len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth == 0:
            return at
    return -1


def _parameters(function: str, code: str) -> list[str] | None:
    """The names of a function's parameters, from its definition; those that an operator writes are left out. None if
    the definition is not found, or one has no name: the compiler then counts them, and they are called arg0, ...."""
    name = re.escape(function.rpartition("::")[2])
    for found in re.finditer(rf"(?<=[\w>&*:])\s*\b{name}\s*\(", code):
        end = _closing(code, found.end() - 1)
        if end < 0 or not re.match(r"\s*(?:noexcept\s*)?\{", code[end + 1 :]):
            continue
        parts = [part.strip() for part in _parts(code[found.end() : end])]
        if parts in ([""], ["void"]):
            return []
        declared = [next(_parts(part, "=")).strip() for part in parts if not _RESULT.match(part)]
        names = [re.fullmatch(r".*[\s>&*]([A-Za-z_]\w*)", one, re.DOTALL) for one in declared]
        return [one[1] for one in names if one is not None] if all(names) else None
    return None


def _named(argument: str, names: Names, code: str) -> dict[str, list[str] | None]:
    if isinstance(names, str):
        raise TypeError(f"load_inline(): argument '{argument}': expected names, got the string {names!r}: [{names!r}]")
    for name in names:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"load_inline(): argument '{argument}': {name!r} is not the name of a C++ function")
    if isinstance(names, Mapping):
        return {name: list(parameters) for name, parameters in names.items()}
    return {name: _parameters(name, code) for name in names}


def _quoted(names: Sequence[str]) -> str:
    return "{" + ", ".join(json.dumps(name, ensure_ascii=False) for name in names) + "}"


def _glue(module: str, includes: Sequence[str], functions: Names, operators: Names, body: str, code: str) -> str:
    """The file that is compiled: it includes the sources, and has the module."""
    lines = ["#include <isthmus/module.h>", "#include <string>", "#include <tuple>", "#include <vector>"]
    lines += ["#include <isthmus/op.h>"] if operators else []
    lines += [f'#include "{name}"' for name in includes]
    lines += [f"ISTHMUS_MODULE({module}, module) {{"]
    for name, parameters in _named("functions", functions, code).items():
        given = f", {_quoted(parameters)}" if parameters else ""
        lines += [f'    isthmus::def<{name}>(module, "{name.rpartition("::")[2]}"{given});']
    for name, parameters in _named("operators", operators, code).items():
        if "::" not in name:
            raise ValueError(
                f"load_inline(): argument 'operators': expected \"namespace::function\", got {name!r}: "
                "frameworks know an operator by both"
            )
        if not parameters:
            raise ValueError(
                f"load_inline(): argument 'operators': the inputs of {name!r} have no names that can be read from the "
                f"source; say them: {{{name!r}: ['x', ...]}}"
            )
        function = name.rpartition("::")[2]
        lines += [f'    if (!isthmus::op<"{name}", {function}>(module, {_quoted(parameters)})) return;']
    return "\n".join([*lines, *body.splitlines(), "}", ""])


def _inputs(depfile: Path, folder: Path) -> dict[str, list[int]]:
    """The files that the compiler has read, but for the system's and for those of this build."""
    text = depfile.read_text().replace("\\\n", " ").partition(": ")[2]
    names = [re.sub(r"\\([ #])|\$(\$)", r"\1\2", name) for name in re.findall(r"(?:\\.|[^\s\\])+", text)]
    files = {str(Path(name).absolute()) for name in names}
    return {name: _stamp(name) for name in sorted(files) if not Path(name).is_relative_to(folder)}


def _stamp(name: str) -> list[int]:
    try:
        status = os.stat(name)
    except OSError:
        return []
    return [status.st_mtime_ns, status.st_size]


def _kept(record: Path) -> Path | None:
    """The module that an earlier build has left, if what it included is as it was."""
    try:
        kept = json.loads(record.read_text())
        file = record.parent / str(kept["file"])
        fresh = all(_stamp(name) == stamp for name, stamp in kept["inputs"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return file if fresh and file.is_file() else None


def _build(
    command: list[str], linking: list[str], glue: str, texts: Mapping[str, str], record: Path, verbose: bool
) -> Path:
    with tempfile.TemporaryDirectory(prefix="building-", dir=record.parent) as made:
        folder = Path(made)
        for name, text in {**texts, "module.cpp": glue}.items():
            (folder / name).write_text(text, encoding="utf-8")
        output, depfile = folder / "module.so", folder / "module.d"
        line = [*command, "-MMD", "-MF", str(depfile), "-shared", str(folder / "module.cpp"), "-o", str(output)]
        line += linking
        if verbose:
            print(shlex.join(line), file=sys.stderr)
        done = subprocess.run(line, capture_output=True, text=True, errors="replace", check=False)
        said = (done.stderr + done.stdout).replace(f"{folder}/", "")
        if done.returncode != 0:
            raise RuntimeError(f"isthmus.load_inline: {command[0]} could not compile the source:\n{said}")
        if verbose and said:
            print(said, file=sys.stderr)
        # What is loaded by another process stays as it is: a file is complete when it gets its name, and the record,
        # which names it, is the last.
        inputs = _inputs(depfile, folder)
        stamp = hashlib.sha256(output.read_bytes()).hexdigest()[:16]
        file = record.with_name(f"{record.stem}-{stamp}.so")
        os.replace(output, file)
        (folder / record.name).write_text(json.dumps({"file": file.name, "inputs": inputs}))
        os.replace(folder / record.name, record)
        return file


def load_inline(
    source: Source | Sequence[Source],
    functions: Names = (),
    *,
    operators: Names = (),
    body: str = "",
    name: str | None = None,
    cflags: Sequence[str] = (),
    ldflags: Sequence[str] = (),
    abi3: bool | None = None,
    cache: str | os.PathLike[str] | None = None,
    verbose: bool = False,
) -> ModuleType:
    """A module made of C++: of a string, a `pathlib.Path`, or a list of both, which are one translation unit in their
    order. ``<isthmus/module.h>`` is included before them.

    >>> m = isthmus.load_inline('''
    ... void twice(isthmus::View<float, 1> x) {
    ...     for (float& v : x) v *= 2;
    ... }''', functions=["twice"])
    >>> m.twice(x)

    `functions` are the C++ functions that the module has, as ``isthmus::def`` binds them; their parameters are called
    as in the source. `operators` are made of functions by ``isthmus::op``: ``["geo::distance"]`` of ``distance``. A
    mapping says the names of the parameters: ``{"twice": ["x"]}``. `body` is C++ for the body of the module, where
    ``module`` is its PyObject*: ``isthmus::op<"geo::distance", distance>(module, {"a", "b"}).gradient<backward>();``
    needs ``#include <isthmus/op.h>`` in the source. `name` is what the module is called.

    With ``abi3=False`` the module links Isthmus's compiled library, which a source needs that includes ``tree.h``,
    ``load.h`` or ``shared.h``; else it is one of the stable ABI, where this Python has that.

    The compiler is that of the environment variable ``CXX``, else c++, g++ or clang++, at -O2; `cflags` and `ldflags`
    come after Isthmus's own, and `verbose` prints the command. What it has built is kept in the folder `cache`, or that
    of the environment variable ``ISTHMUS_CACHE_DIR``, or ``isthmus/inline`` in ``$XDG_CACHE_HOME`` or
    ``~/.cache``. It is found again for the same sources, included files, flags, compiler and version of Isthmus, and
    processes may build the same at once. Raises RuntimeError with the compiler's errors.
    """
    sources = _read(source)
    code = _COMMENT_OR_TEXT.sub(" ", "\n".join(text for text, _ in sources))
    texts, includes = {}, []
    for place, (text, path) in enumerate(sources):
        if path is None:
            called = "source.cpp" if len(sources) == 1 else f"source{place}.cpp"
            texts[called] = text if text.endswith("\n") else text + "\n"
            includes.append(called)
        else:
            includes.append(str(path))
    if name is not None and not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise ValueError(f"load_inline(): argument 'name': {name!r} is not the name of a module")
    if not functions and not operators and not body.strip():
        raise ValueError(
            "load_inline(): expected names in 'functions' or 'operators', or a 'body': the module is empty"
        )

    module = name or "inline_" + hashlib.sha256(code.encode()).hexdigest()[:8]
    glue = _glue(module, includes, functions, operators, body, code)
    compiler = _compiler()
    own_cflags, own_ldflags = _flags(abi3)
    command = [*compiler, "-O2", *own_cflags, *cflags]
    linking = [*own_ldflags, *ldflags]
    key = hashlib.sha256()
    known = [*command, "\0", *linking, "\0", glue, *(text for text, _ in sources)]
    for part in [_isthmus.__version__, sys.implementation.cache_tag or "", _version_of(tuple(compiler)), *known]:
        key.update(hashlib.sha256(part.encode("utf-8", "surrogateescape")).digest())

    folder = _cache_folder(cache)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    record = folder / f"{module}-{key.hexdigest()[:24]}.json"
    file = _kept(record) or _build(command, linking, glue, texts, record, verbose)
    if file not in _loaded:
        spec = spec_from_file_location(module, file, loader=ExtensionFileLoader(module, str(file)))
        assert spec is not None
        assert spec.loader is not None
        made = module_from_spec(spec)
        spec.loader.exec_module(made)
        _loaded.setdefault(file, made)
    return _loaded[file]
