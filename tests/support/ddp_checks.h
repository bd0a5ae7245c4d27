#pragma once
// The requirements on DistributedDataParallel, over any transport. Run over threads by
// tests/dist/data_parallel/ddp_test.cpp and over MPI by tests/mpi/ddp_test.cpp. All ranks call each
// function.

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/pool.h"
#include "dist/data_parallel/ddp.h"
#include "nn/conv2d.h"
#include "nn/linear.h"
#include "optim/sgd.h"
#include "support/any_forward.h"
#include "tensor/creation.h"

namespace rondo::test {

struct TinyMlp : nn::Module {
  nn::Linear fc1, fc2, fc3;
  explicit TinyMlp(std::int64_t hidden = 33) : fc1(20, hidden), fc2(hidden, 17), fc3(17, 5) {}
  Tensor forward(const Tensor& x) override { return fc3(relu(fc2(relu(fc1(x))))); }
  void visit(nn::Visitor& v) override {
    v.child("fc1", fc1);
    v.child("fc2", fc2);
    v.child("fc3", fc3);
  }
};

/// Without batch statistics, so its result for an image does not depend on the rest of the batch.
struct TinyConvnet : nn::Module {
  nn::Conv2d conv1{3, 8, 3, {.padding = 1}}, conv2{8, 12, 3, {.stride = 2, .padding = 1}};
  nn::Linear fc{12 * 4 * 4, 5};
  Tensor forward(const Tensor& x) override { return fc(relu(conv2(relu(conv1(x)))).flatten(1)); }
  void visit(nn::Visitor& v) override {
    v.child("conv1", conv1);
    v.child("conv2", conv2);
    v.child("fc", fc);
  }
};

/// Sets the same weights on all ranks. Ranks that are threads share default_generator(), so this
/// uses its own generator.
struct Batch {
  Tensor x, y;
};
inline Batch batch_of(const Dims& image, int step, DType dtype, Device device = Device::cpu()) {
  Generator generator(1000 + static_cast<std::uint64_t>(step));
  Dims shape = image;
  shape.insert(0, 96);
  return {randn(shape, {.dtype = dtype}, generator).to(device),
          randint(0, 5, {96}, {.dtype = i64}, generator).to(device)};
}

inline void set_weights(nn::Module& model, std::uint64_t seed) {
  NoGradGuard no_grad;
  Generator generator(seed);
  for (auto& [name, p] : model.named_parameters()) {
    double scale = p.dim() > 1 ? 1 / std::sqrt(static_cast<double>(p.numel() / p.size(0))) : 0.1;
    p.copy_(
        (randn(p.shape(), {.dtype = p.dtype()}, generator) * scalar(scale, {.dtype = p.dtype()}))
            .to(p.device()));
  }
}

/// 20 steps on N ranks, against the same steps on one rank with the whole batch of 96.
template <class Model>
void check_equals_one_process(std::shared_ptr<dist::Communicator> comm, const Dims& image,
                              DType dtype, double tolerance, dist::BucketOptions buckets,
                              Device device = Device::cpu()) {
  int n = comm->world_size(), r = comm->rank();
  Model whole, mine;
  whole.to(dtype);
  mine.to(dtype);
  mine.to(device);
  set_weights(whole, 5);
  set_weights(mine, r == 0 ? 5 : 77 + r);  // all ranks must start from rank 0's weights
  dist::DistributedDataParallel ddp(mine, comm, {.buckets = buckets});
  optim::SGD whole_sgd(whole.parameters(), {.lr = 0.05, .momentum = 0.9, .weight_decay = 5e-4});
  optim::SGD mine_sgd(mine.parameters(), {.lr = 0.05, .momentum = 0.9, .weight_decay = 5e-4});
  for (int step = 0; step < 20; ++step) {
    Batch batch = batch_of(image, step, dtype);
    whole_sgd.zero_grad();
    cross_entropy(whole(batch.x), batch.y).backward();
    whole_sgd.step();
    std::int64_t part = 96 / n;
    mine_sgd.zero_grad();
    cross_entropy(ddp(batch.x.narrow(0, r * part, part).to(device)),
                  batch.y.narrow(0, r * part, part).to(device))
        .backward();
    mine_sgd.step();
  }
  auto want = whole.named_parameters(), got = mine.named_parameters();
  for (std::size_t i = 0; i < want.size(); ++i) {
    auto a = want[i].tensor.template to_vector<double>();
    auto b = got[i].tensor.to(Device::cpu()).template to_vector<double>();
    double largest = 0, difference = 0;
    for (std::size_t k = 0; k < a.size(); ++k) {
      largest = std::max(largest, std::abs(a[k]));
      difference = std::max(difference, std::abs(a[k] - b[k]));
    }
    EXPECT_LE(difference, tolerance * largest) << want[i].name << " on rank " << r << " of " << n;
    EXPECT_GT(largest, 0);
  }
}

inline std::string failure_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

inline Tensor one_loss(const std::function<Tensor(const Tensor&)>& model, int seed,
                       Device device = Device::cpu()) {
  Batch batch = batch_of({20}, seed, f32, device);
  return cross_entropy(model(batch.x), batch.y);
}

/// The first bucket's all-reduce must begin before backward ends. To be independent of scheduling,
/// the gradient of the first layer's output waits (with a deadline) until it has begun. If buckets
/// were launched only after backward, or not executed, the wait would time out.
inline void check_overlap(std::shared_ptr<dist::Communicator> comm) {
  if (comm->world_size() == 1) return;  // nothing to overlap with
  TinyMlp model;
  dist::DistributedDataParallel ddp(model, comm,
                                    {.buckets = {.bucket_bytes = 1000, .first_bucket_bytes = 500}});
  Batch batch = batch_of({20}, 0, f32);
  Tensor h = model.fc1(batch.x);
  bool begun = false;
  register_hook(h, [&](const Tensor&) {
    auto deadline = dist::Clock::now() + std::chrono::seconds(30);
    while (!begun && dist::Clock::now() < deadline) {
      begun = ddp.first_bucket_started();
      std::this_thread::yield();
    }
    return Tensor();
  });
  cross_entropy(model.fc3(relu(model.fc2(relu(h)))), batch.y).backward();
  EXPECT_TRUE(begun);
  const auto& t = ddp.timeline();
  ASSERT_GT(t.buckets.size(), 2u);
  EXPECT_LT(t.buckets[0].started, t.backward_end);
  EXPECT_LE(t.first_gradient, t.buckets[0].ready);
  for (std::size_t b = 0; b < t.buckets.size(); ++b) {
    const auto& times = t.buckets[b];
    EXPECT_LE(times.ready, times.launched);
    EXPECT_LE(times.launched, times.started);
    EXPECT_LE(times.started, times.finished);
    EXPECT_LE(times.finished, t.synchronized);
    if (b > 0) {
      EXPECT_LE(t.buckets[b - 1].finished, times.started);
    }
  }
}

/// no_sync accumulates on each rank; the backward after it averages the sums.
inline void check_no_sync(std::shared_ptr<dist::Communicator> comm, Device device = Device::cpu()) {
  int n = comm->world_size(), r = comm->rank();
  TinyMlp model, alone;
  set_weights(alone, 3);
  set_weights(model, 3);
  model.to(device);
  dist::DistributedDataParallel ddp(model, comm);
  {
    auto guard = ddp.no_sync();
    one_loss([&](auto& x) { return ddp(x); }, 2 * r, device).backward();
  }
  one_loss([&](auto& x) { return ddp(x); }, 2 * r + 1, device).backward();
  for (int k = 0; k < 2 * n; ++k) one_loss([&](auto& x) { return alone(x); }, k).backward();
  auto got = model.parameters(), want = alone.parameters();
  for (std::size_t i = 0; i < got.size(); ++i) {
    auto a = got[i].grad().to(Device::cpu()).to_vector<double>(),
         b = want[i].grad().to_vector<double>();
    for (std::size_t k = 0; k < a.size(); ++k) ASSERT_NEAR(a[k], b[k] / n, 2e-6);
  }
}

/// Gradients stay in their buckets, also after zero_grad.
inline void check_aliasing(std::shared_ptr<dist::Communicator> comm,
                           Device device = Device::cpu()) {
  TinyMlp model;
  model.to(device);
  dist::DistributedDataParallel ddp(model, comm);
  std::vector<void*> places;
  for (int step = 0; step < 3; ++step) {
    model.zero_grad();
    one_loss([&](auto& x) { return ddp(x); }, step, device).backward();
    std::vector<void*> now;
    for (auto& p : model.parameters()) now.push_back(p.grad().data_ptr());
    if (step > 0) {
      EXPECT_EQ(now, places);
    }
    places = now;
  }
}

inline void check_losses(std::shared_ptr<dist::Communicator> comm, Device device = Device::cpu()) {
  int n = comm->world_size(), r = comm->rank();
  TinyMlp model;
  model.to(device);
  dist::DistributedDataParallel ddp(model, comm);
  auto backward = [&](double flag) {
    model.zero_grad();
    Tensor loss = one_loss([&](auto& x) { return ddp(x); }, 0, device);
    ddp.set_loss(flag);
    loss.backward();
    ddp.take_mean_losses(/*wait=*/true);
  };
  backward(1.5 + r);
  for (int k = 0; k < n; ++k) EXPECT_NEAR(ddp.losses()[k], 1.5 + k, 1e-5);
  EXPECT_NEAR(ddp.mean_loss(), 1.5 + (n - 1) / 2.0, 1e-5);
  ddp.check_loss();
  backward(r == n - 1 ? -std::nan("") : 1.0);
  std::string sentence = failure_of([&] { ddp.check_loss(); });
  EXPECT_EQ(sentence, concat("the loss is nan on rank ", comm->rank_in_world(n - 1)));
  backward(r == 0 ? HUGE_VAL : 1.0);
  EXPECT_EQ(failure_of([&] { ddp.check_loss(); }),
            concat("the loss is inf on rank ", comm->rank_in_world(0)));
  backward(1.0);
  ddp.check_loss();
}

inline void check_unused_parameters(std::shared_ptr<dist::Communicator> comm) {
  TinyMlp model;
  dist::DistributedDataParallel ddp(model, comm);
  Batch batch = batch_of({20}, 0, f32);
  Tensor loss =
      cross_entropy(model.fc3(relu(model.fc2(relu(model.fc1(batch.x).detach())))), batch.y);
  EXPECT_EQ(failure_of([&] { loss.backward(); }),
            concat("rank ", comm->rank(),
                   ": backward did not reach fc1.weight, fc1.bias; every "
                   "parameter must take part in the loss, be frozen (requires_grad_(false)) before "
                   "DistributedDataParallel is made, or be allowed to be unused (Unused::zeros)"));
}

/// N ranks with k micro-batches each equal one batch of all of them, also in the reported losses.
inline void check_accumulate(std::shared_ptr<dist::Communicator> comm) {
  const int n = comm->world_size(), r = comm->rank(), k = 4;
  TinyMlp whole, mine;
  whole.to(f64);
  mine.to(f64);
  set_weights(whole, 5);
  set_weights(mine, 5);
  dist::DistributedDataParallel ddp(mine, comm, {.buckets = {.bucket_bytes = 1000}});
  optim::SGD whole_sgd(whole.parameters(), {.lr = 0.05, .momentum = 0.9});
  optim::SGD mine_sgd(mine.parameters(), {.lr = 0.05, .momentum = 0.9});
  ddp.accumulate(k);
  for (int step = 0; step < 3; ++step) {
    Batch batch = batch_of({20}, step, f64);
    const std::int64_t part = 96 / (n * k), used = part * n * k;
    whole_sgd.zero_grad();
    Tensor whole_loss =
        cross_entropy(whole(batch.x.narrow(0, 0, used)), batch.y.narrow(0, 0, used));
    whole_loss.backward();
    whole_sgd.step();
    mine_sgd.zero_grad();
    for (int micro = 0; micro < k; ++micro) {
      const std::int64_t first = (r * k + micro) * part;
      Tensor loss =
          cross_entropy(ddp(batch.x.narrow(0, first, part)), batch.y.narrow(0, first, part));
      ddp.set_loss(loss);
      if (micro == 1) {
        EXPECT_NE(failure_of([&] { ddp.accumulate(2); }).find("1 of 4 micro-batches"),
                  std::string::npos);
      }
      loss.backward();
      EXPECT_EQ(ddp.step_is_complete(), micro + 1 == k);
    }
    mine_sgd.step();
    EXPECT_NEAR(ddp.mean_loss(), whole_loss.item<double>(), 1e-12);
  }
  auto want = whole.parameters(), got = mine.parameters();
  for (std::size_t i = 0; i < want.size(); ++i) {
    auto a = want[i].to_vector<double>(), b = got[i].to_vector<double>();
    for (std::size_t j = 0; j < a.size(); ++j) ASSERT_NEAR(a[j], b[j], 1e-12);
  }
  EXPECT_NE(failure_of([&] { ddp.accumulate(0); }).find("k is 0"), std::string::npos);
}

/// Unused::zeros: only rank 0 uses fc1, and no rank uses fc2's bias.
inline void check_unused_zeros(std::shared_ptr<dist::Communicator> comm,
                               bool static_graph = false) {
  const int n = comm->world_size(), r = comm->rank();
  TinyMlp model, alone;
  set_weights(model, 3);
  set_weights(alone, 3);
  dist::DistributedDataParallel ddp(model, comm,
                                    {.buckets = {.bucket_bytes = 1000},
                                     .unused = dist::Unused::zeros,
                                     .static_graph = static_graph});
  auto loss_of = [](TinyMlp& m, const Batch& batch, bool is_first) {
    Tensor h = m.fc1(batch.x);
    if (!is_first) h = h.detach();
    return cross_entropy(m.fc3(relu(linear(relu(h), m.fc2.weight, {}))), batch.y);
  };
  for (int step = 0; step < 3; ++step) {
    model.zero_grad();
    alone.zero_grad();
    for (int k = 0; k < n; ++k)
      loss_of(alone, batch_of({20}, n * step + k, f32), k == 0).backward();
    loss_of(model, batch_of({20}, n * step + r, f32), r == 0).backward();
    const std::vector<std::string> expected =
        r == 0 ? std::vector<std::string>{"fc2.bias"}
               : std::vector<std::string>{"fc1.weight", "fc1.bias", "fc2.bias"};
    EXPECT_EQ(ddp.unused_parameters(), expected);
    auto got = model.named_parameters(), want = alone.named_parameters();
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].tensor.grad().defined(), want[i].tensor.grad().defined()) << got[i].name;
      if (!got[i].tensor.grad().defined()) continue;
      auto a = got[i].tensor.grad().to_vector<double>(),
           b = want[i].tensor.grad().to_vector<double>();
      for (std::size_t k = 0; k < a.size(); ++k) ASSERT_NEAR(a[k], b[k] / n, 2e-6) << got[i].name;
    }
  }
}

/// Rank r has 2 + r batches. All ranks take the same number of steps and end with the same weights:
/// those of a single process that adds up the gradients of the ranks that have a batch.
inline void check_join(std::shared_ptr<dist::Communicator> comm, bool by_active) {
  const int n = comm->world_size(), r = comm->rank();
  TinyMlp model, alone;
  set_weights(model, 3);
  set_weights(alone, 3);
  dist::DistributedDataParallel ddp(
      model, comm, {.buckets = {.bucket_bytes = 1000}, .divide_by_active_ranks = by_active});
  optim::SGD sgd(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  optim::SGD alone_sgd(alone.parameters(), {.lr = 0.1, .momentum = 0.9});
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (int step = 0; step < 2 + r; ++step) {
      sgd.zero_grad();
      Tensor loss = one_loss([&](auto& x) { return ddp(x); }, 100 * epoch + 10 * step + r);
      ddp.set_loss(1.0 + r);
      loss.backward();
      sgd.step();
    }
    ddp.take_mean_losses();
    EXPECT_EQ(ddp.join([&] { sgd.step(); }), n - 1 - r);
    if (r < n - 1) {  // only rank n - 1 had a batch in the last step
      EXPECT_NEAR(ddp.take_mean_losses().back(), n, 1e-5);
    }
    for (int step = 0; step < 2 + n - 1; ++step) {
      alone_sgd.zero_grad();
      int active = 0;
      for (int k = 0; k < n; ++k) {
        if (step >= 2 + k) continue;
        one_loss([&](auto& x) { return alone(x); }, 100 * epoch + 10 * step + k).backward();
        ++active;
      }
      for (auto& p : alone.parameters())
        p.grad().mul_(scalar(1.0 / (by_active ? active : n), {.dtype = f32}));
      alone_sgd.step();
    }
  }
  auto got = model.parameters(), want = alone.parameters();
  for (std::size_t i = 0; i < got.size(); ++i) {
    auto a = got[i].to_vector<double>(), b = want[i].to_vector<double>();
    for (std::size_t k = 0; k < a.size(); ++k) ASSERT_NEAR(a[k], b[k], 2e-5);
  }
}

inline void check_frozen_parameters(std::shared_ptr<dist::Communicator> comm) {
  TinyMlp model;
  model.fc1.requires_grad_(false);
  dist::DistributedDataParallel ddp(model, comm);
  one_loss([&](auto& x) { return ddp(x); }, 0).backward();
  EXPECT_FALSE(model.fc1.weight.grad().defined());
  EXPECT_TRUE(model.fc2.weight.grad().defined());
}

inline void check_different_models(std::shared_ptr<dist::Communicator> comm) {
  if (comm->world_size() == 1) return;
  TinyMlp model(comm->rank() == 1 ? 32 : 33);
  EXPECT_EQ(failure_of([&] { dist::DistributedDataParallel ddp(model, comm); }),
            "rank 1 has another model than rank 0: parameter fc1.weight f32[32, 20] with strides "
            "[20, 1] where rank 0 has parameter fc1.weight f32[33, 20] with strides [20, 1]");
}

/// A model with two inputs and three results: the gradients are the means over the ranks.
inline void check_any_forward(const std::shared_ptr<dist::Communicator>& comm) {
  Detector model, alone;
  set_weights(model, 5);
  set_weights(alone, 5);
  const auto loss_on = [](auto& net, int rank) {
    Generator generator(70 + static_cast<std::uint64_t>(rank));
    const Tensor x = randn({4, 6}, {}, generator), mask = randn({4, 6}, {}, generator);
    return loss_of(rank % 2 == 0 ? net(x, mask) : net(x));
  };
  dist::DDP ddp(model, comm);
  loss_on(ddp, comm->rank()).backward();
  const int ranks = comm->world_size();
  for (int rank = 0; rank < ranks; ++rank) (loss_on(alone, rank) / ranks).backward();
  const auto got = ddp.parameters(), want = alone.parameters();
  for (std::size_t i = 0; i < want.size(); ++i)
    for (std::int64_t k = 0; k < want[i].numel(); ++k)
      EXPECT_NEAR(got[i].grad().to_vector()[static_cast<std::size_t>(k)],
                  want[i].grad().to_vector()[static_cast<std::size_t>(k)], 1e-5);

  // The wrapper has the model's functions, with the model's names.
  EXPECT_EQ(&ddp.module(), &model);
  EXPECT_EQ(ddp.state_dict().keys(), model.state_dict().keys());
  EXPECT_EQ(ddp.named_parameters()[0].name, "body.weight");
  ddp.load_state_dict(alone.state_dict());
  EXPECT_FALSE(ddp.eval().is_training());
  EXPECT_FALSE(model.body.is_training());
  EXPECT_TRUE(ddp.train().is_training());
  ddp.zero_grad();
  EXPECT_FALSE(model.body.weight.grad().defined());
}

}  // namespace rondo::test
