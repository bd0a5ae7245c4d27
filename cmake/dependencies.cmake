# rondo's dependencies: packages of the distribution (scripts/setup.sh installs them). If a required
# one is missing, the configuration stops with an error that names the package to install. Optional
# ones are AUTO and appear in the summary. Add a new dependency to scripts/setup.sh and
# cmake/rondoConfig.cmake.in as well.
list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR}/modules)

# rondo_require(package debian-package [version]): finds the package, or fails and says how to install it.
function(rondo_require package debian)
  find_package(${package} ${ARGN} QUIET)
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "rondo needs ${package}, which was not found. On Debian and Ubuntu: "
                        "apt-get install ${debian} (scripts/setup.sh installs all missing packages)")
  endif()
  string(TOUPPER ${package} upper)
  foreach(version ${package}_VERSION ${upper}_VERSION ${upper}_VERSION_STRING ${package}_CXX_VERSION)
    if(${version})
      set_property(GLOBAL APPEND PROPERTY rondo_found "${package} ${${version}}")
      return()
    endif()
  endforeach()
  set_property(GLOBAL APPEND PROPERTY rondo_found ${package})
endfunction()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
rondo_require(OpenMP g++ COMPONENTS CXX)
rondo_require(OneDNN libdnnl-dev 2.5)
rondo_require(ZLIB zlib1g-dev)
rondo_require(CURL libcurl4-openssl-dev)
rondo_require(LibArchive libarchive-dev)
rondo_require(OpenSSL libssl-dev)
rondo_require(nlohmann_json nlohmann-json3-dev)
rondo_require(fmt libfmt-dev)
if(RONDO_EXAMPLES OR RONDO_BENCH)
  rondo_require(CLI11 libcli11-dev)
endif()
if(RONDO_TESTS)
  rondo_require(GTest libgtest-dev)
endif()

# Options that are AUTO, ON or OFF. Other spellings (0, no, off; 1, yes, TRUE) become ON or OFF here.
foreach(optional RONDO_MPI RONDO_CUDA RONDO_NCCL RONDO_LAPACK RONDO_FFT RONDO_HDF5 RONDO_IMAGES RONDO_PROTOBUF RONDO_ICU)
  if(NOT ${optional} STREQUAL "AUTO")
    if(${optional})
      set(${optional} ON)
    else()
      set(${optional} OFF)
    endif()
  endif()
endforeach()

# rondo_optional(NAME needs what debian-package [summary...]): sets rondo_has_<name>. It is ON if RONDO_<NAME> is not OFF and
# all variables of the list `needs` are true.
function(rondo_optional name needs what debian)
  set(found ON)
  foreach(need RONDO_${name} ${needs})
    if(NOT ${need})
      set(found OFF)
    endif()
  endforeach()
  if(found)
    set_property(GLOBAL APPEND PROPERTY rondo_found ${ARGN})
  elseif(RONDO_${name} STREQUAL "ON")
    message(FATAL_ERROR "RONDO_${name}=ON, but ${what} was not found. On Debian and Ubuntu: apt-get install ${debian} "
                        "(scripts/setup.sh installs all missing packages)")
  endif()
  string(TOLOWER rondo_has_${name} has)
  set(${has} ${found} PARENT_SCOPE)
endfunction()

# CUDA: the compiler and the static runtime; the libraries are loaded when they are first used.
set(rondo_has_cuda OFF)
if(NOT RONDO_CUDA STREQUAL "OFF")
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    find_package(CUDAToolkit QUIET)
  endif()
  if(CUDAToolkit_FOUND AND TARGET CUDA::cudart_static AND CUDAToolkit_VERSION VERSION_GREATER_EQUAL 12)
    set(rondo_has_cuda ON)
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_EXTENSIONS OFF)
    # The host only launches the kernels, so -O1 is enough there. (ptxas and cicc optimise in any case.)
    string(REPLACE "-O3" "-O1" CMAKE_CUDA_FLAGS_RELEASE "${CMAKE_CUDA_FLAGS_RELEASE}")
    if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.22 and 3.25 do not know that nvcc supports C++20
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    set_property(GLOBAL APPEND PROPERTY rondo_found "CUDA ${CUDAToolkit_VERSION}")
  elseif(RONDO_CUDA STREQUAL "ON")
    message(FATAL_ERROR "RONDO_CUDA=ON, but no CUDA toolkit of version 12 or later was found; put nvcc in PATH, "
                        "or set CMAKE_CUDA_COMPILER to its path")
  endif()
endif()

# NCCL: only its header; the library is loaded when it is first used.
set(rondo_has_nccl OFF)
if(rondo_has_cuda AND NOT RONDO_NCCL STREQUAL "OFF")
  find_path(RONDO_NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ENV NCCL_HOME PATH_SUFFIXES include)
  mark_as_advanced(RONDO_NCCL_INCLUDE_DIR)
  if(RONDO_NCCL_INCLUDE_DIR)
    set(rondo_has_nccl ON)
    file(STRINGS ${RONDO_NCCL_INCLUDE_DIR}/nccl.h version REGEX "#define NCCL_(MAJOR|MINOR|PATCH) ")
    list(TRANSFORM version REPLACE "[^0-9]*([0-9]+).*" "\\1")
    list(JOIN version "." version)
    set_property(GLOBAL APPEND PROPERTY rondo_found "NCCL ${version}")
  endif()
endif()
if(RONDO_NCCL STREQUAL "ON" AND NOT rondo_has_nccl)
  message(FATAL_ERROR "RONDO_NCCL=ON, but nccl.h was not found (or CUDA was not): CUDA's toolkit folder, NCCL_HOME "
                      "and the system were searched (https://developer.nvidia.com/nccl)")
endif()

# LAPACK: its C interface, which brings the Fortran library.
if(RONDO_LAPACK)
  find_path(RONDO_LAPACKE_INCLUDE_DIR lapacke.h PATH_SUFFIXES lapacke openblas)
  find_library(RONDO_LAPACKE_LIBRARY lapacke)
  mark_as_advanced(RONDO_LAPACKE_INCLUDE_DIR RONDO_LAPACKE_LIBRARY)
endif()
rondo_optional(LAPACK "RONDO_LAPACKE_INCLUDE_DIR;RONDO_LAPACKE_LIBRARY" LAPACKE liblapacke-dev LAPACKE)

# HDF5: its C interface, without MPI.
if(RONDO_HDF5)
  find_path(RONDO_HDF5_INCLUDE_DIR hdf5.h PATH_SUFFIXES hdf5/serial)
  find_library(RONDO_HDF5_LIBRARY NAMES hdf5_serial hdf5)
  mark_as_advanced(RONDO_HDF5_INCLUDE_DIR RONDO_HDF5_LIBRARY)
endif()
rondo_optional(HDF5 "RONDO_HDF5_INCLUDE_DIR;RONDO_HDF5_LIBRARY" libhdf5 libhdf5-dev HDF5)

# KISS FFT: its header of templates, which no library belongs to.
if(RONDO_FFT)
  find_path(RONDO_KISSFFT_INCLUDE_DIR kissfft.hh PATH_SUFFIXES kissfft)
  mark_as_advanced(RONDO_KISSFFT_INCLUDE_DIR)
endif()
rondo_optional(FFT RONDO_KISSFFT_INCLUDE_DIR "KISS FFT (kissfft.hh)" libkissfft-dev "KISS FFT")

# Images: both decoders or none, so that a folder of images is either readable or not.
if(RONDO_IMAGES)
  find_package(JPEG QUIET)
  find_package(PNG QUIET)
endif()
rondo_optional(IMAGES "JPEG_FOUND;PNG_FOUND" "libjpeg or libpng" "libjpeg-dev libpng-dev"
               "JPEG ${JPEG_VERSION}" "PNG ${PNG_VERSION_STRING}")

# ICU: properties of characters, and regular expressions, for tokenizers.
if(RONDO_ICU)
  find_package(ICU QUIET COMPONENTS uc i18n)
endif()
rondo_optional(ICU ICU_FOUND ICU libicu-dev "ICU ${ICU_VERSION}")

# rondo uses only MPI's C interface. CMake looks for MPI as C++, so that projects need not enable C.
if(RONDO_MPI)
  set(MPI_CXX_SKIP_MPICXX TRUE)
  if(MPI_CXX_COMPILER)  # the mpiexec next to it, not the one in PATH, which may start ranks of another MPI
    string(REGEX REPLACE "mpi[a-z+]*([^/]*)$" "mpiexec\\1" launcher "${MPI_CXX_COMPILER}")
    if(NOT launcher STREQUAL MPI_CXX_COMPILER)  # such as Cray's CC, whose launcher has a name of its own
      find_program(MPIEXEC_EXECUTABLE ${launcher})
    endif()
  endif()
  find_package(MPI QUIET COMPONENTS CXX)
endif()
rondo_optional(MPI MPI_CXX_FOUND MPI "libopenmpi-dev openmpi-bin" "MPI ${MPI_CXX_VERSION}")

# Protocol buffers: TensorBoard's event files, ONNX.
set(protobuf_is_usable OFF)
if(RONDO_PROTOBUF)
  # From version 22 on, protobuf needs libraries of Abseil. Its own configuration names them, CMake's module does not.
  if(NOT TARGET protobuf::libprotobuf-lite)  # a program that contains rondo may have found it
    set(protobuf_MODULE_COMPATIBLE ON)  # so that it defines protobuf_generate_cpp, as the module does
    find_package(Protobuf CONFIG QUIET)
    if(NOT Protobuf_FOUND)
      find_package(Protobuf MODULE QUIET)
    endif()
  endif()
  if(TARGET protobuf::protoc AND TARGET protobuf::libprotobuf-lite)
    set(protobuf_is_usable ON)
  endif()
endif()
rondo_optional(PROTOBUF protobuf_is_usable protobuf "libprotobuf-dev protobuf-compiler" "protobuf ${Protobuf_VERSION}")
