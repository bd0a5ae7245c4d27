#pragma once

namespace rondo {

/// What follows a matrix product in the same pass over memory (UnaryOp of the same name).
enum class Activation { none, relu, gelu_tanh };

}  // namespace rondo
