#pragma once
// The world that dist::init made, for dist::run to end when something fails.

#include <memory>

#include "dist/transport.h"

namespace rondo::dist {

void set_world(std::shared_ptr<Transport> transport);
/// Null before init.
std::shared_ptr<Transport> world();

}  // namespace rondo::dist
