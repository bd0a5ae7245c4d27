#include "dist/data_parallel/reproducible.h"

#include <omp.h>

#include <algorithm>
#include <bit>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "autograd/autocast.h"
#include "autograd/autograd_meta.h"
#include "autograd/grad_mode.h"
#include "autograd/ops/loss.h"
#include "dist/collectives/dense.h"
#include "dist/collectives/sums.h"
#include "nn/batch_norm.h"
#include "nn/shown.h"
#include "tensor/creation.h"
#include "tensor/error.h"
#include "tensor/home_process.h"
#include "tensor/random.h"

namespace rondo::dist {

namespace {

constexpr std::uint64_t streams_per_shard = 1 << 16;  // random kernels in one forward

bool is_power_of_two(int n) { return n > 0 && std::has_single_bit(static_cast<unsigned>(n)); }

}  // namespace

/// Threads that run the same task concurrently, each with one OpenMP thread.
class ReproducibleDataParallel::Team {
 public:
  explicit Team(int size) : errors_(static_cast<std::size_t>(size)) {
    for (int i = 0; i < size; ++i) threads_.emplace_back([this, i] { work(i); });
  }
  ~Team() {
    if (!home_.is_here()) {
      for (std::thread& thread : threads_) thread.detach();
      renew(mutex_, changed_, done_);
      return;
    }
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return static_cast<int>(threads_.size()); }
  /// Calls task(0), task(1), …, each on its own thread. Returns when all are complete; throws the
  /// exception of the first that threw.
  void run(std::function<void(int)> task) {
    std::unique_lock lock(mutex_);
    task_ = std::move(task);
    types_ = Autocast::types();
    ++round_;
    running_ = size();
    changed_.notify_all();
    done_.wait(lock, [&] { return running_ == 0; });
    for (std::exception_ptr& error : errors_) {
      if (error) std::rethrow_exception(std::exchange(error, nullptr));
    }
  }

 private:
  void work(int i) {
    omp_set_num_threads(1);
    std::unique_lock lock(mutex_);
    for (std::uint64_t seen = 0;;) {
      changed_.wait(lock, [&] { return stop_ || round_ != seen; });
      if (stop_) return;
      seen = round_;
      lock.unlock();
      std::exception_ptr error;
      try {
        const Autocast as_there(types_);
        task_(i);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      errors_[static_cast<std::size_t>(i)] = error;
      if (--running_ == 0) done_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_, done_;
  std::function<void(int)> task_;
  AutocastTypes types_;  // of the thread that calls run
  std::uint64_t round_ = 0;
  int running_ = 0;
  bool stop_ = false;
  std::vector<std::exception_ptr> errors_;
  std::vector<std::thread> threads_;
  HomeProcess home_;
};

ReproducibleDataParallel::ReproducibleDataParallel(nn::AnyModule& model,
                                                   std::shared_ptr<Communicator> comm,
                                                   ReproducibleOptions options)
    : model_(model),
      comm_(std::move(comm)),
      options_(options),
      known_(model, "ReproducibleDataParallel") {
  require(comm_ != nullptr, "ReproducibleDataParallel: the communicator is null");
  const int ranks = comm_->world_size();
  comm_->agree("the number of shards", std::to_string(options_.shards));
  require<CommError>(is_power_of_two(options_.shards) && is_power_of_two(ranks),
                     "reproducible training: ", options_.shards, " shards on ", ranks,
                     ranks == 1 ? " rank" : " ranks", "; both must be powers of two");
  require<CommError>(ranks <= options_.shards, "reproducible training: ", options_.shards,
                     " shards are too few for ", ranks, " ranks");
  check_same_model(model_, *comm_);
  broadcast_model(model_, *comm_);
  std::map<const TensorImpl*, std::string> names;
  for (const auto& [name, parameter] : model_.named_parameters()) {
    require<DeviceError>(parameter.device().is_cpu(), "reproducible training is for the CPU, but ",
                         name, " is on ", parameter.device());
    names[parameter.impl_ptr().get()] = name;
  }
  for (const auto& [name, module] : model_.named_modules()) {
    const auto* norm = dynamic_cast<const nn::BatchNorm*>(module);
    require<CommError>(norm == nullptr || !norm->sum_over_ranks, "reproducible training: ", name,
                       " is a SyncBatchNorm, whose statistics depend on the ranks");
  }
  members_ = members_of(model_);
  for (const Tensor& p : members_.parameters) names_.push_back(names[p.impl_ptr().get()]);
  lay_out();
  const int threads = options_.threads > 0 ? options_.threads : omp_get_max_threads();
  team_ = std::make_unique<Team>(std::min(threads, options_.shards / ranks));
}

ReproducibleDataParallel::~ReproducibleDataParallel() = default;

/// Lays out the memory for the sums: for each dtype the gradients, then the floating-point buffers.
void ReproducibleDataParallel::lay_out() {
  shards_.resize(static_cast<std::size_t>(options_.shards / comm_->world_size()));
  losses_.resize(static_cast<std::size_t>(options_.shards));
  for (Shard& shard : shards_) {
    for (const Tensor& p : members_.parameters)
      shard.members.parameters.push_back(p.detach().requires_grad_(p.requires_grad()));
    for (const Tensor& b : members_.buffers) shard.members.buffers.push_back(b.clone());
    shard.slots.resize(members_.parameters.size());
    shard.buffers.resize(members_.buffers.size());
  }
  for (DType dtype : {f32, f64, bf16, f16}) {
    std::int64_t numel = 0;
    auto count = [&](const Tensor& x) { return x.dtype() == dtype ? x.numel() : 0; };
    for (const Tensor& p : members_.parameters) numel += p.requires_grad() ? count(p) : 0;
    for (const Tensor& b : members_.buffers) numel += count(b);
    if (numel == 0) continue;
    ShardSums sums{.dtype = dtype, .of_shard = {}};
    for (Shard& shard : shards_) {
      const Tensor flat = zeros({numel}, {.dtype = dtype});
      sums.of_shard.push_back(flat);
      std::int64_t offset = 0;
      auto place = [&](const Tensor& like) {
        const std::int64_t at = offset;
        offset += like.numel();
        return Tensor::over(flat.storage(), at, like.shape(), like.strides(), dtype);
      };
      for (std::size_t i = 0; i < members_.parameters.size(); ++i) {
        const Tensor& p = shard.members.parameters[i];
        if (!p.requires_grad() || p.dtype() != dtype) continue;
        shard.slots[i] = place(p);
        set_grad_slot(p, shard.slots[i]);
      }
      for (std::size_t i = 0; i < members_.buffers.size(); ++i) {
        if (members_.buffers[i].dtype() == dtype) shard.buffers[i] = place(members_.buffers[i]);
      }
    }
    sums_.push_back(std::move(sums));
  }
  loss_sums_ = {.dtype = f64, .of_shard = {}};
  for (std::size_t i = 0; i < shards_.size(); ++i)
    loss_sums_.of_shard.push_back(zeros({options_.shards}, {.dtype = f64}));
}

void ReproducibleDataParallel::compute(Shard& shard, std::size_t index,
                                       const nn::AnyModule& replica, const Tensor& input,
                                       const Tensor& target, const Criterion& criterion,
                                       const Scaled& scaled, std::uint64_t first_stream) {
  const Generator::Replayable own_numbers(&first_stream);
  nn::AnyModule model = replica;
  const Tensor output = model(input);
  const Tensor loss = criterion ? criterion(output, target) : cross_entropy(output, target);
  (scaled ? scaled(loss) : loss).backward();
  nn::detail::require_all_shown("reproducible training");
  NoGradGuard no_grad;
  for (std::size_t i = 0; i < shard.slots.size(); ++i)
    require<CommError>(!shard.slots[i].defined() || shard.members.parameters[i].grad().defined(),
                       "reproducible training: backward did not reach ", names_[i],
                       "; every parameter must take part in the loss, or be frozen "
                       "(requires_grad_(false)) before ReproducibleDataParallel is made");
  for (std::size_t i = 0; i < shard.buffers.size(); ++i) {
    if (shard.buffers[i].defined()) shard.buffers[i].copy_(shard.members.buffers[i]);
  }
  const std::size_t mine = static_cast<std::size_t>(comm_->rank()) * shards_.size() + index;
  const Tensor& losses = loss_sums_.of_shard[index];
  losses.zero_();
  losses.data_ptr<double>()[mine] = loss.item<double>();
}

double ReproducibleDataParallel::backward(const Tensor& input, const Tensor& target,
                                          const Criterion& criterion, const Scaled& scaled) {
  const std::int64_t count = std::ssize(shards_);
  const std::int64_t rows = input.dim() > 0 ? input.size(0) : 0;
  require<ShapeError>(rows > 0 && rows % count == 0, "reproducible training: the ", rows,
                      " rows of a batch of ", input.shape(), " cannot be divided among the ", count,
                      " shards of rank ", comm_->rank_in_world());
  require<ShapeError>(target.dim() > 0 && target.size(0) == rows, "reproducible training: ", rows,
                      " inputs and targets of ", target.shape());
  known_.check_same(comm_->rank_in_world());
  known_.check_trained(comm_->rank_in_world());
  std::vector<nn::AnyModule> replicas;
  for (Shard& shard : shards_) {
    NoGradGuard no_grad;
    for (const Tensor& p : shard.members.parameters) p.zero_grad();
    for (std::size_t i = 0; i < members_.buffers.size(); ++i)
      shard.members.buffers[i].copy_(members_.buffers[i]);
    replicas.push_back(replica_of(model_, members_, shard.members));
  }
  const Generator::State random = default_generator().state();
  const std::uint64_t first = static_cast<std::uint64_t>(comm_->rank() * count);
  // Each shard has a replica of the model, but all shards share a tensor that `visit` does not
  // show. So one thread computes until a backward has checked that `visit` shows all tensors.
  const int threads = is_checked_ ? team_->size() : 1;
  team_->run([&](int thread) {
    for (std::int64_t i = thread; thread < threads && i < count; i += threads) {
      const auto index = static_cast<std::size_t>(i);
      const std::uint64_t stream =
          random.next_stream + (first + static_cast<std::uint64_t>(i)) * streams_per_shard;
      compute(shards_[index], index, replicas[index],
              input.narrow(0, i * (rows / count), rows / count),
              target.narrow(0, i * (rows / count), rows / count), criterion, scaled, stream);
    }
  });
  is_checked_ = true;
  default_generator().set_state(
      {random.seed,
       random.next_stream + static_cast<std::uint64_t>(options_.shards) * streams_per_shard});

  NoGradGuard no_grad;
  for (const ShardSums& sums : sums_) add_up(sums);
  add_up(loss_sums_);
  hand_over();
  losses_ = loss_sums_.of_shard[0].to_vector<double>();
  double sum = 0;
  for (double& loss : losses_) sum += loss *= options_.shards;  // add_up has already divided
  return sum / options_.shards;
}

// The tree of Note [Shards]: first within the rank, then over the ranks. The result must not depend
// on how many levels of the tree are within a rank. Therefore 16-bit floats are summed in f32
// within the rank, too, as they are between ranks (dist/collectives/sums.h).
void ReproducibleDataParallel::add_up(const ShardSums& sums) {
  Tensors of_shard = sums.of_shard;
  if (Sums::are_wide(sums.dtype, ReduceOp::sum)) {
    for (Tensor& shard : of_shard) shard = shard.to(f32);
  }
  const std::size_t count = of_shard.size();
  for (std::size_t step = 1; step < count; step *= 2) {
    for (std::size_t i = 0; i + step < count; i += 2 * step) of_shard[i].add_(of_shard[i + step]);
  }
  const Tensor& sum = of_shard[0];
  if (comm_->world_size() > 1) {
    const bool is_small = sum.nbytes() <= 64 << 10;  // both algorithms add along the same tree
    comm_
        ->all_reduce_async(sum, ReduceOp::sum,
                           is_small ? AllReduce::recursive_doubling : AllReduce::halving_doubling)
        .wait();
  }
  scale(sum, 1.0 / options_.shards);
  if (sum.dtype() != sums.dtype) sums.of_shard[0].copy_(sum);
}

/// The model's gradients and buffers become the means, which are in the memory of the first shard.
void ReproducibleDataParallel::hand_over() {
  const Shard& means = shards_[0];
  for (std::size_t i = 0; i < means.slots.size(); ++i) {
    if (!means.slots[i].defined()) continue;
    means.slots[i].bump_version();
    members_.parameters[i].set_grad(means.slots[i]);
  }
  for (std::size_t i = 0; i < means.buffers.size(); ++i)
    members_.buffers[i].copy_(means.buffers[i].defined() ? means.buffers[i]
                                                         : means.members.buffers[i]);
}

}  // namespace rondo::dist
