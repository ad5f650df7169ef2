// On whose behalf a task was pushed: failures, traces and nested pushes know it.
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/io_context.hpp>

#include <sluice/engine/asio.h>
#include <sluice/engine/origin.h>
#include <sluice/engine/parallel.h>

#include "tests/engine/expect.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;

namespace {

const SourceLocation k_call{"user.cpp", 12};

// What a wait says of a task that fails, pushed on line 77 of own.cpp.
std::string failure_pushed_in(Engine& engine) {
  Var x = engine.new_var();
  engine.push(
      {.name = "work", .access = {write(x)}}, [] { throw ValueError("no"); }, SourceLocation{"own.cpp", 77});
  return text_of_error([&] { engine.wait(x); });
}

/// Two ranges of a loop push a task each, one on the thread that calls it, one on another's. What waits say of these.
class PushingLoop {
 public:
  explicit PushingLoop(Engine& engine) : engine_(engine), pushed_to_{engine.new_var(), engine.new_var()} {}

  void run() {
    const Meeting meeting(2);
    parallel_for(2, 1, [&](std::int64_t i, std::int64_t) {
      together_ += meeting.join() ? 1 : 0;
      strangers_ += &Engine::current() == &engine_ ? 0 : 1;
      engine_.push({.name = "nested", .access = {write(pushed_to_[static_cast<std::size_t>(i)])}}, [] {
        throw ValueError("no");
      });
    });
  }
  std::vector<std::string> failures() {
    CHECK(together_ == 2);
    CHECK(strangers_ == 0);
    std::vector<std::string> texts;
    for (const Var& var : pushed_to_)
      texts.push_back(text_of_error([&] { engine_.wait(var); }));
    return texts;
  }

 private:
  Engine& engine_;
  std::vector<Var> pushed_to_;
  std::atomic<int> together_{0}, strangers_{0};
};

}  // namespace

TEST_CASE("an origin is made once for a text and a line") {
  const Origin& first = Origin::of("layer 1 (Dense)", k_call);
  CHECK(&first == &Origin::of("layer 1 (Dense)", {std::string("user.cpp").c_str(), 12}));
  CHECK(&first != &Origin::of("layer 2 (Dense)", k_call));
  CHECK(&first != &Origin::of("layer 1 (Dense)", {"user.cpp", 13}));
  CHECK(Origin::of(SourceLocation{"user.cpp", 12}) == nullptr);
  CHECK(Origin::of(SourceLocation{"other.cpp", 1, first.number()}) == &first);
  CHECK(first.place("a.cpp").origin == first.number());
  CHECK(&first.place("a.cpp") != &first.place("b.cpp"));
}

TEST_CASE("a failure names the innermost origin, and scopes give back what was before") {
  for (const CpuMode policy : {CpuMode::serial, CpuMode::pool}) {
    Engine engine({.workers = 2, .cpu_policy = policy});
    const std::string plain = "in task \"work\" pushed at own.cpp:77";
    CHECK_THAT(failure_pushed_in(engine), contains(plain));
    {
      const OriginScope outer(&Origin::of("net", k_call));
      CHECK_THAT(failure_pushed_in(engine), contains("of net, called at own.cpp:77 inside the call at user.cpp:12"));
      try {
        const OriginScope inner(&Origin::of("layer 3", k_call));
        CHECK(OriginScope::current() == &Origin::of("layer 3", k_call));
        CHECK_THAT(failure_pushed_in(engine), contains("of layer 3, called at own.cpp:77"));
        throw ValueError("leaves the scope");
      } catch (const ValueError&) {
        CHECK(OriginScope::current() == &Origin::of("net", k_call));
      }
      CHECK_THAT(failure_pushed_in(engine), contains("of net, called"));
      const OriginScope none(static_cast<const Origin*>(nullptr));
      CHECK_THAT(failure_pushed_in(engine), contains(plain));
    }
    CHECK(OriginScope::current() == nullptr);
    CHECK_THAT(failure_pushed_in(engine), contains(plain));
  }
}

TEST_CASE("a scope with a site replaces the lines of what is pushed") {
  Engine engine({.workers = 1});
  const Origin& origin = Origin::of("layer 4", k_call);
  const OriginScope scope(SourceLocation{k_call.file, k_call.line, origin.number()});
  const std::string text = failure_pushed_in(engine);
  CHECK_THAT(text, contains("of layer 4, called at user.cpp:12"));
  CHECK_THAT(text, !contains("own.cpp") && !contains("inside"));
}

TEST_CASE("scopes of one thread are not another's") {
  Engine engine({.workers = 2});
  const OriginScope scope(&Origin::of("here", k_call));
  std::string elsewhere;
  std::thread([&] { elsewhere = failure_pushed_in(engine); }).join();
  CHECK_THAT(elsewhere, contains("\" pushed at own.cpp:77"));
  CHECK_THAT(failure_pushed_in(engine), contains("of here"));
}

TEST_CASE("what a task pushes is for whom the task is, not for who runs it") {
  for (const CpuMode policy : {CpuMode::serial, CpuMode::pool}) {
    Engine engine({.workers = 1, .cpu_policy = policy});
    Var x = engine.new_var(), y = engine.new_var(), z = engine.new_var();
    const auto push_nested = [&](Var& from, Var& to) {
      engine.push({.name = "outer", .access = {write(from)}}, [&engine, &to] {
        engine.push({.name = "nested", .access = {write(to)}}, [] { throw ValueError("no"); });
      });
      engine.wait(from);
    };
    {
      const OriginScope scope(&Origin::of("layer 5", k_call));
      push_nested(x, y);
    }
    CHECK_THAT(text_of_error([&] { engine.wait(y); }), contains("\"nested\" of layer 5"));
    push_nested(x, z);
    CHECK_THAT(text_of_error([&] { engine.wait(z); }), contains("\"nested\" pushed at"));
  }
}

TEST_CASE("what a coroutine body pushes is for whom it is, before and after it waits") {
  Engine engine({.workers = 1});
  const Var x = engine.new_var(), y = engine.new_var(), z = engine.new_var(), awaited = engine.new_var();
  const Gate gate;
  const OpensAtEnd opens(gate);
  engine.push({.name = "gate", .access = {write(awaited)}}, [gate] { gate.wait(); });
  {
    const OriginScope scope(&Origin::of("layer 11", k_call));
    engine.push({.name = "outer", .access = {write(x)}}, [&]() -> Coroutine {
      engine.push({.name = "nested", .access = {write(y)}}, [] { throw ValueError("no"); });
      co_await read(awaited);
      engine.push({.name = "nested", .access = {write(z)}}, [] { throw ValueError("no"); });
    });
  }
  gate.open();
  engine.wait(x);
  for (const Var& pushed_to : {y, z})
    CHECK_THAT(text_of_error([&] { engine.wait(pushed_to); }), contains("\"nested\" of layer 11"));
}

TEST_CASE("what a loop's helpers push is for whom its caller is") {
  Engine engine({.workers = 2});
  const auto in_task = [&](bool named, bool scoped) {
    Var x = engine.new_var();
    PushingLoop loop(engine);
    const OriginScope scope(named ? &Origin::of("layer 7", k_call) : nullptr);
    engine.push({.name = "outer", .access = {write(x)}}, [&] {
      if (!scoped)
        return loop.run();
      const OriginScope inside(&Origin::of("layer 8", k_call));
      loop.run();
    });
    engine.wait(x);
    return loop.failures();
  };
  for (const std::string& text : in_task(true, false))
    CHECK_THAT(text, contains("\"nested\" of layer 7"));
  for (const std::string& text : in_task(true, true))
    CHECK_THAT(text, contains("\"nested\" of layer 8"));
  for (const std::string& text : in_task(false, false))
    CHECK_THAT(text, contains("\"nested\" pushed at"));

  const EngineScope current(engine);
  PushingLoop outside(engine);
  {
    const OriginScope scope(&Origin::of("layer 9", k_call));
    outside.run();
  }
  for (const std::string& text : outside.failures())
    CHECK_THAT(text, contains("\"nested\" of layer 9"));
}

TEST_CASE("who helps a loop from inside a layer of its own pushes for the loop's caller") {
  boost::asio::io_context io;
  Engine engine({.executor = run_on(io)}), other({.workers = 1});
  const auto run_helped = [&] {
    PushingLoop loop(engine);
    std::thread helper([&] {
      const EngineScope elsewhere(other);
      const OriginScope scope(&Origin::of("unrelated", k_call));
      CHECK(eventually([&] {
        io.restart();
        return io.run_one() == 1;
      }));
      CHECK(OriginScope::current() == &Origin::of("unrelated", k_call));
      CHECK(&Engine::current() == &other);
    });
    const EngineScope current(engine);
    loop.run();
    helper.join();
    io.restart();
    io.poll();  // what the loop has pushed
    return loop.failures();
  };
  {
    const OriginScope scope(&Origin::of("layer 10", k_call));
    for (const std::string& text : run_helped())
      CHECK_THAT(text, contains("\"nested\" of layer 10"));
  }
  for (const std::string& text : run_helped())
    CHECK_THAT(text, contains("\"nested\" pushed at"));
}

TEST_CASE("a located error says where once, and an error of a task is left as it is") {
  ValueError error("bad");
  error.locate("in layer 1");
  error.locate("in layer 0");
  CHECK(std::string(error.what()) == "bad\n  in layer 1");
  CHECK(error.message() == "bad");
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  engine.push({.name = "fails", .access = {write(x)}}, [] { throw ValueError("inside"); });
  expect_error<ValueError>(
      [&] {
        try {
          engine.wait(x);
        } catch (Error& caught) {
          caught.locate("somewhere else");
          throw;
        }
      },
      [](const ValueError& caught) { CHECK_THAT(caught.what(), !contains("somewhere else")); });
}

TEST_CASE("a trace tells for whom a task was") {
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  engine.start_trace();
  {
    const OriginScope scope(&Origin::of("layer 6 (Dense)", k_call));
    engine.push({.name = "a", .access = {write(x)}}, [] {});
  }
  engine.push({.name = "b", .access = {write(x)}}, [] {});
  engine.wait_all();
  const Trace trace = engine.stop_trace();
  REQUIRE(trace.events().size() == 2);
  REQUIRE(Origin::of(trace.events()[0].site) != nullptr);
  CHECK(Origin::of(trace.events()[0].site)->what() == "layer 6 (Dense)");
  CHECK(Origin::of(trace.events()[1].site) == nullptr);
  std::ostringstream json;
  trace.write_chrome(json);
  CHECK_THAT(json.str(), contains(R"x("for":"layer 6 (Dense)")x"));
}
