# The target `docs` writes the documents and the API reference as a site to docs/ of the build folder.
add_custom_target(docs
  COMMAND ${PROJECT_SOURCE_DIR}/scripts/docs.sh ${PROJECT_BINARY_DIR}/docs
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
  USES_TERMINAL
  VERBATIM)
