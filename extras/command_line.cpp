#include "extras/command_line.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>

#include "tensor/backend.h"
#include "tensor/error.h"
#include "tensor/printable.h"

namespace rondo::flags {

// CLI11's own checks print an upper bound of 309 digits, accept NaN, and let -1 wrap around.

Check number_that(bool (*holds)(double), const std::string& is) {
  return {is, [=](const std::string& text) -> std::string {
            char* end = nullptr;
            double value = std::strtod(text.c_str(), &end);
            return !text.empty() && *end == '\0' && std::isfinite(value) && holds(value)
                       ? ""
                       : "\"" + text + "\" is not " + is;
          }};
}

Check positive() {
  return number_that([](double v) { return v > 0; }, "above 0");
}
Check not_negative() {
  return number_that([](double v) { return v >= 0; }, "0 or a number above it");
}

Check whole_number(std::uint64_t least, std::uint64_t most) {
  const std::string range =
      concat(least, " to ", most == ~std::uint64_t{0} ? "2^64 - 1" : std::to_string(most));
  return {range, [=](const std::string& text) -> std::string {
            std::uint64_t value = 0;
            const char* end = text.data() + text.size();
            auto [stopped, error] = std::from_chars(text.data(), end, value);
            const bool is_octal = text.size() > 1 && text[0] == '0';  // for CLI11
            return error == std::errc() && stopped == end && !is_octal && value >= least &&
                           value <= most
                       ? ""
                       : "\"" + text + "\" is not a whole number from " + range;
          }};
}

Check count() { return whole_number(1, 1'000'000'000); }
Check threads() { return whole_number(0, 4096); }

namespace {

Check from(const CLI::Validator& validator) {
  return {validator.get_description(), [=](const std::string& text) { return validator(text); }};
}

}  // namespace

Check not_empty() {
  return {"TEXT",
          [](const std::string& text) -> std::string { return text.empty() ? "it is empty" : ""; }};
}
Check one_of(const std::vector<std::string>& values) { return from(CLI::IsMember(values)); }
Check existing_path() { return from(CLI::ExistingPath); }

CommandLine::CommandLine(const std::string& about, const std::string& footer)
    : owned_(std::make_unique<CLI::App>(about)), app_(owned_.get()) {
  app_->option_defaults()->always_capture_default();
  app_->footer(footer);
}
CommandLine::CommandLine(CLI::App* command) : app_(command) {}
CommandLine::~CommandLine() = default;

template <class T>
CLI::Option* CommandLine::add_value(const std::string& name, T& value, const std::string& help,
                                    const Check& check) {
  CLI::Option* option = app_->add_option(name, value, help);
  if constexpr (!requires { value.push_back({}); } || std::is_same_v<T, std::string>)
    option->take_last();
  if (check.complaint) {
    option->check(CLI::Validator(
        [complaint = check.complaint](std::string& text) { return complaint(text); }, check.is));
  }
  return option;
}

void CommandLine::add(const std::string& name, bool& value, const std::string& help) {
  app_->add_flag(name, value, help)->take_last();
}
void CommandLine::add(const std::string& name, std::string& value, const std::string& help,
                      const Check& check) {
  add_value(name, value, help, check);
}
void CommandLine::add(const std::string& name, int& value, const std::string& help,
                      const Check& check) {
  add_value(name, value, help, check);
}
void CommandLine::add(const std::string& name, std::int64_t& value, const std::string& help,
                      const Check& check) {
  add_value(name, value, help, check);
}
void CommandLine::add(const std::string& name, std::uint64_t& value, const std::string& help,
                      const Check& check) {
  add_value(name, value, help, check);
}
void CommandLine::add(const std::string& name, double& value, const std::string& help,
                      const Check& check) {
  add_value(name, value, help, check);
}
void CommandLine::add(const std::string& name, std::vector<std::int64_t>& values,
                      const std::string& help, const Check& check) {
  add_value(name, values, help, check)->delimiter(',');
}
void CommandLine::add(const std::string& name, std::vector<std::string>& values,
                      const std::string& help, const Check& check) {
  add_value(name, values, help, check)->delimiter(',');
}
void CommandLine::add_each(const std::string& name, std::vector<std::string>& values,
                           const std::string& help) {
  add_value(name, values, help, {})->allow_extra_args(false);
}
void CommandLine::add_required(const std::string& name, std::string& value,
                               const std::string& help) {
  add_value(name, value, help, {})->required();
}

CommandLine& CommandLine::add_command(const std::string& name, const std::string& help) {
  app_->require_subcommand(1);
  commands_.push_back(
      std::unique_ptr<CommandLine>(new CommandLine(app_->add_subcommand(name, help))));
  return *commands_.back();
}

bool CommandLine::given() const { return app_->parsed(); }
bool CommandLine::given(const std::string& name) const { return app_->count(name) > 0; }

std::optional<CommandLine::End> CommandLine::read(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return End{0, app_->help()};
  } catch (const CLI::ExtrasError&) {
    std::string unknown;  // CLI11 prints them in reverse order
    for (const std::string& word : app_->remaining(true)) unknown += " " + word;
    return End{2, concat("not expected:", unknown, "; --help lists the flags")};
  } catch (const CLI::ParseError& error) {
    return End{2, concat(error.what(), "; --help lists the flags")};
  }
  return std::nullopt;
}

std::optional<int> CommandLine::parse(int argc, char** argv) {
  const auto end = read(argc, argv);
  if (!end) return std::nullopt;
  if (end->status == 0) {
    std::fputs(end->text.c_str(), stdout);
  } else {
    std::fprintf(stderr, "error: %s\n", printable(end->text, "\n").c_str());
  }
  return end->status;
}

int run_program(int argc, char** argv, int (*program)(int argc, char** argv)) {
  try {
    backend(Device::cpu());  // reads RONDO_ISA, RONDO_CONV, …; no file or flag gets the blame
    const int status = program(argc, argv);
    std::cout.flush();
    require<IoError>(std::cout.good(), "standard output cannot be written");
    return status;
  } catch (const std::exception& error) {
    std::cerr << "error: " << printable(error.what(), "\n") << std::endl;
    return 2;
  }
}

}  // namespace rondo::flags
