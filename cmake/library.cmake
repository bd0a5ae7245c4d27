# rondo_library(folder PUBLIC … PRIVATE …): the library of one folder, made of every .cpp below it,
# exported as rondo::folder. Sub-folders cuda/, mpi/, nccl/ and
# protobuf/ are compiled where those are there.

# What everything of rondo is compiled with, and nothing that is installed passes on. Options are
# aggregates of which callers name a few fields, so that warning is off.
add_library(rondo_flags INTERFACE)
set(rondo_warnings -Wall -Wextra -Wno-missing-field-initializers $<$<BOOL:${RONDO_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # Loops with calls of a sanitizer in them cannot be vectorised, which clang says of each `omp simd`.
  list(APPEND rondo_warnings -Wno-pass-failed)
endif()
target_compile_options(rondo_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${rondo_warnings}>)
set(rondo_host_flags -Wall -Wextra -Wno-missing-field-initializers)  # of nvcc's own host compiler
set(rondo_device_flags)
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
  string(REPLACE "," ";-fsanitize=" sanitize "${sanitize}")  # nvcc takes a comma for the end of a flag
  list(APPEND rondo_host_flags ${sanitize})
  set(rondo_device_flags -Xcicc=-O0)  # sanitizers look at kernels on the host
  target_link_options(rondo_flags INTERFACE -fsanitize=${RONDO_SANITIZE})
  # A library calls its own copy of an inline function, not one of a program that is not sanitized
  # (RONDO_TEST_OBJECTS). Of a virtual function in a header it may still be the program's.
  target_link_options(rondo_flags INTERFACE LINKER:-Bsymbolic-functions)
endif()

# The standard headers that most files include, compiled once a library: a third of the compilation. For
# sanitizers only, since a header that lacks one of these must not compile in Release; and not beside a
# compiler cache, which by default does not work with them.
set(rondo_standard_headers)
if(RONDO_SANITIZE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(rondo_standard_headers <algorithm> <array> <atomic> <chrono> <cmath> <cstring> <filesystem> <fstream>
                             <functional> <map> <memory> <mutex> <numeric> <optional> <set> <sstream> <string>
                             <thread> <vector>)
endif()

if(BUILD_SHARED_LIBS AND NOT RONDO_SANITIZE)  # a call against the layers is an undefined symbol
  target_link_options(rondo_flags INTERFACE LINKER:--no-undefined)
endif()

# In the build tree <rondo/nn/conv2d.h> is found through links, as it is in an installed copy.
set(rondo_include ${PROJECT_BINARY_DIR}/include)
file(MAKE_DIRECTORY ${rondo_include}/rondo)
foreach(path tensor autograd nn optim data io hub dist train include/rondo/rondo.h)
  get_filename_component(name ${path} NAME)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${path} ${rondo_include}/rondo/${name} SYMBOLIC)
endforeach()

# Kernels compiled once for each instruction set; tensor/cpu/isa/table.cpp picks at run time. Only
# files of this folder may be compiled so, and they may define nothing that other files could link to.
set(rondo_isas generic)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND rondo_isas avx2 avx512)
  set(rondo_isa_flags_avx2 -mavx2 -mfma -mf16c)
  set(rondo_isa_flags_avx512 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c
                             -mprefer-vector-width=512)
endif()

function(rondo_library folder)
  cmake_parse_arguments(arg "" "" "PUBLIC;PRIVATE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cpp)
  set(isa_sources ${sources})
  list(FILTER isa_sources INCLUDE REGEX "/cpu/isa/kernels_")
  list(TRANSFORM sources REPLACE "^${PROJECT_SOURCE_DIR}/${folder}/" "")  # that may have such a name, too
  list(FILTER sources EXCLUDE REGEX "(^|/)(cuda|mpi|nccl|protobuf)/|cpu/isa/kernels_")
  list(TRANSFORM sources PREPEND ${PROJECT_SOURCE_DIR}/${folder}/)
  if(rondo_has_mpi)
    file(GLOB mpi_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/mpi/*.cpp)
    list(APPEND sources ${mpi_sources})
  endif()
  if(rondo_has_cuda)
    file(GLOB cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/cuda/*.cpp
                                             ${PROJECT_SOURCE_DIR}/${folder}/cuda/*.cu)
    list(APPEND sources ${cuda_sources})
  endif()
  if(rondo_has_protobuf)
    file(GLOB protobuf_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/protobuf/*.cpp)
    file(GLOB protobuf_schemas CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/protobuf/*.proto)
    list(APPEND sources ${protobuf_sources})
  endif()
  if(rondo_has_nccl)
    file(GLOB nccl_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/nccl/*.cpp)
    list(APPEND sources ${nccl_sources})
  endif()
  if(NOT sources)  # a folder of headers alone
    add_library(rondo_${folder} INTERFACE)
    add_library(rondo::${folder} ALIAS rondo_${folder})
    set_target_properties(rondo_${folder} PROPERTIES EXPORT_NAME ${folder})
    target_link_libraries(rondo_${folder} INTERFACE ${arg_PUBLIC})
    return()
  endif()
  add_library(rondo_${folder} ${sources})
  add_library(rondo::${folder} ALIAS rondo_${folder})
  target_include_directories(rondo_${folder} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                                    $<BUILD_INTERFACE:${rondo_include}>
                                                    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
                                                    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/rondo>)
  target_compile_features(rondo_${folder} PUBLIC cxx_std_20)
  target_precompile_headers(rondo_${folder} PRIVATE ${rondo_standard_headers})
  if(RONDO_SANITIZE AND folder MATCHES "^(tensor|autograd|dist)$")  # where tests spend their time
    target_compile_options(rondo_${folder} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O1>)
  endif()
  target_link_libraries(rondo_${folder} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE}
                                        PRIVATE $<BUILD_INTERFACE:rondo_flags>)
  set_target_properties(rondo_${folder} PROPERTIES VERSION ${PROJECT_VERSION}
                                                   SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
                                                   INSTALL_RPATH $ORIGIN
                                                   EXPORT_NAME ${folder})
  if(rondo_has_mpi AND mpi_sources)
    target_link_libraries(rondo_${folder} PRIVATE MPI::MPI_CXX)
    target_compile_definitions(rondo_${folder} PRIVATE RONDO_HAS_MPI)
    if(rondo_has_pmix)
      target_compile_definitions(rondo_${folder} PRIVATE RONDO_HAS_PMIX)
      target_include_directories(rondo_${folder} SYSTEM PRIVATE ${RONDO_PMIX_INCLUDE_DIR})
      target_link_libraries(rondo_${folder} PRIVATE ${CMAKE_DL_LIBS})
    endif()
  endif()
  if(rondo_has_cuda AND cuda_sources)
    target_link_libraries(rondo_${folder} PRIVATE CUDA::cudart_static)
    target_compile_definitions(rondo_${folder} PRIVATE RONDO_HAS_CUDA)
    # extended-lambda: the functors of all devices are lambdas; relaxed-constexpr: so are std::array's
    # and std::bit_cast's bodies usable in kernels.
    list(JOIN rondo_host_flags "," host_flags)
    target_compile_options(rondo_${folder} PRIVATE
      $<$<COMPILE_LANGUAGE:CUDA>:--extended-lambda --expt-relaxed-constexpr -Xcompiler=${host_flags}
                                 ${rondo_device_flags} $<$<BOOL:${RONDO_WERROR}>:--Werror=all-warnings>>)
  endif()
  if(rondo_has_nccl AND nccl_sources)
    target_compile_definitions(rondo_${folder} PRIVATE RONDO_HAS_NCCL)
    target_include_directories(rondo_${folder} SYSTEM PRIVATE ${RONDO_NCCL_INCLUDE_DIR})
  endif()
  if(rondo_has_protobuf AND protobuf_sources)
    protobuf_generate_cpp(generated generated_headers ${protobuf_schemas})
    target_sources(rondo_${folder} PRIVATE ${generated})
    target_include_directories(rondo_${folder} SYSTEM PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
    target_link_libraries(rondo_${folder} PRIVATE protobuf::libprotobuf-lite)
    target_compile_definitions(rondo_${folder} PRIVATE RONDO_HAS_PROTOBUF)
  endif()
  if(isa_sources)
    foreach(isa ${rondo_isas})
      add_library(rondo_${folder}_${isa} OBJECT ${isa_sources})
      target_compile_definitions(rondo_${folder}_${isa} PRIVATE RONDO_ISA=${isa})
      target_compile_options(rondo_${folder}_${isa} PRIVATE ${rondo_kernel_flags} ${rondo_isa_flags_${isa}}
                                                            -fopenmp-simd -fno-math-errno -fno-trapping-math)
      target_include_directories(rondo_${folder}_${isa} PRIVATE ${PROJECT_SOURCE_DIR})
      target_link_libraries(rondo_${folder}_${isa} PRIVATE rondo_flags OpenMP::OpenMP_CXX)
      target_sources(rondo_${folder} PRIVATE $<TARGET_OBJECTS:rondo_${folder}_${isa}>)
      string(TOUPPER ${isa} upper)
      target_compile_definitions(rondo_${folder} PRIVATE RONDO_HAS_${upper})
    endforeach()
  endif()
endfunction()
