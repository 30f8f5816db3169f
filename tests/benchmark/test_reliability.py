# SPDX-License-Identifier: Apache-2.0
"""What `make reliability` counts is what happened: a crash as a crash, a leak as a leak,
a broken story as nobody's fault."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import reliability  # noqa: E402
from stories import answers, hostile, libraries, life, tell  # noqa: E402
from stories.verdict import NOT_COUNTED, WORDS, BrokenStory, Verdict, cell, of_import, of_process, report  # noqa: E402


def ended(code: str, timeout: float = 30) -> Verdict:
    """The verdict on a process that runs this code."""
    preamble = f"import sys; sys.path.insert(0, {str(BENCHMARKS)!r})\nfrom stories.verdict import *\n"
    process = subprocess.Popen(
        [sys.executable, "-c", preamble + code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        said, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        return of_process(process.wait(), process.communicate()[0], True)
    return of_process(process.returncode, said, False)


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGFPE", "SIGKILL"])
def test_a_signal_is_a_crash(name: str) -> None:
    assert ended(f"import os, signal; os.kill(os.getpid(), signal.{name})") == Verdict("crash", name)


def test_a_crash_after_the_last_word_is_a_crash() -> None:
    """As at the interpreter's end, when the story has long told that all went well."""
    assert ended("import os\nprint(report(Verdict('right')), flush=True)\nos.abort()").word == "crash"


def test_what_does_not_end_is_a_hang() -> None:
    assert ended("import time\ntime.sleep(60)", timeout=0.5).word == "hang"


def test_what_is_told_is_taken() -> None:
    assert ended("print('noise'); print(report(Verdict('leak', 'why')))") == Verdict("leak", "why")


@pytest.mark.parametrize("code", ["1 / 0", "pass", "print(report(Verdict('right'))); sys.exit(3)"])
def test_a_broken_story_says_nothing_of_the_library(code: str) -> None:
    with pytest.raises(BrokenStory):
        ended(code)


@pytest.mark.parametrize(
    ("must_refuse", "taken", "faithful", "released", "word"),
    [
        (True, False, False, 1, "right"),
        (True, True, True, 1, "wrong"),
        (False, True, True, 1, "right"),
        (False, True, False, 1, "wrong"),
        (False, False, False, 1, NOT_COUNTED),
        (False, True, True, 0, "leak"),
        (True, False, False, 0, "leak"),
        (False, False, False, 0, "leak"),
        (False, True, True, 2, "double free"),
        (True, True, True, 2, "double free"),
        (True, False, False, None, "right"),
    ],
)
def test_imports(must_refuse: bool, taken: bool, faithful: bool, released: int | None, word: str) -> None:
    assert of_import(must_refuse, taken, faithful, released).word == word


def test_without_a_deleter_nothing_is_released() -> None:
    assert of_import(False, True, True, 0, wanted=0).word == "right"
    assert of_import(False, True, True, 1, wanted=0).word == "double free"


def test_a_cell_counts_every_word_once() -> None:
    verdicts = [Verdict(word) for word in WORDS for _ in range(WORDS.index(word) + 1)] + [Verdict(NOT_COUNTED)]
    assert cell(verdicts) == ", ".join(f"{n} {word}" for n, word in enumerate(WORDS, 1))
    assert cell([Verdict("crash", "SIGSEGV")]) == "crash"
    assert cell([Verdict(NOT_COUNTED)]) == cell([]) == "–"  # noqa: RUF001


def library(take=None, drop=None) -> libraries.Library:
    """NumPy, with some of its functions replaced."""
    made = libraries.numpy_library()
    made.take = take or made.take
    made.drop = drop or made.drop
    return made


@pytest.fixture(scope="module")
def managed():
    sys.path.insert(0, str(BENCHMARKS.parent / "tests/python/hostile"))
    import descriptors

    return descriptors.Managed


def shown(managed, take, fields: dict, must_refuse: bool) -> Verdict:
    """What comes of one descriptor in a fork, as `make reliability` shows it."""
    case = hostile.descriptor_case(managed, fields, must_refuse, versioned=False)
    return of_process(*tell.forked(library(take), case))


def test_a_hostile_object_shown_to_libraries_that_fail(managed) -> None:
    right = library().take
    kept: list[object] = []

    def leaks(x: object) -> object:
        kept.append(np.from_dlpack(x))
        return kept[-1].ctypes.data, kept[-1].shape

    def refuses(x: object) -> object:
        x.__dlpack__()
        raise BufferError

    def takes(x: object) -> object:
        x.__dlpack__()
        return 0, ()

    def lies(x: object) -> object:
        address, shape = right(x)
        return address + 4, shape

    def frees_twice(x: object) -> object:
        capsule = x.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        held = managed_of(pointer(capsule, b"dltensor"))
        held.deleter(held.pointer)
        raise BufferError

    def managed_of(address: int) -> object:
        import descriptors

        return next(m for m in descriptors.KEPT if getattr(m, "pointer", None) == address)

    def killed(x: object) -> object:
        os.kill(os.getpid(), signal.SIGKILL)

    sound, wrong = {}, {"ndim": -1}
    assert shown(managed, right, sound, must_refuse=False).word == "right"
    assert shown(managed, refuses, sound, must_refuse=False).word == NOT_COUNTED
    assert shown(managed, refuses, wrong, must_refuse=True).word == "right"
    assert shown(managed, leaks, sound, must_refuse=False).word == "leak"
    assert shown(managed, lies, sound, must_refuse=False) == Verdict("wrong", "taken as something else")
    assert shown(managed, takes, wrong, must_refuse=True) == Verdict("wrong", "taken")
    assert shown(managed, frees_twice, sound, must_refuse=False).word == "double free"
    assert shown(managed, killed, sound, must_refuse=False) == Verdict("crash", "SIGKILL")


def test_a_story_told_of_a_library_that_never_lets_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life.time, "sleep", lambda seconds: None)
    clock = iter(range(100))
    monkeypatch.setattr(life.time, "monotonic", lambda: next(clock))
    assert life.unconsumed(library(drop=lambda: None)).word == "leak"
    assert life.unconsumed(library()).word == "right"


def test_every_verdict_survives_its_line() -> None:
    for word in WORDS:
        assert of_process(0, report(Verdict(word, "a\nnote\twith tabs")), False) == Verdict(word, "a\nnote\twith tabs")


def test_every_count_can_be_looked_up() -> None:
    wrong, crash = Verdict("wrong", "taken"), Verdict("crash", "SIGSEGV")
    table = {
        "DLPack, wrong": {"peer": {"a": wrong, "a (versioned)": wrong, "b (versioned)": wrong, "c": Verdict("right")}},
        "a story": {"peer": {"a story": crash}, "isthmus": {"a story": Verdict("right")}},
    }
    text = reliability.markdown(table, {"isthmus": "1", "peer": "2"})
    assert "| DLPack, wrong | – | 1 right, 3 wrong |" in text  # noqa: RUF001
    assert "| a story | right | crash |" in text
    assert "| **crash, all together** | 0 | 1 |" in text
    assert "- peer, DLPack, wrong: wrong (taken): `a`, `b (versioned)`\n" in text
    assert "- peer, a story: crash (SIGSEGV)\n" in text
    assert "- isthmus" not in text


def test_an_answer_is_what_the_library_says_or_raises() -> None:
    def written(x: object) -> None:
        ctypes.c_float.from_address(x.ctypes.data).value = 5

    peer = library()
    title = "a write to a read-only NumPy array"
    assert answers.answer(peer, title) == "refused (ValueError)"
    assert answers.is_right(title, "refused (ValueError)")
    peer.write = written
    assert answers.answer(peer, title) == "written"
    assert not answers.is_right(title, "written")
    peer.write = lambda x: None
    assert answers.answer(peer, title) == "not written"
    assert not answers.is_right(title, "not written")


def test_a_library_without_the_function_has_no_answer() -> None:
    peer = library()
    peer.dtype = None
    assert answers.answer(peer, "the dtype of a bfloat16 NumPy array") in ("–", "refused (ModuleNotFoundError)")  # noqa: RUF001


def test_a_refusal_is_right_only_if_it_is_expected() -> None:
    title = "the dtype of a bfloat16 NumPy array"
    assert answers.is_right(title, "bfloat16")
    assert not answers.is_right(title, "refused (TypeError)")


def test_wrong_answers_are_in_italics() -> None:
    table = {"a write to a read-only NumPy array": {"a": "refused (TypeError)", "b": "written", "c": "–"}}  # noqa: RUF001
    text = reliability.answers_markdown(table, ["a", "b", "c"])
    assert "| a write to a read-only NumPy array | refused (TypeError) | *written* | – |" in text  # noqa: RUF001


def test_the_page_is_changed_between_its_markers_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{reliability.BEGIN}\nold\n{reliability.END}\nafter\n")
    for text in ("first\n", "second\n"):
        reliability.write(text, page)
    assert page.read_text() == f"before\n{reliability.BEGIN}\n\nsecond\n\n{reliability.END}\nafter\n"
    page.write_text("no markers")
    with pytest.raises(SystemExit):
        reliability.write("text", page)


def test_the_page_shows_what_the_script_counts() -> None:
    """A story that is added or renamed is told anew."""
    shown = reliability.PAGE.read_text().partition(reliability.BEGIN)[2].partition(reliability.END)[0]
    for row in (*hostile.PROTOCOLS, *life.STORIES):
        assert f"\n| {row} | " in shown, row
