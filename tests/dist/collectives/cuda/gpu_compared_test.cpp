// If ranks call different collectives on their GPUs, do all of them report it at once? Each rank is
// a thread, over a double of NCCL and through the host.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "dist/collectives/device_collectives.h"
#include "dist/failure/side_channel.h"
#include "dist/launch/device.h"
#include "dist/transports/nccl/nccl_api.h"
#include "support/collectives.h"
#include "support/environment.h"
#include "support/errors.h"
#include "support/host_nccl.h"
#include "support/ranks.h"
#include "support/simulated_gpu.h"
#include "tensor/creation.h"
#include "tensor/cuda/stream.h"

namespace rondo::dist {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

class GpuCompared : public ::testing::TestWithParam<AllReduce> {
 protected:
  GpuCompared() { set_nccl(&test::host_nccl()); }
  ~GpuCompared() override {
    set_nccl(nullptr);
    EXPECT_THAT(test::nccl_violations(), IsEmpty());
  }
  static void on_gpus(int n, const std::function<void(std::shared_ptr<Communicator>, Device)>& f,
                      bool check_collectives = false) {
    test::on_ranks(
        n,
        [&](std::shared_ptr<Communicator> comm) {
          const Device device = use_device(*comm, "cuda");
          f(comm, device);
        },
        {.all_reduce = GetParam(), .timeout = 20s, .check_collectives = check_collectives});
  }
  /// The error of each rank in f. Over NCCL no further collective can follow.
  static std::vector<std::string> sentences(int n,
                                            const std::function<void(Communicator&, Device)>& f,
                                            bool check_collectives = false) {
    std::vector<std::string> said(static_cast<std::size_t>(n));
    on_gpus(
        n,
        [&](auto comm, Device device) {
          std::string& mine = said[static_cast<std::size_t>(comm->rank())];
          mine = test::message_of<Error>([&] { f(*comm, device); });
          if (GetParam() != AllReduce::nccl) return;
          EXPECT_EQ(test::message_of<Error>([&] {
                      comm->broadcast(zeros({2}, {.device = device}));
                      cuda::synchronize(device.index);
                    }),
                    mine);
        },
        check_collectives);
    return said;
  }

 private:
  test::SimulatedGpus gpus_;
};
INSTANTIATE_TEST_SUITE_P(Ways, GpuCompared, ::testing::Values(AllReduce::nccl, AllReduce::mpi),
                         [](auto info) { return std::string(name_of(info.param)); });

TEST_P(GpuCompared, TwoRootsOfAGather) {
  const auto said = sentences(2, [](Communicator& comm, Device device) {
    const Tensor x = ones({4}, {.device = device});
    comm.gather(Tensors{x.clone(), x.clone()}, x, comm.rank());
  });
  EXPECT_THAT(said, Each(HasSubstr(": gather ")));
  EXPECT_THAT(said, Each(HasSubstr("(root 1)")));
  EXPECT_THAT(said, Each(HasSubstr("(root 0)")));
}

TEST_P(GpuCompared, AScatterAndAGather) {
  const auto said = sentences(2, [](Communicator& comm, Device device) {
    const Tensor x = ones({4}, {.device = device});
    if (comm.rank() == 0)
      comm.gather(Tensors{x.clone(), x.clone()}, x, 0);
    else
      comm.scatter(x, {}, 0);
  });
  EXPECT_THAT(said, Each(HasSubstr(" calls gather ")));
  EXPECT_THAT(said, Each(HasSubstr(" calls scatter ")));
}

// Parts with equal sizes in bytes.
TEST_P(GpuCompared, APartOfAnotherShape) {
  const auto said = sentences(2, [](Communicator& comm, Device device) {
    const Tensor x = ones({2, 3}, {.device = device});
    const Dims shape = comm.rank() == 0 ? Dims{6} : Dims{2, 3};
    comm.all_gather(Tensors{zeros({2, 3}, {.device = device}), zeros(shape, {.device = device})},
                    x);
  });
  EXPECT_THAT(said[0], HasSubstr("rank 1 sends f32 [2, 3] where rank 0 wants f32 [6]"));
}

// The elements would fit.
TEST_P(GpuCompared, AnAllReduceOfAnotherShape) {
  const auto said = sentences(
      2,
      [](Communicator& comm, Device device) {
        comm.all_reduce(ones(comm.rank() == 0 ? Dims{6} : Dims{2, 3}, {.device = device}));
      },
      /*check_collectives=*/true);
  EXPECT_THAT(said, Each(HasSubstr("(sum, f32 [2, 3], by ")));
}

TEST_P(GpuCompared, ARankThatHasNothingForAnybody) {
  on_gpus(3, [](auto comm, Device device) {
    for (const Device where : {device, Device::cpu()}) {
      Tensors from(3), to(3);
      if (comm->rank() != 2) {
        const auto other = static_cast<std::size_t>(1 - comm->rank());
        to[other] = full({5}, comm->rank(), {.device = where});
        from[other] = zeros({5}, {.device = where});
      }
      comm->all_to_all(from, to);
      if (comm->rank() != 2) {
        test::expect_elements(
            from[static_cast<std::size_t>(1 - comm->rank())],
            [&](auto) { return 1.0 - comm->rank(); }, "all_to_all");
      }
      // All ranks still count collectives equally.
      Tensor x = ones({3}, {.device = device});
      comm->all_reduce(x);
      test::expect_elements(
          x, [](auto) { return 3.0; }, "all_reduce");
    }
    cuda::synchronize(device.index);
    comm->barrier();
  });
}

using ComparedOverNccl = GpuCompared;
INSTANTIATE_TEST_SUITE_P(Ways, ComparedOverNccl, ::testing::Values(AllReduce::nccl));

TEST_P(ComparedOverNccl, BothOfAPairSayWhatDoesNotFit) {
  const auto said = sentences(2, [](Communicator& comm, Device device) {
    Tensors from(2), to(2);
    if (comm.rank() == 0)
      to[1] = ones({4}, {.dtype = i32, .device = device});
    else
      from[0] = ones({4}, {.device = device});
    comm.all_to_all(from, to);
  });
  EXPECT_THAT(said, Each(HasSubstr("failed: rank 0 sends i32 [4] where rank 1 wants f32 [4]")));
}

TEST_P(ComparedOverNccl, OnTheCpuHereAndOnAGpuThere) {
  const auto said = sentences(2, [](Communicator& comm, Device device) {
    const Tensor x = ones({4}, {.device = comm.rank() == 0 ? device : Device::cpu()});
    comm.all_gather(Tensors{x.clone(), x.clone()}, x);
  });
  EXPECT_THAT(said,
              Each(HasSubstr("rank 1's tensors are on the CPU where rank 0's are on its GPU")));
}

/// The errors of three ranks whose second collective differs. They may arrive later. The ranks have
/// a side channel, as in programs.
std::vector<std::string> heard(const std::function<Work(Communicator&, const Tensor& x)>& call) {
  std::vector<std::string> heard(3);
  test::on_ranks(3,
                 [&](std::shared_ptr<Communicator> comm) {
                   comm->open_side_channel({});
                   const Device device = use_device(*comm, "cuda");
                   const Tensor x = ones({4}, {.device = device});
                   comm->all_reduce(x);
                   cuda::synchronize(device.index);
                   comm->barrier();
                   comm->set_collectives(41);
                   heard[static_cast<std::size_t>(comm->rank())] = test::message_of<Error>([&] {
                     const Work work = call(*comm, x);
                     for (const auto until = Clock::now() + 15s; Clock::now() < until;
                          std::this_thread::sleep_for(1ms))
                       work.wait(10s);
                   });
                 },
                 {.all_reduce = AllReduce::nccl, .timeout = 20s});
  test::nccl_violations();  // the double of NCCL may have noticed the mismatch too
  return heard;
}

TEST_P(ComparedOverNccl, AllAreComparedBesideWhatTheProgramDoes) {
  const auto op = heard([](Communicator& comm, const Tensor& x) {
    return comm.all_reduce_async(x, comm.rank() == 1 ? ReduceOp::max : ReduceOp::sum);
  });
  EXPECT_THAT(op, Each(HasSubstr("rank 1 calls all_reduce 41 (max, f32 [4], by nccl)")));
  const auto root = heard([](Communicator& comm, const Tensor& x) {
    return comm.broadcast_async(x, comm.rank() == 2 ? 1 : 0);
  });
  EXPECT_THAT(root, Each(HasSubstr("rank 2 calls broadcast 41 (f32 [4], root 1, by nccl)")));
  const auto shape = heard([](Communicator& comm, const Tensor& x) {
    return comm.reduce_async(comm.rank() == 0 ? x.reshape({2, 2}) : x);
  });
  EXPECT_THAT(shape, Each(HasSubstr("rank 0 calls reduce 41 (sum, f32 [2, 2], root 0, by nccl)")));
  const auto other = heard([](Communicator& comm, const Tensor& x) {
    return comm.rank() == 1 ? comm.broadcast_async(x) : comm.all_reduce_async(x);
  });
  EXPECT_THAT(other, Each(HasSubstr("rank 1 calls broadcast 41 (f32 [4], root 0, by nccl)")));
}

TEST_P(ComparedOverNccl, AnExchangeAndSomethingElseAreToldApart) {
  const auto said = heard([](Communicator& comm, const Tensor& x) {
    if (comm.rank() == 1)
      return comm.all_to_all_async({x.clone(), x.clone(), x.clone()}, Tensors(3, x));
    return comm.all_reduce_async(x);
  });
  EXPECT_THAT(said, Each(HasSubstr("rank 1 calls all_to_all 41")));
}

TEST_P(ComparedOverNccl, ATensorOnTheCpuAndOneOnAGpuAreToldApart) {
  const auto said = heard([](Communicator& comm, const Tensor& x) {
    return comm.broadcast_async(comm.rank() == 1 ? ones({4}) : x);
  });
  EXPECT_THAT(said, Each(HasSubstr("rank 1 calls broadcast 41 (f32 [4], root 0)")));
}

// The failing rank's message ends the collective before NCCL's deadline does.
TEST_P(ComparedOverNccl, WhatAnotherRankHasFailedOfEndsACollective) {
  const auto said = heard([](Communicator& comm, const Tensor& x) {
    if (comm.rank() != 2) return comm.all_reduce_async(x);
    comm.watch()->tell("rank 2: no such file");
    throw Error("no such file");
  });
  EXPECT_THAT(said[0], HasSubstr("rank 0: all_reduce 41 failed: rank 2: no such file"));
  EXPECT_THAT(said[1], HasSubstr("rank 1: all_reduce 41 failed: rank 2: no such file"));
}

// A rank that destroys a group early first sends the others the record of its last collectives.
// Without that, rank 1 would wait until its deadline and then end the world.
TEST_P(ComparedOverNccl, AGroupMayEndOnOneRankBeforeItDoesOnAnother) {
  test::on_ranks(2,
                 [](std::shared_ptr<Communicator> comm) {
                   comm->open_side_channel({});
                   const Device device = use_device(*comm, "cuda");
                   const Tensor x = ones({4}, {.device = device});
                   {
                     const auto group = comm->duplicate();
                     group->all_reduce(x);
                     if (comm->rank() == 1) std::this_thread::sleep_for(20ms);
                     group->all_reduce(x);
                     if (comm->rank() == 1) std::this_thread::sleep_for(600ms);
                   }
                   if (comm->rank() == 0) std::this_thread::sleep_for(600ms);
                   comm->all_reduce(x);
                   test::expect_elements(
                       x, [](auto) { return 8.0; }, "all_reduce");
                   comm->barrier();
                 },
                 {.all_reduce = AllReduce::nccl, .timeout = 300ms});
}

TEST_P(ComparedOverNccl, AllAreComparedWhereThatIsAskedFor) {
  const auto said = sentences(
      3,
      [](Communicator& comm, Device device) {
        Tensor x = ones({4}, {.device = device});
        comm.all_reduce(x);
        comm.broadcast(x, 2);
        comm.reduce(x, 1);
        comm.all_reduce(x, comm.rank() == 1 ? ReduceOp::max : ReduceOp::sum);
        cuda::synchronize(device.index);
      },
      /*check_collectives=*/true);
  test::nccl_violations();  // the double of NCCL may have noticed the mismatch too
  EXPECT_THAT(said, Each(HasSubstr("failed: rank 1 calls all_reduce ")));
  EXPECT_THAT(said, Each(HasSubstr(" (max, f32 [4], by nccl) where rank 0 calls all_reduce ")));
}

TEST_P(ComparedOverNccl, TheEnvironmentAsksForIt) {
  const test::Environment environment("RONDO_CHECK_COLLECTIVES", "1");
  on_gpus(2, [](auto comm, Device device) {
    EXPECT_TRUE(comm->options().check_collectives);
    test::check_reduce(*comm, device);
    cuda::synchronize(device.index);
    comm->barrier();
  });
  EXPECT_THAT(test::nccl_violations(), IsEmpty());
}

TEST_P(ComparedOverNccl, TheEnvironmentAsksForItWith1) {
  for (const char* value : {"", "0"}) {
    const test::Environment environment("RONDO_CHECK_COLLECTIVES", value);
    on_gpus(2, [](auto comm, Device) { EXPECT_FALSE(comm->options().check_collectives); });
  }
  const test::Environment environment("RONDO_CHECK_COLLECTIVES", "yes");
  EXPECT_EQ(test::message_of<Error>([] { test::on_ranks(1, [](auto) {}); }),
            "RONDO_CHECK_COLLECTIVES=yes is neither 0 nor 1");
}

TEST_P(ComparedOverNccl, OneThatComparesAndOneThatDoesNot) {
  std::string said[2];
  run_on_threads(2, [&](std::shared_ptr<Transport> transport) {
    const int rank = transport->rank();
    Communicator comm(std::move(transport), {.timeout = 20s, .check_collectives = rank == 1});
    said[rank] = test::message_of<Error>([&] { use_device(comm, "cuda"); });
  });
  EXPECT_EQ(said[0],
            "rank 1 has collectives compared before wait returns (RONDO_CHECK_COLLECTIVES=1) where "
            "rank 0 has collectives compared in the background");
  EXPECT_EQ(said[0], said[1]);
}

}  // namespace
}  // namespace rondo::dist
