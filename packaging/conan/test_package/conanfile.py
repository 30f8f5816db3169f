"""What a user of the package does: a program of the core and one of the C interface, compiled, linked and run."""

import io
from pathlib import Path

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout


class TestIsthmus(ConanFile):
    settings = ("os", "arch", "compiler", "build_type")
    generators = ("CMakeDeps", "CMakeToolchain", "VirtualRunEnv")

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        self.requires(self.tested_reference_str)

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if not can_run(self):
            return
        said = io.StringIO()
        folder = Path(self.cpp.build.bindir).resolve()
        self.run(str(folder / "core_program"), stdout=said, env="conanrun")
        assert said.getvalue().split() == ["float32", "5"], said.getvalue()
        self.run(str(folder / "c_program"), env="conanrun")
        self.output.info("a tensor of the core and libisthmus: as wanted")
