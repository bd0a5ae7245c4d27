#include "dist/data_parallel/zero.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduce.h"
#include "dist/collectives/dense.h"
#include "tensor/creation.h"
#include "tensor/error.h"

namespace rondo::dist {

/// Reduces each bucket to this rank's part of it.
class ZeroSharding::Hook final : public CommHook {
 public:
  const char* name() const override { return "zero"; }

  void prepare(const std::vector<GradBucket>& buckets, Communicator& comm) override {
    NoGradGuard no_grad;
    for (const GradBucket& bucket : buckets) shards_.push_back(make_shard(bucket, comm));
  }
  std::vector<Work> start(int, const GradBucket& bucket, Communicator& comm) override {
    Shard& shard = shards_[bucket.index];
    // If the gradients of an earlier backward are still there, this one adds to them.
    shard.adds = shard.is_before_step && std::ranges::any_of(shard.pieces, [](const Piece& piece) {
                   return piece.tensor.grad().defined();
                 });
    if (shard.adds && !shard.arrived.defined()) shard.arrived = Tensor::empty_like(shard.gradients);
    return {reduce_scatter(comm, shard.adds ? shard.arrived : shard.gradients, bucket.padded)};
  }
  void finish(const GradBucket& bucket, Communicator&) override {
    Shard& shard = shards_[bucket.index];
    if (shard.adds) {
      for (const Piece& piece : shard.pieces)
        if (!piece.tensor.grad().defined()) piece.gradient.zero_();
      shard.gradients.add_(shard.arrived);
    }
    shard.is_before_step = true;
    for (const Piece& piece : shard.pieces) piece.tensor.set_grad(piece.gradient);
    // The slots hold only this rank's values, which must not be used as gradients.
    for (const auto& slice : bucket.slices) slice.parameter.tensor.zero_grad();
  }

  void drop_step() override {
    for (Shard& shard : shards_) {
      shard.is_before_step = false;
      for (const Piece& piece : shard.pieces) piece.tensor.zero_grad();
    }
  }

  std::vector<nn::NamedTensor> pieces() const {
    std::vector<nn::NamedTensor> all;
    for (const Shard& shard : shards_) {
      for (const Piece& piece : shard.pieces) all.push_back({piece.name, piece.tensor});
    }
    return all;
  }

  /// This rank's pieces of a parameter; empty if it is not one of DDP's parameters.
  std::optional<Tensors> pieces_of(const Tensor& parameter) const {
    const TensorImpl* wanted = &parameter.impl();
    for (const Shard& shard : shards_) {
      const auto is_it = [&](const Tensor& p) { return &p.impl() == wanted; };
      if (std::ranges::none_of(shard.views, is_it)) continue;
      Tensors found;
      for (const Piece& piece : shard.pieces) {
        if (is_it(piece.parameter)) found.push_back(piece.tensor);
      }
      return found;
    }
    return {};
  }

  /// An optimizer has pieces, even if none of them is this rank's.
  void set_sharded() { is_sharded_ = true; }

  void gather(Communicator& comm) {
    NoGradGuard no_grad;
    require(is_sharded_ || !waits_for_step() || is_optimized(),
            "ZeroSharding: no optimizer has this rank's pieces of the parameters, so its step has "
            "changed nothing; make it with zero.parameters(), or call zero.shard(optimizer)");
    std::vector<Work> works;
    for (const Shard& shard : shards_)
      works.push_back(all_gather(comm, shard.parameters, shard.own_parameters));
    for (const Work& work : works) work.wait();
    for (Shard& shard : shards_) {
      shard.is_before_step = false;  // the gradients have been used, even if nobody zeroes them
      for (const Tensor& p : shard.views) p.bump_version();
    }
  }

 private:
  bool waits_for_step() const {
    return std::ranges::any_of(shards_, [](const Shard& shard) { return shard.is_before_step; });
  }
  /// Whether anybody else holds a piece, as an optimizer does, or has ever changed one.
  bool is_optimized() const {
    return std::ranges::any_of(shards_, [](const Shard& shard) {
      return std::ranges::any_of(shard.pieces, [](const Piece& piece) {
        return piece.tensor.impl_ptr().use_count() > 1 || piece.tensor.version() > 0;
      });
    });
  }

  struct Piece {
    std::string name;
    Tensor parameter, tensor, gradient;
  };
  struct Shard {
    Tensor parameters;  // of the whole bucket, in the order and with the padding of its gradients
    Tensor own_parameters;  // this rank's part of them
    Tensor gradients;       // averages of this rank's part
    Tensor arrived;  // likewise, of a second backward before a step; undefined until there is one
    bool is_before_step = false, adds = false;  // between backward and step; this backward adds
    std::vector<Piece> pieces;
    Tensors views;  // the model's parameters
  };

  Shard make_shard(const GradBucket& bucket, Communicator& comm) const {
    const Tensor& padded = bucket.padded;
    const std::int64_t part = padded.numel() / comm.world_size(), first = part * comm.rank();
    Shard shard;
    shard.parameters =
        comm.empty({padded.numel()}, {.dtype = padded.dtype(), .device = padded.device()});
    const StoragePtr& memory = shard.parameters.storage();
    shard.parameters.zero_();
    shard.own_parameters = shard.parameters.narrow(0, first, part);
    shard.gradients = zeros({part}, {.dtype = padded.dtype(), .device = padded.device()});
    for (const auto& [offset, shape, parameter] : bucket.slices) {
      const Tensor& p = parameter.tensor;
      const Tensor place = Tensor::over(memory, offset, p.shape(), p.strides(), p.dtype());
      place.copy_(p);
      p.set_data(place);
      shard.views.push_back(p);
      const std::int64_t begin = std::max(offset, first),
                         end = std::min(offset + p.numel(), first + part);
      if (begin >= end) continue;
      const Tensor piece = Tensor::over(memory, begin, {end - begin}, {1}, p.dtype());
      piece.requires_grad_();
      autograd_meta(piece).is_piece = comm.world_size() > 1;
      // Optimizers that need whole parameters recognise a piece by this, also on a single rank.
      piece.impl().is_constant_view = true;
      piece.impl().constant_base = p.impl_ptr();
      shard.pieces.push_back({.name = parameter.name,
                              .parameter = p,
                              .tensor = piece,
                              .gradient = shard.gradients.narrow(0, begin - first, end - begin)});
    }
    return shard;
  }

  std::vector<Shard> shards_;
  bool is_sharded_ = false;
};

ZeroSharding::ZeroSharding(DistributedDataParallel& ddp)
    : hook_(std::make_shared<Hook>()), comm_(ddp.communicator()) {
  require<CommError>(ddp.options().unused == Unused::error && !ddp.options().divide_by_active_ranks,
                     "ZeroSharding: Unused::zeros and divide_by_active_ranks are not supported");
  ddp.register_comm_hook(hook_);
  const std::vector<std::string> counts =
      comm_.all_gather_bytes(std::to_string(hook_->pieces().size()));
  for (std::size_t r = 0; r < counts.size(); ++r)
    require<CommError>(counts[r] != "0", "ZeroSharding: the model is too small: rank ",
                       comm_.rank_in_world(static_cast<int>(r)), " would have no elements");
}

ZeroSharding::~ZeroSharding() = default;

std::vector<nn::NamedTensor> ZeroSharding::named_parameters() const { return hook_->pieces(); }

Tensors ZeroSharding::parameters() const {
  Tensors all;
  for (const auto& named : named_parameters()) all.push_back(named.tensor);
  return all;
}

void ZeroSharding::shard(optim::Optimizer& optimizer) const {
  require(optimizer.is_elementwise(), "ZeroSharding: ", optimizer.type(),
          " needs whole parameters, but ZeRO splits them among the ranks; train without ZeRO, or "
          "with an optimizer that works element by element, such as AdamW");
  const Tensors all = optimizer.parameters();
  for (std::size_t i = 0; i < all.size(); ++i)
    require(!all[i].requires_grad() || hook_->pieces_of(all[i]), "ZeroSharding: parameter ", i,
            " of the optimizer, of shape ", all[i].shape(),
            ", is not a parameter of the model; an optimizer can be sharded only once");
  optimizer.replace_parameters(
      [&](const Tensor& p) { return p.requires_grad() ? *hook_->pieces_of(p) : Tensors{p}; });
  hook_->set_sharded();
}

void ZeroSharding::gather() { hook_->gather(comm_); }

double ZeroSharding::clip_grad_norm(double max_norm) {
  require(max_norm > 0, "clip_grad_norm: max_norm is ", max_norm, ", but must be positive");
  NoGradGuard no_grad;
  const Tensors pieces = parameters();
  double squares = 0;
  for (const Tensor& piece : pieces) {
    if (!piece.grad().defined()) continue;
    const Tensor g = piece.grad().to(f64);
    squares += sum(g * g).item<double>();
  }
  const Device device = pieces.empty() ? Device::cpu() : pieces[0].device();
  const Tensor all = full({1}, squares, {.dtype = f64, .device = device});
  comm_.all_reduce(all);
  const double norm = std::sqrt(all.item<double>());
  const double factor = max_norm / (norm + 1e-6);
  if (factor < 1) {
    for (const Tensor& piece : pieces) {
      if (piece.grad().defined()) scale(piece.grad(), factor);
    }
  }
  return norm;
}

}  // namespace rondo::dist
