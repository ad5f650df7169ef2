// Groups where their members' places, failures and waits cross: each case fails with a fault that others did not
// notice.
#include <atomic>
#include <thread>

#include "tests/engine/expect.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// A task that ends when the test says so.
struct Outside {
  explicit Outside(Engine& engine) {
    handle = engine.push({.name = "outside"}, [this](Queue queue) {
      completion = queue.complete_later();
      there.open();
    });
    REQUIRE(there.wait());
  }
  TaskCompletion completion;
  Gate there;
  TaskHandle handle;
};

/// Whatever lies ready is begun before the last of these, more or less.
void let_others_begin(Engine& engine) {
  for (int i = 0; i < 50; ++i)
    engine.push({.name = "passes"}, [] {}).wait();
}

}  // namespace

TEST_CASE("A member that goes on after a wait has a place again: who ends meanwhile lets nobody in") {
  Engine engine({.workers = 2});
  TaskGroup group(engine, {.limit = 1});
  Gate goes_on, second;
  OpensAtEnd opens(goes_on), opens_second(second);
  std::atomic<bool> first_over{false}, overtaken{false};
  Outside awaited(engine);
  group.push({.name = "first"}, [&, goes_on] {
    awaited.handle.wait();
    goes_on.wait();
    first_over = true;
  });
  TaskHandle other = group.push({.name = "second"}, [second] { second.wait(); });
  TaskHandle third = group.push({.name = "third"}, [&] { overtaken = !first_over; });
  REQUIRE(second.reached());  // the first one waits
  awaited.completion.complete();
  REQUIRE(goes_on.reached());  // two have begun: nobody could have told the second one to stop
  second.open();
  other.wait();
  let_others_begin(engine);
  CHECK(third.status() == TaskStatus::waiting);
  goes_on.open();
  group.wait();
  CHECK_FALSE(overtaken);
}

TEST_CASE("A member below a body that waits on top of it has its place again when that goes on") {
  Engine engine({.workers = 2});
  TaskGroup group(engine, {.limit = 1}), others(engine);
  Gate busy, goes_on;
  OpensAtEnd opens(busy), opens_last(goes_on);
  std::atomic<bool> waits{false};
  Outside awaited(engine);
  engine.push({.name = "has the other worker"}, [busy] { busy.wait(); });
  REQUIRE(busy.reached());
  group.push({.name = "below"}, [&, goes_on] {
    others
        .push(
            {.name = "above"},
            [&] {
              waits = true;
              awaited.handle.wait();
            })
        .wait();  // runs it here: no other worker is there
    goes_on.wait();
  });
  REQUIRE(eventually([&] { return waits.load(); }));
  busy.open();
  group.push({.name = "meanwhile"}, [] {}).wait();
  awaited.completion.complete();
  REQUIRE(goes_on.reached());
  TaskHandle next = group.push({.name = "next"}, [] {});
  let_others_begin(engine);
  CHECK(next.status() == TaskStatus::waiting);
  goes_on.open();
  group.wait();
}

TEST_CASE("What fails in a group inside another one, and nobody waits there, the outer group's wait tells") {
  Engine engine({.workers = 2});
  TaskGroup outer(engine);
  outer.push({.name = "parent"}, [&] {
    TaskGroup inner(engine);
    inner.push({.name = "fails"}, [] { throw IndexError("on purpose"); });
  });
  CHECK_THROWS_AS(outer.wait(), IndexError);
  CHECK_NOTHROW(outer.wait());
}

TEST_CASE("A group tells of a failure though an earlier one of its tasks was told elsewhere") {
  Engine engine({.workers = 1});
  TaskGroup group(engine);
  TaskHandle first = group.push({.name = "fails first"}, [] { throw IndexError("first"); });
  CHECK_THROWS_AS(first.wait(), IndexError);
  group.push({.name = "fails later"}, [] { throw ShapeError("later"); });
  CHECK_THROWS_AS(group.wait(), ShapeError);
}

TEST_CASE("A body runs what its group's wait needs, however many members came and went before") {
  Engine engine({.workers = 1});
  TaskGroup group(engine);
  engine
      .push(
          {.name = "pushes alone"},
          [&] {
            for (int i = 0; i < 200; ++i)
              group.push({.name = "early"}, [] {});
          })
      .wait();
  group.wait();
  bool here = false;
  engine
      .push(
          {.name = "waits"},
          [&] {
            const std::thread::id own = std::this_thread::get_id();
            group.push({.name = "member"}, [&, own] { here = std::this_thread::get_id() == own; });
            group.wait();
          })
      .wait();
  CHECK(here);
}
