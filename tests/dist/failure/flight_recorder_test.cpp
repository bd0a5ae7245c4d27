#include "dist/failure/flight_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "support/ddp_checks.h"
#include "support/ranks.h"
#include "tensor/creation.h"

namespace rondo::dist {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(FlightRecorder, KeepsTheLastAndForgetsTheOldest) {
  FlightRecorder recorder(2);
  Signature weights("broadcast", 1);
  weights.set_shape({8, 3, 1});
  weights.dtype = static_cast<std::int8_t>(f32);
  const auto first = recorder.issued(Signature("all_reduce", 0), "");
  const auto second = recorder.issued(weights, "weights");
  recorder.started(first);
  recorder.finished(first, true);
  const auto third = recorder.issued(Signature("barrier", 2), "");
  recorder.finished(first, false);  // which no longer exists
  recorder.started(second);
  recorder.started(third);
  recorder.finished(third, false);
  const auto records = recorder.records();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].state, FlightRecord::running);
  EXPECT_EQ(records[1].state, FlightRecord::failed);
  const std::string text = recorder.text();
  EXPECT_THAT(text, Not(HasSubstr("all_reduce")));
  EXPECT_THAT(text, HasSubstr("broadcast 1 (f32 [8, 3, 1])"));
  EXPECT_THAT(text, HasSubstr(" of weights: issued "));
  EXPECT_THAT(text, HasSubstr("under way\n"));
  EXPECT_THAT(text, HasSubstr("failed\n"));
  recorder.set_capacity(1);
  EXPECT_EQ(recorder.records().size(), 1U);
}

// The message of a rank that hangs names the collective, the bucket with its parameters, and the
// missing rank. The record has the same.
TEST(FlightRecorder, ADeadlineNamesTheBucket) {
  for (const auto& run : {test::on_ranks, test::on_ranks_sharing_memory}) {
    run(2,
        [&](std::shared_ptr<Communicator> comm) {
          test::TinyMlp model;
          test::set_weights(model, 1);
          DistributedDataParallel ddp(model, comm);
          if (comm->rank() == 1) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5000));
            return;
          }
          std::string message;
          try {
            ddp(ones({2, 20})).sum().backward();
          } catch (const CommError& e) {
            message = e.what();
          }
          EXPECT_THAT(message, HasSubstr("of bucket 1 of "));
          EXPECT_THAT(message, HasSubstr(".bias … "));
          EXPECT_THAT(message, HasSubstr("gave up after 2 s of waiting for "));
          const FlightRecord last = comm->recorder()->records().back();
          EXPECT_THAT(last.about, HasSubstr("bucket "));
          EXPECT_THAT(comm->recorder()->text(), HasSubstr(", failed\n"));
        },
        {.timeout = std::chrono::seconds(2)});
  }
}

TEST(FlightRecorder, GroupsAreAmongThem) {
  test::on_ranks(2, [](std::shared_ptr<Communicator> comm) {
    const auto group = comm->new_group({1, 0});
    comm->all_reduce(ones({4}));
    group->all_reduce(ones({5}));
    const auto last = comm->recorder()->records().back();
    EXPECT_EQ(text_of(last.signature), "all_reduce 0 (sum, f32 [5])");
    EXPECT_EQ(last.group, "{1, 0}");
    EXPECT_EQ(group->recorder()->records().size(), 1U);
    EXPECT_THAT(comm->recorder()->text(),
                HasSubstr("all_reduce 0 (sum, f32 [5]) of group {1, 0}: issued "));
  });
}

TEST(FlightRecorder, RecordsEveryCollective) {
  for (const auto& run : {test::on_ranks, test::on_ranks_sharing_memory}) {
    run(2,
        [](std::shared_ptr<Communicator> comm) {
          const std::size_t before = comm->recorder()->records().size();
          const Tensor x = ones({4}), two = ones({2, 4});
          comm->all_reduce(x);
          comm->all_reduce_async(x).wait();
          comm->broadcast(x);
          comm->reduce(x);
          comm->all_gather(two, x);
          comm->reduce_scatter(x, ones({8}));
          comm->all_gather(Tensors{ones({4}), ones({4})}, x);
          {
            const Communicator::Label label(*comm, "weights");
            comm->barrier();
          }
          comm->barrier();
          std::string names;
          const auto records = comm->recorder()->records();
          for (std::size_t i = before; i < records.size(); ++i) {
            const FlightRecord& record = records[i];
            EXPECT_EQ(record.state, FlightRecord::done) << record.signature.name;
            EXPECT_GE(record.finished, record.issued);
            names += concat(record.signature.name, record.about.empty() ? " " : "! ");
          }
          EXPECT_EQ(names,
                    "all_reduce all_reduce broadcast reduce all_gather reduce_scatter all_gather "
                    "barrier! barrier ");
        },
        {.timeout = std::chrono::seconds(60)});
  }
}

}  // namespace
}  // namespace rondo::dist
