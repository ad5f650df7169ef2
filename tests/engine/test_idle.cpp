// Workers that are stopped, and workers with nothing to do.
#include <cerrno>
#include <csignal>
#include <ctime>
#include <mutex>
#include <pthread.h>
#include <set>
#include <sys/resource.h>
#include <thread>
#include <vector>

#include "tests/engine/expect.h"
#include "tests/support/gate.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

namespace {

// A thread is stopped by a signal whose handler does not come back for a while: as if its core had been taken away.
std::atomic<bool> held{false};
std::atomic<int> stopped{0};

void nap(long nanoseconds) {
  const timespec time{0, nanoseconds};
  nanosleep(&time, nullptr);
}
void stop_while_held(int) {
  const int before = errno;
  stopped.fetch_add(1);
  while (held.load())
    nap(200'000);
  stopped.fetch_sub(1);
  errno = before;
}
void stop_briefly(int) {
  const int before = errno;
  nap(1'000'000);
  stopped.fetch_add(1);
  errno = before;
}

class OnSignal {
 public:
  explicit OnSignal(void (*handler)(int)) {
    stopped = 0;
    struct sigaction action = {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR2, &action, &before_);
  }
  OnSignal(const OnSignal&) = delete;
  OnSignal& operator=(const OnSignal&) = delete;
  ~OnSignal() { sigaction(SIGUSR2, &before_, nullptr); }

 private:
  struct sigaction before_ = {};
};

double processor_seconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Work for all workers, then none: a fraction of one core that an idle engine takes.
double idle_share(int workers, std::chrono::milliseconds time) {
  Engine engine({.workers = workers});
  Var x = engine.new_var();
  for (int i = 0; i < 20'000; ++i)
    engine.push({.name = "burst", .access = {i % 4 == 0 ? write(x) : read(x)}}, [] {});
  engine.wait_all();
  const double before = processor_seconds();
  std::this_thread::sleep_for(time);
  return (processor_seconds() - before) / std::chrono::duration<double>(time).count();
}

// The same while a task is under way that does nothing but block.
double waiting_share(std::chrono::milliseconds time) {
  Engine engine({.workers = 4});
  std::mutex closed;
  std::unique_lock opens(closed);
  std::atomic<bool> inside{false};
  engine.push({.name = "blocks"}, [&] {
    inside = true;
    const std::lock_guard hold(closed);
  });
  eventually([&] { return inside.load(); });
  const double before = processor_seconds();
  std::this_thread::sleep_for(time);
  return (processor_seconds() - before) / std::chrono::duration<double>(time).count();
}

}  // namespace

TEST_CASE("T46: a worker that is stopped in a body holds up nobody else, 32 workers on however few cores") {
  const OnSignal handler(stop_while_held);
  Engine engine({.workers = 32});
  std::atomic<pthread_t> victim{};
  std::atomic<bool> inside{false}, resumed{false}, let_go{false};
  engine.push({.name = "victim"}, [&] {
    victim = pthread_self();
    inside = true;
    while (!let_go)
      std::this_thread::yield();
    resumed = true;
  });
  REQUIRE(eventually([&] { return inside.load(); }));
  held = true;
  pthread_kill(victim, SIGUSR2);
  const bool was_stopped = eventually([] { return stopped.load() == 1; });
  let_go = true;
  std::atomic<int> runs{0};
  std::vector<Var> vars;
  for (int i = 0; i < 8; ++i)
    vars.push_back(engine.new_var());
  for (int i = 0; i < scaled(20'000); ++i)
    engine.push({.name = "goes on", .access = {read(vars[i % 8]), write(vars[(3 * i + 1) % 8])}}, [&] { ++runs; });
  const bool went_on = eventually([&] { return runs == scaled(20'000); });
  const bool still_stopped = !resumed;
  held = false;
  engine.wait_all();
  CHECK(was_stopped);
  CHECK(went_on);
  CHECK(still_stopped);
  CHECK(resumed);
}

TEST_CASE("T46: workers that are stopped anywhere for a moment, locks held or not, lose nothing") {
  if (k_thread_sanitizer)
    SLUICE_SKIP("ThreadSanitizer puts signals off");
  const OnSignal handler(stop_briefly);
  Engine engine({.workers = 32});
  std::mutex mutex;
  std::set<pthread_t> workers;
  const auto body = [&] {
    static thread_local bool known = false;
    if (!std::exchange(known, true)) {
      const std::lock_guard hold(mutex);
      workers.insert(pthread_self());
    }
  };
  std::vector<Var> vars;
  for (int i = 0; i < 4; ++i)
    vars.push_back(engine.new_var());
  std::atomic<int> runs{0};
  int pushes = 0, kills = 0;
  for (int round = 0; round < scaled(200); ++round) {
    for (int i = 0; i < 200; ++i, ++pushes) {
      engine.push({.name = "work", .access = {read(vars[i % 4]), write(vars[(i * 3 + 1) % 4])}}, [&] {
        body();
        ++runs;
      });
    }
    const auto someone_works = [&] {
      const std::lock_guard hold(mutex);
      return !workers.empty();
    };
    if (round == 0)  // on a busy machine all could be pushed before a worker begins
      REQUIRE(eventually(someone_works));
    const std::lock_guard hold(mutex);
    auto chosen = workers.begin();
    std::advance(chosen, round % static_cast<int>(workers.size()));
    kills += pthread_kill(*chosen, SIGUSR2) == 0 ? 1 : 0;
  }
  engine.wait_all();
  CHECK(runs == pushes);
  CHECK(eventually([&] { return stopped > 0; }));
  CHECK(kills > 0);
}

TEST_CASE("T47: an idle engine leaves the processor alone") {
  const double share = idle_share(4, std::chrono::milliseconds(2000));
  INFO("share of a core: " << share);
  CHECK(share < 0.05 * k_slowdown);
}

TEST_CASE("T47: an engine whose task blocks leaves the processor alone") {
  const double share = waiting_share(std::chrono::milliseconds(2000));
  INFO("share of a core: " << share);
  CHECK(share < 0.05 * k_slowdown);
}

TEST_CASE("T47: an idle engine leaves the processor alone for ten seconds", "[.long]") {
  for (const int workers : {1, 32}) {
    const double share = idle_share(workers, std::chrono::milliseconds(10'000));
    INFO("share of a core: " << share);
    CHECK(share < 0.01 * k_slowdown);
  }
}
