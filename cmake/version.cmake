# Sets rondo_version from tensor/version.h.
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/../tensor/version.h rondo_version
     REGEX "define RONDO_VERSION_(MAJOR|MINOR|PATCH)")
string(REGEX MATCHALL "[0-9]+" rondo_version "${rondo_version}")
string(REPLACE ";" "." rondo_version "${rondo_version}")
