"""The further modules that lie in the library of isthmus_test_ext, each with an init function of its own (PEP 489)."""

from __future__ import annotations

import sys
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import module_from_spec
from types import ModuleType

import isthmus_test_ext as ext


def load(name: str) -> ModuleType:
    """The module isthmus_test_<name>."""
    full = f"isthmus_test_{name}"
    if full not in sys.modules:
        loader = ExtensionFileLoader(full, ext.__file__)
        module = module_from_spec(ModuleSpec(full, loader, origin=ext.__file__))
        loader.exec_module(module)
        sys.modules[full] = module
    return sys.modules[full]
