#!/usr/bin/env python3
"""Run the lite suite on CPythons newer than the machine's: those of Debian's unstable distribution, in a folder of its own.

Usage:
    tools/newest_pythons.py FOLDER

Needs root, debootstrap and gigabytes. The folder is filled once, from the mirror that apt is configured with; the files that
git tracks are copied into it each time, and `make test-pythons` runs there by chroot.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MINORS = (14, 15)
SUITE = "sid"
TREE = "isthmus"
#: How the machine reaches a network, where it says so: the mirrors of packages inside are those outside.
SETTINGS = [
    Path("/etc/resolv.conf"),
    Path("/etc/pip.conf"),
    Path.home() / ".config/pip/pip.conf",
    Path.home() / ".pip/pip.conf",
]


def packages() -> list[str]:
    pythons = [f"python3.{minor}{part}" for minor in MINORS for part in ("", "-dev", "-venv")]
    return ["ca-certificates", "cmake", "g++", "git", "make", "ninja-build", "python3", *pythons]


def mirror() -> str:
    """The first mirror of Debian's that apt knows."""
    shown = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)"], capture_output=True, text=True, check=True)
    known = [line for line in shown.stdout.split() if "security" not in line]
    if not known:
        sys.exit("apt is configured with no mirror")
    return known[0]


def fill(folder: Path) -> None:
    if (folder / "usr" / "bin" / f"python3.{MINORS[-1]}").exists():
        return
    command = ["debootstrap", "--variant=minbase", f"--include={','.join(packages())}", SUITE, str(folder), mirror()]
    subprocess.run(command, check=True)


def copy_settings(folder: Path) -> None:
    named = [Path(os.environ[name]) for name in ("PIP_CERT", "SSL_CERT_FILE", "PIP_CONFIG_FILE") if os.environ.get(name)]
    for path in SETTINGS + named:
        if path.is_file():
            inside = folder / path.relative_to("/")
            inside.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, inside)


def copy_tree(folder: Path) -> Path:
    """Environments and builds of earlier runs stay in the copy."""
    copy = folder / TREE
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    return copy


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    folder = parser.parse_args().folder.resolve()
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        sys.exit("newest_pythons.py needs root and debootstrap")
    fill(folder)
    copy_settings(folder)
    copy_tree(folder)
    return subprocess.run(["chroot", str(folder), "make", "-C", f"/{TREE}", "test-pythons"]).returncode


if __name__ == "__main__":
    sys.exit(main())
