#pragma once
// Collective: one call of a collective or of a message, as a value: what, and of which tensors. A
// Communicator validates it once, and gives it to the engine of its tensors' device.
//
// A new collective is a Kind, a function here that makes it, its checks in `validate`, a method of
// HostCollectives and one of each engine for GPUs, and two lines in communicator.cpp.

#include <cstdint>
#include <string>

#include "dist/collectives/all_reduce.h"
#include "dist/collectives/checked.h"
#include "dist/collectives/reduce.h"
#include "dist/collectives/work.h"
#include "tensor/tensor.h"

namespace rondo::dist {

class Ranks;

struct Collective {
  enum class Kind : std::uint8_t {
    all_reduce,
    reduce,
    broadcast,
    all_gather,
    reduce_scatter,
    exchange,  // one tensor for each rank: gather, scatter, all_to_all, all_gather of a list
    barrier,
    send,
    recv
  };
  Kind kind;
  const char* name;  // "all_reduce"; an exchange has the name of the method that was called
  Tensor x = {};     // what this rank gives; what it gets, too, unless there is `out`
  Tensor out = {};   // what it gets: all_gather, reduce_scatter
  Tensors from = {}, to = {};  // exchange: what it gets from and gives to each rank, or undefined
  ReduceOp op = ReduceOp::sum;
  AllReduce algorithm = AllReduce::automatic;
  int root = -1;          // -1: no root
  int peer = -1;          // of a message
  int tag = 0;            // of a message
  bool is_bytes = false;  // x is memory without a dtype

  // Set when the communicator starts it.
  std::string about = {};    // names the data: "bucket 2 of 8"; or empty
  std::string group = {};    // names the ranks: "{1, 3}"; empty: all
  Signature signature = {};  // must be equal on all ranks; a message's is not compared

  static Collective all_reduce(const Tensor& x, ReduceOp op, AllReduce algorithm);
  static Collective reduce(const Tensor& x, int root, ReduceOp op);
  static Collective broadcast(const Tensor& x, int root);
  static Collective all_gather(const Tensor& out, const Tensor& x);
  static Collective reduce_scatter(const Tensor& out, const Tensor& x, ReduceOp op);
  static Collective all_gather(const Ranks& ranks, const Tensors& parts, const Tensor& x);
  static Collective gather(const Ranks& ranks, const Tensors& parts, const Tensor& x, int root);
  static Collective scatter(const Ranks& ranks, const Tensor& x, const Tensors& parts, int root);
  static Collective all_to_all(const Tensors& from, const Tensors& to);
  static Collective barrier();
  static Collective send(const Tensor& x, int peer, int tag);
  static Collective recv(const Tensor& x, int peer, int tag);

  /// Throws CommError, ShapeError or DTypeError unless this rank may call it. Afterwards the
  /// tensors to be sent are in the order in which they are sent.
  void validate(const Ranks& ranks);
  /// Gives it its number among the communicator's collectives, and its signature.
  void sign(const Ranks& ranks, std::uint64_t number);
  /// Tells autograd that the tensors that this rank gets have changed.
  void bump_versions(int rank) const;

  /// Whether this rank's x is overwritten.
  bool gets_x(int rank) const;
  bool is_message() const { return kind == Kind::send || kind == Kind::recv; }
  /// Whether no rank has anything to send to another one.
  bool is_local(int world_size) const;
  /// Does what a local one has to do.
  void copy_own_part() const;
  /// All defined tensors.
  Tensors tensors() const;
  /// One of them, which tells the device; undefined if it has no tensors.
  const Tensor& any_tensor() const;
  /// Its name in messages: "all_reduce 17 of bucket 2 of group {0, 1}", "send to rank 1 with tag
  /// 0".
  std::string title() const;
};

/// Runs the collectives of a communicator on the tensors of one device.
class CollectiveEngine {
 public:
  virtual ~CollectiveEngine() = default;
  /// Throws CommError if it cannot run this one. Called before the collective gets its number.
  virtual void check(const Collective&) const {}
  /// Starts a collective that is valid. `waits`: the caller waits for it right away, so it may also
  /// run to completion here.
  virtual Work start(Collective&& collective, bool waits = false) = 0;
};

}  // namespace rondo::dist
