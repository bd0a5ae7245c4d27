#pragma once
// CommandLine: the flags of a program, and what it asks of their values. CLI11 does the work, in
// one .cpp: its headers take longer to compile than most programs here.
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
  std::string is;  // in words, for --help: "above 0"
  /// The error for the text of a value, or "".
  std::function<std::string(const std::string& text)> complaint;
};

/// Finite numbers for which `holds`; `is` says in words what they are: "above 0".
Check number_that(bool (*holds)(double), const std::string& is);
Check positive();
Check not_negative();
Check whole_number(std::uint64_t least, std::uint64_t most);
/// Images in a batch, steps, rounds.
Check count();
/// OpenMP threads, 0 for all: libgomp ends the program where it cannot start as many as it is told.
Check threads();
/// A path or a list that a script left empty is a mistake, not a wish for the default.
Check not_empty();
Check one_of(const std::vector<std::string>& values);
Check existing_path();

class CommandLine {
 public:
  /// `about` and `footer` begin and end the text of --help.
  explicit CommandLine(const std::string& about, const std::string& footer = "");
  ~CommandLine();

  /// A flag that is given alone; "--overlap,!--no-overlap" may also be switched off.
  void add(const std::string& name, bool& value, const std::string& help);
  /// A flag with a value; what `value` holds is its default. The last of several counts.
  void add(const std::string& name, std::string& value, const std::string& help,
           const Check& check = {});
  void add(const std::string& name, int& value, const std::string& help, const Check& check = {});
  void add(const std::string& name, std::int64_t& value, const std::string& help,
           const Check& check = {});
  void add(const std::string& name, std::uint64_t& value, const std::string& help,
           const Check& check = {});
  void add(const std::string& name, double& value, const std::string& help,
           const Check& check = {});
  /// Several values, with commas between them or by several flags.
  void add(const std::string& name, std::vector<std::int64_t>& values, const std::string& help,
           const Check& check = {});
  void add(const std::string& name, std::vector<std::string>& values, const std::string& help,
           const Check& check = {});
  /// Several values by several flags; a comma is a part of a value.
  void add_each(const std::string& name, std::vector<std::string>& values, const std::string& help);
  /// A value without a flag, which must be there.
  void add_required(const std::string& name, std::string& value, const std::string& help);

  /// A command, whose flags follow it: `rondo-weights ls FILE`. Exactly one must be given.
  CommandLine& add_command(const std::string& name, const std::string& help);
  /// Was this command, or the flag of that name, given?
  bool given() const;
  bool given(const std::string& name) const;

  /// The program must end before it begins: the text of --help, or an error.
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

}  // namespace rondo::flags
