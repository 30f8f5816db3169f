#!/usr/bin/env python3
"""Run the lite suite on CPythons newer than the machine's: those of Debian's unstable distribution,
in a folder of its own.

Usage:
    tools/newest_pythons.py FOLDER [VERSION ...]    for example 3.15 3.14, in this order; without versions all of them

Needs root, debootstrap and gigabytes. The folder is filled once, from the mirror that apt is configured with; the files
that git tracks are copied into it each time, and `make test-pythons` runs there by chroot, with /proc. The mounts are
in a namespace of their own: they go with the last process in it, whatever ends it.
"""

from __future__ import annotations

import argparse
import filecmp
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
    shown = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)"], capture_output=True, text=True, check=True
    )
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
    named = [
        Path(os.environ[name]) for name in ("PIP_CERT", "SSL_CERT_FILE", "PIP_CONFIG_FILE") if os.environ.get(name)
    ]
    for path in SETTINGS + named:
        if path.is_file():
            inside = folder / path.relative_to("/")
            inside.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, inside)


def copy_tree(folder: Path) -> Path:
    """Environments and builds of earlier runs stay in the copy, and the times of files that are as they were."""
    copy = folder / TREE
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    tracked = {name for name in listed.split("\0") if name and (ROOT / name).is_file()}
    for top in copy.glob("*"):
        if top.name != "build" and not top.name.startswith(".venv"):
            for path in [top, *top.rglob("*")]:
                if path.is_file() and str(path.relative_to(copy)) not in tracked:
                    path.unlink()
    for name in tracked:
        source, target = ROOT / name, copy / name
        if not target.is_file() or not filecmp.cmp(source, target, shallow=False):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    return copy


def inside(folder: Path, *command: str) -> list[str]:
    """The command in the folder, with /proc: without it the library does not know how much memory there is."""
    mount = "" if os.path.ismount(folder / "proc") else 'mount -t proc proc "$1/proc"; '
    return ["unshare", "--mount", "sh", "-ec", f'{mount}exec chroot "$@"', "sh", str(folder), *command]


def check_mounts(folder: Path) -> None:
    tried = subprocess.run(inside(folder, "true"), capture_output=True, text=True)
    if tried.returncode:
        sys.exit(
            f"newest_pythons.py cannot mount /proc in {folder} (a container needs CAP_SYS_ADMIN): "
            f"{tried.stderr.strip()}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("versions", nargs="*", metavar="VERSION")
    options = parser.parse_args()
    folder = options.folder.resolve()
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        sys.exit("newest_pythons.py needs root and debootstrap")
    fill(folder)
    check_mounts(folder)
    copy_settings(folder)
    copy_tree(folder)
    chosen = f"PYTHONS={' '.join(options.versions)}"
    return subprocess.run(inside(folder, "make", "-C", f"/{TREE}", "test-pythons", chosen)).returncode


if __name__ == "__main__":
    sys.exit(main())
