"""Programs of <isthmus/shared.h> and <isthmus/load.h> without Python: over the core as a library, and header-only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import compiling
import pytest

isthmus = pytest.importorskip("isthmus")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memfd")

#: Header -> a file that calls all of its functions.
USES = {
    "shared.h": """#include <isthmus/shared.h>
#include <sys/socket.h>
#include <vector>
bool use() {
    using namespace isthmus::shared;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) return false;
    Pool pool, moved(std::move(pool));
    const auto made = moved.empty({2}, isthmus::float32).value();
    const auto copy = share(isthmus::Tensor::own(std::vector<float>{1, 2})).value();
    const auto segment = Segment::create(1).value();
    if (segment.descriptor() < 0 || segment.allows_writers() || !segment.tensor({1}, isthmus::uint8)) return false;
    moved.trim();
    if (!is_shared(copy) || !is_shared(empty({1}, isthmus::uint8).value()) || moved.stats().segments != 1) return false;
    if (!send(ends[0], copy, Access::read_only)) return false;
    const auto received = receive(ends[1]).value();
    return received.view<const float, 1>().value()(1) == 2;
}
""",
    "load.h": """#include <isthmus/load.h>
#include <cstdio>
bool use() {
    const auto none = isthmus::load("none.safetensors");
    std::FILE* file = std::fopen("empty.safetensors", "wb");
    std::fwrite("\\2\\0\\0\\0\\0\\0\\0\\0{}", 1, 10, file);
    std::fclose(file);
    const isthmus::TensorFile found = isthmus::load(std::string("empty.safetensors")).value();
    return !none && found.size() == 0 && found.metadata().empty() && !found.contains("x") && !found.at("x") &&
           !found.copy("x");
}
""",
}
MAIN = "bool use();\nint main() { return use() ? 0 : 1; }\n"


def flags() -> list[str]:
    return [
        compiling.CXX,
        "-std=c++20",
        "-O0",
        "-Wall",
        "-Wextra",
        "-Werror",
        *(f"-I{path}" for path in isthmus.get_includes()),
    ]


def link_and_run(folder: Path, *files: str | Path) -> None:
    done = subprocess.run(
        [*flags(), *map(str, files), "-o", "program"], cwd=folder, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert subprocess.run([folder / "program"], cwd=folder, timeout=60, check=False).returncode == 0


@pytest.mark.parametrize("header", USES)
def test_the_core_is_a_library(header: str, tmp_path: Path) -> None:
    """The units of isthmus::core (cmake/isthmusLibraries.cmake)."""
    source = Path(isthmus.get_include(), "isthmus", "src")
    units = ["core", "shared", "load"]
    objects = [
        compiling.compiled("unit.o", [*flags(), "-c", source / f"{unit}.cpp"], source) / "unit.o" for unit in units
    ]
    (tmp_path / "use.cpp").write_text(USES[header])
    (tmp_path / "main.cpp").write_text(MAIN)
    link_and_run(tmp_path, "use.cpp", "main.cpp", *objects)


@pytest.mark.slow
@pytest.mark.parametrize("header", USES)
def test_one_file_has_the_implementation(header: str, tmp_path: Path) -> None:
    (tmp_path / "use.cpp").write_text(USES[header])
    (tmp_path / "main.cpp").write_text(f"#define ISTHMUS_IMPLEMENTATION\n#include <isthmus/{header}>\n{MAIN}")
    link_and_run(tmp_path, "use.cpp", "main.cpp")


@pytest.mark.slow
def test_one_file_has_all_implementations(tmp_path: Path) -> None:
    includes = "".join(f"#include <isthmus/{header}>\n" for header in USES)
    (tmp_path / "main.cpp").write_text(f"#define ISTHMUS_IMPLEMENTATION\n{includes}{MAIN}")
    for use in USES.values():
        (tmp_path / "use.cpp").write_text(use)
        link_and_run(tmp_path, "use.cpp", "main.cpp")
