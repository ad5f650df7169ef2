// Memory that runs out while tasks commute: see test_scarce.cpp.
#include <algorithm>
#include <vector>

#include "tests/engine/scarce_runs.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct Sums {
  Var x, y, late;
  std::vector<TaskHandle> tasks;
  int ran = 0;  // guarded by x
};

// Tasks that commute on x and some on y; what must not wait for them ends runs meanwhile.
void push_commuting(Engine& engine, Sums& sums) {
  sums.tasks.reserve(16);
  sums.x = engine.new_var();
  sums.y = engine.new_var();
  sums.late = engine.new_var();
  for (int i = 0; i < 12; ++i) {
    lacks_memory([&] { engine.push({.name = "late", .access = {write(sums.late)}}, [] {}); });
    if (i % 5 == 4)
      lacks_memory([&] { engine.push({.name = "reads", .access = {read(sums.x), write(sums.y)}}, [] {}); });
    AccessList list{commute(sums.x), read(sums.late)};
    if (i % 3 == 0)
      list.push_back(commute(sums.y));
    lacks_memory([&] {
      sums.tasks.push_back(engine.push(
          {.name = "adds", .access = list, .on_failed_input = OnFailedInput::run}, [&ran = sums.ran] { ++ran; }));
    });
  }
}

}  // namespace

TEST_CASE("T48: commuting tasks run once or fail whichever allocation fails, and a push that throws has done nothing") {
  for (const CpuMode policy : {CpuMode::pool, CpuMode::serial}) {
    INFO(to_string(policy));
    int most = 0, wrong = 0;
    fail_each_allocation({.workers = 2, .cpu_policy = policy}, [&](ScarceRun run) {
      Sums sums;
      lacks_memory([&] { push_commuting(*run.engine, sums); });
      int failed = 0;
      for (const TaskHandle& task : sums.tasks) {
        wrong += eventually([&] { return task.done(); }) ? 0 : 1;
        bool asked = false;
        while (!asked) {
          lacks_memory([&] {
            failed += task.status() == TaskStatus::finished ? 0 : 1;
            asked = true;
          });
        }
      }
      wrong += sums.ran + failed != static_cast<int>(sums.tasks.size()) || failed > 1 ? 1 : 0;
      most = std::max(most, sums.ran);
    });
    CHECK(wrong == 0);
    CHECK(most == 12);
  }
}
