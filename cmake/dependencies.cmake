# What rondo is built on: packages of the distribution (scripts/setup.sh installs them). Required
# ones stop the configuration with a sentence that says what to install; optional ones are AUTO and
# appear in the summary. Whatever is added here belongs into scripts/setup.sh and
# cmake/rondoConfig.cmake.in as well.
list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR}/modules)

# rondo_require(package debian-package [version]): find it or say how to get it.
function(rondo_require package debian)
  find_package(${package} ${ARGN} QUIET)
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "rondo needs ${package}, which was not found. On Debian and Ubuntu: "
                        "apt-get install ${debian} (scripts/setup.sh installs all that is missing)")
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

# What is AUTO, ON or OFF, in any of CMake's spellings (0, no, off; 1, yes, TRUE).
foreach(optional RONDO_MPI RONDO_PMIX RONDO_CUDA RONDO_NCCL RONDO_IMAGES RONDO_PROTOBUF)
  if(NOT ${optional} STREQUAL "AUTO")
    if(${optional})
      set(${optional} ON)
    else()
      set(${optional} OFF)
    endif()
  endif()
endforeach()

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
    # The host's side of a kernel is its launch. (ptxas and cicc optimise in any case.)
    string(REPLACE "-O3" "-O1" CMAKE_CUDA_FLAGS_RELEASE "${CMAKE_CUDA_FLAGS_RELEASE}")
    if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.22 and 3.25 do not know that nvcc knows it
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    set_property(GLOBAL APPEND PROPERTY rondo_found "CUDA ${CUDAToolkit_VERSION}")
  elseif(RONDO_CUDA STREQUAL "ON")
    message(FATAL_ERROR "RONDO_CUDA=ON, but no CUDA toolkit of version 12 or later was found; nvcc must be "
                        "in PATH, or CMAKE_CUDA_COMPILER say where it is")
  endif()
endif()

# NCCL: its header alone; the library is loaded when it is first used.
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

# Pictures: both decoders or none, so that a folder of pictures is either readable or not.
set(rondo_has_images OFF)
if(NOT RONDO_IMAGES STREQUAL "OFF")
  find_package(JPEG QUIET)
  find_package(PNG QUIET)
  if(JPEG_FOUND AND PNG_FOUND)
    set(rondo_has_images ON)
    set_property(GLOBAL APPEND PROPERTY rondo_found "JPEG ${JPEG_VERSION}" "PNG ${PNG_VERSION_STRING}")
  elseif(RONDO_IMAGES STREQUAL "ON")
    message(FATAL_ERROR "RONDO_IMAGES=ON, but libjpeg or libpng was not found. On Debian and Ubuntu: apt-get install "
                        "libjpeg-dev libpng-dev (scripts/setup.sh installs all that is missing)")
  endif()
endif()

# Only the C interface of MPI is used; asked for as C++ so that projects need not enable C.
set(rondo_has_mpi OFF)
if(NOT RONDO_MPI STREQUAL "OFF")
  set(MPI_CXX_SKIP_MPICXX TRUE)
  find_package(MPI QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    set(rondo_has_mpi ON)
    set_property(GLOBAL APPEND PROPERTY rondo_found "MPI ${MPI_CXX_VERSION}")
  elseif(RONDO_MPI STREQUAL "ON")
    message(FATAL_ERROR "RONDO_MPI=ON, but no MPI was found. On Debian and Ubuntu: apt-get install "
                        "libopenmpi-dev openmpi-bin (scripts/setup.sh installs all that is missing)")
  endif()
endif()

# PMIx, the launchers' library: only its header is needed, the library is loaded where there is a launcher.
set(rondo_has_pmix OFF)
if(rondo_has_mpi AND NOT RONDO_PMIX STREQUAL "OFF")
  find_path(RONDO_PMIX_INCLUDE_DIR pmix.h PATH_SUFFIXES pmix
            HINTS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/pmix2/include)
  mark_as_advanced(RONDO_PMIX_INCLUDE_DIR)
  if(RONDO_PMIX_INCLUDE_DIR)
    set(rondo_has_pmix ON)
  elseif(RONDO_PMIX STREQUAL "ON")
    message(FATAL_ERROR "RONDO_PMIX=ON, but pmix.h was not found. On Debian and Ubuntu: apt-get install "
                        "libpmix-dev (scripts/setup.sh installs all that is missing)")
  endif()
endif()

# Protocol buffers: TensorBoard's event files, ONNX.
set(rondo_has_protobuf OFF)
if(NOT RONDO_PROTOBUF STREQUAL "OFF")
  find_package(Protobuf QUIET)
  if(Protobuf_FOUND AND TARGET protobuf::protoc AND TARGET protobuf::libprotobuf-lite)
    set(rondo_has_protobuf ON)
    set_property(GLOBAL APPEND PROPERTY rondo_found "protobuf ${Protobuf_VERSION}")
  elseif(RONDO_PROTOBUF STREQUAL "ON")
    message(FATAL_ERROR "RONDO_PROTOBUF=ON, but protobuf was not found. On Debian and Ubuntu: apt-get install "
                        "libprotobuf-dev protobuf-compiler (scripts/setup.sh installs all that is missing)")
  endif()
endif()
