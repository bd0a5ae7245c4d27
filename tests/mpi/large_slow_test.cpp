// More elements than 32 bits can count, and messages beyond MPI's int: 2 GiB per rank.

#include <gtest/gtest.h>

#include "support/mpi_main.h"
#include "tensor/cpu/allocator.h"
#include "tensor/creation.h"

namespace rondo::dist {
namespace {

using test::world;

/// Returns the memory of a test to the system, because two ranks would need more than a machine
/// has.
class Large : public ::testing::Test {
 protected:
  void TearDown() override { cpu::CachingAllocator::instance().empty_cache(); }
};

constexpr std::int64_t count = (std::int64_t{1} << 31) + 17;

/// Byte i of rank r. The maximum over the ranks is the last rank's where i is not a multiple of 5.
std::uint8_t byte_at(int rank, std::int64_t i) {
  return static_cast<std::uint8_t>(i % 5 == 0 ? i % 199 : i % 61 + 60 * rank);
}

/// Compares from byte `first` on.
Tensor bytes_of(int rank, std::int64_t first = 0) {
  Tensor x = Tensor::empty({count}, {.dtype = u8});
  auto* p = x.data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < count; ++i) p[i] = byte_at(rank, first + i);
  return x;
}

void expect_bytes_of(int rank, const Tensor& x, std::int64_t first = 0) {
  const auto* p = x.data_ptr<std::uint8_t>();
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < count; ++i) wrong += p[i] != byte_at(rank, first + i);
  EXPECT_EQ(wrong, 0) << "of rank " << rank;
}

Tensors room_for_all() {
  Tensors all;
  for (int r = 0; r < world()->world_size(); ++r)
    all.push_back(Tensor::empty({count}, {.dtype = u8}));
  return all;
}

TEST_F(Large, AllReduceByRingAndByMpi) {
  for (AllReduce algorithm : {AllReduce::ring, AllReduce::mpi}) {
    auto comm = init({.backend = "mpi", .communicator = {.all_reduce = algorithm}});
    Tensor x = bytes_of(comm->rank());
    comm->all_reduce(x, ReduceOp::max);
    expect_bytes_of(comm->world_size() - 1, x);
  }
}

TEST_F(Large, AllReduceInSharedMemory) {
  auto comm = init({.backend = "mpi"});
  if (comm->world_size() > 1) {
    ASSERT_TRUE(comm->shares_memory());
  }
  Tensor x = bytes_of(comm->rank());
  comm->all_reduce(x, ReduceOp::max);
  expect_bytes_of(comm->world_size() - 1, x);
  auto memory = comm->allocate(static_cast<std::size_t>(count));
  Tensor shared = Tensor::over(memory, 0, {count}, {1}, u8);
  shared.copy_(bytes_of(comm->rank()));
  comm->all_reduce(shared, ReduceOp::max);
  expect_bytes_of(comm->world_size() - 1, shared);
}

TEST_F(Large, AllToAll) {
  const auto n = static_cast<std::size_t>(world()->world_size());
  const Tensor mine = bytes_of(world()->rank());
  const Tensors from = room_for_all();
  world()->all_to_all(from, Tensors(n, mine));
  for (std::size_t r = 0; r < n; ++r) expect_bytes_of(static_cast<int>(r), from[r]);
}

TEST_F(Large, Broadcast) {
  Tensor x = bytes_of(world()->rank());
  world()->broadcast(x, 0);
  expect_bytes_of(0, x);
}

TEST_F(Large, Reduce) {
  const Tensor x = bytes_of(world()->rank());
  world()->reduce(x, 0, ReduceOp::max);
  expect_bytes_of(world()->rank() == 0 ? world()->world_size() - 1 : world()->rank(), x);
}

TEST_F(Large, AllGather) {
  const int n = world()->world_size();
  const Tensor mine = bytes_of(world()->rank()), all = Tensor::empty({n, count}, {.dtype = u8});
  world()->all_gather(all, mine);
  for (int r = 0; r < n; ++r) expect_bytes_of(r, all[r]);
}

TEST_F(Large, ReduceScatter) {
  const int n = world()->world_size(), mine = world()->rank();
  const Tensor all = Tensor::empty({n, count}, {.dtype = u8});
  for (int part = 0; part < n; ++part) all[part].copy_(bytes_of(mine, part));
  const Tensor sum = Tensor::empty({count}, {.dtype = u8});
  world()->reduce_scatter(sum, all, ReduceOp::max);
  expect_bytes_of(n - 1, sum, mine);
}

TEST_F(Large, ListsOfTensors) {
  const int n = world()->world_size(), mine = world()->rank();
  const Tensors none, all = room_for_all();
  world()->all_gather(all, bytes_of(mine));
  for (int r = 0; r < n; ++r) expect_bytes_of(r, all[static_cast<std::size_t>(r)]);
  const Tensor part = Tensor::empty({count}, {.dtype = u8});
  world()->scatter(part, mine == 0 ? all : none);
  expect_bytes_of(mine, part);
  for (const Tensor& x : all) x.fill_(0);
  world()->gather(mine == 0 ? all : none, part);
  for (int r = 0; mine == 0 && r < n; ++r) expect_bytes_of(r, all[static_cast<std::size_t>(r)]);
}

TEST_F(Large, Messages) {
  if (world()->world_size() < 2 || world()->rank() > 1) return;
  Tensor x = bytes_of(world()->rank());
  if (world()->rank() == 1) {
    world()->send(x, 0);
  } else {
    world()->recv(x, 1);
    expect_bytes_of(1, x);
  }
}

}  // namespace
}  // namespace rondo::dist
