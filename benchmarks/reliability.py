# SPDX-License-Identifier: Apache-2.0
"""What Isthmus and its peers do with hostile objects and at the edges of a tensor's life,
as a table in docs/reliability.md.

Usage:
    benchmarks/reliability.py [--only WORD] [--library NAME] [--no-docs]

Every story runs in a process of its own, and each library is asked in the way its documentation shows.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import build
from stories import answers, hostile, libraries, life, modules
from stories.verdict import NOT_COUNTED, WORDS, Verdict, cell, of_process

HERE = Path(__file__).resolve().parent
PAGE = build.ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- make reliability: begin -->", "<!-- make reliability: end -->"
SECONDS = 240
#: Row → library → verdict of each story in it, by the story's name.
Table = dict[str, dict[str, dict[str, Verdict]]]


def run(*words: str) -> tuple[int, str, bool]:
    """`python -m stories.tell WORDS`: exit status, what it printed, and whether it ran out of time."""
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "stories.tell", *words],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # with whatever it forks
    )
    try:
        said, _ = process.communicate(timeout=SECONDS)
        return process.returncode, said, False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
        return process.returncode, said, True


def hostile_rows(library: str, table: Table) -> None:
    status, said, timed_out = run(library, "--hostile")
    if status or timed_out:
        sys.exit(f"{library}: the hostile objects were not all shown:\n{said[-4000:]}")
    for line in said.splitlines():
        if line.count("\t") == 2:
            group, name, told = line.split("\t")
            table.setdefault(group, {}).setdefault(library, {})[name] = of_process(0, told, False)


def life_row(title: str, library: str, table: Table) -> None:
    table.setdefault(title, {}).setdefault(library, {})[title] = of_process(*run(library, title))


def collect(names: list[str], only: str, say: Callable[[str], None]) -> Table:
    table: Table = {}
    for library in names:
        if only in "hostile":
            say(f"{library}: hostile objects")
            hostile_rows(library, table)
        for title in life.STORIES:
            if only in title:
                say(f"{library}: {title}")
                life_row(title, library, table)
    rows = [*hostile.PROTOCOLS, *life.STORIES]
    return {row: table[row] for row in rows if row in table}


def collect_answers(names: list[str], only: str, say: Callable[[str], None]) -> dict[str, dict[str, str]]:
    """Question → library → answer."""
    table: dict[str, dict[str, str]] = {}
    for title in answers.QUESTIONS:
        if only not in "answers" and only not in title:
            continue
        say(f"answers: {title}")
        table[title] = {}
        for library in names:
            verdict = of_process(*run(library, "--answer", title))
            table[title][library] = verdict.note if verdict.word == "right" else verdict.word
    return table


def head(names: Iterable[str]) -> list[str]:
    """The first two lines of a table: a column for the rows' titles, then one for each name."""
    columns = list(names)
    return ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]


def answers_markdown(table: dict[str, dict[str, str]], names: list[str]) -> str:
    lines = ["", "The answers for tensors whose memory does not say all; *in italics* if they are not right:", ""]
    lines += head(names)
    for title, answered in table.items():
        cells = [a if a == "–" or answers.is_right(title, a) else f"*{a}*" for a in answered.values()]  # noqa: RUF001
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def row_of(row: str, table: Table, names: list[str]) -> str:
    cells = [cell([*table[row].get(name, {}).values()]) for name in names]
    return f"| {row} | {' | '.join(cells)} |"


def total(table: Table, names: list[str], word: str) -> str:
    counts = [sum(v.word == word for row in table.values() for v in row.get(name, {}).values()) for name in names]
    return f"| **{word}, all together** | {' | '.join(map(str, counts))} |"


VERSIONED = " (versioned)"


def named(cases: list[str]) -> str:
    """The cases' names, once where both kinds of capsule are among them."""
    return ", ".join(
        f"`{case}`" for case in cases if case.removesuffix(VERSIONED) == case or case[: -len(VERSIONED)] not in cases
    )


def details(table: Table, names: list[str]) -> list[str]:
    """Every story that did not go right, by library, so that each count can be looked up."""
    lines = []
    for name in names:
        for row, verdicts in table.items():
            found: dict[str, list[str]] = {}
            for case, verdict in verdicts.get(name, {}).items():
                if verdict.word not in ("right", NOT_COUNTED):
                    what = verdict.word + (f" ({verdict.note})" if verdict.note else "")
                    found.setdefault(what, []).append(case)
            for what, cases in found.items():
                lines.append(f"- {name}, {row}: {what}{'' if cases == [row] else ': ' + named(cases)}")
    return lines


def markdown(table: Table, versions: dict[str, str]) -> str:
    names = list(versions)
    lines = [f"CPython {platform.python_version()}, {platform.system()} {platform.machine()}.", ""]
    lines += head(f"{name} {version}".strip() for name, version in versions.items())
    lines += [row_of(row, table, names) for row in table]
    lines += [total(table, names, word) for word in WORDS]
    lines += [
        "",
        "What did not go right (a descriptor without a remark: in both kinds of capsule that the library asks for):",
        "",
        *details(table, names),
    ]
    return "\n".join(lines) + "\n"


def write(text: str, page: Path) -> None:
    """Between the markers of the page, and nowhere else."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        sys.exit(f"{page} has no line {BEGIN} with a line {END} after it")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only",
        default="",
        metavar="WORD",
        help='stories whose title has it; "hostile": those objects; "answers": that table',
    )
    parser.add_argument("--library", choices=libraries.NAMES, action="append", help="only this one (may be repeated)")
    parser.add_argument("--no-docs", action="store_true", help="print the table, and leave the page as it is")
    options = parser.parse_args()

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    built = modules.build_all(say)
    if built["producers"].why_not:
        sys.exit(f"the producers do not build: {built['producers'].why_not}")
    wanted = [name for name in options.library or libraries.NAMES if not built[name].why_not]
    for name in libraries.NAMES:
        if built[name].why_not:
            say(f"{name} is left out: {built[name].why_not}")
    table = collect(wanted, options.only, say)
    answered = collect_answers(wanted, options.only, say)
    text = markdown(table, {name: built[name].version for name in wanted})
    if answered:
        text += answers_markdown(answered, wanted)
    print(text)
    if not options.no_docs and not options.only and not options.library:
        write(text, PAGE)
    ours = [v for row in table.values() for v in row.get("isthmus", {}).values()]
    wrong = [title for title, of in answered.items() if "isthmus" in of and not answers.is_right(title, of["isthmus"])]
    return 1 if wrong or any(v.word not in ("right", NOT_COUNTED) for v in ours) else 0


if __name__ == "__main__":
    sys.exit(main())
