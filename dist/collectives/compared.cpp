// How the ranks verify that they all call the same collective on their GPUs.
//
// NCCL does not compare anything: ranks that call different collectives hang, or compute with
// invalid data. Therefore the ranks compare each collective on the host, as they do for CPU tensors
// (dist/collectives/checked.h): name, operation, dtype, shape and root. The background thread does
// this; neither the program nor the GPU waits for it. If the ranks call different collectives, or a
// rank has ended or does not call it, the GPU's work is given up, since its kernels would never
// end. The next call or wait on each rank then throws the reason. Until then a rank may compute
// with invalid results. CommunicatorOptions::check_collectives prevents this: Work::wait then
// blocks the host until all ranks have told each other what they call.
//
// An exchange (gather, scatter, all_to_all, an all_gather of uneven parts) always works in this
// way. It is rare, and only sender and receiver know the parts that they exchange. So every rank
// tells every other rank its root, where its tensors are, and what it sends and receives. NCCL is
// called meanwhile.

#include "dist/collectives/compared.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>

#include "dist/collectives/communicator.h"
#include "dist/collectives/device_collectives.h"
#include "dist/collectives/message_tags.h"
#include "tensor/error.h"
#include "tensor/printable.h"

namespace rondo::dist {
namespace {

void check_part(int from, int to, const Contents& sent, const Contents& wanted) {
  require<CommError>(sent.suits(wanted), "rank ", from, " sends ", text_of(sent), " where rank ",
                     to, " wants ", text_of(wanted));
}

/// Combines a comparison with the collective that it compares.
class BothWorks final : public Pending {
 public:
  BothWorks(Work comparison, Work work)
      : comparison_(std::move(comparison)), work_(std::move(work)) {}
  bool test() override { return comparison_.test() && work_.test(); }
  void wait(std::optional<std::chrono::nanoseconds> timeout) override {
    const auto begin = Clock::now();
    comparison_.wait(timeout);
    if (timeout)
      *timeout = std::max(*timeout - (Clock::now() - begin), std::chrono::nanoseconds(0));
    work_.wait(timeout);
  }
  Clock::time_point issued() const override { return work_.issued(); }
  Clock::time_point started() const override { return work_.started(); }
  Clock::time_point finished() const override { return work_.finished(); }
  std::string name() const override { return work_.name(); }

 private:
  Work comparison_, work_;
};

}  // namespace

void AllCallSummaries::check(const Communicator& comm) const {
  int on_cpu = -1, on_gpu = -1;
  for (int r = 0; r < std::ssize(theirs); ++r) {
    const CallSummary& meant = theirs[static_cast<std::size_t>(r)];
    require<CommError>(meant.signature == theirs[0].signature, "rank ", comm.rank_in_world(r),
                       " calls ", text_of(meant.signature), " where rank ", comm.rank_in_world(0),
                       " calls ", text_of(theirs[0].signature));
    if (meant.where == CallSummary::cpu) on_cpu = r;
    if (meant.where == CallSummary::gpu) on_gpu = r;
  }
  if (on_cpu >= 0 && on_gpu >= 0)
    throw CommError(concat("rank ", comm.rank_in_world(on_cpu), "'s tensors are on the CPU where ",
                           "rank ", comm.rank_in_world(on_gpu), "'s are on its GPU"));
  const int own = comm.rank_in_world();
  for (int r = 0; r < std::ssize(theirs); ++r) {
    const CallSummary &me = mine[static_cast<std::size_t>(r)],
                      &it = theirs[static_cast<std::size_t>(r)];
    if (r == comm.rank()) continue;
    check_part(comm.rank_in_world(r), own, it.sent, me.wanted);
    check_part(own, comm.rank_in_world(r), me.sent, it.wanted);
  }
}

Work Communicator::compare(const Signature& signature,
                           const std::shared_ptr<AllCallSummaries>& all) {
  const auto n = static_cast<std::size_t>(world_size_), me = static_cast<std::size_t>(rank_);
  all->theirs.resize(n);
  all->theirs[me] = all->mine[me];
  auto parcels = std::make_shared<std::vector<Parcel>>(n);
  for (std::size_t r = 0; r < n; ++r)
    (*parcels)[r] = {.send = &all->mine[r],
                     .send_bytes = sizeof(CallSummary),
                     .recv = &all->theirs[r],
                     .recv_bytes = sizeof(CallSummary)};
  const std::string name = title(signature.name, signature.sequence);
  return start(
      {.name = name,
       .begin = [=,
                 this](ChunkBuffer&) { return exchange(*transport_, parcels, tag_of_comparisons); },
       .finish =
           [=, this, gpu = gpu_] {
             try {
               all->check(*this);
             } catch (const CommError& e) {
               gpu->give_up(concat("rank ", rank_in_world(), ": ", name, " failed: ", e.what()));
               throw;
             }
           },
       .keep = std::make_shared<std::pair<std::shared_ptr<AllCallSummaries>, decltype(parcels)>>(
           all, parcels),
       .is_checked = true});
}

const char* Communicator::comparison() const {
  return options_.check_collectives ? "before wait returns (RONDO_CHECK_COLLECTIVES=1)"
         : has_background_thread_   ? "in the background"
                                    : "if the host waits for them (no background thread)";
}

// The comparison is queued with the collectives of CPU tensors. Without a background thread to poll
// it, nothing is compared.
void Communicator::compare_beside(const Signature& signature) {
  if (options_.check_collectives || !has_background_thread_) return;
  const auto give_up = [weak = std::weak_ptr(gpu_)](const std::string& why) {
    if (const auto gpu = weak.lock()) gpu->give_up(why);
  };
  last_comparison_ = start({.name = title(signature.name, signature.sequence),
                            .begin = [](ChunkBuffer&) { return nullptr; },
                            .failed = give_up,
                            .signature = signature,
                            .is_recorded = false});
}

// Called at the end. The other ranks may be some collectives behind, and then wait for this rank's
// signatures of the last ones. After a failure they no longer need them.
void Communicator::finish_comparisons() noexcept {
  if (std::uncaught_exceptions() > 0 || gpu_ == nullptr || gpu_->has_failed()) return;
  try {
    last_comparison_.wait();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "warning: %s\n", printable(e.what(), "\n").c_str());
  }
}

Work Communicator::compared(Signature signature, const std::function<Work()>& put) {
  if (gpu_->is_by_way_of_host()) return put();
  // The tensors of other ranks may be on the CPU.
  if (signature.algorithm < 0) signature.algorithm = static_cast<std::int8_t>(AllReduce::nccl);
  if (!options_.check_collectives) {
    compare_beside(signature);
    return put();
  }
  auto all = std::make_shared<AllCallSummaries>();
  all->mine.assign(static_cast<std::size_t>(world_size_), {.signature = signature});
  Work comparison = compare(signature, all);
  return Work(std::make_shared<BothWorks>(std::move(comparison), put()));
}

// A rank that neither sends nor receives anything does not know where the other ranks' tensors are.
// On the CPU it takes part in the exchange; on GPUs NCCL needs only the ranks that have data. It
// knows once the others have told it.
Work Communicator::compared_exchange(const Signature& signature, const Tensors& from,
                                     const Tensors& to, int root, const Tensor& any) {
  const CallSummary::Where where = !any.defined()          ? CallSummary::nowhere
                                   : any.device().is_cpu() ? CallSummary::cpu
                                                           : CallSummary::gpu;
  auto all = std::make_shared<AllCallSummaries>();
  compare_beside(signature);  // others may call something other than an exchange
  for (std::size_t r = 0; r < to.size(); ++r)
    all->mine.push_back({signature, contents_of(to[r]), contents_of(from[r]), where});
  if (where == CallSummary::gpu) {
    DeviceCall call = next_call(signature);
    Work comparison = compare(signature, all);
    return Work(std::make_shared<BothWorks>(std::move(comparison),
                                            gpu_->exchange(std::move(call), from, to, root)));
  }
  std::string name = title(signature.name);
  Work comparison = compare(signature, all);
  Job job = exchange_job(signature.name, from, to, root);
  job.name = std::move(name);
  job.is_checked = true;
  if (where == CallSummary::nowhere) {
    job.begin = [all, begin = std::move(job.begin)](ChunkBuffer& scratch) {
      return all->is_on(CallSummary::cpu) ? begin(scratch) : nullptr;
    };
  }
  return Work(std::make_shared<BothWorks>(std::move(comparison), start(std::move(job))));
}

}  // namespace rondo::dist
