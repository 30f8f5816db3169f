"""The steps of docs/publishing.md that need no index and no container, on the project that it names."""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
from pathlib import Path

import pytest
from readmes import PATH, shell

isthmus = pytest.importorskip("isthmus")

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "publishing.md").read_text()
COMMANDS, TOML, YAML = (
    re.findall(rf"(?ms)^```{language}\n(.*?)^```$", GUIDE) for language in ("sh", "toml", "yaml")
)  # fmt: skip

pytestmark = pytest.mark.skipif("ISTHMUS_SANITIZER" in os.environ, reason="the module is not instrumented")


def line(word: str) -> str:
    """The command of the guide that begins so."""
    (found,) = [text for block in COMMANDS for text in block.splitlines() if text.startswith(word)]
    return found


def needs(program: str) -> None:
    if shutil.which(program, path=PATH) is None:
        pytest.skip(f"{program} is not installed")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """examples/one_wheel with the guide's section of cibuildwheel, and its wheel in dist/."""
    for package in ("nanobind", "nanobind_backend", "scikit_build_core"):
        pytest.importorskip(package)
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        pytest.skip("no stable ABI without the GIL before 3.15")
    needs("cmake")
    folder = tmp_path_factory.mktemp("publishing") / "segments"
    shutil.copytree(ROOT / "examples/one_wheel", folder)
    with (folder / "pyproject.toml").open("a") as file:
        file.write("\n" + TOML[0])
    shell(COMMANDS[0], folder)
    return folder


def test_the_wheel_of_this_machine(project: Path) -> None:
    assert [path.name.split("-")[:4] for path in (project / "dist").iterdir()] == [["segments", "1.0", "cp310", "abi3"]]


def test_the_wheel_for_other_machines(project: Path) -> None:
    needs("auditwheel")
    assert "manylinux" in shell(line("auditwheel show"), project)
    shell(line("auditwheel repair"), project)
    (named,) = (project / "wheelhouse").iterdir()
    assert re.fullmatch(r"segments-1\.0-cp310-abi3-manylinux_2_\d+_\w+\.whl", named.name)


def test_one_file_uses_the_stable_abi_alone(project: Path) -> None:
    needs("abi3audit")
    shell(line("abi3audit").replace("wheelhouse", "dist"), project)


def test_cibuildwheel_builds_one_file_for_each_platform(project: Path) -> None:
    needs("cibuildwheel")
    command = line("cibuildwheel").replace("--output-dir wheelhouse", "--archs x86_64 --print-build-identifiers")
    assert set(shell(command, project).split()) == {"cp310-manylinux_x86_64", "cp310-musllinux_x86_64"}


def test_a_fresh_environment_says_what_is_missing(project: Path, tmp_path: Path) -> None:
    """The wheel is installed as a user does it, from a folder, without what it depends on."""
    make, install, use = COMMANDS[5].splitlines()
    shell(make.replace("python", f'"{sys.executable}"', 1), tmp_path)
    shell(
        install.replace("--find-links wheelhouse", f"--no-index --find-links {project / 'dist'}"),
        tmp_path,
        PYTHONPATH="",
    )
    said = shell(f"! {use} 2>&1", tmp_path, PYTHONPATH="")
    assert re.search(r"(?m)^(?:ImportError|ModuleNotFoundError): .*(?:isthmus|nanobind)", said), said


def test_rattler_build_reads_the_recipe(tmp_path: Path) -> None:
    rattler_build = pytest.importorskip("rattler_build", reason="py-rattler-build: make test-packaging")
    (tmp_path / "recipe.yaml").write_text(YAML[0])
    recipe = rattler_build.Stage0Recipe.from_file(str(tmp_path / "recipe.yaml"))
    pins = {"c_stdlib": ["sysroot"], "c_stdlib_version": ["2.28"], "python": ["3.11.* *_cpython"]}
    (found,) = [variant.recipe.to_dict() for variant in recipe.render(rattler_build.VariantConfig(pins))]
    assert found["package"]["name"] == "segments"
