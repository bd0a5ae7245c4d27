// How the ranks make sure that they mean the same collective of their GPUs.
//
// NCCL compares nothing: ranks that call different things hang, or compute with each other's bytes.
// So each collective is compared on the host as those of the CPU are (dist/collectives/checked.h),
// by name, operation, dtype, shape and root. The background thread does that: neither the program
// nor the GPU waits for it. Where the ranks do not mean the same, or one has ended, or does not
// come, the GPU's work is given up, whose kernels would never end, and the next call or wait on
// each rank says why. Until then a rank may have gone on with numbers that are none. With
// CommunicatorOptions::check_collectives it cannot: there Work::wait keeps the host until all ranks
// have told each other what they mean.
//
// So it is always with an exchange (gather, scatter, all_to_all, an all_gather of uneven parts),
// which is rare and whose parts only the two who exchange them know: every rank tells every other
// its root, where its tensors are, and what goes between the two. NCCL is asked meanwhile.

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

/// Work that two others make up.
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

void AllMeant::check(const Communicator& comm) const {
  int on_cpu = -1, on_gpu = -1;
  for (int r = 0; r < std::ssize(theirs); ++r) {
    const Meant& meant = theirs[static_cast<std::size_t>(r)];
    require<CommError>(meant.signature == theirs[0].signature, "rank ", comm.rank_in_world(r),
                       " calls ", text_of(meant.signature), " where rank ", comm.rank_in_world(0),
                       " calls ", text_of(theirs[0].signature));
    if (meant.where == Meant::cpu) on_cpu = r;
    if (meant.where == Meant::gpu) on_gpu = r;
  }
  if (on_cpu >= 0 && on_gpu >= 0)
    throw CommError(concat("rank ", comm.rank_in_world(on_cpu), "'s tensors are on the CPU where ",
                           "rank ", comm.rank_in_world(on_gpu), "'s are on its GPU"));
  const int own = comm.rank_in_world();
  for (int r = 0; r < std::ssize(theirs); ++r) {
    const Meant &me = mine[static_cast<std::size_t>(r)], &it = theirs[static_cast<std::size_t>(r)];
    if (r == comm.rank()) continue;
    check_part(comm.rank_in_world(r), own, it.sent, me.wanted);
    check_part(own, comm.rank_in_world(r), me.sent, it.wanted);
  }
}

Work Communicator::compare(const Signature& signature, const std::shared_ptr<AllMeant>& all) {
  const auto n = static_cast<std::size_t>(world_size_), me = static_cast<std::size_t>(rank_);
  all->theirs.resize(n);
  all->theirs[me] = all->mine[me];
  auto parcels = std::make_shared<std::vector<Parcel>>(n);
  for (std::size_t r = 0; r < n; ++r)
    (*parcels)[r] = {.send = &all->mine[r],
                     .send_bytes = sizeof(Meant),
                     .recv = &all->theirs[r],
                     .recv_bytes = sizeof(Meant)};
  const std::string name = title(signature.name, signature.sequence);
  return start(
      {.name = name,
       .begin = [=, this](Scratch&) { return exchange(*transport_, parcels, tag_of_comparisons); },
       .finish =
           [=, this, gpu = gpu_] {
             try {
               all->check(*this);
             } catch (const CommError& e) {
               gpu->give_up(concat("rank ", rank_in_world(), ": ", name, " failed: ", e.what()));
               throw;
             }
           },
       .keep =
           std::make_shared<std::pair<std::shared_ptr<AllMeant>, decltype(parcels)>>(all, parcels),
       .is_checked = true});
}

const char* Communicator::comparison() const {
  return options_.check_collectives ? "before wait returns (RONDO_CHECK_COLLECTIVES=1)"
         : has_background_thread_   ? "in the background"
                                    : "if the host waits for them (no background thread)";
}

// In a queue with what the CPU's tensors do. Where nobody but the program polls it, there is none.
void Communicator::compare_beside(const Signature& signature) {
  if (options_.check_collectives || !has_background_thread_) return;
  const auto give_up = [weak = std::weak_ptr(gpu_)](const std::string& why) {
    if (const auto gpu = weak.lock()) gpu->give_up(why);
  };
  last_comparison_ = start({.name = title(signature.name, signature.sequence),
                            .begin = [](Scratch&) { return nullptr; },
                            .failed = give_up,
                            .signature = signature,
                            .is_recorded = false});
}

// At the end. The others may be some collectives behind, and would wait for this rank's word on the
// last ones. Where all is lost they need it no more.
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
  // Others' tensors may be on the CPU.
  if (signature.way < 0) signature.way = static_cast<std::int8_t>(AllReduce::nccl);
  if (!options_.check_collectives) {
    compare_beside(signature);
    return put();
  }
  auto all = std::make_shared<AllMeant>();
  all->mine.assign(static_cast<std::size_t>(world_size_), {.signature = signature});
  Work comparison = compare(signature, all);
  return Work(std::make_shared<BothWorks>(std::move(comparison), put()));
}

// A rank that has nothing for anybody, nor wants anything, does not know whether the others'
// tensors are on the CPU, where it takes part in an exchange, or on GPUs, where NCCL needs only
// those who have something. Once it has heard them it does.
Work Communicator::compared_exchange(const Signature& signature, const Tensors& from,
                                     const Tensors& to, int root, const Tensor& any) {
  const Meant::Where where = !any.defined()          ? Meant::nowhere
                             : any.device().is_cpu() ? Meant::cpu
                                                     : Meant::gpu;
  auto all = std::make_shared<AllMeant>();
  compare_beside(signature);  // others may mean no exchange at all
  for (std::size_t r = 0; r < to.size(); ++r)
    all->mine.push_back({signature, contents_of(to[r]), contents_of(from[r]), where});
  if (where == Meant::gpu) {
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
  if (where == Meant::nowhere) {
    job.begin = [all, begin = std::move(job.begin)](Scratch& scratch) {
      return all->is_on(Meant::cpu) ? begin(scratch) : nullptr;
    };
  }
  return Work(std::make_shared<BothWorks>(std::move(comparison), start(std::move(job))));
}

}  // namespace rondo::dist
