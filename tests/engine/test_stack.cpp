// Waits in one another, each on the stack of the one below: what that stack cannot hold is refused.
#include <chrono>
#include <string>
#include <thread>

#include <boost/asio/thread_pool.hpp>

#include <sluice/engine/asio.h>
#include <sluice/engine/completion.h>
#include <sluice/engine/detail/stack_left.h>

#include "tests/engine/expect.h"
#include "tests/engine/policies.h"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr int k_deeper_than_any_stack = 1 << 20;

/// Pushes a child and waits for it, in one another, until one is refused.
struct Descent {
  Engine& engine;
  int reached = 0;
  std::string refused{};

  void step() {
    if (++reached == k_deeper_than_any_stack || !refused.empty())
      return;
    TaskHandle child = engine.push({.name = "child"}, [this] { step(); });
    try {
      child.wait();
    } catch (const Deadlock& error) {
      if (refused.empty())
        refused = error.what();
    }
  }
};

void descends(Engine& engine) {
  Descent descent{engine};
  engine.push({.name = "top"}, [&] { descent.step(); }).wait();
  CHECK(descent.reached > 100);
  CHECK(descent.reached < k_deeper_than_any_stack);
  CHECK_THAT(descent.refused, contains("stack"));
  CHECK_THAT(descent.refused, contains("child"));
  bool ran = false;
  CHECK_NOTHROW(engine.push({.name = "later"}, [&] { ran = true; }).wait());
  CHECK(ran);
  CHECK_NOTHROW(engine.wait_all());
}

/// Calls `body` where this thread's stack holds no further body.
template <class Body>
[[gnu::noinline]] void where_used_up(const Body& body) {
  volatile char page[4096];
  page[0] = 1;
  if (detail::stack_is_used_up())
    body();
  else
    where_used_up(body);
  page[1] = page[0];  // not a tail call
}

}  // namespace

TEST_CASE("Waits in one another that no stack holds are refused with Deadlock, on an executor of one thread") {
  boost::asio::thread_pool served(1);
  Engine engine({.executor = run_on(served, 1)});
  descends(engine);
}

TEST_CASE("Waits in one another that no stack holds are refused with Deadlock, where one thread runs everything") {
  for (const CpuMode mode : {CpuMode::serial, CpuMode::chaos}) {
    INFO(to_string(mode));
    Engine engine({.cpu_policy = mode});
    descends(engine);
  }
}

TEST_CASE("Where the stack is used up, a wait for what others complete goes on, whatever else lies ready") {
  for (const CpuMode mode : {CpuMode::serial, CpuMode::chaos}) {
    INFO(to_string(mode));
    Engine engine({.cpu_policy = mode});
    bool refused = false, ran = false;
    std::thread([&] {  // whose stack has an end, unlike the first thread's where ulimit says so
      const Var fetched = engine.new_var();
      TaskCompletion completion;
      std::thread other;
      engine
          .push(
              {.name = "top"},
              [&] {
                engine.push({.name = "fetch", .access = {write(fetched)}}, [&](Queue queue) {
                  completion = queue.complete_later();
                });
                engine.push({.name = "runs both"}, [] {}).wait();
                // Later than a wait is looked at for the first time.
                other = std::thread([&] {
                  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
                  completion.complete();
                });
                where_used_up([&] {
                  engine.push({.name = "unrelated"}, [&] { ran = true; });
                  try {
                    engine.wait(fetched);
                  } catch (const Deadlock&) {
                    refused = true;
                  }
                });
              })
          .wait();
      other.join();
    })
        .join();
    engine.wait_all();
    CHECK_FALSE(refused);
    CHECK(ran);
  }
}
