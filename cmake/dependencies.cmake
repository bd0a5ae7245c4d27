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
foreach(optional RONDO_MPI RONDO_CUDA)
  if(NOT ${optional} STREQUAL "AUTO")
    if(${optional})
      set(${optional} ON)
    else()
      set(${optional} OFF)
    endif()
  endif()
endforeach()
if(RONDO_CUDA STREQUAL "ON")
  message(FATAL_ERROR "RONDO_CUDA=ON, but this rondo has no CUDA backend yet: leave it AUTO or OFF")
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
