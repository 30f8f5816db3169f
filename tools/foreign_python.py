"""Python's headers for another system: this interpreter's own, with a pyconfig.h that says what that system's says of
types.

Enough to check syntax, not to build a module: what only the compiled interpreter depends on is left out. The values are
those of CPython's PC/pyconfig.h (Windows) and of configure on 64-bit systems (macOS, Linux).
"""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path

_COMMON = """
#define SIZEOF_INT 4
#define SIZEOF_SHORT 2
#define SIZEOF_LONG_LONG 8
#define SIZEOF_VOID_P 8
#define SIZEOF_SIZE_T 8
#define SIZEOF_FLOAT 4
#define SIZEOF_DOUBLE 8
#define SIZEOF_TIME_T 8
#define HAVE_LONG_LONG 1
#define HAVE_STDDEF_H 1
#define HAVE_WCHAR_H 1
#define HAVE_SYS_STAT_H 1
#define WITH_DOC_STRINGS 1
#define WITH_PYMALLOC 1
"""
_POSIX = (
    _COMMON
    + """
#define SIZEOF_LONG 8
#define SIZEOF_WCHAR_T 4
#define SIZEOF_OFF_T 8
#define SIZEOF_PID_T 4
#define HAVE_FORK 1
#define HAVE_PTHREAD_H 1
#define HAVE_SYS_TIME_H 1
#define HAVE_SYS_SELECT_H 1
#define HAVE_UNISTD_H 1
"""
)
_WINDOWS = (
    _COMMON
    + """
#define MS_WINDOWS 1
#define MS_WIN32 1
#define MS_WIN64 1
#define NT_THREADS 1
#define SIZEOF_LONG 4
#define SIZEOF_WCHAR_T 2
#define SIZEOF_OFF_T 4
#define SIZEOF_PID_T 4
#define HAVE_DECLSPEC_DLL 1
#define HAVE_PY_SSIZE_T 1
typedef long long Py_ssize_t;
#define PY_SSIZE_T_MAX 0x7fffffffffffffffLL
"""
)
_CONFIGURATIONS = {"posix": _POSIX, "windows": _WINDOWS}


def make_headers(folder: Path, system: str) -> Path:
    """The headers in a new folder below `folder`; `system` is "posix" or "windows".
    FileNotFoundError without Python.h here."""
    source = Path(sysconfig.get_path("include"))
    if not (source / "Python.h").is_file():
        raise FileNotFoundError(f"no Python.h in {source}")
    target = folder / f"python-{system}"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, ignore=lambda place, _: ["numpy"] if Path(place) == source else [])
    # Beside Python.h, which looks there first.
    (target / "pyconfig.h").write_text(_CONFIGURATIONS[system])
    return target
