// Communication through memory between ranks of one machine (dist/transports/shared_memory).
// communicator_test.cpp tests what every communicator must do, also over memory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "dist/data_parallel/ddp.h"
#include "dist/transports/shared_memory/node_memory.h"
#include "support/collectives.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "tensor/creation.h"

namespace rondo::dist {
namespace {

using test::on_ranks_sharing_memory;
using ::testing::HasSubstr;

TEST(Segment, ThreadsShareOneMapping) {
  auto segment = Segment::create(100);
  EXPECT_EQ(Segment::open(segment->name())->data(), segment->data());
  segment->close();
  EXPECT_NE(test::message_of<Error>([&] { Segment::open(segment->name()); }), "");
}

TEST(Segment, AnotherProcessSeesTheSameBytes) {
  auto segment = Segment::create(5000);
  const pid_t child = fork();
  if (child == 0) {
    // The forked process has the mapping already; the test is that opening gives another mapping of
    // the same memory.
    const std::string name = segment->name();
    int status = 1;
    try {
      segment->data()[0] = 'x';
      status = Segment::open(name)->data()[0] == 'x' ? 0 : 2;
    } catch (const Error&) {
    }
    _exit(status);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(segment->data()[0], 'x');
  EXPECT_EQ(segment->data()[4999], 0);
}

TEST(Segment, WhatIsNoSegmentIsAnError) {
  auto segment = Segment::create(100);
  auto with = [&](std::size_t field, const std::string& value) {
    std::istringstream in(segment->name());
    std::string name, word;
    for (std::size_t i = 0; in >> word; ++i) name += (i ? " " : "") + (i == field ? value : word);
    return test::message_of<Error>([&] { Segment::open(name); });
  };
  EXPECT_THAT(with(4, "elsewhere"), HasSubstr("the segment is on another machine, elsewhere"));
  EXPECT_THAT(with(0, "999999999"), HasSubstr("/proc/999999999/fd/"));
  EXPECT_THAT(with(1, "0"), HasSubstr("shared memory: /proc/"));  // a terminal, a pipe, a file
  EXPECT_THAT(with(2, "1"), HasSubstr("is another segment"));     // the number of a dead one
  EXPECT_THAT(with(3, "200"),
              HasSubstr("is not a segment of the expected size"));  // of another size
}

class SharedMemoryTest : public ::testing::TestWithParam<int> {};

/// A tensor in the communicator's shared memory.
Tensor allocated(Communicator& comm, std::int64_t numel, DType dtype = f32) {
  return comm.empty({numel}, {.dtype = dtype});
}

double sum_at(int n, std::int64_t i) {
  double sum = 0;
  for (int r = 0; r < n; ++r) sum += test::value_at(r, i);
  return sum;
}

// Sizes below, at and above a slot, a stage and two stages, and sizes that are read from private
// memory; with tensors in private memory and in shared memory.
TEST_P(SharedMemoryTest, AllReduceOfEverySize) {
  on_ranks_sharing_memory(GetParam(), [](auto comm) {
    const int n = comm->world_size();
    const auto slot = static_cast<std::int64_t>(slot_bytes / 4);
    const auto stage = static_cast<std::int64_t>(SharedSpace::stage_bytes / 4);
    for (std::int64_t count :
         {std::int64_t{1}, slot - 1, slot, slot + 1, stage - 64, stage, stage + 1, 2 * stage + 17,
          5 * stage + 4099, std::int64_t{1'000'001}}) {
      for (bool is_own : {false, true}) {
        Tensor x = is_own ? allocated(*comm, count) : Tensor::empty({count}, {.dtype = f32});
        for (int round = 0; round < 3; ++round) {
          for (std::int64_t i = 0; i < count; ++i)
            x.data_ptr<float>()[i] = static_cast<float>(test::value_at(comm->rank(), i + round));
          comm->all_reduce(x);
          const float* p = x.data_ptr<float>();
          std::int64_t wrong = 0;
          for (std::int64_t i = 0; i < count; ++i) wrong += p[i] != sum_at(n, i + round);
          EXPECT_EQ(wrong, 0) << "of " << count << (is_own ? " allocated" : " private");
        }
      }
    }
  });
}

TEST_P(SharedMemoryTest, AViewOfAllocatedMemory) {
  on_ranks_sharing_memory(GetParam(), [](auto comm) {
    const std::int64_t count = 50'000;
    Tensor x = allocated(*comm, 3 * count, f64);
    x.fill_(1.0);
    Tensor middle = x.narrow(0, count, count);
    comm->all_reduce(middle);
    const double n = comm->world_size();
    test::expect_elements(
        x, [&](auto i) { return i >= count && i < 2 * count ? n : 1.0; }, "a view");
  });
}

// Some ranks' tensors are in shared memory, and others' are not, or at another offset.
TEST_P(SharedMemoryTest, TensorsInDifferentPlaces) {
  on_ranks_sharing_memory(GetParam(), [](auto comm) {
    const int n = comm->world_size();
    for (const std::int64_t count : {30'000, 300'000}) {
      Tensor own = allocated(*comm, 2 * count), other = allocated(*comm, count);
      for (int odd = 0; odd < n; ++odd) {
        const bool is_odd = comm->rank() == odd;
        for (const Tensor& x :
             {is_odd ? Tensor::empty({count}, {}) : other, is_odd ? own.narrow(0, 0, count) : other,
              own.narrow(0, is_odd ? 64 : 0, count)}) {
          x.fill_(comm->rank() + 1.0);
          comm->all_reduce(x);
          test::expect_elements(
              x, [&](auto) { return n * (n + 1) / 2.0; }, "in different places");
        }
      }
    }
  });
}

TEST_P(SharedMemoryTest, SmallFloatsAreSummedInF32) {
  on_ranks_sharing_memory(GetParam(), [](auto comm) {
    const int n = comm->world_size();
    for (std::int64_t count : {std::int64_t{10}, std::int64_t{400'000}}) {
      // 1 + n / 256 is lost if each addition is rounded to bf16's 8 bits, and kept if only the last
      // one is. The result is then a multiple of 1 / 128.
      Tensor x = full({count}, comm->rank() == 0 ? 1.0 : 1.0 / 256, {.dtype = bf16});
      comm->all_reduce(x);
      const double sum = 1 + (n - 1) / 256.0;
      const double rounded = Tensor(full({1}, sum, {.dtype = bf16})).item();
      test::expect_elements(
          x, [&](auto) { return rounded; }, "bf16");
    }
  });
}

// Storage keeps its segment alive after its communicator is destroyed.
TEST_P(SharedMemoryTest, StorageOutlivesTheCommunicator) {
  on_ranks_sharing_memory(GetParam(), [](auto comm) {
    const int n = comm->world_size();
    Tensor x = allocated(*comm, 1000);
    x.fill_(3.0);
    comm->all_reduce(x);
    comm->barrier();
    comm.reset();
    EXPECT_EQ(x[999].item(), 3.0 * n);
    x.fill_(1.0);
    EXPECT_EQ(x[999].item(), 1.0);
  });
}

TEST_P(SharedMemoryTest, AsynchronousAndMixedWithMessages) {
  on_ranks_sharing_memory(GetParam(), [](auto comm) {
    const int n = comm->world_size();
    std::vector<Tensor> xs;
    std::vector<Work> works;
    for (int i = 0; i < 60; ++i) {
      Tensor x = full({i % 5 == 0 ? 200'000 : 1 + 37 * i}, comm->rank() + i + 0.0, {.dtype = f64});
      works.push_back(i % 3 == 2 ? comm->broadcast_async(x, i % n) : comm->all_reduce_async(x));
      xs.push_back(x);
    }
    for (const Work& work : works) work.wait();
    for (int i = 0; i < 60; ++i) {
      const double want = i % 3 == 2 ? i % n + i : n * i + n * (n - 1) / 2.0;
      test::expect_elements(
          xs[static_cast<std::size_t>(i)], [&](auto) { return want; }, "mixed");
    }
  });
}

// Sums are added in the order of the ranks, on every path through memory. The values round, so
// another order would give other results.
TEST_P(SharedMemoryTest, SumsHaveTheBitsOfTheRanksOrder) {
  on_ranks_sharing_memory(GetParam(), [](auto comm) {
    const auto of_rank = [](int rank, std::int64_t count) {
      Generator generator(static_cast<std::uint64_t>(rank));
      return randn({count}, {}, generator);
    };
    for (std::int64_t count : {1'000, 3'000, 200'000, 600'000}) {
      Tensor want = of_rank(0, count);
      for (int r = 1; r < comm->world_size(); ++r) want.add_(of_rank(r, count));
      for (const char* where : {"private", "own", "both"}) {
        const bool is_own =
            *where == 'o' || (*where == 'b' && comm->rank() == comm->world_size() - 1);
        const Tensor own = allocated(*comm, count), x = is_own ? own : Tensor::empty({count}, {});
        x.copy_(of_rank(comm->rank(), count));
        comm->all_reduce(x);
        EXPECT_EQ(std::memcmp(x.data_ptr(), want.data_ptr(), x.nbytes()), 0)
            << count << " numbers, memory: " << where;
      }
    }
  });
}

// Collectives of all kinds one after the other. None may overwrite data that the one before still
// reads: small and large, in stages, in place and read, with elements of all sizes.
TEST_P(SharedMemoryTest, OneAfterTheOtherInAnyOrder) {
  on_ranks_sharing_memory(GetParam(), [](auto comm) {
    const int n = comm->world_size(), me = comm->rank();
    constexpr std::int64_t most = 300'000;
    const Tensor own = allocated(*comm, most, f64);
    std::mt19937 random(7);  // the same on all ranks
    const auto any = [&](auto... of) {
      const std::int64_t values[] = {static_cast<std::int64_t>(of)...};
      return values[random() % sizeof...(of)];
    };
    for (int turn = 0; turn < 40; ++turn) {
      const auto dtype = static_cast<DType>(any(u8, bf16, f32, i64, f64));
      const std::int64_t count = any(1, 40, 512, 5'000, 70'001, 200'000, most);
      const bool is_max = any(0, 1) != 0, is_own = any(0, 1) != 0, is_odd = any(0, 1, 2) == me;
      const auto value = [&](int rank, std::int64_t i) { return (rank * 3 + i + turn) % 11; };
      Tensor x = is_own != is_odd ? Tensor::over(own.storage(), 0, {count}, {1}, dtype)
                                  : Tensor::empty({count}, {.dtype = dtype});
      visit_dtype(dtype, [&]<class T>() {
        for (std::int64_t i = 0; i < count; ++i)
          x.data_ptr<T>()[i] = static_cast<T>(static_cast<float>(value(me, i)));
      });
      comm->all_reduce(x, is_max ? ReduceOp::max : ReduceOp::sum);
      test::expect_elements(
          x,
          [&](auto i) {
            double all = 0;
            for (int r = 0; r < n; ++r) {
              const auto theirs = static_cast<double>(value(r, i));
              all = is_max ? std::max(all, theirs) : all + theirs;
            }
            return all;
          },
          concat(count, " of ", dtype, ", turn ", turn).c_str());
      if (turn % 3 == 0) comm->barrier();
      if (turn % 4 == 0) {
        EXPECT_EQ(comm->all_gather_bytes(concat(me)).back(), concat(n - 1));
      }
      if (turn % 5 == 0) {
        const Tensor part = Tensor::empty({1'000}, {.dtype = f64});
        const Tensor whole = own.narrow(0, 0, 1'000 * n);
        whole.fill_(me + 1.0);
        comm->reduce_scatter(part, whole);
        EXPECT_EQ(part[999].item(), n * (n + 1) / 2.0);
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, SharedMemoryTest, ::testing::Values(1, 2, 3, 4, 7));

TEST(SharedMemory, ABarrierMeetsThoseWhoHaveNothingElseToDo) {
  on_ranks_sharing_memory(2, [](auto comm) {
    for (int round = 0; round < 20; ++round) {
      const Tensor x = full({1}, 3), sum = ones({1000});
      if (comm->rank() == 0) {  // a message is in progress, so rank 0's barrier is queued
        const Work sent = comm->send_async(x, 1);
        comm->barrier();
        sent.wait();
      } else {
        comm->barrier();
        comm->recv(x, 0);
      }
      const Work reduced = comm->all_reduce_async(sum);
      comm->barrier();
      reduced.wait();
      EXPECT_EQ(sum.to_vector<float>()[999], 2);
    }
  });
}

TEST(SharedMemory, AMissingRankIsNamed) {
  std::string small, large;
  for (auto [count, message] : {std::pair(10, &small), std::pair(1'000'000, &large)}) {
    on_ranks_sharing_memory(3,
                            [&, count = count, message = message](auto comm) {
                              if (comm->rank() == 2) return;
                              const std::string what =
                                  test::message_of<Error>([&] { comm->all_reduce(ones({count})); });
                              if (comm->rank() == 0) *message = what;
                            },
                            {.timeout = std::chrono::milliseconds(200)});
    EXPECT_THAT(*message, HasSubstr("gave up after 0.2 s of waiting for rank 2 to call it"));
  }
}

TEST(SharedMemory, RanksThatDoNotMeanTheSameAreTold) {
  const std::string message = test::message_of<Error>([] {
    on_ranks_sharing_memory(2, [](auto comm) {
      comm->barrier();
      if (comm->rank() == 0) return comm->all_reduce(ones({100}));
      comm->broadcast(ones({100}));
    });
  });
  EXPECT_THAT(message, HasSubstr(" where rank "));
  EXPECT_THAT(message, HasSubstr("(sum, f32 [100])"));
  EXPECT_THAT(message, HasSubstr("(f32 [100], root 0)"));
}

// One rank copies its data to its slot, the other publishes the address.
TEST(SharedMemory, ASmallTensorAndALargeOneDoNotMeet) {
  const std::string message = test::message_of<Error>([] {
    on_ranks_sharing_memory(2, [](auto comm) { comm->all_reduce(ones({1024 + comm->rank()})); });
  });
  EXPECT_THAT(message, HasSubstr("(sum, f32 [1025]) where rank 0 calls all_reduce"));
}

TEST(SharedMemory, RanksThatAskForDifferentMemoryAreTold) {
  const std::string message = test::message_of<Error>([] {
    on_ranks_sharing_memory(2, [](auto comm) { comm->allocate(comm->rank() == 0 ? 64 : 5000); });
  });
  EXPECT_THAT(message, HasSubstr("allocate: one rank asks for 4096 bytes, another for 8192"));
}

TEST(SharedMemory, RanksThatWantDifferentWaysAreTold) {
  const std::string message = test::message_of<Error>([] {
    on_ranks_sharing_memory(2, [](auto comm) {
      comm->all_reduce_async(ones({10}), ReduceOp::sum,
                             comm->rank() == 0 ? AllReduce::automatic : AllReduce::ring)
          .wait();
    });
  });
  EXPECT_THAT(message, HasSubstr("(sum, f32 [10], by ring) where rank 0 calls"));
}

// The result is written where other ranks still read.
TEST(SharedMemory, ReduceScatterIntoItsOwnInput) {
  on_ranks_sharing_memory(3, [](auto comm) {
    auto storage = comm->allocate(3 * 1000 * 4);
    Tensor x = Tensor::over(storage, 0, {3000}, {1}, f32);
    for (int round = 0; round < 20; ++round) {
      comm->barrier();
      x.fill_(comm->rank() + 1.0);
      comm->reduce_scatter(x.narrow(0, 1000 * ((comm->rank() + 1) % 3), 1000), x);
      EXPECT_EQ(x[1000 * ((comm->rank() + 1) % 3)].item(), 6.0f);
    }
  });
}

TEST(SharedMemory, IsAskedForByNameOnlyWhereItIs) {
  test::on_ranks(2, [](auto comm) {
    EXPECT_FALSE(comm->shares_memory());
    EXPECT_THAT(test::message_of<Error>(
                    [&] { comm->all_reduce_async(ones({1}), ReduceOp::sum, AllReduce::shared); }),
                HasSubstr("the ranks share none"));
    EXPECT_TRUE(comm->share_memory());
    comm->all_reduce_async(ones({1}), ReduceOp::sum, AllReduce::shared).wait();
  });
  EXPECT_EQ(parse_all_reduce("shared"), AllReduce::shared);
}

}  // namespace
}  // namespace rondo::dist
