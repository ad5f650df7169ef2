// What kernels report of bad data belongs to the Vars that they wrote: on the simulated CUDA runtime.
#include <array>
#include <atomic>
#include <exception>
#include <string>
#include <vector>

#include <sluice/engine/pending_wait.h>

#include "tests/engine/sim_region.h"
#include "tests/engine/sim_reporting.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// A task whose kernel reports `value` if it is not negative.
TaskHandle push_taking(Engine& engine, Task task, long long value, std::atomic<int>* ran = nullptr) {
  return engine.push(std::move(task), [value, ran](Queue queue) {
    sim_launch(queue, [word = queue.error_word(), value, ran] {
      if (value >= 0)
        report(word, value, 77);
      if (ran != nullptr)
        ++*ran;
    });
  });
}

void check_blames(Engine& engine, const Var& var, const std::string& value, const std::string& task = "take\"") {
  for (int i = 0; i < 2; ++i) {
    expect_error<IndexError>(
        [&] { engine.wait(var); },
        [&](const IndexError& error) {
          CHECK_THAT(error.what(), contains(value) && contains("77") && contains("in task \"" + task));
          CHECK_THAT(error.what(), contains("test_sim_reports.cpp"));
        });
  }
}

struct Told final : WaitObserver {
  void complete(std::exception_ptr given) noexcept override {
    error = given;
    told = true;
  }
  std::exception_ptr error;
  std::atomic<bool> told{false};
};

}  // namespace

TEST_CASE("A kernel's bad index is thrown by every wait for what it wrote, and by no other", "[sim][reports]") {
  for (const bool capturable : {false, true}) {
    Sim sim;
    Engine engine({.workers = 1});
    Var x = engine.new_var(), y = engine.new_var(), late = engine.new_var(), z = engine.new_var();
    std::atomic<int> ran{0};
    push_taking(engine, on_gpu("before", {write(y)}, capturable), -1);
    TaskHandle bad = push_taking(engine, on_gpu("take", {read(y), write(x)}, capturable), 1234, &ran);
    push_taking(engine, on_gpu("after", {read(y), write(late)}, capturable), -1);
    engine.flush();
    REQUIRE(eventually([&] { return ran == 1; }));
    // The kernel has reported. Whoever waits for something else hears nothing of it.
    CHECK_NOTHROW(engine.wait(y));
    CHECK_NOTHROW(engine.wait(late));
    engine.push(on_gpu("more", {write(z)}, capturable), [](Queue queue) { sim_launch(queue, [] {}); });
    CHECK_NOTHROW(engine.wait(z));
    check_blames(engine, x, "1234");
    CHECK_THROWS_AS(bad.wait(), IndexError);
    CHECK(x.version() == 0);
    CHECK(late.version() == 1);
    CHECK(engine.counters().failed == 1);
    CHECK_NOTHROW(engine.wait_all());  // somebody knows
    // What is written anew is good again.
    push_taking(engine, on_gpu("anew", {out(x)}, capturable), -1);
    CHECK_NOTHROW(engine.wait(x));
  }
}

TEST_CASE("What has read a kernel's bad result before anybody knew fails too, and nothing else", "[sim][reports]") {
  for (const bool capturable : {false, true}) {
    Sim sim({.devices = 2, .manual = true});
    Engine engine({.workers = 1});
    Var x = engine.new_var(), sum = engine.new_var(), total = engine.new_var(), far = engine.new_var();
    Var host = engine.new_var(), clean = engine.new_var(), again = engine.new_var(), always = engine.new_var();
    std::atomic<int> host_runs{0};
    push_taking(engine, on_gpu("take", {out(x)}, capturable), 1234);
    const auto nothing = [](Queue queue) { sim_launch(queue, [] {}); };
    engine.push(on_gpu("reads", {read(x), out(sum)}, capturable), nothing);
    engine.push(on_gpu("reads that", {read(sum), write(total)}, capturable), nothing);
    engine.push(on_gpu("on another GPU", {read(sum), write(far)}, capturable, 1), nothing);
    engine.push({.name = "on the CPU", .access = {read(total), write(host)}}, [&] { ++host_runs; });
    engine.push(on_gpu("beside", {write(clean)}, capturable), nothing);
    engine.push(on_gpu("writes over it", {read(x), out(again)}, capturable), nothing);
    engine.push(on_gpu("over that", {out(again)}, capturable), nothing);
    Task anyway = on_gpu("anyway", {read(x), out(always)}, capturable);
    anyway.on_failed_input = OnFailedInput::run;
    engine.push(anyway, nothing);
    engine.flush();
    sim::set_manual(false);  // all were issued before any kernel ran
    CHECK_NOTHROW(engine.wait(clean));
    for (const Var& var : {x, sum, total, far, host})
      check_blames(engine, var, "1234");
    CHECK_NOTHROW(engine.wait(again));
    CHECK_NOTHROW(engine.wait(always));
    CHECK(host_runs == 0);
    // What is issued now finds it in time.
    engine.push(on_gpu("too late", {read(total), write(again)}, capturable), nothing);
    check_blames(engine, again, "1234");
  }
}

TEST_CASE("wait_all, groups of waits and waits without a thread tell of a kernel's bad index", "[sim][reports]") {
  Sim sim;
  Engine engine({.workers = 1});
  Var x = engine.new_var(), y = engine.new_var();
  push_taking(engine, on_gpu("take", {write(x)}, true), 5);
  CHECK_THROWS_AS(engine.wait_all(), IndexError);
  CHECK_NOTHROW(engine.wait_all());
  push_taking(engine, on_gpu("take", {write(y)}, true), 6);
  Told told;
  PendingWait(read(y), told).start();
  engine.flush();
  REQUIRE(eventually([&] { return told.told.load(); }));
  REQUIRE(told.error != nullptr);
  CHECK_THROWS_AS(std::rethrow_exception(told.error), IndexError);
}

TEST_CASE("A task that asks twice has one error word, and is blamed once", "[sim][reports]") {
  Sim sim;
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  engine.push(on_gpu("take", {write(x)}, false), [](Queue queue) {
    ErrorWord* const first = queue.error_word();
    REQUIRE(first == queue.error_word());
    sim_launch(queue, [first] { report(first, 3, 77); });
    sim_launch(queue, [first] { report(first, 4, 77); });
  });
  check_blames(engine, x, " 3 ");
  CHECK(engine.counters().failed == 1);
}

TEST_CASE("Error words come round: many tasks need few, though nobody waits", "[sim][reports]") {
  Sim sim;
  Engine engine({.workers = 1});
  Var first = engine.new_var(), x = engine.new_var(), bad = engine.new_var();
  push_taking(engine, on_gpu("first", {write(first)}, true), -1);
  engine.wait(first);
  const int before = sim::calls("cudaHostAlloc");
  std::atomic<int> ran{0};
  for (int i = 0; i < 6000; ++i) {
    push_taking(engine, on_gpu("takes", {write(x)}, i % 2 == 0), -1, &ran);
    if (i == 5000)
      push_taking(engine, on_gpu("take", {write(bad)}, true), i);
    if (i % 500 == 0) {  // the GPU keeps up, and nobody asks the engine
      engine.flush();
      REQUIRE(eventually([&] { return ran == i + 1 && sim::idle(); }));
    }
  }
  CHECK(sim::calls("cudaHostAlloc") - before <= 12);  // of 256 words each
  CHECK_NOTHROW(engine.wait(x));
  check_blames(engine, bad, "5000");
}

TEST_CASE("A batch that is launched one by one reports for its tasks all the same", "[sim][reports]") {
  Sim sim;
  sim.keep_batches_open();
  Engine engine({.workers = 1});
  Var filler = engine.new_var(), x = engine.new_var(), y = engine.new_var(), z = engine.new_var();
  for (int i = 0; i < 5; ++i)
    engine.push(on_gpu("fills", {write(filler)}, true), [](Queue queue) { sim_launch(queue, [] {}); });
  push_taking(engine, on_gpu("good", {write(z)}, true), -1);
  push_taking(engine, on_gpu("take", {write(x)}, true), 9);
  push_taking(engine, on_gpu("reads", {read(x), write(y)}, true), -1);
  sim::fail_nth("cudaGraphInstantiate", 1, cudaErrorUnknown);
  CHECK_NOTHROW(engine.wait(z));
  CHECK_NOTHROW(engine.wait(filler));
  CHECK(engine.counters().reissued > 0);
  check_blames(engine, x, " 9 ");
  check_blames(engine, y, " 9 ");
}

namespace {

constexpr const char* k_inside = "inside\" of region \"take\"";

}  // namespace

TEST_CASE("A region's kernels report in every replay, for the task inside", "[sim][reports][region]") {
  Sim sim;
  Engine engine({.workers = 1});
  Var x = engine.new_var(), y = engine.new_var(), other = engine.new_var();
  std::atomic<long long> index{-1};
  {
    Region region(engine, gpu(0), "take");
    const auto round = [&] {
      region.run(1, [&] {
        engine.push(on_gpu("inside", {out(x)}, true), [&index](Queue queue) {
          sim_launch(queue, [word = queue.error_word(), &index] {
            if (index >= 0)
              report(word, index, 77);
          });
        });
        engine.push(on_gpu("reads", {read(x), out(y)}, true), [](Queue queue) { sim_launch(queue, [] {}); });
      });
    };
    for (int i = 0; i < 5; ++i) {
      round();
      CHECK_NOTHROW(engine.wait(y));
    }
    index = 40;
    round();
    push_taking(engine, on_gpu("beside", {write(other)}, true), -1);
    CHECK_NOTHROW(engine.wait(other));
    check_blames(engine, y, "40", k_inside);
    index = -1;
    round();
    CHECK_NOTHROW(engine.wait(x));
    CHECK(region.counts().launched >= 6);
    index = 41;
    round();
  }
  check_blames(engine, x, "41", k_inside);  // the region is gone, its word is not
}

TEST_CASE("Of a region's tasks the one that reports is blamed, captured or called in order", "[sim][reports][region]") {
  for (const bool captured : {true, false}) {
    CAPTURE(captured);
    Sim sim;
    Engine engine({.workers = 1});
    std::vector<Var> vars(3);
    std::array<std::atomic<long long>, 3> index{-1, -1, -1};
    std::array<int, 3> lines{};
    for (Var& var : vars)
      var = engine.new_var();
    Region region(engine, gpu(0), "plan");
    const auto push = [&](std::size_t i, SourceLocation site) {
      lines[i] = site.line;
      const std::string name = message("take ", i);
      engine.push(
          on_gpu(name, {out(vars[i])}, true),
          [&index, i, captured](Queue queue) {
            if (!captured)
              spoil(queue);
            sim_launch(queue, [word = queue.error_word(), &index, i] {
              if (index[i] >= 0)
                report(word, index[i], 77);
            });
          },
          site);
    };
    const auto round = [&] {
      region.run(1, [&] {
        push(0, SourceLocation::current());
        push(1, SourceLocation::current());
        push(2, SourceLocation::current());
      });
    };
    for (std::size_t bad = 0; bad < vars.size(); ++bad) {
      for (std::atomic<long long>& each : index)
        each = -1;
      round();
      CHECK_NOTHROW(engine.wait(vars[0]));
      index[bad] = 10 + static_cast<long long>(bad);
      round();
      const std::string text = text_of_error([&] { engine.wait(vars[0]); });
      CAPTURE(text);
      CHECK_THAT(text, contains(message("in task \"take ", bad, "\" of region \"plan\"")));
      CHECK_THAT(text, contains(message("test_sim_reports.cpp:", lines[bad])));
      CHECK_THAT(text, contains(message("index ", 10 + bad, " ")));
    }
    // All of them: the first is named.
    for (std::atomic<long long>& each : index)
      each = 5;
    round();
    check_blames(engine, vars[2], " 5 ", "take 0\" of region \"plan\"");
    CHECK((region.counts().in_order > 0) == !captured);
    CHECK((region.counts().launched > 0) == captured);
    REQUIRE(region.refusal().has_value() == !captured);
    if (!captured) {
      CHECK(region.refusal()->task == "take 0");
      CHECK(region.refusal()->site.line == lines[0]);
    }
  }
}

TEST_CASE("Random programs: exactly what comes from a bad kernel fails", "[sim][reports][stress]") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    CAPTURE(seed);
    Sim sim(seeded(seed));
    Engine engine({.workers = 2});
    constexpr std::size_t k_vars = 10;
    std::vector<Var> vars(k_vars);
    for (Var& var : vars)
      var = engine.new_var();
    std::array<bool, k_vars> bad{};
    for (std::uint64_t i = 0; i < 200; ++i) {
      const std::uint64_t die = mix(seed * 1000 + i);
      const std::size_t to = die % k_vars, a = die / 16 % k_vars, b = die / 256 % k_vars;
      const bool fresh = die / 4096 % 3 == 0, reports = die / 65536 % 23 == 0;
      const int where = static_cast<int>(die / (1 << 20) % 5);
      AccessList access{fresh ? out(vars[to]) : write(vars[to])};
      bool fails = reports || (!fresh && bad[to]);
      for (const std::size_t from : {a, b}) {
        if (from == to || (from == b && a == b))
          continue;
        access.push_back(read(vars[from]));
        fails |= bad[from];
      }
      bad[to] = fails;
      if (where == 0) {
        engine.push({.name = "take", .access = std::move(access)}, [reports] {
          if (reports)
            throw IndexError("of the CPU");
        });
      } else {
        push_taking(engine, on_gpu("take", std::move(access), where > 2, where == 1 ? 1 : 0), reports ? 1 : -1);
      }
      if (die / (1 << 24) % 40 == 0)
        CHECK((text_of_error([&] { engine.wait(vars[a]); }) != "") == bad[a]);
    }
    for (std::size_t i = 0; i < k_vars; ++i) {
      CAPTURE(i);
      CHECK((text_of_error([&] { engine.wait(vars[i]); }) != "") == bad[i]);
    }
  }
}
