// Memory that runs out on the host beside a GPU: every allocation of these programs fails once, those of the CUDA
// runtime excepted, which says so itself.
#include <algorithm>
#include <optional>
#include <vector>

#include "tests/engine/scarce_runs.h"
#include "tests/engine/sim_run.h"

using namespace sluice;
using namespace sluice::test;

using Body = Ledger::Body;

namespace {

constexpr Touch R = Touch::read, W = Touch::write, O = Touch::out;

void launch(const Queue& queue, std::function<void()> work) {
  sim_launch(queue, std::move(work));
}

// Kernels that write, read and meet, copies beside them, and CPU tasks behind them.
void push_both(Ledger& ledger, bool capturable, int rounds) {
  const Task kernel{.device = gpu(0), .capturable = capturable};
  const Task copy{.device = gpu(0), .stream = StreamKind::copy_out, .capturable = capturable};
  for (int i = 0; i < rounds; ++i) {
    ledger.push({{0, W}}, Body::small, kernel);
    ledger.push({{0, R}, {1, W}}, Body::large, kernel);
    ledger.push({{0, R}, {2 + i % 2, W}}, Body::small, kernel);
    ledger.push({{1, R}, {2 + i % 2, R}, {4, O}}, Body::small, copy);
    if (i % 3 == 2) {
      ledger.push({{4, R}, {5, W}});
      ledger.push({{5, R}, {0, W}}, Body::small, kernel);
    }
  }
}

template <class Act>
void ignoring_errors(Act act) {
  try {
    act();
  } catch (const Error&) {
  } catch (const std::bad_alloc&) {
  }
}

void fail_each_on_sim(const EngineOptions& options, const ScarceProgram& program) {
  Sim sim;
  fail_each_allocation(options, program, &launch);
}

}  // namespace

TEST_CASE("scarce memory: GPU tasks launched one by one, with CPU tasks behind them") {
  fail_each_on_sim({.workers = 2, .launch = "direct"}, [](ScarceRun run) {
    push_both(run.ledger, false, 6);
    ignoring_errors([&] { run.engine->wait(run.ledger.var(5)); });
    push_both(run.ledger, false, 3);
    ignoring_errors([&] { run.engine->wait_all(); });
  });
}

TEST_CASE("scarce memory: GPU tasks launched as graphs, with CPU tasks behind them") {
  fail_each_on_sim({.workers = 2, .launch = "batch"}, [](ScarceRun run) {
    push_both(run.ledger, true, 12);
    ignoring_errors([&] { run.engine->wait(run.ledger.var(5)); });
    push_both(run.ledger, true, 12);
    ignoring_errors([&] { run.engine->wait_all(); });
  });
}

TEST_CASE("scarce memory: GPU tasks that fail, and coroutines that wait for some") {
  fail_each_on_sim({.workers = 2}, [](ScarceRun run) {
    for (int i = 0; i < 6; ++i) {
      run.ledger.push({{i % 3, W}}, i % 3 == 1 ? Body::throws : Body::small, {.device = gpu(0), .capturable = true});
      run.ledger.push({{i % 3, R}, {3 + i % 2, W}}, Body::small, {.device = gpu(0)});
    }
    lacks_memory([&] {
      run.engine->push({.name = "coroutine"}, [run]() -> Coroutine {
        try {
          co_await run.ledger.var(3);
        } catch (const Error&) {
        } catch (const std::bad_alloc&) {
        }
      });
    });
    ignoring_errors([&] { run.engine->wait_all(); });
  });
}

TEST_CASE("scarce memory: a group tells of members that could not be begun", "[sim]") {
  fail_each_on_sim({.workers = 2, .launch = "direct"}, [](ScarceRun run) {
    std::optional<TaskGroup> group;
    std::vector<Var> vars;
    std::vector<TaskHandle> members;
    {
      const Plenty plenty;
      group.emplace(*run.engine);
      for (int i = 0; i < 4; ++i)
        vars.push_back(run.engine->new_var());
      members.reserve(64);
    }
    const auto push = [&](Device device, const Task& task) {
      Task member = task;
      member.device = device;
      lacks_memory([&] {
        members.push_back(group->push(member, [](Queue queue) {
          if (queue.device().is_gpu())
            sim_launch(queue, [] {});
        }));
      });
    };
    for (int i = 0; i < 8; ++i) {
      const Var& a = vars[static_cast<std::size_t>(i % 4)];
      const Var& b = vars[static_cast<std::size_t>((i + 1) % 4)];
      push(gpu(i % 2), {.name = "kernel", .access = {write(a)}});
      push(cpu(), {.name = "behind", .access = {read(a), write(b)}});
    }
    bool threw = false;
    for (int i = 0; i < 2; ++i) {
      try {
        group->wait();
      } catch (const Error&) {
        threw = true;
      } catch (const std::bad_alloc&) {  // of the wait itself
      }
    }
    const Plenty plenty;
    const bool failed = std::any_of(
        members.begin(), members.end(), [](const TaskHandle& member) { return member.status() == TaskStatus::failed; });
    CHECK((threw || !failed));  // it may have failed itself
  });
}
