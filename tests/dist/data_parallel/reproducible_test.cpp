// Bit-identical for any number of ranks and threads; the correct gradient; errors.

#include "dist/data_parallel/reproducible.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/reduce.h"
#include "dist/data_parallel/sync_batch_norm.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/reproducible.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

using test::on_ranks;
using test::on_ranks_sharing_memory;
using ::testing::HasSubstr;

TEST(Reproducible, EqualBitsOnAnyNumberOfRanks) {
  std::string alone;
  for (int n : {1, 2, 4, 8}) {
    for (const auto& run : {on_ranks, on_ranks_sharing_memory}) {
      std::vector<std::string> bits(static_cast<std::size_t>(n));
      run(n,
          [&](std::shared_ptr<Communicator> comm) {
            bits[static_cast<std::size_t>(comm->rank())] =
                test::train_reproducibly(comm, {.shards = 8, .threads = 1}, 0);
          },
          {.timeout = std::chrono::seconds(60)});
      if (n == 1) alone = bits[0];
      for (const std::string& of_rank : bits) EXPECT_EQ(of_rank == alone, true) << n << " ranks";
    }
  }
}

// 16-bit sums too: if each addition rounded, they would depend on where the tree crosses ranks.
TEST(Reproducible, EqualBitsOfABf16ModelOnAnyNumberOfRanks) {
  std::string alone;
  for (int n : {1, 2, 4}) {
    for (const auto& run : {on_ranks, on_ranks_sharing_memory}) {
      std::vector<std::string> bits(static_cast<std::size_t>(n));
      run(n,
          [&](std::shared_ptr<Communicator> comm) {
            nn::Sequential net(nn::Linear(20, 30), nn::ReLU(), nn::Linear(30, 10));
            test::set_weights(net, 11);
            nn::AnyModule model(std::move(net));
            model.to(bf16);
            ReproducibleDataParallel parallel(model, comm, {.shards = 8, .threads = 1});
            Generator numbers(7);
            const std::int64_t part = 32 / n, first = part * comm->rank();
            const Tensor x = randn({32, 20}, {}, numbers).to(bf16),
                         y = randint(0, 10, {32}, {.dtype = i64}, numbers);
            parallel.backward(x.narrow(0, first, part), y.narrow(0, first, part));
            std::string& mine = bits[static_cast<std::size_t>(comm->rank())];
            for (const Tensor& parameter : model.parameters())
              mine.append(static_cast<const char*>(parameter.grad().data_ptr()),
                          static_cast<std::size_t>(parameter.grad().nbytes()));
          },
          {.timeout = std::chrono::seconds(60)});
      if (n == 1) alone = bits[0];
      EXPECT_EQ(alone.size(), 2u * (20 * 30 + 30 + 30 * 10 + 10));
      for (const std::string& of_rank : bits) EXPECT_EQ(of_rank == alone, true) << n << " ranks";
    }
  }
}

// Dropout too: each shard has its own random numbers. (Ranks that are threads share a generator; in
// tests/mpi each rank has its own.)
TEST(Reproducible, EqualBitsOnAnyNumberOfThreads) {
  std::vector<std::string> bits;
  for (int threads : {1, 2, 3, 8}) {
    on_ranks(1, [&](std::shared_ptr<Communicator> comm) {
      bits.push_back(test::train_reproducibly(comm, {.shards = 8, .threads = threads}, 0.5));
    });
    EXPECT_EQ(bits.back() == bits.front(), true) << threads << " threads";
  }
  on_ranks(1, [&](std::shared_ptr<Communicator> comm) {
    EXPECT_EQ(test::train_reproducibly(comm, {.shards = 4}, 0.5) == bits[0], false)
        << "other shards, other sums";
  });
}

// If no layer mixes the images of a batch, the mean over the shards is the gradient of the whole
// batch, up to the rounding of sums of 32.
TEST(Reproducible, IsTheGradientOfTheWholeBatch) {
  on_ranks(1, [](std::shared_ptr<Communicator> comm) {
    Generator generator(3);
    nn::AnyModule model(nn::Sequential(nn::Linear(5, 4), nn::ReLU(), nn::Linear(4, 3)));
    nn::AnyModule whole = nn::clone(model);
    const Tensor x = randn({32, 5}, {}, generator),
                 y = randint(0, 3, {32}, {.dtype = i64}, generator);
    ReproducibleDataParallel parallel(model, comm, {.shards = 4});
    const double loss = parallel.backward(x, y);
    const Tensor reference = cross_entropy(whole(x), y);
    reference.backward();
    EXPECT_NEAR(loss, reference.item<double>(), 1e-6);
    double sum = 0;
    for (double of_shard : parallel.losses()) sum += of_shard;
    EXPECT_EQ(sum / 4, loss);
    const auto got = model.parameters(), want = whole.parameters();
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto a = got[i].grad().to_vector<double>(), b = want[i].grad().to_vector<double>();
      for (std::size_t k = 0; k < a.size(); ++k) EXPECT_NEAR(a[k], b[k], 32 * 1.2e-7);
    }
  });
}

// After one step the running statistics are the mean over the shards' own, and num_batches_tracked
// counts steps.
TEST(Reproducible, AveragesRunningStatistics) {
  on_ranks(1, [](std::shared_ptr<Communicator> comm) {
    nn::AnyModule model(nn::BatchNorm2d(1));
    ReproducibleDataParallel parallel(model, comm, {.shards = 2});
    const Tensor x = Tensor::empty({4, 1, 1, 1});
    const float values[] = {0, 2, 10, 30};
    std::copy(std::begin(values), std::end(values), x.data_ptr<float>());
    auto square = [](const Tensor& y, const Tensor&) { return (y * y).mean(); };
    parallel.backward(x, zeros({4}, {.dtype = i64}), square);
    const auto& bn = model.as<nn::BatchNorm2d>();
    EXPECT_FLOAT_EQ(bn.running_mean.item<float>(), 0.1f * (1 + 20) / 2);
    EXPECT_FLOAT_EQ(bn.running_var.item<float>(), 0.9f + 0.1f * (2 + 200) / 2);
    EXPECT_EQ(bn.num_batches_tracked.item<int>(), 1);
    // Evaluation changes no statistics.
    model.eval();
    parallel.backward(x, zeros({4}, {.dtype = i64}), square);
    EXPECT_EQ(bn.num_batches_tracked.item<int>(), 1);
  });
}

TEST(Reproducible, SaysWhatItRefuses) {
  on_ranks(1, [](std::shared_ptr<Communicator> comm) {
    nn::AnyModule model(nn::Linear(2, 2));
    auto message_of = [](const auto& f) -> std::string {
      try {
        f();
      } catch (const Error& e) {
        return e.what();
      }
      return "nothing was thrown";
    };
    EXPECT_THAT(message_of([&] { ReproducibleDataParallel(model, comm, {.shards = 6}); }),
                HasSubstr("6 shards on 1 rank; both must be powers of two"));
    EXPECT_THAT(message_of([&] { ReproducibleDataParallel(model, comm, {.shards = 0}); }),
                HasSubstr("0 shards"));
    ReproducibleDataParallel parallel(model, comm, {.shards = 4});
    const Tensor labels = zeros({6}, {.dtype = i64});
    EXPECT_THAT(message_of([&] {
                  parallel.backward(zeros({6, 2}), labels);
                }),
                HasSubstr("the 6 rows of a batch of [6, 2] cannot be divided among the 4 shards"));
    EXPECT_THAT(message_of([&] {
                  parallel.backward(zeros({8, 2}), labels);
                }),
                HasSubstr("8 inputs and targets of [6]"));
    // An exception of a shard, on any thread, is rethrown, and the next step works.
    EXPECT_THAT(message_of([&] {
                  parallel.backward(zeros({8, 3}), zeros({8}, {.dtype = i64}));
                }),
                HasSubstr("linear"));
    EXPECT_GT(parallel.backward(ones({8, 2}), zeros({8}, {.dtype = i64})), 0);
  });
  auto construct = [](int ranks, int shards) {
    on_ranks(ranks, [&](std::shared_ptr<Communicator> comm) {
      nn::AnyModule model(nn::Linear(2, 2));
      ReproducibleDataParallel(model, comm, {.shards = shards});
    });
  };
  EXPECT_THROW(construct(3, 4), CommError);
  EXPECT_THROW(construct(4, 2), CommError);
}

TEST(Reproducible, RefusesSyncBatchNorm) {
  on_ranks(2, [](std::shared_ptr<Communicator> comm) {
    nn::AnyModule model(nn::Sequential(nn::BatchNorm2d(1)));
    convert_sync_batch_norm(model.get(), comm);
    try {
      ReproducibleDataParallel(model, comm, {.shards = 2});
      FAIL() << "nothing was thrown";
    } catch (const CommError& e) {
      EXPECT_THAT(e.what(), HasSubstr("0 is a SyncBatchNorm"));
    }
  });
}

/// Uses only the first of its two layers.
struct HalfUsed : nn::Module {
  nn::Linear used{2, 2}, unused{2, 2};
  Tensor forward(const Tensor& x) override { return used(x); }
  void visit(nn::Visitor& v) override {
    v.child("used", used);
    v.child("unused", unused);
  }
};

TEST(Reproducible, NamesAParameterThatBackwardDoesNotReach) {
  on_ranks(1, [](std::shared_ptr<Communicator> comm) {
    nn::AnyModule model{HalfUsed()};
    ReproducibleDataParallel parallel(model, comm, {.shards = 2});
    try {
      parallel.backward(ones({2, 2}), zeros({2}, {.dtype = i64}));
      FAIL() << "nothing was thrown";
    } catch (const CommError& e) {
      EXPECT_THAT(e.what(), HasSubstr("did not reach unused.weight"));
    }
  });
}

// Frozen parameters have no gradient.
TEST(Reproducible, NamesALayerThatVisitLeavesOut) {
  on_ranks(1, [](std::shared_ptr<Communicator> comm) {
    struct Leaky : nn::Module {
      nn::Linear fc1{20, 30}, fc2{30, 10};
      Tensor forward(const Tensor& x) override { return fc2(fc1(x)); }
      void visit(nn::Visitor& v) override { v.child("fc1", fc1); }
    };
    nn::AnyModule model = Leaky();
    ReproducibleDataParallel parallel(model, comm, {.shards = 4, .threads = 4});
    EXPECT_ERROR(parallel.backward(ones({8, 20}), zeros({8}, {.dtype = i64})), Error,
                 "reproducible training: a tensor [10");
  });
}

TEST(Reproducible, NoticesThatAParameterWasAddedOrReplaced) {
  on_ranks(1, [](std::shared_ptr<Communicator> comm) {
    nn::AnyModule model{nn::Linear(2, 2)};
    ReproducibleDataParallel parallel(model, comm, {.shards = 2});
    const auto step = [&] { parallel.backward(ones({2, 2}), zeros({2}, {.dtype = i64})); };
    step();
    model.as<nn::Linear>().bias = zeros({2}).requires_grad_();
    EXPECT_ERROR(step(), CommError,
                 "rank 0: bias has been added or replaced since ReproducibleDataParallel was made");
    model = nn::Sequential(nn::Linear(2, 2), nn::Linear(2, 2));
    EXPECT_ERROR(step(), CommError, "added or replaced since ReproducibleDataParallel was made");
  });
}

TEST(Reproducible, LeavesFrozenParametersAlone) {
  on_ranks(2, [](std::shared_ptr<Communicator> comm) {
    nn::AnyModule model(nn::Linear(2, 2));
    model.as<nn::Linear>().bias.requires_grad_(false);
    ReproducibleDataParallel parallel(model, comm, {.shards = 2});
    parallel.backward(ones({1, 2}), zeros({1}, {.dtype = i64}));
    EXPECT_TRUE(model.as<nn::Linear>().weight.grad().defined());
    EXPECT_FALSE(model.as<nn::Linear>().bias.grad().defined());
  });
}

}  // namespace
}  // namespace rondo::dist
