// Recursive doubling. In round k each rank swaps all it has with the rank whose number differs in
// bit k, and both add the two up: after round k every rank holds the sum over the 2^(k+1) ranks
// whose numbers differ from its own in the lowest k+1 bits alone. For N = 4:
//
//              rank 0     rank 1     rank 2     rank 3
//   start      0          1          2          3
//   k = 0      01         01         23         23
//   k = 1      0123       0123       0123       0123
//
// Each sends all of the data log2 N times: a ring sends less, in more and smaller messages.
//
// Where N is no power of two, the first 2 E ranks, E = N - 2^floor(log2 N), pair up: the even one
// gives its data to the odd one, stands aside, and is told the result. The others and the odd ones
// are then a power of two, and are numbered anew.
//
// Both partners of a round compute lower op higher, so that all ranks get equal bits: the minimum
// of -0 and +0 would depend on the order. (Thakur, Rabenseifner and Gropp 2005, "Optimization of
// collective communication operations in MPICH".)

#include "dist/algorithms/recursive_doubling.h"

#include <bit>
#include <cstring>
#include <vector>

#include "tensor/error.h"

namespace rondo::dist {
namespace {

/// One message to the peer, one from it, or both, and what becomes of what arrives.
struct Round {
  int peer;
  bool sends, receives;
  enum { combine, replace } arrival = combine;
  int divisor = 1;
};

std::vector<Round> rounds_of(int rank, int world_size, ReduceOp op) {
  const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(world_size)));
  const int extra = world_size - power;
  const bool is_paired = rank < 2 * extra, stands_aside = is_paired && rank % 2 == 0;
  if (stands_aside)
    return {{.peer = rank + 1, .sends = true, .receives = false},
            {.peer = rank + 1, .sends = false, .receives = true, .arrival = Round::replace}};
  std::vector<Round> rounds;
  if (is_paired) rounds.push_back({.peer = rank - 1, .sends = false, .receives = true});
  const int number = is_paired ? rank / 2 : rank - extra;
  for (int bit = 1; bit < power; bit *= 2) {
    const int other = number ^ bit;
    rounds.push_back(
        {.peer = other < extra ? 2 * other + 1 : other + extra, .sends = true, .receives = true});
  }
  // The last addition divides: an average is rounded once.
  if (op == ReduceOp::avg && !rounds.empty()) rounds.back().divisor = world_size;
  if (is_paired) rounds.push_back({.peer = rank - 1, .sends = true, .receives = false});
  return rounds;
}

class RecursiveDoubling final : public Operation {
 public:
  RecursiveDoubling(Transport& transport, Scratch& scratch, void* data, std::int64_t count,
                    DType dtype, ReduceOp op, int tag)
      : transport_(transport),
        data_(static_cast<char*>(data)),
        count_(count),
        bytes_(static_cast<std::size_t>(count * size_of(dtype))),
        dtype_(dtype),
        op_(op),
        tag_(tag),
        theirs_(scratch.reserve(bytes_)),
        rounds_(rounds_of(transport.rank(), transport.world_size(), op)) {}
  ~RecursiveDoubling() override {
    transport_.abandon(sent_);
    transport_.abandon(received_);
  }

  Poll poll() override {
    if (at_ == rounds_.size() || bytes_ == 0) return Poll::done;
    const Round& round = rounds_[at_];
    if (!is_posted_) {
      void* place = round.arrival == Round::replace ? data_ : theirs_;
      if (round.receives) received_ = transport_.recv(round.peer, tag_, place, bytes_);
      if (round.sends) sent_ = transport_.send(round.peer, tag_, data_, bytes_);
      is_posted_ = true;
    }
    const bool received = transport_.test(received_), sent = transport_.test(sent_);
    if (!received || !sent) return Poll::idle;
    if (round.receives && round.arrival == Round::combine) combine(round);
    is_posted_ = false;
    return ++at_ == rounds_.size() ? Poll::done : Poll::moved;
  }
  std::string waiting_for() const override {
    const Round& round = rounds_[at_];
    return concat("rank ", round.peer, received_.id != 0 ? " to send" : " to take", " round ",
                  at_ + 1, " of ", rounds_.size());
  }

 private:
  void combine(const Round& round) {
    Arithmetic& arithmetic = transport_.arithmetic();
    if (transport_.rank() < round.peer) {
      arithmetic.combine(data_, theirs_, count_, dtype_, op_, round.divisor);
    } else {
      arithmetic.combine(theirs_, data_, count_, dtype_, op_, round.divisor);
      std::memcpy(data_, theirs_, bytes_);
    }
  }

  Transport& transport_;
  char* data_;
  std::int64_t count_;
  std::size_t bytes_;
  DType dtype_;
  ReduceOp op_;
  int tag_;
  char* theirs_;
  std::vector<Round> rounds_;
  std::size_t at_ = 0;
  bool is_posted_ = false;
  Request sent_, received_;
};

}  // namespace

std::unique_ptr<Operation> recursive_doubling_all_reduce(Transport& transport, Scratch& scratch,
                                                         void* data, std::int64_t count,
                                                         DType dtype, ReduceOp op, int tag) {
  check_reducible(dtype, op);
  return std::make_unique<RecursiveDoubling>(transport, scratch, data, count, dtype, op, tag);
}

}  // namespace rondo::dist
