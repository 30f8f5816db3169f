"""The command line: ``isthmus`` or ``python -m isthmus``."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence

import isthmus

from . import _live_command, bench, doctor, new, probe
from .paths import packed_relocations


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="isthmus",
        description="Tensors that cross between frameworks, and between Python and C++, without being copied.",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--includes", action="store_true", help="print the -I options that an extension needs, and end")
    where.add_argument("--cflags", action="store_true", help="print what the compiler of an extension is told, and end")
    where.add_argument("--ldflags", action="store_true", help="print what its linker is told, and end")
    where.add_argument("--cmakedir", action="store_true", help="print the folder for CMake's isthmus_DIR, and end")
    parser.add_argument("--abi3", action="store_true", help="with --cflags: for one file that every Python loads")
    parser.add_argument("--backend", action="store_true", help="the same for one Python, which pybind11 needs")
    where.add_argument("--version", action="version", version=isthmus.__version__)
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    probe.add_command(commands)
    bench.add_command(commands)
    doctor.add_command(commands)
    new.add_command(commands)
    _live_command.add_command(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        if options.includes:
            print(shlex.join(f"-I{folder}" for folder in isthmus.get_includes()))
        elif options.cflags:
            print(shlex.join(isthmus.get_cflags(abi3=options.abi3, backend=options.backend)))
        elif options.ldflags:
            print(shlex.join([*isthmus.get_ldflags(), *packed_relocations()]))
        elif options.cmakedir:
            print(isthmus.get_cmake_dir())
        elif options.command:
            return int(options.run(options))
        else:
            parser.print_help()
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader (head, less) has seen enough.
        sys.stderr.close()
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
