// Test cases for check_watchdog.py: some hang, some are slow, one crashes.
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "tests/support/catch.h"

namespace {

using Clock = std::chrono::steady_clock;

/// Seconds of CPU time that the calling thread has used.
double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void compute_for(double seconds) {
  volatile unsigned sink = 0;
  for (const double end = thread_seconds() + seconds; thread_seconds() < end;) {
    for (unsigned i = 0; i < 100000; ++i)
      sink = sink + i;
  }
}

void wait_for_child(double seconds) {
  const pid_t child = fork();
  if (child == 0) {
    compute_for(seconds);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}

[[noreturn, gnu::noinline]] void wait_for_nobody() {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  for (;;)
    never.wait_for(lock, std::chrono::milliseconds(1));  // as an idle worker looks up
}

}  // namespace

TEST_CASE("passes at once", "[good]") {
  CHECK(true);
}

TEST_CASE("is skipped", "[good]") {
  SLUICE_SKIP("for the count");
}

TEST_CASE("computes for long without an assertion", "[slow]") {
  compute_for(7.5);
  CHECK(true);
}

TEST_CASE("sleeps between its assertions", "[slow][sleeps]") {
  for (int i = 0; i < 8; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(900));
    CHECK(i < 8);
  }
}

TEST_CASE("waits for one child that computes", "[children]") {
  wait_for_child(7.5);
  CHECK(true);
}

TEST_CASE("waits for many children that compute", "[children]") {
  for (int i = 0; i < 375; ++i)
    wait_for_child(0.02);
  CHECK(true);
}

TEST_CASE("waits for nobody", "[hangs]") {
  CHECK(true);
  wait_for_nobody();
}

TEST_CASE("turns in circles", "[turns]") {
  compute_for(1e9);
}

TEST_CASE("crashes", "[crashes]") {
  std::raise(SIGSEGV);
}

TEST_CASE("comes last", "[last]") {
  CHECK(true);
}
