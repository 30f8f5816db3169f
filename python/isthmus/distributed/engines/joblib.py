"""joblib and loky: their queues pickle with loky's own pickler, joblib's with a copy of it that joblib brings."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any

from .. import messages, transit
from ..frameworks import Framework
from .multiprocessing import reducer
from .table import all_of, replace

ENGINE = "joblib"


def _modules() -> Iterator[Any]:
    for name in ("joblib.externals.loky.backend.reduction", "loky.backend.reduction"):
        with contextlib.suppress(ImportError):
            yield importlib.import_module(name)


def start() -> Callable[[], None]:
    transit.prepare()
    return all_of([messages.watch(module.get_loky_pickler()) for module in _modules()])


def register(cls: type, framework: Framework) -> Callable[[], None]:
    tables = [module._dispatch_table for module in _modules()]
    return all_of([replace(table, cls, reducer(ENGINE, framework, table.get(cls))) for table in tables])
