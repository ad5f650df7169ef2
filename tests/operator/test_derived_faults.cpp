// What plans keep of constants belongs to nobody's request, does not outlive what is wrong with the constants, takes no
// more memory and is made no more often than it must.
#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sluice/engine/task_group.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/graph/host_plan.h>
#include <sluice/storage/api.h>

#include "tests/operator/derived_plans.h"
#include "tests/operator/with_tf32.h"
#include "tests/support/catch.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;
using graph::Plan;

namespace {

const Var& var_of(const NDArray& array) {
  return array.object()->buffer->var();
}

/// The error that reading the array brings, if any. It is told once more by nobody.
std::optional<std::string> error_of(const NDArray& array, bool forgive = false) {
  try {
    array.wait_to_read();
    return std::nullopt;
  } catch (const Error& error) {
    if (forgive)
      Engine::current().forgive(error);
    return error.message();
  }
}

void wait_for_all() {
  try {
    Engine::current().wait_all();
  } catch (const Error&) {  // errors of before
  }
}

void check_failed_write(Device device) {
  const NDArray x = draw({3, 4}, 1, device), w = draw({4, 5}, 2, device);
  const Body body = [&](const Arrays& in) { return Arrays{matmul(in[0], exp(w))}; };
  Plan plan(traced({x}, body));
  for (int round = 0; round < 3; ++round) {
    CHECK((all_bytes(plan.run({&x, 1})) == all_bytes(body({x}))));
    wait_for_all();
    CHECK((all_bytes(plan.run({&x, 1})) == all_bytes(body({x}))));
    wait_for_all();
    Engine::current().push({.name = "load", .access = {write(var_of(w))}}, [] { throw ValueError("no such file"); });
    if (round != 1)
      wait_for_all();
    for (int run = 0; run < 2; ++run)
      CHECK(error_of(plan.run({&x, 1})[0]) == "no such file");
    w.assign(draw({4, 5}, 3, device));
  }
}

// Which is passed by kernels of `gated`, a copy.
std::optional<Gate> gate_on_the_way;

const Operator gated{
    .name = "gated",
    .infer = [](const Operator&, std::span<const ArraySpec> inputs, const Attributes&) { return Specs{inputs[0]}; },
    .kernels = {on_cpu([](const KernelCall& call) {
      gate_on_the_way->wait();
      std::copy_n(call.inputs[0].as<float>(), call.inputs[0].size, call.outputs[0].as<float>());
    })}};

// Of two kept values one is on its way, the other has failed and may be made by now.
void check_forgiven(const std::function<Arrays(const NDArray& x, const NDArray& p, const NDArray& b)>& program) {
  Engine engine({.workers = 4});
  const EngineScope scope(engine);
  NDArray p = draw({4, 4}, 1, cpu());
  const NDArray b = draw({4, 4}, 2, cpu()), x = draw({3, 4}, 3, cpu()), q = draw({4, 4}, 4, cpu());
  gate_on_the_way.emplace().open();
  Plan plan(traced(
      {x}, [&](const Arrays& in) { return program(in[0], p, invoke_one(gated, {b}, {}, SourceLocation::current())); }));
  const auto before = all_bytes({plan.run({&x, 1})[0]});
  wait_for_all();
  engine.push({.name = "bad", .access = {out(var_of(q))}}, [] { throw ValueError("no memory, say"); });
  p += q;
  wait_for_all();
  const Gate& gate = gate_on_the_way.emplace();
  const OpensAtEnd opens(gate);
  CHECK(error_of(plan.run({&x, 1})[0], true) == "no memory, say");
  CHECK_FALSE(error_of(p));
  Arrays got;
  for (int run = 0; run < 3; ++run)
    got.push_back(plan.run({&x, 1})[0]);
  gate.open();
  for (const NDArray& one : got) {
    CHECK_FALSE(error_of(one));
    CHECK((all_bytes({one}) == before));
  }
}

/// All workers of the engine, until it goes.
class Busy {
 public:
  explicit Busy(Engine& engine) : opens_(gate_) {
    for (int i = 0; i < engine.workers(); ++i)
      engine.push({.name = "busy"}, [gate = gate_] { gate.wait(); });
    REQUIRE(gate_.reached(engine.workers()));
  }
  void end() const { gate_.open(); }

 private:
  Gate gate_;
  OpensAtEnd opens_;
};

// exp(w) comes of a constant, exp(range) of nothing.
Arrays of_both(const NDArray& x, const NDArray& w) {
  return {matmul(x, exp(w)) + exp(arange(0, 5, 1, {.dtype = float32, .device = x.device()}))};
}

void check_cancelled(bool by_run, bool keep) {
  CAPTURE(by_run, keep);
  Engine engine({.workers = 2});
  const EngineScope scope(engine);
  const NDArray x = draw({3, 4}, 1, cpu()), w = draw({4, 5}, 2, cpu());
  const Body body = [&](const Arrays& in) { return of_both(in[0], w); };
  const graph::Graph graph = traced({x}, body);
  const auto wanted = all_bytes(body({x}));
  std::unique_ptr<Plan> plan;
  const auto make = [&] { plan = std::make_unique<Plan>(graph, graph::PlanOptions{.keep_derived = keep}); };
  if (by_run)
    make();
  const Busy busy(engine);
  TaskGroup request(engine);
  {
    const GroupScope member(request);
    if (!by_run)
      make();
    plan->run({&x, 1});
  }
  const Arrays mine = plan->run({&x, 1});
  request.cancel();
  busy.end();
  CHECK_FALSE(error_of(mine[0]));
  CHECK((all_bytes(mine) == wanted));
  wait_for_all();
  CHECK((all_bytes(plan->run({&x, 1})) == wanted));
}

// A member's body asks first, and its group ends before what it kept could be made.
void check_body_of_a_group() {
  Engine engine({.workers = 2});  // one of them waits at the gate
  const EngineScope scope(engine);
  const NDArray x = draw({3, 4}, 1, cpu()), w = draw({4, 5}, 2, cpu());
  const Body body = [&](const Arrays& in) { return of_both(in[0], w); };
  Plan plan(traced({x}, body));
  const auto wanted = all_bytes(body({x}));
  Gate gate;
  const OpensAtEnd opens(gate);
  engine.push({.name = "gate", .access = {write(var_of(w))}}, [gate] { gate.wait(); });
  TaskGroup request(engine);
  Gate asked;
  request.push({.name = "asks"}, [&plan, x, asked] {
    plan.run({&x, 1});
    asked.open();
  });
  REQUIRE(asked.wait());
  const Arrays mine = plan.run({&x, 1});
  request.cancel();
  gate.open();
  CHECK_FALSE(error_of(mine[0]));
  CHECK((all_bytes(mine) == wanted));
}

// Whose members go one by one.
void check_limited_group() {
  Engine engine({.workers = 2});  // one of them waits at the gate
  const EngineScope scope(engine);
  const NDArray x = draw({3, 4}, 1, cpu()), w = draw({4, 5}, 2, cpu());
  const Body body = [&](const Arrays& in) { return of_both(in[0], w); };
  Plan plan(traced({x}, body));
  TaskGroup request(engine, {.limit = 1});
  Gate gate;
  const OpensAtEnd opens(gate);
  request.push({.name = "long"}, [gate] { gate.wait(); });
  REQUIRE(gate.reached());
  std::thread([&] {  // whose runs have memory of their own
    const EngineScope here(engine);
    const GroupScope member(request);
    plan.run({&x, 1});
  })
      .join();
  const NDArray mine = plan.run({&x, 1})[0];
  Gate got;
  engine.push({.name = "got", .access = {read(var_of(mine))}}, [got] { got.open(); });
  CHECK(got.wait());
  CHECK_FALSE(gate.is_open());
}

void check_memory() {
  constexpr std::int64_t k_size = 500, k_product = k_size * k_size * 4;
  Engine engine({.workers = 2});
  const EngineScope scope(engine);
  const NDArray w = full({k_size, k_size}, 1e-3), x = full({4, k_size}, 1.0);
  const graph::Graph graph =
      traced({x}, [&](const Arrays& in) { return Arrays{matmul(in[0], matmul(matmul(matmul(w, w), w), w))}; });
  Plan apart(graph, {.keep_derived = false});
  const auto wanted = all_bytes(apart.run({&x, 1}));
  const auto check = [&](Plan& plan) {
    for (int run = 0; run < 2; ++run)
      CHECK((all_bytes(plan.run({&x, 1})) == wanted));
  };
  {
    Plan plan(graph);
    CHECK(plan.memory().bytes_derived == k_product);
    check(plan);
    engine.wait_all();
  }
  // Enough for the plan that keeps nothing, beside the weights.
  for (const std::int64_t spare : {0, 2, 4, 5, 6, 8, 12}) {
    CAPTURE(spare);
    Storage::of(engine).empty_cache(cpu());
    const auto held = static_cast<std::int64_t>(memory_stats(cpu()).active);
    Storage::of(engine).configure(
        {.host_limit = static_cast<std::size_t>(held + 3 * k_product + spare * k_product / 4)});
    Plan plan(graph);
    check(plan);
    engine.wait_all();
  }
  // When it is made there is; when it runs something else has taken it.
  Storage::of(engine).empty_cache(cpu());
  const auto held = static_cast<std::int64_t>(memory_stats(cpu()).active);
  Storage::of(engine).configure({.host_limit = static_cast<std::size_t>(held + 13 * k_product / 4)});
  Plan plan(graph);
  const NDArray taken = full({3 * k_product / 16}, 1.0);
  check(plan);
}

void check_renewals(Device device) {
  const NDArray x = draw({3, 4}, 1, device), w = draw({4, 5}, 2, device), v = draw({5, 5}, 3, device),
                b = draw({5}, 4, device), c = draw({1}, 5, device);
  // Of w and c, of v and c, and of b.
  const Body body = [&](const Arrays& in) { return Arrays{matmul(matmul(in[0], exp(w) * c), exp(v) * c) + exp(b)}; };
  Plan plan(traced({x}, body), {.optimise = false});
  CHECK(plan.memory().bytes_derived == (20 + 25 + 5) * sizeof(float));
  const auto events_of_run = [&](const char* name) {
    Engine::current().wait_all();
    Engine::current().start_trace();
    plan.run({&x, 1});
    Engine::current().wait_all();
    const Trace trace = Engine::current().stop_trace();
    return std::count_if(trace.events().begin(), trace.events().end(), [&](const TraceEvent& event) {
      return std::string(event.name) == name;
    });
  };
  const NDArray all[] = {w, v, b, c, w};
  const std::int64_t parts[] = {1, 1, 1, 2, 1};  // each with one exp
  CHECK(events_of_run("exp") == 3);
  for (std::size_t i = 0; i < std::size(all); ++i) {
    CAPTURE(i);
    for (const char* name : {"exp", "derived values"}) {
      all[i].assign(draw(all[i].shape(), 9 + i, device));
      CHECK(events_of_run(name) == parts[i]);
      CHECK(events_of_run(name) == 0);
      CHECK((all_bytes(plan.run({&x, 1})) == all_bytes(body({x}))));
    }
  }
}

// Nobody reads what lies between w and what is kept, nor what is made for a node that is dead.
void check_only_what_is_read() {
  const NDArray x = draw({3, 4}, 1, cpu()), w = draw({4, 4}, 2, cpu());
  const Body body = [&](const Arrays& in) {
    tanh(w);
    return Arrays{matmul(in[0], matmul(matmul(w, w), w).T()) + in[0]};
  };
  for (const bool optimise : {false, true}) {
    Plan plan(traced({x}, body), {.optimise = optimise});
    CHECK(plan.memory().bytes_derived == 16 * sizeof(float));
    for (int run = 0; run < 2; ++run)
      CHECK((all_bytes(plan.run({&x, 1})) == all_bytes(body({x}))));
  }
}

// From a host plan's launches, and from its tasks.
void check_host_plan(Device device) {
  const NDArray w = draw({4, 5}, 2, device, float16), b = draw({5}, 3, device);
  const NDArray example = draw({3, 4}, 1, device);
  const Body body = [&](const Arrays& in) {
    return Arrays{matmul(in[0], w.astype(float32)) + exp(b) + full({5}, 2.0, {.device = device})};
  };
  for (const bool keep : {true, false}) {
    graph::HostPlan plan(traced({example}, body), {.most_at_once = 2, .keep_derived = keep});
    for (int run = 0; run < 12; ++run) {
      const NDArray x = draw({3, 4}, static_cast<std::uint64_t>(run), cpu());
      const std::vector<float> given = x.to_vector<float>();
      std::vector<float> got(15);
      const graph::HostValues in{given.data(), float32, 12};
      const graph::HostRoom to{got.data(), float32, 15};
      plan.run({&in, 1}, {&to, 1});
      CHECK(got == body({x.to(device)})[0].to_vector<float>());
      if (run % 4 == 2)
        w.assign(draw({4, 5}, 20 + static_cast<std::uint64_t>(run), device, float16));
      if (run % 4 == 3)
        NDArray(b) += 0.5;
    }
    CHECK((plan.counts().launched > 4) == device.is_gpu());
  }
}

}  // namespace

TEST_CASE("A constant that a task failed to write is not what it was", "[graph][derived]") {
  check_failed_write(cpu());
}
TEST_CASE("A constant on a GPU that a task failed to write is not what it was", "[graph][derived][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_failed_write(gpu());
}

TEST_CASE("A forgiven error does not come back with what was kept meanwhile", "[graph][derived]") {
  check_forgiven([](const NDArray& x, const NDArray& p, const NDArray& b) {
    return Arrays{matmul(x, exp(p)), matmul(x, b)};
  });
  check_forgiven([](const NDArray& x, const NDArray& p, const NDArray& b) {
    const NDArray first = exp(p);
    return Arrays{matmul(x, first), matmul(x, matmul(first, b))};
  });
}

TEST_CASE("A request that is given up takes nothing along that a plan keeps", "[graph][derived]") {
  for (const bool by_run : {false, true}) {
    check_cancelled(by_run, true);
    check_cancelled(by_run, false);
  }
  check_body_of_a_group();
}

TEST_CASE("What a plan keeps takes no place in a group", "[graph][derived]") {
  check_limited_group();
}

TEST_CASE("A plan keeps what it reads, and does without where memory is short", "[graph][derived]") {
  check_only_what_is_read();
  check_memory();
}

TEST_CASE("A write renews what comes of it, and nothing else", "[graph][derived]") {
  check_renewals(cpu());
}
TEST_CASE("A write on a GPU renews what comes of it, and nothing else", "[graph][derived][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_renewals(gpu());
}

TEST_CASE("What was made in another precision is made again", "[graph][derived]") {
  const NDArray x = draw({3, 4}, 1, cpu()), w = draw({4, 4}, 2, cpu());
  Plan plan(traced({x}, [&](const Arrays& in) { return Arrays{matmul(in[0], matmul(w, w))}; }));
  const auto run = [&] { plan.run({&x, 1}); };
  CHECK(renewals(run) == 1);
  CHECK(renewals(run) == 0);
  {
    const WithTf32 tf32;
    CHECK(renewals(run) == 1);
    CHECK(renewals(run) == 0);
  }
  CHECK(renewals(run) == 1);
}

TEST_CASE("Host plans keep what comes of constants and see what is written", "[graph][derived]") {
  check_host_plan(cpu());
}
TEST_CASE("Host plans on a GPU keep what comes of constants and see what is written", "[graph][derived][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_host_plan(gpu());
}
