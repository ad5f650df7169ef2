// What the watchdog takes for a hang, second by second.
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/progress_judge.h"

using sluice::test::ProgressJudge;
using Verdict = ProgressJudge::Verdict;

namespace {

/// Seconds until `judge` says something, at most `most`, while each second uses `cpu` and takes `steps` steps.
int seconds_until_verdict(ProgressJudge& judge, double cpu, double steps, Verdict expected, int most = 100000) {
  for (int second = 1; second <= most; ++second) {
    const Verdict verdict = judge.tick(static_cast<std::uint64_t>(second * steps), second * cpu);
    if (verdict != Verdict::going) {
      CHECK(verdict == expected);
      return second;
    }
  }
  return 0;
}

}  // namespace

TEST_CASE("A test that uses no CPU time and asserts nothing is idle after its limit", "[progress]") {
  ProgressJudge judge({.idle_seconds = 60, .idle_share = 0.05, .cpu_seconds = 300});
  CHECK(seconds_until_verdict(judge, 0, 0, Verdict::idle) == 61);  // the first second begins the watch
}

TEST_CASE("Workers that look up every millisecond do not hide a hang", "[progress]") {
  ProgressJudge judge({.idle_seconds = 60, .idle_share = 0.05, .cpu_seconds = 300});
  CHECK(seconds_until_verdict(judge, 0.02, 0, Verdict::idle) == 61);
}

TEST_CASE("A test that gets a tenth of a core is left alone until it has used its CPU time", "[progress]") {
  ProgressJudge judge({.idle_seconds = 60, .idle_share = 0.05, .cpu_seconds = 300});
  CHECK(seconds_until_verdict(judge, 0.1, 0, Verdict::turning) > 2990);
}

TEST_CASE("A test that turns on two cores ends after its CPU time", "[progress]") {
  ProgressJudge judge({.idle_seconds = 60, .idle_share = 0.05, .cpu_seconds = 300});
  CHECK(seconds_until_verdict(judge, 2, 0, Verdict::turning) == 151);
}

TEST_CASE("A test that asserts now and then may take as long as it likes", "[progress]") {
  ProgressJudge judge({.idle_seconds = 60, .idle_share = 0.05, .cpu_seconds = 300});
  CHECK(seconds_until_verdict(judge, 0, 1.0 / 50, Verdict::going, 10000) == 0);
  ProgressJudge busy({.idle_seconds = 60, .idle_share = 0.05, .cpu_seconds = 300});
  CHECK(seconds_until_verdict(busy, 2, 1.0 / 100, Verdict::going, 10000) == 0);
}

TEST_CASE("A test that waits for a processor is not idle, and a hang is seen on a busy machine too", "[progress]") {
  const auto seconds = [](double cpu_a_second, double delay_a_second, Verdict expected) {
    ProgressJudge judge({.idle_seconds = 60, .idle_share = 0.05, .cpu_seconds = 300});
    int second = 1;
    Verdict verdict = Verdict::going;
    while (verdict == Verdict::going && second < 100000) {
      verdict = judge.tick(1, second * cpu_a_second, second * delay_a_second);
      ++second;
    }
    CHECK(verdict == expected);
    return second - 1;
  };
  CHECK(seconds(0.02, 0.98, Verdict::turning) > 14000);  // less than a share of 0.05, as what it may have is less
  CHECK(seconds(0.02, 0.5, Verdict::idle) == 121);
  CHECK(seconds(0.001, 4, Verdict::idle) >= 600);  // workers that look up, and find no processor to do so
  CHECK(seconds(0.001, 4, Verdict::idle) <= 602);
  ProgressJudge judge({.idle_seconds = 60, .idle_share = 0.05, .cpu_seconds = 300});
  int ticks = 1;
  // Threads end, and what they waited with them.
  while (judge.tick(1, 0, 1000 - ticks) == Verdict::going && ticks < 1000)
    ++ticks;
  CHECK(ticks == 61);
}

TEST_CASE("Work long ago does not hide that a test hangs now", "[progress]") {
  ProgressJudge judge({.idle_seconds = 60, .idle_share = 0.05, .cpu_seconds = 300});
  for (int second = 1; second <= 100; ++second)
    REQUIRE(judge.tick(1, second) == Verdict::going);
  int more = 1;
  while (judge.tick(1, 100) == Verdict::going && more < 1000)
    ++more;
  CHECK(more <= 120);  // the rest of the window that was begun, and one more
}

TEST_CASE("A test that does nothing for some seconds is quiet once, and again after it has gone on", "[progress]") {
  ProgressJudge judge({.quiet_seconds = 5, .idle_seconds = 60, .idle_share = 0.05, .cpu_seconds = 300});
  const auto quiet_at = [&](std::uint64_t step, double cpu_a_second) {
    std::vector<int> seconds;
    for (int second = 0; second < 20; ++second) {
      REQUIRE(judge.tick(step, second * cpu_a_second) == Verdict::going);
      if (judge.became_quiet())
        seconds.push_back(second);
    }
    return seconds;
  };
  CHECK(quiet_at(1, 0.01) == std::vector<int>{5});
  CHECK(quiet_at(2, 0.5).empty());  // it computes
  CHECK(quiet_at(3, 0.01) == std::vector<int>{5});
  ProgressJudge never({.quiet_seconds = 0});
  for (int second = 0; second < 20; ++second) {
    never.tick(1, 0);
    CHECK(!never.became_quiet());
  }
}
