#pragma once
// Every collective, with every op and dtype, blocking and asynchronous: what
// check_every_collective goes through, on a communicator of all ranks or of some. Values that are
// reduced are 1 and 2 (of booleans 0 and 1), so that each result is exact in each dtype, but for
// averages, which are rounded once; values that are moved tell sender, receiver and place apart.
// What is received goes where 9 was before.

#include "dist/collectives/communicator.h"

namespace rondo::test {

/// On all ranks, and on a group of all but the first, in reverse, if there are three or more.
void check_every_collective(dist::Communicator& comm, Device device = Device::cpu());

}  // namespace rondo::test
