#pragma once
// Checked: a collective whose ranks verify that they all call the same one.
//
// Ranks that call different collectives, or the same one with another op, dtype or size, would wait
// for each other until a deadline. Or worse: a sum of 100 f32 and a maximum of 100 i32 have
// messages of equal sizes, and every rank would get invalid results without an error. Therefore
// each rank sends its right neighbour on the ring of ranks a message that describes its collective,
// and receives one from its left neighbour. These messages are in flight together with the
// collective's first ones, so the check costs two small messages and no wait. If all neighbours
// agree, all ranks agree.
//
// A rank exchanges data with other ranks than its neighbours, too. One of them may call another
// collective, and no rank has noticed it yet. Therefore the tags of a collective's messages are
// derived from its signature: messages of another collective match no receive, and no rank gets a
// result from them. (MPI's own collectives have no tags. There a rank may get a wrong result, and
// the error only in the next collective.)

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "dist/transports/transport.h"
#include "tensor/shape.h"

namespace rondo::dist {

/// Describes the collective that a rank calls. Sent as raw bytes: fixed sizes, no padding.
struct Signature {
  char name[16] = {};          // "all_reduce"
  std::uint64_t sequence = 0;  // its number on this communicator
  std::int32_t root = -1;      // its number in the world; -1: no root
  std::int8_t dtype = -1;      // DType, or -1
  std::int8_t op = -1;         // ReduceOp, or -1
  std::int8_t algorithm = -1;  // the implementation, if ranks could differ in it: AllReduce
  std::int8_t dims = -1;       // of its shape, + channels_last; -1: may differ between ranks
  std::int64_t sizes[Dims::max_rank] = {};

  Signature(std::string_view name, std::uint64_t sequence);
  Signature() = default;
  void set_shape(const Dims& shape);
  /// Call it after set_shape, for collectives that send elements in memory order.
  void set_layout(MemoryFormat format);
  static constexpr std::int8_t channels_last = 16;  // more than Dims::max_rank
  /// Whether two ranks call the same collective.
  bool operator==(const Signature&) const = default;
  /// Equal for equal signatures; unique with probability 1 - 2^-64.
  std::uint64_t digest() const;
  /// The tag of the collective's messages. Two different signatures have equal tags with
  /// probability 1 / tags_of_collectives; their messages then arrive in the order in which they
  /// were sent.
  int tag() const;
};
static_assert(sizeof(Signature) == 96);

/// "all_reduce 17 (sum, f32 [100])".
std::string text_of(const Signature& signature);

/// The operation that make() returns, which may be null, together with its check. Throws CommError
/// "rank 0 calls … where rank 1 calls …". Another error of the operation is reported only if the
/// neighbour calls the same collective.
std::unique_ptr<Operation> checked(Transport& transport, const Signature& signature,
                                   const std::function<std::unique_ptr<Operation>()>& make);

}  // namespace rondo::dist
