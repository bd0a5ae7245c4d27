#include "dist/transports/shared_memory/meeting.h"

#include <cstring>
#include <memory>

#include "tensor/error.h"

namespace rondo::dist {
namespace {

class CheckedMeeting final : public Operation {
 public:
  CheckedMeeting(SharedSpace& space, Transport& transport, const Signature& signature,
                 std::function<std::unique_ptr<Operation>()> make)
      : meeting_(space, transport, signature), make_(std::move(make)) {}

  Poll poll() override {
    if (collective_ != nullptr) return collective_->poll();
    if (!meeting_.is_over()) return Poll::idle;
    collective_ = make_();
    return collective_ != nullptr ? Poll::moved : Poll::done;
  }
  std::string waiting_for() const override {
    return collective_ != nullptr ? collective_->waiting_for() : meeting_.waiting_for();
  }
  int awaits() const override {
    return collective_ != nullptr ? collective_->awaits() : meeting_.awaits();
  }

 private:
  Meeting meeting_;
  std::function<std::unique_ptr<Operation>()> make_;
  std::unique_ptr<Operation> collective_;
};

int missing_in_world(SharedSpace& space, const Transport& transport) {
  const int missing = space.missing();
  return missing < 0 ? -1 : transport.rank_in_world(missing);
}

}  // namespace

std::string missing_rank(SharedSpace& space, const Transport& transport) {
  const int missing = missing_in_world(space, transport);
  return missing < 0 ? "the others" : concat("rank ", missing);
}

Meeting::Meeting(SharedSpace& space, Transport& transport, const Signature& signature,
                 const Whereabouts& whereabouts)
    : space_(space), transport_(transport) {
  std::construct_at(&space_.next_slot().whereabouts, whereabouts);
  arrive(signature);
}

Meeting::Meeting(SharedSpace& space, Transport& transport, const Signature& signature,
                 std::span<const char> data)
    : space_(space), transport_(transport) {
  if (!data.empty()) std::memcpy(space_.next_slot().data, data.data(), data.size());
  arrive(signature);
}

void Meeting::arrive(const Signature& signature) {
  Slot& slot = space_.next_slot();
  slot.signature = signature;
  slot.digest = signature.digest();
  space_.arrive();
}

bool Meeting::is_over() {
  if (space_.missing() >= 0) {
    transport_.check_peers();
    return false;
  }
  // Compares with rank 0's signature, so that all ranks report the same error.
  const Slot& first = space_.slot(0);
  for (int r = 1; r < space_.ranks(); ++r) {
    const Slot& other = space_.slot(r);
    if (other.digest == first.digest) continue;
    throw CommError(concat("rank ", transport_.rank_in_world(r), " calls ",
                           text_of(other.signature), " where rank ", transport_.rank_in_world(0),
                           " calls ", text_of(first.signature)));
  }
  return true;
}

std::string Meeting::waiting_for() const {
  return missing_rank(space_, transport_) + " to call it";
}

int Meeting::awaits() const { return missing_in_world(space_, transport_); }

std::unique_ptr<Operation> checked(SharedSpace& space, Transport& transport,
                                   const Signature& signature,
                                   std::function<std::unique_ptr<Operation>()> make) {
  return std::make_unique<CheckedMeeting>(space, transport, signature, std::move(make));
}

}  // namespace rondo::dist
