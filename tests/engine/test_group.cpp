// Groups of tasks: who is a member, waiting for all, cancelling all, how many run at a time.
#include <atomic>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/thread_pool.hpp>

#include <sluice/engine/asio.h>

#include "tests/engine/expect.h"
#include "tests/engine/held.h"
#include "tests/engine/policies.h"
#include "tests/support/gate.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

namespace {

// A tree of tasks, each of which pushes its children and returns.
void grow(Engine& engine, std::atomic<int>& leaves, int depth) {
  if (depth == 0) {
    ++leaves;
    return;
  }
  for (int i = 0; i < 2; ++i)
    engine.push({.name = "branch"}, [&engine, &leaves, depth] { grow(engine, leaves, depth - 1); });
}

// The same with a group in each task, which waits for it.
int count(Engine& engine, int depth) {
  if (depth == 0)
    return 1;
  int left = 0, right = 0;
  TaskGroup group(engine);
  group.push({.name = "left"}, [&] { left = count(engine, depth - 1); });
  group.push({.name = "right"}, [&] { right = count(engine, depth - 1); });
  group.wait();
  return left + right;
}

}  // namespace

TEST_CASE("A group is waited for with all that its tasks push, under every policy") {
  for (const CpuMode policy : k_all) {
    CAPTURE(to_string(policy));
    Engine engine(options_of(policy));
    std::atomic<int> leaves{0};
    TaskGroup group(engine);
    CHECK(group.done());
    CHECK_NOTHROW(group.wait());
    for (int round = 1; round <= 3; ++round) {
      group.push({.name = "root"}, [&] { grow(engine, leaves, 6); });
      group.wait();
      CHECK(leaves == 64 * round);
      CHECK(group.done());
    }
  }
}

TEST_CASE("What other tasks do is nothing to the group") {
  Engine engine({.workers = 2});
  Held held(engine);
  REQUIRE(held.gate.reached());
  TaskGroup group(engine);
  bool ran = false;
  {
    const GroupScope scope(group);
    engine.push({.name = "member"}, [&] { ran = true; });
  }
  engine.push({.name = "stranger", .access = {read(held.var)}}, [] {});
  group.wait();
  CHECK(ran);
  CHECK(held.gate.inside() == 1);
}

TEST_CASE("A task on a worker is a member as long as it runs; done() tells, a handle agrees") {
  Engine engine({.workers = 1});
  Gate gate;
  OpensAtEnd opens(gate);
  TaskGroup group(engine);
  TaskHandle handle = group.push({.name = "member"}, [gate] { gate.wait(); });
  REQUIRE(gate.reached());
  CHECK_FALSE(group.done());
  gate.open();
  group.wait();
  CHECK(group.done());
  CHECK(handle.done());
}

TEST_CASE("Waits for groups nest as calls do: in tasks, on an executor, deeper than there are threads") {
  for (const CpuMode policy : k_all) {
    CAPTURE(to_string(policy));
    Engine engine(options_of(policy));
    int leaves = 0;
    engine.push({.name = "all"}, [&] { leaves = count(engine, 7); }).wait();
    CHECK(leaves == 128);
  }
  boost::asio::thread_pool threads(2);
  {
    Engine engine({.executor = run_on(threads, 2)});
    int leaves = 0;
    engine.push({.name = "all"}, [&] { leaves = count(engine, 7); }).wait();
    CHECK(leaves == 128);
  }
}

TEST_CASE("Recursion by groups costs a call and no thread") {
  Engine engine({.workers = 2});
  const int depth = scaled(2000);
  std::atomic<int> deepest{0};
  std::function<void(int)> descend = [&](int left) {
    deepest = depth - left;
    if (left == 0)
      return;
    TaskGroup group(engine);
    group.push({.name = "deeper"}, [&, left] { descend(left - 1); });
    group.wait();
  };
  engine.push({.name = "top"}, [&] { descend(depth); }).wait();
  CHECK(deepest == depth);
}

TEST_CASE("A coroutine awaits a group without a thread, and may push to it") {
  for (const CpuMode policy : k_all) {
    CAPTURE(to_string(policy));
    Engine engine(options_of(policy, 1));
    std::atomic<int> leaves{0};
    int seen = 0;
    TaskGroup group(engine);
    TaskHandle handle = engine.push({.name = "coroutine"}, [&]() -> Coroutine {
      for (int round = 0; round < 3; ++round) {
        group.push({.name = "root"}, [&] { grow(engine, leaves, 4); });
        co_await group;
        seen += leaves;
      }
      co_await group;  // which is empty
    });
    CHECK_NOTHROW(handle.wait());
    CHECK(seen == 16 + 32 + 48);
  }
}

TEST_CASE("A coroutine is a member while it is suspended, and what it pushes is too") {
  Engine engine({.workers = 2});
  Held held(engine);
  REQUIRE(held.gate.reached());
  TaskGroup group(engine);
  std::atomic<bool> child{false};
  Gate begun;
  group.push({.name = "coroutine"}, [&]() -> Coroutine {
    begun.open();
    co_await held.var;
    engine.push({.name = "child"}, [&] { child = true; });
  });
  REQUIRE(begun.wait());
  let_pass(engine);
  CHECK_FALSE(group.done());
  held.gate.open();
  group.wait();
  CHECK(child);
}

TEST_CASE("A member may wait for another one, whichever was pushed first") {
  for (const CpuMode policy : k_all) {
    CAPTURE(to_string(policy));
    Engine engine(options_of(policy));
    Var x = engine.new_var();
    TaskGroup group(engine);
    int value = 0, seen = 0;
    group.push({.name = "parent"}, [&] {
      TaskHandle child = engine.push({.name = "child", .access = {write(x)}}, [&] { value = 3; });
      child.wait();
      seen = value;
    });
    group.wait();
    CHECK(seen == 3);
  }
}

TEST_CASE("A member that waits for its own group gets Deadlock, as does one of a group inside it") {
  Engine engine({.workers = 2, .report_failures = false});
  TaskGroup group(engine);
  TaskHandle own = group.push({.name = "own"}, [&] { group.wait(); });
  CHECK_THAT(text_of_error([&] { own.wait(); }), contains("own") && contains("group"));
  CHECK_THROWS_AS(own.wait(), Deadlock);
  TaskHandle inner = group.push({.name = "outer"}, [&] {
    TaskGroup nested(engine);
    nested.push({.name = "inner"}, [&] { group.wait(); });
    nested.wait();
  });
  CHECK_THROWS_AS(inner.wait(), Deadlock);
  TaskHandle sleeps = group.push({.name = "sleeps"}, [&]() -> Coroutine { co_await group; });
  CHECK_THROWS_AS(sleeps.wait(), Deadlock);
}

TEST_CASE("A circle through a group is found: a member waits for what the waiting task holds") {
  Engine engine({.workers = 2, .report_failures = false});
  Var x = engine.new_var();
  TaskGroup group(engine);
  Gate pushed;
  TaskHandle outer = engine.push({.name = "holds x", .access = {write(x)}}, [&] {
    pushed.wait();
    group.wait();
  });
  TaskHandle member = group.push({.name = "wants x"}, [&] {
    pushed.open();
    engine.wait(x);
  });
  // Whichever of the two looks first gives up, and the other goes on.
  const bool outer_gave_up = !text_of_error([&] { outer.wait(); }).empty();
  const bool member_gave_up = !text_of_error([&] { member.wait(); }).empty();
  CHECK((outer_gave_up || member_gave_up));
}

TEST_CASE("A group throws the earliest failure of its bodies once; wait_all has the others") {
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  TaskGroup group(engine);
  Gate gate;
  OpensAtEnd opens(gate);
  engine.push({.name = "stranger"}, [] { throw ValueError("of a stranger"); });
  group.push({.name = "holds", .access = {write(x)}}, [gate] { gate.wait(); });
  group.push({.name = "first", .access = {write(x)}}, [] { throw IndexError("first"); });
  group.push({.name = "skipped", .access = {write(x)}}, [] {});
  group.push({.name = "nested"}, [&] {
    TaskGroup inner(engine);
    inner.push({.name = "second"}, [] { throw ValueError("second"); });
  });
  gate.open();
  CHECK_THROWS_AS(group.wait(), IndexError);
  CHECK_NOTHROW(group.wait());
  CHECK_THAT(text_of_error([&] { engine.wait_all(); }), contains("of a stranger"));
  CHECK_THAT(text_of_error([&] { engine.wait_all(); }), contains("second"));
  CHECK_NOTHROW(engine.wait_all());
  group.push({.name = "third"}, [] { throw ValueError("third"); });
  TaskHandle awaits = engine.push({.name = "awaits"}, [&]() -> Coroutine { co_await group; });
  CHECK_THAT(text_of_error([&] { awaits.wait(); }), contains("third"));
  CHECK_NOTHROW(engine.wait_all());
}

TEST_CASE("Cancelling a group skips members, tells running ones, wakes sleeping ones and spares others") {
  Engine engine({.workers = 3});
  Var x = engine.new_var();
  Held held(engine);
  REQUIRE(held.gate.reached());
  TaskGroup group(engine);
  Gate running, sleeping;
  bool skipped = true, stranger = false, own_token = true;
  TaskCompletion outside;
  Gate left;
  std::stop_source other;
  TaskHandle told = group.push({.name = "runs"}, [&](Queue queue) {
    running.open();
    if (!eventually([&] { return queue.stop_requested(); }))
      throw ValueError("was not told");
  });
  TaskHandle sleeps = group.push({.name = "sleeps", .stop = other.get_token()}, [&]() -> Coroutine {
    sleeping.open();
    co_await held.var;
  });
  TaskHandle ends = group.push({.name = "elsewhere"}, [&](Queue queue) {
    outside = queue.complete_later();
    left.open();
  });
  TaskHandle queued = group.push({.name = "queued", .access = {read(held.var)}}, [&] { skipped = false; });
  TaskHandle with_token = group.push(
      {.name = "with a token", .access = {read(held.var)}, .stop = other.get_token()}, [&] { own_token = false; });
  engine.push({.name = "stranger", .access = {write(x)}}, [&] { stranger = true; });
  REQUIRE(running.wait());
  REQUIRE(sleeping.wait());
  REQUIRE(left.wait());
  const std::stop_token token = group.stop_token();
  group.cancel();
  CHECK(token.stop_requested());
  CHECK_NOTHROW(told.wait());
  CHECK_THROWS_AS(sleeps.wait(), Cancelled);
  REQUIRE(outside.stop_token().stop_requested());
  outside.complete();
  held.gate.open();
  CHECK_THROWS_AS(queued.wait(), Cancelled);
  CHECK_THROWS_AS(with_token.wait(), Cancelled);
  CHECK_NOTHROW(group.wait());
  engine.wait(x);
  CHECK((skipped && own_token && stranger));
  CHECK_THROWS_AS(group.push({.name = "too late"}, [] {}).wait(), Cancelled);
}

TEST_CASE("A group inside another one is cancelled and waited for with it") {
  Engine engine({.workers = 2});
  Held held(engine);
  TaskGroup outer(engine);
  bool ran = false;
  {
    const GroupScope scope(outer);
    TaskGroup inner(engine);
    inner.push({.name = "inner", .access = {read(held.var)}}, [&] { ran = true; });
  }
  CHECK_FALSE(outer.done());
  outer.cancel();
  held.gate.open();
  CHECK_NOTHROW(outer.wait());
  CHECK_FALSE(ran);
}

TEST_CASE("A group may go before its tasks, and its engine before the group") {
  std::atomic<int> leaves{0};
  std::unique_ptr<TaskGroup> late;
  {
    Engine engine({.workers = 2});
    {
      TaskGroup group(engine);
      group.push({.name = "root"}, [&] { grow(engine, leaves, 5); });
    }
    late = std::make_unique<TaskGroup>(engine);
    late->push({.name = "late"}, [] {});
  }
  CHECK(leaves == 32);
  CHECK(late->done());
  CHECK_THROWS_AS(late->push({.name = "too late"}, [] {}), EngineStopped);
}

TEST_CASE("A push that the engine refuses is no member") {
  Engine engine({.workers = 1});
  TaskGroup group(engine);
  engine.stop();
  CHECK_THROWS_AS(group.push({.name = "late"}, [] {}), EngineStopped);
  CHECK(group.done());
}

TEST_CASE("wait_all covers what was pushed before it, and what running tasks push until then it may leave") {
  Engine engine({.workers = 2});
  Held held(engine);
  REQUIRE(held.gate.reached());
  std::atomic<bool> over{false}, returned{false};
  std::atomic<int> links{0};
  std::function<void()> link = [&] {
    ++links;
    if (!over.load())
      engine.push({.name = "link"}, link);
  };
  engine.push({.name = "link"}, link);
  bool earlier = false;
  engine.push({.name = "earlier", .access = {read(held.var)}}, [&] { earlier = true; });
  std::thread waits([&] {
    engine.wait_all();  // though there is always another link
    returned = true;
  });
  CHECK(eventually([&] { return links.load() > 100; }));
  CHECK_FALSE(returned);
  held.gate.open();
  CHECK(eventually([&] { return returned.load(); }));
  CHECK(earlier);
  over = true;
  waits.join();
  engine.wait_all();
}

TEST_CASE("Scopes of groups of two engines do not hide each other") {
  Engine one({.workers = 1}), other({.workers = 1});
  TaskGroup of_one(one), of_other(other);
  Gate gate;
  {
    const GroupScope outer(of_one);
    const GroupScope inner(of_other);
    one.push({.name = "of the outer"}, [gate] { gate.wait(); });
  }
  CHECK_FALSE(of_one.done());
  CHECK(of_other.done());
  gate.open();
  of_one.wait();
}
