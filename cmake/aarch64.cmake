# Toolchain file for 64-bit Arm: cross-compiles with Debian's compiler, against the packages that scripts/arm64.sh
# unpacks.
get_filename_component(sysroot ${CMAKE_CURRENT_LIST_DIR}/../build-arm64/sysroot ABSOLUTE)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_SYSROOT ${sysroot})
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)  # use the build machine's protoc and mpirun
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# CMake would ask Open MPI's compiler wrapper, but that is the build machine's.
set(MPI_CXX_HEADER_DIR ${sysroot}/usr/lib/aarch64-linux-gnu/openmpi/include)
set(MPI_CXX_LIB_NAMES mpi)
set(MPI_mpi_LIBRARY ${sysroot}/usr/lib/aarch64-linux-gnu/openmpi/lib/libmpi.so)
