#pragma once
// Device: where a tensor's memory is and whose backend computes on it.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>

namespace rondo {

struct Device {
  enum class Type : std::uint8_t { cpu, cuda };

  Type type = Type::cpu;
  std::int16_t index = 0;

  constexpr Device() = default;
  constexpr explicit Device(Type type, std::int16_t index = 0) : type(type), index(index) {}
  /// x.to("cuda:1"), {.device = "cpu"}: as `parse`.
  Device(const char* text) : Device(parse(text)) {}
  Device(const std::string& text) : Device(parse(text)) {}
  Device(int index) = delete;  // write Device::cuda(index)
  Device(std::nullptr_t) = delete;

  static constexpr Device cpu() { return {}; }
  static constexpr Device cuda(int i = 0) {
    return Device(Type::cuda, static_cast<std::int16_t>(i));
  }
  constexpr bool is_cpu() const { return type == Type::cpu; }
  constexpr bool is_cuda() const { return type == Type::cuda; }
  constexpr auto operator<=>(const Device&) const = default;

  /// "cpu" or "cuda:1".
  std::string str() const;
  /// Parses the output of `str`, and "cuda" as "cuda:0". Throws DeviceError for anything else.
  static Device parse(const std::string& text);
};

std::ostream& operator<<(std::ostream& out, Device device);

}  // namespace rondo
