# SPDX-License-Identifier: Apache-2.0
"""The generated module of many functions is the same module through every library."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import many_functions


def test_sixty_different_functions():
    functions = many_functions.functions()
    assert len({f.name for f in functions}) == len(functions) == 60


@pytest.mark.parametrize("dialect", [many_functions.Nanobind(), many_functions.Pybind11(), many_functions.Isthmus()])
def test_each_library_binds_them_all(dialect):
    functions = many_functions.functions()
    text = dialect.module(functions)
    assert re.findall(r'm\.def\("(\w+)", \1\);', text) == [f.name for f in functions]
    for f in functions:
        definition = next(line for line in text.splitlines() if re.match(rf"static .*\b{f.name}\(", line))
        parameters = definition[definition.index(f.name) :].split(") {")[0]
        assert [f"a{i}" for i in range(len(f.arguments))] == re.findall(r" (a\d)(?:,|$)", parameters)
