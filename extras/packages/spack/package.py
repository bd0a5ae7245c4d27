from spack_repo.builtin.build_systems.cmake import CMakePackage, generator

from spack.package import *


class Rondo(CMakePackage):
    """A deep-learning framework in C++20 with data-parallel training."""

    license("MIT")

    version("main")

    variant("mpi", default=True, description="Training on several ranks")
    variant("onnx", default=True, description="ONNX, and files for TensorBoard")
    variant("images", default=True, description="Data sets of JPEG and PNG files")
    variant("shared", default=True, description="Shared libraries")

    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("ninja", type="build")
    depends_on("onednn@2.5:")
    depends_on("mpi", when="+mpi")
    depends_on("protobuf@:3.21", when="+onnx")
    depends_on("jpeg", when="+images")
    depends_on("libpng", when="+images")
    depends_on("netlib-lapack+lapacke")
    depends_on("cli11", type="build")
    depends_on("nlohmann-json")
    depends_on("fmt")
    depends_on("libarchive")
    depends_on("curl")
    depends_on("openssl")
    depends_on("zlib-api")

    generator("ninja")

    def cmake_args(self):
        return [
            self.define_from_variant("RONDO_MPI", "mpi"),
            self.define_from_variant("RONDO_PROTOBUF", "onnx"),
            self.define_from_variant("RONDO_IMAGES", "images"),
            self.define_from_variant("BUILD_SHARED_LIBS", "shared"),
            self.define("RONDO_LAPACK", True),
            self.define("RONDO_CUDA", False),
            self.define("RONDO_TESTS", False),
            self.define("RONDO_BENCH", False),
        ]
