#!/usr/bin/env python3
"""Test Isthmus for other systems as far as this machine can: syntax with a cross compiler, programs under an emulator.

Usage:
    tools/test_platforms.py [--build DIR] [--list] [PART ...]

Without names every part is tried. One whose tools are missing is skipped, with a word on how to get them.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import foreign_python
import run_tests

ROOT = run_tests.ROOT
INCLUDE = ROOT / "include"
#: What makes one source of headers and library.
BODIES = "-DISTHMUS_IMPLEMENTATION"
CONSUMER = ROOT / "tests" / "install" / "consumer"
EIGEN = tuple(Path(root) / "include" / "eigen3" for root in ("/usr", "/usr/local", "/opt/homebrew"))
LIMIT = 3600  # seconds for one command: several times what a slow machine takes
#: What unpack_packages() needs.
APT_TOOLS = "expected are Debian's or Ubuntu's own tools, and a mirror"
WARNINGS = ("-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Werror")
#: What is run of the bridge under an emulator, by one call of pytest each, but for what NOT_UNDER_QEMU names.
BRIDGE_TESTS = ("tests/python", "tests/casters", "tests/life")
#: The modules that these tests import, as CMake names them.
BRIDGE_TARGETS = (
    "isthmus_module",
    "isthmus_test_ext",
    "isthmus_torch_stable_ext",
    "isthmus_nanobind_test_ext",
    "isthmus_pybind11_test_ext",
)
#: Files and tests, and why an emulator cannot run them.
NOT_UNDER_QEMU = {
    "tests/python/test_export_cost.py::test_no_memory_is_touched_or_added": (
        "its size is qemu's, with 24 bytes for a page"
    ),
}
#: A compiler for another system on this one. What tests take from its Python (where libraries are) is meant below its
#: root, and this machine's kernel runs the programs that it links by way of a script alone.
FOREIGN_COMPILER = """#!/bin/sh
for word; do
  shift
  case $word in {libraries}/*) word={root}$word;; esac
  [ "$last" = -o ] && made=$word
  last=$word
  set -- "$@" "$word"
done
{compiler} "$@" -idirafter {root}/usr/include -Wl,-rpath-link,{root}{libraries}:{root}/lib/{triple} || exit
case $made in "" | *.o | *.so | *.so.*) exit;; esac
[ -x "$made" ] || exit 0
binary=$(realpath "$made").elf  # by its whole name: the script may be moved
mv "$made" "$binary"
cat >"$made" <<END
#!/bin/sh
exec {emulator} "$binary" "\\$@"
END
chmod +x "$made"
"""
#: Headers that need neither Python nor another library.
CORE = (
    "isthmus.h",
    "core/**/*.h",
    "shared.h",
    "shared/*.h",
    "load.h",
    "load/*.h",
    "c/*.h",
    "small_floats.h",
    "visit.h",
    "converted.h",
)
BRIDGE = ("python.h", "python/**/*.h", "op.h", "fields.h", "records.h", "tree.h", "module.h", "array_like.h", "owned.h")


class Missing(Exception):
    """What a part needs and this machine lacks, and how to get it."""


class Failed(Exception):
    """What a command of a part had to say."""


def run(*command: object, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=LIMIT, cwd=ROOT,
                          env={**os.environ, **(environment or {})}, check=False)  # fmt: skip
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command))}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def program(how_to_get: str, *names: str) -> str:
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        raise Missing(f"no {names[0]}; {how_to_get}")
    return found


def zig() -> tuple[str, ...]:
    if importlib.util.find_spec("ziglang"):
        return (sys.executable, "-m", "ziglang")
    return (program("pip install ziglang", "zig"),)


def front_end(compiler: tuple[str, ...], *arguments: object, environment: dict[str, str] | None = None) -> list[str]:
    """The command that looks at a source as far as mistakes and warnings are found,
    in half the time of compiling it."""
    if "c++" not in compiler[1:]:
        return [*map(str, (*compiler, "-fsyntax-only", *arguments))]
    # `zig c++` fails where there is no object file in the end; the command of its Clang alone does not.
    said = subprocess.run(
        [*map(str, (*compiler, "-c", "-fsyntax-only", "-###", *arguments))], capture_output=True, text=True,
        timeout=LIMIT, cwd=ROOT, env={**os.environ, **(environment or {})}, check=False,
    ).stderr  # fmt: skip
    commands = [line for line in said.splitlines() if '"-cc1"' in line]
    if len(commands) != 1:
        raise Failed(f"{' '.join(compiler)} does not tell the command of its Clang\n{said[-4000:]}")
    return shlex.split(commands[0])


def dlpack() -> Path:
    """The folder of dlpack/dlpack.h that the package apache-tvm-ffi has."""
    spec = importlib.util.find_spec("tvm_ffi")
    for place in spec.submodule_search_locations or () if spec else ():
        if (Path(place) / "include" / "dlpack" / "dlpack.h").is_file():
            return Path(place) / "include"
    raise Missing("no dlpack/dlpack.h; pip install apache-tvm-ffi")


def headers(patterns: tuple[str, ...]) -> list[str]:
    folder = INCLUDE / "isthmus"
    return [str(path.relative_to(INCLUDE)) for pattern in patterns for path in sorted(folder.glob(pattern))]


def compile_for(compiler: tuple[str, ...], python: str, work: Path, text: str, *flags: str) -> None:
    """One source for a system whose pyconfig.h is that of `python`, without code for it."""
    work.mkdir(parents=True, exist_ok=True)
    try:
        folder = foreign_python.make_headers(work, python)
    except FileNotFoundError as error:
        raise Missing(f"{error}; Debian, Ubuntu: apt install python3-dev") from None
    caches = {"ZIG_GLOBAL_CACHE_DIR": str(work / "zig"), "ZIG_LOCAL_CACHE_DIR": str(work / "zig")}
    source = work / "source.cpp"
    # What Isthmus declares of Windows in place of windows.h must be the same as there.
    source.write_text(text + ("#include <windows.h>\n" if python == "windows" else ""))
    run(*front_end(compiler, "-std=c++20", *WARNINGS, *flags, source, f"-I{INCLUDE}", f"-isystem{dlpack()}",
                   f"-isystem{folder}", environment=caches), environment=caches)  # fmt: skip


def check_syntax(compiler: tuple[str, ...], python: str, work: Path) -> None:
    """Every header that needs no other library, and the bodies."""
    for patterns, body in ((CORE, "core_program.cpp"), (BRIDGE, "module.cpp")):
        lines = [f"#include <{header}>\n" for header in headers(patterns)]
        compile_for(compiler, python, work, "".join(lines) + f'#include "{CONSUMER / body}"\n', BODIES)


def package(name: str) -> Path:
    """The folder of a Python package that has C++ headers."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise Missing(f"no {name}; pip install {name}")
    return Path(spec.submodule_search_locations[0])


def eigen() -> Path:
    """The folder of Eigen's headers, which are the same for every system."""
    found = next((place for place in EIGEN if (place / "Eigen" / "Core").is_file()), None)
    if found is None:
        raise Missing("no Eigen; Debian, Ubuntu: apt install libeigen3-dev")
    return found


def check_casters(binder: str, compiler: tuple[str, ...], python: str, work: Path) -> None:
    """The casters of one binder, by the module that its own tests use."""
    module = ROOT / "tests" / "casters" / "ext" / f"{binder}_module.cpp"
    compile_for(compiler, python, work, f'#include "{module}"\n', f"-isystem{package(binder) / 'include'}",
                f"-DISTHMUS_CASTER_MODULE={binder}_module")  # fmt: skip


def check_adapters(compiler: tuple[str, ...], python: str, work: Path) -> None:
    """The adapters of what has no part for each system: Eigen's headers, and the standard library's mdspan."""
    compile_for(
        compiler, python, work, "#include <isthmus/eigen.h>\n#include <isthmus/eigen_tensor.h>\n", f"-isystem{eigen()}"
    )
    compile_for(compiler, python, work, "#include <isthmus/mdspan.h>\n", "-std=c++23")


def check_packaged_adapters(compiler: tuple[str, ...], python: str, work: Path) -> None:
    """The adapters of xtensor and OpenCV, with the distribution's packages of their headers."""
    architecture = run(program(APT_TOOLS, "dpkg"), "--print-architecture").strip()
    include = unpack_packages(work, architecture, "libxtensor-dev", "libopencv-core-dev") / "usr" / "include"
    compile_for(compiler, python, work, "#include <isthmus/xtensor.h>\n", f"-isystem{include}")
    made = include.glob("*/opencv4")  # cvconfig.h, which the build of this architecture wrote
    # <cfloat> first: after <vector>, zig's for macOS leaves out the FLT_MAX that OpenCV's headers want.
    source = "#include <cfloat>\n#include <isthmus/opencv.h>\n"
    folders = (include / "opencv4", *made)
    compile_for(compiler, python, work, source, *(f"-isystem{folder}" for folder in folders))


def pip_for(tags: tuple[str, ...], python: str, command: str, *arguments: object) -> None:
    """A command of pip's, with wheels for these platforms and this version of CPython."""
    try:
        run(sys.executable, "-m", "pip", command, "--quiet", "--disable-pip-version-check", "--only-binary=:all:",
            *(f"--platform={tag}" for tag in tags), "--implementation=cp", f"--python-version={python}",
            *arguments)  # fmt: skip
    except Failed as failed:
        raise Missing(f"no wheel of {arguments[-1]} for {tags[0]}; expected is a network\n{failed}") from None


def torch_include(work: Path, tags: tuple[str, ...]) -> Path:
    """The headers in PyTorch's wheel for these platforms, in the version of requirements/tested.txt."""
    folder = work / "torch" / "include"
    if folder.is_dir():
        return folder
    wanted = re.search(r"^torch==[^;\s]+", (ROOT / "requirements" / "tested.txt").read_text(), re.MULTILINE)
    if wanted is None:
        raise Failed("requirements/tested.txt names no version of torch")
    wheels, unpacked = work / "wheels", work / "unpacked"
    pip_for(tags, "3.11", "download", "--no-deps", "--dest", wheels, wanted[0])
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked, [name for name in archive.namelist() if name.startswith("torch/include/")])
    shutil.rmtree(wheels)
    (unpacked / "torch").rename(work / "torch")
    return folder


def check_torch(tags: tuple[str, ...], compiler: tuple[str, ...], python: str, work: Path) -> None:
    """isthmus/torch.h, by the module that its own tests use."""
    work.mkdir(parents=True, exist_ok=True)
    include = torch_include(work, tags)
    module = ROOT / "tests" / "torch" / "module.cpp"
    compile_for(compiler, python, work, f'#include "{module}"\n', "-fvisibility=hidden", BODIES, f"-isystem{include}",
                f"-isystem{include / 'torch' / 'csrc' / 'api' / 'include'}")  # fmt: skip


@dataclass(frozen=True)
class Target:
    """A system that programs can be built for here, and how they are run."""

    system: str
    compiler: Callable[[], tuple[str, ...]]
    emulator: Callable[[], tuple[str, ...]]
    flags: tuple[str, ...] = ()


def cross(triple: str, package: str) -> Callable[[], tuple[str, ...]]:
    # mingw-w64's compiler comes with two models of threads; the standard library has threads with one of them.
    return lambda: (program(f"Debian, Ubuntu: apt install {package}", f"{triple}-g++-posix", f"{triple}-g++"),)


def qemu(machine: str, triple: str) -> Callable[[], tuple[str, ...]]:
    def emulator() -> tuple[str, ...]:
        found = program("Debian, Ubuntu: apt install qemu-user-static", f"qemu-{machine}-static", f"qemu-{machine}")
        return (found, "-L", f"/usr/{triple}")

    return emulator


def wine() -> tuple[str, ...]:
    return (program("Debian, Ubuntu: apt install wine64", "wine64", "wine", "/usr/lib/wine/wine64"),)


TARGETS = {
    "aarch64": Target(
        "Linux", cross("aarch64-linux-gnu", "g++-aarch64-linux-gnu"), qemu("aarch64", "aarch64-linux-gnu")
    ),
    "s390x": Target("Linux", cross("s390x-linux-gnu", "g++-s390x-linux-gnu"), qemu("s390x", "s390x-linux-gnu")),
    "windows": Target("Windows", cross("x86_64-w64-mingw32", "g++-mingw-w64-x86-64-posix"), wine, ("-static",)),
    "musl": Target("Linux", lambda: (*zig(), "c++", "-target", "x86_64-linux-musl"), tuple),  # zig first builds libc++
}


def run_in(target: Target, work: Path, binary: Path, *arguments: str) -> str:
    settings = {"WINEPREFIX": str(work.resolve() / "wine"), "WINEDEBUG": "-all"} if target.system == "Windows" else {}
    return run(*target.emulator(), binary, *arguments, environment=settings)


def check_program(target: Target, work: Path) -> None:
    """A program of a user's, in a second."""
    work.mkdir(parents=True, exist_ok=True)
    target.emulator()
    binary = work / "core_program.exe"
    run(*target.compiler(), "-std=c++20", *WARNINGS, *target.flags, BODIES, f"-I{INCLUDE}", f"-isystem{dlpack()}",
        CONSUMER / "core_program.cpp", "-o", binary)  # fmt: skip
    said = run_in(target, work, binary)
    if said.split() != ["float32", "5"]:
        raise Failed(f"{binary.name} said {said!r}; expected 'float32 5'")


def for_c(compiler: tuple[str, ...]) -> tuple[str, ...]:
    """The compiler of C that came with this one of C++: CMake refuses that of C++ in its place."""
    return tuple(re.sub(r"\bg\+\+(?=$|-posix$)", "gcc", "cc" if word == "c++" else word) for word in compiler)


def launcher(script: Path, *words: object) -> Path:
    """A program that runs these words with its arguments."""
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(f'#!/bin/sh\nexec {shlex.join(map(str, words))} "$@"\n')
    script.chmod(0o755)
    return script


def driver(compiler: tuple[str, ...], script: Path) -> Path:
    """A compiler of several words as one program, as CMake wants it."""
    return Path(compiler[0]) if len(compiler) == 1 else launcher(script, *compiler)


def check_core(target: Target, work: Path) -> None:
    """The tests of the core, all of them."""
    work.mkdir(parents=True, exist_ok=True)
    target.emulator()
    options = {
        "CMAKE_SYSTEM_NAME": target.system,
        "CMAKE_CXX_COMPILER": driver(target.compiler(), work / "compiler"),
        "CMAKE_C_COMPILER": driver(for_c(target.compiler()), work / "compiler-c"),
        "CMAKE_EXE_LINKER_FLAGS": " ".join(target.flags),
        "CMAKE_BUILD_TYPE": "None",
        "CMAKE_DISABLE_FIND_PACKAGE_GTest": "ON",  # this machine's is for this machine
        "ISTHMUS_DLPACK_INCLUDE_DIR": dlpack(),
        "Python_EXECUTABLE": sys.executable,
        "ISTHMUS_BUILD_TESTS": "ON",
        **dict.fromkeys(("ISTHMUS_PYTHON", "ISTHMUS_BUILD_C", "ISTHMUS_CHECK_HEADERS", "ISTHMUS_INSTALL"), "OFF"),
    }
    folder = work / "core"
    run("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", *(f"-D{key}={value}" for key, value in options.items()))
    run("cmake", "--build", folder, "-j", os.cpu_count(), "--target", "isthmus_core_tests")
    binary = folder / ("isthmus_core_tests" + (".exe" if target.system == "Windows" else ""))
    print(run_in(target, work, binary, "--gtest_brief=1").strip().splitlines()[-1], flush=True)


def unpack_packages(work: Path, architecture: str, *names: str) -> Path:
    """The root of the distribution's packages and of what they need, unpacked and not installed: apt is told of the
    architecture, in a state of its own, with this system's sources."""
    root = work / "root"
    if root.is_dir():
        return root
    apt, dpkg = program(APT_TOOLS, "apt-get"), program(APT_TOOLS, "dpkg")
    state = work / "apt"
    for folder in ("lists/partial", "cache/archives/partial"):
        (state / folder).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    options = {
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "Dir::State": state,
        "Dir::State::status": state / "status",
        "Dir::Cache": state / "cache",
    }
    settings = state / "apt.conf"
    settings.write_text("".join(f'{key} "{value}";\n' for key, value in options.items()))
    for command in (("update",), ("install", "--download-only", "--yes", "--no-install-recommends", *names)):
        try:
            run(apt, *command, environment={"APT_CONFIG": str(settings)})
        except Failed as failed:
            raise Missing(f"no packages of {architecture}; {APT_TOOLS} that has {architecture}\n{failed}") from None
    unpacked = work / "unpacked"  # under its own name when it is whole
    for archive in (state / "cache" / "archives").glob("*.deb"):
        run(dpkg, "-x", archive, unpacked)
    return unpacked.rename(root)


def arm64_python(work: Path) -> Path:
    """The root of the distribution's CPython for arm64."""
    return unpack_packages(work, "arm64", "python3-dev", "libstdc++6")


def arm64_packages(work: Path, python: str) -> Path:
    """The wheels of requirements/bridge-aarch64.txt for aarch64 and this "python3.N"."""
    wanted = ROOT / "requirements" / "bridge-aarch64.txt"
    folder = work / f"site-{python}"
    stamp = folder / wanted.name
    if stamp.is_file() and stamp.read_text() == wanted.read_text():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    tags = tuple(f"manylinux_{name}_aarch64" for name in ("2_28", "2_27", "2_17"))
    pip_for(tags, python.removeprefix("python"), "install", "--upgrade", "--target", folder, "-r", wanted)
    shutil.copy(wanted, stamp)
    return folder


def arm64_emulator(target: Target, root: Path) -> tuple[str, ...]:
    return (target.emulator()[0], "-L", str(root))


def arm64_compilers(target: Target, root: Path, folder: Path) -> dict[str, str]:
    """The compilers that tests call, by their usual names in a folder of their own,
    and the variables that name them."""
    triple = "aarch64-linux-gnu"
    commands = {"c++": target.compiler(), "cc": for_c(target.compiler())}
    if clang := shutil.which("clang++"):
        commands["clang++"] = (clang, f"--target={triple}", "-Wno-unused-command-line-argument")
    for name, command in commands.items():
        text = FOREIGN_COMPILER.format(
            compiler=shlex.join(command),
            emulator=shlex.join(arm64_emulator(target, root)),
            libraries=f"/usr/lib/{triple}",
            root=shlex.quote(str(root)),
            triple=triple,
        )
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return {"CXX": str(folder / "c++"), "CC": str(folder / "cc"), "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def arm64_modules(
    target: Target, root: Path, python: Path, include: Path, settings: dict[str, str], work: Path
) -> tuple[Path, Path]:
    """The folder of the package isthmus as it is installed, and that of the modules that its tests import."""
    build, installed = work / "modules", work / "installed"
    options = {
        "CMAKE_SYSTEM_NAME": target.system,
        "CMAKE_CXX_COMPILER": target.compiler()[0],
        "CMAKE_C_COMPILER": for_c(target.compiler())[0],
        # The C library's headers are the compiler's own: of the distribution's, only Python's pyconfig.h is wanted.
        "CMAKE_CXX_FLAGS": f"-O1 -idirafter {root / 'usr' / 'include'}",
        "CMAKE_BUILD_TYPE": "None",
        "ISTHMUS_DLPACK_INCLUDE_DIR": dlpack(),
        "Python_EXECUTABLE": python,
        "Python_INCLUDE_DIR": include,
        **dict.fromkeys(("ISTHMUS_BUILD_TESTS", "ISTHMUS_BUILD_PACKAGE", "ISTHMUS_WHEEL_LAYOUT"), "ON"),
        **dict.fromkeys(("ISTHMUS_BUILD_C", "ISTHMUS_CHECK_HEADERS", "ISTHMUS_GTEST"), "OFF"),
    }
    for command in (
        ("-S", ROOT, "-B", build, "-G", "Ninja", *(f"-D{key}={value}" for key, value in options.items())),
        ("--build", build, "-j", os.cpu_count(), "--target", *BRIDGE_TARGETS),
        ("--install", build, "--prefix", installed),
    ):
        run("cmake", *command, environment=settings)
    return installed, build / "ext"


def check_bridge_aarch64(work: Path) -> None:
    """The Python tests of the bridge, the casters and the edges of life, by an arm64 CPython under qemu: with the
    package and the test modules compiled for it here, and the cross compiler for what tests compile."""
    target = TARGETS["aarch64"]
    target.emulator()
    target.compiler()
    root = arm64_python(work)
    real = (root / "usr" / "bin" / "python3").resolve()
    site = arm64_packages(work, real.name)
    # sys.executable, which tests start processes with, has to be a name that this machine can run.
    name = work / "bin" / "python3"
    python = launcher(name, *arm64_emulator(target, root), "-0", name, real)
    settings = {
        "PYTHONHOME": str(root / "usr"),
        "PYTHONPATH": str(site),
        "PYTHONPYCACHEPREFIX": str(work / "pycache"),
    }
    folders = arm64_modules(target, root, python, root / "usr" / "include" / real.name, settings, work)
    settings["PYTHONPATH"] = os.pathsep.join(map(str, (site, *folders)))
    settings |= arm64_compilers(target, root, name.parent)
    left_out = [f"--{'deselect' if '::' in test else 'ignore'}={test}" for test in NOT_UNDER_QEMU]
    for tests in BRIDGE_TESTS:
        said = run(python, "-m", "pytest", "-q", "-n", os.cpu_count(), "-p", "no:cacheprovider", "-o", "pythonpath=",
                   "-o", "faulthandler_timeout=0", *left_out, tests, environment=settings)  # fmt: skip
        print(f"{tests}: {said.strip().splitlines()[-1].strip('= ')}", flush=True)


@dataclass(frozen=True)
class Part:
    what: str
    check: Callable[[Path], None]


@dataclass(frozen=True)
class Syntax:
    """A system that is compiled for and not run, and whose pyconfig.h it has."""

    what: str
    compiler: Callable[[], tuple[str, ...]]
    python: str

    def part(self, what: str, check: Callable[[tuple[str, ...], str, Path], None]) -> Part:
        return Part(f"{what} for {self.what}", lambda work: check(self.compiler(), self.python, work))


def clang(target: str) -> Callable[[], tuple[str, ...]]:
    return lambda: (*zig(), "c++", "-target", target)


SYNTAX = {
    "macos": Syntax("macOS arm64, Clang", clang("aarch64-macos"), "posix"),
    "windows": Syntax("Windows x64, Clang", clang("x86_64-windows-gnu"), "windows"),
    "windows-gcc": Syntax("Windows x64, GCC (MinGW)", TARGETS["windows"].compiler, "windows"),
    "aarch64": Syntax("Linux aarch64, GCC", TARGETS["aarch64"].compiler, "posix"),
    "musl": Syntax("Linux with musl, Clang", clang("x86_64-linux-musl"), "posix"),
}
#: The platforms of PyTorch's wheels, by the system whose compiler takes its headers.
TORCH_WHEELS = {"macos": ("macosx_14_0_arm64",), "aarch64": ("manylinux_2_28_aarch64",)}
#: All that is tried, the cheap ones first.
PARTS = {
    **{f"syntax-{name}": system.part("core and bridge", check_syntax) for name, system in SYNTAX.items()},
    **{
        f"{binder}-{name}": SYNTAX[name].part(f"the casters of {binder}", partial(check_casters, binder))
        for binder in ("nanobind", "pybind11")
        for name in ("macos", "windows")
    },
    **{
        f"adapters-{name}": SYNTAX[name].part("the adapters of Eigen and std::mdspan", check_adapters)
        for name in ("macos", "windows")
    },
    **{
        f"packaged-adapters-{name}": SYNTAX[name].part("the adapters of xtensor and OpenCV", check_packaged_adapters)
        for name in ("macos", "windows")
    },
    **{
        f"torch-{name}": SYNTAX[name].part("isthmus/torch.h", partial(check_torch, tags))
        for name, tags in TORCH_WHEELS.items()
    },
    **{
        f"program-{name}": Part(f"a program of the core, run for {name}", partial(check_program, target))
        for name, target in TARGETS.items()
    },
    **{
        f"core-{name}": Part(f"the tests of the core, run for {name}", partial(check_core, target))
        for name, target in TARGETS.items()
    },
    "bridge-aarch64": Part("the Python tests of the bridge and the package, run for aarch64", check_bridge_aarch64),
}
#: What runs with every test run: the systems that nobody here works on, and the other byte order.
CHEAP = ("syntax-macos", "syntax-windows", "program-s390x")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="all, where none is named")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "platforms")
    parser.add_argument("--list", action="store_true", help="name the parts and end")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.parts if name not in PARTS]:
        parser.error(f"no part {unknown[0]!r}; there are: {', '.join(PARTS)}")
    if arguments.list:
        print("\n".join(f"{name:26} {part.what}" for name, part in PARTS.items()))
        return 0
    total, words = run_tests.Counts(), {}
    for name in arguments.parts or PARTS:
        start = time.monotonic()
        try:
            PARTS[name].check(arguments.build.resolve() / name)
            total += run_tests.Counts(passed=1)
            words[name] = f"passed in {time.monotonic() - start:.0f} s"
        except Missing as missing:
            total += run_tests.Counts(skipped=1)
            words[name] = f"not run: {missing}"
        except (Failed, subprocess.TimeoutExpired) as failed:
            total += run_tests.Counts(failed=1)
            words[name] = "failed"
            print(failed, flush=True)
        print(f"[isthmus] {name} ({PARTS[name].what}): {words[name]}", flush=True)
    print("[isthmus] macOS itself and Microsoft's own headers cannot be had on another system: run the suite there")
    print(total)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
