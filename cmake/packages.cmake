# Packages: `cpack -G DEB` makes librondo, librondo-dev and rondo-tools, and `cpack --config CPackSourceConfig.cmake` a
# tarball of the sources. extras/packages/deb.sh calls it with the settings that Debian's rules ask for.
set(CPACK_PACKAGE_NAME rondo)
set(CPACK_PACKAGE_VENDOR "The rondo authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "deep-learning framework in C++20 with data-parallel training")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_FILE_NAME rondo-${PROJECT_VERSION})
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
                                                WORLD_READ WORLD_EXECUTE)

set(CPACK_SOURCE_GENERATOR TGZ)
set(CPACK_SOURCE_PACKAGE_FILE_NAME rondo-${PROJECT_VERSION})
set(CPACK_SOURCE_IGNORE_FILES "/\\.git/" "/\\.venv/" "${PROJECT_SOURCE_DIR}/(build[^/]*|runs|data-cache)/" "\\.ckpt$" "\\.part$"
                              "__pycache__")

set(CPACK_COMPONENTS_ALL runtime development tools)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENT_DEVELOPMENT_DEPENDS runtime)
set(CPACK_COMPONENT_TOOLS_DEPENDS runtime)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
# The maintainer is whoever makes the packages, as Debian's tools know him.
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
set(CPACK_PACKAGE_CONTACT "${CPACK_DEBIAN_PACKAGE_MAINTAINER}")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

# What Debian's rules ask for in /usr/share of each package, as deb.sh makes it.
set(RONDO_DEB_FILES "" CACHE PATH "A folder with a folder of more files for /usr/share of each package (extras/packages/deb.sh)")
mark_as_advanced(RONDO_DEB_FILES)
if(RONDO_DEB_FILES)
  foreach(component runtime development tools)
    install(DIRECTORY ${RONDO_DEB_FILES}/${component}/ DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT ${component})
  endforeach()
endif()

file(WRITE ${PROJECT_BINARY_DIR}/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/triggers)

set(about "rondo trains and runs neural networks: tensors with automatic\n\
differentiation, layers, optimizers, data sets, and data-parallel\n\
training over MPI.")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME librondo)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION "deep-learning framework in C++20 (shared libraries)\n${about}")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME librondo-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS g++)  # its OpenMP
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "cmake, pkg-config")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "deep-learning framework in C++20 (headers)\n${about}\n\
This package has the headers, and files for CMake and pkg-config.")
set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME rondo-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION science)
set(CPACK_DEBIAN_TOOLS_DESCRIPTION "deep-learning framework in C++20 (programs)\n${about}\n\
This package has rondo-doctor, which examines a machine, rondo-weights,\n\
which lists and converts files of weights, and rondo-data, which downloads\n\
data sets.")
include(CPack)
