#include "dist/algorithms/exchange.h"

#include <utility>

#include "tensor/error.h"

namespace rondo::dist {
namespace {

class Exchange final : public Operation {
 public:
  Exchange(Transport& transport, std::vector<Parcel> parcels, int tag, int window)
      : transport_(transport),
        parcels_(std::move(parcels)),
        tag_(tag),
        window_(window),
        steps_(parcels_.size()) {}
  ~Exchange() override {
    for (Step& step : steps_) {
      transport_.abandon(step.sent);
      transport_.abandon(step.received);
    }
  }

  Poll poll() override {
    const int n = transport_.world_size();
    bool moved = false;
    for (; posted_ < n && posted_ < done_ + window_; ++posted_, moved = true) post(posted_);
    // Steps end in any order, but the window moves with the first.
    for (int t = done_; t < posted_; ++t) {
      Step& step = steps_[static_cast<std::size_t>(t)];
      if (step.is_over) continue;
      const bool received = transport_.test(step.received), sent = transport_.test(step.sent);
      step.is_over = received && sent;
      moved |= step.is_over;
    }
    while (done_ < posted_ && steps_[static_cast<std::size_t>(done_)].is_over) ++done_;
    if (done_ == n) return Poll::done;
    return moved ? Poll::moved : Poll::idle;
  }
  std::string waiting_for() const override {
    const Step& step = steps_[static_cast<std::size_t>(done_)];
    return step.received.id != 0 ? concat("rank ", source(done_), " to send its part")
                                 : concat("rank ", target(done_), " to take its part");
  }

 private:
  struct Step {
    Request sent, received;
    bool is_over = false;
  };

  int target(int t) const { return (transport_.rank() + t) % transport_.world_size(); }
  int source(int t) const {
    return (transport_.rank() - t + transport_.world_size()) % transport_.world_size();
  }
  void post(int t) {
    Step& step = steps_[static_cast<std::size_t>(t)];
    const Parcel& in = parcels_[static_cast<std::size_t>(source(t))];
    const Parcel& out = parcels_[static_cast<std::size_t>(target(t))];
    if (in.recv_bytes > 0) step.received = transport_.recv(source(t), tag_, in.recv, in.recv_bytes);
    if (out.send_bytes > 0) step.sent = transport_.send(target(t), tag_, out.send, out.send_bytes);
  }

  Transport& transport_;
  std::vector<Parcel> parcels_;
  int tag_, window_;
  std::vector<Step> steps_;
  // Step 0 would be with oneself. Always done ≤ posted ≤ done + window.
  int posted_ = 1, done_ = 1;
};

}  // namespace

std::unique_ptr<Operation> exchange(Transport& transport, std::vector<Parcel> parcels, int tag,
                                    int window) {
  return std::make_unique<Exchange>(transport, std::move(parcels), tag, window);
}

}  // namespace rondo::dist
