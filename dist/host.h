#pragma once
// Which machine this process runs on.

#include <string>

namespace rondo::dist {

/// What this machine calls itself.
std::string host_name();
/// The same text in all processes of one running kernel, and in no others: its name and boot id.
std::string host();

}  // namespace rondo::dist
