// A test case that makes no end is a failure with a name, not a time-out of the whole program (T13).
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "tests/support/catch.h"
#include "tests/support/scale.h"

namespace {

#if __has_include(<catch2/catch_all.hpp>)
using ListenerBase = Catch::EventListenerBase;
#else
using ListenerBase = Catch::TestEventListenerBase;
#endif

constexpr int k_limit_seconds = sluice::test::k_slowdown > 1 ? 300 : 150;

/// One thread that ends the program when nobody reports for too long.
class Watchdog {
 public:
  Watchdog() : thread_([this] { watch(); }) {}
  ~Watchdog() {
    stop_ = true;
    thread_.join();
  }
  void starts(const std::string& name) {
    std::snprintf(name_, sizeof name_, "%s", name.c_str());
    quarter_seconds_ = 0;
  }

 private:
  void watch() {
    while (!stop_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(250));
      if (++quarter_seconds_ > 4 * k_limit_seconds) {
        std::fprintf(stderr, "HANG: test case \"%s\" has not ended after %d s\n", name_, k_limit_seconds);
        std::_Exit(1);
      }
    }
  }

  char name_[256] = "";
  std::atomic<bool> stop_{false};
  std::atomic<int> quarter_seconds_{0};
  std::thread thread_;
};

struct HangReporter : ListenerBase {
  using ListenerBase::ListenerBase;
  void testCaseStarting(const Catch::TestCaseInfo& info) override { watchdog_.starts(info.name); }

 private:
  Watchdog watchdog_;
};
CATCH_REGISTER_LISTENER(HangReporter)

}  // namespace
