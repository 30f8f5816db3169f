"""The headers, the core as a static library, the CMake package and libisthmus for Conan 2.

Built from the archive that conandata.yml names, which a release writes, else from the tree that this file lies in.
"""

import re
from pathlib import Path

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, get, load, rmdir

required_conan_version = ">=2.0"

SOURCES = ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "src/*")


class IsthmusRecipe(ConanFile):
    name = "isthmus"
    description = "Zero-copy tensor exchange between C++ and Python"
    license = "Apache-2.0"
    topics = ("tensor", "dlpack", "zero-copy", "numpy", "pytorch", "jax")
    package_type = "shared-library"
    settings = ("os", "arch", "compiler", "build_type")

    @property
    def _tree(self):
        return Path(self.recipe_folder).parents[1]

    def set_version(self):
        if not self.version:
            config = load(self, self._tree / "include/isthmus/core/config.h")
            self.version = re.search(r'#define ISTHMUS_VERSION "([^"]+)"', config)[1]

    def export_sources(self):
        if not self.conan_data:
            for pattern in SOURCES:
                copy(self, pattern, self._tree, self.export_sources_folder)

    def layout(self):
        # The sources of the tree lie where they were exported to, those of an archive are fetched.
        cmake_layout(self, src_folder="src" if self.conan_data else ".")

    def requirements(self):
        # Its header is part of every public one of ours.
        self.requires("dlpack/[>=1.3 <2]", transitive_headers=True)

    def validate(self):
        check_min_cppstd(self, 20)

    def source(self):
        if self.conan_data:
            get(self, **self.conan_data["sources"][self.version], strip_root=True)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for option in ("BUILD_PACKAGE", "BUILD_TESTS", "PYTHON", "INSTALL_DLPACK"):
            toolchain.cache_variables[f"ISTHMUS_{option}"] = False
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder, "licenses"))
        CMake(self).install()
        # Conan makes its own of package_info().
        rmdir(self, Path(self.package_folder, "lib/pkgconfig"))

    def package_info(self):
        # Our own CMake package, as everywhere else: it has isthmus::python, isthmus::torch and the components.
        self.cpp_info.set_property("cmake_find_mode", "none")
        core = self.cpp_info.components["core"]
        core.set_property("pkg_config_name", "isthmus")
        core.requires = ["dlpack::dlpack"]
        core.builddirs = ["lib/cmake/isthmus"]
        core.libs = ["isthmus_core"]
        if self.settings.os == "Linux":
            core.system_libs = ["dl"]
        c = self.cpp_info.components["c"]
        c.set_property("pkg_config_name", "isthmus-c")
        c.libs = ["isthmus"]
