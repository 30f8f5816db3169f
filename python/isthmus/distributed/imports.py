"""Calls a function when a module is imported, now or later: no framework is imported for the sake of its types."""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_lock = threading.RLock()
_waiting: dict[str, list[Callable[[], None]]] = {}


class _Finder(MetaPathFinder):
    """Leaves the search to the other finders, and adds the callbacks that run after the module."""

    def __init__(self) -> None:
        self._busy = threading.local()

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in _waiting or getattr(self._busy, "name", None) == name:
            return None
        self._busy.name = name
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._busy.name = None
        if spec is not None and spec.loader is not None:
            _call_after(spec.loader, name)
        return spec


def _call_after(loader: Any, name: str) -> None:
    run = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        del loader.exec_module  # the loader is as it was before anything sees it
        run(module)
        _imported(name)

    # A loader that takes no attribute is left alone: its module's types stay as the engine has them.
    if hasattr(loader, "__dict__"):
        loader.exec_module = exec_module


_finder = _Finder()


def _imported(name: str) -> None:
    with _lock:
        callbacks = _waiting.pop(name, [])
        _watch()
    for callback in callbacks:
        callback()


def _watch() -> None:
    """Keeps the finder installed while a callback waits. Call with the lock held."""
    if _waiting and _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    elif not _waiting and _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


def when_imported(name: str, callback: Callable[[], None]) -> Callable[[], None]:
    """Call `callback` once `name` has been imported: at once if it already is. Returns a function that cancels it."""
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        callback()
        return lambda: None
    with _lock:
        _waiting.setdefault(name, []).append(callback)
        _watch()

    def call_off() -> None:
        with _lock:
            if callback in _waiting.get(name, []):
                _waiting[name].remove(callback)
                if not _waiting[name]:
                    del _waiting[name]
            _watch()

    return call_off
