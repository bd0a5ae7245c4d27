#pragma once
// LeftOut: a tensor that a reader of weights did not read, and why.

#include <string>

namespace rondo::io {

/// One tensor, or several with the same name, that is in a file but that rondo cannot read: {"w",
/// "it is of torch.qint8, a dtype that rondo lacks"}.
struct LeftOut {
  std::string name, why;
};

}  // namespace rondo::io
