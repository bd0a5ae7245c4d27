#pragma once
// What programs ask of the values of their flags. CLI11's own checks of this kind print an upper
// bound of 309 digits, let NaN through, and -1 wrap round.

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "tensor/error.h"

namespace rondo::flags {

/// Finite numbers for which `holds`; `is` says in words what they are: "above 0".
inline CLI::Validator number_that(bool (*holds)(double), const char* is) {
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        char* end = nullptr;
        double value = std::strtod(text.c_str(), &end);
        return !text.empty() && *end == '\0' && std::isfinite(value) && holds(value)
                   ? ""
                   : "\"" + text + "\" is not " + is;
      },
      is);
}

inline CLI::Validator positive() {
  return number_that([](double v) { return v > 0; }, "above 0");
}
inline CLI::Validator not_negative() {
  return number_that([](double v) { return v >= 0; }, "0 or a number above it");
}

inline CLI::Validator whole_number(std::uint64_t least, std::uint64_t most) {
  const std::string range =
      concat(least, " to ", most == ~std::uint64_t{0} ? "2^64 - 1" : std::to_string(most));
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        std::uint64_t value = 0;
        const char* end = text.data() + text.size();
        auto [stopped, error] = std::from_chars(text.data(), end, value);
        return error == std::errc() && stopped == end && value >= least && value <= most
                   ? ""
                   : "\"" + text + "\" is not a whole number from " + range;
      },
      range);
}

/// Images in a batch, steps, rounds.
inline CLI::Validator count() { return whole_number(1, 1'000'000'000); }

/// OpenMP threads, 0 for all: libgomp ends the program where it cannot start as many as it is told.
inline CLI::Validator threads() { return whole_number(0, 4096); }

/// A path or a list that a script left empty is a mistake, not a wish for the default.
inline CLI::Validator not_empty() {
  return CLI::Validator(
      [](std::string& text) -> std::string { return text.empty() ? "it is empty" : ""; }, "TEXT");
}

}  // namespace rondo::flags
