// The thread that looks after what nobody waits for, by itself.
#include <atomic>
#include <chrono>

#include <sluice/engine/cuda/background_poller.h>

#include "tests/support/catch.h"
#include "tests/support/gate.h"

using sluice::detail::BackgroundPoller;
using Clock = std::chrono::steady_clock;

TEST_CASE("Who ends the process waits until the thread that watches GPUs sleeps", "[sim][poller]") {
  std::atomic<int> polls{0};
  std::atomic<bool> busy{true};
  BackgroundPoller poller([&] {
    ++polls;
    return busy ? BackgroundPoller::Seen::work : BackgroundPoller::Seen::nothing;
  });
  poller.rest(Clock::now() + sluice::test::k_patience);  // there is no thread yet
  CHECK(polls == 0);

  poller.wake();
  REQUIRE(sluice::test::eventually([&] { return polls > 3; }));
  const auto deadline = Clock::now() + std::chrono::milliseconds(5);
  poller.rest(deadline);
  CHECK(Clock::now() >= deadline);  // it has work, and is not waited for beyond that

  busy = false;
  poller.rest(Clock::now() + sluice::test::k_patience);
  const int seen = polls;  // asleep: it calls nobody until it is woken
  for (int i = 0; i < 100; ++i)
    std::this_thread::yield();
  CHECK(polls == seen);

  poller.wake();
  poller.rest(Clock::now() + sluice::test::k_patience);
  CHECK(polls > seen);  // who has just been woken is not asleep yet
  poller.stop();
  poller.rest(Clock::now() + sluice::test::k_patience);
}
