#pragma once
// Which machine this process runs on.

#include <string>

namespace rondo::dist {

/// The name of this machine.
std::string host_name();
/// A text that is equal in all processes of one running kernel, and differs elsewhere: host name
/// and boot id.
std::string host();
/// A text that is equal in all processes that can reach each other's abstract Unix domain sockets,
/// and differs elsewhere: the boot id and the network namespace.
std::string network();

}  // namespace rondo::dist
