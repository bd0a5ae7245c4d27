#pragma once
// CommandLine: the flags of a program, and checks of their values. CLI11 does the work, in one .cpp
// file, because its headers take longer to compile than most programs here.
//
//   std::int64_t batch = 128;
//   flags::CommandLine line("Times one training step.");
//   line.add("--batch", batch, "images in a step", flags::count());
//   if (auto status = line.parse(argc, argv)) return *status;

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace rondo::flags {

/// A condition on a value.
struct Check {
  std::string is;  // the condition in words, for --help: "above 0"
  /// Returns the error message for a value's text, or "".
  std::function<std::string(const std::string& text)> complaint;
};

/// Finite numbers that satisfy `holds`; `is` describes them in words: "above 0".
Check number_that(bool (*holds)(double), const std::string& is);
Check positive();
Check not_negative();
Check whole_number(std::uint64_t least, std::uint64_t most);
/// For images per batch, steps, rounds.
Check count();
/// The number of OpenMP threads, 0 for all. The limit matters because libgomp ends the program if
/// it cannot start that many threads.
Check threads();
/// An empty path or list is an error (a mistake in a script), not a request for the default.
Check not_empty();
Check one_of(const std::vector<std::string>& values);
Check existing_path();

class CommandLine {
 public:
  /// --help prints `about` first and `footer` last.
  explicit CommandLine(const std::string& about, const std::string& footer = "");
  ~CommandLine();

  /// A flag without a value; "--overlap,!--no-overlap" can also be turned off.
  void add(const std::string& name, bool& value, const std::string& help);
  /// A flag with a value; the initial `value` is the default. If the flag is repeated, the last one
  /// counts.
  void add(const std::string& name, std::string& value, const std::string& help,
           const Check& check = {});
  void add(const std::string& name, int& value, const std::string& help, const Check& check = {});
  void add(const std::string& name, std::int64_t& value, const std::string& help,
           const Check& check = {});
  void add(const std::string& name, std::uint64_t& value, const std::string& help,
           const Check& check = {});
  void add(const std::string& name, double& value, const std::string& help,
           const Check& check = {});
  /// Several values, separated by commas or given with repeated flags.
  void add(const std::string& name, std::vector<std::int64_t>& values, const std::string& help,
           const Check& check = {});
  void add(const std::string& name, std::vector<std::string>& values, const std::string& help,
           const Check& check = {});
  /// Several values, given with repeated flags; a comma is part of a value.
  void add_each(const std::string& name, std::vector<std::string>& values, const std::string& help);
  /// A required value without a flag.
  void add_required(const std::string& name, std::string& value, const std::string& help);

  /// A subcommand, followed by its flags: `rondo-weights ls FILE`. Exactly one must be given.
  CommandLine& add_command(const std::string& name, const std::string& help);
  /// Whether this command, or the flag with that name, was given.
  bool given() const;
  bool given(const std::string& name) const;

  /// A reason to exit before starting: the text of --help, or an error.
  struct End {
    int status;  // 0, or 2 for a wrong flag
    std::string text;
  };
  std::optional<End> read(int argc, char** argv);
  /// Calls read() and prints the text of End. Returns the exit status if the program must end.
  std::optional<int> parse(int argc, char** argv);

 private:
  explicit CommandLine(CLI::App* command);
  template <class T>
  CLI::Option* add_value(const std::string& name, T& value, const std::string& help,
                         const Check& check);

  std::unique_ptr<CLI::App> owned_;
  CLI::App* app_;
  std::vector<std::unique_ptr<CommandLine>> commands_;
};

/// The main of a program that prints results: calls `program`. Prints the error of an exception and
/// returns 2; so it does if standard output cannot be written.
int run_program(int argc, char** argv, int (*program)(int argc, char** argv));

}  // namespace rondo::flags
