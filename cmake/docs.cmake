# The target `docs` writes the API reference to docs/html of the build folder.
find_program(RONDO_DOXYGEN doxygen)
mark_as_advanced(RONDO_DOXYGEN)
if(RONDO_DOXYGEN)
  add_custom_target(docs
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/docs
    COMMAND ${CMAKE_COMMAND} -E env RONDO_DOCS=${PROJECT_BINARY_DIR}/docs ${RONDO_DOXYGEN} Doxyfile
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    COMMENT "API reference: ${PROJECT_BINARY_DIR}/docs/html/index.html"
    VERBATIM)
else()
  add_custom_target(docs
    COMMAND ${CMAKE_COMMAND} -E echo "Doxygen was not found: apt-get install doxygen (or scripts/setup.sh extra)"
    COMMAND ${CMAKE_COMMAND} -E false
    VERBATIM)
endif()
