# What everything of rondo is compiled and linked with.

# A compiler cache where there is one: ccache, which has to be told that headers may be precompiled. A path of
# the clone's is hashed as a relative one, so that what one clone compiled serves all others.
find_program(RONDO_CCACHE ccache)
mark_as_advanced(RONDO_CCACHE)
if(RONDO_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${RONDO_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
endif()

# GCC collects its garbage less often: a tenth of the time, for some 130 MB more memory in each process.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=524288>)
endif()

# Programs, which are many and large, are linked by mold or lld where there is one: a tenth of the time. What is
# installed is linked as the compiler does it.
include(CheckLinkerFlag)
foreach(linker mold lld)
  if(NOT CMAKE_EXE_LINKER_FLAGS MATCHES "-fuse-ld")
    check_linker_flag(CXX -fuse-ld=${linker} RONDO_LINKS_WITH_${linker})
    if(RONDO_LINKS_WITH_${linker})
      string(APPEND CMAKE_EXE_LINKER_FLAGS " -fuse-ld=${linker}")
    endif()
  endif()
endforeach()

# What nothing that is installed passes on. Options are aggregates of which callers name a few fields, so that warning is off.
add_library(rondo_flags INTERFACE)
set(rondo_warnings -Wall -Wextra -Wno-missing-field-initializers $<$<BOOL:${RONDO_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # Loops with calls of a sanitizer in them cannot be vectorised, which clang says of each `omp simd`.
  list(APPEND rondo_warnings -Wno-pass-failed)
endif()
target_compile_options(rondo_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${rondo_warnings}>)
set(rondo_host_flags -Wall -Wextra -Wno-missing-field-initializers)  # of nvcc's own host compiler
set(rondo_kernel_flags -O3)
if(RONDO_SANITIZE)
  set(rondo_kernel_flags -O2)  # as fast there as -O3, which takes twice as long to compile; -O1 is half as fast
  set(sanitize -fsanitize=${RONDO_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  if(RONDO_SANITIZE MATCHES "address" AND RONDO_SANITIZE MATCHES "undefined")
    # A third of the time to compile, for pointers that AddressSanitizer looks at when something is
    # read or written through them; and for the types of objects behind casts, which nobody looks at.
    list(APPEND sanitize -fno-sanitize=null -fno-sanitize=object-size -fno-sanitize=pointer-overflow
                         -fno-sanitize=vptr)
  endif()
  target_compile_options(rondo_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${sanitize}>)
  target_link_options(rondo_flags INTERFACE -fsanitize=${RONDO_SANITIZE})
  # A library calls its own copy of an inline function, not one of a program that is not sanitized
  # (RONDO_TEST_OBJECTS). Of a virtual function in a header it may still be the program's.
  target_link_options(rondo_flags INTERFACE LINKER:-Bsymbolic-functions)
endif()

# The headers that most files include, compiled once a library. tests/layering/check.sh sees to it that each
# file still includes what it names.
set(rondo_common_headers <algorithm> <array> <atomic> <chrono> <cmath> <cstring> <filesystem> <fstream> <functional>
                         <map> <memory> <mutex> <numeric> <optional> <set> <sstream> <string> <thread> <vector>
                         ${PROJECT_SOURCE_DIR}/tensor/tensor.h)

if(BUILD_SHARED_LIBS AND NOT RONDO_SANITIZE)  # a call against the layers is an undefined symbol
  target_link_options(rondo_flags INTERFACE LINKER:--no-undefined)
endif()
