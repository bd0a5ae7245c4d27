# `cmake --install build --prefix DIR` installs libraries, headers and the files for find_package(rondo).
#
# Headers are in include/rondo/<folder>/, so users write <rondo/nn/conv2d.h>. The headers include each
# other as "nn/module.h", so both include/ and include/rondo/ are on a user's include path. Headers in
# cpu/, cuda/, mpi/, nccl/ and protobuf/ are private and are not installed.
include(CMakePackageConfigHelpers)

set(rondo_folders tensor autograd nn optim data io dist train extras)
set(rondo_targets rondo rondo_linalg rondo_quantization rondo_torch_files rondo_onnx rondo_tensorboard rondo_report rondo_hub rondo_text)
foreach(folder ${rondo_folders})
  if(TARGET rondo_${folder})
    list(APPEND rondo_targets rondo_${folder})
  endif()
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder}
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rondo
          FILES_MATCHING PATTERN "*.h"
          PATTERN cpu EXCLUDE PATTERN cuda EXCLUDE PATTERN mpi EXCLUDE PATTERN nccl EXCLUDE
          PATTERN protobuf EXCLUDE PATTERN doctor EXCLUDE PATTERN command_line.h EXCLUDE PATTERN cluster EXCLUDE PATTERN emulators EXCLUDE
          PATTERN weights EXCLUDE PATTERN data_sets EXCLUDE)
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/include/rondo/rondo.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rondo)

set(rondo_package ${CMAKE_INSTALL_LIBDIR}/cmake/rondo)
install(TARGETS ${rondo_targets} EXPORT rondoTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(EXPORT rondoTargets NAMESPACE rondo:: DESTINATION ${rondo_package})

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
        DESTINATION ${rondo_package})
