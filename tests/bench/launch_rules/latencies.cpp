// Rules that say when something begins.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/bench/launch_rules/launch_rules_cuda.h"
#include "tests/bench/support/rounds.h"

namespace launch_rules {

using namespace sluice;
using Clock = std::chrono::steady_clock;

void bursts(bench::Report& report, Device device) {
  const int count = sized(report, 200, 3);
  struct Burst {
    int size;
    unsigned microseconds;
  };
  for (const auto [size, microseconds] :
       {Burst{3, 0}, Burst{8, 0}, Burst{20, 0}, Burst{100, 0}, Burst{8, 8}, Burst{20, 8}, Burst{100, 8}}) {
    const std::string workload = message("start-", size, microseconds == 0 ? "" : "-8us");
    if (!report.wants(workload, "engine"))
      continue;
    Engine engine(bench::launched(LaunchMode::batch));
    Items items(engine, device, 1);
    const auto all = [&] {
      for (int burst = 0; burst < count; ++burst) {
        for (int i = 0; i < size; ++i)
          items.push_next({.microseconds = microseconds});
        engine.wait(items.var(0));
      }
    };
    bench::compare(report, workload, count, "burst", {{"engine", all, [] {}}});
    items.check(report, workload);
  }
}

void forgotten(bench::Report& report, Device device) {
  if (!report.wants("stale", "engine"))
    return;
  constexpr double k_patience = 20000;  // us; longer is never
  const bench::PinnedArray<std::uint64_t> word(1);
  Engine engine(bench::launched(LaunchMode::batch));
  Items items(engine, device, 1);
  const Var word_var = engine.new_var({.home = device});
  std::vector<double> taken;
  int unanswered = 0;
  const int samples = sized(report, 20, 3);
  for (int sample = -2; sample < samples; ++sample) {
    const auto value = static_cast<std::uint64_t>(sample + 3);
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < 9; ++i)
      items.push_next();
    engine.push(
        {.name = "answer", .device = device, .access = {read(items.var(0)), out(word_var)}, .capturable = true},
        [to = word.data(), value](Queue queue) { bench::launch_publish(queue.stream(), to, value); });
    double waited = 0;
    while (static_cast<const volatile std::uint64_t&>(word[0]) != value && waited < k_patience)
      waited = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    engine.wait_all();
    report.expect(word[0] == value, "stale: answer");
    if (sample < 0)
      continue;
    unanswered += waited >= k_patience ? 1 : 0;
    taken.push_back(std::min(waited, k_patience));
  }
  std::sort(taken.begin(), taken.end());
  report.add("stale", "engine", "latency", taken[taken.size() / 2], "us", taken[0]);
  report.add("stale", "engine", "unanswered", unanswered, message("of-", samples));
  items.check(report, "stale");
}

}  // namespace launch_rules
