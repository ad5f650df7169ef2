// Who is told of a thread's operators, and of which.
#include <string>
#include <vector>

#include <sluice/engine/api.h>
#include <sluice/operator/api.h>
#include <sluice/operator/observer.h>

#include "tests/support/catch.h"

using namespace sluice;

namespace {

struct Told final : CallObserver {
  std::vector<std::string> names;

  void called(const Operator& op, std::span<const NDArray>, std::span<const NDArray> results) override {
    names.push_back(op.name);
    (void)(results[0] + results[0]);  // what is called in here is not told
  }
};

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("An observer is told of the calls of its body, not of tasks that run on top of it", "[operator][observer]") {
  for (const CpuMode mode : {CpuMode::serial, CpuMode::chaos}) {
    Engine engine({.cpu_policy = mode});
    const EngineScope scope(engine);
    const NDArray a = ones({3});
    Told outside, inside;
    const CallObserverScope told(&outside);
    engine
        .push(
            {.name = "body"},
            [&] {
              (void)(a + a);
              const CallObserverScope own(&inside);
              (void)(a * a);
              engine.push({.name = "child"}, [&] { (void)(a - a); }).wait();
              const CallObserverScope nobody(nullptr);
              (void)(a / a);
            })
        .wait();
    (void)(a / a);
    CHECK(outside.names == Names{"divide"});
    CHECK(inside.names == Names{"multiply"});
  }
}
