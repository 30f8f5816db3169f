"""joblib and loky: their queues pickle with loky's own pickler, joblib's with a copy of it that joblib brings."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable

from ..frameworks import Framework
from .multiprocessing import reducer, start
from .table import replace

__all__ = ["ENGINE", "register", "start"]

ENGINE = "joblib"


def register(cls: type, framework: Framework) -> Callable[[], None]:
    undo = []
    for name in ("joblib.externals.loky.backend.reduction", "loky.backend.reduction"):
        with contextlib.suppress(ImportError):
            table = importlib.import_module(name)._dispatch_table
            undo.append(replace(table, cls, reducer(ENGINE, framework, table.get(cls))))

    def undo_all() -> None:
        for one in undo:
            one()

    return undo_all
