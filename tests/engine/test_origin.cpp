// On whose behalf a task was pushed: failures, traces and nested pushes know it.
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <sluice/engine/origin.h>

#include "tests/engine/expect.h"

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
  for (const char* policy : {"serial", "pool"}) {
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
  for (const char* policy : {"serial", "pool"}) {
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
