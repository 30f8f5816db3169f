# SPDX-License-Identifier: Apache-2.0
"""Builds the libraries' modules for the stories, with the flags that the benchmarks use for the same libraries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import build


def told(recipe: build.Recipe, peer: str) -> build.Recipe:
    return replace(recipe, sources=[build.PEERS / peer / "stories.cpp"])


def isthmus() -> build.Recipe:
    """Isthmus' casters in a nanobind module."""
    return told(build.isthmus_with_nanobind_recipe(), "isthmus")


def nanobind() -> build.Recipe:
    return told(build.nanobind_recipe(), "nanobind")


def producers() -> build.Recipe:
    source = build.ROOT / "benchmarks" / "stories" / "producers.cpp"
    return replace(build.isthmus_recipe(), sources=[source], depends=[*(build.ROOT / "tests/python/ext").glob("*")])


MODULES: list[build.Peer] = [
    build.Peer("producers", "reliability_producers", producers, lambda: ""),
    build.Peer("isthmus", "reliability_isthmus", isthmus, build.isthmus_version),
    build.Peer("nanobind", "reliability_nanobind", nanobind, lambda: build.package_version("nanobind")),
    build.Peer(
        "pybind11",
        "reliability_pybind11",
        lambda: told(build.pybind11_recipe(), "pybind11"),
        lambda: build.package_version("pybind11"),
    ),
    build.Peer(
        "tvm-ffi",
        "reliability_tvm_ffi",
        lambda: told(build.tvm_ffi_recipe(), "tvm_ffi"),
        lambda: build.package_version("apache-tvm-ffi"),
    ),
]


def build_all(say: Callable[[str], None]) -> dict[str, build.Built]:
    """By the library's name; the producers that only C++ can make are one of them."""
    built = {}
    for peer in MODULES:
        say(f"building {peer.name}")
        built[peer.name] = build.build(peer)
    for package in ("numpy", "torch"):
        version = build.package_version(package)
        built[package] = build.Built(package, version, "" if version else "is not installed")
    return built
