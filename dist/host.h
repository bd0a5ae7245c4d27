#pragma once
// Which machine this process runs on.

#include <string>

namespace rondo::dist {

/// The same text in all processes of one running kernel, and in no others: its name and boot id.
std::string host();

}  // namespace rondo::dist
