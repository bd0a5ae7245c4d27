#pragma once
// What start.cpp and solution.cpp define.

#include <rondo/rondo.h>

#include <memory>

/// A hook that sends the k elements of each bucket with the largest absolute values.
std::shared_ptr<rondo::dist::CommHook> top_k(std::int64_t k);
