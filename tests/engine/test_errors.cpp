// A failure travels on Vars, keeps its type and says where it comes from.
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include <boost/assert/source_location.hpp>
#include <boost/system/errc.hpp>
#include <boost/system/system_error.hpp>

#include "tests/engine/expect.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;

namespace {
/// An error type of a room to the right, or of a user.
class OwnError : public Error {
 public:
  OwnError(std::string message, int detail) : Error(std::move(message)), detail(detail) {}
  int detail;
};
}  // namespace

TEST_CASE("T22: a failed task is named with the file and the line of its push") {
  for (const CpuMode policy : {CpuMode::serial, CpuMode::pool}) {
    Engine engine({.workers = 2, .cpu_policy = policy});
    Var x = engine.new_var();
    const int line = __LINE__ + 1;
    engine.push({.name = "divide", .access = {write(x)}}, [] { throw ValueError("by zero"); });
    expect_error<ValueError>(
        [&] { engine.wait(x); },
        [&](const ValueError& error) {
          CHECK(error.message() == "by zero");
          CHECK_THAT(error.what(), contains("by zero"));
          CHECK_THAT(error.what(), contains("divide"));
          CHECK_THAT(error.what(), contains("test_errors.cpp:" + std::to_string(line)));
          REQUIRE(error.record() != nullptr);
          CHECK(error.record()->task == "divide");
          CHECK(error.record()->site.line == line);
          CHECK(std::strstr(error.record()->site.file, "test_errors.cpp") != nullptr);
        });
  }
}

TEST_CASE("what Boost throws in a task is told without its headers") {
  namespace errc = boost::system::errc;
  static constexpr boost::source_location k_inside = BOOST_CURRENT_LOCATION;
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  engine.push({.name = "connect", .access = {write(x)}}, [] {
    boost::system::error_code code;
    code.assign(errc::make_error_code(errc::connection_refused), &k_inside);
    throw boost::system::system_error(code, "connect");
  });
  const std::string text = text_of_error([&] { engine.wait(x); });
  CHECK_THAT(text, contains("\"connect\" failed: connect: Connection refused\n"));
  CHECK_THAT(text, !contains("[generic"));
}

TEST_CASE("T22: a failure pushed and run on other threads keeps its own context") {
  Engine engine({.workers = 4});
  constexpr int k_threads = 4;
  std::vector<Var> vars;
  for (int i = 0; i < k_threads; ++i)
    vars.push_back(engine.new_var());
  const TaskName names[k_threads] = {"first", "second", "third", "fourth"};
  std::vector<std::thread> threads;
  for (int i = 0; i < k_threads; ++i) {
    threads.emplace_back([&, i] {
      engine.push(
          {.name = names[i], .access = {write(vars[i])}},
          [i] { throw IndexError(message("index ", i)); },
          SourceLocation{"some_file.cpp", 100 + i});
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  for (int i = 0; i < k_threads; ++i) {
    const std::string text = text_of_error([&] { engine.wait(vars[i]); });
    CHECK_THAT(text, contains(message("index ", i)));
    CHECK_THAT(text, contains(names[i].c_str()));
    CHECK_THAT(text, contains(message("some_file.cpp:", 100 + i)));
  }
}

TEST_CASE("An error of ours is rethrown as itself, with all that it carries") {
  Engine engine({.workers = 2});
  Var x = engine.new_var(), y = engine.new_var(), z = engine.new_var();
  engine.push({.name = "allocate", .access = {write(x)}}, [] { throw OutOfMemory("no room", 12345); });
  engine.push({.name = "own", .access = {write(y)}}, [] { throw OwnError("mine", 7); });
  engine.push({.name = "after", .access = {read(x), write(z)}}, [] {});
  expect_error<OutOfMemory>([&] { engine.wait(x); }, [](const OutOfMemory& e) { CHECK(e.requested() == 12345); });
  expect_error<OwnError>([&] { engine.wait(y); }, [](const OwnError& e) { CHECK(e.detail == 7); });
  expect_error<OutOfMemory>(
      [&] { engine.wait(z); },
      [](const OutOfMemory& e) {
        CHECK(e.requested() == 12345);
        CHECK_THAT(e.what(), contains("allocate"));
      });
}

TEST_CASE("T19: whatever else a body throws is nested in TaskFailed") {
  Engine engine({.workers = 2});
  Var number = engine.new_var(), text = engine.new_var();
  engine.push({.name = "throws an int", .access = {write(number)}}, [] { throw 42; });
  engine.push({.name = "throws from std", .access = {write(text)}}, [] { throw std::range_error("too far"); });
  expect_error<TaskFailed>(
      [&] { engine.wait(number); },
      [](const TaskFailed& error) {
        CHECK_THAT(error.what(), contains("throws an int"));
        CHECK_THROWS_AS(error.rethrow_nested(), int);
      });
  expect_error<TaskFailed>(
      [&] { engine.wait(text); },
      [](const TaskFailed& error) {
        CHECK_THAT(error.what(), contains("throws from std"));
        CHECK_THAT(error.what(), contains("too far"));
        CHECK_THROWS_AS(std::rethrow_if_nested(error), std::range_error);
      });
}

TEST_CASE("T18: of a graph only the descendants of a failed task are skipped, each once") {
  for (const CpuMode policy : {CpuMode::serial, CpuMode::pool}) {
    Engine engine({.workers = 4, .cpu_policy = policy});
    Var root = engine.new_var(), sound = engine.new_var();
    std::vector<Var> leaves;
    std::atomic<int> ran{0}, wrongly_ran{0};
    engine.push({.name = "root", .access = {write(root)}}, [] { throw ValueError("root failed"); });
    for (int i = 0; i < 100; ++i) {
      leaves.push_back(engine.new_var());
      engine.push({.name = "child", .access = {read(root), out(leaves.back())}}, [&] { ++wrongly_ran; });
      engine.push({.name = "sibling", .access = {read(sound)}}, [&] { ++ran; });
    }
    AccessList all{write(sound)};
    for (const Var& leaf : leaves)
      all.push_back(read(leaf));
    engine.push({.name = "join", .access = all}, [&] { ++wrongly_ran; });
    for (const Var& leaf : leaves)
      CHECK_THAT(text_of_error([&] { engine.wait(leaf); }), contains("root failed"));
    CHECK_THAT(text_of_error([&] { engine.wait(sound); }), contains("root failed"));
    CHECK(ran == 100);
    CHECK(wrongly_ran == 0);
    CHECK(engine.counters().failed == 1);
    CHECK(engine.counters().skipped == 101);
    CHECK_NOTHROW(engine.wait_all());
  }
}

TEST_CASE("T20: an error stays until the Var is overwritten by `out`") {
  Engine engine({.workers = 2});
  Var x = engine.new_var();
  int value = 0;
  engine.push({.name = "fails", .access = {write(x)}}, [] { throw ValueError("bad"); });
  for (int i = 0; i < 3; ++i)
    CHECK_THROWS_AS(engine.wait(x), ValueError);
  CHECK_THROWS_AS(engine.wait(write(x)), ValueError);
  engine.push({.name = "updates", .access = {write(x)}}, [&] { value = 1; });
  CHECK_THROWS_AS(engine.wait(x), ValueError);
  CHECK(value == 0);
  engine.push({.name = "overwrites", .access = {out(x)}}, [&] { value = 2; });
  CHECK_NOTHROW(engine.wait(x));
  engine.push({.name = "updates", .access = {write(x)}}, [&] { ++value; });
  CHECK_NOTHROW(engine.wait(x));
  CHECK(value == 3);
}

TEST_CASE("A failing `out` leaves its own failure in place of the old one") {
  Engine engine({.workers = 2});
  Var x = engine.new_var();
  engine.push({.name = "old", .access = {write(x)}}, [] { throw ValueError("old failure"); });
  engine.push({.name = "new", .access = {out(x)}}, [] { throw IndexError("new failure"); });
  CHECK_THROWS_AS(engine.wait(x), IndexError);
}

TEST_CASE("T20: clear_error makes a Var clean, whatever it holds") {
  Engine engine({.workers = 2});
  Var x = engine.new_var();
  Gate gate;
  OpensAtEnd opens(gate);
  int value = 0;
  engine.push({.name = "fails late", .access = {write(x)}}, [gate] {
    gate.wait();
    throw ValueError("bad");
  });
  gate.open();
  engine.clear_error(x);
  CHECK_NOTHROW(engine.wait(x));
  engine.push({.name = "updates", .access = {write(x)}}, [&] { value = 1; });
  CHECK_NOTHROW(engine.wait(x));
  CHECK(value == 1);
}

TEST_CASE("T20: a task that asks for it runs on failed input too, and may mend it") {
  for (const CpuMode policy : {CpuMode::serial, CpuMode::pool}) {
    Engine engine({.workers = 2, .cpu_policy = policy});
    Var broken = engine.new_var(), result = engine.new_var();
    bool skipped = true, cleaned_up = false;
    engine.push({.name = "fails", .access = {write(broken)}}, [] { throw ValueError("bad"); });
    engine.push({.name = "skipped", .access = {read(broken)}}, [&] { skipped = false; });
    engine.push({.name = "cleanup", .access = {read(broken), out(result)}, .on_failed_input = OnFailedInput::run}, [&] {
      cleaned_up = true;
    });
    CHECK_NOTHROW(engine.wait(result));
    CHECK(cleaned_up);
    CHECK(skipped);
    CHECK_THROWS_AS(engine.wait(broken), ValueError);
  }
}

TEST_CASE("T21: wait_all throws each failure once, the earliest push first") {
  Engine engine({.workers = 4});
  Var vars[4];
  for (Var& var : vars)
    var = engine.new_var();
  Gate gate;
  OpensAtEnd opens(gate);
  engine.push({.name = "one", .access = {write(vars[0])}}, [gate] {
    gate.wait();
    throw ValueError("failure 1");
  });
  engine.push({.name = "two", .access = {write(vars[1])}}, [] { throw IndexError("failure 2"); });
  engine.push({.name = "follows two", .access = {read(vars[1]), write(vars[2])}}, [] {});
  engine.push({.name = "three", .access = {write(vars[3])}}, [gate] {
    gate.open();
    throw ShapeError("failure 3");
  });
  CHECK_THAT(text_of_error([&] { engine.wait_all(); }), contains("failure 1"));
  CHECK_THAT(text_of_error([&] { engine.wait_all(); }), contains("failure 2"));
  CHECK_THAT(text_of_error([&] { engine.wait_all(); }), contains("failure 3"));
  CHECK_NOTHROW(engine.wait_all());
  CHECK_THROWS_AS(engine.wait(vars[2]), IndexError);
}

TEST_CASE("T21: wait_all keeps silent about a failure that another wait has reported") {
  Engine engine({.workers = 2});
  Var x = engine.new_var(), y = engine.new_var();
  engine.push({.name = "one", .access = {write(x)}}, [] { throw ValueError("failure 1"); });
  engine.push({.name = "two", .access = {write(y)}}, [] { throw ValueError("failure 2"); });
  CHECK_THROWS_AS(engine.wait(x), ValueError);
  CHECK_THAT(text_of_error([&] { engine.wait_all(); }), contains("failure 2"));
  CHECK_NOTHROW(engine.wait_all());
}

TEST_CASE("A failure with no Var to carry it is reported by wait_all and by its handle") {
  Engine engine({.workers = 2});
  engine.push({.name = "alone"}, [] { throw ValueError("nobody saw"); });
  CHECK_THROWS_AS(engine.wait_all(), ValueError);
  TaskHandle handle = engine.push({.name = "held"}, [] { throw IndexError("seen"); });
  CHECK_THROWS_AS(handle.wait(), IndexError);
  CHECK_NOTHROW(engine.wait_all());
}

TEST_CASE("One failure may be rethrown on many threads at the same time") {
  Engine engine({.workers = 2});
  Var x = engine.new_var();
  engine.push({.name = "fails", .access = {write(x)}}, [] { throw ValueError("shared"); });
  std::atomic<int> caught{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round)
        caught += text_of_error([&] { engine.wait(x); }).find("shared") != std::string::npos ? 1 : 0;
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  CHECK(caught == 400);
}

TEST_CASE("A failing nested push marks its own Vars, not its parent's") {
  for (const CpuMode policy : {CpuMode::serial, CpuMode::pool}) {
    Engine engine({.workers = 2, .cpu_policy = policy});
    Var parent = engine.new_var(), child = engine.new_var();
    engine.push({.name = "parent", .access = {write(parent)}}, [&] {
      engine.push({.name = "child", .access = {write(child)}}, [] { throw ValueError("child failed"); });
    });
    CHECK_NOTHROW(engine.wait(parent));
    CHECK_THAT(text_of_error([&] { engine.wait(child); }), contains("child failed"));
    CHECK(parent.version() == 1);
    CHECK(child.version() == 0);
  }
}

TEST_CASE("An error caught from one task and thrown on by another still names the first") {
  Engine engine({.workers = 2});
  Var x = engine.new_var(), y = engine.new_var();
  engine.push({.name = "origin", .access = {write(x)}}, [] { throw ValueError("deep"); });
  std::exception_ptr kept;
  try {
    engine.wait(x);
  } catch (...) {
    kept = std::current_exception();
  }
  REQUIRE(kept != nullptr);
  engine.push({.name = "relay", .access = {write(y)}}, [kept] { std::rethrow_exception(kept); });
  CHECK_THAT(text_of_error([&] { engine.wait(y); }), contains("origin"));
}
