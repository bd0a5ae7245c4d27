// Collectives and DDP on simulated GPUs, over a double of NCCL (support/host_nccl.h) and through
// the host. Each rank is a thread.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>

#include "dist/collectives/device_collectives.h"
#include "dist/data_parallel/ddp.h"
#include "dist/launch/device.h"
#include "dist/launch/threads.h"
#include "dist/transports/nccl/nccl_api.h"
#include "support/collectives.h"
#include "support/ddp_checks.h"
#include "support/environment.h"
#include "support/errors.h"
#include "support/host_cudart.h"
#include "support/host_nccl.h"
#include "support/ranks.h"
#include "support/simulated_gpu.h"
#include "support/sync_batch_norm_checks.h"
#include "tensor/creation.h"
#include "tensor/cuda/stream.h"

namespace rondo::dist {
namespace {

using test::host_nccl;
using test::nccl_violations;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

class GpuCollectives : public ::testing::TestWithParam<int> {
 protected:
  GpuCollectives() { set_nccl(&host_nccl()); }
  ~GpuCollectives() override {
    set_nccl(nullptr);
    EXPECT_THAT(nccl_violations(), IsEmpty());
  }
  /// f(communicator, its GPU) on n ranks.
  static void on_gpus(int n, const std::function<void(std::shared_ptr<Communicator>, Device)>& f,
                      AllReduce algorithm = AllReduce::automatic,
                      std::chrono::nanoseconds timeout = 60s) {
    test::on_ranks(n,
                   [&](std::shared_ptr<Communicator> comm) {
                     const Device device = use_device(*comm, "cuda");
                     EXPECT_EQ(device, Device::cuda(comm->rank()));
                     f(comm, device);
                     if (comm->gpu() != nullptr) cuda::synchronize(device.index);
                     comm->barrier();  // no rank destroys its communicator while others use it
                   },
                   {.all_reduce = algorithm, .timeout = timeout});
  }

 private:
  test::SimulatedGpus gpus_;
};

TEST_P(GpuCollectives, NcclsOwn) {
  on_gpus(GetParam(), [](auto comm, Device device) {
    test::check_all_reduce(*comm, AllReduce::nccl, device);
    test::check_broadcast(*comm, device);
    test::check_gather_and_scatter(*comm, device);
    test::check_reduce(*comm, device);
    test::check_bits(*comm, device);
    test::check_exchanges(*comm, device);
    test::check_groups(*comm, device);
    test::check_messages(*comm, device);
    if (comm->world_size() == 1) return;
    EXPECT_ERROR(comm->reduce(zeros({1}, {.dtype = i32, .device = device}), 0, ReduceOp::band),
                 CommError, "NCCL does not support band of i32; all_reduce does");
  });
}

TEST_P(GpuCollectives, TheRingOverNcclsMessages) {
  on_gpus(GetParam(),
          [](auto comm, Device device) { test::check_all_reduce(*comm, AllReduce::ring, device); });
}

TEST_P(GpuCollectives, ByWayOfTheHost) {
  on_gpus(
      GetParam(),
      [](auto comm, Device device) {
        if (comm->gpu() != nullptr) {
          EXPECT_STREQ(comm->gpu()->name(), "staged");
        }
        test::check_all_reduce(*comm, AllReduce::ring, device);
        test::check_broadcast(*comm, device);
        test::check_gather_and_scatter(*comm, device);
        test::check_reduce(*comm, device);
        test::check_bits(*comm, device);
        test::check_exchanges(*comm, device);
        test::check_groups(*comm, device);
        test::check_messages(*comm, device);
      },
      AllReduce::mpi);
}

TEST_P(GpuCollectives, DdpEqualsOneProcess) {
  for (AllReduce algorithm : {AllReduce::nccl, AllReduce::ring}) {
    on_gpus(
        GetParam(),
        [](auto comm, Device device) {
          const BucketOptions small{.bucket_bytes = 1000, .first_bucket_bytes = 500};
          test::check_equals_one_process<test::TinyMlp>(comm, {20}, f64, 1e-12, small, device);
        },
        algorithm);
  }
}

TEST_P(GpuCollectives, DdpKeepsItsPromises) {
  on_gpus(GetParam(), [](auto comm, Device device) {
    test::check_no_sync(comm, device);
    test::check_aliasing(comm, device);
    test::check_losses(comm, device);
  });
}

TEST_P(GpuCollectives, SyncBatchNormOfExtremes) {
  on_gpus(GetParam(), [](auto comm, Device device) {
    if (comm->world_size() > 1) test::check_sync_batch_norm_extremes(comm, device);
  });
}

// Its collectives and DDP's are those of one communicator.
TEST_P(GpuCollectives, SyncBatchNormUnderDdp) {
  on_gpus(GetParam(), [](auto comm, Device device) {
    comm->barrier();
    test::nccl_calls("comm_init_rank");
    comm->barrier();
    test::check_sync_batch_norm_under_ddp(comm, device);
    EXPECT_EQ(test::nccl_calls("comm_init_rank"), 0);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, GpuCollectives, ::testing::Values(1, 2, 3, 4));

using OnGpus = GpuCollectives;

TEST_F(OnGpus, MessagesPassBothWays) {
  for (AllReduce algorithm : {AllReduce::nccl, AllReduce::mpi}) {
    on_gpus(
        2,
        [](auto comm, Device device) {
          Tensor x = full({5}, comm->rank(), {.device = device});
          if (comm->rank() == 0) {
            comm->send(x, 1, 3);
            comm->recv(x, 1, 4);
          } else {
            Tensor y = zeros({5}, {.device = device});
            comm->recv(y, 0, 3);
            test::expect_elements(
                y, [](auto) { return 0.0; }, "recv");
            comm->send(x, 0, 4);
          }
          test::expect_elements(
              x, [](auto) { return 1.0; }, "recv");
        },
        algorithm == AllReduce::mpi ? AllReduce::mpi : AllReduce::nccl);
  }
}

// The collective waits for the GPU's earlier work, and the GPU's later work waits for the
// collective. The host waits for neither.
TEST_F(OnGpus, AnAllReduceLiesBetweenTwoEvents) {
  on_gpus(3, [](auto comm, Device device) {
    const auto before = cuda::synchronizations();  // of all ranks
    comm->barrier();
    Tensor x = full({1000}, comm->rank() + 1.0, {.device = device});
    Work work = comm->all_reduce_async(x);
    Tensor y = full({1000}, 1.0, {.device = device});  // overlaps
    work.wait();
    y.add_(x);
    comm->barrier();
    EXPECT_EQ(cuda::synchronizations(), before);
    comm->barrier();
    test::expect_elements(
        y, [](auto) { return 7.0; }, "all_reduce");
  });
}

TEST_F(OnGpus, ManyInFlightKeepTheirOrder) {
  on_gpus(3, [](auto comm, Device device) {
    std::vector<Tensor> tensors;
    std::vector<Work> works;
    for (int k = 0; k < 20; ++k) {
      tensors.push_back(full({1 + 37 * k}, comm->rank() + k, {.device = device}));
      works.push_back(comm->all_reduce_async(tensors.back(), ReduceOp::sum,
                                             k % 2 == 0 ? AllReduce::nccl : AllReduce::ring));
    }
    for (int k = 0; k < 20; ++k) {
      works[static_cast<std::size_t>(k)].wait();
      test::expect_elements(
          tensors[static_cast<std::size_t>(k)], [&](auto) { return 3.0 * k + 3; }, "in order");
    }
  });
}

// Rank 1 never calls. The host of rank 0 waits only for the GPU. The watchdog releases the GPU, and
// the next call reports the error.
TEST_F(OnGpus, AMissingRankIsAnErrorNotAHang) {
  std::string of_wait, of_next;
  std::latch over(2);  // a barrier would count as the collective that rank 1 did not call
  test::on_ranks(2,
                 [&](std::shared_ptr<Communicator> comm) {
                   const Device device = use_device(*comm, "cuda");
                   comm->barrier();
                   if (comm->rank() == 0) {
                     Tensor x = ones({8}, {.device = device});
                     Work work = comm->all_reduce_async(x);
                     of_wait = test::message_of<Error>([&] {
                       while (true) {
                         work.wait(10s);
                         cuda::synchronize(device.index);
                       }
                     });
                     of_next = test::message_of<Error>([&] { comm->all_reduce(x); });
                   }
                   over.arrive_and_wait();
                 },
                 {.timeout = 300ms});
  EXPECT_THAT(of_wait, HasSubstr("rank 0: all_reduce "));
  EXPECT_THAT(of_wait, HasSubstr("gave up after 0.3 s of waiting for rank 1 to call it"));
  EXPECT_EQ(of_next, of_wait);
}

TEST_F(OnGpus, WhatNcclNoticesIsTold) {
  std::string said;
  std::latch over(2);
  test::on_ranks(2, [&](std::shared_ptr<Communicator> comm) {
    const Device device = use_device(*comm, "cuda");
    comm->barrier();
    if (comm->rank() == 0) {
      Tensor x = ones({8}, {.device = device});
      Work work = comm->all_reduce_async(x);
      test::break_nccl(0);
      said = test::message_of<Error>([&] { work.wait(10s); });
    }
    over.arrive_and_wait();
  });
  EXPECT_THAT(said, HasSubstr("rank 0: all_reduce "));
  EXPECT_THAT(said, HasSubstr("failed: remote process exited or there was a network error"));
}

TEST_F(OnGpus, ARankThatDoesNotStartIsAnErrorNotAHang) {
  // Rank 1 leaves after it has sent the name of its card, while rank 0 waits for it in NCCL.
  std::string said;
  std::latch over(2);
  test::on_ranks(2,
                 [&](std::shared_ptr<Communicator> comm) {
                   if (comm->rank() == 0) {
                     said = test::message_of<Error>([&] { use_device(*comm, "cuda"); });
                     over.arrive_and_wait();
                     return;
                   }
                   comm->agree("device", "cuda");
                   comm->all_gather_bytes("");  // complaints
                   place(*comm);
                   comm->all_gather_bytes("");  // complaints about NCCL
                   comm->agree("collectives compared", comm->comparison());
                   comm->all_gather_bytes("another card");
                   comm->all_gather_bytes("another stream");
                   comm->broadcast_bytes("");  // the id
                   over.arrive_and_wait();
                 },
                 {.timeout = 500ms});
  EXPECT_THAT(said, HasSubstr("rank 0: the start of NCCL gave up after 0.5 s"));
}

TEST_F(OnGpus, RanksThatOutnumberGpusAreNamed) {
  std::string said;
  test::on_ranks(5, [&](std::shared_ptr<Communicator> comm) {
    const std::string sentence = test::message_of<Error>([&] { use_device(*comm, "cuda"); });
    if (comm->rank() == 3) said = sentence;
  });
  EXPECT_EQ(said,
            "ranks 0 and 4 would share one GPU (0000:00:00.0), which NCCL 2.28.9 refuses: start at "
            "most one rank for each GPU, or send through the host's memory (--all-reduce mpi)");
  on_gpus(4, [](auto, Device) {});
  test::on_ranks(5,
                 [&](std::shared_ptr<Communicator> comm) {
                   EXPECT_EQ(use_device(*comm, "cuda"), Device::cuda(comm->rank() % 4));
                 },
                 {.all_reduce = AllReduce::mpi});
}

// In one stream, rank 0's wait for its collective comes before rank 1's collective.
TEST_F(OnGpus, RanksThatShareAGpuAndAStreamAreNamed) {
  const test::Environment environment("NCCL_MULTI_RANK_GPU_ENABLE", "1");
  set_nccl(&host_nccl(23000));
  std::string said;
  test::on_ranks(5, [&](std::shared_ptr<Communicator> comm) {
    const std::string sentence = test::message_of<Error>([&] { use_device(*comm, "cuda"); });
    if (comm->rank() == 3) said = sentence;
  });
  EXPECT_EQ(said,
            "ranks 0 and 4 are threads with the same current stream on one GPU, in which each "
            "would wait for the other; give each a stream of its own (cuda::StreamGuard)");
  test::on_ranks(5, [](std::shared_ptr<Communicator> comm) {
    const int gpu = comm->rank() % 4;
    const cuda::Stream own = cuda::Stream::create(gpu);
    const cuda::Event before(gpu);  // what earlier tests have left in the default stream
    before.record(cuda::Stream(gpu));
    before.block(own);
    const cuda::StreamGuard current(own);
    const Device device = use_device(*comm, "cuda");
    const Tensor x = ones({3}, {.device = device});
    comm->all_reduce(x);
    const auto group = comm->duplicate();
    group->all_reduce(x);
    test::expect_elements(
        x, [](auto) { return 25.0; }, "all_reduce");
    cuda::synchronize(device.index);
    comm->barrier();
  });
  set_nccl(&host_nccl());
}

TEST_F(OnGpus, OtherDevicesAreRefused) {
  test::on_ranks(2, [&](std::shared_ptr<Communicator> comm) {
    EXPECT_THAT(
        test::message_of<Error>([&] { comm->all_reduce(ones({2}, {.device = Device::cuda(0)})); }),
        HasSubstr("the tensor is on cuda:0, but this communicator has no GPU; call "
                  "dist::use_device first"));
    EXPECT_EQ(test::message_of<Error>([&] { use_device(*comm, "cuda:1"); }),
              "device cuda:1 is one GPU for 2 ranks; use cuda, and each rank gets the GPU of "
              "its number");
    EXPECT_EQ(
        test::message_of<Error>([&] { use_device(*comm, comm->rank() == 0 ? "cuda" : "cpu"); }),
        "rank 1 has device cpu where rank 0 has device cuda");
    const Device device = use_device(*comm, "cuda");
    const Device other = Device::cuda(1 - device.index);
    EXPECT_EQ(test::message_of<Error>([&] { comm->broadcast(ones({2}, {.device = other})); }),
              concat("broadcast: the tensor is on ", other, ", but this rank's GPU is ", device));
    EXPECT_EQ(test::message_of<Error>(
                  [&] { comm->all_reduce_async(ones({2}), ReduceOp::sum, AllReduce::nccl); }),
              "all_reduce: NCCL was requested, but the tensor is on the CPU");
    comm->barrier();
  });
}

TEST(UseDevice, WithoutAGpuSaysWhy) {
  if (cuda::device_count() > 0) GTEST_SKIP() << "there is one";
  test::on_ranks(2, [&](std::shared_ptr<Communicator> comm) {
    EXPECT_EQ(use_device(*comm, "cpu"), Device::cpu());
    EXPECT_EQ(test::message_of<Error>([&] { use_device(*comm, "cuda"); }),
              concat("device cuda is not available: ", cuda::why_unavailable()));
    EXPECT_THAT(test::message_of<Error>([&] { use_device(*comm, "tpu"); }), HasSubstr("tpu"));
  });
}

}  // namespace
}  // namespace rondo::dist
