// The main of every test executable: any failure exits with 1 (Catch2 returns the number of failures, and 77 of them
// would read as "skipped"), 77 when all ran test cases were skipped. The last line gives the honest count.
#if !__has_include(<catch2/catch_all.hpp>)
#define CATCH_CONFIG_RUNNER
#endif
#include <cstdio>
#include <set>
#include <string>

#include "tests/support/catch.h"

namespace {

std::set<std::string> skipped_cases;
std::string running_case;
int passed = 0, failed = 0;

#if __has_include(<catch2/catch_all.hpp>)
using ListenerBase = Catch::EventListenerBase;
#else
using ListenerBase = Catch::TestEventListenerBase;
#endif

struct Counter : ListenerBase {
  using ListenerBase::ListenerBase;
  void testCaseStarting(const Catch::TestCaseInfo& info) override { running_case = info.name; }
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    if (stats.totals.assertions.failed > 0) {
      ++failed;
      skipped_cases.erase(running_case);
    } else if (!skipped_cases.contains(running_case)) {
      ++passed;
    }
  }
};
CATCH_REGISTER_LISTENER(Counter)

}  // namespace

namespace sluice::test {
void note_skip(const std::string& reason) {
  if (skipped_cases.insert(running_case).second) {
    std::printf("SKIPPED: %s: %s\n", running_case.c_str(), reason.c_str());
  }
}
}  // namespace sluice::test

int main(int argc, char** argv) {
  const int catch_result = Catch::Session().run(argc, argv);
  const int skipped = static_cast<int>(skipped_cases.size());
  std::printf("test cases: %d passed, %d failed, %d skipped\n", passed, failed, skipped);
  if (failed > 0 || (catch_result != 0 && passed + skipped > 0))
    return 1;
  if (catch_result != 0)
    return 1;
  return passed == 0 && skipped > 0 ? 77 : 0;
}
