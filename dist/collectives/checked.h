#pragma once
// Checked: a collective whose ranks make sure that they mean the same one.
//
// Ranks that call different collectives, or the same one with another op, dtype or size, would wait
// for each other until a deadline, or worse: a sum of 100 f32 and a maximum of 100 i32 have
// messages of equal sizes, and every rank gets numbers. So each tells its right neighbour on the
// ring of ranks what it means, in a message of its own before the collective's, and hears its left
// neighbour. They travel beside the collective's first messages, so the check costs two small
// messages and no wait. All ranks agree if all neighbours do.
//
// A rank whose neighbours agree may still meet one that does not, in some round, before anybody has
// noticed. So the collective's messages have tags that follow from what is meant: those of another
// collective find no taker, and no rank gets a result from them. (MPI's own collectives have no
// tags: there a wrong result may come first, and the error with the next collective.)

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "dist/transports/transport.h"
#include "tensor/shape.h"

namespace rondo::dist {

/// What a rank means. Sent as it is: fixed sizes, no gaps.
struct Signature {
  char name[16] = {};          // "all_reduce"
  std::uint64_t sequence = 0;  // its number on this communicator
  std::int32_t root = -1;      // its number in the world; -1: none
  std::int8_t dtype = -1;      // DType, or none
  std::int8_t op = -1;         // ReduceOp, or none
  std::int8_t way = -1;        // how it is done, where ranks could differ: AllReduce
  std::int8_t dims = -1;       // of its shape, + channels_last; -1: may differ between ranks
  std::int64_t sizes[Dims::max_rank] = {};

  Signature(std::string_view name, std::uint64_t sequence);
  Signature() = default;
  void set_shape(const Dims& shape);
  /// After set_shape, where elements travel as they lie in memory.
  void set_layout(MemoryFormat format);
  static constexpr std::int8_t channels_last = 16;  // more than Dims::max_rank
  /// Whether two ranks mean the same.
  bool operator==(const Signature&) const = default;
  /// Equal for equal signatures, and different for different ones but once in 2^64.
  std::uint64_t digest() const;
  /// Of a collective's messages: different for different ones but once in tags_of_collectives.
  /// Messages of two that have the same come in the order in which they were sent.
  int tag() const;
};
static_assert(sizeof(Signature) == 96);

/// "all_reduce 17 (sum, f32 [100])".
std::string text_of(const Signature& signature);

/// The operation that make() gives, which may be null, with its check. Throws CommError "rank 0
/// calls … where rank 1 calls …"; what else goes wrong meanwhile is told only if the neighbour
/// means the same.
std::unique_ptr<Operation> checked(Transport& transport, const Signature& signature,
                                   const std::function<std::unique_ptr<Operation>()>& make);

}  // namespace rondo::dist
