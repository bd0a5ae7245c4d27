#pragma once
// Where the buffers of exported code are in its memory. Private to export_cpp.

#include "extras/export_cpp/program.h"

namespace rondo::io::detail {

/// The offsets of the buffers in one piece of memory, and its size. Two buffers that are needed at
/// the same time do not overlap, except that a step in place overwrites its operand.
struct Plan {
  std::vector<Int> offsets;
  Int size = 0;
};

Plan planned(const Program& program);

}  // namespace rondo::io::detail
