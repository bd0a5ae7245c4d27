#pragma once
// The version of rondo and of these headers. CMakeLists.txt reads it from here, so there is one
// place to change. Before 1.0, a new minor version may break code that compiled; a new patch
// version may not.

#define RONDO_VERSION_MAJOR 0
#define RONDO_VERSION_MINOR 1
#define RONDO_VERSION_PATCH 0

/// One number for comparisons: `#if RONDO_VERSION >= 200` means "0.2.0 or later".
#define RONDO_VERSION \
  (RONDO_VERSION_MAJOR * 10000 + RONDO_VERSION_MINOR * 100 + RONDO_VERSION_PATCH)
