import os
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load

FOLDERS = ("tensor", "autograd", "nn", "optim", "data", "io", "dist", "train", "extras", "include", "cmake")


class RondoConan(ConanFile):
    name = "rondo"
    license = "MIT"
    description = "A deep-learning framework in C++20 with data-parallel training"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False]}
    default_options = {"shared": False, "fPIC": True}
    # oneDNN is that of the system (ConanCenter has 2.4 only), and so are MPI, LAPACK and protobuf, if they are found.
    requires = (
        "nlohmann_json/[>=3.11]",
        "fmt/[>=9]",
        "libarchive/[>=3.6]",
        "libcurl/[>=7.80]",
        "openssl/[>=3]",
        "zlib/[>=1.2.11]",
        "libjpeg-turbo/[>=2.1]",
        "libpng/[>=1.6]",
    )
    tool_requires = ("cmake/[>=3.22]", "ninja/[>=1.10]")

    def _checkout(self):
        return os.path.join(self.recipe_folder, "..", "..", "..")

    def set_version(self):
        text = load(self, os.path.join(self._checkout(), "tensor", "version.h"))
        self.version = ".".join(re.findall(r"define RONDO_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", text))

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", *(f"{folder}/*" for folder in FOLDERS)):
            copy(self, pattern, self._checkout(), self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self, generator="Ninja")
        for name in ("RONDO_CUDA", "RONDO_TESTS", "RONDO_EXAMPLES", "RONDO_BENCH"):
            toolchain.cache_variables[name] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()

    def package_info(self):
        # Its own files for CMake say what each library needs.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs.append(os.path.join("lib", "cmake", "rondo"))
