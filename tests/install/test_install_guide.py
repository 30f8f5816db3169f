"""Every build of docs/install.md as it stands there: its files are written and its commands run in an empty folder."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from compiling import CXX
from readmes import shell as run

isthmus = pytest.importorskip("isthmus")

REPOSITORY = Path(__file__).resolve().parents[2]
GUIDE = (REPOSITORY / "docs" / "install.md").read_text()
SCRIPTS = Path(sys.executable).parent
#: What is downloaded into another project's tree.
SOURCES = ("CMakeLists.txt", "cmake", "include", "src")
#: The host in the guide, in whose place git takes a local folder.
ADDRESS = "https://example.org/isthmus.git"
ONE_FILE = "One file for every Python"

USE = """
import numpy as np, mine
x = np.zeros(3, np.float32)
assert mine.poke(x) is x
assert x[0] == 42
"""


def section(title: str) -> str:
    """The text below a heading, without that below the headings of its own."""
    found = re.search(rf"(?ms)^#+ {re.escape(title)}\n(.*?)(?=^#+ |\Z)", GUIDE)
    assert found, f"docs/install.md has no section {title!r}"
    return found[1]


def blocks(title: str, language: str) -> list[str]:
    found = re.findall(rf"(?ms)^```{language}\n(.*?)^```$", section(title))
    assert found, f"{title!r} in docs/install.md has no {language} block"
    return found


def use(folder: Path) -> None:
    pytest.importorskip("numpy")
    run(f'"{sys.executable}" -c "$USE"', folder, USE=USE)


def use_wheel(folder: Path) -> None:
    """The wheel holds the module and nothing else."""
    (wheel,) = folder.glob("mine-1.0-*.whl")
    files = [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]
    assert len(files) == 1, files
    assert re.fullmatch(r"mine\.\S+\.so", files[0])
    zipfile.ZipFile(wheel).extract(files[0], folder / "site")
    use(folder / "site")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with mine.cpp over the bare CPython API."""
    source = (REPOSITORY / "tests" / "install" / "consumer" / "module.cpp").read_text()
    (tmp_path / "mine.cpp").write_text(source.replace("PyInit_consumer", "PyInit_mine").replace('"consumer"', '"mine"'))
    return tmp_path


needs_cmake = pytest.mark.skipif(not shutil.which("cmake"), reason="cmake is not installed")
needs_git = pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")


def needs(module: str) -> Callable[..., object]:
    return pytest.mark.skipif(not (SCRIPTS / module).exists(), reason=f"{module} is not installed beside this Python")


@needs_cmake
def test_cmake(project: Path) -> None:
    (project / "CMakeLists.txt").write_text(blocks("CMake", "cmake")[0])
    run(blocks("CMake", "sh")[0], project)
    use(project / "build")


def in_place_of_find_package(build: str, fragment: str) -> str:
    text, count = re.subn(r"(?m)^find_package\(isthmus .*$", lambda _: fragment, build)
    assert count == 1
    return text


@needs_cmake
def test_add_subdirectory(project: Path) -> None:
    (project / "isthmus").mkdir()
    for name in SOURCES:
        (project / "isthmus" / name).symlink_to(REPOSITORY / name)
    fragment = blocks("Isthmus in your own tree", "cmake")[0]
    (project / "CMakeLists.txt").write_text(in_place_of_find_package(blocks("CMake", "cmake")[0], fragment))
    configure = blocks("CMake", "sh")[0].splitlines()[0]
    run(f"{configure} -DISTHMUS_DLPACK_INCLUDE_DIR={isthmus.get_include()}", project)
    targets = run("cmake --build build --target help", project)
    assert re.search(r"\bmine\b", targets)
    assert not re.search(r"\bisthmus_(?:module|c|test_ext|core_tests)\b", targets)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources in a git repository with a tag of this version, after which came a commit that does not configure."""
    folder = tmp_path_factory.mktemp("repository")
    for name in SOURCES:
        source = REPOSITORY / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
    git = "git -c user.name=test -c user.email=test -c commit.gpgsign=false"
    run(f"git init -q && git add . && {git} commit -qm release && {git} tag v{isthmus.__version__}", folder)
    (folder / "CMakeLists.txt").write_text('message(FATAL_ERROR "the newest commit, not the one that is pinned")\n')
    run(f"{git} commit -qam later", folder)
    return folder


@pytest.fixture
def nanobind_project(tmp_path: Path) -> Path:
    pytest.importorskip("nanobind")
    pytest.importorskip("scikit_build_core")
    title = "scikit-build-core and nanobind"
    for name, language in (("pyproject.toml", "toml"), ("CMakeLists.txt", "cmake"), ("mine.cpp", "cpp")):
        (tmp_path / name).write_text(blocks(title, language)[0])
    return tmp_path


@pytest.mark.slow
@needs_cmake
def test_scikit_build_core(nanobind_project: Path) -> None:
    run(blocks("scikit-build-core and nanobind", "sh")[0], nanobind_project)
    use_wheel(nanobind_project)


@pytest.mark.slow
@needs_cmake
@needs_git
def test_fetch_content_in_scikit_build_core(nanobind_project: Path, repository: Path) -> None:
    """The pinned tag is taken, and neither Isthmus's module nor anything else of it is built or installed."""
    file = nanobind_project / "CMakeLists.txt"
    fragment = blocks("Isthmus in your own tree", "cmake")[1]
    assert ADDRESS in fragment
    file.write_text(in_place_of_find_package(file.read_text(), fragment))
    rewrite = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{repository}.insteadOf",
        "GIT_CONFIG_VALUE_0": ADDRESS,
    }
    dlpack = f"-DISTHMUS_DLPACK_INCLUDE_DIR={isthmus.get_include()}"
    run("pip wheel .", nanobind_project, CMAKE_ARGS=dlpack, SKBUILD_BUILD_DIR="build", **rewrite)
    targets = run("cmake --build build --target help", nanobind_project)
    assert re.search(r"\bmine\b", targets)
    assert not re.search(r"\bisthmus_(?:module|c|test_ext|core_tests)\b", targets)
    use_wheel(nanobind_project)


def test_the_compiler_alone(project: Path) -> None:
    run(f'g++() {{ command g++ "$@" -O0; }}; {blocks("The compiler alone, and pkg-config", "sh")[0]}', project)
    use(project)


def test_the_compiler_alone_of_one_file() -> None:
    """The README's line, which test_readme.py runs."""
    readme = (REPOSITORY / "README.md").read_text()
    assert blocks(ONE_FILE, "sh")[0].replace("mine", "first") in readme


@pytest.mark.skipif(not shutil.which("pkg-config"), reason="no pkg-config on this machine")
def test_pkg_config(tmp_path: Path) -> None:
    folder, release, library, *_ = run(blocks("The compiler alone, and pkg-config", "sh")[1], tmp_path).split()
    assert Path(folder.removeprefix("-I")).resolve() == Path(isthmus.get_include()).resolve()
    assert release in isthmus.get_cflags()
    assert Path(library).resolve() == Path(isthmus.get_library()).resolve()


@pytest.mark.slow
def test_header_only(project: Path) -> None:
    source = blocks("Header-only", "cpp")[0]
    (project / "mine.cpp").write_text(
        (project / "mine.cpp").read_text().replace("#include <isthmus/python.h>\n", source)
    )
    run(f'g++() {{ command g++ "$@" -O0; }}; {blocks("Header-only", "sh")[0]}', project)
    use(project)


def test_setuptools(project: Path) -> None:
    pytest.importorskip("setuptools")
    (project / "setup.py").write_text(blocks("setuptools", "python")[0])
    (project / "pyproject.toml").write_text(blocks("setuptools", "toml")[0])
    run("pip wheel .", project)
    use_wheel(project)


@pytest.mark.slow
@needs("meson")
@pytest.mark.skipif(not shutil.which("ninja"), reason="ninja is not installed")
def test_meson(project: Path) -> None:
    (project / "meson.build").write_text(blocks("meson", "meson")[0])
    run(blocks("meson", "sh")[0], project)
    use(project / "build")


CMAKE, NANOBIND, PYBIND11, PRIVATE = blocks(ONE_FILE, "cmake")


def wheel_of(folder: Path, tag: str = "cp310-abi3") -> Path:
    """What the wheel in the folder holds, which is for every Python, unpacked."""
    (wheel,) = folder.glob("mine-1.0-*.whl")
    assert f"-{tag}-" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    modules = sorted(path.name for path in (folder / "site").rglob("*.so"))
    assert modules == ["mine.abi3.so"]
    return folder / "site"


def without_bridge(folder: Path) -> None:
    """The module is small, and every symbol that it wants of ours comes from nowhere: it has a table."""
    module = folder / "mine.abi3.so"
    assert module.stat().st_size < 100_000
    symbols = subprocess.run(["nm", "-D", "--undefined-only", module], capture_output=True, text=True, check=True)
    assert "isthmus" not in symbols.stdout


@pytest.mark.slow
@needs_cmake
def test_scikit_build_core_of_one_file(project: Path) -> None:
    pytest.importorskip("scikit_build_core")
    (project / "CMakeLists.txt").write_text(CMAKE)
    (project / "pyproject.toml").write_text(blocks(ONE_FILE, "toml")[0])
    run("pip wheel --no-deps .", project)
    folder = wheel_of(project)
    without_bridge(folder)
    use(folder)


@pytest.mark.slow
@needs_cmake
def test_nanobind_in_split_mode(tmp_path: Path) -> None:
    nanobind = pytest.importorskip("nanobind")
    pytest.importorskip("nanobind_backend")
    pytest.importorskip("scikit_build_core")
    if tuple(map(int, nanobind.__version__.split(".")[:1])) < (3,):
        pytest.skip("nanobind before 3.0 has no split mode")
    lines = [line for line in CMAKE.splitlines() if "Python_add_library" not in line and "SUFFIX" not in line]
    kept = "\n".join(line for line in lines if not line.startswith(("target_link_libraries", "install")))
    (tmp_path / "CMakeLists.txt").write_text(f"{kept}\n{NANOBIND}\n{lines[-1]}\n")
    (tmp_path / "pyproject.toml").write_text(
        blocks(ONE_FILE, "toml")[0].replace('"isthmus==', '"nanobind>=3", "isthmus==')
    )
    (tmp_path / "mine.cpp").write_text(blocks("scikit-build-core and nanobind", "cpp")[0])
    run("pip wheel --no-deps .", tmp_path)
    use(wheel_of(tmp_path))


@pytest.mark.slow
@needs_cmake
def test_pybind11_over_the_backend(tmp_path: Path) -> None:
    pybind11 = pytest.importorskip("pybind11")
    start = CMAKE[: CMAKE.index("Python_add_library")]
    (tmp_path / "CMakeLists.txt").write_text(start + PYBIND11)
    source = blocks("scikit-build-core and nanobind", "cpp")[0]
    for there, here in (
        ("isthmus/nanobind.h", "isthmus/pybind11.h"),
        ("NB_MODULE", "PYBIND11_MODULE"),
        ("nanobind::borrow(", "pybind11::reinterpret_borrow<pybind11::object>("),
    ):
        source = source.replace(there, here)
    (tmp_path / "mine.cpp").write_text(source)
    configure = blocks("CMake", "sh")[0].splitlines()
    run("\n".join(configure).replace(" -B", f" -Dpybind11_DIR={pybind11.get_cmake_dir()} -B"), tmp_path)
    use(tmp_path / "build")
    (module,) = (tmp_path / "build").glob("mine.*.so")
    assert module.stat().st_size < 250_000  # with a bridge 350


def test_setuptools_of_one_file(project: Path) -> None:
    pytest.importorskip("setuptools")
    (project / "setup.py").write_text(blocks(ONE_FILE, "python")[0])
    (project / "pyproject.toml").write_text(blocks("setuptools", "toml")[0])
    run("pip wheel --no-deps .", project)
    use(wheel_of(project))


@pytest.mark.slow
@needs("meson")
@pytest.mark.skipif(not shutil.which("ninja"), reason="ninja is not installed")
def test_meson_of_one_file(project: Path) -> None:
    (project / "meson.build").write_text(blocks(ONE_FILE, "meson")[0])
    run(blocks("meson", "sh")[0], project)
    without_bridge(project / "build")
    use(project / "build")


@pytest.mark.skipif(not shutil.which("pkg-config"), reason="no pkg-config on this machine")
def test_pkg_config_of_one_file(project: Path) -> None:
    folder = Path(isthmus.get_include()).parent / "lib" / "pkgconfig"
    flags = run("pkg-config --cflags --libs isthmus-abi3", project, PKG_CONFIG_PATH=str(folder))
    python = isthmus.get_includes()[-1]
    run(
        f"{CXX} -std=c++20 -fPIC -fvisibility=hidden -I{python} {flags.strip()} -shared mine.cpp -o mine.abi3.so",
        project,
    )
    use(project)


@needs_cmake
def test_the_limited_api_is_asked_for_before_python_is_read(tmp_path: Path) -> None:
    source = tmp_path / "late.cpp"
    source.write_text("#include <Python.h>\n#include <isthmus/python.h>\n")
    done = subprocess.run(
        [CXX, *isthmus.get_cflags(abi3=True), "-fsyntax-only", source], capture_output=True, text=True, check=False
    )
    errors = [line for line in done.stderr.splitlines() if "error" in line]
    assert "isthmus::abi3: Python.h came before: include Isthmus first" in errors[0]


@pytest.mark.slow
@needs_cmake
def test_a_project_carries_its_backend(project: Path) -> None:
    """Beside the package's, in one process: the module takes the tensor of the package, which keeps its class."""
    text, count = re.subn(r"target_link_libraries\(.*\)\ninstall\(.*\)\n", PRIVATE, CMAKE)
    assert count == 1
    (project / "CMakeLists.txt").write_text(text)
    configure = blocks("CMake", "sh")[0].splitlines()
    run("\n".join([*configure, f'cmake --install build --prefix "{project}/site"']), project)
    (project / "site" / "mine" / "__init__.py").write_text("from .mine import *\n")
    # Without the package: the module finds the backend beside it.
    alone = "import sys; sys.modules['isthmus'] = None\n" + USE
    run(f'"{sys.executable}" -c "$USE"', project / "site", USE=alone)
    both = (
        USE
        + "import isthmus\nt = isthmus.empty((3,), 'float32')\nassert mine.poke(t) is t and t.to('numpy')[0] == 42\n"
    )
    run(f'"{sys.executable}" -c "$USE"', project / "site", USE=both)
