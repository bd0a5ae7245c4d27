message(STATUS "rondo ${PROJECT_VERSION} (${CMAKE_BUILD_TYPE}), MPI ${rondo_has_mpi}")
