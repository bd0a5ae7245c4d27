# Compiler and linker flags of everything in rondo.

# ccache, if it is installed. CCACHE_SLOPPINESS is necessary for precompiled headers. Paths in the clone are hashed as
# relative paths, so that all clones share results. With CCACHE_DEPEND the compiler itself lists the included files, so
# that a file that is not in the cache is not preprocessed twice: 5 % less for a first build.
find_program(RONDO_CCACHE ccache)
mark_as_advanced(RONDO_CCACHE)
if(RONDO_CCACHE AND (NOT CMAKE_CXX_COMPILER_LAUNCHER OR CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache$"))
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1 ${RONDO_CCACHE})
  if(NOT CMAKE_CUDA_COMPILER_LAUNCHER OR CMAKE_CUDA_COMPILER_LAUNCHER MATCHES "ccache$")
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  else()  # Clang's precompiled headers contain file times, which differ between clones
    set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
  endif()
endif()

# GCC hardly ever collects garbage: 15 % faster, for about 200 MB more memory in each process.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=4194304>
                      $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=--param=ggc-min-heapsize=4194304>)
endif()

# Programs are linked by mold or lld if one is installed: ten times as fast. Libraries that are installed are linked
# by the compiler's own linker.
include(CheckLinkerFlag)
foreach(linker mold lld)
  if(NOT CMAKE_EXE_LINKER_FLAGS MATCHES "-fuse-ld")
    check_linker_flag(CXX -fuse-ld=${linker} RONDO_LINKS_WITH_${linker})
    if(RONDO_LINKS_WITH_${linker})
      string(APPEND CMAKE_EXE_LINKER_FLAGS " -fuse-ld=${linker}")
    endif()
  endif()
endforeach()

# Flags that installed targets do not pass on to their users. Callers set only a few fields of an options aggregate, so
# the warning about missing field initialisers is off.
add_library(rondo_flags INTERFACE)
set(rondo_warnings -Wall -Wextra -Wno-missing-field-initializers $<$<BOOL:${RONDO_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # Loops that call a sanitizer cannot be vectorised, and clang warns about it for each `omp simd`.
  list(APPEND rondo_warnings -Wno-pass-failed)
endif()
target_compile_options(rondo_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${rondo_warnings}>)
# a * b + c is rounded twice with every compiler and processor, so that equal expressions give equal bits. (By default
# GCC fuses it where the processor always can, such as on 64-bit Arm.) Kernels ask for a fused operation explicitly
# (multiply_add in tensor/cpu/isa/vec.h).
target_compile_options(rondo_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
set(rondo_host_flags -Wall -Wextra -Wno-missing-field-initializers)  # for nvcc's host compiler
set(rondo_kernel_flags -O3)
if(RONDO_SANITIZE)
  set(rondo_kernel_flags -O2)  # with sanitizers as fast as -O3, which takes twice as long to compile; -O1 is half as fast
  set(sanitize -fsanitize=${RONDO_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  if(RONDO_SANITIZE MATCHES "address" AND RONDO_SANITIZE MATCHES "undefined")
    # These checks take half of the compile time. AddressSanitizer checks the same pointers when code reads or
    # writes through them, and the types of objects behind casts (vptr) are not needed. Name `alignment` in
    # RONDO_SANITIZE to check it, too.
    list(APPEND sanitize -fno-sanitize=null -fno-sanitize=object-size -fno-sanitize=pointer-overflow
                         -fno-sanitize=vptr)
    if(NOT RONDO_SANITIZE MATCHES "alignment")
      list(APPEND sanitize -fno-sanitize=alignment)
    endif()
  endif()
  if(RONDO_SANITIZE MATCHES "address" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND
     CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13 AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13.3)
    # GCC 13.0 to 13.2 do not align vectors of 64 bytes in the stack frames that this check moves to the heap (its bug 110027).
    list(APPEND sanitize --param=asan-use-after-return=0)
  endif()
  target_compile_options(rondo_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${sanitize}>)
  target_link_options(rondo_flags INTERFACE -fsanitize=${RONDO_SANITIZE})
  # A library calls its own copy of an inline function, not the copy of a program that is not sanitized
  # (RONDO_TEST_OBJECTS). For a virtual function in a header it may still call the program's copy.
  target_link_options(rondo_flags INTERFACE LINKER:-Bsymbolic-functions)
endif()

# rondo_flags, and the flags with which distributions build their packages: checked calls of the C library, canaries on
# the stack, and addresses that are bound at the start and then sealed. Compiled without them: the kernels of
# tensor/cpu/isa/ and CUDA's, which call nothing inside their loops; tests, which are not optimised; and sanitized builds,
# since sanitizers check the same calls.
add_library(rondo_hardened INTERFACE)
target_link_libraries(rondo_hardened INTERFACE rondo_flags)
if(NOT RONDO_SANITIZE)
  set(optimised $<CONFIG:Release,RelWithDebInfo,MinSizeRel>)
  target_compile_options(rondo_hardened INTERFACE  # Ubuntu's compiler defines it itself, some to 3
    "$<$<AND:$<COMPILE_LANGUAGE:CXX>,${optimised}>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2;-fstack-protector-strong>")
  set(rondo_sealed "$<${optimised}:LINKER:-z,relro,-z,now>")  # separate, since a static library would pass it on
endif()

# The headers that most files include, precompiled (library.cmake). tests/layering/check.sh checks that each file still
# includes the standard headers that it needs.
set(rondo_common_headers <algorithm> <array> <atomic> <chrono> <cmath> <cstring> <filesystem> <fstream> <functional>
                         <map> <memory> <mutex> <numeric> <optional> <set> <sstream> <string> <thread> <vector>
                         ${PROJECT_SOURCE_DIR}/tensor/tensor.h)

if(BUILD_SHARED_LIBS AND NOT RONDO_SANITIZE)  # a call that violates the layers is then an undefined symbol
  target_link_options(rondo_flags INTERFACE LINKER:--no-undefined)
endif()
