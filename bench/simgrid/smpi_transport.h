#pragma once
// Implements dist/transports/transport.h on SimGrid's simulated MPI.
//
// A poll would either take simulated time or, if it took none, loop forever. So `test` only reads
// which requests are known to be complete. The driver calls `wait` when there is no progress;
// `wait` lets simulated time pass until a request completes.

#include <smpi/mpi.h>
#include <smpi/smpi.h>

#include <stdexcept>
#include <vector>

#include "dist/transports/transport.h"

namespace rondo::simgrid {

/// Simulates the time of adding chunks by their memory traffic. It adds nothing: other tests check
/// the sums.
class SimulatedArithmetic final : public dist::Arithmetic {
 public:
  /// bytes_per_second: the memory bandwidth; 0: adding takes no time.
  explicit SimulatedArithmetic(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}
  void combine(void*, const void*, std::int64_t count, DType dtype, dist::ReduceOp, int) override {
    if (bytes_per_second_ <= 0) return;
    // Two operands are read, and one is written.
    smpi_execute(3.0 * static_cast<double>(count * size_of(dtype)) / bytes_per_second_);
  }

 private:
  double bytes_per_second_;
};

class SmpiTransport final : public dist::Transport {
 public:
  explicit SmpiTransport(double memory_bytes_per_second) : arithmetic_(memory_bytes_per_second) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size_);
  }

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  const char* name() const override { return "smpi"; }
  dist::Arithmetic& arithmetic() override { return arithmetic_; }

  dist::Request send(int peer, int tag, const void* data, std::size_t bytes) override {
    MPI_Request request;
    MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request);
    return add(request);
  }
  dist::Request recv(int peer, int tag, void* data, std::size_t bytes) override {
    MPI_Request request;
    MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request);
    return add(request);
  }
  bool test(dist::Request& request) override {
    if (request.id == 0) return true;
    if (pending_[request.id - 1] != MPI_REQUEST_NULL) return false;
    free_.push_back(request.id);
    request.id = 0;
    return true;
  }
  void abandon(dist::Request&) noexcept override {}
  void abort(int status) noexcept override { MPI_Abort(MPI_COMM_WORLD, status); }

  /// Returns when one more request is complete.
  void wait() {
    int index;
    MPI_Waitany(static_cast<int>(pending_.size()), pending_.data(), &index, MPI_STATUS_IGNORE);
    if (index == MPI_UNDEFINED) throw std::runtime_error("nothing is under way");
  }

 private:
  dist::Request add(MPI_Request request) {
    if (free_.empty()) {
      pending_.push_back(request);
      return {pending_.size()};
    }
    const std::uint64_t id = free_.back();
    free_.pop_back();
    pending_[id - 1] = request;
    return {id};
  }

  SimulatedArithmetic arithmetic_;
  int rank_ = 0, world_size_ = 1;
  std::vector<MPI_Request> pending_;  // request i + 1; null: complete
  std::vector<std::uint64_t> free_;   // ids that can be used again
};

}  // namespace rondo::simgrid
