"""What the tools print: text for a pipe, drawn by rich for a terminal that has it."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable

import numpy as np
import pytest

import isthmus
from isthmus import _terminal
from isthmus.__main__ import main

OF_RICH = re.compile("[┃│┏┌]")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch):
    """terminal(call): what the call prints to a terminal of 200 columns."""
    pytest.importorskip("rich")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)

    def shown(call: Callable[[], object]) -> str:
        with contextlib.redirect_stdout(Terminal()) as out:
            call()
        return out.getvalue()

    return shown


COMMANDS = [["probe", "numpy", "--quiet"], ["doctor", "numpy.zeros(3)"]]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_pipe_gets_text(command, capsys):
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "numpy" in shown
    assert not OF_RICH.search(shown)
    assert "\x1b" not in shown


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_terminal_gets_a_table(command, terminal):
    shown = terminal(lambda: main(command))
    assert OF_RICH.search(shown)
    assert "\x1b[32mshared" in shown  # in green
    for line in shown.splitlines():
        assert len(re.sub(r"\x1b\[[0-9;]*m", "", line)) <= 200


def test_a_terminal_without_rich_gets_text(terminal, monkeypatch):
    monkeypatch.setattr(_terminal.importlib.util, "find_spec", lambda name: None)
    shown = terminal(lambda: main(["doctor", "numpy.zeros(3)"]))
    assert not OF_RICH.search(shown)
    assert "numpy.ndarray" in shown


def test_brackets_are_no_markup(terminal):
    """rich takes [red] in a text for a colour."""
    odd = type("[red]", (), {"__array_interface__": np.zeros(3).__array_interface__})
    isthmus.live.enable()
    try:
        t = isthmus.from_dlpack(odd())
        assert "[red]" in terminal(isthmus.live.show)
        del t
    finally:
        isthmus.live.disable()
    assert "'[red]'" in terminal(lambda: main(["doctor", "'[red]'"]))


@pytest.mark.parametrize("tracing", [False, True])
def test_the_list_of_tensors(tracing, capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)  # a pipe has no width
    isthmus.live.enable(tracing=tracing)
    try:
        isthmus.live.show()
        assert capsys.readouterr().out == "0 tensors alive, 0 bytes\n"
        x = np.zeros((2, 3), np.float32)
        x.flags.writeable = False
        t = isthmus.from_dlpack(x)
        u = isthmus.empty((4,))
        isthmus.live.show()
        lines = capsys.readouterr().out.splitlines()
        assert re.fullmatch(r"number +from +to +elements +device +bytes +handles +age", lines[0])
        assert set(lines[1]) == {"-", " "}
        row = r" *\d+  numpy.ndarray  isthmus.Tensor  float32\[2, 3\]  cpu +24 +1 +\S+ s  read-only"
        assert re.fullmatch(row, lines[2]), lines[2]
        second = 3
        if tracing:
            assert lines[3].endswith(" in test_the_list_of_tensors")
            assert "_isthmus" in lines[4]
            second = next(i for i, line in enumerate(lines) if "  C++ " in line)
        assert re.match(r" *\d+  C\+\+ ", lines[second])
        assert lines[-1] == "2 tensors alive, 40 bytes"
        assert str(isthmus.live()).count("float32") == 2
        del t, u
    finally:
        isthmus.live.disable()


def test_what_is_traced_has_a_column(terminal):
    isthmus.live.enable(tracing=True)
    try:
        t = isthmus.empty((4,))
        shown = terminal(isthmus.live.show)
        assert "made" in shown
        assert "test_what_is_traced_has_a_column" in shown
        assert "1 tensor alive, 16 bytes" in shown
        del t
    finally:
        isthmus.live.disable()


@pytest.mark.parametrize("columns", [60, 80])
def test_a_table_fits_the_columns(columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["probe", "numpy", "cupy", "--quiet"]) == 0
    isthmus.live.enable()
    try:
        t = isthmus.from_dlpack(np.zeros((2, 3), np.float32))
        isthmus.live.show()
        del t
    finally:
        isthmus.live.disable()
    assert main(["doctor", "numpy.zeros(3)"]) == 0
    assert main(["bench", "--rounds", "1"]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= columns


def test_a_cell_goes_on_below():
    rows = [("name", "n"), ("not installed", "1,234")]
    lines = list(_terminal.text_lines(rows, {1}, _terminal.fitting_widths(rows, 16)))
    assert lines == ["name           n", "---------  -----", "not        1,234", "installed"]
    assert list(_terminal.text_lines(rows, {1})) == [
        "name               n",
        "-------------  -----",
        "not installed  1,234",
    ]
