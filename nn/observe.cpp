#include "nn/observe.h"

#include <utility>

namespace rondo::nn {
namespace {

thread_local const ForwardObserver::Seen* observer = nullptr;

}  // namespace

ForwardObserver::ForwardObserver(Seen seen)
    : seen_(std::move(seen)), before_(std::exchange(observer, &seen_)) {}

ForwardObserver::~ForwardObserver() { observer = before_; }

namespace detail {

bool has_observer() { return observer != nullptr; }

void observe(Module& module, const Tensors& inputs, const Tensors& outputs) {
  if (observer != nullptr) (*observer)(module, inputs, outputs);
}

}  // namespace detail
}  // namespace rondo::nn
