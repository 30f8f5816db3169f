"""isthmus doctor: what is installed, and why an array is shared, copied or refused."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import isthmus
from isthmus import doctor
from isthmus.__main__ import main


def found(x: object) -> dict[str, str]:
    return dict(doctor.examine(x))


def test_an_array_that_is_shared():
    findings = found(np.zeros((3, 4), np.float32))
    assert findings["type"] == "numpy.ndarray"
    assert findings["way in"] == "numpy's struct"
    assert findings["from_dlpack"].startswith("shared: isthmus.Tensor(float32[3, 4] on cpu")
    assert findings["writable"] == "yes"
    assert findings["to('numpy')"].startswith("shared, ")
    assert findings["cost"].endswith(" ns a call from Python")


def test_read_only_memory_and_its_exits():
    torch = pytest.importorskip("torch")
    array = np.zeros(3, np.float32)
    array.flags.writeable = False
    findings = found(array)
    assert findings["writable"] == "no: its producer says read-only"
    assert findings["to('torch')"].startswith("refused: the memory is read-only, and torch")
    assert torch is not None


@pytest.mark.parametrize("offset", [0, 1])
def test_alignment(offset):
    memory = isthmus.empty((64,), "float32").to("numpy")
    assert ("alignment" in found(memory[offset:])) == bool(offset)


def test_what_is_refused_is_a_finding():
    torch = pytest.importorskip("torch")
    findings = found(torch.zeros(3).to_sparse())
    assert findings["from_dlpack"].startswith("refused: TensorBufferError: ")
    assert "to('numpy')" not in findings


class Broken:
    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **_):
        raise RuntimeError("no such luck")


def test_what_the_producer_raised_is_told():
    findings = found(Broken())
    assert findings["way in"] == "__dlpack__"
    assert findings["from_dlpack"].endswith("(from RuntimeError: no such luck)")


def test_no_tensor_at_all():
    findings = found(object())
    assert findings["way in"] == "none: its type offers no protocol"
    assert findings["from_dlpack"].startswith("refused: TensorTypeError: ")


def test_the_environment():
    rows = dict(doctor.environment())
    assert rows["isthmus"].startswith(f"{isthmus.__version__} in ")
    assert rows["Python"].startswith(f"{sys.version_info.major}.{sys.version_info.minor}.")
    assert rows["numpy"] == np.__version__
    assert {"compiler", "dlpack.h", "CMake's isthmus_DIR", "system"} <= rows.keys()


def test_the_environment_without_a_compiler(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert dict(doctor.environment())["compiler"] == "none on PATH: an extension cannot be compiled here"


def test_the_command(capsys):
    assert main(["doctor", "np.zeros((4, 6))[::2]"]) == 0
    shown = capsys.readouterr().out
    assert "np.zeros((4, 6))[::2]" in shown
    assert "float64[2, 6]" in shown
    assert main(["doctor"]) == 0
    assert "way in" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("expression", "raised"), [("np.zeros(", "SyntaxError"), ("nothing", "NameError"), ("1 / 0", "ZeroDiv")]
)
def test_an_expression_that_raises(expression, raised, capsys):
    with pytest.raises(SystemExit) as info:
        main(["doctor", expression])
    assert info.value.code == 2
    error = capsys.readouterr().err
    assert "argument 'EXPRESSION'" in error
    assert raised in error
