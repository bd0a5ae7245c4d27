#pragma once
// checkpoint: saves memory at the cost of time. The intermediate results of a part of a model are
// not kept for backward; backward runs that part again. As torch.utils.checkpoint with
// use_reentrant=False.
//
//   y = checkpoint(block, x);
//   y = checkpoint([&](const Tensor& x, const Tensor& mask) { return block(x, mask); }, x, mask);
//
// Note [Checkpoints]
// f runs as usual, and its ops are recorded as usual, so gradients, hooks and grad() see no
// difference. But while f runs, the tensors that nodes save (SavedTensor) are not held; each one
// only gets a number. When the first node of the part asks for its tensors in backward, f runs once
// more, on a tape that is discarded. This time the tensors saved under those numbers are held until
// the nodes have used them. So a chain of n parts holds their n inputs and the intermediate results
// of one part, and costs one more forward: about a third more time.
//
// The second run must do what the first did. It draws the same random numbers from
// default_generator and runs under the same autocast. Batch norms do not update their running
// statistics in it. Everything else that f reads must be unchanged. backward throws if a parameter
// or an input was overwritten, as it does without checkpoint, and if the second run saves other
// shapes or another number of tensors.
//
// f and everything it refers to must live until backward. f itself must not run a backward through
// what it computes. If f draws random numbers, no other thread should draw from default_generator
// during that backward. Values that nodes keep outside SavedTensors (a mean for each channel, a
// target) stay in memory.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "autograd/each_tensor.h"
#include "autograd/grad_mode.h"
#include "tensor/tensor.h"

namespace rondo {

/// f(inputs); backward computes its intermediate results again. Checkpoints nest. Throws what f
/// throws. backward also throws what f throws, and AutogradError if the second run differs from the
/// first.
Tensors checkpoint(std::function<Tensors(const Tensors&)> f, const Tensors& inputs);

/// The same for any arguments and results (autograd/each_tensor.h). Backward uses a module where it
/// is, and a copy of any other function.
template <class F, class... Args>
auto checkpoint(F&& f, const Args&... args) {
  using Function = std::remove_cvref_t<F>;
  using Result = std::decay_t<std::invoke_result_t<Function&, Args&...>>;
  static_assert(!std::is_polymorphic_v<Function> || std::is_lvalue_reference_v<F>,
                "checkpoint: the module must live until backward");
  if (!GradMode::is_enabled()) return Result(f(args...));
  // For backward, only inputs of the checkpoint hold tensors.
  std::tuple<Args...> others(args...);
  const Tensors inputs = tensors_of(others);
  put_tensors(others, Tensors(inputs.size()));
  using Stored = std::conditional_t<std::is_polymorphic_v<Function>, Function&, Function>;
  const auto result = std::make_shared<std::optional<Result>>();
  checkpoint(std::function<Tensors(const Tensors&)>(
                 [stored = std::tuple<Stored>(std::forward<F>(f)), others,
                  first = std::weak_ptr(result)](const Tensors& tensors) mutable {
                   std::tuple<Args...> now = others;
                   put_tensors(now, tensors);
                   Result found = std::apply(std::get<0>(stored), now);
                   Tensors outputs = tensors_of(found);
                   if (const auto place = first.lock()) place->emplace(std::move(found));
                   return outputs;
                 }),
             inputs);
  return std::move(**result);
}

/// True while a checkpoint runs its function a second time. Code that counts or updates statistics
/// must skip that run.
bool is_recomputing();

class CheckpointedPart;

/// The number of a SavedTensor in the checkpoint that it was saved in.
class CheckpointEntry {
 public:
  CheckpointEntry() = default;
  /// If a checkpoint runs on this thread, numbers x; in a second run also keeps x.
  static CheckpointEntry save(const Tensor& x);
  explicit operator bool() const { return part_ != nullptr; }

  struct Kept {
    Tensor tensor;  // without a place on the tape
    std::uint64_t version;
  };
  /// What the second run has saved under this number. Starts the second run if it has not happened
  /// yet.
  Kept restore() const;
  /// Drops the kept tensor; the node no longer needs it.
  void drop();

 private:
  std::shared_ptr<CheckpointedPart> part_;
  std::size_t index_ = 0;
};

}  // namespace rondo
