"""Calls of the sweep in which a module is imported, or used for the first time: what it then makes it keeps."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
from collections.abc import Callable
from typing import Any

from making import Make, prepared


def importing(name: str, path: str) -> Make:
    """Of the extension alone: the packages around it would be imported by CPython, a thousand allocations."""

    def call(spec: Any) -> str:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return type(module).__name__

    return prepared(lambda: importlib.util.spec_from_file_location(name, path), call)


def using(module: str, call: Callable[[Any], Any]) -> Make:
    """The first call of a module that was imported with all the memory there is."""
    return prepared(functools.partial(importlib.import_module, module), call)


def first_uses() -> dict[str, Make]:
    import numpy as np

    table: dict[str, Make] = {}
    package = importlib.util.find_spec("isthmus")
    for folder in (package and package.submodule_search_locations) or ():
        for file in os.listdir(folder):
            if file.startswith("_isthmus.") and file.endswith(".so"):
                table["import_package"] = importing("isthmus._isthmus", os.path.join(folder, file))
    for name in ("isthmus_test_ext", "isthmus_operators_test_ext"):
        found = importlib.util.find_spec(name)
        if found is not None and found.origin is not None:
            table[name.replace("isthmus", "import").removesuffix("_ext")] = importing(name, found.origin)

    floats = np.ones((2, 3), np.float32)
    ints = np.arange(4, dtype=np.int32)
    matrix = {"indptr": ints, "indices": ints[:3], "data": np.ones(3), "shape": (3, 4)}
    points = np.ones(2, [("x", "f4"), ("y", "f4"), ("z", "f8")])
    uses: dict[str, Callable[[Any], Any]] = {
        "argument": lambda ext: ext.sum(floats),
        "struct": lambda ext: ext.matrix_sum(matrix),
        "records": lambda ext: ext.sum_points(points),
        "records_returned": lambda ext: ext.make_points(3),
        "returned": lambda ext: ext.counting(4),
        "returned_numpy": lambda ext: ext.counting_numpy(4),
    }
    for binder in ("nanobind", "pybind11"):
        if importlib.util.find_spec(f"isthmus_{binder}_test_ext") is not None:
            for name, use in uses.items():
                table[f"{binder}_{name}"] = using(f"isthmus_{binder}_test_ext", use)
    return table
