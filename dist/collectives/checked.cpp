#include "dist/collectives/checked.h"

#include <algorithm>
#include <array>
#include <bit>
#include <exception>
#include <mutex>
#include <vector>

#include "dist/collectives/all_reduce.h"
#include "dist/collectives/message_tags.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

struct Signatures {
  Signature mine, theirs = {};
};

/// Keeps the memory alive: a transport may still write to it after the request was given up.
void keep_for_ever(std::unique_ptr<Signatures> signatures) {
  static std::mutex mutex;
  static auto* all = new std::vector<std::unique_ptr<Signatures>>;
  std::lock_guard lock(mutex);
  all->push_back(std::move(signatures));
}

class Checked final : public Operation {
 public:
  Checked(Transport& transport, const Signature& signature)
      : transport_(transport),
        left_((transport.rank() + transport.world_size() - 1) % transport.world_size()),
        both_(new Signatures{.mine = signature}) {
    const int right = (transport.rank() + 1) % transport.world_size();
    heard_ = transport.recv(left_, tag_of_signatures, &both_->theirs, sizeof(Signature));
    told_ = transport.send(right, tag_of_signatures, &both_->mine, sizeof(Signature));
  }
  ~Checked() override {
    collective_.reset();
    if (told_.id == 0 && heard_.id == 0) return;
    transport_.abandon(told_);
    transport_.abandon(heard_);
    keep_for_ever(std::move(both_));
  }
  void make(const std::function<std::unique_ptr<Operation>()>& make) {
    collective_ = make();
    is_done_ = collective_ == nullptr;
  }

  Poll poll() override {
    Poll result = Poll::idle;
    if (heard_.id != 0 && transport_.test(heard_)) {
      result = Poll::moved;
      require<CommError>(both_->theirs == both_->mine, "rank ", transport_.rank_in_world(left_),
                         " calls ", text_of(both_->theirs), " where rank ",
                         transport_.rank_in_world(transport_.rank()), " calls ",
                         text_of(both_->mine));
    }
    if (!is_done_) result = std::max(result, poll_collective());
    if (failure_ != nullptr && heard_.id == 0) std::rethrow_exception(failure_);
    if (is_done_ && failure_ == nullptr && heard_.id == 0 && transport_.test(told_))
      return Poll::done;
    return result;
  }
  std::string waiting_for() const override {
    if (heard_.id != 0) return concat("rank ", transport_.rank_in_world(left_), " to call it");
    return is_done_ ? "its neighbour to receive its signature" : collective_->waiting_for();
  }
  int missing() const override { return heard_.id != 0 ? transport_.rank_in_world(left_) : -1; }
  int awaits() const override {
    return heard_.id != 0 || is_done_ ? missing() : collective_->awaits();
  }

 private:
  Poll poll_collective() {
    try {
      const Poll result = collective_->poll();
      is_done_ = result == Poll::done;
      return is_done_ ? Poll::moved : result;
    } catch (const CommError&) {
      // Perhaps it failed because the ranks call different collectives. That error is reported
      // instead.
      failure_ = std::current_exception();
      is_done_ = true;
      return Poll::moved;
    }
  }

  Transport& transport_;
  int left_;
  std::unique_ptr<Signatures> both_;
  Request told_, heard_;
  std::unique_ptr<Operation> collective_;
  bool is_done_ = false;
  std::exception_ptr failure_;
};

}  // namespace

Signature::Signature(std::string_view n, std::uint64_t s) : sequence(s) {
  std::copy_n(n.begin(), std::min(n.size(), sizeof name - 1), name);
}

void Signature::set_shape(const Dims& shape) {
  dims = static_cast<std::int8_t>(shape.size());
  std::ranges::copy(shape, sizes);
}

void Signature::set_layout(MemoryFormat format) {
  if (format == MemoryFormat::channels_last) dims = static_cast<std::int8_t>(dims + channels_last);
}

std::uint64_t Signature::digest() const {
  using Words = std::array<std::uint64_t, sizeof(Signature) / sizeof(std::uint64_t)>;
  std::uint64_t digest = 0;
  for (const std::uint64_t word : std::bit_cast<Words>(*this))
    digest =
        std::rotl(digest ^ word, 29) * 0x9e3779b97f4a7c15u;  // 2^64 divided by the golden ratio
  return digest;
}

int Signature::tag() const {
  constexpr int bits = 14;
  static_assert(tags_of_collectives == 1 << bits);
  return static_cast<int>(digest() >>
                          (64 - bits));  // the upper bits of a product depend on all bits below
}

std::string text_of(const Signature& s) {
  std::string details;
  auto add = [&](auto... parts) { details += concat(details.empty() ? " (" : ", ", parts...); };
  if (s.op >= 0) add(static_cast<ReduceOp>(s.op));
  if (s.dims >= 0)
    add(s.dtype < 0 ? "bytes" : concat(static_cast<DType>(s.dtype)), ' ',
        Dims(s.sizes, s.sizes + s.dims % Signature::channels_last),
        s.dims >= Signature::channels_last ? " channels_last" : "");
  if (s.root >= 0) add("root ", s.root);
  if (s.algorithm >= 0) add("by ", name_of(static_cast<AllReduce>(s.algorithm)));
  return concat(s.name, ' ', s.sequence, details.empty() ? "" : details + ")");
}

std::unique_ptr<Operation> checked(Transport& transport, const Signature& signature,
                                   const std::function<std::unique_ptr<Operation>()>& make) {
  auto operation = std::make_unique<Checked>(transport, signature);
  operation->make(make);
  return operation;
}

}  // namespace rondo::dist
