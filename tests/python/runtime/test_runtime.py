"""What is shared in a process: the error classes, and the one interpreter that it is for."""

from __future__ import annotations

import contextlib
import datetime
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

import isthmus_test_ext as ext


def test_errors_are_builtin_errors_too() -> None:
    with pytest.raises(TypeError) as not_a_tensor:
        ext.own(3)
    with pytest.raises(ValueError) as bad_capsule:
        ext.own(datetime.datetime_CAPI)
    with pytest.raises(BufferError) as bad_dtype:
        ext.own(np.zeros(3, "O"))
    for info, code in ((not_a_tensor, "not_a_tensor"), (bad_capsule, "bad_capsule"), (bad_dtype, "bad_dtype")):
        assert isinstance(info.value, ext.Error)
        assert info.value.code == code
        assert type(info.value).__module__ == "isthmus"
        assert info.value.__cause__ is None


def test_errors_name_the_argument_the_value_and_the_wish() -> None:
    a = np.zeros((2, 3), np.float32)
    a.flags.writeable = False
    with pytest.raises(BufferError) as info:
        ext.own(a, require_writable=True, argument="image")
    text = str(info.value)
    assert "'image'" in text
    assert "numpy.ndarray" in text
    assert "read-only" in text
    assert "writable" in text


def test_errors_without_an_argument_name_none() -> None:
    for options in ({}, {"argument": ""}, {"argument": None}):
        with pytest.raises(TypeError) as info:
            ext.own(3, **options)
        assert "argument" not in str(info.value)


def test_error_pickles() -> None:
    with pytest.raises(TypeError) as info:
        ext.own(3)
    try:
        again = pickle.loads(pickle.dumps(info.value))
    except pickle.PicklingError:
        pytest.skip("the isthmus package is not installed")
    assert str(again) == str(info.value)


def test_exceptions_are_not_left_behind() -> None:
    for x in (3, np.zeros(3, "O"), b"bytes", np.zeros(3)):
        with contextlib.suppress(ext.Error):
            ext.own(x)
        assert sys.exc_info() == (None, None, None)


SUBINTERPRETER = """
import sys
{first}
try:
    import _interpreters as interpreters
    run = interpreters.exec
except ImportError:
    import _xxsubinterpreters as interpreters
    run = interpreters.run_string
code = '''
import sys
sys.path.insert(0, {path!r})
try:
    import isthmus_test_ext as ext
    ext.own(b"bytes")
except Exception as error:
    print("refused:", type(error).__name__, error, flush=True)
else:
    print("taken", flush=True)
'''
for _ in range(3):
    try:
        inner = interpreters.create("legacy")
    except TypeError:
        inner = interpreters.create()
    failure = run(inner, code)
    assert failure is None, failure
    interpreters.destroy(inner)
{last}
"""


@pytest.mark.parametrize("order", ["main first", "main afterwards"])
def test_subinterpreters(child, order: str) -> None:
    """Refused where the bridge serves the main interpreter already; never a crash,
    and the main one is served in any case."""
    use = "import isthmus_test_ext as ext; assert ext.own(b'bytes')['shape'] == (5,)"
    first, last = (use, use) if order == "main first" else ("", use)
    out = child(SUBINTERPRETER.format(first=first, last=last, path=str(Path(ext.__file__).parent)))
    assert len(out.splitlines()) == 3, out
    if order == "main first":
        assert "taken" not in out
        assert all("interpreter" in line for line in out.splitlines()), out
