"""The probe's child process: tries one framework and prints a line of JSON after each step, so that a crash leaves the
rest."""

from __future__ import annotations

import importlib.metadata
import json
import os
from collections.abc import Callable
from typing import Any

import isthmus
from isthmus._isthmus import _nothing, _protocol_of

from ..timing import ELEMENTS, nanoseconds, way_out
from .frameworks import FRAMEWORKS, Framework, Unusable

#: Marks our lines among those that the framework itself may print.
MARK = "isthmus-probe:"


def version_of(framework: Framework) -> str | None:
    for package in framework.packages:
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def text_of(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".split("\n", 1)[0]


def step(what: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return what()
    except Exception as error:
        return {"error": text_of(error)}


def try_in(framework: Framework, array: Any) -> dict[str, Any]:
    tensor = isthmus.from_dlpack(array)
    return {
        "way": _protocol_of(array),
        "shared": tensor.data_ptr == framework.address(array),
        "writable": not tensor.read_only,
        "ns": nanoseconds(isthmus.from_dlpack, array),
    }


def try_out(framework: Framework) -> dict[str, Any]:
    tensor = framework.tensor() if framework.tensor else isthmus.empty((ELEMENTS,), framework.dtype)
    try:
        array = framework.leave(tensor)
    except isthmus.Error as error:
        if error.code != "needs_copy":
            raise
        # Not a failure: the framework cannot share, and Isthmus says so instead of copying.
        return {"shared": False, "reason": str(error)}
    return {
        "shared": framework.address(array) == tensor.data_ptr,
        "writable": framework.writable(array),
        "ns": nanoseconds(*way_out(tensor, framework.to)),
    }


def try_back(framework: Framework, array: Any) -> dict[str, Any]:
    if not isinstance(framework.to, str):
        return {"same": None}
    return {"same": framework.leave(isthmus.from_dlpack(array)) is array}


def main(name: str) -> None:
    _main(name)
    # The behaviour of frameworks during interpreter shutdown is not tested here.
    os._exit(0)


def _main(name: str) -> None:
    framework = FRAMEWORKS[name]
    # The framework may print to stdout from C++ at any time, also half a line.
    out = os.fdopen(os.dup(1), "w")
    found: dict[str, Any] = {"version": version_of(framework), "step": "import"}

    def tell(next_step: str) -> None:
        found["step"] = next_step
        print(f"\n{MARK}{json.dumps(found)}", file=out, flush=True)

    tell("import")
    try:
        array = framework.make()
        _nothing(array)
    except Unusable as reason:
        found["unusable"] = str(reason)
        return tell("end")
    except Exception as error:
        found["error"] = text_of(error)
        return tell("end")
    tell("in")
    found["in"] = step(lambda: try_in(framework, array))
    tell("back")
    found["back"] = step(lambda: try_back(framework, array))
    tell("out")
    found["out"] = step(lambda: try_out(framework))
    return tell("end")
