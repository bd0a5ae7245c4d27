# `cmake --install build --prefix DIR` installs libraries, headers and the files for find_package(rondo).
#
# Headers are in include/rondo/<folder>/, so users write <rondo/nn/conv2d.h>. In the sources they include each
# other as "nn/module.h". The installed ones say "rondo/nn/module.h", since a project may have a folder nn of its
# own. Headers in cpu/, cuda/, mpi/, nccl/ and protobuf/ are private and are not installed.
include(CMakePackageConfigHelpers)

set(rondo_folders tensor autograd nn optim data io dist train extras)
set(rondo_targets)
foreach(folder ${rondo_folders})
  if(TARGET rondo_${folder})
    list(APPEND rondo_targets rondo_${folder})
  endif()
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder}
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rondo COMPONENT development
          FILES_MATCHING PATTERN "*.h"
          PATTERN cpu EXCLUDE PATTERN cuda EXCLUDE PATTERN mpi EXCLUDE PATTERN nccl EXCLUDE
          PATTERN protobuf EXCLUDE PATTERN doctor EXCLUDE PATTERN command_line.h EXCLUDE PATTERN cluster EXCLUDE PATTERN emulators EXCLUDE
          PATTERN weights EXCLUDE PATTERN data_sets EXCLUDE)
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/include/rondo/rondo.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rondo COMPONENT development)
list(JOIN rondo_folders "|" folders)
install(CODE "
  file(GLOB_RECURSE headers \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}/rondo/*.h\")
  foreach(header \${headers})
    file(READ \${header} text)
    string(REGEX REPLACE \"#include \\\"(${folders})/\" \"#include \\\"rondo/\\\\1/\" text \"\${text}\")
    file(WRITE \${header} \"\${text}\")
  endforeach()" COMPONENT development)

list(APPEND rondo_targets rondo_linalg rondo_fft rondo_quantization rondo_torch_files rondo_hdf5
     rondo_onnx rondo_export_cpp rondo_tensorboard rondo_report rondo_hub rondo_text rondo_tape_graph rondo)

set(rondo_package ${CMAKE_INSTALL_LIBDIR}/cmake/rondo)
install(TARGETS ${rondo_targets} EXPORT rondoTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(EXPORT rondoTargets NAMESPACE rondo:: DESTINATION ${rondo_package} COMPONENT development)
if(RONDO_EXAMPLES)
  install(TARGETS rondo-doctor rondo-weights rondo-data DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
endif()

if(BUILD_SHARED_LIBS)
  set(BUILD_SHARED_LIBS ON)
else()
  set(BUILD_SHARED_LIBS OFF)
endif()
configure_package_config_file(cmake/rondoConfig.cmake.in ${PROJECT_BINARY_DIR}/rondoConfig.cmake
                              INSTALL_DESTINATION ${rondo_package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/rondoConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/rondoConfig.cmake ${PROJECT_BINARY_DIR}/rondoConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/modules/FindOneDNN.cmake
        DESTINATION ${rondo_package} COMPONENT development)

# pkg-config, for projects that do not use CMake. A program that links static libraries also needs
# what they need.
set(rondo_libs)
set(rondo_requires)
foreach(target ${rondo_targets})
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL "INTERFACE_LIBRARY")
    list(PREPEND rondo_libs -l${target})  # the later folders use the earlier ones
  endif()
endforeach()
if(NOT BUILD_SHARED_LIBS)
  list(APPEND rondo_libs -larchive -lcrypto -lcurl -lfmt -lz ${OneDNN_LIBRARY} ${MPI_CXX_LIBRARIES})
  list(FILTER rondo_libs EXCLUDE REGEX "mpi_cxx")
  if(rondo_has_images)
    list(APPEND rondo_libs -ljpeg -lpng)
  endif()
  if(rondo_has_protobuf)
    set(rondo_requires protobuf-lite)  # its own file names Abseil, which it needs from version 22 on
  endif()
  if(rondo_has_lapack)
    list(APPEND rondo_libs ${RONDO_LAPACKE_LIBRARY})
  endif()
  if(rondo_has_hdf5)
    list(APPEND rondo_libs ${RONDO_HDF5_LIBRARY})
  endif()
  if(rondo_has_icu)
    list(APPEND rondo_libs -licui18n -licuuc)
  endif()
  if(rondo_has_cuda)
    get_target_property(cudart CUDA::cudart_static IMPORTED_LOCATION)
    list(APPEND rondo_libs ${cudart} -ldl -lrt)
  endif()
endif()
list(JOIN rondo_libs " " rondo_libs)
file(RELATIVE_PATH rondo_prefix /usr/${CMAKE_INSTALL_LIBDIR}/pkgconfig /usr)  # a copy of the folder works, too
configure_file(cmake/rondo.pc.in ${PROJECT_BINARY_DIR}/rondo.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/rondo.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
