// What the bodies of a region use besides their Vars: library handles, memory of others, scratch memory.
#include <atomic>
#include <functional>
#include <map>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <sluice/engine/detail/engine_access.h>

#include "tests/engine/sim_region.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// A slot of a Queue.
struct Handle {
  explicit Handle(const Queue&) { ++made; }
  int users = 0;  // kernels that use it now
  static inline int made = 0;
};

struct Hook final : RetireHook {
  void on_retire(const PositionSet& still_pending) noexcept override {
    ++told;
    pending = still_pending;
  }
  std::atomic<int> told{0};
  PositionSet pending;
};

}  // namespace

TEST_CASE("Tasks of regions that may run side by side share no library handle", "[sim][region]") {
  for (const int chains : {3, 40}) {
    CAPTURE(chains);
    Handle::made = 0;
    Sim sim;
    Engine engine({.workers = 1});
    std::vector<Var> vars(static_cast<std::size_t>(chains));
    for (Var& var : vars)
      var = engine.new_var();
    std::atomic<int> shared{0}, ran{0};
    Region region(engine, gpu(0), "region");
    for (std::uint64_t run = 0; run < 6; ++run) {  // keys of other Vars: their launches may overlap too
      region.run(run % 2, [&] {
        for (int step = 0; step < 4; ++step) {
          for (const Var& var : vars) {
            Task task{.name = "step", .device = gpu(0), .access = {write(var)}, .capturable = true};
            if (run % 2 == 1)
              task.access.clear();
            engine.push(task, [&](Queue queue) {
              auto& users = queue.slot<Handle>().users;
              sim_launch(queue, [&users, &shared, &ran] {
                shared += reinterpret_cast<std::atomic<int>&>(users)++ != 0;
                for (int i = 0; i < 50; ++i)
                  std::this_thread::yield();  // so that others come in, if they may
                --reinterpret_cast<std::atomic<int>&>(users);
                ++ran;
              });
            });
          }
        }
      });
    }
    engine.wait_all();
    CHECK(shared == 0);
    CHECK(ran == 6 * 4 * chains);
    CHECK(Handle::made <= 32);
    CHECK(Handle::made >= 3);
  }
}

TEST_CASE("Where a region has no library handle left, a task follows one that has", "[sim][region]") {
  Sim sim;
  Engine engine({.workers = 1});
  Edges edges;
  Region region(engine, gpu(0), "region");
  region.run(1, [&] {
    for (int i = 0; i < 40; ++i) {
      engine.push({.name = "step", .device = gpu(0), .capturable = true}, [&edges](Queue queue) {
        queue.slot<Handle>();
        sim_launch(queue, [] {});
        edges = captured_edges(static_cast<cudaStream_t>(queue.stream()));
      });
    }
  });
  engine.wait_all();
  Edges expected;
  for (std::size_t i = 0; i < 8; ++i)
    expected.insert({i, i + 32});
  CHECK(edges == expected);
}

TEST_CASE("What bodies of a region wait for, every launch waits for", "[sim][region]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Sim sim(seeded(seed));
    Engine engine({.workers = 1});
    Var x = engine.new_var(), y = engine.new_var();
    std::atomic<int> state{0};
    int seen = 0;
    Position position;
    engine.push(
        {.name = "first", .device = gpu(0), .access = {out(y)}, .stream = StreamKind::copy_in}, [&](Queue queue) {
          position = queue.position();
          sim_launch(queue, [&] { state = 1; });
        });
    Region region(engine, gpu(0), "region");
    region.run(1, [&] {
      engine.push({.name = "waits", .device = gpu(0), .access = {out(x)}, .capturable = true}, [&](Queue queue) {
        PositionSet positions;
        positions.add(position);
        queue.wait_for(positions);
        sim_launch(queue, [&] { seen = state; });
      });
    });
    engine.wait(x);
    CHECK(seen == 1);
  }
}

TEST_CASE("Memory that a region keeps is given back when no replay uses it, not before", "[sim][region]") {
  Sim sim;
  Chain chain;
  Hook hook, spoilt, failed;
  int asked = 0;
  const auto keep = [&asked](Hook& which) {
    return [&asked, &which](Queue) {
      ++asked;
      if (region_captures())
        CHECK(region_keeps(which));
    };
  };
  CHECK_FALSE(region_captures());
  CHECK_FALSE(region_keeps(hook));
  push_append(chain.engine, chain.x, chain.word, 0, keep(hook));  // no region
  Region region(chain.engine, gpu(0), "region");
  for (int i = 0; i < 3; ++i)
    region.run(1, [&] { push_append(chain.engine, chain.x, chain.word, 0, keep(hook)); });
  chain.engine.wait(chain.x);
  CHECK(asked == 2);
  CHECK(hook.told == 0);
  const auto all_issued = [&chain] {
    return eventually([&chain] {
      const EngineCounters now = chain.engine.counters();
      return now.retired == now.pushed;
    });
  };
  sim::set_manual(true);
  region.run(1, [] {});
  CHECK(all_issued());
  region.forget();
  CHECK(hook.told == 1);
  CHECK_FALSE(hook.pending.empty());
  CHECK_FALSE(detail::EngineAccess::passed(chain.engine, hook.pending));
  sim::set_manual(false);
  detail::EngineAccess::wait_passed(chain.engine, hook.pending);
  region.run(2, [&] {
    push_append(chain.engine, chain.x, chain.word, 0, keep(spoilt));
    push_append(chain.engine, chain.x, chain.word, 0, spoil);
  });
  CHECK(all_issued());
  CHECK(spoilt.told == 1);
  CHECK_FALSE(spoilt.pending.empty());
  region.run(3, [&] {
    push_append(chain.engine, chain.x, chain.word, 0, keep(failed));
    push_append(chain.engine, chain.x, chain.word, 0, [](Queue) { throw ValueError("on purpose"); });
  });
  CHECK(all_issued());
  CHECK(failed.told == 1);
  CHECK_THROWS_AS(chain.engine.wait(chain.x), ValueError);
}

namespace {

std::size_t cost_of(const RetireHook& hook, const void* costs) {
  const auto& known = *static_cast<const std::map<const RetireHook*, std::size_t>*>(costs);
  return known.at(&hook);
}

}  // namespace

TEST_CASE("Bodies of a region use again what bodies before them kept, not what others keep", "[sim][region]") {
  Sim sim;
  Engine engine({.workers = 1});
  Var x = engine.new_var(), y = engine.new_var();
  Hook small, large, apart;
  std::map<const RetireHook*, std::size_t> costs{{&small, 1}, {&large, 2}, {&apart, 0}};
  CHECK(region_lends(cost_of, &costs) == nullptr);
  std::vector<RetireHook*> own, behind, beside, joined;
  Region region(engine, gpu(0), "region");
  const auto push = [&](AccessList access, std::function<void()> body) {
    engine.push(
        {.name = "step", .device = gpu(0), .access = std::move(access), .capturable = true},
        [body = std::move(body)](Queue queue) {
          if (region_captures())
            body();
          sim_launch(queue, [] {});
        });
  };
  const auto lend_to = [&](std::vector<RetireHook*>& whom) { whom.push_back(region_lends(cost_of, &costs)); };
  region.run(1, [&] {
    push({write(x)}, [&] {
      region_keeps(large);
      region_keeps(small);
      lend_to(own);  // its own, once given
      region_keeps(small);
    });
    push({write(y)}, [&] {
      lend_to(beside);  // may run beside the first
      region_keeps(apart);
    });
    push({write(x)}, [&] {
      for (int i = 0; i < 3; ++i)
        lend_to(behind);
      region_keeps(small);
      region_keeps(large);
    });
    push({write(x), read(y)}, [&] {
      costs[&large] = k_unsuitable;
      for (int i = 0; i < 3; ++i)
        lend_to(joined);
      region_keeps(apart);
      region_keeps(small);
    });
  });
  engine.wait_all();
  REQUIRE(region.counts().captured == 1);
  CHECK(own == std::vector<RetireHook*>{&small});
  CHECK(beside == std::vector<RetireHook*>{nullptr});
  CHECK(behind == std::vector<RetireHook*>{&small, &large, nullptr});
  CHECK(joined == std::vector<RetireHook*>{&apart, &small, nullptr});
  region.forget();
  engine.wait_all();
  CHECK(small.told == 1);
  CHECK(large.told == 1);
  CHECK(apart.told == 1);
}

TEST_CASE("A body of a region that uses what one beside it kept comes after that one", "[sim][region]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Sim sim(seeded(seed));
    Engine engine({.workers = 1});
    Var x = engine.new_var(), y = engine.new_var(), z = engine.new_var();
    Hook hook;
    const std::map<const RetireHook*, std::size_t> costs{{&hook, 1}};
    std::atomic<int> users{0}, shared{0};
    RetireHook *refused = nullptr, *lent = nullptr, *again = nullptr;
    const auto use = [&](Queue queue) {
      sim_launch(queue, [&] {
        shared += users++ != 0;
        for (int i = 0; i < 50; ++i)
          std::this_thread::yield();  // so that others come in, if they may
        --users;
      });
    };
    Region region(engine, gpu(0), "region");
    for (int run = 0; run < 3; ++run) {
      region.run(1, [&] {
        const auto push = [&](const Var& var, std::function<void()> body) {
          engine.push(
              {.name = "step", .device = gpu(0), .access = {write(var)}, .capturable = true},
              [body = std::move(body), &use](Queue queue) {
                if (region_captures())
                  body();
                use(queue);
              });
        };
        push(x, [&] { region_keeps(hook); });
        push(y, [&] {
          refused = region_lends(cost_of, &costs);
          lent = region_lends(cost_of, &costs, true);
          region_keeps(hook);
        });
        push(z, [&] {
          again = region_lends(cost_of, &costs, true);
          region_keeps(hook);
        });
      });
    }
    engine.wait_all();
    REQUIRE(region.counts().captured == 1);
    CHECK(refused == nullptr);
    CHECK(lent == &hook);
    CHECK(again == &hook);
    CHECK(shared == 0);
  }
}
