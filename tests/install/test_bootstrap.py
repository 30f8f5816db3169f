"""tools/bootstrap.py on an interpreter without the GIL that some packages have no wheel for; pip is a stand-in."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import bootstrap

BUILD = "# The build.\nscikit-build-core>=0.11\n\napache-tvm-ffi>=0.1.15\n"


class Stand(bootstrap.Environment):
    """Writes down what pip is asked for; a wheel of another interpreter holds the header."""

    def __init__(self, path: Path, free_threaded: bool) -> None:
        super().__init__(path)
        self.free = free_threaded
        self.asked: list[tuple[str, ...]] = []

    def free_threaded(self) -> bool:
        return self.free

    def pip_install(self, *arguments: str | Path) -> bool:
        self.asked.append(tuple(map(str, arguments)))
        if "--target" in arguments:
            header = Path(arguments[arguments.index("--target") + 1], "tvm_ffi", "include", "dlpack", "dlpack.h")
            header.parent.mkdir(parents=True)
            header.write_text("the header")
        return True


def test_the_rest_is_installed_and_the_header_taken(tmp_path: Path) -> None:
    environment = Stand(tmp_path, free_threaded=True)
    assert bootstrap.install_without_some(environment, BUILD)
    rest, header = environment.asked
    assert rest[0] == "scikit-build-core>=0.11"
    assert not any("tvm" in word or word.startswith("#") for word in rest)
    assert header[-1] == "apache-tvm-ffi>=0.1.15"
    assert (tmp_path / "include" / "dlpack" / "dlpack.h").read_text() == "the header"


@pytest.mark.parametrize(("free_threaded", "text"), [(False, BUILD), (True, "numpy>=1.26\n")])
def test_anything_else_that_fails_has_failed(tmp_path: Path, free_threaded: bool, text: str) -> None:
    environment = Stand(tmp_path, free_threaded)
    assert not bootstrap.install_without_some(environment, text)
    assert not environment.asked
