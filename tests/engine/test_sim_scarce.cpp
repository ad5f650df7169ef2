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

// No capture survives this: what was captured is launched one by one.
void spoil(const Queue& queue, std::function<void()> work) {
  cudaStreamQuery(static_cast<cudaStream_t>(queue.stream()));
  cudaGetLastError();
  launch(queue, std::move(work));
}

// More streams than a Var names without memory.
void push_readers(Ledger& ledger) {
  ledger.push({{0, W}}, Body::small, {.device = gpu(0)});
  for (StreamKind kind : {StreamKind::copy_in, StreamKind::copy_out, StreamKind::collective})
    ledger.push({{0, R}, {1, W}}, Body::small, {.device = gpu(0), .stream = kind});
  for (Priority priority : {Priority::urgent, Priority::background, Priority::normal})
    ledger.push({{0, R}, {2, W}}, Body::small, {.device = gpu(0), .priority = priority});
  for (int cell = 3; cell < 6; ++cell)
    ledger.push({{0, R}, {cell, W}}, Body::small, {.device = gpu(0), .capturable = true});
  ledger.push({{0, W}}, Body::small, {.device = gpu(0)});
}

template <class Act>
void ignoring_errors(Act act) {
  try {
    act();
  } catch (const Error&) {
  } catch (const std::bad_alloc&) {
  }
}

void fail_each_on_sim(const EngineOptions& options, const ScarceProgram& program, Ledger::Launch with = &launch) {
  Sim sim;
  fail_each_allocation(options, program, with);
}

}  // namespace

TEST_CASE("scarce memory: GPU tasks launched one by one, with CPU tasks behind them") {
  fail_each_on_sim({.workers = 2, .launch = LaunchMode::direct}, [](ScarceRun run) {
    push_both(run.ledger, false, 6);
    ignoring_errors([&] { run.engine->wait(run.ledger.var(5)); });
    push_both(run.ledger, false, 3);
    ignoring_errors([&] { run.engine->wait_all(); });
  });
}

TEST_CASE("scarce memory: GPU tasks launched as graphs, with CPU tasks behind them") {
  fail_each_on_sim({.workers = 2, .launch = LaunchMode::batch}, [](ScarceRun run) {
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

TEST_CASE("scarce memory: more GPU streams read a Var than it has room for, and more are in a group") {
  fail_each_on_sim({.workers = 2}, [](ScarceRun run) {
    push_readers(run.ledger);
    ignoring_errors([&] {
      const TaskGroup group(*run.engine);
      const GroupScope scope(group);
      push_readers(run.ledger);
    });
    ignoring_errors([&] { run.engine->wait_all(); });
  });
}

TEST_CASE("scarce memory: batches whose capture is spoilt") {
  fail_each_on_sim(
      {.workers = 2, .launch = LaunchMode::batch},
      [](ScarceRun run) {
        push_both(run.ledger, true, 4);
        ignoring_errors([&] { run.engine->wait_all(); });
      },
      &spoil);
}

TEST_CASE("scarce memory: traced GPU tasks") {
  fail_each_on_sim({.workers = 2, .launch = LaunchMode::batch}, [](ScarceRun run) {
    ignoring_errors([&] { run.engine->start_trace(); });
    push_both(run.ledger, true, 12);
    ignoring_errors([&] { run.engine->wait_all(); });
    ignoring_errors([&] { run.engine->stop_trace(); });
  });
}

TEST_CASE("scarce memory: a GPU is lost with a batch open, and its tasks fail") {
  int struck = 1;
  for (long n = 1; struck > 0; ++n) {
    CAPTURE(n);
    Sim sim;
    Engine engine({.workers = 2, .report_failures = false});
    const Var x = engine.new_var(), y = engine.new_var();
    const auto push = [&](int device, const Access& access, bool loses) {
      const Task task{.name = "step", .device = gpu(device), .access = {access}, .capturable = true};
      ignoring_errors([&] {
        engine.push(task, [loses](Queue queue) {
          launch(queue, [] {});
          if (loses)
            throw CudaError("as the driver says it", cudaErrorIllegalAddress);
        });
      });
    };
    push(1, write(y), false);
    for (int i = 0; i < 4; ++i)
      push(0, write(x), false);
    empty_pools();
    Scarcity scarcity(n);
    scarcity.arm();
    for (int i = 0; i < 12; ++i)
      push(0, write(x), i == 8);
    ignoring_errors([&] { engine.wait(x); });
    scarcity.disarm();
    struck = scarcity.struck() ? 1 : 0;
    ignoring_errors([&] { engine.wait(x); });  // the one that loses it may not have been pushed
    push(0, out(x), true);
    push(0, write(x), false);
    CHECK_THROWS_AS(engine.wait(x), Error);
    TaskHandle later =
        engine.push({.name = "later", .device = gpu(0), .access = {out(x)}}, [](Queue queue) { launch(queue, [] {}); });
    CHECK_THROWS_AS(later.wait(), DeviceLost);
    push(1, write(y), false);
    CHECK_NOTHROW(engine.wait(y));
    ignoring_errors([&] { engine.wait_all(); });
  }
}

TEST_CASE("scarce memory: a group tells of members that could not be begun", "[sim]") {
  fail_each_on_sim({.workers = 2, .launch = LaunchMode::direct}, [](ScarceRun run) {
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
