// By what the engine judges whether resting is of use, and where its limits come from.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <pthread.h>
#include <thread>

#include <sluice/engine/detail/in_flight.h>
#include <sluice/engine/detail/restraint.h>
#include <sluice/engine/detail/runner.h>

#include "tests/engine/expect.h"
#include "tests/engine/in_flight.h"
#include "tests/support/variable.h"

using namespace sluice;
using namespace sluice::test;
using namespace std::chrono_literals;

namespace {

/// A restraint of 100, by steps of 1000, and time that the test makes pass.
struct Standstill {
  Standstill() { restraint.set(100, 1000); }
  /// One look after `passed`, in which bodies used `worked`.
  void pass(std::chrono::nanoseconds passed, std::chrono::nanoseconds worked = 0ns, bool runnable = false) {
    now.at += passed;
    now.cpu_time += worked;
    restraint.look(now, progress, [&] { return runnable; });
  }
  std::uint64_t beyond() const { return restraint.allowed(progress) - 100; }

  detail::Restraint restraint;
  detail::Activity now{.at = std::chrono::steady_clock::time_point(1h)};
  std::uint64_t progress = 7;
};

/// How many tasks of a block an engine takes before a push rests.
int blocks_before_rest(const EngineOptions& options, std::uint64_t bytes = k_block) {
  Engine engine(options);
  const QuietGate gate;
  const Var order = engine.new_var();
  engine.push({.name = "gate", .access = {write(order)}}, [gate] { gate.wait(); });
  int pushed = 0;
  for (; engine.counters().rests == 0 && pushed < 10'000; ++pushed)
    push_holder(
        engine, {.name = "behind", .access = {write(order)}}, [] {}, bytes);
  gate.open();
  engine.wait_all();
  return pushed - 1;
}

}  // namespace

TEST_CASE("Restraint: a standstill in which nobody works buys a step every 10 ms, after the first 20") {
  Standstill still;
  still.pass(0ms);
  for (int i = 0; i < 2; ++i)
    still.pass(10ms);
  CHECK(still.beyond() == 0);
  for (int i = 1; i <= 50; ++i) {
    still.pass(10ms, 500us);  // somebody who looks now and then
    CHECK(still.beyond() == 1000u * static_cast<unsigned>(i));
  }
}

TEST_CASE("Restraint: while bodies use a core, or want one, or a GPU is awaited, a step takes 2 s") {
  Standstill still;
  still.pass(0ms);
  const int why = GENERATE(0, 1, 2, 3);
  CAPTURE(why);
  still.now.fenced = why == 2;
  for (int i = 0; i < 199; ++i) {
    still.now.retired += why == 3 ? 1 : 0;
    still.pass(10ms, why == 0 ? 2ms : 0ms, why == 1);
  }
  CHECK(still.beyond() == 0);
  still.pass(20ms, 20ms);
  CHECK(still.beyond() == 1000);
  for (int i = 0; i < 600; ++i)
    still.pass(10ms, 10ms);
  CHECK(still.beyond() == 4000);
}

TEST_CASE("Restraint: as soon as something has gone only the limit counts again") {
  Standstill still;
  still.pass(0ms);
  for (int i = 0; i < 10; ++i)
    still.pass(10ms);
  CHECK(still.beyond() > 0);
  ++still.progress;
  CHECK(still.beyond() == 0);
  still.pass(10ms);
  still.pass(10ms);
  still.pass(10ms);
  CHECK(still.beyond() == 0);  // it takes as long as at first
}

TEST_CASE("Restraint: a gap in which nobody looked counts little") {
  Standstill still;
  still.pass(0ms);
  for (int i = 0; i < 3; ++i)
    still.pass(1h);
  CHECK(still.beyond() <= 2000);
}

TEST_CASE("Restraint: clocks of threads that end are no idleness") {
  Standstill still;
  still.now.cpu_time = 1h;
  still.pass(0ms);
  for (int i = 0; i < 50; ++i)
    still.pass(10ms, -20ms);
  CHECK(still.beyond() == 0);
}

TEST_CASE("Runner: a thread is at work whatever it is called") {
  std::atomic<bool> stop{false};
  std::atomic<detail::Runner> busy{detail::Runner{}};
  std::thread computes([&] {
    pthread_setname_np(pthread_self(), "a) S (b");
    busy = detail::Runner::here();
    compute_until([&] { return stop.load(); });
  });
  CHECK(eventually([&] { return busy.load().cpu_time() > 5ms; }));
  CHECK(busy.load().is_runnable());
  stop = true;
  computes.join();
}

TEST_CASE("Runner: a thread that computes is at work, one that sleeps is not") {
  const QuietGate gate;
  std::atomic<bool> stop{false};
  std::atomic<detail::Runner> busy{detail::Runner{}}, idle{detail::Runner{}};
  std::thread computes([&] {
    busy = detail::Runner::here();
    compute_until([&] { return stop.load(); });
  });
  std::thread sleeps([&] {
    idle = detail::Runner::here();
    gate.wait();
  });
  CHECK(eventually([&] { return busy.load().thread != 0 && idle.load().thread != 0; }));
  CHECK(eventually([&] { return busy.load().cpu_time() > 5ms; }));
  CHECK(busy.load().is_runnable());
  CHECK(eventually([&] { return !idle.load().is_runnable(); }));
  stop = true;
  gate.open();
  computes.join();
  sleeps.join();
  CHECK_FALSE(busy.load().is_runnable());  // it has ended
  CHECK(busy.load().cpu_time() == 0ns);
  CHECK_FALSE(detail::Runner{}.is_runnable());
  CHECK(detail::Runner::to_come().is_runnable());
}

TEST_CASE("Limits in bytes are read with and without a unit") {
  CHECK(detail::parse_bytes("0", "X") == 0);
  CHECK(detail::parse_bytes("4096", "X") == 4096);
  CHECK(detail::parse_bytes("3K", "X") == 3072);
  CHECK(detail::parse_bytes("64M", "X") == std::uint64_t{64} << 20);
  CHECK(detail::parse_bytes("2G", "X") == std::uint64_t{2} << 30);
  for (const char* bad : {"", "M", "64MB", "-1", "1.5G", "64 M", "99999999999999G", "18446744073709551616"}) {
    CAPTURE(bad);
    CHECK_THAT(text_of_error([&] { detail::parse_bytes(bad, "LIMIT"); }), contains(std::string("LIMIT=") + bad));
  }
}

TEST_CASE("The limit in flight comes from the option, else from the environment, else from the machine's memory") {
  CHECK(blocks_before_rest({.workers = 1}) == 513);  // 32 MiB, and one beyond
  const int of_four = blocks_before_rest({.workers = 4});
  CHECK(of_four >= 513);
  CHECK(of_four <= 4 * 512 + 1);
  CHECK(blocks_before_rest({.workers = 1, .max_bytes_in_flight = 5 * k_block}) == 6);
  const Variable said("SLUICE_MAX_BYTES_IN_FLIGHT", "512K");
  CHECK(blocks_before_rest({.workers = 1}) == 9);
  CHECK(blocks_before_rest({.workers = 1, .max_bytes_in_flight = 5 * k_block}) == 6);
  const Variable wrong("SLUICE_MAX_BYTES_IN_FLIGHT", "much");
  CHECK_THAT(text_of_error([] { Engine({.workers = 1}); }), contains("SLUICE_MAX_BYTES_IN_FLIGHT=much"));
}

TEST_CASE("A small limit holds for small blocks too: threads tell of them at once") {
  CHECK(blocks_before_rest({.workers = 1, .max_bytes_in_flight = 16 << 10}, 1024) == 17);
}

TEST_CASE("A control group's limit is the least from the group to the root") {
  namespace fs = std::filesystem;
  const fs::path root = fs::temp_directory_path() / ("sluice_cgroup_" + std::to_string(getpid()));
  const auto write = [&](const fs::path& name, const std::string& text) {
    fs::create_directories((root / name).parent_path());
    std::ofstream(root / name) << text;
  };
  const auto limit = [&](const std::string& membership) {
    write("membership", membership);
    return detail::cgroup_limit((root / "membership").c_str(), root.c_str());
  };
  CHECK(detail::cgroup_limit("/nowhere/at/all", "/nowhere") == 0);
  CHECK(limit("0::/a/b\n") == 0);
  write("a/memory.max", "5000000\n");
  write("a/b/memory.max", "max\n");
  CHECK(limit("0::/a/b\n") == 5000000);
  write("a/b/memory.max", "4000000\n");
  CHECK(limit("0::/a/b\n") == 4000000);
  CHECK(limit("0::/a\n") == 5000000);
  CHECK(limit("0::/\n") == 0);
  write("memory.max", "3000000\n");
  CHECK(limit("0::/\n") == 3000000);
  CHECK(limit("0::/elsewhere/deep\n") == 3000000);
  write("memory/c/memory.limit_in_bytes", "2000000\n");
  CHECK(limit("7:cpu,cpuacct:/c\n9:memory:/c\n") == 2000000);
  CHECK(detail::usable_memory() > 0);
  fs::remove_all(root);
}
