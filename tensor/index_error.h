#pragma once
// The error for an index that is out of range, the same on all devices.

#include <cstdint>
#include <string>

#include "tensor/error.h"

namespace rondo {

/// "embedding: index 12 is out of range for dimension 0 of size 10 (valid: 0 to 9)". first: -size
/// if negative indices count from the end.
inline std::string index_error(const char* op, std::int64_t index, std::int64_t dim,
                               std::int64_t size, std::int64_t first = 0) {
  return concat(
      op, ": index ", index, " is out of range for dimension ", dim, " of size ", size,
      size > 0 ? concat(" (valid: ", first, " to ", size - 1, ")") : " (no index is valid)");
}

}  // namespace rondo
