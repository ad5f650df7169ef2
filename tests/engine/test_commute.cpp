// Commuting accesses: one at a time, in any order.
#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include <sluice/engine/api.h>
#include <sluice/engine/detail/core.h>

#include "tests/engine/expect.h"
#include "tests/engine/held.h"
#include "tests/engine/policies.h"
#include "tests/support/gate.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using MakeAccess = Access (*)(const Var&);

}  // namespace

TEST_CASE("Commute: a task whose other Var is late is overtaken by one that was pushed after it") {
  for (const CpuMode policy : k_threaded) {
    Engine engine({.workers = 2, .cpu_policy = policy});
    Held late(engine);
    const Var sum = engine.new_var();
    Order order;
    const TaskHandle first = engine.push({.name = "late", .access = {read(late.var), commute(sum)}}, says(order, 1));
    TaskHandle second = engine.push({.name = "early", .access = {commute(sum)}}, says(order, 2));
    TaskHandle third = engine.push({.name = "early", .access = {commute(sum)}}, says(order, 3));
    second.wait();
    third.wait();
    CHECK_FALSE(first.done());
    late.gate.open();
    engine.wait(sum);
    std::sort(order.begin(), order.begin() + 2);
    CHECK(order == Order{2, 3, 1});
    CHECK(sum.version() == 3);
  }
}

TEST_CASE("Commute: tasks that commute on a Var run one at a time") {
  for (const CpuMode policy : k_all) {
    CAPTURE(to_string(policy));
    const bool one = policy == CpuMode::serial || policy == CpuMode::chaos;
    Engine engine({.workers = one ? 1 : 4, .cpu_policy = policy});
    const Var sum = engine.new_var();
    std::vector<Var> others(5);
    for (Var& var : others)
      var = engine.new_var();
    Peak peak;
    int total = 0;
    constexpr int k_members = 2000;
    for (int i = 0; i < k_members; ++i) {
      engine.push({.name = "late", .access = {write(others[static_cast<std::size_t>(i % 5)])}}, [] {});
      engine.push(
          {.name = "add", .access = {read(others[static_cast<std::size_t>(i % 3)]), commute(sum)}}, [&peak, &total] {
            peak.enter();
            ++total;
            peak.leave();
          });
    }
    engine.wait_all();
    CHECK(total == k_members);
    CHECK(peak.peak() == 1);
    CHECK(sum.version() == k_members);
  }
}

TEST_CASE("Commute: while one member is at work no other begins") {
  Engine engine({.workers = 2});
  const Var x = engine.new_var(), y = engine.new_var();
  const Gate gate;
  const OpensAtEnd opens(gate);
  engine.push({.name = "at work", .access = {commute(x)}}, [gate] { gate.wait(); });
  CHECK(gate.reached());
  const TaskHandle next = engine.push({.name = "next", .access = {commute(x)}}, [] {});
  const TaskHandle on_both = engine.push({.name = "on both", .access = {commute(y), commute(x)}}, [] {});
  let_pass(engine);
  CHECK_FALSE(next.done());
  CHECK_FALSE(on_both.done());
  gate.open();
  engine.wait_all();
}

TEST_CASE("Commute: what is pushed before and after a run keeps its place") {
  for (const CpuMode policy : k_threaded) {
    Engine engine({.workers = 3, .cpu_policy = policy});
    Held late(engine), before(engine);
    const Var x = engine.new_var();
    Order order;
    engine.push({.name = "before", .access = {write(x), read(before.var)}}, says(order, 0));
    engine.push({.name = "late", .access = {read(late.var), commute(x)}}, says(order, 1));
    TaskHandle early = engine.push({.name = "early", .access = {commute(x)}}, says(order, 2));
    const bool reads = GENERATE(true, false);
    TaskHandle between = engine.push({.name = "between", .access = {reads ? read(x) : write(x)}}, says(order, 3));
    TaskHandle next_run = engine.push({.name = "next run", .access = {commute(x)}}, says(order, 4));
    let_pass(engine);
    CHECK_FALSE(early.done());
    before.gate.open();
    early.wait();
    let_pass(engine);
    CHECK_FALSE(between.done());
    CHECK_FALSE(next_run.done());
    late.gate.open();
    engine.wait(x);
    CHECK(order == Order{0, 2, 1, 3, 4});
  }
}

TEST_CASE("Commute: beside another access of the same Var it is a write, in its place") {
  for (const bool first : {true, false}) {
    for (const MakeAccess other : {MakeAccess(read), MakeAccess(write), MakeAccess(out)}) {
      Engine engine({.workers = 2});
      Held late(engine);
      const Var x = engine.new_var();
      Order order;
      const Access pair[] = {first ? commute(x) : other(x), first ? other(x) : commute(x)};
      engine.push({.name = "both", .access = {pair[0], pair[1], read(late.var)}}, says(order, 1));
      const TaskHandle after = engine.push({.name = "commutes", .access = {commute(x)}}, says(order, 2));
      let_pass(engine);
      CHECK_FALSE(after.done());
      late.gate.open();
      engine.wait(x);
      CHECK(order == Order{1, 2});
    }
  }
  // Twice the same is once.
  Engine engine({.workers = 2});
  Held late(engine);
  const Var x = engine.new_var();
  engine.push({.name = "late", .access = {commute(x), commute(x), read(late.var)}}, [] {});
  engine.push({.name = "early", .access = {commute(x), commute(x)}}, [] {}).wait();
  late.gate.open();
  engine.wait(x);
  CHECK(x.version() == 2);
}

TEST_CASE("Commute: waits for the Var wait for all that was pushed before, and for nothing after") {
  for (const MakeAccess how : {MakeAccess(read), MakeAccess(write), MakeAccess(commute)}) {
    Engine engine({.workers = 3});
    Held late(engine);
    const Var x = engine.new_var();
    std::atomic<bool> ran{false};
    engine.push({.name = "late", .access = {read(late.var), commute(x)}}, [&] { ran = true; });
    engine.push({.name = "early", .access = {commute(x)}}, [] {});
    auto waits = std::async(std::launch::async, [&] {
      engine.wait(how(x));
      return ran.load();
    });
    CHECK(eventually([&] { return engine.counters().waits > 0; }));
    CHECK(waits.wait_for(std::chrono::seconds(0)) == std::future_status::timeout);
    Held later(engine);
    engine.push({.name = "after the wait", .access = {read(later.var), commute(x)}}, [] {});
    late.gate.open();
    CHECK(waits.get());
    later.gate.open();
    engine.wait_all();
  }
}

TEST_CASE("Commute: failures do to its Var what they do to one that is written") {
  struct Seen {
    std::string error, after_out;
    std::uint64_t version = 0, skipped = 0;
    bool operator==(const Seen&) const = default;
  };
  const auto play = [](MakeAccess access, int what, CpuMode policy) {
    Engine engine({.workers = 2, .cpu_policy = policy});
    const Var x = engine.new_var(), y = engine.new_var(), begun = engine.new_var();
    Held held(engine);
    engine.push({.name = "begins", .access = {access(x), read(held.var), out(begun)}}, [] {});
    engine.push({.name = "spoils y", .access = {out(y)}}, [] { throw ValueError("y is spoilt"); });
    if (what == 0)  // throws, and poisons x
      engine.push({.name = "throws", .access = {access(x), read(begun)}}, [] { throw ValueError("x is spoilt"); });
    if (what == 1)  // is skipped, as its input is bad
      engine.push({.name = "skipped", .access = {access(x), read(y), read(begun)}}, [] {});
    if (what == 2)
      CHECK(engine.push({.name = "cancelled", .access = {access(x), read(held.var)}}, [] {}).cancel());
    held.gate.open();
    CHECK_THROWS_AS(engine.wait(y), ValueError);
    Seen seen;
    try {
      engine.wait(x);
    } catch (const Error& error) {
      seen.error = error.what();
      seen.error = seen.error.substr(0, seen.error.find(" ("));
      if (what > 0)
        CHECK(engine.forgive(error));
    }
    engine.push({.name = "after", .access = {access(x)}}, [] {});
    seen.after_out = text_of_error([&] { engine.wait(x); }).substr(0, 12);
    engine.push({.name = "anew", .access = {out(x)}}, [] {});
    engine.wait(x);
    seen.version = x.version();
    seen.skipped = engine.counters().skipped;
    return seen;
  };
  for (const CpuMode policy : k_threaded) {
    for (const int what : {0, 1, 2}) {
      CAPTURE(to_string(policy), what);
      const Seen wanted = play(write, what, policy), got = play(commute, what, policy);
      CHECK(wanted.error != "");
      CHECK(got.error == wanted.error);
      CHECK(got.after_out == wanted.after_out);
      CHECK(got.version == wanted.version);
      CHECK(got.skipped == wanted.skipped);
    }
  }
}

TEST_CASE("Commute: members after one that throws are skipped, whichever was pushed first") {
  Engine engine({.workers = 2});
  Held late(engine);
  const Var x = engine.new_var();
  std::atomic<int> ran{0};
  TaskHandle skipped = engine.push({.name = "late", .access = {read(late.var), commute(x)}}, [&] { ++ran; });
  TaskHandle bad = engine.push({.name = "throws", .access = {commute(x)}}, [] { throw ValueError("no"); });
  CHECK_THROWS_AS(bad.wait(), ValueError);
  late.gate.open();
  CHECK_THROWS_AS(skipped.wait(), ValueError);
  CHECK(ran == 0);
  CHECK(engine.counters().skipped == 1);
}

TEST_CASE("Commute: a frozen Var refuses it, an empty one and one of another engine too") {
  Engine engine({.workers = 1}), other({.workers = 1});
  const Var x = engine.new_var(), far = other.new_var(), none;
  engine.freeze(x);
  CHECK_THROWS_AS(engine.push({.name = "frozen", .access = {commute(x)}}, [] {}), ValueError);
  CHECK_THROWS_AS(engine.push({.name = "far", .access = {commute(far)}}, [] {}), ValueError);
  CHECK_THROWS_AS(engine.push({.name = "empty", .access = {commute(none)}}, [] {}), ValueError);
  engine.unfreeze(x);
  engine.push({.name = "thawed", .access = {commute(x)}}, [] {});
  CHECK_NOTHROW(engine.wait(x));
  CHECK(x.version() == 1);
}

TEST_CASE("Commute: readers by a gate, and commuting tasks beside them") {
  Engine engine({.workers = 4, .hot_reads = 1});
  const Var x = engine.new_var();
  int value = 0;
  std::atomic<int> wrong{0};
  for (int i = 0; i < scaled(20'000); ++i) {
    if (i % 7 < 4)
      engine.push({.name = "read", .access = {read(x)}}, [&, before = i / 7 * 3] { wrong += value != before ? 1 : 0; });
    else
      engine.push({.name = "add", .access = {commute(x)}}, [&] { ++value; });
  }
  engine.wait_all();
  CHECK(wrong == 0);
}
