// Waits inside GPU bodies: nothing else is begun on their threads meanwhile, so that those would never end.
#include <atomic>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/engine_access.h>

#include "tests/engine/sim_region.h"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr const char* k_waits[] = {
    "wait",
    "wait for a Var of another engine",
    "wait of a handle",
    "wait of another engine's handle",
    "wait_all",
    "wait_all of another engine",
    "clear_error",
    "clear_error of another engine",
    "stop",
    "stop of another engine"};

/// What may be waited for: tasks that are pushed and cannot be begun on a thread that is busy.
struct Awaited {
  explicit Awaited(EngineOptions options = {.workers = 1}) : own(options), other(options) {}
  ~Awaited() {
    own.stop();
    other.stop();
  }
  Engine own, other;
  Var x = own.new_var(), y = other.new_var();

  void wait_as(const std::string& way) {
    Engine& engine = way.find("another") == std::string::npos ? own : other;
    const Var& var = &engine == &own ? x : y;
    const Task task{.name = "awaited", .device = gpu(0), .access = {write(var)}};
    TaskHandle handle = engine.push(task, [](Queue queue) { sim_launch(queue, [] {}); });
    if (way.starts_with("wait_all"))
      engine.wait_all();
    else if (way.find("handle") != std::string::npos)
      handle.wait();
    else if (way.starts_with("wait"))
      engine.wait(var);
    else if (way.starts_with("clear_error"))
      engine.clear_error(var);
    else
      engine.stop();
  }
};

void check_refused(const std::string& text) {
  CHECK_THAT(text, contains("\"waits\"") && contains("nothing else is begun meanwhile"));
}

}  // namespace

TEST_CASE("Whatever a GPU body waits for, of whichever engine, is refused: it would never end", "[sim]") {
  const std::string way = GENERATE(from_range(std::begin(k_waits), std::end(k_waits)));
  CAPTURE(way);
  Sim sim;
  Awaited awaited;
  std::string text;
  Var z = awaited.own.new_var();
  awaited.own.push({.name = "waits", .device = gpu(0), .access = {write(z)}}, [&](Queue) {
    text = text_of_error([&] { awaited.wait_as(way); });
  });
  CHECK_NOTHROW(awaited.own.wait(z));
  check_refused(text);
  CHECK_NOTHROW(awaited.other.wait_all());
}

TEST_CASE("A GPU body that is called again may not wait either", "[sim]") {
  const std::string way = GENERATE(from_range(std::begin(k_waits), std::end(k_waits)));
  CAPTURE(way);
  Sim sim;
  sim.keep_batches_open();
  Awaited awaited;
  int calls = 0;
  Var z = awaited.own.new_var();
  std::uint64_t word = 0;
  for (int i = 0; i < 7; ++i)
    push_append(awaited.own, z, word, 0);
  awaited.own.push({.name = "waits", .device = gpu(0), .access = {write(z)}, .capturable = true}, [&](Queue queue) {
    sim_launch(queue, [] {});
    if (++calls == 2)
      awaited.wait_as(way);
  });
  push_append(awaited.own, z, word, 0, spoil);
  CHECK(calls == 2);
  expect_error<Deadlock>([&] { awaited.own.wait(z); }, [](const Deadlock& error) { check_refused(error.what()); });
  CHECK_NOTHROW(awaited.other.wait_all());
}

TEST_CASE("An engine may end in another engine's GPU body: it does so elsewhere", "[sim]") {
  Sim sim;
  std::atomic<int> ran{0};
  const auto body = [&ran](Queue queue) { sim_launch(queue, [&ran] { ++ran; }); };
  {
    Engine engine({.workers = 1});
    Var x = engine.new_var();
    auto other = std::make_unique<Engine>(EngineOptions{.workers = 1});
    other->push({.name = "its task", .device = gpu(0)}, body);
    engine.push({.name = "ends it", .device = gpu(0), .access = {write(x)}}, [&](Queue) {
      other->push({.name = "another", .device = gpu(0)}, body);
      other.reset();
    });
    CHECK_NOTHROW(engine.wait(x));
  }
  CHECK(eventually([] { return sim::leftovers().empty(); }));
  CHECK(ran == 2);
}

// A halt of the lists waits for whoever is inside them, and a GPU body may wait for whoever a halt keeps out.
TEST_CASE("A GPU body that does not return keeps nobody from forking, nor from a search for circles", "[sim]") {
  const bool granted = GENERATE(false, true);  // issued by the push itself, or where a task has ended
  CAPTURE(granted);
  Sim sim;
  Engine engine({.workers = 3});
  const Var x = engine.new_var(), y = engine.new_var();
  Gate gate;
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    Gate first;
    if (granted)
      engine.push({.name = "before it", .access = {write(x)}}, [first] { first.wait(); });
    else
      first.open();
    engine.push({.name = "stands", .device = gpu(0), .access = {write(x)}}, [gate] { gate.wait(); });
    first.open();
  });
  CHECK(gate.reached());
  const std::uint64_t searches = detail::EngineAccess::core(engine).cycle_checks();
  std::atomic<bool> searched{false}, forked{false};
  engine.push({.name = "ends after a search", .access = {write(y)}}, [&] {
    searched = eventually([&] { return detail::EngineAccess::core(engine).cycle_checks() > searches; });
  });
  engine.push({.name = "sleeps"}, [&]() -> Coroutine { co_await read(y); });
  threads.emplace_back([&] { engine.wait(y); });
  CHECK(eventually([&] { return searched.load(); }));
  threads.emplace_back([&] {
    const pid_t child = fork();
    if (child == 0)
      _exit(0);
    forked = child > 0 && waitpid(child, nullptr, 0) == child;
  });
  CHECK(eventually([&] { return forked.load(); }));
  CHECK(gate.inside() == 1);
  gate.open();
  for (std::thread& thread : threads)
    thread.join();
  engine.wait_all();
}

TEST_CASE("A short body does not run at once before a GPU has written what it reads", "[sim]") {
  for (const CpuMode policy : {CpuMode::pool, CpuMode::serial}) {
    Sim sim({.devices = 2, .manual = true});
    Engine engine({.workers = 1, .cpu_policy = policy});
    const Var x = engine.new_var(), y = engine.new_var(), made = engine.new_var();
    int word = 0, seen = -1;
    engine.push({.name = "first", .access = {write(y)}}, [] {}).wait();
    engine.push({.name = "writes", .device = gpu(0), .access = {write(x)}}, [&](Queue queue) {
      sim_launch(queue, [&word] { word = 7; });
    });
    const auto runs = [&](const Var& var) {
      detail::VarCore* const reads = var.core();
      detail::VarCore* const makes = made.core();
      const detail::AtOnce call{.name = "short", .reads = {&reads, 1}, .makes = {&makes, 1}};
      return detail::EngineAccess::run_at_once(engine, call, [&](Queue) { seen = word; });
    };
    CHECK(runs(y));
    CHECK_FALSE(runs(x));
    sim::set_manual(false);
    engine.wait(x);
    CHECK(runs(x));
    CHECK(seen == 7);
  }
}
