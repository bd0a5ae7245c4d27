// MPI as a Transport. Every call is made under one mutex. So MPI needs only MPI_THREAD_SERIALIZED,
// which most builds support without the slower locks of MPI_THREAD_MULTIPLE. The mutex is held only
// during a post or a poll, never during a wait. Counts are cut to 1 GiB, so nothing overflows an
// int. How MPI starts and ends: mpi_start.h.

#include "dist/transports/mpi/mpi_transport.h"

#include <mpi.h>
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>  // tells whether Open MPI reads GPU memory
#endif

#include <algorithm>
#include <any>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "dist/failure/deadline.h"
#include "dist/transports/mpi/mpi_start.h"
#include "tensor/error.h"
#include "tensor/home_process.h"

namespace rondo::dist {
namespace {

constexpr std::size_t max_message = std::size_t{1} << 30;
constexpr int pieces_of(std::size_t bytes) {
  return static_cast<int>(std::max<std::size_t>(1, (bytes + max_message - 1) / max_message));
}

// Checks that the program's communicator can be used.
MPI_Comm checked_comm(const std::any& program_comm, int level) {
  const auto* comm = std::any_cast<MPI_Comm>(&program_comm);
  require<CommError>(
      comm != nullptr,
      "dist::init: mpi_comm is not an MPI_Comm of the MPI that rondo was built with");
  require<CommError>(*comm != MPI_COMM_NULL,
                     "dist::init: mpi_comm is MPI_COMM_NULL; only ranks that are in the "
                     "communicator call dist::init");
  std::lock_guard lock(mpi_mutex());
  int is_inter = 0, is_main = 0;
  MPI_Comm_test_inter(*comm, &is_inter);
  require<CommError>(!is_inter,
                     "dist::init: mpi_comm is an intercommunicator; give an intracommunicator, "
                     "which MPI_Intercomm_merge makes of it");
  require<CommError>(level >= MPI_THREAD_FUNNELED,
                     "dist::init: MPI was initialized with MPI_THREAD_SINGLE, but rondo starts "
                     "threads; call MPI_Init_thread with MPI_THREAD_FUNNELED or a higher level");
  MPI_Is_thread_main(&is_main);
  require<CommError>(is_main || level >= MPI_THREAD_SERIALIZED,
                     "dist::init: MPI was initialized with MPI_THREAD_FUNNELED by another thread; "
                     "call dist::init in that thread, or ask MPI for MPI_THREAD_SERIALIZED");
  return *comm;
}

class MpiTransport final : public Transport {
 public:
  MpiTransport(int level, std::chrono::milliseconds time_to_start, const std::any& program_comm) {
    const bool is_given = program_comm.has_value();
    const MPI_Comm from = is_given ? checked_comm(program_comm, level) : MPI_COMM_WORLD;
    const Deadline deadline(is_given ? "MPI_Comm_dup of mpi_comm" : "MPI_Comm_dup", time_to_start,
                            is_given ? "some rank of mpi_comm has not called dist::init"
                                     : "some rank has not called it");
    std::lock_guard lock(mpi_mutex());
    // A failing dup must return a status. Afterwards the program's own handler is restored.
    MPI_Errhandler before;
    MPI_Comm_get_errhandler(from, &before);
    MPI_Comm_set_errhandler(from, MPI_ERRORS_RETURN);
    const int status = MPI_Comm_dup(from, &comm_);
    MPI_Comm_set_errhandler(from, before);
    MPI_Errhandler_free(&before);
    check(status, "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
    int* bound = nullptr;
    int has_bound = 0;
    check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &has_bound), "MPI_Comm_get_attr");
    if (has_bound) max_tag_ = *bound;
    if (is_given) find_world_ranks();
    // The program's own MPI calls do not use the mutex.
    const bool program_calls_mpi = is_given || !rondo_has_started_mpi();
    any_thread_ = level >= (program_calls_mpi ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED);
  }
  // The duplicate is not freed: MPI_Comm_free is collective, and ranks destroy their communicators
  // at different times or, after errors, never. MPI_Finalize frees it.
  ~MpiTransport() override = default;

  int rank() const override { return rank_; }
  int world_size() const override { return size_; }
  const char* name() const override { return "mpi"; }
  std::string name_of(int r) const override {
    const std::string here = Transport::name_of(r);
    if (world_ranks_.empty() || world_ranks_[r] == MPI_UNDEFINED) return here;  // of a spawned job
    return concat(here, " [", world_ranks_[r], " of MPI_COMM_WORLD]");
  }
  bool any_thread() const override { return any_thread_; }
  int max_tag() const override { return max_tag_; }

  Request send(int peer, int tag, const void* data, std::size_t bytes) override {
    std::lock_guard lock(mpi_mutex());
    count_sent(bytes);
    return post(bytes, peer, [&](std::size_t offset, int n, MPI_Request* request) {
      check(MPI_Isend(static_cast<const char*>(data) + offset, n, MPI_BYTE, peer, tag, comm_,
                      request),
            "MPI_Isend", peer);
    });
  }

  Request recv(int peer, int tag, void* data, std::size_t bytes) override {
    std::lock_guard lock(mpi_mutex());
    return post(
        bytes, peer,
        [&](std::size_t offset, int n, MPI_Request* request) {
          check(
              MPI_Irecv(static_cast<char*>(data) + offset, n, MPI_BYTE, peer, tag, comm_, request),
              "MPI_Irecv", peer);
        },
        true);
  }

  bool test(Request& request) override {
    if (request.id == 0) return true;
    std::lock_guard lock(mpi_mutex());
    check_running();
    Message& message = messages_[request.id - 1];
    for (; message.done < message.pieces.size(); ++message.done) {
      int flag = 0;
      MPI_Status status;
      int code = MPI_Test(&message.pieces[message.done], &flag, &status);
      check(code, "MPI_Test", message.peer);
      if (!flag) return false;
      if (message.is_recv) check_size(message, status);
    }
    free_message(request);
    return true;
  }

  void abandon(Request& request) noexcept override {
    if (request.id == 0 || !home_.is_here()) return;
    std::lock_guard lock(mpi_mutex());
    int finalized = 0;
    MPI_Finalized(&finalized);
    Message& message = messages_[request.id - 1];
    for (MPI_Request& piece : message.pieces) {
      if (finalized || piece == MPI_REQUEST_NULL) continue;
      if (message.is_recv) MPI_Cancel(&piece);
      MPI_Request_free(&piece);
    }
    free_message(request);
  }

  std::unique_ptr<Operation> native_all_reduce(void* data, std::int64_t count, DType dtype,
                                               ReduceOp op, bool blocking) override;

  bool has_native_all_reduce(DType dtype, ReduceOp op) const override;
  bool reaches_gpus() const override {
#ifdef MPIX_CUDA_AWARE_SUPPORT
    return MPIX_Query_cuda_support() == 1;
#else
    return false;
#endif
  }
  // Ends all ranks of the job, including those that do not train: MPICH 4.0 waits forever if it is
  // asked to abort a duplicate.
  void abort(int status) noexcept override {
#ifdef OPEN_MPI
    // Open MPI's mpirun (4.1.4) crashes or hangs one time in three if it is asked to abort a job
    // while some rank is in MPI_Finalize. It also ends the other ranks if a rank exits with an
    // error.
    if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) {
      std::fflush(nullptr);
      std::_Exit(status);
    }
#endif
    MPI_Abort(MPI_COMM_WORLD, status);
  }

  void check(int status, const char* call, int peer = -1) const {
    if (status == MPI_SUCCESS) [[likely]]
      return;
    throw CommError(
        peer < 0 ? concat("rank ", rank_, ": ", call, ": ", describe(status))
                 : concat("rank ", rank_, ": ", call, " with rank ", peer, ": ", describe(status)));
  }
  MPI_Comm comm() const { return comm_; }

 private:
  /// A message that was posted: MPI's requests for its pieces.
  struct Message {
    std::vector<MPI_Request> pieces;
    std::size_t done = 0, bytes = 0;
    int peer = 0;
    bool is_recv = false;
  };

  template <class F>
  Request post(std::size_t bytes, int peer, F start, bool is_recv = false) {
    check_running();
    if (free_.empty()) {
      messages_.emplace_back();
      free_.push_back(messages_.size());
    }
    std::uint64_t id = free_.back();
    Message& message = messages_[id - 1];
    message.pieces.assign(static_cast<std::size_t>(pieces_of(bytes)), MPI_REQUEST_NULL);
    message.done = 0;
    message.bytes = bytes;
    message.peer = peer;
    message.is_recv = is_recv;
    for (std::size_t i = 0; i < message.pieces.size(); ++i) {
      start(i * max_message, static_cast<int>(piece_bytes(bytes, i)), &message.pieces[i]);
    }
    free_.pop_back();
    return {id};
  }
  // A communicator in a global variable outlives MPI_Finalize; its background thread must not poll.
  void check_running() const {
    int finalized = 0;
    MPI_Finalized(&finalized);
    require<CommError>(!finalized, "rank ", rank_, ": MPI has been finalized");
  }
  static std::size_t piece_bytes(std::size_t bytes, std::size_t i) {
    return std::min(bytes - i * max_message, max_message);
  }
  void free_message(Request& request) {
    free_.push_back(request.id);
    request.id = 0;
  }
  void check_size(const Message& message, const MPI_Status& status) const {
    int got = 0;
    MPI_Get_count(&status, MPI_BYTE, &got);
    std::size_t want = piece_bytes(message.bytes, message.done);
    require<CommError>(static_cast<std::size_t>(got) == want, "rank ", rank_, ": rank ",
                       message.peer, " sent ", got, " bytes where ", want,
                       " were expected; do both call the same collective on the same sizes?");
  }

  void find_world_ranks() {
    MPI_Group world, group;
    check(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
    check(MPI_Comm_group(comm_, &group), "MPI_Comm_group");
    std::vector<int> ranks(static_cast<std::size_t>(size_));
    std::iota(ranks.begin(), ranks.end(), 0);
    world_ranks_.resize(ranks.size());
    check(MPI_Group_translate_ranks(group, size_, ranks.data(), world, world_ranks_.data()),
          "MPI_Group_translate_ranks");
    if (world_ranks_ == ranks) world_ranks_.clear();
    MPI_Group_free(&group);
    MPI_Group_free(&world);
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1, max_tag_ = tag_limit - 1;
  bool any_thread_ = false;
  std::vector<int> world_ranks_;  // of a program's communicator; empty: the numbers are equal
  HomeProcess home_;
  std::deque<Message> messages_;
  std::vector<std::uint64_t> free_;
};

MPI_Datatype mpi_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return MPI_DOUBLE;
    case DType::f32:
      return MPI_FLOAT;
    case DType::i64:
      return MPI_INT64_T;
    case DType::i32:
      return MPI_INT32_T;
    case DType::u8:
      return MPI_UINT8_T;
    case DType::i8:
      return MPI_INT8_T;
    default:
      return MPI_DATATYPE_NULL;  // bf16, f16, bool: MPI has no arithmetic for them
  }
}

MPI_Op mpi_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::min:
      return MPI_MIN;
    case ReduceOp::max:
      return MPI_MAX;
    case ReduceOp::prod:
      return MPI_PROD;
    case ReduceOp::band:
      return MPI_BAND;
    case ReduceOp::bor:
      return MPI_BOR;
    default:
      return MPI_SUM;
  }
}

// MPI_Iallreduce piece by piece, polled. If it is given up half-way, MPI keeps using its memory,
// since a collective can be neither cancelled nor freed. Progress keeps the memory alive.
class NativeAllReduce final : public Operation {
 public:
  NativeAllReduce(MpiTransport& transport, void* data, std::int64_t count, DType dtype, ReduceOp op,
                  bool blocking)
      : transport_(transport),
        data_(static_cast<char*>(data)),
        count_(count),
        dtype_(dtype),
        op_(op),
        blocking_(blocking) {}

  Poll poll() override {
    std::lock_guard lock(mpi_mutex());
    if (active_) {
      int flag = 0;
      transport_.check(MPI_Test(&request_, &flag, MPI_STATUS_IGNORE), "MPI_Test of MPI_Iallreduce");
      if (!flag) return Poll::idle;
      active_ = false;
    }
    if (done_ == count_) {
      if (op_ == ReduceOp::avg) divide(data_, count_, dtype_, transport_.world_size());
      return Poll::done;
    }
    std::int64_t n = std::min<std::int64_t>(count_ - done_, std::int64_t{1} << 28);
    char* place = data_ + done_ * size_of(dtype_);
    if (blocking_) {
      transport_.check(MPI_Allreduce(MPI_IN_PLACE, place, static_cast<int>(n), mpi_type(dtype_),
                                     mpi_op(op_), transport_.comm()),
                       "MPI_Allreduce");
    } else {
      transport_.check(MPI_Iallreduce(MPI_IN_PLACE, place, static_cast<int>(n), mpi_type(dtype_),
                                      mpi_op(op_), transport_.comm(), &request_),
                       "MPI_Iallreduce");
      active_ = true;
    }
    done_ += n;
    return Poll::moved;
  }
  std::string waiting_for() const override { return "the other ranks to call MPI_Iallreduce"; }

 private:
  MpiTransport& transport_;
  char* data_;
  std::int64_t count_, done_ = 0;
  DType dtype_;
  ReduceOp op_;
  bool blocking_, active_ = false;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

// MPI_MIN and MPI_MAX of a NaN and a number may return the number.
bool MpiTransport::has_native_all_reduce(DType dtype, ReduceOp op) const {
  const bool hides_nan = is_floating(dtype) && (op == ReduceOp::min || op == ReduceOp::max);
  return mpi_type(dtype) != MPI_DATATYPE_NULL && !hides_nan;
}

std::unique_ptr<Operation> MpiTransport::native_all_reduce(void* data, std::int64_t count,
                                                           DType dtype, ReduceOp op,
                                                           bool blocking) {
  if (!has_native_all_reduce(dtype, op)) return nullptr;
  return std::make_unique<NativeAllReduce>(*this, data, count, dtype, op, blocking);
}

}  // namespace

std::shared_ptr<Transport> mpi_transport(std::chrono::milliseconds time_to_start,
                                         const std::any& program_comm) {
  const int level = start_mpi(time_to_start, program_comm.has_value());
  return std::make_shared<MpiTransport>(level, time_to_start, program_comm);
}

}  // namespace rondo::dist
