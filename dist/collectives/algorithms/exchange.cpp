#include "dist/collectives/algorithms/exchange.h"

#include <algorithm>
#include <string>
#include <utility>

#include "tensor/error.h"

namespace rondo::dist {
namespace {

class Exchange final : public Operation {
 public:
  Exchange(Transport& transport, std::shared_ptr<std::vector<Parcel>> parcels, int tag, int window)
      : transport_(transport),
        parcels_(std::move(parcels)),
        tag_(tag),
        window_(window),
        steps_(parcels_->size()) {}
  ~Exchange() override {
    for (Step& step : steps_) {
      for (Request* request : {&step.told, &step.sent, &step.heard, &step.received})
        transport_.abandon(*request);
    }
  }

  Poll poll() override {
    const int n = transport_.world_size();
    bool moved = false;
    for (; posted_ < n && posted_ < done_ + window_; ++posted_, moved = true) post(posted_);
    // Steps complete in any order, but the window advances only past the oldest one.
    for (int t = done_; t < posted_; ++t) {
      Step& step = steps_[static_cast<std::size_t>(t)];
      if (step.is_over) continue;
      const bool received = has_received(t), sent = has_sent(step);
      step.is_over = received && sent;
      moved |= step.is_over;
    }
    while (done_ < posted_ && steps_[static_cast<std::size_t>(done_)].is_over) ++done_;
    if (done_ == n) return Poll::done;
    return moved ? Poll::moved : Poll::idle;
  }
  std::string waiting_for() const override {
    return concat("rank ", awaits(), is_receiving() ? " to send its part" : " to take its part");
  }
  int awaits() const override { return name(is_receiving() ? source(done_) : target(done_)); }

 private:
  struct Step {
    Request told, sent, heard, received;  // contents and parcel: sent, and received
    bool is_over = false;
  };

  bool is_receiving() const {
    const Step& step = steps_[static_cast<std::size_t>(done_)];
    return step.heard.id != 0 || step.received.id != 0;
  }
  int target(int t) const { return (transport_.rank() + t) % transport_.world_size(); }
  int source(int t) const {
    return (transport_.rank() - t + transport_.world_size()) % transport_.world_size();
  }
  int name(int r) const { return transport_.rank_in_world(r); }
  Parcel& parcel(int peer) { return (*parcels_)[static_cast<std::size_t>(peer)]; }
  void post(int t) {
    Step& step = steps_[static_cast<std::size_t>(t)];
    Parcel& in = parcel(source(t));
    if (in.hears) step.heard = transport_.recv(source(t), tag_, &in.received, sizeof in.received);
    if (in.recv_bytes > 0) step.received = transport_.recv(source(t), tag_, in.recv, in.recv_bytes);
    const Parcel& out = parcel(target(t));
    if (out.tells) step.told = transport_.send(target(t), tag_, &out.sent, sizeof out.sent);
    if (out.send_bytes > 0) step.sent = transport_.send(target(t), tag_, out.send, out.send_bytes);
  }
  bool has_sent(Step& step) {
    const bool told = transport_.test(step.told);
    return transport_.test(step.sent) && told;
  }
  // Checks the contents first: a parcel of another size is only a consequence of other contents.
  bool has_received(int t) {
    Step& step = steps_[static_cast<std::size_t>(t)];
    if (step.heard.id != 0) {
      if (!transport_.test(step.heard)) return false;
      const Parcel& in = parcel(source(t));
      require<CommError>(in.received.suits(in.wanted), "rank ", name(source(t)), " sends ",
                         text_of(in.received), " where rank ", name(transport_.rank()), " wants ",
                         text_of(in.wanted));
    }
    return transport_.test(step.received);
  }

  Transport& transport_;
  std::shared_ptr<std::vector<Parcel>> parcels_;
  int tag_, window_;
  std::vector<Step> steps_;
  // Step 0 would be with this rank itself. Always done ≤ posted ≤ done + window.
  int posted_ = 1, done_ = 1;
};

}  // namespace

bool Contents::is_empty() const {
  return dtype < 0 || std::find(sizes, sizes + dims, 0) != sizes + dims;
}

bool Contents::suits(const Contents& other) const {
  return *this == other || (is_empty() && other.is_empty());
}

std::string text_of(const Contents& contents) {
  if (contents.dtype < 0) return "nothing";
  return concat(static_cast<DType>(contents.dtype), ' ',
                Dims(contents.sizes, contents.sizes + contents.dims));
}

std::unique_ptr<Operation> exchange(Transport& transport,
                                    std::shared_ptr<std::vector<Parcel>> parcels, int tag,
                                    int window) {
  return std::make_unique<Exchange>(transport, std::move(parcels), tag, window);
}

}  // namespace rondo::dist
