#pragma once
// What start.cpp and solution.cpp define.

#include <rondo/rondo.h>

/// x as a tensor of the shape `to`, repeated where x has size 1 or no dimension (dimensions are
/// aligned at the right). Shares x's memory. Throws ShapeError if the shapes do not fit.
rondo::Tensor broadcast(const rondo::Tensor& x, const rondo::Dims& to);
