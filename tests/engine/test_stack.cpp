// Waits in one another, each on the stack of the one below: what that stack cannot hold is refused.
#include <string>

#include <boost/asio/thread_pool.hpp>

#include <sluice/engine/asio.h>

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
