#pragma once
// The requirements on every communicator, over any transport. Run over threads by
// tests/dist/collectives/communicator_test.cpp, over MPI by tests/mpi/collectives_test.cpp, and on
// GPUs by tests/dist/collectives/cuda/gpu_collectives_test.cpp. All ranks call each function.
// Values are small integers, so that every sum is exact in every dtype.

#include <cstdint>
#include <functional>
#include <vector>

#include "dist/collectives/communicator.h"

namespace rondo::test {

std::vector<std::int64_t> counts_for(int n);
/// Element i of rank r: (5 i + 3 r) mod 7, converted to `dtype`.
inline double value_at(int r, std::int64_t i) { return static_cast<double>((5 * i + 3 * r) % 7); }

Tensor filled(DType dtype, std::int64_t count, const std::function<double(std::int64_t)>& f,
              Device device = Device::cpu());
void expect_elements(const Tensor& t, const std::function<double(std::int64_t)>& want,
                     const char* what);
void check_all_reduce(dist::Communicator& comm, dist::AllReduce algorithm,
                      Device device = Device::cpu());
void check_broadcast(dist::Communicator& comm, Device device = Device::cpu());
void check_reduce(dist::Communicator& comm, Device device = Device::cpu());
/// Bitwise ops, which are only for integers and booleans.
void check_bits(dist::Communicator& comm, Device device = Device::cpu());
/// Rank r's part for rank p has 100 r + p + 1 elements or none, also for p = r; then a large part.
void check_exchanges(dist::Communicator& comm, Device device = Device::cpu());
/// A group of the even ranks and one of the odd ranks in reverse, at the same time, and a group of
/// a group.
void check_groups(dist::Communicator& comm, Device device = Device::cpu());
void check_gather_and_scatter(dist::Communicator& comm, Device device = Device::cpu());
/// `cases` collectives of random shapes, dtypes and layouts, which may differ between ranks.
void check_layouts(dist::Communicator& comm, int cases, unsigned seed = 1);
/// Every rank sends to every rank, in both directions at once, with blocking and asynchronous
/// calls.
void check_messages(dist::Communicator& comm, Device device = Device::cpu());
/// Many collectives in flight complete in the order in which they were issued.
void check_order(dist::Communicator& comm);
void check_agree(dist::Communicator& comm);

}  // namespace rondo::test
