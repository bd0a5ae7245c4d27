#include "tensor/device.h"

#include <charconv>
#include <ostream>

#include "tensor/error.h"

namespace rondo {

std::string Device::str() const { return is_cpu() ? "cpu" : "cuda:" + std::to_string(index); }

Device Device::parse(const std::string& text) {
  if (text == "cpu") return cpu();
  if (text == "cuda") return cuda(0);
  int index = -1;
  if (text.starts_with("cuda:")) {
    const char* end = text.data() + text.size();
    auto [stop, error] = std::from_chars(text.data() + 5, end, index);
    if (error == std::errc() && stop == end && index >= 0 && index < 1024) return cuda(index);
  }
  throw DeviceError(concat("device \"", text, "\" is invalid; expected cpu, cuda or cuda:INDEX"));
}

std::ostream& operator<<(std::ostream& out, Device device) { return out << device.str(); }

}  // namespace rondo
