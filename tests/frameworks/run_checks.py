"""Runs every check of one framework in this process, one line of JSON each, written before the next begins."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
import traceback
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "python" / "support"))

from checks import Skip


def tell(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


def names(module: object) -> list[str]:
    found = [(inspect.getsourcelines(f)[1], n) for n, f in vars(module).items() if n.startswith("check_")]
    return [name for _, name in sorted(found)]


def main() -> None:
    warnings.simplefilter("ignore")
    try:
        module = importlib.import_module(sys.argv[1])
    except ImportError as error:
        tell(absent=f"{type(error).__name__}: {error}")
        return
    tell(version=module.VERSION)
    for name in names(module):
        tell(begin=name)
        try:
            getattr(module, name)()
        except Skip as reason:
            tell(skip=name, reason=str(reason))
        except BaseException:
            tell(failed=name, text=traceback.format_exc())
        else:
            tell(ok=name)
    tell(end=True)


main()
