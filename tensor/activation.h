#pragma once

namespace rondo {

/// An activation that a matrix product or a convolution applies itself, if it can in the same pass
/// over memory (see the UnaryOp of the same name).
enum class Activation { none, relu, gelu_tanh };

}  // namespace rondo
