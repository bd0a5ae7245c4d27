// Communication hooks: the result, the residual that is kept, and the number of bytes sent.

#include "dist/data_parallel/comm_hook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/shape.h"
#include "dist/data_parallel/hooks/int8.h"
#include "dist/data_parallel/hooks/power_sgd.h"
#include "dist/data_parallel/hooks/sign.h"
#include "dist/data_parallel/hooks/top_k.h"
#include "support/ddp_checks.h"
#include "support/ranks.h"

namespace rondo::dist {
namespace {

using test::on_ranks;
using ::testing::HasSubstr;

/// Two buckets: a matrix and a vector; a convolution's weight.
std::vector<GradBucket> some_buckets(DType dtype = f32) {
  std::vector<GradBucket> buckets;
  buckets.push_back({.index = 0,
                     .flat = zeros({40 * 30 + 7}, {.dtype = dtype}),
                     .slices = {{.offset = 0, .shape = {40, 30}}, {.offset = 1200, .shape = {7}}}});
  buckets.push_back({.index = 1,
                     .flat = zeros({16 * 8 * 9}, {.dtype = dtype}),
                     .slices = {{.offset = 0, .shape = {16, 8, 3, 3}}}});
  return buckets;
}

/// Random values, different on each rank and in each step.
void fill(std::vector<GradBucket>& buckets, int rank, int step) {
  for (GradBucket& bucket : buckets) {
    Generator generator(static_cast<std::uint64_t>(1000 * step + 10 * rank) + bucket.index);
    bucket.flat.copy_(randn({bucket.flat.numel()}, {.dtype = bucket.flat.dtype()}, generator));
  }
}

/// As DDP does it.
void average(CommHook& hook, std::vector<GradBucket>& buckets, Communicator& comm) {
  NoGradGuard no_grad;
  std::vector<std::vector<Work>> works;
  for (GradBucket& bucket : buckets) works.push_back(hook.start(0, bucket, comm));
  for (int round = 1; round <= hook.rounds(); ++round) {
    for (GradBucket& bucket : buckets) {
      for (const Work& work : works[bucket.index]) work.wait();
      if (round == hook.rounds())
        hook.finish(bucket, comm);
      else
        works[bucket.index] = hook.start(round, bucket, comm);
    }
  }
}

double largest_difference(const Tensor& a, const Tensor& b) {
  auto x = a.to_vector<double>(), y = b.to_vector<double>();
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) largest = std::max(largest, std::abs(x[i] - y[i]));
  return largest;
}

/// The ranks' average of a tensor.
Tensor averaged(Communicator& comm, const Tensor& x) {
  Tensor mean = x.clone();
  comm.all_reduce(mean, ReduceOp::avg);
  return mean;
}

class HookTest : public ::testing::TestWithParam<int> {};

// The result is the average, except for the hook's permitted error, and is the same on all ranks.
TEST_P(HookTest, IsNearTheAverage) {
  struct Case {
    const char* name;
    double tolerance;  // of values up to 4
  };
  // bf16 has 8 bits and f16 has 11, so an element of up to 4 has an error of at most 2^-7 and
  // 2^-10, once when it is sent and once when it is summed; int8 has half of 4 / 127, twice. topk
  // sends all of its elements here.
  for (const Case& c : {Case{"bf16", 2 * 0.0157}, Case{"fp16", 2 * 0.002}, Case{"int8", 0.045},
                        Case{"topk:1", 1e-6}}) {
    on_ranks(GetParam(), [&](std::shared_ptr<Communicator> comm) {
      auto hook = make_comm_hook(c.name);
      auto buckets = some_buckets();
      hook->prepare(buckets, *comm);
      for (int step = 0; step < 3; ++step) {
        fill(buckets, comm->rank(), step);
        Tensors want;
        for (auto& bucket : buckets) want.push_back(averaged(*comm, bucket.flat));
        average(*hook, buckets, *comm);
        for (auto& bucket : buckets) {
          EXPECT_LE(largest_difference(bucket.flat, want[bucket.index]), c.tolerance) << c.name;
          const std::string bits(static_cast<const char*>(bucket.flat.data_ptr()),
                                 static_cast<std::size_t>(bucket.flat.nbytes()));
          for (const std::string& other : comm->all_gather_bytes(bits))
            EXPECT_EQ(other == bits, true) << c.name;
        }
      }
    });
  }
}

// Rounding errors cancel over many elements, but a rounded factor does not. Each of 2359 elements
// has an error of up to 2^-8, 2^-8 / sqrt(3) in the mean square, when it is sent and in each sum.
// Their mean has 5e-5 per rounding; ten times that is allowed. 1 / 3 in bf16 has an error of 2e-3.
TEST_P(HookTest, SixteenBitsAreOffToNeitherSide) {
  for (const char* name : {"bf16", "fp16"}) {
    on_ranks(GetParam(), [&](std::shared_ptr<Communicator> comm) {
      auto hook = make_comm_hook(name);
      auto buckets = some_buckets();
      hook->prepare(buckets, *comm);
      for (auto& bucket : buckets) {  // 1 … 2, the same on all ranks
        auto* x = bucket.flat.data_ptr<float>();
        for (std::int64_t i = 0; i < bucket.flat.numel(); ++i)
          x[i] = 1 + static_cast<float>(i * 37 % 1009) / 1009;
      }
      double want = 0, got = 0;
      for (auto& bucket : buckets) want += bucket.flat.to(f64).sum().item<double>();
      average(*hook, buckets, *comm);
      for (auto& bucket : buckets) got += bucket.flat.to(f64).sum().item<double>();
      EXPECT_NEAR(got / want, 1, 5e-4) << name;
    });
  }
}

// Nothing is lost permanently: the received gradients and the ranks' residuals add up to the sum of
// all gradients.
TEST_P(HookTest, ErrorFeedbackKeepsWhatHasNotArrived) {
  for (const char* name : {"topk:0.05", "sign", "powersgd:1"}) {
    on_ranks(GetParam(), [&](std::shared_ptr<Communicator> comm) {
      auto hook = std::string(name) == "powersgd:1"
                      ? std::make_shared<PowerSgdHook>(PowerSgdOptions{.rank = 1, .start_step = 2})
                      : make_comm_hook(name);
      auto buckets = some_buckets();
      hook->prepare(buckets, *comm);
      Tensors sent, arrived;
      for (auto& bucket : buckets) {
        sent.push_back(zeros_like(bucket.flat));
        arrived.push_back(zeros_like(bucket.flat));
      }
      for (int step = 0; step < 6; ++step) {
        fill(buckets, comm->rank(), step);
        for (auto& bucket : buckets) sent[bucket.index].add_(averaged(*comm, bucket.flat));
        average(*hook, buckets, *comm);
        for (auto& bucket : buckets) arrived[bucket.index].add_(bucket.flat);
      }
      double held = 0;
      for (auto& [entry, tensor] : hook->state()) {
        if (!entry.starts_with("residual") && !entry.starts_with("error")) continue;
        const auto index = static_cast<std::size_t>(entry.back() - '0');
        const Tensor rest = averaged(*comm, tensor);
        const std::int64_t n = rest.numel();  // powersgd keeps none for vectors
        arrived[index].narrow(0, 0, n).add_(rest);
        held += largest_difference(rest, zeros_like(rest));
      }
      EXPECT_GT(held, 0.1) << name;
      for (auto& bucket : buckets)
        EXPECT_LE(largest_difference(sent[bucket.index], arrived[bucket.index]), 2e-5) << name;
    });
  }
}

// A gradient that is a product of two thin matrices is transferred exactly.
TEST_P(HookTest, PowerSgdIsExactWhereTheRankIs) {
  on_ranks(GetParam(), [](std::shared_ptr<Communicator> comm) {
    PowerSgdHook hook({.rank = 2, .start_step = 0});
    std::vector<GradBucket> buckets = {{.index = 0,
                                        .flat = zeros({40 * 30}, {.dtype = f64}),
                                        .slices = {{.offset = 0, .shape = {40, 30}}}}};
    hook.prepare(buckets, *comm);
    Generator generator(7);
    // All ranks' gradients are in one space of two dimensions; otherwise their average would not
    // be.
    const Tensor left = randn({40, 2}, {.dtype = f64}, generator),
                 right = randn({2, 30}, {.dtype = f64}, generator);
    const Tensor mine = matmul(left, right) * (1.0 + comm->rank());
    buckets[0].flat.copy_(mine.reshape({1200}));
    const Tensor want = averaged(*comm, buckets[0].flat);
    average(hook, buckets, *comm);
    EXPECT_LE(largest_difference(buckets[0].flat, want), 1e-10);
  });
}

TEST_P(HookTest, BytesThatTravel) {
  on_ranks(GetParam(), [](std::shared_ptr<Communicator> comm) {
    const std::int64_t n = comm->world_size(), a = 1207, b = 1152;
    auto bytes_of = [&](const std::string& name) {
      auto hook = make_comm_hook(name);
      auto buckets = some_buckets();
      hook->prepare(buckets, *comm);
      for (int step = 0; step < 11; ++step) {
        fill(buckets, comm->rank(), step);
        const std::int64_t before = hook->least_bytes();
        average(*hook, buckets, *comm);
        if (step == 10) return hook->least_bytes() - before;
      }
      return std::int64_t{0};
    };
    auto reduced = [&](std::int64_t bytes) { return 2 * (n - 1) * bytes / n; };
    EXPECT_EQ(bytes_of("fp16"), reduced(2 * a) + reduced(2 * b));
    EXPECT_EQ(bytes_of("topk:0.01"), (n - 1) * 8 * (12 + 11));
    EXPECT_EQ(bytes_of("sign"), (n - 1) * 20 * (10 + 9));
    // 40 × 30 shrinks to 2 (40 + 30), 16 × 72 to 2 (16 + 72); the vector of 7 does not.
    EXPECT_EQ(bytes_of("powersgd:2"), reduced(4 * 80) + reduced(4 * 60) + reduced(4 * 7) +
                                          reduced(4 * 32) + reduced(4 * 144) + reduced(0));
    // Five blocks of 260 bytes each, in parts of whole blocks.
    const std::int64_t part = (5 + n - 1) / n * 260;
    EXPECT_EQ(bytes_of("int8"), 2 * 2 * (n - 1) * part);
  });
}

// Compares the formula with the bytes given to the transport, over all ranks. In pairwise
// all-reduces and exchanges the ranks send the minimum, plus a header that identifies the
// collective: 96 bytes to a neighbour, and in an all-to-all 80 to each of the others.
TEST_P(HookTest, LeastBytesAreThoseThatTravel) {
  on_ranks(GetParam(),
           [](std::shared_ptr<Communicator> comm) {
             const std::int64_t n = comm->world_size();
             auto over_ranks = [&](std::int64_t bytes) {
               const Tensor sum = full({1}, static_cast<double>(bytes), {.dtype = f64});
               comm->all_reduce(sum);
               return sum.item<double>();
             };
             for (const char* name : {"fp16", "topk:0.1", "sign", "powersgd:2", "int8"}) {
               auto hook = make_comm_hook(name);
               auto buckets = some_buckets();
               hook->prepare(buckets, *comm);
               for (int step = 0; step < 10; ++step) average(*hook, buckets, *comm);
               fill(buckets, comm->rank(), 10);
               const std::int64_t least = hook->least_bytes(),
                                  sent = comm->transport().bytes_sent();
               const auto collectives = static_cast<double>(comm->collectives());
               average(*hook, buckets, *comm);
               const double checks =
                   (96 + 80.0 * (n - 1)) * (static_cast<double>(comm->collectives()) - collectives);
               const double counted = over_ranks(comm->transport().bytes_sent() - sent);
               const double formula = over_ranks(hook->least_bytes() - least);
               if (n == 1) {
                 EXPECT_EQ(formula, 0) << name;
                 continue;
               }
               // The formula has whole bytes for each rank: up to one byte per rank and collective
               // is lost.
               EXPECT_GE(counted, formula) << name;
               EXPECT_LE(counted, formula + static_cast<double>(n) * (checks + 10)) << name;
             }
           },
           {.all_reduce = AllReduce::pairwise, .timeout = std::chrono::seconds(60)});
}

/// The loss after 60 steps of DDP with a hook, or with none, on random labels.
double loss_with(const std::string& name, std::shared_ptr<Communicator> comm) {
  test::TinyMlp model;
  test::set_weights(model, 2);
  DistributedDataParallel ddp(model, comm, {.buckets = {.bucket_bytes = 2000}});
  if (!name.empty()) ddp.register_comm_hook(make_comm_hook(name));
  optim::SGD sgd(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  for (int step = 0; step < 60; ++step) {
    sgd.zero_grad();
    Tensor loss = test::one_loss([&](auto& x) { return ddp(x); }, comm->rank());
    ddp.set_loss(loss);
    loss.backward();
    ddp.check_loss();
    sgd.step();
  }
  std::string bits;
  for (auto& p : model.parameters())
    bits.append(static_cast<const char*>(p.data_ptr()), static_cast<std::size_t>(p.nbytes()));
  for (const std::string& other : comm->all_gather_bytes(bits))
    EXPECT_EQ(other == bits, true) << name;
  if (comm->world_size() > 1 && !name.empty()) {
    EXPECT_GT(ddp.comm_hook()->least_bytes(), 0) << name;
  }
  return ddp.mean_loss();
}

// Training converges about as well as without a hook, and all ranks stay equal. Convergence on real
// images is tested in tests/programs/run.sh.
TEST_P(HookTest, InDdp) {
  test::on_ranks_sharing_memory(GetParam(), [](std::shared_ptr<Communicator> comm) {
    const double plain = loss_with("", comm);
    for (const char* name : {"fp16", "bf16", "int8"})
      EXPECT_NEAR(loss_with(name, comm), plain, 0.05 * plain + 0.02) << name;
    for (const char* name : {"topk:0.3", "powersgd:4", "sign"})
      EXPECT_LT(loss_with(name, comm), 1.3 * plain + 0.1) << name;
  });
}

// A rank joins: steps use up the hooks' residuals, not the round in which all ranks have joined.
TEST_P(HookTest, Join) {
  on_ranks(GetParam(), [](std::shared_ptr<Communicator> comm) {
    test::TinyMlp model;
    test::set_weights(model, 2);
    DistributedDataParallel ddp(model, comm);
    ddp.register_comm_hook(make_comm_hook("topk:0.1"));
    optim::SGD sgd(model.parameters(), {.lr = 0.1});
    for (int step = 0; step < 2; ++step) {
      sgd.zero_grad();
      test::one_loss([&](auto& x) { return ddp(x); }, comm->rank()).backward();
      sgd.step();
    }
    std::vector<double> held;
    for (auto& [name, tensor] : ddp.comm_hook()->state()) {
      for (double v : tensor.to_vector<double>()) held.push_back(v);
    }
    EXPECT_EQ(ddp.join([&] { sgd.step(); }), 0);
    std::vector<double> still_held;
    for (auto& [name, tensor] : ddp.comm_hook()->state()) {
      for (double v : tensor.to_vector<double>()) still_held.push_back(v);
    }
    EXPECT_EQ(held, still_held);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, HookTest, ::testing::Values(1, 2, 3, 4));

TEST(Hook, QuantizedBlocks) {
  std::vector<float> x(600), y(600, 0.0f);
  for (int i = 0; i < 600; ++i) x[i] = std::sin(static_cast<float>(i)) * (i < 256 ? 1e-3f : 100.0f);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(quantized_bytes(600)));
  ASSERT_EQ(bytes.size(), 3u * 260);
  quantize(x.data(), 600, bytes.data());
  add_dequantized(bytes.data(), 2.0f, y.data(), 600);
  for (int i = 0; i < 600; ++i) {
    const float scale = (i < 256 ? 1e-3f : 100.0f) / 127;  // blocks are independent
    EXPECT_NEAR(y[i], 2 * x[i], 1.001f * scale) << i;
  }
  x[300] = std::numeric_limits<float>::infinity();
  quantize(x.data(), 600, bytes.data());
  std::fill(y.begin(), y.end(), 0.0f);
  add_dequantized(bytes.data(), 1.0f, y.data(), 600);
  EXPECT_TRUE(std::isnan(y[256]) && std::isnan(y[511]));
  EXPECT_FALSE(std::isnan(y[255]) || std::isnan(y[512]));
  std::fill(x.begin(), x.end(), 1e-45f);  // too small for a scale
  quantize(x.data(), 600, bytes.data());
  std::fill(y.begin(), y.end(), 0.0f);
  add_dequantized(bytes.data(), 1.0f, y.data(), 600);
  for (float v : y) EXPECT_EQ(v, 0.0f);
}

TEST(Hook, Orthogonalize) {
  Generator generator(3);
  Tensor x = randn({50, 4}, {.dtype = f64}, generator);
  x.narrow(1, 2, 1).copy_(x.narrow(1, 0, 1) * 2.0);  // depends on another column
  orthogonalize(x);
  const Tensor product = matmul(transpose(x, 0, 1), x);
  for (int i = 0; i < 4; ++i) {
    for (int k = 0; k < 4; ++k) {
      if (i == 2 || k == 2) continue;
      EXPECT_NEAR(product[i][k].item<double>(), i == k ? 1.0 : 0.0, 1e-12);
    }
  }
  for (double v : x.to_vector<double>()) EXPECT_TRUE(std::isfinite(v));
}

TEST(Hook, BadInput) {
  auto said = [](const std::string& text) {
    return test::failure_of([&] { make_comm_hook(text); });
  };
  EXPECT_THAT(said("zip"), HasSubstr("unknown comm hook \"zip\"; use one of fp16"));
  EXPECT_THAT(said("topk:x"), HasSubstr("\"x\" is not a number"));
  EXPECT_THAT(said("topk:"), HasSubstr("\"\" is not a number"));
  EXPECT_THAT(said("topk:0"), HasSubstr("ratio 0, but it must be above 0"));
  EXPECT_THAT(said("powersgd:0"), HasSubstr("rank 0"));
  EXPECT_THAT(said("powersgd:1.5"), HasSubstr("is not a number"));
  EXPECT_THAT(said("fp16:2"), HasSubstr("fp16 takes no number"));
  on_ranks(1, [](std::shared_ptr<Communicator> comm) {
    auto buckets = some_buckets(f64);
    EXPECT_THROW(SignHook().prepare(buckets, *comm), DTypeError);
    EXPECT_THROW(Int8Hook().prepare(buckets, *comm), DTypeError);
    test::TinyMlp model;
    DistributedDataParallel ddp(model, comm);
    EXPECT_THROW(ddp.register_comm_hook(nullptr), CommError);
  });
  const std::string sentence = test::failure_of([] {
    on_ranks(2, [](std::shared_ptr<Communicator> comm) {
      test::TinyMlp model;
      DistributedDataParallel ddp(model, comm);
      ddp.register_comm_hook(make_comm_hook(comm->rank() == 0 ? "fp16" : "int8"));
    });
  });
  EXPECT_THAT(sentence, HasSubstr("rank 1 has comm hook int8 where rank 0 has comm hook fp16"));
}

// The NaN appears once, as in plain DDP: the residuals for later steps stay finite.
TEST_P(HookTest, ANaNIsSeenInItsStepAndNotInLaterOnes) {
  for (const char* name : {"topk:0.01", "sign", "powersgd:2", "int8"}) {
    test::on_ranks(GetParam(), [name](std::shared_ptr<Communicator> comm) {
      test::TinyMlp model;
      DistributedDataParallel ddp(model, comm);
      ddp.register_comm_hook(make_comm_hook(name));
      const auto sum_of_gradients = [&](double factor) {
        model.zero_grad();
        test::one_loss([&](auto& x) { return ddp(x) * factor; }, comm->rank()).backward();
        Tensor total = zeros({});
        for (const Tensor& p : model.parameters()) total = total + p.grad().sum();
        return total.item();
      };
      for (int step = 0; step < 12; ++step)  // PowerSGD begins after ten steps
        EXPECT_TRUE(std::isfinite(sum_of_gradients(1)));
      EXPECT_FALSE(std::isfinite(sum_of_gradients(comm->rank() == 0 ? NAN : 1))) << name;
      for (int step = 0; step < 3; ++step)
        EXPECT_TRUE(std::isfinite(sum_of_gradients(1))) << name << " " << step;
    });
  }
}

}  // namespace
}  // namespace rondo::dist
