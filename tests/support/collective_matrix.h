#pragma once
// check_every_collective tests every collective with every op and dtype, blocking and asynchronous,
// on a communicator of all ranks or of some. Reduced values are 1 and 2 (for booleans 0 and 1), so
// each result is exact in each dtype, except averages, which are rounded once. Moved values
// identify sender, receiver and position. Receive buffers are filled with 9 before.

#include "dist/collectives/communicator.h"

namespace rondo::test {

/// On all ranks and, if there are three or more, on a group of all but the first, in reverse order.
void check_every_collective(dist::Communicator& comm, Device device = Device::cpu());

}  // namespace rondo::test
