// The flight recorder's records of NCCL's collectives, over a double of NCCL.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <thread>

#include "dist/collectives/device_collectives.h"
#include "dist/failure/flight_recorder.h"
#include "dist/launch/device.h"
#include "dist/transports/nccl/nccl_api.h"
#include "support/collectives.h"
#include "support/errors.h"
#include "support/host_nccl.h"
#include "support/ranks.h"
#include "support/simulated_gpu.h"
#include "tensor/creation.h"
#include "tensor/cuda/stream.h"

namespace rondo::dist {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

class GpuFlightRecorder : public ::testing::Test {
 protected:
  GpuFlightRecorder() { set_nccl(&test::host_nccl()); }
  ~GpuFlightRecorder() override {
    set_nccl(nullptr);
    EXPECT_THAT(test::nccl_violations(), IsEmpty());
  }
  /// The record of the last collective of this name, once it has reached `state`.
  static FlightRecord last(const Communicator& comm, const std::string& name,
                           FlightRecord::State state) {
    FlightRecord found;
    for (int look = 0; look < 1000; ++look, std::this_thread::sleep_for(5ms)) {
      for (const FlightRecord& record : comm.recorder()->records()) {
        if (record.signature.name == name) found = record;
      }
      if (found.state == state) break;
    }
    EXPECT_EQ(found.state, state) << name;
    return found;
  }

 private:
  test::SimulatedGpus gpus_;
};

TEST_F(GpuFlightRecorder, HasAllThatAGpuDoes) {
  test::on_ranks(2, [](std::shared_ptr<Communicator> comm) {
    const Device device = use_device(*comm, "cuda");
    const auto group = comm->new_group({1, 0});
    const Tensor x = ones({4}, {.device = device}), two = zeros({2, 4}, {.device = device});
    {
      const Communicator::Label label(*comm, "weights");
      comm->broadcast(x, 1);
    }
    comm->all_reduce(x);
    comm->reduce(x);
    comm->all_gather(two, x);
    comm->reduce_scatter(x, two);
    comm->gather(comm->rank() == 0 ? Tensors{x.clone(), x.clone()} : Tensors{}, x);
    group->all_reduce(ones({5}, {.device = device}), ReduceOp::max);
    comm->gpu()->watch("a replayed step");
    cuda::synchronize(device.index);
    for (const char* name :
         {"broadcast", "all_reduce", "reduce", "all_gather", "reduce_scatter", "gather"}) {
      const FlightRecord record = last(*comm, name, FlightRecord::done);
      EXPECT_LE(record.issued - 1ms, record.started) << name;  // measured by two clocks
      EXPECT_LE(record.started, record.finished) << name;
      EXPECT_LE(record.finished, Clock::now()) << name;
    }
    EXPECT_EQ(last(*comm, "graph", FlightRecord::done).about, "a replayed step");
    const std::string text = comm->recorder()->text();
    EXPECT_THAT(text, HasSubstr(" (f32 [4], root 1) of weights: issued "));
    EXPECT_THAT(text, HasSubstr(" (max, f32 [5]) of group {1, 0}: issued "));
    comm->barrier();
  });
}

TEST_F(GpuFlightRecorder, SaysWhatDidNotCome) {
  std::latch over(2);
  test::on_ranks(
      2,
      [&](std::shared_ptr<Communicator> comm) {
        const Device device = use_device(*comm, "cuda");
        comm->barrier();
        if (comm->rank() == 0) {
          const Tensor x = ones({8}, {.device = device}), y = ones({9}, {.device = device});
          const Work work = comm->all_reduce_async(x), behind = comm->broadcast_async(y);
          EXPECT_THAT(test::message_of<Error>([&] { work.wait(10s); }),
                      HasSubstr("gave up after 0.3 s"));
          EXPECT_GT(last(*comm, "all_reduce", FlightRecord::failed).finished, Clock::time_point{});
          EXPECT_EQ(last(*comm, "broadcast", FlightRecord::waiting).finished, Clock::time_point{});
        }
        over.arrive_and_wait();
      },
      {.timeout = 300ms});
}

}  // namespace
}  // namespace rondo::dist
