// The tests' side of the simulator.
#include <cstdlib>
#include <utility>

#include "tests/support/cuda_sim/world.h"

namespace sluice::test::sim {

namespace {

/// A test's question, in the same order as calls.
template <class Act>
auto ask(Act&& act) {
  const Unseen unseen;
  World& all = world();
  Lock hold(all.mutex);
  return act(all, hold);
}

std::string join(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines)
    text += (text.empty() ? "" : "\n") + line;
  return text;
}

}  // namespace

void reset(const Options& options) {
  // Handles go last and without the lock: closures that were dropped may call back.
  Handles<CUstream_st> streams;
  Handles<CUgraph_st> graphs;
  Handles<CUgraphExec_st> execs;
  ask([&](World& all, Lock& hold) {
    all.end(hold);
    for (const auto& [address, block] : all.memory)
      std::free(address);
    all.forget(streams, graphs, execs);
    all.begin(options);
    return 0;
  });
}

void hold(cudaStream_t stream) {
  ask([&](World& all, Lock&) { return all.stream(stream).held = true; });
}

void release(cudaStream_t stream) {
  ask([&](World& all, Lock&) {
    all.stream(stream).held = false;
    all.wake();
    return 0;
  });
}

bool run_one() {
  return ask([](World& all, Lock& hold) { return all.drain_one(hold); });
}

int run_all() {
  int count = 0;
  while (run_one())
    ++count;
  return count;
}

void set_manual(bool manual) {
  ask([&](World& all, Lock&) {
    all.options.manual = manual;
    all.start_executors();
    all.wake();
    return 0;
  });
}

bool idle() {
  return ask([](World& all, Lock&) { return all.quiet(); });
}

int most_at_once() {
  return ask([](World& all, Lock&) { return all.most_at_once; });
}

void fail_nth(int n, cudaError_t error) {
  fail_nth("", n, error);
}

void fail_nth(const std::string& name, int n, cudaError_t error) {
  ask([&](World& all, Lock&) {
    all.fail_in = n;
    all.fail_name = name;
    all.fail_with = error;
    all.failed.clear();
    return 0;
  });
}

void keep_failing(const std::string& name, cudaError_t error) {
  ask([&](World& all, Lock&) {
    all.failing = name;
    all.failing_with = error;
    return 0;
  });
}

std::string failed_call() {
  return ask([](World& all, Lock&) { return all.failed; });
}

void ignore_event_waits(bool ignored) {
  ask([&](World& all, Lock&) { return all.waits_ignored = ignored; });
}

void set_shared_memory(int bytes) {
  ask([&](World& all, Lock&) { return all.shared_memory = bytes; });
}

void lose_device(int device, cudaError_t error) {
  ask([&](World& all, Lock&) {
    all.lose(device, error);
    return 0;
  });
}

std::map<std::string, int> calls() {
  return ask([](World& all, Lock&) { return all.counts; });
}

int calls(const std::string& name) {
  return ask([&](World& all, Lock&) {
    const auto found = all.counts.find(name);
    return found == all.counts.end() ? 0 : found->second;
  });
}

int blocking_calls() {
  return ask([](World& all, Lock&) { return all.blocking; });
}

void clear_calls() {
  ask([](World& all, Lock&) {
    all.counts.clear();
    return all.blocking = 0;
  });
}

std::string violations() {
  return ask([](World& all, Lock&) { return join(all.violations); });
}

std::string take_violations() {
  return ask([](World& all, Lock&) { return join(std::exchange(all.violations, {})); });
}

std::string leftovers() {
  return ask([](World& all, Lock&) {
    std::map<std::string, int> left;
    all.streams.each([&](const CUstream_st& s) { left["streams"] += s.alive && !s.owned_by_device; });
    all.events.each([&](const CUevent_st& e) { left["events"] += e.alive; });
    all.graphs.each([&](const CUgraph_st& g) { left["graphs"] += g.alive; });
    all.execs.each([&](const CUgraphExec_st& e) { left["executable graphs"] += e.alive; });
    all.pools.each([&](const CUmemPoolHandle_st& p) { left["memory pools"] += p.alive && !p.owned_by_device; });
    for (const auto& [address, block] : all.memory)
      left[block.kind == MemoryKind::host ? "blocks of host memory" : "blocks of device memory"] += !block.freed;
    std::vector<std::string> lines;
    for (const auto& [kind, count] : left) {
      if (count > 0)
        lines.push_back(std::to_string(count) + " " + kind);
    }
    return join(lines);
  });
}

}  // namespace sluice::test::sim
