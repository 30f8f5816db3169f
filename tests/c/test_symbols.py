"""What libisthmus shows to the outside: the functions of its headers, versioned, and nothing else."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import isthmus

HEADERS = sorted((Path(__file__).resolve().parents[2] / "include" / "isthmus" / "c").glob("*.h"))


def declared() -> set[str]:
    text = "\n".join(header.read_text() for header in HEADERS)
    text = re.sub(r"/\*.*?\*/|^#.*?$", "", text, flags=re.DOTALL | re.MULTILINE)
    return set(re.findall(r"ISTHMUS_C_API[^;(]*\b(isthmus_\w+)\(", text))


def nm(library: Path, *flags: str) -> list[str]:
    done = subprocess.run(["nm", "-D", *flags, str(library)], capture_output=True, text=True, check=True)
    return [line.split()[-1] for line in done.stdout.splitlines() if line.strip()]


def test_exports_are_the_headers_and_nothing_else(libisthmus: Path, needs) -> None:
    needs("nm")
    names = declared()
    assert len(names) > 15
    assert {"isthmus_empty", "isthmus_version", "isthmus_last_error", "isthmus_to_blob", "isthmus_shared_send"} <= names
    exported = set(nm(libisthmus, "--defined-only")) - {"ISTHMUS_1"}
    assert exported == {f"{name}@@ISTHMUS_1" for name in names}


def test_needs_no_python_and_no_framework(libisthmus: Path, needs) -> None:
    needs("nm")
    wanted = nm(libisthmus, "--undefined-only")
    assert wanted
    assert [name for name in wanted if re.match(r"_?Py|_ZN2at|_ZN3c10|isthmus", name)] == []


def test_one_name_in_a_prefix_and_in_the_wheel(libisthmus: Path, needs) -> None:
    """A process that loads both by their names has one library."""
    needs("readelf")
    wheel = Path(isthmus.__file__).parent / "lib" / "libisthmus.so"
    for library in {libisthmus, wheel}:
        said = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
        assert re.findall(r"\(SONAME\).*\[(.*)\]", said) == ["libisthmus.so"]
