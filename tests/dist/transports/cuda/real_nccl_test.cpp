// The real NCCL on this machine's GPUs: one rank (a thread) on each GPU; or, with NCCL 2.30 and
// NCCL_MULTI_RANK_GPU_ENABLE=1, two ranks on one card; else a single rank, which still runs the
// library's start, collectives, a captured graph, and shutdown.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "dist/transports/nccl/nccl_collectives.h"
#include "support/collectives.h"
#include "support/ddp_checks.h"
#include "support/ranks.h"
#include "tensor/creation.h"
#include "tensor/cuda.h"
#include "tensor/cuda/stream.h"
#include "tensor/cuda_graph.h"

namespace rondo::dist {
namespace {

class RealNccl : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << cuda::why_unavailable();
    try {
      version_ = nccl_version();
    } catch (const CommError& missing) {
      GTEST_SKIP() << missing.what();
    }
    const char* shared = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    const bool may_share =
        version_ >= 23000 && shared != nullptr && std::string_view(shared) == "1";
    ranks_ = cuda::device_count() > 1 ? cuda::device_count() : may_share ? 2 : 1;
    RecordProperty("nccl", nccl_version_text(version_));
    RecordProperty("ranks", ranks_);
    std::cout << "NCCL " << nccl_version_text(version_) << ", " << ranks_ << " ranks\n";
  }
  void on_gpus(const std::function<void(std::shared_ptr<Communicator>, Device)>& f) const {
    test::on_ranks(ranks_, [&](std::shared_ptr<Communicator> comm) {
      const Device device = Device::cuda(comm->rank() % cuda::device_count());
      const cuda::StreamGuard own(cuda::Stream::create(device.index));  // ranks may share a GPU
      const std::string id = comm->broadcast_bytes(comm->rank() == 0 ? nccl_unique_id() : "");
      comm->attach(std::make_shared<NcclCollectives>(*comm, device, nccl_unique_id(id)));
      f(comm, device);
      cuda::synchronize(device.index);
      comm->barrier();
    });
  }
  int version_ = 0, ranks_ = 1;
};

/// A world of one rank needs no communication, but this still calls NCCL.
void all_reduce(Communicator& comm, const Tensor& x, AllReduce algorithm) {
  comm.gpu()->start(Collective::all_reduce(x, ReduceOp::sum, algorithm)).wait();
}

TEST_F(RealNccl, Collectives) {
  on_gpus([](auto comm, Device device) {
    const int n = comm->world_size();
    for (AllReduce algorithm : {AllReduce::nccl, AllReduce::ring}) {
      if (n == 1 && algorithm == AllReduce::ring) continue;
      for (std::int64_t count : {1, 13, 4099, 1 << 20}) {
        Tensor x = test::filled(
            f32, count, [&](auto i) { return test::value_at(comm->rank(), i); }, device);
        all_reduce(*comm, x, algorithm);
        test::expect_elements(
            x,
            [&](auto i) {
              double sum = 0;
              for (int r = 0; r < n; ++r) sum += test::value_at(r, i);
              return sum;
            },
            "all_reduce");
      }
    }
    test::check_all_reduce(*comm, AllReduce::nccl, device);
    test::check_broadcast(*comm, device);
    test::check_gather_and_scatter(*comm, device);
    test::check_exchanges(*comm, device);
    test::check_messages(*comm, device);
  });
}

TEST_F(RealNccl, AGraphHoldsAnAllReduce) {
  on_gpus([](auto comm, Device device) {
    const int n = comm->world_size();
    Tensor x = ones({1000}, {.device = device});
    all_reduce(*comm, x, AllReduce::nccl);  // the connections exist
    x.fill_(1);
    cuda::Graph graph(device);
    graph.capture([&] { all_reduce(*comm, x, AllReduce::nccl); });
    for (int i = 0; i < 3; ++i) {
      graph.replay();
      comm->gpu()->watch("a replay");
    }
    test::expect_elements(
        x, [&](auto) { return std::pow(n, 3.0); }, "all_reduce");
  });
}

TEST_F(RealNccl, DdpEqualsOneProcess) {
  on_gpus([](auto comm, Device device) {
    const BucketOptions small{.bucket_bytes = 1000, .first_bucket_bytes = 500};
    test::check_equals_one_process<test::TinyMlp>(comm, {20}, f64, 1e-12, small, device);
    test::check_no_sync(comm, device);
    test::check_losses(comm, device);
  });
}

}  // namespace
}  // namespace rondo::dist
