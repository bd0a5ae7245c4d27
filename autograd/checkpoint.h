#pragma once
// checkpoint: memory for time. What a part of a model computes on its way is not kept for backward,
// which runs that part again. As torch.utils.checkpoint with use_reentrant=False.
//
//   y = checkpoint([&](const Tensor& x) { return block(x); }, x);
//
// Note [Checkpoints]
// f runs as it would, and its ops are on the tape as they would be: gradients, hooks and grad()
// know no difference. But while f runs, what nodes save (SavedTensor) is not held; each saving gets
// a number. The first node of the part that asks for its tensors in backward has f run once more,
// on a tape that is thrown away, and this time what is saved under those numbers is held, until the
// nodes have used it. So a chain of n parts holds their n inputs and the inside of one, for one
// more forward: about a third more time.
//
// The second run must do what the first did. It draws the same random numbers (of
// default_generator), runs under the same autocast, and batch norms do not count it among their
// running statistics. What else f reads must not have changed; a parameter or an input that was
// overwritten is an error, as without checkpoint, and so is a second run that saves other shapes or
// another number of tensors. f and what it refers to must live until backward, f itself may not run
// a backward through what it computes, and where it draws random numbers no other thread should
// draw from default_generator during that backward. What nodes keep
// beside saved tensors (a mean for each channel, a target) stays.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tensor/tensor.h"

namespace rondo {

/// f(inputs), whose intermediate results are computed again in backward. Checkpoints nest. Throws
/// what f throws; so does backward, and AutogradError where the second run differs.
Tensors checkpoint(std::function<Tensors(const Tensors&)> f, const Tensors& inputs);
Tensor checkpoint(std::function<Tensor(const Tensor&)> f, const Tensor& x);

/// True while a checkpoint runs its function a second time: what is counted was counted.
bool is_recomputing();

class CheckpointedPart;

/// SavedTensor's place in the checkpoint that it was saved in.
class CheckpointSlot {
 public:
  CheckpointSlot() = default;
  /// Where a checkpoint is running on this thread: x is counted, and in a second run kept.
  static CheckpointSlot save(const Tensor& x);
  explicit operator bool() const { return part_ != nullptr; }

  struct Kept {
    Tensor tensor;  // without a place on the tape
    std::uint64_t version;
  };
  /// What the second run, now or earlier, has saved here.
  Kept restore() const;
  /// It is not wanted any more.
  void drop();

 private:
  std::shared_ptr<CheckpointedPart> part_;
  std::size_t index_ = 0;
};

}  // namespace rondo
