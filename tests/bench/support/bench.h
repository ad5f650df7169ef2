#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/engine/device.h>

// CLI11 takes longer to compile than most benchmarks: bench.cpp alone includes it.
namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace sluice::bench {

/// What every benchmark takes on its command line.
struct Options {
  std::string json;    // file that gets the measurements too
  std::string filter;  // only workloads and variants that contain it
  std::string device_name = "cpu";
  int repeats = 7;
  bool smoke = false;  // tiny sizes: results are checked, times mean nothing
  Device device;       // from device_name
};

/// Seconds for one step.
struct Timing {
  double median = 0;
  double min = 0;
  double processor = 0;  // that all threads computed, of the block with the least
};

/// A flag of a benchmark's own, for what else is to be said of it.
class Flag {
 public:
  explicit Flag(CLI::Option& option) noexcept : option_(option) {}
  /// Of numbers (T: int or double), both ends included.
  template <class T>
  Flag& range(T least, T most);
  Flag& one_of(std::vector<std::string> words);
  /// Names a file or folder that is there.
  Flag& exists();
  /// --help tells what holds without the flag.
  Flag& with_default();

 private:
  CLI::Option& option_;
};

/// Parses the command line, prints a line a measurement, `workload variant metric value unit`, and writes JSON at the
/// end. A result that is not what it should be makes the benchmark fail.
class Report {
 public:
  /// `about` is what --help says.
  Report(std::string name, std::string about);
  ~Report();

  /// A flag of the benchmark's own, before parse(). T: bool, a number, a text, or a vector of int or double.
  template <class T>
  Flag flag(const std::string& name, T& value, const std::string& about);
  /// Whether the command line has that flag.
  bool given(const std::string& name) const;
  /// Reads the command line. True if the benchmark is to run; otherwise exit_code() says how to end.
  bool parse(int argc, char** argv);
  const Options& options() const noexcept { return options_; }

  bool wants(std::string_view workload, std::string_view variant = "") const;

  /// Times `repeats` blocks of `steps` calls of `step`; each block ends with `finish`, which waits for the work.
  /// A warm-up of `warmup` steps goes before. Smoke runs take two blocks of one step.
  Timing time(int steps, int warmup, const std::function<void()>& step, const std::function<void()>& finish) const;

  /// `value` as measured; `best` is the same figure of the best block (0 = there is none).
  void add(
      const std::string& workload,
      const std::string& variant,
      const std::string& metric,
      double value,
      const std::string& unit,
      double best = 0);
  /// Counts a wrong result, and says so.
  void expect(bool good, const std::string& what);

  /// Writes the JSON file; the exit code of the benchmark.
  int finish();
  int exit_code() const noexcept { return exit_code_; }

 private:
  struct Line {
    std::string workload, variant, metric;
    double value;
    std::string unit;
    double best;
  };

  std::string name_;
  std::unique_ptr<CLI::App> app_;
  Options options_;
  std::vector<Line> lines_;
  int exit_code_ = 0;
};

}  // namespace sluice::bench
