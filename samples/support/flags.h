#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sluice/engine/device.h>

// CLI11 takes longer to compile than most samples: flags.cpp alone includes it.
namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace samples {

/// What a flag takes.
struct Check {
  std::function<std::string(const std::string& text)> refusal;  // what is wrong with the text; "": nothing
  std::string what = {};                                        // for --help
};

/// Takes whole numbers from `low` to `high`, and says so.
Check whole_within(std::int64_t low, std::int64_t high);

/// Takes what std::uint64_t holds; CLI11 alone wraps -1 round.
Check whole_number();

/// Refuses "", which an unset variable of a shell leaves.
Check a_name();

/// Ends of a range of numbers; an open one does not belong to it.
struct Span {
  double low = 0, high = std::numeric_limits<double>::max();
  bool open_low = false, open_high = false;
};
/// Takes finite numbers within the span; CLI11's own checks let NaN through.
Check finite_within(Span span);

/// A flag of a command line, for what else is to be said of it.
class Flag {
 public:
  explicit Flag(CLI::Option& option) noexcept : option_(option) {}
  Flag& check(Check check);
  Flag& one_of(std::vector<std::string> words);
  /// Takes from `least` to `most` values, between commas too.
  Flag& several(int least, int most);
  Flag& required();
  /// Both name another flag of the command line, which is there already.
  Flag& needs(const std::string& other);
  Flag& excludes(const std::string& other);
  /// --help calls the value so.
  Flag& value_name(const std::string& name);
  /// --help tells what holds without the flag.
  Flag& with_default();

 private:
  CLI::Option& option_;
};

/// The flags of a program, and what was given of them.
class CommandLine {
 public:
  /// `about` is what --help says.
  explicit CommandLine(const std::string& about);
  ~CommandLine();

  /// A flag, or without dashes a place, that sets `value`, which must outlive the parsing. T: a number, a text, a path,
  /// an optional number, or a vector of numbers or texts.
  template <class T>
  Flag add_option(const std::string& name, T& value, const std::string& about);
  /// A flag without a value.
  Flag add_flag(const std::string& name, bool& value, const std::string& about);
  /// The flag --device.
  void add_device_flag(sluice::Device& device);
  /// A flag that was added.
  Flag flag(const std::string& name);

  /// Runs when all flags are read. It may refuse them.
  void when_parsed(std::function<void()> judge);
  /// Ends the parsing: what is wrong with the flag.
  [[noreturn]] static void refuse(const std::string& flag, const std::string& why);

  /// Reads the command line. The exit code if the program is to end, which was told why: 0 after --help, 2 for wrong
  /// flags.
  std::optional<int> parse(int argc, const char* const* argv);

  /// Whether there is such a flag.
  bool has(const std::string& name) const;
  /// Whether the command line had it.
  bool given(const std::string& name) const;
  /// As if `text` had been given with the flag, with all its checks. What is wrong with it, if anything.
  std::optional<std::string> give(const std::string& name, const std::string& text);

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace samples
