// Memory that runs out on the host: every allocation of these programs fails once. What the engine has taken it
// finishes, or fails as an error of the task; a call that throws has done nothing; nothing hangs and nothing ends.
#include <atomic>
#include <optional>
#include <thread>

#include <sluice/engine/pending_wait.h>

#include "tests/engine/policies.h"
#include "tests/engine/scarce_runs.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;

using Body = Ledger::Body;

namespace {

constexpr Touch R = Touch::read, W = Touch::write, O = Touch::out;

void push_some(Ledger& ledger, int tasks, const Task& like = {}) {
  for (int i = 0; i < tasks; ++i) {
    const int a = i % 5, b = (i * 7 + 1) % 8;
    switch (i % 6) {
      case 0:
        ledger.push({{a, W}}, Body::small, like);
        break;
      case 1:
        ledger.push({{a, R}, {b == a ? 6 : b, W}}, Body::large, like);
        break;
      case 2:
        ledger.push({{0, R}, {1, R}, {2, W}, {3, R}, {4, R}, {5, R}}, Body::small, like);
        break;
      case 3:
        ledger.push({{b, O}}, Body::small, like);
        break;
      case 4:
        ledger.push({{a, R}, {7, R}}, Body::huge, like);
        break;
      default:
        ledger.push({{7, W}, {a, R}}, Body::small, like);
    }
  }
}

// Each body in turn: values, throws, and what reads them.
void push_failing(Ledger& ledger) {
  for (int i = 0; i < 12; ++i) {
    ledger.push({{i % 4, W}}, i % 3 == 1 ? Body::throws : Body::small);
    ledger.push({{i % 4, R}, {4 + i % 2, W}});
    if (i % 4 == 3)
      ledger.push({{4 + i % 2, O}});
    if (i == 7)
      ledger.push({{0, O}, {1, O}});
  }
}

void wait_well(ScarceRun run, int cell) {
  try {
    run.engine->wait(run.ledger.var(cell));
  } catch (const Error&) {
  } catch (const std::bad_alloc&) {
  }
}

void wait_all_well(ScarceRun run) {
  try {
    run.engine->wait_all();
  } catch (const Error&) {
  } catch (const std::bad_alloc&) {
  }
}

using Policies = std::initializer_list<CpuMode>;
void under_each(Policies policies, const ScarceProgram& program) {
  for (const CpuMode policy : policies) {
    INFO(to_string(policy));
    fail_each_allocation({.workers = 2, .cpu_policy = policy}, program);
  }
}

}  // namespace

TEST_CASE("scarce memory: pushes of all sizes, waits between them") {
  under_each(k_all, [](ScarceRun run) {
    push_some(run.ledger, 24);
    wait_well(run, 2);
    push_some(run.ledger, 12);
    wait_all_well(run);
  });
}

TEST_CASE("scarce memory: an engine that is made, used and destroyed") {
  for (const CpuMode policy : k_all) {
    int quiet = 0;
    for (long n = 1; quiet < 3; ++n) {
      Scarcity scarcity(n);
      std::atomic<int> runs{0};
      int pushed = 0;
      scarcity.arm();
      const bool lacked = lacks_memory([&] {
        Engine engine({.workers = 2, .cpu_policy = policy, .report_failures = false});
        Var x = engine.new_var();
        for (int i = 0; i < 4; ++i) {
          engine.push({.name = "one", .access = {write(x)}}, [&] { ++runs; });
          ++pushed;
        }
      });
      scarcity.disarm();
      INFO(to_string(policy) << ", allocation " << n << " failed: " << scarcity.where());
      CHECK(runs == pushed);
      CHECK((!lacked || scarcity.struck()));
      quiet = scarcity.struck() ? 0 : quiet + 1;
    }
  }
}

TEST_CASE("scarce memory: tasks that fail, and who reads what they wrote") {
  under_each(k_all, [](ScarceRun run) {
    push_failing(run.ledger);
    wait_well(run, 4);
    wait_all_well(run);
    push_failing(run.ledger);
  });
}

TEST_CASE("scarce memory: bodies that push") {
  under_each(k_all, [](ScarceRun run) {
    for (int i = 0; i < 4; ++i) {
      lacks_memory([&] {
        run.engine->push({.name = "parent"}, [run, i] {
          for (int k = 0; k < 6; ++k)
            run.ledger.push({{i, W}, {4 + i, W}}, k % 2 == 0 ? Body::small : Body::large);
        });
      });
    }
    wait_all_well(run);
  });
}

TEST_CASE("scarce memory: bodies that wait") {
  under_each(k_all, [](ScarceRun run) {
    for (int i = 0; i < 4; ++i) {
      run.ledger.push({{i, W}});
      lacks_memory([&] {
        run.engine->push({.name = "waits"}, [run, i] {
          run.ledger.push({{4 + i, W}});
          wait_well(run, i);
          wait_well(run, 4 + i);
          run.ledger.push({{4 + i, W}});
        });
      });
    }
    wait_all_well(run);
  });
}

TEST_CASE("scarce memory: coroutines") {
  under_each(k_all, [](ScarceRun run) {
    for (int i = 0; i < 3; ++i) {
      run.ledger.push({{i, W}});
      lacks_memory([&] {
        run.engine->push({.name = "coroutine"}, [run, i]() -> Coroutine {
          for (int k = 0; k < 3; ++k) {
            run.ledger.push({{i, W}}, k == 1 ? Body::throws : Body::small);
            try {
              if (k == 2)
                co_await write(run.ledger.var(i));
              else
                co_await run.ledger.var(i);
            } catch (const Error&) {
            } catch (const std::bad_alloc&) {
            }
          }
          run.ledger.push({{3 + i, W}});
        });
      });
    }
    wait_all_well(run);
  });
}

TEST_CASE("scarce memory: coroutines that are cancelled while they wait") {
  under_each({CpuMode::pool, CpuMode::serial}, [](ScarceRun run) {
    const auto make_gate = [] {
      const Plenty plenty;
      return Gate();
    };
    const Gate gate = make_gate();
    const OpensAtEnd opens(gate);
    Var gated;
    if (lacks_memory([&] { gated = run.engine->new_var(); }))
      return;
    if (run.engine->workers() > 1)
      lacks_memory([&] { run.engine->push({.name = "gate", .access = {write(gated)}}, [gate] { gate.wait(); }); });
    std::array<TaskHandle, 3> handles;
    std::size_t started = 0;
    while (started < handles.size()) {
      const bool lacked = lacks_memory([&] {
        handles[started] = run.engine->push({.name = "coroutine"}, [&gated]() -> Coroutine { co_await gated; });
      });
      if (lacked)
        break;
      ++started;
    }
    for (std::size_t i = 0; i < started; ++i)
      handles[i].cancel();
    gate.open();
    wait_all_well(run);
  });
}

namespace {
struct Told final : WaitObserver {
  std::atomic<int>* ends = nullptr;
  void complete(std::exception_ptr) noexcept override { ++*ends; }
};
}  // namespace

TEST_CASE("scarce memory: waits that occupy no thread") {
  under_each(k_all, [](ScarceRun run) {
    std::array<Told, 6> waits;
    std::atomic<int> ends{0};
    int started = 0;
    for (std::size_t i = 0; i < waits.size(); ++i) {
      waits[i].ends = &ends;
      run.ledger.push({{0, W}}, i == 3 ? Body::throws : Body::small);
      lacks_memory([&] {
        PendingWait(read(run.ledger.var(0)), waits[i]).start();
        ++started;
      });
    }
    wait_all_well(run);
    const Plenty plenty;
    CHECK(eventually([&] {
      run.engine->flush();
      return ends == started;
    }));
  });
}

TEST_CASE("scarce memory: cancelled tasks") {
  under_each(k_all, [](ScarceRun run) {
    for (int i = 0; i < 12; ++i) {
      lacks_memory([&] {
        TaskHandle handle = run.engine->push({.name = "cancelled"}, [] {});
        handle.cancel();
      });
      run.ledger.push({{i % 3, W}});
    }
    wait_all_well(run);
  });
}

TEST_CASE("scarce memory: an engine is stopped, with all tasks or without them") {
  for (const Stop how : {Stop::drain, Stop::cancel}) {
    under_each(k_all, [how](ScarceRun run) {
      push_failing(run.ledger);
      try {
        run.engine->stop(how);
      } catch (const std::bad_alloc&) {
      }
      if (lacks_memory([&] { run.engine->new_var(); }))
        return;
      run.engine.reset();
    });
  }
}

TEST_CASE("scarce memory: a thread that attached itself") {
  under_each(k_threaded, [](ScarceRun run) {
    lacks_memory([&] {
      AttachScope attached(*run.engine);
      push_some(run.ledger, 80);
      wait_well(run, 2);
    });
    push_some(run.ledger, 10);
    wait_all_well(run);
  });
}

TEST_CASE("scarce memory: urgency that is passed on") {
  under_each(k_threaded, [](ScarceRun run) {
    for (int i = 0; i < 24; ++i) {
      run.ledger.push({{i % 3, W}}, Body::small, {.priority = Priority::background});
      if (i % 4 == 3)
        run.ledger.push({{i % 3, R}, {4, W}}, Body::large, {.priority = Priority::urgent});
    }
    wait_all_well(run);
  });
}

TEST_CASE("scarce memory: loops that others help in") {
  under_each(k_all, [](ScarceRun run) {
    std::array<std::atomic<int>, 64> touched{};
    bool pushed = false;
    lacks_memory([&] {
      TaskHandle loop = run.engine->push({.name = "loop"}, [&](Queue queue) {
        static_cast<void>(queue);
        parallel_for(64, 4, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i)
            ++touched[static_cast<std::size_t>(i)];
          run.ledger.push({{static_cast<int>(begin / 8) % 8, O}});
        });
      });
      pushed = true;
    });
    wait_all_well(run);
  });
}

TEST_CASE("scarce memory: tasks with tokens and teams") {
  under_each({CpuMode::pool, CpuMode::serial}, [](ScarceRun run) {
    lacks_memory([&] {
      const std::stop_source stop;
      push_some(run.ledger, 12, {.stop = stop.get_token()});
      push_some(run.ledger, 6, {.threads = 2});
    });
    wait_all_well(run);
  });
}

TEST_CASE("scarce memory: traces") {
  under_each({CpuMode::pool, CpuMode::serial}, [](ScarceRun run) {
    lacks_memory([&] { run.engine->start_trace(); });
    push_some(run.ledger, 150);
    wait_all_well(run);
    if (run.engine->tracing())
      lacks_memory([&] { run.engine->stop_trace(); });
  });
}

TEST_CASE("scarce memory: frozen and hot Vars") {
  for (const int hot_reads : {0, 4}) {
    fail_each_allocation({.workers = 2, .hot_reads = hot_reads}, [](ScarceRun run) {
      run.ledger.push({{0, W}});
      lacks_memory([&] { run.engine->freeze(run.ledger.var(0)); });
      for (int i = 0; i < 12; ++i)
        run.ledger.push({{0, R}, {1, R}, {2 + i % 3, W}});
      lacks_memory([&] { run.engine->unfreeze(run.ledger.var(0)); });
      run.ledger.push({{0, W}, {1, W}});
      wait_all_well(run);
    });
  }
}

TEST_CASE("scarce memory: a pusher that is held back") {
  fail_each_allocation({.workers = 1, .max_live_tasks = 64}, [](ScarceRun run) {
    push_some(run.ledger, 400);
    wait_all_well(run);
  });
}

TEST_CASE("scarce memory: groups, with and without a limit, that members push to") {
  under_each(k_all, [](ScarceRun run) {
    for (const int limit : {0, 1}) {
      std::optional<TaskGroup> group;
      if (lacks_memory([&] { group.emplace(*run.engine, TaskGroupOptions{.limit = limit}); }))
        continue;
      {
        const GroupScope scope(*group);
        push_some(run.ledger, 6);
      }
      lacks_memory([&] {
        group->push({.name = "a member whose name is copied"}, [run] {
          run.ledger.push({{1, W}});
          run.ledger.push({{1, R}, {2, W}}, Body::large);
          wait_well(run, 2);
        });
      });
      for (int i = 0; i < 2; ++i) {
        try {
          group->wait();
        } catch (const Error&) {
        } catch (const std::bad_alloc&) {
        }
      }
      const bool done = eventually([&] { return group->done(); });
      const Plenty plenty;
      CHECK(done);
    }
    wait_all_well(run);
  });
}

TEST_CASE("A group tells of each member that failed without memory to say how") {
  Engine engine({.workers = 1, .report_failures = false});
  for (std::optional<Scarcity> scarcity; int round : {1, 2, 3}) {
    CAPTURE(round);
    TaskGroup group(engine);
    group.push({.name = "fails"}, [&scarcity] {
      scarcity.emplace(1);
      scarcity->arm();
      throw 1;  // which takes no memory from the heap that is counted
    });
    CHECK_THROWS_AS(group.wait(), OutOfMemory);
    scarcity.value().disarm();
  }
}
