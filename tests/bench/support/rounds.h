#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/bench/support/bench.h"

namespace sluice::bench {

/// One way to do the work that several ways are compared on.
struct Contender {
  std::string variant;
  std::function<void()> push;             // the host's part
  std::function<void()> finish;           // returns when the work is done
  std::function<void()> prepare = [] {};  // before each round, not timed
};

/// Readings of one contender, in seconds, sorted.
struct Rounds {
  std::vector<double> host, wall;

  static double median(const std::vector<double>& values) { return values[values.size() / 2]; }
};

/// Times the contenders in turns, so that whatever changes meanwhile meets all of them: two rounds to warm up, then as
/// many as --repeats says, each of which begins with another one.
inline std::vector<Rounds> take_turns(const Report& report, const std::vector<Contender>& contenders) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  constexpr int k_warmup = 2;
  const int rounds = report.options().smoke ? 2 : report.options().repeats;
  std::vector<Rounds> readings(contenders.size());
  for (int round = -k_warmup; round < rounds; ++round) {
    for (std::size_t k = 0; k < contenders.size(); ++k) {
      const std::size_t who = (k + static_cast<std::size_t>(round + k_warmup)) % contenders.size();
      contenders[who].prepare();
      const Clock::time_point start = Clock::now();
      contenders[who].push();
      const double host = since(start);
      contenders[who].finish();
      const double wall = since(start);
      if (round < 0)
        continue;
      readings[who].host.push_back(host);
      readings[who].wall.push_back(wall);
    }
  }
  for (Rounds& reading : readings) {
    std::sort(reading.host.begin(), reading.host.end());
    std::sort(reading.wall.begin(), reading.wall.end());
  }
  return readings;
}

/// Takes turns, and reports for each contender the host's time and the whole time of one of `count` items, in us.
/// Returns the whole times, by variant; those that --filter leaves out are not there.
inline std::map<std::string, double> compare(
    Report& report,
    const std::string& workload,
    double count,
    const std::string& item,
    std::vector<Contender> contenders) {
  std::erase_if(contenders, [&](const Contender& one) { return !report.wants(workload, one.variant); });
  const std::vector<Rounds> readings = take_turns(report, contenders);
  std::map<std::string, double> walls;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    const auto add = [&](const std::string& what, const std::vector<double>& seconds) {
      const double scale = 1e6 / count, median = Rounds::median(seconds) * scale;
      report.add(workload, contenders[i].variant, what + item, median, "us", seconds[0] * scale);
      return median;
    };
    add("host-per-", readings[i].host);
    walls[contenders[i].variant] = add("wall-per-", readings[i].wall);
  }
  return walls;
}

}  // namespace sluice::bench
