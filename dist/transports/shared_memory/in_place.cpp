#include "dist/transports/shared_memory/in_place.h"

#include <cstring>
#include <vector>

#include "tensor/error.h"

namespace rondo::dist {
namespace {

/// Waits for all ranks, reads, and completes when all have read: until then no rank may overwrite
/// what others need.
class Reading : public Operation {
 public:
  explicit Reading(InPlace all)
      : all_(std::move(all)),
        meeting_(all_.space, all_.transport, all_.signature, {.place = all_.place}) {}

  Poll poll() override {
    if (instead_ != nullptr) return instead_->poll();
    if (!has_read_) {
      if (!meeting_.is_over()) return Poll::idle;
      if (!is_one_place()) {
        instead_ = all_.otherwise();
        return instead_ != nullptr ? Poll::moved : Poll::done;
      }
      read();
      all_.space.arrive();
      has_read_ = true;
      return Poll::moved;
    }
    if (all_.space.missing() < 0) return Poll::done;
    all_.transport.check_peers();
    return Poll::idle;
  }
  std::string waiting_for() const override {
    if (instead_ != nullptr) return instead_->waiting_for();
    if (!has_read_) return meeting_.waiting_for();
    return missing_rank(all_.space, all_.transport) + " to read its part";
  }
  int awaits() const override {
    return instead_ != nullptr ? instead_->awaits() : meeting_.awaits();
  }

 protected:
  virtual void read() = 0;
  /// Rank r's tensor.
  char* theirs(int r) const {
    return all_.windows.section(all_.place.window, r) + all_.place.offset;
  }
  int rank() const { return all_.space.rank(); }
  int ranks() const { return all_.space.ranks(); }

 private:
  bool is_one_place() const {
    bool is_one = all_.place.window != 0;
    for (int r = 0; r < ranks(); ++r) is_one &= all_.space.slot(r).whereabouts.place == all_.place;
    return is_one;
  }

  InPlace all_;
  Meeting meeting_;
  std::unique_ptr<Operation> instead_;
  bool has_read_ = false;
};

class Gathering final : public Reading {
 public:
  Gathering(InPlace all, void* out, std::size_t bytes)
      : Reading(std::move(all)), out_(static_cast<char*>(out)), bytes_(bytes) {}

 private:
  void read() override {
    for (int r = 0; r < ranks(); ++r) {
      const std::size_t part = static_cast<std::size_t>(r) * bytes_;
      if (r != rank() && bytes_ > 0) std::memcpy(out_ + part, theirs(r) + part, bytes_);
    }
  }
  char* out_;
  std::size_t bytes_;
};

class Scattering final : public Reading {
 public:
  Scattering(InPlace all, void* out, std::int64_t count, DType dtype, ReduceOp op)
      : Reading(std::move(all)), out_(out), count_(count), dtype_(dtype), op_(op) {}

 private:
  void read() override {
    std::vector<const void*> from;
    for (int r = 0; r < ranks(); ++r) from.push_back(theirs(r) + rank() * count_ * size_of(dtype_));
    void* into[] = {out_};
    if (count_ > 0)
      combine_all(into, from, count_, dtype_, op_, op_ == ReduceOp::avg ? ranks() : 1);
  }
  void* out_;
  std::int64_t count_;
  DType dtype_;
  ReduceOp op_;
};

}  // namespace

std::unique_ptr<Operation> shared_all_gather(InPlace all, void* out, std::size_t bytes) {
  return std::make_unique<Gathering>(std::move(all), out, bytes);
}

std::unique_ptr<Operation> shared_reduce_scatter(InPlace all, void* out, std::int64_t count,
                                                 DType dtype, ReduceOp op) {
  return std::make_unique<Scattering>(std::move(all), out, count, dtype, op);
}

}  // namespace rondo::dist
