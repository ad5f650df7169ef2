// What a task is called, and how its accesses are given.
#include <array>
#include <cstring>
#include <memory>
#include <set>
#include <span>
#include <thread>
#include <type_traits>
#include <vector>

#include <sluice/engine/trace.h>

#include "tests/engine/expect.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;

namespace {

// Bytes that the heap is likely to write over what was freed.
void stir() {
  for (int i = 0; i < 64; ++i) {
    auto block = std::make_unique<char[]>(128);
    std::memset(block.get(), 'x', 127);
    TaskName(std::string(100, 'y')).c_str();
  }
}

}  // namespace

TEST_CASE("A literal's name is the literal; any other text is copied and freed with its last name") {
  static constexpr char k_text[] = "literal";
  CHECK(TaskName(k_text).c_str() == k_text);
  CHECK_FALSE(TaskName(k_text).counted());
  CHECK(TaskName::lasting(k_text).c_str() == k_text);
  CHECK(std::string(TaskName().c_str()) == "task");
  std::string text = "a text that does not fit into a small string";
  TaskName name = text;
  const char* const copied = name.c_str();
  CHECK(name.counted());
  CHECK(copied != text.c_str());
  text.assign(text.size(), 'z');
  CHECK(std::string(copied) == "a text that does not fit into a small string");
  TaskName copy = name;
  name = "other";
  CHECK_FALSE(name.counted());
  stir();
  CHECK(copy.c_str() == copied);
  CHECK(std::string(copied) == "a text that does not fit into a small string");
  const TaskName moved = std::move(copy);
  CHECK(moved.c_str() == copied);
}

TEST_CASE("A view of a text is no name unless it is asked for: it is copied") {
  CHECK(std::is_convertible_v<std::string, TaskName>);
  CHECK_FALSE(std::is_convertible_v<std::string_view, TaskName>);
  CHECK(std::string(TaskName(std::string_view("abcdef").substr(0, 3)).c_str()) == "abc");
}

TEST_CASE("A copied name is freed with its task: many of them take the room of a few") {
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  std::set<const char*> places;
  constexpr int k_names = 20000;
  for (int i = 0; i < k_names; ++i) {
    const TaskName name = "task number " + std::to_string(i);
    places.insert(name.c_str());
    engine.push({.name = name, .access = {write(x)}}, [] {});
    if (i % 16 == 0)
      engine.wait(x);
  }
  CHECK(places.size() < k_names / 10);
}

TEST_CASE("Errors and traces keep a name that the program has dropped") {
  Engine engine({.workers = 2});
  Var x = engine.new_var();
  engine.start_trace();
  for (int i = 0; i < 3; ++i) {
    const std::string name = "made at run time, " + std::to_string(i);
    engine.push({.name = name, .access = {out(x)}}, [i] {
      if (i == 2)
        throw ValueError("bad");
    });
  }
  const std::string text = text_of_error([&] { engine.wait(x); });
  stir();
  CHECK_THAT(text, contains("made at run time, 2"));
  const Trace trace = engine.stop_trace();
  REQUIRE(trace.events().size() == 3);
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(trace.events()[i].name == "made at run time, " + std::to_string(i));
}

TEST_CASE("Threads share a name") {
  Engine engine({.workers = 2});
  const TaskName name = std::string("shared by all");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i)
        engine.push({.name = name}, [] {});
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  engine.wait_all();
  CHECK(std::string(name.c_str()) == "shared by all");
}

TEST_CASE("Accesses are given as a list, a vector, an array or a span, few or many") {
  Engine engine({.workers = 2});
  std::vector<Var> vars;
  for (int i = 0; i < 20; ++i)
    vars.push_back(engine.new_var());
  std::vector<Access> all;
  for (const Var& var : vars)
    all.push_back(write(var));
  const std::array<Access, 2> two{read(vars[0]), write(vars[1])};
  engine.push({.name = "vector", .access = all}, [] {});
  engine.push({.name = "span", .access = std::span<const Access>(all).subspan(1, 9)}, [] {});
  engine.push({.name = "array", .access = two}, [] {});
  const Task task{.name = "list", .access = {write(vars[0]), write(vars[19])}};
  engine.push(task, [] {});
  for (const Var& var : vars)
    engine.wait(var);
  CHECK(vars[0].version() == 2);
  CHECK(vars[1].version() == 3);
  CHECK(vars[9].version() == 2);
  CHECK(vars[10].version() == 1);
  CHECK(vars[19].version() == 2);
}

TEST_CASE("A list of accesses is copied and moved, in place and beyond") {
  Engine engine({.workers = 1});
  Var x = engine.new_var(), y = engine.new_var();
  for (const std::size_t count : {0, 1, 8, 9, 40}) {
    CAPTURE(count);
    AccessList list;
    for (std::size_t i = 0; i < count; ++i)
      list.push_back(i % 2 == 0 ? read(x) : write(y));
    const auto right = [&](const AccessList& other) {
      bool same = other.size() == count && other.empty() == (count == 0);
      for (std::size_t i = 0; same && i < count; ++i)
        same = other[i].var == (i % 2 == 0 ? x : y).core() &&
               other[i].mode == (i % 2 == 0 ? AccessMode::read : AccessMode::write);
      return same;
    };
    CHECK(right(list));
    AccessList copy = list;
    CHECK(right(copy));
    AccessList moved = std::move(copy);
    CHECK(right(moved));
    CHECK(copy.empty());  // NOLINT: what is left
    copy.push_back(read(x));
    CHECK(copy.size() == 1);
    copy = moved;
    CHECK(right(copy));
    moved = std::move(copy);
    CHECK(right(moved));
    moved = AccessList{write(x)};
    CHECK(moved.size() == 1);
    CHECK(right(list));
  }
}

TEST_CASE("A handle tells how its task stands without blocking") {
  for (const CpuMode policy : {CpuMode::pool, CpuMode::serial, CpuMode::chaos}) {
    CAPTURE(to_string(policy));
    Engine engine({.workers = policy == CpuMode::pool ? 2 : 0, .cpu_policy = policy});
    Var x = engine.new_var();
    TaskHandle good = engine.push({.name = "good", .access = {write(x)}}, [] {});
    TaskHandle bad = engine.push({.name = "bad", .access = {write(x)}}, [] { throw ValueError("bad"); });
    TaskHandle skipped = engine.push({.name = "skipped", .access = {read(x)}}, [] {});
    CHECK_THROWS_AS(bad.wait(), ValueError);
    CHECK_THROWS_AS(skipped.wait(), ValueError);
    CHECK(good.done());
    CHECK(good.status() == TaskStatus::finished);
    CHECK(bad.status() == TaskStatus::failed);
    CHECK(skipped.status() == TaskStatus::failed);
  }
  CHECK_THROWS_AS(TaskHandle().done(), ValueError);
  CHECK_THROWS_AS(TaskHandle().status(), ValueError);
}

TEST_CASE("A handle tells waiting, running and cancelled apart") {
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  Gate gate;
  OpensAtEnd opens(gate);
  TaskHandle runs = engine.push({.name = "runs", .access = {write(x)}}, [gate] { gate.wait(); });
  TaskHandle waits = engine.push({.name = "waits", .access = {write(x)}}, [] {});
  TaskHandle unwanted = engine.push({.name = "unwanted", .access = {read(x)}}, [] {});
  REQUIRE(gate.reached());
  CHECK(runs.status() == TaskStatus::running);
  CHECK_FALSE(runs.done());
  CHECK(waits.status() == TaskStatus::waiting);
  REQUIRE(unwanted.cancel());
  CHECK(unwanted.status() == TaskStatus::waiting);
  gate.open();
  CHECK_THROWS_AS(unwanted.wait(), Cancelled);
  CHECK(unwanted.status() == TaskStatus::cancelled);
  CHECK(waits.status() == TaskStatus::finished);
}

TEST_CASE("A suspended coroutine is running") {
  Engine engine({.workers = 2});
  Var x = engine.new_var();
  Gate gate, begun;
  OpensAtEnd opens(gate);
  engine.push({.name = "holds", .access = {write(x)}}, [gate] { gate.wait(); });
  REQUIRE(gate.reached());
  TaskHandle handle = engine.push({.name = "sleeps"}, [&]() -> Coroutine {
    begun.open();
    co_await x;
  });
  REQUIRE(begun.wait());
  engine.push({.name = "passes"}, [] {}).wait();
  CHECK(handle.status() == TaskStatus::running);
  gate.open();
  handle.wait();
  CHECK(handle.status() == TaskStatus::finished);
}
