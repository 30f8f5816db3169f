"""Programs of the tests that embed this Python: what they are linked with, and the environment that they run in."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path


def link_flags() -> list[str] | None:
    """What links a program with the shared library of this Python; None where it has none."""
    library = Path(sysconfig.get_config_var("LIBDIR") or "", sysconfig.get_config_var("LDLIBRARY") or "no")
    if library.suffix == ".a" or not library.exists():
        return None
    return [str(library), f"-Wl,-rpath,{library.parent}"]


def environment(*folders: Path | str, **variables: str) -> dict[str, str]:
    """What this process has, without what it tells its own Python; with these folders alone as PYTHONPATH."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**others, "PYTHONPATH": os.pathsep.join(filter(None, map(str, folders))), **variables}


def complaints(stderr: str) -> str:
    """What a program said, but for what CPython 3.15 says of an environment's Python that a program embeds,
    at every start."""
    usual = "WARN: Could not find the platform standard library directory!"
    return "".join(line for line in stderr.splitlines(keepends=True) if not line.startswith(usual))
