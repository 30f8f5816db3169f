"""The programs of docs/shared.md run as they stand there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import compiling
import pytest

isthmus = pytest.importorskip("isthmus")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memfd")

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "shared.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```$", GUIDE)


OUTPUTS = ["7\n", "".join(f"[{i}. {i}. {i}. {i}.]\n" for i in range(3)), "first (3, 4)\n"]


@pytest.mark.parametrize(("number", "output"), list(enumerate(OUTPUTS)))
def test_python(number: int, output: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(blocks("python")[number])
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, output), done.stderr


def test_the_library_holds_all_that_shared_memory_calls(tmp_path: Path) -> None:
    uses = tmp_path / "shared.cpp"
    uses.write_text(
        "#include <isthmus/shared.h>\n\nauto use(const isthmus::Tensor& t) { return isthmus::shared::share(t); }\n"
    )
    command = [compiling.CXX, *isthmus.get_cflags(), "-c", uses]
    wanted = symbols(compiling.compiled("part.o", command) / "part.o", "--undefined-only")
    assert any("copy_elements" in name or "share" in name for name in wanted)
    assert wanted <= symbols(Path(isthmus.get_library()), "--defined-only")


def symbols(file: Path, which: str) -> set[str]:
    listed = subprocess.run(["nm", which, "--format=just-symbols", file], capture_output=True, text=True, check=True)
    return {name for name in listed.stdout.split() if "isthmus" in name}


def test_cpp(tmp_path: Path) -> None:
    (tmp_path / "program.cpp").write_text(blocks("cpp")[0])
    flags = [*isthmus.get_cflags(), "-Wall", "-Wextra", "-Werror"]
    command = ["c++", *flags, "program.cpp", *isthmus.get_ldflags(), "-o", "program"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=300)
    done = subprocess.run([tmp_path / "program"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "7\n"), done.stderr
