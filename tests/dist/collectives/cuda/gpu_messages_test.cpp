// send and recv between GPUs: are they independent of everything else, and are they matched by
// their tags? Each rank is a thread, over a double of NCCL that hangs where the real one does.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "dist/collectives/device_collectives.h"
#include "dist/launch/device.h"
#include "dist/transports/nccl/nccl_api.h"
#include "support/collectives.h"
#include "support/errors.h"
#include "support/host_nccl.h"
#include "support/ranks.h"
#include "support/simulated_gpu.h"
#include "tensor/creation.h"
#include "tensor/cuda/stream.h"
#include "tensor/cuda_graph.h"

namespace rondo::dist {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

/// Over NCCL and through the host: the behaviour must be the same.
class GpuMessages : public ::testing::TestWithParam<AllReduce> {
 protected:
  GpuMessages() { set_nccl(&test::host_nccl()); }
  ~GpuMessages() override {
    set_nccl(nullptr);
    EXPECT_THAT(test::nccl_violations(), IsEmpty());
  }
  /// f(communicator, its GPU) on n ranks.
  static void on_gpus(int n, const std::function<void(std::shared_ptr<Communicator>, Device)>& f,
                      std::chrono::nanoseconds timeout = 20s) {
    test::on_ranks(n,
                   [&](std::shared_ptr<Communicator> comm) {
                     const Device device = use_device(*comm, "cuda");
                     f(comm, device);
                   },
                   {.all_reduce = GetParam(), .timeout = timeout});
  }
  /// No rank destroys its communicator while others use it.
  static void leave(Communicator& comm, Device device) {
    cuda::synchronize(device.index);
    comm.barrier();
  }
  static void expect_all(const Tensor& x, double value) {
    test::expect_elements(
        x, [=](auto) { return value; }, "a message");
  }

 private:
  test::SimulatedGpus gpus_;
};
INSTANTIATE_TEST_SUITE_P(Ways, GpuMessages, ::testing::Values(AllReduce::nccl, AllReduce::mpi),
                         [](auto info) { return std::string(name_of(info.param)); });

// In one stream, each rank's send would wait for its receive, and all ranks would hang.
TEST_P(GpuMessages, ARingInWhichAllReceiveFirst) {
  on_gpus(3, [](auto comm, Device device) {
    const int next = (comm->rank() + 1) % 3, previous = (comm->rank() + 2) % 3;
    const Tensor out = full({1000}, comm->rank(), {.device = device}), in = zeros_like(out);
    for (int k = 0; k < 3; ++k) {
      const Work receive = comm->recv_async(in, previous), send = comm->send_async(out, next);
      receive.wait();
      send.wait();
      expect_all(in, previous);
    }
    leave(*comm, device);
  });
}

TEST_P(GpuMessages, AReceiveThatWaitsKeepsNothingElseWaiting) {
  on_gpus(2, [](auto comm, Device device) {
    const int other = 1 - comm->rank();
    Tensor rare = zeros({10}, {.device = device}), x = ones({10}, {.device = device});
    const Work early = comm->recv_async(rare, other, 9);
    comm->all_reduce(x);
    cuda::synchronize(device.index);
    expect_all(x, 2);
    Tensor y = zeros({10}, {.device = device});  // of another tag
    const Work often = comm->recv_async(y, other, 1);
    comm->send(x, other, 1);
    often.wait();
    expect_all(y, 2);
    EXPECT_FALSE(early.test());
    comm->barrier();
    comm->send(full({10}, 7.0 + comm->rank(), {.device = device}), other, 9);
    early.wait();
    expect_all(rare, 7.0 + other);
    leave(*comm, device);
  });
}

// The sender's GPU waits for its message, and the collective after it waits for the sender. Both
// must complete although the receiver waits for the message only after the collective.
TEST_P(GpuMessages, WhatIsPostedGoesWithoutBeingWaitedFor) {
  on_gpus(2, [](auto comm, Device device) {
    Tensor x = full({10}, comm->rank(), {.device = device}), sum = ones({3}, {.device = device});
    Work receive;
    if (comm->rank() == 0)
      comm->send(x, 1);
    else
      receive = comm->recv_async(x, 0);
    comm->all_reduce(sum);
    cuda::synchronize(device.index);
    receive.wait();
    expect_all(x, 0);
    leave(*comm, device);
  });
}

TEST_P(GpuMessages, TagsAreMatchedInWhateverOrderTheyAreReceived) {
  on_gpus(2, [](auto comm, Device device) {
    std::vector<Work> works;
    std::vector<Tensor> received;
    if (comm->rank() == 0) {
      for (int k = 0; k < 6; ++k)  // of other sizes, too
        works.push_back(comm->send_async(full({5 + k % 3}, k, {.device = device}), 1, k % 3));
    } else {
      for (int tag : {2, 0, 1, 1, 2, 0}) {
        received.push_back(zeros({5 + tag}, {.device = device}));
        works.push_back(comm->recv_async(received.back(), 0, tag));
      }
    }
    for (const Work& work : works) work.wait(10s);
    const double wanted[] = {2, 0, 1, 4, 5, 3};  // with one tag: in the order of the sends
    for (std::size_t k = 0; k < received.size(); ++k) expect_all(received[k], wanted[k]);
    leave(*comm, device);
  });
}

// Work in the current stream before the post runs before the message, and work after Work::wait
// runs after it. The other stream runs its work as late as possible.
TEST_P(GpuMessages, AMessageLiesBetweenTwoEvents) {
  on_gpus(2, [](auto comm, Device device) {
    const cuda::Stream side = cuda::Stream::create(device.index);
    {
      const cuda::StreamGuard guard(side);
      const Tensor x = full({1000}, 5, {.device = device}), y = zeros({1000}, {.device = device});
      const Work receive = comm->recv_async(y, 1 - comm->rank());
      const Work send = comm->send_async(x, 1 - comm->rank());
      send.wait();
      receive.wait();
      x.fill_(-1);
      const Tensor later = y.clone();
      side.synchronize();
      expect_all(later, 5);
    }
    leave(*comm, device);
  });
}

TEST_P(GpuMessages, InGroupsRanksAreTheGroups) {
  on_gpus(3, [](auto comm, Device device) {
    const auto group = comm->new_group({2, 0});
    if (group != nullptr) {
      const int other = 1 - group->rank();
      const Tensor in = zeros({4}, {.device = device});
      const Work receive = group->recv_async(in, other, 3);
      group->send(full({4}, comm->rank(), {.device = device}), other, 3);
      receive.wait();
      expect_all(in, 2 - comm->rank());
      cuda::synchronize(device.index);
      group->barrier();
    }
    leave(*comm, device);
  });
}

TEST_P(GpuMessages, OneThatNeverComesIsAnError) {
  std::string said;
  on_gpus(
      2,
      [&](auto comm, Device device) {
        if (comm->rank() == 1) {
          std::this_thread::sleep_for(1s);
          return;
        }
        const Tensor x = zeros({4}, {.device = device});
        said = test::message_of<Error>([&] { comm->recv(x, 1, 5); });
      },
      300ms);
  EXPECT_THAT(said, HasSubstr("rank 0: recv from rank 1 with tag 5 gave up after 0.3 s"));
}

using MessagesOverNccl = GpuMessages;
INSTANTIATE_TEST_SUITE_P(Ways, MessagesOverNccl, ::testing::Values(AllReduce::nccl));

TEST_P(MessagesOverNccl, AnotherSizeIsAnErrorOnBothSides) {
  std::string said[2];
  on_gpus(2, [&](auto comm, Device device) {
    const Tensor x = zeros({comm->rank() == 0 ? 4 : 3}, {.device = device});
    said[comm->rank()] = test::message_of<Error>([&] {
      if (comm->rank() == 0)
        comm->send(x, 1, 6);
      else
        comm->recv(x, 0, 6);
    });
  });
  EXPECT_EQ(
      said[0],
      "rank 0: send to rank 1 with tag 6 failed: rank 0 sends 4 f32 where rank 1 receives 3 f32");
  EXPECT_EQ(
      said[1],
      "rank 1: recv from rank 0 with tag 6 failed: rank 0 sends 4 f32 where rank 1 receives 3 f32");
}

TEST_P(MessagesOverNccl, NothingIsLeftToACapture) {
  on_gpus(2, [](auto comm, Device device) {
    const Tensor x = zeros({4}, {.device = device});
    cuda::Graph graph(device);
    EXPECT_THAT(test::message_of<Error>(
                    [&] { graph.capture([&] { comm->send_async(x, 1 - comm->rank()); }); }),
                HasSubstr("a message cannot be captured into a graph"));
    leave(*comm, device);
  });
}

// All channels of a rank together have 32 blocks: with three ranks there are four channels.
TEST_P(MessagesOverNccl, LeaveRoomForCollectives) {
  test::blocks_of_a_message();
  on_gpus(3, [](auto comm, Device device) {
    Tensor x = ones({4}, {.device = device});
    if (comm->rank() == 0) comm->send(x, 1);
    if (comm->rank() == 1) comm->recv(x, 0);
    leave(*comm, device);
  });
  EXPECT_EQ(test::blocks_of_a_message(), 8);
}

// Each direction of a pair that exchanges messages has one communicator.
TEST_P(MessagesOverNccl, PairsThatDoNotTalkCostNothing) {
  on_gpus(3, [](auto comm, Device device) {
    Tensor x = ones({4}, {.device = device});
    if (comm->rank() == 0) test::nccl_calls("send");
    comm->barrier();
    for (int k = 0; k < 4; ++k) {
      if (comm->rank() == 0) comm->send(x, 1);
      if (comm->rank() == 1) comm->recv(x, 0);
    }
    leave(*comm, device);
    if (comm->rank() == 0) {
      EXPECT_EQ(test::nccl_calls("send"), 4);
    }
  });
}

}  // namespace
}  // namespace rondo::dist
