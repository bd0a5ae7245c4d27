# rondo_library(folder PUBLIC … PRIVATE …): makes a library of all .cpp files below a folder, and exports it as
# rondo::NAME, where NAME is the last part of the folder's path. Sub-folders cuda/, mpi/, nccl/ and protobuf/ are
# compiled only if that dependency was found.

# Links in the build tree, so that <rondo/nn/conv2d.h> is found as in an installed copy.
set(rondo_include ${PROJECT_BINARY_DIR}/include)
file(MAKE_DIRECTORY ${rondo_include}/rondo)
foreach(path tensor autograd nn optim data io dist train extras include/rondo/rondo.h)
  get_filename_component(name ${path} NAME)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${path} ${rondo_include}/rondo/${name} SYMBOLIC)
endforeach()

# Kernels are compiled once for each instruction set; tensor/cpu/isa/table.cpp picks one at run time. Only files of that
# folder may be compiled so, and they may define nothing that other files could link to.
set(rondo_isas generic)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND rondo_isas avx2 avx512)
  set(rondo_isa_flags_avx2 -mavx2 -mfma -mf16c)
  # Compilers use bf16's instructions only for their intrinsics, and those are behind a check (kernels_attention.cpp).
  set(rondo_isa_flags_avx512 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512bf16 -mfma -mf16c
                             -mprefer-vector-width=512)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # With -msve-vector-bits, GCC's vectors of that size are SVE's registers (vec.h). Loops with masked vectors are disabled,
  # because GCC 12 and 14 compile a reduction from float to double wrongly with them: they read each vector's upper half
  # from the lower one.
  foreach(bits 256 512)
    list(APPEND rondo_isas sve${bits})
    set(rondo_isa_flags_sve${bits} -march=armv8.2-a+sve -msve-vector-bits=${bits} --param=vect-partial-vector-usage=0)
  endforeach()
endif()

# The largest set of this machine, if it is known. Sanitized tests run only its kernels, unless --slow is given.
set(rondo_largest_isa "")
if("avx2" IN_LIST rondo_isas AND EXISTS /proc/cpuinfo)
  file(STRINGS /proc/cpuinfo flags REGEX "^flags" LIMIT_COUNT 1)
  if(flags MATCHES " avx512dq")
    set(rondo_largest_isa avx512)
  elseif(flags MATCHES " avx2")
    set(rondo_largest_isa avx2)
  endif()
  unset(flags)
endif()

# Compiles kernels five at a time, as UNITY_BUILD does with other sources; UNITY_BUILD includes CUDA from CMake 3.31 on. The list of
# .cu files that `variable` names becomes a list of generated files, each of which includes five of them.
function(rondo_join_kernels name variable)
  set(joined)
  set(rest ${${variable}})
  while(rest)
    list(SUBLIST rest 0 5 some)
    list(REMOVE_ITEM rest ${some})
    list(TRANSFORM some REPLACE "(.+)" "#include \"\\1\"\n")
    string(JOIN "" content ${some})
    list(LENGTH joined number)
    set(file ${PROJECT_BINARY_DIR}/kernels/${name}_${number}.cu)
    set(before)
    if(EXISTS ${file})
      file(READ ${file} before)
    endif()
    if(NOT content STREQUAL before)  # so that it is not compiled again
      file(WRITE ${file} "${content}")
    endif()
    list(APPEND joined ${file})
  endwhile()
  set(${variable} ${joined} PARENT_SCOPE)
endfunction()

function(rondo_library folder)
  cmake_parse_arguments(arg "" "" "PUBLIC;PRIVATE" ${ARGN})
  get_filename_component(name ${folder} NAME)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cpp)
  set(isa_sources ${sources})
  list(FILTER isa_sources INCLUDE REGEX "/cpu/isa/kernels_")
  # The filters below must not match the path of the clone itself.
  list(TRANSFORM sources REPLACE "^${PROJECT_SOURCE_DIR}/${folder}/" "")
  list(FILTER sources EXCLUDE REGEX "(^|/)(cuda|mpi|nccl|protobuf)/|cpu/isa/kernels_")
  list(TRANSFORM sources PREPEND ${PROJECT_SOURCE_DIR}/${folder}/)
  foreach(kind mpi cuda nccl protobuf)  # in folders of that name, at any depth
    set(${kind}_sources)
    if(rondo_has_${kind})
      file(GLOB_RECURSE ${kind}_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cpp
           ${PROJECT_SOURCE_DIR}/${folder}/*.cu)
      list(FILTER ${kind}_sources INCLUDE REGEX "^${PROJECT_SOURCE_DIR}/${folder}/(.*/)?${kind}/[^/]*$")
      list(APPEND sources ${${kind}_sources})
    endif()
  endforeach()
  set(kernels ${cuda_sources})
  list(FILTER kernels INCLUDE REGEX "\\.cu$")
  list(FILTER sources EXCLUDE REGEX "\\.cu$")
  if(RONDO_UNITY)
    rondo_join_kernels(${name} kernels)
  endif()
  list(APPEND sources ${kernels})
  set_property(GLOBAL PROPERTY rondo_kernels_${folder} ${kernels})  # for tests/ptx
  set_source_files_properties(${kernels} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  if(RONDO_SANITIZE)  # sanitizers see kernels on the host only (launch.cuh)
    set_source_files_properties(${kernels} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-x;c++")
  endif()
  if(protobuf_sources)
    list(FILTER sources EXCLUDE REGEX "_absent.cpp$")  # these files only throw: protobuf is missing
    file(GLOB protobuf_schemas CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/protobuf/*.proto)
  endif()
  if(NOT sources)  # a folder with headers only
    add_library(rondo_${name} INTERFACE)
    add_library(rondo::${name} ALIAS rondo_${name})
    set_target_properties(rondo_${name} PROPERTIES EXPORT_NAME ${name})
    target_link_libraries(rondo_${name} INTERFACE ${arg_PUBLIC})
    return()
  endif()
  add_library(rondo_${name} ${sources})
  add_library(rondo::${name} ALIAS rondo_${name})
  target_include_directories(rondo_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                                    $<BUILD_INTERFACE:${rondo_include}>
                                                    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(rondo_${name} PUBLIC cxx_std_20)
  if(RONDO_UNITY)
    set(together 8)
    if(RONDO_SANITIZE)  # nobody edits and builds this half again and again: an eighth less to compile
      set(together 32)
    endif()
    set_target_properties(rondo_${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${together})
  endif()
  set(headers_of autograd)
  if(folder MATCHES "^(io|train|extras/(torch_files|hdf5|onnx|export_cpp|tensorboard|report|hub|text|tape_graph))$")  # files and reports, not arithmetic: a third less to compile
    target_compile_options(rondo_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
    set(headers_of io)
  elseif(folder STREQUAL "tensor")
    set(headers_of tensor)
    if(RONDO_SANITIZE)  # the tests spend most of their time in this library
      target_compile_options(rondo_tensor PRIVATE -O1)
    endif()
  endif()
  if(mpi_sources AND MPI_CXX_COMPILE_OPTIONS)
    set(headers_of ${folder})
  endif()
  # Folders with equal flags share one precompiled header. GCC 12 crashes if the level of optimisation differs.
  if(folder STREQUAL headers_of)
    target_precompile_headers(rondo_${name} PRIVATE ${rondo_common_headers})
  else()
    target_precompile_headers(rondo_${name} REUSE_FROM rondo_${headers_of})
  endif()
  target_link_libraries(rondo_${name} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE}
                                        PRIVATE $<BUILD_INTERFACE:rondo_hardened>)
  # A shared library shows no symbols of other libraries: neither of static ones, such as CUDA's runtime, nor of templates.
  target_link_options(rondo_${name} PRIVATE ${rondo_sealed} LINKER:--exclude-libs,ALL
                                            LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/symbols.map)
  set_target_properties(rondo_${name} PROPERTIES LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/symbols.map
                                                   VERSION ${PROJECT_VERSION}
                                                   SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
                                                   INSTALL_RPATH $ORIGIN
                                                   DEFINE_SYMBOL ""  # equal macros, for the shared precompiled header
                                                   EXPORT_NAME ${name})
  if(rondo_has_mpi AND mpi_sources)
    target_link_libraries(rondo_${name} PRIVATE MPI::MPI_CXX)
    target_compile_definitions(rondo_${name} PRIVATE RONDO_HAS_MPI)
  endif()
  if(rondo_has_cuda AND cuda_sources)
    target_link_libraries(rondo_${name} PRIVATE CUDA::cudart_static)
    target_compile_definitions(rondo_${name} PRIVATE RONDO_HAS_CUDA)
    if(RONDO_SANITIZE)
      target_compile_definitions(rondo_${name} PRIVATE RONDO_HOST_KERNELS)
    endif()
    # extended-lambda: the functors of all devices are lambdas. relaxed-constexpr: kernels may call std::array's
    # members and std::bit_cast.
    list(JOIN rondo_host_flags "," host_flags)
    target_compile_options(rondo_${name} PRIVATE
      $<$<COMPILE_LANGUAGE:CUDA>:--extended-lambda --expt-relaxed-constexpr --Werror=cross-execution-space-call -Xcompiler=${host_flags}
                                 $<$<BOOL:${RONDO_TESTS}>:--no-compress>  # tests/ptx reads the PTX in the objects
                                 $<$<BOOL:${RONDO_WERROR}>:--Werror=all-warnings>>)
  endif()
  if(rondo_has_nccl AND nccl_sources)
    target_compile_definitions(rondo_${name} PRIVATE RONDO_HAS_NCCL)
    target_include_directories(rondo_${name} SYSTEM PRIVATE ${RONDO_NCCL_INCLUDE_DIR})
  endif()
  if(rondo_has_protobuf AND protobuf_sources)
    protobuf_generate_cpp(generated generated_headers ${protobuf_schemas})
    target_sources(rondo_${name} PRIVATE ${generated})
    target_include_directories(rondo_${name} SYSTEM PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
    target_link_libraries(rondo_${name} PRIVATE protobuf::libprotobuf-lite)
  endif()
  if(isa_sources)
    if(NOT RONDO_SANITIZE)  # 330 loops that say what to vectorise and to inline: with -O2 as fast, half the code, half the time
      set_source_files_properties(${PROJECT_SOURCE_DIR}/tensor/cpu/isa/kernels_elementwise.cpp PROPERTIES COMPILE_OPTIONS -O2)
    endif()
    foreach(isa ${rondo_isas})
      add_library(rondo_${name}_${isa} OBJECT ${isa_sources})
      if(NOT RONDO_SANITIZE)  # only table.cpp uses them, and tests, which link a shared library only if it is sanitized
        set_target_properties(rondo_${name}_${isa} PROPERTIES CXX_VISIBILITY_PRESET hidden)
      endif()
      set(level ${rondo_kernel_flags})
      if(RONDO_SANITIZE AND rondo_largest_isa AND NOT isa STREQUAL rondo_largest_isa)  # sanitized tests rarely run it
        set(level -O0)
      endif()
      target_compile_definitions(rondo_${name}_${isa} PRIVATE RONDO_ISA_SET=${isa})
      target_compile_options(rondo_${name}_${isa} PRIVATE ${level} ${rondo_isa_flags_${isa}}
                                                            -fopenmp-simd -fno-math-errno -fno-trapping-math)
      target_include_directories(rondo_${name}_${isa} PRIVATE ${PROJECT_SOURCE_DIR})
      target_link_libraries(rondo_${name}_${isa} PRIVATE rondo_flags OpenMP::OpenMP_CXX)
      target_sources(rondo_${name} PRIVATE $<TARGET_OBJECTS:rondo_${name}_${isa}>)
      string(TOUPPER ${isa} upper)
      target_compile_definitions(rondo_${name} PRIVATE RONDO_HAS_${upper})
    endforeach()
  endif()
endfunction()
