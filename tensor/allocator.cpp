#include "tensor/allocator.h"

#include <utility>

namespace rondo {
namespace {

thread_local const char* current_tag = "activations and other tensors";

}  // namespace

AllocationTag::AllocationTag(const char* name) : before_(std::exchange(current_tag, name)) {}
AllocationTag::~AllocationTag() { current_tag = before_; }
const char* AllocationTag::current() { return current_tag; }

}  // namespace rondo
