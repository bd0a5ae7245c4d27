#include "dist/collectives/algorithms/rounds.h"

#include <algorithm>
#include <cstring>

#include "tensor/error.h"

namespace rondo::dist {
namespace {

class InRounds final : public Operation {
 public:
  InRounds(Transport& transport, ChunkBuffer& scratch, void* data, DType dtype, ReduceOp op,
           std::vector<Round> rounds, int tag)
      : transport_(transport),
        data_(static_cast<char*>(data)),
        dtype_(dtype),
        op_(op),
        rounds_(std::move(rounds)),
        tag_(tag) {
    std::int64_t most = 0;
    for (const Round& round : rounds_) {
      if (round.arrival != Round::replace) most = std::max(most, round.recv.size());
    }
    theirs_ = scratch.reserve(static_cast<std::size_t>(most * size_of(dtype)));
  }
  ~InRounds() override {
    transport_.abandon(sent_);
    transport_.abandon(received_);
  }

  Poll poll() override {
    if (at_ == rounds_.size()) return Poll::done;
    const Round& round = rounds_[at_];
    if (!is_posted_) {
      void* place = round.arrival == Round::replace ? at(round.recv) : theirs_;
      if (round.recv.size() > 0)
        received_ = transport_.recv(round.peer, tag_, place, bytes(round.recv));
      if (round.send.size() > 0)
        sent_ = transport_.send(round.peer, tag_, at(round.send), bytes(round.send));
      is_posted_ = true;
    }
    const bool received = transport_.test(received_), sent = transport_.test(sent_);
    if (!received || !sent) return Poll::idle;
    combine(round);
    is_posted_ = false;
    return ++at_ == rounds_.size() ? Poll::done : Poll::moved;
  }
  std::string waiting_for() const override {
    if (at_ == rounds_.size()) return "nothing";
    return concat("rank ", transport_.rank_in_world(rounds_[at_].peer),
                  received_.id != 0 ? " to send" : " to take", " round ", at_ + 1, " of ",
                  rounds_.size());
  }

 private:
  void combine(const Round& round) {
    if (round.arrival == Round::replace || round.recv.size() == 0) return;
    Arithmetic& arithmetic = transport_.arithmetic();
    char* ours = at(round.recv);
    const std::int64_t count = round.recv.size();
    if (round.arrival == Round::ours_first)
      return arithmetic.combine(ours, theirs_, count, dtype_, op_, round.divisor);
    arithmetic.combine(theirs_, ours, count, dtype_, op_, round.divisor);
    std::memcpy(ours, theirs_, bytes(round.recv));
  }
  char* at(ElementRange range) const { return data_ + range.begin * size_of(dtype_); }
  std::size_t bytes(ElementRange range) const {
    return static_cast<std::size_t>(range.size() * size_of(dtype_));
  }

  Transport& transport_;
  char *data_, *theirs_;
  DType dtype_;
  ReduceOp op_;
  std::vector<Round> rounds_;
  int tag_;
  std::size_t at_ = 0;
  bool is_posted_ = false;
  Request sent_, received_;
};

}  // namespace

std::unique_ptr<Operation> in_rounds(Transport& transport, ChunkBuffer& scratch, void* data,
                                     DType dtype, ReduceOp op, std::vector<Round> rounds, int tag) {
  return std::make_unique<InRounds>(transport, scratch, data, dtype, op, std::move(rounds), tag);
}

}  // namespace rondo::dist
