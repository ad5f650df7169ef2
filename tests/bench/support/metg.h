#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/bench/support/task_grid.h"

// How much of a machine's work rate a task system keeps as its tasks get shorter, and METG(50 %), the shortest task at
// which it keeps half: measured in the same way for every system.
namespace metg {

using task_grid::Cells;
using task_grid::Grid;

struct Settings {
  int threads = 0;  // in all, the pushing one included
  int width = 0;
  int repeats = 5;
  bool smoke = false;
};

/// A task system under test.
class System {
 public:
  /// Not timed: what the system may do once for many runs.
  virtual void prepare(const Grid&, std::uint64_t* /*cells*/, std::int64_t /*turns*/) {}
  /// Timed: pushes all points of the grid and waits for them.
  virtual void run(const Grid& grid, std::uint64_t* cells, std::int64_t turns) = 0;

 protected:
  ~System() = default;
};

/// Takes (workload, metric, value, unit).
using Add = std::function<void(const std::string&, const std::string&, double, const std::string&)>;

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Turns of work() in a second that `threads` plain threads do together.
inline double plain_rate(int threads, double seconds) {
  std::atomic<int> missing{threads};
  std::vector<double> rates(static_cast<std::size_t>(threads));
  auto body = [&](double& rate) {
    missing.fetch_sub(1);
    while (missing.load() > 0)
      std::this_thread::yield();
    constexpr int k_turns = 2000;
    const auto start = std::chrono::steady_clock::now();
    double turns = 0, taken = 0;
    for (; taken < seconds; taken = seconds_since(start), turns += k_turns)
      task_grid::work(k_turns);
    rate = turns / taken;
  };
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < rates.size(); ++i)
    others.emplace_back([&, i] { body(rates[i]); });
  body(rates[0]);
  double sum = rates[0];
  for (std::size_t i = 1; i < rates.size(); ++i) {
    others[i - 1].join();
    sum += rates[i];
  }
  return sum;
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Seconds of one run, the median of some; sets `good` to false if a result is not the serial one.
inline double time_runs(const Settings& settings, System& system, const Grid& grid, std::int64_t turns, bool& good) {
  Cells cells(2 * static_cast<std::size_t>(grid.width));
  const std::uint64_t expected = task_grid::serial_checksum(grid);
  std::vector<double> seconds;
  system.prepare(grid, cells.data(), turns);
  for (int i = settings.smoke ? 0 : -1; i < (settings.smoke ? 1 : settings.repeats); ++i) {
    std::fill(cells.begin(), cells.end(), 0);
    const auto start = std::chrono::steady_clock::now();
    system.run(grid, cells.data(), turns);
    if (i >= 0)
      seconds.push_back(seconds_since(start));
    good = good && task_grid::checksum(cells) == expected;
  }
  return median(seconds);
}

/// One body length: its turns, and the share of the peak rate that was kept.
struct Reading {
  double turns = 0, efficiency = 0;
};

/// Turns at which the efficiency, seen from long bodies to short ones, first falls below a half; 0 if never reached.
inline double turns_at_half(const std::vector<Reading>& readings) {
  std::size_t i = readings.size() - 1;
  if (readings[i].efficiency < 0.5)
    return 0;
  while (i > 0 && readings[i - 1].efficiency >= 0.5)
    --i;
  if (i == 0)
    return readings[0].turns;
  const Reading &low = readings[i - 1], &high = readings[i];
  const double share = (0.5 - low.efficiency) / (high.efficiency - low.efficiency);
  return low.turns + share * (high.turns - low.turns);
}

/// Measures one pattern over all body lengths. False if a result was wrong.
inline bool sweep(const Settings& settings, const std::string& name, System& system, const Add& add) {
  const double block = settings.smoke ? 0.001 : 0.025;
  const std::vector<double> lengths =
      settings.smoke ? std::vector<double>{0, 1, 10} : std::vector<double>{0, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100};
  const double one = plain_rate(1, block);
  std::vector<double> rates;
  for (int i = 0; i < (settings.smoke ? 1 : 5); ++i)
    rates.push_back(plain_rate(settings.threads, block));
  const double peak = median(rates);
  std::vector<Reading> readings;
  bool good = true;
  double per_task = 0;  // core time, us
  for (double length : lengths) {
    const auto turns = static_cast<std::int64_t>(length * 1e-6 * one);
    // As many tasks as a cheap system runs in one block; guesses of its costs only choose the size of the run.
    const double guess = 0.4e-6 + (name == "all-to-all" ? 0.05e-6 * settings.width : 0);
    const double tasks = std::min(100e3, settings.threads * block / (length * 1e-6 + guess));
    const Grid grid = task_grid::make_grid(name, settings.width, static_cast<std::size_t>(tasks));
    const double seconds = time_runs(settings, system, grid, turns, good);
    const auto count = static_cast<double>(grid.points.size());
    per_task = settings.threads * seconds / count * 1e6;
    readings.push_back({static_cast<double>(turns), count * static_cast<double>(turns) / seconds / peak});
    std::string text = std::to_string(length);
    text.erase(text.find('.') + (length < 1 && length > 0 ? 2 : 0));
    if (length == 0)
      add(name, "empty-task", per_task, "us");
    else
      add(name, "efficiency-" + text + "us", readings.back().efficiency, "share");
  }
  const double turns = turns_at_half(readings);
  if (turns > 0)
    add(name, "metg50", 2 * turns * settings.threads / peak * 1e6, "us");
  else
    add(name, "metg50-above", per_task, "us");  // not even the longest body keeps half
  return good;
}

/// The width asked for, as a power of two; by default one that gives each thread work twice over.
inline int usable_width(int asked, int threads) {
  const int wanted = asked > 0 ? asked : 2 * threads;
  int width = asked > 0 ? 2 : 16;
  while (width < wanted)
    width *= 2;
  return width;
}

}  // namespace metg
