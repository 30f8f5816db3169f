"""The README's first program is compiled by its own command, and its session gives the output that it shows."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()


def block(language: str) -> str:
    """The first block of a language."""
    found = re.search(rf"(?ms)^```{language}\n(.*?)^```$", README)
    assert found, f"README.md has no {language} block"
    return found[1]


class AnyAddress(doctest.OutputChecker):
    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return super().check_output(*(re.sub(r"0x[0-9a-f]+", "0x0", text) for text in (want, got)), optionflags)


def test_the_first_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    (tmp_path / "first.cpp").write_text(block("cpp"))
    # "python" in the command is this one, and nothing is optimised, which takes half the time.
    command = f'python() {{ "{sys.executable}" "$@"; }}; g++() {{ command g++ "$@" -O0; }}; {block("sh")}'
    subprocess.run(["bash", "-euc", command], cwd=tmp_path, check=True)

    monkeypatch.syspath_prepend(tmp_path)
    session = doctest.DocTestParser().get_doctest(block("pycon"), {}, "README.md", "README.md", 0)
    shown: list[str] = []
    results = doctest.DocTestRunner(AnyAddress()).run(session, out=shown.append)
    assert results.attempted
    assert not results.failed, "".join(shown)
