# SPDX-License-Identifier: Apache-2.0
"""The peers' modules, imported, and the versions that the results carry."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import build

BUFFER_ELEMENTS = 1000


class Peers:
    """What could be imported, by the name that the tables use; `why_not` has the rest."""

    def __init__(self, built: dict[str, build.Built]) -> None:
        self.modules: dict[str, Any] = {}
        self.versions: dict[str, str] = {}
        self.why_not: dict[str, str] = {}
        sys.path.insert(0, str(build.MODULES))
        for peer in build.PEER_LIST:
            self.add(peer, built[peer.name])
        for package in ("numpy", "torch", "jax", "tensorflow", "isthmus", "numba", "cffi", "cuda-core"):
            self.versions.setdefault(package, build.package_version(package))
        self.versions["cuda.core"] = self.versions.pop("cuda-core")
        self.versions["paddle"] = build.package_version("paddlepaddle")

    def add(self, peer: build.Peer, built: build.Built) -> None:
        self.versions[peer.name] = built.version
        if built.why_not:
            self.why_not[peer.name] = built.why_not
            return
        try:
            if peer.name == "tvm-ffi":
                import tvm_ffi

                self.modules[peer.name] = tvm_ffi.load_module(str(built.path))
                self.modules["tvm_ffi"] = tvm_ffi
            elif not peer.links_torch or "torch" in sys.modules:
                self.modules[peer.name] = importlib.import_module(peer.module)
        except Exception as why:  # a peer that does not load is a row that says so
            self.why_not[peer.name] = f"does not load: {why}"[:200]

    def get(self, name: str) -> Any:
        return self.modules.get(name)

    def set_size(self, elements: int) -> None:
        for module in self.modules.values():
            if hasattr(module, "set_size"):
                module.set_size(elements)

    def version(self, library: str) -> str:
        """Of a library as a row names it: `nanobind typed` has nanobind's version."""
        fits = [name for name in self.versions if library.startswith(name)]
        if library.startswith("tvm_ffi"):
            return self.versions["tvm-ffi"]
        return self.versions[max(fits, key=len)] if fits else ""
