#pragma once
// The backend that stands before a device's own while a recording is going on (record_function.h):
// it passes each call on, and notes which kernel it was, how long it took, what it computed and
// what memory it touched. `backend(device)` gives it out; nobody else needs to know.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string_view>

#include "tensor/backend.h"

namespace rondo {

/// The device's own backend, observed or not. Throws DeviceError where there is none.
Backend& unobserved_backend(Device device);

/// One that records what goes through it; it lives as long as the process.
Backend& observed_backend(Device device);

/// Calls `run`, a kernel that is not in Backend. A recording shows it under `name`, with its
/// arithmetic operations and the memory of its operands, of which the first is on the kernel's
/// device.
void observe_kernel(std::string_view name, std::int64_t flops,
                    std::initializer_list<Tensor> operands, const std::function<void()>& run);

}  // namespace rondo
