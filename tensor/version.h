#pragma once
// The version of rondo: of these headers. CMakeLists.txt reads it from here, so there is one place
// to change. Until 1.0 a new minor version may break what compiled; a new patch may not.

#define RONDO_VERSION_MAJOR 0
#define RONDO_VERSION_MINOR 1
#define RONDO_VERSION_PATCH 0

/// One number to compare with: `#if RONDO_VERSION >= 200` is "0.2.0 or later".
#define RONDO_VERSION \
  (RONDO_VERSION_MAJOR * 10000 + RONDO_VERSION_MINOR * 100 + RONDO_VERSION_PATCH)
