#pragma once
// What the readers of weights say of tensors that they did not read.

#include <string>

namespace rondo::io {

/// A tensor, or several under one name, that a file has and rondo does not: {"w", "it is of
/// torch.qint8, a dtype that rondo lacks"}.
struct LeftOut {
  std::string name, why;
};

}  // namespace rondo::io
