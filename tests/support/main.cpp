// The main of every test executable: any failure exits with 1 (Catch2 returns the number of failures, and 77 of them
// would read as "skipped"), as does a filter that matches no test case, 77 when all ran test cases were skipped. The
// last line gives the honest count, also where the program ends by a signal or the watchdog.
#if !__has_include(<catch2/catch_all.hpp>)
#define CATCH_CONFIG_RUNNER
#endif
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/counts.h"

namespace {

std::set<std::string> skipped_cases;
std::string running_case;
std::mutex failures_mutex;
std::vector<std::string> failures;  // a line each, printed at the end too: of a long log one may only see that
std::atomic<int> passed{0}, failed{0}, skipped{0};
std::atomic<bool> is_printed{false};
bool is_asked_in_vain = false;  // for cases, of which none is here

#if __has_include(<catch2/catch_all.hpp>)
using ListenerBase = Catch::EventListenerBase;
using AssertionAnswer = void;
#else
using ListenerBase = Catch::TestEventListenerBase;
using AssertionAnswer = bool;
#endif

void note_failure(const std::string& what) {
  constexpr std::size_t most = 20, longest = 300;
  const std::scoped_lock lock(failures_mutex);  // the watchdog prints them from a thread of its own
  if (failures.size() == most)
    return;
  std::string line = ("FAILED: " + running_case + ": " + what).substr(0, longest);
  std::replace(line.begin(), line.end(), '\n', ' ');
  failures.push_back(std::move(line));
}

std::string told(const Catch::AssertionResult& result) {
  const auto& at = result.getSourceInfo();
  return std::string(at.file) + ":" + std::to_string(at.line) + ": " + std::string(result.getExpandedExpression()) +
         " " + std::string(result.getMessage());
}

// Of the case that has just ended; its later assertions would belong to the next one.
bool is_noticed() {
  const std::string what = sluice::test::take_noticed == nullptr ? "" : sluice::test::take_noticed();
  if (!what.empty())
    note_failure(what);
  return !what.empty();
}

struct Counter : ListenerBase {
  using ListenerBase::ListenerBase;
  void testCaseStarting(const Catch::TestCaseInfo& info) override { running_case = info.name; }
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    if (is_noticed() || stats.totals.assertions.failed > 0) {
      ++failed;
      skipped_cases.erase(running_case);
    } else if (!skipped_cases.contains(running_case)) {
      ++passed;
    }
    skipped = static_cast<int>(skipped_cases.size());
  }
  // A fatal signal: Catch reports, ends the run and lets the program die of it, so that main comes to no end.
  AssertionAnswer assertionEnded(const Catch::AssertionStats& stats) override {
    if (!stats.assertionResult.isOk())
      note_failure(told(stats.assertionResult));
    is_fatal_ = is_fatal_ || stats.assertionResult.getResultType() == Catch::ResultWas::FatalErrorCondition;
    return static_cast<AssertionAnswer>(false);
  }
  void testRunEnded(const Catch::TestRunStats&) override {
    is_asked_in_vain = m_config->hasTestFilters() && running_case.empty();
    if (is_fatal_)
      sluice::test::print_counts(false);
  }

 private:
  bool is_fatal_ = false;
};
CATCH_REGISTER_LISTENER(Counter)

}  // namespace

namespace sluice::test {
void note_skip(const std::string& reason) {
  if (skipped_cases.insert(running_case).second) {
    std::printf("SKIPPED: %s: %s\n", running_case.c_str(), reason.c_str());
  }
}

void print_counts(bool one_more_failed) {
  if (is_printed.exchange(true))
    return;
  if (one_more_failed)
    ++failed;
  const std::scoped_lock lock(failures_mutex);
  for (const std::string& line : failures)
    std::printf("%s\n", line.c_str());
  std::printf("\ntest cases: %d passed, %d failed, %d skipped\n", passed.load(), failed.load(), skipped.load());
  std::fflush(stdout);
}
}  // namespace sluice::test

int main(int argc, char** argv) {
  const int catch_result = Catch::Session().run(argc, argv);
  if (is_asked_in_vain)
    std::printf("\nno test case is what was asked for\n");
  sluice::test::print_counts(false);
  if (failed > 0 || catch_result != 0 || is_asked_in_vain)
    return 1;
  return passed == 0 && skipped > 0 ? 77 : 0;
}
