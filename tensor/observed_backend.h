#pragma once
// The backend that wraps a device's own backend during a recording (record_function.h). It forwards
// each call and records the kernel's name, its time, its arithmetic and the memory it accessed.
// `backend(device)` returns it; no other code needs to know about it.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string_view>

#include "tensor/backend.h"

namespace rondo {

/// The device's own backend, whether it is observed or not. Throws DeviceError if it does not
/// exist.
Backend& unobserved_backend(Device device);

/// A backend that records the calls it forwards. It exists until the process ends.
Backend& observed_backend(Device device);

/// Calls `run`, a kernel that is not part of Backend. A recording shows it under `name`, with its
/// arithmetic operations and the memory of its operands. The first operand determines the kernel's
/// device.
void observe_kernel(std::string_view name, std::int64_t flops,
                    std::initializer_list<Tensor> operands, const std::function<void()>& run);

}  // namespace rondo
