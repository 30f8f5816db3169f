# SPDX-License-Identifier: Apache-2.0
"""Builds the peers' modules under build/bench, once per state of their sources; a peer that does not build says why."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / "benchmarks" / "peers"
OUT = ROOT / "build" / "bench"
MODULES = OUT / "modules"
SUFFIX: str = sysconfig.get_config_var("EXT_SUFFIX")
OPTIMISE = ["-O2", "-DNDEBUG", "-fPIC", "-fvisibility=hidden"]
# What nanobind's own CMake functions give a module, and isthmus::python too: what is not called is left out.
SECTIONS = ["-ffunction-sections", "-fdata-sections"]
DROP_UNUSED = "-Wl,--gc-sections"


@dataclass
class Built:
    """A module that can be imported from MODULES, or the reason why not."""

    name: str
    version: str = ""
    why_not: str = ""
    path: Path | None = None


@dataclass
class Library:
    """Sources that a project compiles once, beside the files of its modules."""

    sources: list[Path]
    flags: list[str]
    depends: list[Path] = field(default_factory=list)


@dataclass
class Recipe:
    """How one file of C or C++ becomes a module: enough to compile it here, and to time its compiler elsewhere."""

    sources: list[Path]
    flags: list[str] = field(default_factory=list)
    link: list[str] = field(default_factory=list)
    depends: list[Path] = field(default_factory=list)
    suffix: str = ""
    libraries: list[Library] = field(default_factory=list)


class Unavailable(Exception):
    """Why a peer cannot be built here."""

    def is_mistake(self) -> bool:
        """Whether all that it needs is there, and it does not compile."""
        return MISTAKE in str(self)


MISTAKE = "does not build"


def compiler(source: Path) -> str:
    wanted = os.environ.get("CC", "cc") if source.suffix == ".c" else os.environ.get("CXX", "c++")
    if shutil.which(wanted) is None:
        raise Unavailable(f"no compiler called {wanted}")
    return wanted


def package_folder(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise Unavailable(f"the Python package {name} is not installed")
    return Path(spec.origin).parent


def package_version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def dlpack_include() -> str:
    return str(package_folder("tvm_ffi") / "include")


def python_include() -> str:
    return "-I" + sysconfig.get_path("include")


def isthmus_version() -> str:
    text = (ROOT / "include/isthmus/core/config.h").read_text()
    found = re.search(r'ISTHMUS_VERSION "([^"]+)"', text)
    return found.group(1) if found else ""


def floor_recipe() -> Recipe:
    numpy = package_folder("numpy")
    include = numpy / "_core" / "include"
    if not include.is_dir():
        include = numpy / "core" / "include"
    return Recipe(
        sorted((PEERS / "floor").glob("*.c")), ["-std=c11", f"-I{dlpack_include()}", f"-I{include}"], ["-ldl"]
    )


def isthmus_library() -> Library:
    """What isthmus::python compiles: at -O2, whatever its user chose."""
    units = sorted(unit for unit in (ROOT / "src").glob("*.cpp") if unit.name != "torch.cpp")
    return Library(
        units, [*isthmus_flags(), "-O2", *flags_of_gcc()], sorted([*headers(), *(ROOT / "src").rglob("*.*")])
    )


def flags_of_gcc() -> list[str]:
    """What CMake tells GCC of the library for a smaller module."""
    version = subprocess.run([compiler(Path("x.cpp")), "--version"], capture_output=True, text=True, check=False).stdout
    text = (ROOT / "cmake/isthmusLibraries.cmake").read_text()
    found = re.search(r'STREQUAL "GNU"\).*?PRIVATE ([^)]*)\)', text, re.DOTALL)
    return found.group(1).split() if found and "Free Software Foundation" in version else []


def isthmus_flags() -> list[str]:
    return ["-std=c++20", f"-I{ROOT / 'include'}", f"-I{dlpack_include()}"]


def headers() -> list[Path]:
    return sorted((ROOT / "include").rglob("*.h"))


def isthmus_recipe() -> Recipe:
    library = isthmus_library()
    return Recipe([PEERS / "isthmus/module.cpp"], isthmus_flags(), ["-ldl"], headers(), libraries=[library])


def isthmus_with_nanobind_recipe() -> Recipe:
    return with_binder(isthmus_recipe(), nanobind_recipe())


def abi3_recipe() -> Recipe:
    """A module of the stable ABI: the bridge is the installed package's."""
    flags = [*isthmus_flags(), "-DISTHMUS_BACKEND", "-DISTHMUS_ABI3", "-DMODULE=bench_isthmus_abi3"]
    package_folder("isthmus")
    return Recipe([PEERS / "isthmus/module.cpp"], flags, depends=headers())


def nanobind_split_recipe() -> Recipe:
    """nanobind in split mode, as nanobind_add_module(BACKEND_MODULE nanobind_backend) compiles it."""
    if int(package_version("nanobind").split(".")[0]) < 3:
        raise Unavailable("nanobind before 3.0 has no split mode")
    told = ["-DNB_BACKEND_MODULE=nanobind_backend", "-DNB_BACKEND_PYPI=nanobind-backend"]
    flags = ["-std=c++17", f"-I{package_folder('nanobind') / 'include'}", *told, "-DPy_LIMITED_API=0x030A0000"]
    return Recipe([PEERS / "nanobind/module.cpp"], flags)


def abi3_with_nanobind_recipe() -> Recipe:
    return with_binder(abi3_recipe(), nanobind_split_recipe())


def header_only_recipe() -> Recipe:
    recipe = isthmus_recipe()
    flags = [*recipe.flags, "-DISTHMUS_IMPLEMENTATION", "-DMODULE=bench_isthmus_header_only"]
    return replace(recipe, flags=flags, depends=recipe.libraries[0].depends, libraries=[])


def operator_recipe() -> Recipe:
    return replace(isthmus_recipe(), sources=[PEERS / "isthmus_operator/module.cpp"])


def cython_recipe() -> Recipe:
    """Cython writes the C file first, into the folder of the builds."""
    package_folder("Cython")
    source = OUT / "cython" / "bench_cython.c"
    source.parent.mkdir(parents=True, exist_ok=True)
    pyx = PEERS / "cython/module.pyx"
    run(
        [sys.executable, "-m", "cython", "-3", str(pyx), "-o", str(source), "--module-name", "bench_cython"],
        OUT / "cython.log",
    )
    return Recipe([source], ["-std=c11"], depends=[pyx])


def xla_ffi_recipe() -> Recipe:
    return Recipe([PEERS / "xla_ffi/module.cpp"], ["-std=c++17", f"-I{package_folder('jaxlib') / 'include'}"])


def nanobind_recipe() -> Recipe:
    home = package_folder("nanobind")
    flags = ["-std=c++17", f"-I{home / 'include'}", f"-I{home / 'ext/robin_map/include'}", "-fno-strict-aliasing"]
    return Recipe([PEERS / "nanobind/module.cpp"], flags, libraries=[Library([home / "src/nb_combined.cpp"], flags)])


def pybind11_recipe() -> Recipe:
    return Recipe([PEERS / "pybind11/module.cpp"], ["-std=c++17", f"-I{package_folder('pybind11') / 'include'}"])


def day_recipe(binder: Recipe, module: str, optimise: list[str]) -> Recipe:
    """A binder's module with Isthmus's casters beside its own types, at the flags that the binder's CMake function
    gives."""
    recipe = with_binder(isthmus_recipe(), binder)
    libraries = [replace(library, flags=[*optimise, *library.flags]) for library in recipe.libraries]
    depends = [*recipe.depends, PEERS / "day.h"]
    flags = [*optimise, *recipe.flags]
    return replace(recipe, sources=[PEERS / module], flags=flags, depends=depends, libraries=libraries)


def with_binder(ours: Recipe, binder: Recipe) -> Recipe:
    """A module with Isthmus's casters: what both want of the compiler, and the libraries of both."""
    flags = [*(flag for flag in binder.flags if not flag.startswith("-std=")), *ours.flags]
    return replace(ours, flags=flags, libraries=[*binder.libraries, *ours.libraries])


def nanobind_day_recipe() -> Recipe:
    # nanobind_add_module() without NOMINSIZE.
    return day_recipe(nanobind_recipe(), "nanobind_day/module.cpp", ["-Os"])


def pybind11_day_recipe() -> Recipe:
    # pybind11_add_module() in a release build.
    return day_recipe(pybind11_recipe(), "pybind11_day/module.cpp", ["-O3"])


def torch_recipe() -> Recipe:
    home = package_folder("torch")
    include, lib = home / "include", home / "lib"
    flags = [
        "-std=c++20",
        f"-I{include}",
        f"-I{include / 'torch/csrc/api/include'}",
        "-DTORCH_EXTENSION_NAME=bench_torch_extension",
    ]
    link = [f"-L{lib}", f"-Wl,-rpath,{lib}", "-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"]
    return Recipe([PEERS / "torch_extension/module.cpp"], flags, link)


def torch_stable_recipe() -> Recipe:
    """Headers of torch's stable ABI (2.10 and newer), which link libtorch's C shims alone."""
    home = package_folder("torch")
    if not (home / "include/torch/csrc/stable/library.h").is_file():
        raise Unavailable("this torch has no stable ABI")
    lib = home / "lib"
    flags = ["-std=c++20", f"-I{home / 'include'}", "-DTORCH_TARGET_VERSION=0x020a000000000000"]
    return Recipe([PEERS / "torch_extension/module.cpp"], flags, [f"-L{lib}", f"-Wl,-rpath,{lib}", "-ltorch_cpu"])


def tvm_ffi_recipe() -> Recipe:
    home = package_folder("tvm_ffi")
    return Recipe(
        [PEERS / "tvm_ffi/module.cpp"],
        ["-std=c++20", f"-I{home / 'include'}"],
        [f"-L{home / 'lib'}", f"-Wl,-rpath,{home / 'lib'}", "-ltvm_ffi"],
        suffix=".so",
    )


@dataclass
class Peer:
    name: str  # as the tables write it
    module: str
    recipe: Callable[[], Recipe] | None  # None: cargo
    version: Callable[[], str]
    links_torch: bool = False  # loads only where torch is in the process
    crate: Path | None = None  # a crate of this repository that the peer's manifest names


PEER_LIST = [
    Peer("floor", "bench_floor", floor_recipe, lambda: ""),
    Peer("isthmus", "bench_isthmus", isthmus_recipe, isthmus_version),
    Peer("isthmus header-only", "bench_isthmus_header_only", header_only_recipe, isthmus_version),
    Peer("isthmus, stable ABI", "bench_isthmus_abi3", abi3_recipe, isthmus_version),
    Peer("isthmus operator", "bench_isthmus_operator", operator_recipe, isthmus_version),
    Peer(
        "isthmus in Rust",
        "bench_isthmus_rust",
        None,
        isthmus_version,
        crate=ROOT / "examples" / "rust" / "extension",
    ),
    Peer("xla ffi", "bench_xla_ffi", xla_ffi_recipe, lambda: package_version("jaxlib")),
    Peer("nanobind", "bench_nanobind", nanobind_recipe, lambda: package_version("nanobind")),
    Peer("pybind11", "bench_pybind11", pybind11_recipe, lambda: package_version("pybind11")),
    Peer("nanobind day", "bench_nanobind_day", nanobind_day_recipe, lambda: package_version("nanobind")),
    Peer("pybind11 day", "bench_pybind11_day", pybind11_day_recipe, lambda: package_version("pybind11")),
    Peer("Cython memoryview", "bench_cython", cython_recipe, lambda: package_version("Cython")),
    Peer("tvm-ffi", "bench_tvm_ffi", tvm_ffi_recipe, lambda: package_version("apache-tvm-ffi")),
    Peer(
        "torch/extension.h", "bench_torch_extension", torch_recipe, lambda: package_version("torch"), links_torch=True
    ),
    Peer("pyo3-dlpack", "bench_pyo3_dlpack", None, lambda: locked_version("pyo3_dlpack", "pyo3-dlpack")),
    Peer("dlpark", "bench_dlpark", None, lambda: locked_version("dlpark", "dlpark")),
    Peer("rust-numpy", "bench_rust_numpy", None, lambda: locked_version("rust_numpy", "numpy")),
    Peer("pyo3-tch", "bench_pyo3_tch", None, lambda: locked_version("pyo3_tch", "pyo3-tch"), links_torch=True),
]


def run(command: list[str], log: Path, **extra: str) -> None:
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **extra}, check=False
    )
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(" ".join(command) + "\n" + done.stdout)
    if done.returncode:
        errors = [line for line in done.stdout.splitlines() if "error" in line.lower()]
        raise Unavailable(f"{MISTAKE}: {(errors or done.stdout.splitlines() or ['no output'])[0].strip()[:160]}")


def fingerprint(files: list[Path], words: list[str]) -> str:
    digest = hashlib.sha256("\0".join([*words, sys.version]).encode())
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def object_command(source: Path, flags: list[str], include: str = "") -> list[str]:
    return [compiler(source), *OPTIMISE, *SECTIONS, *flags, include or python_include(), "-c", str(source)]


def library_objects(recipe: Recipe, include: str = "") -> list[Path]:
    """Compiled once for all modules of the same flags and Python."""
    objects = []
    for library in recipe.libraries:
        for source in library.sources:
            command = object_command(source, library.flags, include)
            state = fingerprint([source, *library.depends], command)
            folder = OUT / "libraries" / state[:24]
            objects.append(folder / f"{source.stem}.o")
            if not (folder / "done").exists():
                folder.mkdir(parents=True, exist_ok=True)
                run([*command, "-o", str(objects[-1])], folder / "log")
                (folder / "done").touch()
    return objects


def module_command(recipe: Recipe, out: Path, include: str = "") -> list[str]:
    """What makes the module of its own files; of its libraries the objects are compiled here."""
    flags = [*OPTIMISE, *recipe.flags, include or python_include()]
    link = [*([DROP_UNUSED] if recipe.libraries else []), *recipe.link]
    parts = map(str, [*recipe.sources, *library_objects(recipe, include)])
    return [compiler(recipe.sources[0]), *flags, "-shared", *parts, "-o", str(out), *link]


def build_native(peer: Peer, recipe: Recipe, suffix: str = SUFFIX, include: str = "") -> Path:
    """`suffix` and `include` of another interpreter than the one that runs this."""
    target = MODULES / (peer.module + (recipe.suffix or suffix))
    command = module_command(recipe, target, include)
    stamp = OUT / f"{target.name}.stamp"
    state = fingerprint(
        [*recipe.sources, *recipe.sources[0].parent.glob("*.h"), *recipe.depends], [*command, peer.version()]
    )
    if not (target.exists() and stamp.exists() and stamp.read_text() == state):
        run(command, OUT / f"{peer.module}.log")
        stamp.write_text(state)
    return target


def locked_version(folder: str, crate: str) -> str:
    lock = OUT / "cargo" / folder / "Cargo.lock"
    found = re.search(rf'name = "{crate}"\nversion = "([^"]+)"', lock.read_text()) if lock.exists() else None
    return found.group(1) if found else ""


def build_cargo(peer: Peer) -> Path:
    """Built in a copy, so that cargo writes its lock file there and not among the sources."""
    if shutil.which("cargo") is None:
        raise Unavailable("no cargo, which builds Rust")
    source = PEERS / peer.module.removeprefix("bench_")
    copy = OUT / "cargo" / source.name
    target = MODULES / (peer.module + SUFFIX)
    stamp = OUT / f"{peer.module}.stamp"
    sources = [source, *([peer.crate / "src"] if peer.crate else [])]
    files = sorted(p for folder in sources for p in folder.rglob("*") if p.is_file())
    state = fingerprint(files, [peer.module])
    if not (target.exists() and stamp.exists() and stamp.read_text() == state):
        shutil.copytree(source, copy, dirs_exist_ok=True)
        target_folder = OUT / "cargo" / "target"
        command = ["cargo", "build", "--release", "--quiet", "--jobs", "2", "--manifest-path", str(copy / "Cargo.toml")]
        environment = {"CARGO_TARGET_DIR": str(target_folder), "PYO3_PYTHON": sys.executable}
        if peer.links_torch:
            # torch-sys is written for one version of torch, and for its C++; removed.h has what a later one lacks.
            environment |= {"LIBTORCH_USE_PYTORCH": "1", "LIBTORCH_BYPASS_VERSION_CHECK": "1"}
            environment["CXXFLAGS"] = f"-std=c++20 -include {source / 'removed.h'}"
            environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        run(command, OUT / f"{peer.module}.log", **environment)
        shutil.copy2(target_folder / "release" / f"lib{peer.module}.so", target)
        stamp.write_text(state)
    return target


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Processes take turns at building: none loads a module that another still writes,
    and the first builds it for all."""
    MODULES.mkdir(parents=True, exist_ok=True)
    with (OUT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(peer: Peer) -> Built:
    try:
        with one_at_a_time():
            path = build_cargo(peer) if peer.recipe is None else build_native(peer, peer.recipe())
    except (Unavailable, OSError) as why:
        return Built(peer.name, why_not=str(why))
    return Built(peer.name, peer.version(), path=path)


def build_for(python: str, peer: Peer) -> Path:
    """A peer's module for another interpreter. Raises Unavailable."""
    asked = "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX')); print(sysconfig.get_path('include'))"
    try:
        done = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=False)
    except OSError as why:
        raise Unavailable(str(why)) from why
    if done.returncode or peer.recipe is None:
        raise Unavailable(f"{python}: {(done.stderr.strip().splitlines() or ['no recipe'])[-1]}")
    suffix, include = done.stdout.split("\n")[:2]
    with one_at_a_time():
        return build_native(peer, peer.recipe(), suffix, f"-I{include}")


def build_all(say: Callable[[str], None]) -> dict[str, Built]:
    built = {}
    for number, peer in enumerate(PEER_LIST, 1):
        say(f"building {number}/{len(PEER_LIST)}: {peer.name}")
        built[peer.name] = build(peer)
    return built
