// Cases that planted faults asked for: no other noticed them.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/engine_access.h>
#include <sluice/engine/detail/in_flight.h>
#include <sluice/engine/detail/options.h>
#include <sluice/engine/pending_wait.h>

#include "tests/engine/expect.h"
#include "tests/engine/held.h"
#include "tests/support/child.h"
#include "tests/support/gate.h"
#include "tests/support/scale.h"
#include "tests/support/variable.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// What one worker runs, in order.
struct OneWorker {
  Engine engine{EngineOptions{.workers = 1}};
  std::vector<std::string> order;

  auto says(const char* name) {
    return [this, name] { order.emplace_back(name); };
  }
  std::ptrdiff_t place(const char* name) const { return std::find(order.begin(), order.end(), name) - order.begin(); }
  void noise(int count) {
    for (int i = 0; i < count; ++i)
      engine.push({.name = "noise"}, says("noise"));
  }
};

}  // namespace

TEST_CASE("Under the serial policy who ends a task from outside runs what waited for it") {
  Engine engine({.cpu_policy = CpuMode::serial});
  Var x = engine.new_var();
  TaskCompletion completion;
  engine.push({.name = "outside", .access = {write(x)}}, [&](Queue queue) { completion = queue.complete_later(); });
  bool ran = false;
  TaskHandle after = engine.push({.name = "after", .access = {read(x)}}, [&] { ran = true; });
  CHECK_FALSE(ran);
  std::thread([&] { completion.complete(); }).join();
  CHECK(ran);
  CHECK(after.done());
}

TEST_CASE("Commute: a body that waits for a run none of whose members is ready runs what they lack itself") {
  Engine engine({.workers = 1});
  Var x = engine.new_var(), y = engine.new_var();
  std::thread::id where;
  bool same = false;
  engine
      .push(
          {.name = "waits"},
          [&] {
            engine.push({.name = "lacking", .access = {write(y)}}, [&] { where = std::this_thread::get_id(); });
            engine.push({.name = "member", .access = {commute(x), read(y)}}, [] {});
            engine.wait(x);
            same = where == std::this_thread::get_id();
          })
      .wait();
  CHECK(same);
}

TEST_CASE("A body that a range of a loop runs while it waits is a body of its own: it may leave its end to others") {
  Engine engine({.workers = 2});
  engine
      .push(
          {.name = "loops"},
          [&] {
            parallel_for(8, 1, [&](std::int64_t, std::int64_t) {
              engine.push({.name = "child"}, [](Queue queue) { queue.complete_later().complete(); }).wait();
            });
          })
      .wait();
  CHECK_NOTHROW(engine.wait_all());
}

TEST_CASE("A body that waits for a group runs a member that another member had to be run for first") {
  Engine engine({.workers = 1});
  TaskGroup group(engine);
  Var x = engine.new_var();
  std::vector<std::thread::id> where;
  engine
      .push(
          {.name = "waits"},
          [&] {
            const auto notes = [&] { where.push_back(std::this_thread::get_id()); };
            notes();
            group.push({.name = "first", .access = {write(x)}}, notes);
            group.push({.name = "behind", .access = {write(x)}}, notes);
            group.wait();
          })
      .wait();
  CHECK(where == std::vector(3, where.front()));
}

// Whoever told the observer goes on with what became ready beside it: under the serial policy at once.
TEST_CASE("A child forked where tasks are put off runs none of them under the serial policy") {
  struct Forks final : WaitObserver {
    void complete(std::exception_ptr) noexcept override { child = fork(); }
    pid_t child = -1;
  } forks;
  Engine engine({.cpu_policy = CpuMode::serial});
  Var x = engine.new_var();
  TaskCompletion completion;
  engine.push({.name = "outside", .access = {write(x)}}, [&](Queue queue) { completion = queue.complete_later(); });
  PendingWait(read(x), forks).start();
  int ran = 0;
  engine.push({.name = "reads", .access = {read(x)}}, [&] { ++ran; });
  completion.complete();
  if (forks.child == 0)
    _exit(ran);
  int status = 0;
  CHECK(waitpid(forks.child, &status, 0) == forks.child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(ran == 1);
}

TEST_CASE("T16: an urgent reader leaves readers beside it as they are") {
  OneWorker bench;
  Held held(bench.engine);
  REQUIRE(held.gate.reached());
  bench.engine.push(
      {.name = "beside", .access = {read(held.var)}, .priority = Priority::background}, bench.says("beside"));
  bench.engine.push({.name = "urgent", .access = {read(held.var)}, .priority = Priority::urgent}, bench.says("urgent"));
  bench.noise(40);
  held.gate.open();
  bench.engine.wait_all();
  CHECK(bench.place("urgent") == 0);
  CHECK(bench.place("beside") == 41);
}

TEST_CASE("T16: who has come to a Var after another and waits elsewhere is lifted, with what it waits for") {
  OneWorker bench;
  Engine& engine = bench.engine;
  Held held(engine);
  REQUIRE(held.gate.reached());
  Var y = engine.new_var();
  Gate between;
  OpensAtEnd opens(between);
  const Task elsewhere{.name = "elsewhere", .access = {write(y)}, .priority = Priority::background};
  const Task next{.name = "next", .access = {write(held.var), read(y)}, .priority = Priority::background};
  engine.push({.name = "between"}, [between] { between.wait(); });
  engine.push(elsewhere, bench.says("elsewhere"));
  engine.push(next, bench.says("next"));
  held.gate.open();  // the next one has the Var now, and not the other
  REQUIRE(between.reached());
  bench.noise(40);
  engine.push({.name = "urgent", .access = {read(held.var)}, .priority = Priority::urgent}, bench.says("urgent"));
  between.open();
  engine.wait_all();
  CHECK(bench.place("elsewhere") <= 2);
  CHECK(bench.place("urgent") <= 6);
}

TEST_CASE("T28: queued readers of one Var are in no circle by that") {
  Engine engine({.workers = 2});
  Held held(engine);
  REQUIRE(held.gate.reached());
  Var y = engine.new_var(), result = engine.new_var();
  std::string text;
  Gate pushed;
  OpensAtEnd opens(pushed);
  TaskHandle waits = engine.push({.name = "waits", .access = {write(y)}}, [&, pushed] {
    pushed.wait();
    text = text_of_error([&] { engine.wait(result); });
  });
  engine.push({.name = "behind", .access = {read(held.var), read(y)}}, [] {});
  engine.push({.name = "beside", .access = {read(held.var), write(result)}}, [] {});
  pushed.open();
  CHECK(eventually([&] { return waits.done() || detail::EngineAccess::core(engine).cycle_checks() >= 2; }));
  held.gate.open();
  waits.wait();
  CHECK(text == "");
}

TEST_CASE("Variables of the environment that are empty choose nothing") {
  const Variable launch("SLUICE_LAUNCH", ""), denormals("SLUICE_DENORMALS", ""),
      bytes("SLUICE_MAX_BYTES_IN_FLIGHT", "");
  CHECK(detail::launch_of({}) == LaunchMode::batch);
  CHECK(detail::denormals_of({}) == Denormals::flush);
  CHECK_NOTHROW(detail::InFlight({}));
}

TEST_CASE("The host's and the GPUs' limits in flight come from variables of their own") {
  const Variable host("SLUICE_MAX_BYTES_IN_FLIGHT", "100M"), gpus("SLUICE_MAX_GPU_BYTES_IN_FLIGHT", "200M");
  detail::InFlight flight({});
  flight.know_host(1);
  flight.know_gpu(gpu(0), std::uint64_t{1} << 36);
  CHECK(flight.at(0).restraint.limit() == 100U << 20);
  CHECK(flight.at(detail::InFlight::index_of(gpu(0))).restraint.limit() == 200U << 20);
}

TEST_CASE("T33: a child that commutes on a Var begins a run of its own, though the parent is in the midst of one") {
  if (k_thread_sanitizer)
    SLUICE_SKIP("ThreadSanitizer lets no child of several threads start one");
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  const Gate gate;
  const OpensAtEnd opens(gate);
  engine.push({.name = "parent's", .access = {commute(x)}}, [gate] { gate.wait(); });
  REQUIRE(gate.reached());
  const int code = in_child([&] {
    const Task task{.name = "child's", .access = {commute(x)}, .on_failed_input = OnFailedInput::run};
    engine.push(task, [] {}).wait();
    return 0;
  });
  CHECK(code == 0);
  gate.open();
  CHECK_NOTHROW(engine.wait_all());
}
