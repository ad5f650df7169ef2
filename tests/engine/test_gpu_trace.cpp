// Traces of real GPU work: when the device did what, on the host's clock.
#include <algorithm>
#include <chrono>
#include <set>

#include "tests/engine/expect.h"
#include "tests/engine/gpu_work.h"
#include "tests/support/gate.h"
#include "tests/support/gate_cuda.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using Words = GpuArray<std::uint64_t>;

/// Clocks of host and device are put together to some microseconds; a millisecond is beyond all doubt.
constexpr std::int64_t k_slack = 1'000'000;

const TraceThread& row(const Trace& trace, int index) {
  return trace.threads().at(static_cast<std::size_t>(index));
}

bool is_on_gpu(const Trace& trace, const TraceEvent& event) {
  return event.issued >= 0 && event.worker >= 0 && row(trace, event.worker).stream;
}

}  // namespace

TEST_CASE("Trace on a GPU: dependent tasks follow one another, each as long as its kernel", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  Words words(2);
  Engine engine({.workers = 1});
  Var x = engine.new_var(), y = engine.new_var();
  engine.start_trace();
  for (std::uint64_t i = 0; i < 8; ++i) {
    // Alternating, so that more than one stream takes part.
    engine.push(
        {.name = "slow", .device = gpu(0), .access = {write(i % 2 == 0 ? x : y), read(i % 2 == 0 ? y : x)}},
        [&, i](Queue queue) { enqueue_append(queue.stream(), words.data() + i % 2, i, 2000); });
  }
  engine.wait_all();
  const auto before_stop = engine.stop_trace();
  const Trace& trace = before_stop;
  REQUIRE(trace.events().size() == 8);
  for (const TraceEvent& event : trace.events()) {
    REQUIRE(is_on_gpu(trace, event));
    CHECK(row(trace, event.worker).name.starts_with("gpu(0) compute "));
    CHECK_FALSE(row(trace, event.issuer).stream);
    CHECK(event.outcome == TaskOutcome::ok);
    CHECK(event.pushed <= event.issued);
    CHECK(event.issued <= event.started);
    CHECK(event.ended - event.started >= 1'900'000);  // the kernel dawdles for 2 ms; its issue takes microseconds
    CHECK(event.ended <= trace.duration() + k_slack);
  }
  REQUIRE(trace.edges().size() >= 7);
  for (const TraceEdge& edge : trace.edges())
    CHECK(trace.events()[edge.from].ended <= trace.events()[edge.to].started);
}

TEST_CASE("Trace on a GPU: two tasks that met at a gate are seen to overlap, on two rows", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  Engine engine({.workers = 1});
  Var x = engine.new_var(), y = engine.new_var();
  GpuGate first, second;
  GpuGateOpensAtEnd opens_first(first), opens_second(second);
  engine.start_trace();
  engine.push(
      {.name = "one", .device = gpu(0), .access = {write(x)}}, [first](Queue queue) { first.hold(queue.stream()); });
  engine.push({.name = "other", .device = gpu(0), .access = {write(y)}}, [second](Queue queue) {
    second.hold(queue.stream());
  });
  REQUIRE(first.reached());
  REQUIRE(second.reached());  // both kernels run now
  first.open();
  second.open();
  engine.wait_all();
  const Trace trace = engine.stop_trace();
  REQUIRE(trace.events().size() == 2);
  const TraceEvent &one = trace.events()[0], &other = trace.events()[1];
  REQUIRE(is_on_gpu(trace, one));
  REQUIRE(is_on_gpu(trace, other));
  CHECK(one.worker != other.worker);
  CHECK(one.started < other.ended);
  CHECK(other.started < one.ended);
}

TEST_CASE("Trace on a GPU: times lie between the push and the end of the wait, copies on rows of their own", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  Words words(1);
  PinnedArray<std::uint64_t> host(1);
  std::int64_t seen = -1;
  Engine engine({.workers = 1});
  Var x = engine.new_var(), y = engine.new_var();
  engine.start_trace();
  engine.push({.name = "write", .device = gpu(0), .access = {write(x)}}, [&](Queue queue) {
    enqueue_store(queue.stream(), words.data(), 7, 5000);
  });
  engine.push(
      {.name = "fetch", .device = gpu(0), .access = {read(x), write(y)}, .stream = StreamKind::copy_out},
      [&](Queue queue) { enqueue_copy(queue.stream(), host.data(), words.data(), sizeof(std::uint64_t)); });
  engine.push({.name = "use", .access = {read(y)}}, [&] { seen = static_cast<std::int64_t>(host[0]); });
  engine.wait_all();
  const Trace trace = engine.stop_trace();
  CHECK(seen == 7);
  REQUIRE(trace.events().size() == 3);
  const TraceEvent &written = trace.events()[0], &fetched = trace.events()[1], &used = trace.events()[2];
  REQUIRE(is_on_gpu(trace, written));
  REQUIRE(is_on_gpu(trace, fetched));
  CHECK(row(trace, fetched.worker).name == "gpu(0) copy out");
  CHECK(written.ended <= fetched.started);
  CHECK(written.started >= written.pushed);
  CHECK(used.started >= fetched.ended - k_slack);  // the CPU's task came after the GPU's, on one clock
  CHECK(used.started >= written.started + 4'900'000 - k_slack);
  CHECK(fetched.ended <= trace.duration() + k_slack);
}

TEST_CASE(
    "Trace on a GPU: work that is not done when the trace stops is unfinished, and nobody waits for it", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  GpuGate gate;
  GpuGateOpensAtEnd opens(gate);
  engine.start_trace();
  engine.push(
      {.name = "held", .device = gpu(0), .access = {write(x)}}, [gate](Queue queue) { gate.hold(queue.stream()); });
  REQUIRE(gate.reached());
  const Trace trace = engine.stop_trace();
  CHECK_FALSE(gate.is_open());
  gate.open();
  engine.wait_all();
  REQUIRE(trace.events().size() == 1);
  CHECK(trace.events()[0].outcome == TaskOutcome::unfinished);
  CHECK(trace.events()[0].ended == -1);
  // The next trace is not disturbed by what the last one left.
  engine.start_trace();
  engine.push({.name = "next", .device = gpu(0), .access = {write(x)}}, [](Queue queue) { (void)queue.stream(); });
  engine.wait_all();
  const Trace next = engine.stop_trace();
  REQUIRE(next.events().size() == 1);
  CHECK(is_on_gpu(next, next.events()[0]));
  CHECK(next.events()[0].outcome == TaskOutcome::ok);
}

TEST_CASE("Trace on a GPU: thousands of tasks, some of which fail, each with its own times", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  Words words(4);
  Engine engine({.workers = 2});
  std::vector<Var> vars(4);
  for (Var& var : vars)
    var = engine.new_var();
  engine.start_trace();
  for (std::uint64_t i = 0; i < 4000; ++i) {
    engine.push({.name = "task", .device = gpu(0), .access = {out(vars[i % 4])}}, [&, i](Queue queue) {
      enqueue_append(queue.stream(), words.data() + i % 4, i);
      require(i % 500 != 499, [] { return "one in five hundred"; });
    });
  }
  CHECK_THROWS_AS(engine.wait_all(), ValueError);
  const Trace trace = engine.stop_trace();
  REQUIRE(trace.events().size() == 4000);
  int without = 0, failed = 0, wrong = 0;
  for (const TraceEvent& event : trace.events()) {
    without += is_on_gpu(trace, event) ? 0 : 1;
    failed += event.outcome == TaskOutcome::failed ? 1 : 0;
    wrong += event.pushed <= event.started && event.started <= event.ended ? 0 : 1;
  }
  CHECK(without == 0);
  CHECK(failed == 8);
  CHECK(wrong == 0);
  for (const TraceEdge& edge : trace.edges())
    wrong += trace.events()[edge.from].ended <= trace.events()[edge.to].started ? 0 : 1;
  CHECK(wrong == 0);
}
