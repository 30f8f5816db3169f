"""The tables of the bridge, and the pages, stubs and tools that are to say the same."""

from __future__ import annotations

from pathlib import Path

import pytest

import isthmus
from isthmus._isthmus import _framework_names, _protocol_names
from isthmus.probe.frameworks import FRAMEWORKS

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_page_on_import_has_the_paths_of_the_table() -> None:
    page = (DOCS / "import.md").read_text()
    table = page[page.index("| the object | import path |") :].split("\n\n")[0].splitlines()[2:]
    said = [row.split("|")[3].strip().replace("\\_", "_") for row in table]
    assert said == list(_protocol_names()[1:])  # the first is "none"


def test_the_page_on_export_has_every_framework_of_the_table() -> None:
    page = (DOCS / "export.md").read_text()
    table = page[page.index("| framework | how |") :].split("\n\n")[0].splitlines()[2:]
    said = [name.strip() for row in table for name in row.split("|")[1].split(",")]
    assert sorted(said) == sorted(set(_framework_names()) - {"tensor"})


@pytest.mark.parametrize("name", _framework_names())
def test_every_framework_is_in_the_stub(name: str) -> None:
    stub = (Path(isthmus.__file__).parent / "_isthmus.pyi").read_text()
    assert f'"{name}"' in stub


def test_the_probe_knows_every_framework_that_has_a_package() -> None:
    ours = {"tensor", "capsule", "capsule_legacy"}
    assert set(_framework_names()) - ours <= {framework.to for framework in FRAMEWORKS.values()}


def test_a_name_that_is_none_is_answered_with_all_that_are() -> None:
    with pytest.raises(isthmus.Error) as info:
        isthmus.empty((1,)).to("nonsense")
    for name in _framework_names():
        assert name in str(info.value)
