// Traces record what the engine does: every task once, in order, whatever happens meanwhile.
#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <thread>

#include <sluice/engine/detail/test_faults.h>

#include "tests/engine/dag.h"
#include "tests/engine/expect.h"
#include "tests/support/gate.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

namespace {

bool in_order(const TraceEvent& event) {
  return 0 <= event.pushed && event.pushed <= event.ready && event.ready <= event.started &&
         event.started <= event.ended;
}

int count(const Trace& trace, TaskOutcome outcome) {
  return static_cast<int>(std::count_if(
      trace.events().begin(), trace.events().end(), [&](const TraceEvent& event) { return event.outcome == outcome; }));
}

/// The Vars that a step names, with the modes that the engine makes of repeats.
std::map<std::uint64_t, AccessMode> wanted_vars(const Step& step, const std::vector<Var>& vars) {
  std::map<std::uint64_t, AccessMode> wanted;
  for (const Access& access : access_of(step, vars)) {
    const auto var = std::find_if(vars.begin(), vars.end(), [&](const Var& v) { return v.core() == access.var; });
    const auto [place, fresh] = wanted.emplace(var->id(), access.mode);
    if (!fresh && place->second != access.mode)
      place->second = AccessMode::write;
  }
  return wanted;
}

std::map<std::uint64_t, AccessMode> vars_of(const TraceEvent& event) {
  std::map<std::uint64_t, AccessMode> vars;
  for (const TraceVar& var : event.vars)
    vars.emplace(var.id, var.mode);
  return vars;
}

using Edges = std::set<std::pair<std::size_t, std::size_t>>;

Edges edges_of(const Trace& trace) {
  Edges edges;
  for (const TraceEdge& edge : trace.edges())
    CHECK(edges.emplace(edge.from, edge.to).second);
  return edges;
}

/// Every pair that conflicts on a Var with nothing on that Var in between which already orders the two.
Edges edges_by_force(const std::vector<std::map<std::uint64_t, AccessMode>>& tasks) {
  Edges edges;
  auto mode_of = [&](std::size_t task, std::uint64_t var) {
    const auto found = tasks[task].find(var);
    return found == tasks[task].end() ? -1 : static_cast<int>(found->second);
  };
  auto no_order = [&](std::size_t from, std::size_t to, std::uint64_t var) {
    const int before = mode_of(from, var), after = mode_of(to, var);
    if (before == 0 && after == 0)
      return true;
    if (before != 3 || after != 3)
      return false;
    for (std::size_t i = from + 1; i < to; ++i) {
      if (mode_of(i, var) >= 0 && mode_of(i, var) != 3)
        return false;  // two runs
    }
    return true;
  };
  for (std::size_t to = 0; to < tasks.size(); ++to) {
    for (const auto& [var, ignored] : tasks[to]) {
      for (std::size_t from = 0; from < to; ++from) {
        if (mode_of(from, var) < 0 || no_order(from, to, var))
          continue;
        bool between = false;
        for (std::size_t i = from + 1; i < to; ++i)
          between |= mode_of(i, var) >= 0 && !no_order(from, i, var) && !no_order(i, to, var);
        if (!between)
          edges.emplace(from, to);
      }
    }
  }
  return edges;
}

}  // namespace

TEST_CASE("Trace: every task of a random graph stands in it once, in order of its stages, with its Vars") {
  const bool commutes = GENERATE(false, true);
  for (const CpuMode policy : {CpuMode::serial, CpuMode::pool}) {
    DYNAMIC_SECTION(to_string(policy) << (commutes ? " commuting" : "")) {
      Engine engine({.workers = 4, .cpu_policy = policy});
      const Program program = commutes ? commuting_program(7, 1000, 40, 1) : random_program(7, 1000, 40, 1);
      std::vector<Var> vars(program.cells);
      for (Var& var : vars)
        var = engine.new_var();
      engine.start_trace();
      CHECK(engine.tracing());
      const int line = __LINE__ + 2;
      for (std::size_t i = 0; i < program.steps.size(); ++i)
        engine.push({.name = "step", .access = access_of(program.steps[i], vars), .priority = Priority(i & 3)}, [] {});
      engine.wait_all();
      const Trace trace = engine.stop_trace();
      CHECK_FALSE(engine.tracing());
      REQUIRE(trace.events().size() == program.steps.size());
      int wrong = 0;
      std::vector<std::map<std::uint64_t, AccessMode>> tasks;
      for (std::size_t i = 0; i < trace.events().size(); ++i) {
        const TraceEvent& event = trace.events()[i];
        tasks.push_back(wanted_vars(program.steps[i], vars));
        wrong += !in_order(event) || event.ended > trace.duration() || vars_of(event) != tasks.back() ? 1 : 0;
        wrong += event.vars.size() != tasks.back().size() || event.outcome != TaskOutcome::ok ? 1 : 0;
        wrong += event.priority != Priority(i & 3) || event.name != "step" || event.site.line != line ? 1 : 0;
        wrong += trace.threads().at(static_cast<std::size_t>(event.pusher)).worker ? 1 : 0;
        wrong += trace.threads().at(static_cast<std::size_t>(event.worker)).worker != (policy == CpuMode::pool) ? 1 : 0;
      }
      CHECK(wrong == 0);
      CHECK(edges_of(trace) == edges_by_force(tasks));
      for (const TraceEdge& edge : trace.edges())
        wrong += trace.events()[edge.from].ended > trace.events()[edge.to].ready ? 1 : 0;
      CHECK(wrong == 0);  // what the edges say is what happened
    }
  }
}

TEST_CASE("Trace: tasks of many pushing threads stand in an order that every Var agrees with") {
  Engine engine({.workers = 4});
  const Program program = random_program(11, scaled(40'000), 4, 6);
  std::vector<Var> vars(program.cells);
  for (Var& var : vars)
    var = engine.new_var();
  for (int i = 0; i < 300; ++i) {  // read so often that readers have a way in of their own
    for (const Var& var : vars)
      engine.push({.name = "reader", .access = {read(var)}}, [] {});
  }
  engine.start_trace();
  from_pushers(program, [&](std::size_t i) {
    engine.push({.name = std::to_string(i), .access = access_of(program.steps[i], vars)}, [] {});
  });
  engine.wait_all();
  const Trace trace = engine.stop_trace();  // the pushing threads are gone; what they wrote is not
  REQUIRE(trace.events().size() == program.steps.size());
  std::set<std::string> names;
  int wrong = 0;
  for (const TraceEvent& event : trace.events()) {
    names.insert(event.name);
    wrong += in_order(event) && vars_of(event) == wanted_vars(program.steps[std::stoul(event.name)], vars) ? 0 : 1;
  }
  CHECK(wrong == 0);
  CHECK(names.size() == program.steps.size());
  const std::vector<TraceEdge> edges = trace.edges();
  CHECK(edges.size() > program.steps.size() / 2);
  for (const TraceEdge& edge : edges)
    wrong += trace.events()[edge.from].ended > trace.events()[edge.to].ready ? 1 : 0;
  CHECK(wrong == 0);
  const auto& threads = trace.threads();
  CHECK(std::count_if(threads.begin(), threads.end(), [](const TraceThread& t) { return !t.worker; }) == 6);
}

TEST_CASE("Trace: tasks that fail, are skipped or cancelled, or come after a failure say so") {
  Engine engine({.workers = 2});
  const Gate gate;
  const OpensAtEnd opens(gate);
  const Var x = engine.new_var(), y = engine.new_var();
  engine.start_trace();
  engine.push({.name = "gate", .access = {write(y)}}, [gate] { gate.wait(); });
  TaskHandle cancelled = engine.push({.name = "cancelled", .access = {write(y)}}, [] {});
  engine.push({.name = "fails", .access = {write(x)}}, [] { throw ValueError("bad"); });
  engine.push({.name = "skipped", .access = {read(x)}}, [] {});
  engine.push({.name = "always", .access = {read(x)}, .on_failed_input = OnFailedInput::run}, [] {});
  REQUIRE(cancelled.cancel());
  gate.open();
  CHECK_THROWS_AS(engine.wait_all(), ValueError);
  const Trace trace = engine.stop_trace();
  const TaskOutcome wanted[] = {
      TaskOutcome::ok, TaskOutcome::cancelled, TaskOutcome::failed, TaskOutcome::skipped, TaskOutcome::ok};
  REQUIRE(trace.events().size() == std::size(wanted));
  for (std::size_t i = 0; i < std::size(wanted); ++i) {
    CHECK(trace.events()[i].outcome == wanted[i]);
    CHECK(in_order(trace.events()[i]));
    CHECK(trace.events()[i].worker >= 0);
  }
}

TEST_CASE("Trace: an engine that loses a dependency is seen in it") {
  Engine engine({.workers = 2});
  const Gate gate;
  const OpensAtEnd opens(gate);
  const Var x = engine.new_var();
  engine.start_trace();
  engine.push({.name = "first", .access = {write(x)}}, [gate] { gate.wait(); });
  detail::test_faults().drop_every_nth_edge = 1;
  engine.push({.name = "second", .access = {write(x)}}, [gate] { gate.open(); });
  detail::test_faults().drop_every_nth_edge = 0;
  engine.wait_all();
  const Trace trace = engine.stop_trace();
  CHECK(edges_of(trace) == Edges{{0, 1}});
  CHECK(trace.events()[1].started < trace.events()[0].ended);
}

TEST_CASE("Trace: off, it records nothing; tasks pushed before it began or after it ended are not in it") {
  Engine engine({.workers = 2});
  const Gate gate;
  const OpensAtEnd opens(gate);
  const Var x = engine.new_var();
  engine.push({.name = "before", .access = {write(x)}}, [gate] { gate.wait(); });
  engine.start_trace();
  engine.push({.name = "during", .access = {write(x)}}, [] {});
  const Trace trace = engine.stop_trace();
  engine.push({.name = "after", .access = {write(x)}}, [] {});
  gate.open();
  engine.wait_all();
  REQUIRE(trace.events().size() == 1);
  CHECK(trace.events()[0].name == "during");
  engine.start_trace();
  const Trace nothing = engine.stop_trace();
  CHECK(nothing.events().empty());
  CHECK(nothing.threads().empty());
  CHECK(nothing.edges().empty());
}

TEST_CASE("Trace: stopped while tasks are in flight, it holds each as far as it has got") {
  Engine engine({.workers = 1});
  const Gate gate;
  const OpensAtEnd opens(gate);
  const Var x = engine.new_var();
  engine.start_trace();
  engine.push({.name = "running", .access = {write(x)}}, [gate] { gate.wait(); });
  engine.push({.name = "ready"}, [] {});
  engine.push({.name = "queued", .access = {write(x)}}, [] {});
  REQUIRE(gate.reached());
  const Trace trace = engine.stop_trace();
  REQUIRE(trace.events().size() == 3);
  CHECK(count(trace, TaskOutcome::unfinished) == 3);
  const TraceEvent &running = trace.events()[0], &ready = trace.events()[1], &queued = trace.events()[2];
  CHECK(running.started >= running.ready);
  CHECK(running.ended == -1);
  CHECK(running.worker >= 0);
  CHECK(ready.ready >= ready.pushed);
  CHECK(ready.started == -1);
  CHECK(ready.worker == -1);
  CHECK(queued.pushed >= 0);
  CHECK(queued.ready == -1);
  CHECK(edges_of(trace) == Edges{{0, 2}});
}

TEST_CASE("Trace: started and stopped again and again while threads push and tasks run") {
  Engine engine({.workers = 3});
  const int rounds = scaled(200);
  std::atomic<bool> done{false};
  std::atomic<int> pushed{0};
  std::vector<std::thread> pushers;
  for (int i = 0; i < 3; ++i) {
    pushers.emplace_back([&] {
      const Var mine = engine.new_var();
      while (!done) {
        for (int k = 0; k < 50; ++k) {
          engine.push({.name = "inner", .access = {write(mine)}}, [](Queue queue) {
            queue.engine().push({.name = "nested"}, [] {});
          });
        }
        pushed += 50;
        engine.wait(mine);
      }
    });
  }
  int wrong = 0;
  std::size_t seen = 0;
  for (int round = 0; round < rounds; ++round) {
    engine.start_trace();
    const int before = pushed;
    CHECK(eventually([&] { return pushed > before + 150; }));
    const Trace trace = engine.stop_trace();
    seen += trace.events().size();
    wrong += trace.events().size() < 50 ? 1 : 0;
    for (const TraceEvent& event : trace.events()) {
      const bool finished = event.ended >= 0;
      wrong += finished != (event.outcome == TaskOutcome::ok) || (finished && !in_order(event)) ? 1 : 0;
      wrong += event.started >= 0 && (event.ready < 0 || event.worker < 0) ? 1 : 0;
    }
  }
  done = true;
  for (std::thread& pusher : pushers)
    pusher.join();
  engine.wait_all();
  CHECK(wrong == 0);
  CHECK(seen > static_cast<std::size_t>(rounds) * 50);
}

TEST_CASE("Trace: several engines record at once, each its own tasks") {
  std::vector<std::unique_ptr<Engine>> engines;
  for (int i = 0; i < 6; ++i) {  // more than a thread remembers buffers for
    engines.push_back(std::make_unique<Engine>(EngineOptions{.workers = 1}));
    engines.back()->start_trace();
  }
  for (int k = 0; k < 300; ++k) {
    for (std::size_t i = 0; i < engines.size(); ++i)
      engines[i]->push({.name = "of " + std::to_string(i)}, [] {});
  }
  for (std::size_t i = 0; i < engines.size(); ++i) {
    engines[i]->wait_all();
    const Trace trace = engines[i]->stop_trace();
    REQUIRE(trace.events().size() == 300);
    CHECK(count(trace, TaskOutcome::ok) == 300);
    CHECK(trace.threads().size() == 2);
    int wrong = 0;
    for (const TraceEvent& event : trace.events())
      wrong += event.name == "of " + std::to_string(i) ? 0 : 1;
    CHECK(wrong == 0);
  }
  // Another engine at the address of one that is gone, and threads that knew that one.
  engines.clear();
  Engine engine({.workers = 1});
  engine.start_trace();
  engine.push({.name = "fresh"}, [] {});
  engine.wait_all();
  CHECK(engine.stop_trace().events().size() == 1);
}

TEST_CASE("Trace: start and stop out of turn throw, and a trace that nobody stops is dropped with its engine") {
  Engine engine({.workers = 1});
  CHECK_THROWS_AS(engine.stop_trace(), ValueError);
  engine.start_trace();
  CHECK_THROWS_AS(engine.start_trace(), ValueError);
  engine.push({.name = "kept"}, [] {});
  engine.wait_all();
  CHECK(engine.stop_trace().events().size() == 1);
  CHECK_THROWS_AS(engine.stop_trace(), ValueError);
  engine.start_trace();
  for (int i = 0; i < 1000; ++i)
    engine.push({.name = "dropped"}, [] {});
}
