#include "dist/collectives/compared.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>
#include <vector>

#include "dist/collectives/algorithms/exchange.h"
#include "dist/collectives/dense.h"
#include "dist/collectives/message_tags.h"
#include "tensor/error.h"
#include "tensor/printable.h"

namespace rondo::dist {
/// What one rank tells another. Sent as raw bytes.
struct CallSummary {
  Signature signature;    // of the collective that it calls
  Contents sent, wanted;  // to and from the other rank, if the collective is an exchange
  enum Where : std::int64_t { nowhere, cpu, gpu } where = nowhere;  // of its tensors
};

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

/// What all ranks have told each other, as this rank knows it.
struct AllCallSummaries {
  std::vector<CallSummary> mine, theirs;  // to and from each rank
  std::vector<Parcel> parcels;            // which carry them
  bool is_on(CallSummary::Where where) const {
    return std::ranges::any_of(theirs, [&](const CallSummary& m) { return m.where == where; });
  }
  /// Throws CommError if the ranks differ. The error is the same on all ranks, unless it is about
  /// the tensors that two of them exchange.
  void check(const Transport& ranks) const;
};

void AllCallSummaries::check(const Transport& ranks) const {
  int on_cpu = -1, on_gpu = -1;
  for (int r = 0; r < std::ssize(theirs); ++r) {
    const CallSummary& meant = theirs[static_cast<std::size_t>(r)];
    require<CommError>(meant.signature == theirs[0].signature, "rank ", ranks.rank_in_world(r),
                       " calls ", text_of(meant.signature), " where rank ", ranks.rank_in_world(0),
                       " calls ", text_of(theirs[0].signature));
    if (meant.where == CallSummary::cpu) on_cpu = r;
    if (meant.where == CallSummary::gpu) on_gpu = r;
  }
  if (on_cpu >= 0 && on_gpu >= 0)
    throw CommError(concat("rank ", ranks.rank_in_world(on_cpu), "'s tensors are on the CPU where ",
                           "rank ", ranks.rank_in_world(on_gpu), "'s are on its GPU"));
  const int own = ranks.rank_in_world(ranks.rank());
  for (int r = 0; r < std::ssize(theirs); ++r) {
    const CallSummary &me = mine[static_cast<std::size_t>(r)],
                      &it = theirs[static_cast<std::size_t>(r)];
    if (r == ranks.rank()) continue;
    check_part(ranks.rank_in_world(r), own, it.sent, me.wanted);
    check_part(own, ranks.rank_in_world(r), me.sent, it.wanted);
  }
}

Work ComparedCollectives::compare(const std::string& title,
                                  const std::shared_ptr<AllCallSummaries>& all) {
  const auto transport = host_.transport();
  const auto n = static_cast<std::size_t>(transport->world_size()),
             me = static_cast<std::size_t>(transport->rank());
  all->theirs.resize(n);
  all->theirs[me] = all->mine[me];
  all->parcels.resize(n);
  for (std::size_t r = 0; r < n; ++r)
    all->parcels[r] = {.send = &all->mine[r],
                       .send_bytes = sizeof(CallSummary),
                       .recv = &all->theirs[r],
                       .recv_bytes = sizeof(CallSummary)};
  auto work = std::make_shared<WorkState>();
  work->label = title;
  work->begin = [=](ChunkBuffer&) {
    return exchange(*transport, {all, &all->parcels}, tag_of_comparisons);
  };
  work->finish = [=, gpu = gpu_] {
    try {
      all->check(*transport);
    } catch (const CommError& e) {
      gpu->give_up(concat("rank ", transport->rank_in_world(transport->rank()), ": ", title,
                          " failed: ", e.what()));
      throw;
    }
  };
  return host_.submit(std::move(work));
}

const char* ComparedCollectives::when(const HostCollectives& host) {
  return host.options().check_collectives ? "before wait returns (RONDO_CHECK_COLLECTIVES=1)"
         : host.has_background_thread()   ? "in the background"
                                          : "if the host waits for them (no background thread)";
}

// The comparison is queued with the collectives of CPU tensors. Without a background thread to poll
// it, nothing is compared.
void ComparedCollectives::compare_in_background(const std::string& title,
                                                const Signature& signature) {
  if (host_.options().check_collectives || !host_.has_background_thread()) return;
  auto work = std::make_shared<WorkState>();
  work->label = title;
  work->begin = host_.compared(signature, [](ChunkBuffer&) { return nullptr; });
  work->failed = [weak = std::weak_ptr(gpu_)](const std::string& why) {
    if (const auto gpu = weak.lock()) gpu->give_up(why);
  };
  last_ = host_.submit(std::move(work));
}

void ComparedCollectives::finish() noexcept {
  if (std::uncaught_exceptions() > 0 || gpu_->has_failed()) return;
  try {
    last_.wait();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "warning: %s\n", printable(e.what(), "\n").c_str());
  }
}

Work ComparedCollectives::start(Collective&& c, bool waits) {
  if (c.is_message()) return gpu_->start(std::move(c), waits);
  if (c.kind == Collective::Kind::exchange) return start_exchange(std::move(c));
  // The tensors of other ranks may be on the CPU.
  Signature signature = c.signature;
  if (signature.algorithm < 0) signature.algorithm = static_cast<std::int8_t>(AllReduce::nccl);
  if (!host_.options().check_collectives) {
    compare_in_background(c.title(), signature);
    return gpu_->start(std::move(c), waits);
  }
  const auto all = std::make_shared<AllCallSummaries>();
  all->mine.assign(static_cast<std::size_t>(host_.transport()->world_size()),
                   {.signature = signature});
  Work comparison = compare(c.title(), all);
  return Work(std::make_shared<BothWorks>(std::move(comparison), gpu_->start(std::move(c), waits)));
}

// A rank that neither sends nor receives anything does not know where the other ranks' tensors are.
// On the CPU it takes part in the exchange; on GPUs NCCL needs only the ranks that have data. It
// knows once the others have told it.
Work ComparedCollectives::start_exchange(Collective&& c) {
  const Tensor& any = c.any_tensor();
  const CallSummary::Where where = !any.defined()          ? CallSummary::nowhere
                                   : any.device().is_cpu() ? CallSummary::cpu
                                                           : CallSummary::gpu;
  const auto all = std::make_shared<AllCallSummaries>();
  for (std::size_t r = 0; r < c.to.size(); ++r)
    all->mine.push_back({c.signature, contents_of(c.to[r]), contents_of(c.from[r]), where});
  // Others may call something other than an exchange.
  compare_in_background(c.title(), c.signature);
  Work comparison = compare(c.title(), all);
  if (where == CallSummary::gpu)
    return Work(std::make_shared<BothWorks>(std::move(comparison), gpu_->start(std::move(c))));
  auto work = host_.prepare(std::move(c), /*is_compared=*/true);
  if (where == CallSummary::nowhere) {
    work->begin = [all, begin = std::move(work->begin)](ChunkBuffer& scratch) {
      return all->is_on(CallSummary::cpu) ? begin(scratch) : nullptr;
    };
  }
  return Work(std::make_shared<BothWorks>(std::move(comparison), host_.submit(std::move(work))));
}

}  // namespace rondo::dist
