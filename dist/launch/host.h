#pragma once
// Which machine this process runs on.

#include <string>

namespace rondo::dist {

/// What this machine calls itself.
std::string host_name();
/// The same text in all processes of one running kernel, and in no others: its name and boot id.
std::string host();
/// The same text in all processes that reach each other's abstract Unix domain sockets, and in no
/// others: the boot id and the network namespace.
std::string network();

}  // namespace rondo::dist
