#pragma once
// HostCollectives: runs a communicator's collectives on tensors of the CPU. It decides how a
// collective runs (in the ranks' shared memory, by an algorithm over messages, by MPI's own), and
// makes the operation that Progress polls. Private to dist.
//
// Where to read: host_collectives.cpp (start; reduce, broadcast, barrier), all_reduce.cpp,
// gather_scatter.cpp, exchanges.cpp, messages.cpp.

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "dist/collectives/collective.h"
#include "dist/collectives/communicator_options.h"
#include "dist/collectives/progress.h"

namespace rondo::dist {

class Communicator;
class NodeMemory;
class Tuner;
struct InPlace;

class HostCollectives final : public CollectiveEngine {
 public:
  HostCollectives(std::shared_ptr<Transport> transport, CommunicatorOptions options,
                  std::shared_ptr<FlightRecorder> recorder);
  ~HostCollectives() override;
  /// Ends all work under way (Progress::close).
  void close() { progress_->close(); }

  void check(const Collective& c) const override;
  Work start(Collective&& c, bool waits = false) override;

  // `start` in two steps, for engines of GPUs: they may change the work in between, or submit work
  // that is not a collective of CPU tensors.

  /// The work of a collective, with its record. `is_compared`: the ranks have already verified that
  /// they call the same.
  std::shared_ptr<WorkState> prepare(Collective&& c, bool is_compared = false);
  /// `wake`: see Progress::submit.
  Work submit(std::shared_ptr<WorkState> work, bool wake = true);
  /// begin, after all ranks have verified that their signatures are equal.
  Begin compared(const Signature& signature, Begin begin) const;

  const std::shared_ptr<Transport>& transport() const { return transport_; }
  const CommunicatorOptions& options() const { return options_; }
  void set_node_of(std::vector<int> node_of);
  bool has_background_thread() const { return has_background_thread_; }
  Progress& progress() { return *progress_; }
  /// What the ranks share; null if they share no memory.
  const std::shared_ptr<NodeMemory>& memory() const { return memory_; }
  void set_memory(std::shared_ptr<NodeMemory> memory) { memory_ = std::move(memory); }
  /// Communicator::tune.
  void tune(Communicator& comm, std::size_t bytes);

 private:
  using Call = std::shared_ptr<const Collective>;
  using Kind = Collective::Kind;

  bool run_now(const Collective& c);
  Begin begin_of(const Call& c, WorkState& work);
  // Each returns what begins the operation, and may set work.finish.
  Begin all_reduce(const Call& c, WorkState& work);
  Begin reduce(const Call& c, WorkState& work);
  Begin broadcast(const Call& c);
  Begin all_gather(const Call& c);
  Begin reduce_scatter(const Call& c, WorkState& work);
  Begin exchange(const Call& c);
  Begin barrier(const Call& c);
  Begin message(const Call& c);

  bool is_in_memory(const Collective& c) const;
  std::unique_ptr<Operation> all_reduce_in(NodeMemory& memory, const Collective& c,
                                           ChunkBuffer& scratch) const;
  AllReduce choose(const Collective& c) const;
  std::unique_ptr<Operation> all_reduce_by(AllReduce algorithm, ChunkBuffer& scratch, void* data,
                                           DType dtype, const Collective& c) const;
  InPlace in_place(const Collective& c, const Tensor& x,
                   std::function<std::unique_ptr<Operation>()> otherwise) const;
  RingOptions ring_of(const Collective& c) const;

  std::shared_ptr<Transport> transport_;
  CommunicatorOptions options_;
  int rank_, world_size_;
  std::shared_ptr<FlightRecorder> recorder_;
  bool has_background_thread_;
  std::shared_ptr<Progress> progress_;
  std::shared_ptr<NodeMemory> memory_;
  std::unique_ptr<Tuner> tuner_;
  bool has_levels_ = false;  // set_node_of: sums of 16-bit floats should use `hierarchical`
};

}  // namespace rondo::dist
