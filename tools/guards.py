"""The library's guards, for tools/mutate.py: where they are, how one is taken away, and which of them are no loss."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Where the library stands: what users include, and the bodies.
LIBRARY = ("include/isthmus", "src")
EQUIVALENT = ROOT / "tools" / "mutants.txt"

#: What a guard does: it leaves.
LEAVES = re.compile(r"^\s*(?:return\b|throw\b|continue;|break;)")
IF = re.compile(r"^(?P<indent>\s*)(?:else )?if \(")
#: A condition that declares a variable, which is then asked.
DECLARES = re.compile(r"(?:const )?[\w:]+(?:<.*>)?[\s*&]+(?P<name>\w+)\s*=[^=]")


@dataclass
class Guard:
    file: str
    line: int
    text: str
    start: int  # of the condition, in the line
    end: int
    nth: int  # of those with this text in the file

    @property
    def key(self) -> str:
        """Its name, which stays when lines move: the file, the statement, and which of several it is."""
        return f"{self.file}: {self.text}" + (f" [{self.nth}]" if self.nth > 1 else "")

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line + 1}"


def condition_of(line: str) -> tuple[int, int] | None:
    """Where the condition of an if begins, behind what it initialises, and ends;
    None when it does not end on the line."""
    found = IF.match(line)
    if found is None:
        return None
    depth, start = 1, found.end()
    for i in range(start, len(line)):
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(line[i], 0)
        if depth == 0:
            return start, i
        if depth == 1 and line[i] == ";":
            start = i + 1 + (line[i + 1 : i + 2] == " ")
    return None


def guards_of(path: Path) -> list[Guard]:
    lines = path.read_text().splitlines()
    guards: list[Guard] = []
    for number, line in enumerate(lines):
        where = condition_of(line)
        if where is None or line.lstrip().startswith("//") or "constexpr" in line:
            continue
        rest = line[where[1] + 1 :].strip()
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if LEAVES.match(rest) or (rest in ("", "{") and LEAVES.match(following)):
            text = " ".join((line.strip() + " " + (following.strip() if rest in ("", "{") else "")).split())
            nth = 1 + sum(guard.text == text for guard in guards)
            guards.append(Guard(str(path.relative_to(ROOT)), number, text, *where, nth))
    return guards


def without(guard: Guard, text: str, stays: str = "false") -> str:
    """The file where the guard leaves only if `stays` is true too. Its condition is still asked,
    for what it does besides."""
    lines = text.split("\n")
    line = lines[guard.line]
    condition = line[guard.start : guard.end]
    declared = DECLARES.match(condition)
    asked = f"{condition}; ({declared['name']})" if declared else f"({condition})"
    lines[guard.line] = f"{line[: guard.start]}{asked} && {stays}{line[guard.end :]}"
    return "\n".join(lines)


def equivalents() -> dict[str, str]:
    """Key → why its loss is none: lines "file: statement  # reason"."""
    if not EQUIVALENT.exists():
        return {}
    rows = (line.rsplit("  # ", 1) for line in EQUIVALENT.read_text().splitlines() if line and not line.startswith("#"))
    return {row[0].strip(): row[1] for row in rows if len(row) == 2}


def stale() -> list[str]:
    """Keys of mutants.txt that name no guard any more."""
    found = {guard.key for path in sources() for guard in guards_of(path)}
    return [key for key in equivalents() if key not in found]


def choose(only: str) -> list[Guard]:
    """The guards whose "file:line: text" matches, less the equivalents."""
    known = equivalents()
    guards = [guard for path in sources() for guard in guards_of(path) if guard.key not in known]
    return [guard for guard in guards if re.search(only, f"{guard.place}: {guard.text}")]


def sources() -> list[Path]:
    files = (path for folder in LIBRARY for path in (ROOT / folder).rglob("*") if path.suffix in (".h", ".cpp"))
    return sorted(files)


def sample_of(guards: list[Guard], count: int, seed: int) -> list[Guard]:
    """So many of them by chance; all when the count is 0."""
    if not 0 < count < len(guards):
        return guards
    return sorted(random.Random(seed).sample(guards, count), key=lambda guard: (guard.file, guard.line))
