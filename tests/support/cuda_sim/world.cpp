// Handles, calls, faults, and what tests ask.
#include "tests/support/cuda_sim/world.h"

#include <algorithm>
#include <pthread.h>

namespace sluice::test::sim {

namespace {
// A child finds the world at rest. Before main(), so that this comes last of all that is done before a fork: who
// changes the engine's lists meanwhile may be in a call.
[[maybe_unused]] const int k_forks =
    pthread_atfork([] { world().mutex.lock(); }, [] { world().mutex.unlock(); }, [] { world().mutex.unlock(); });
}  // namespace

World& world() {
  static World* const all = new World;  // threads and Vars may outlive every static object
  return *all;
}

void World::begin(const Options& wanted) {
  options = wanted;
  random_.seed(options.seed);
  ++epoch_;
  picks_ = 0;
  devices.assign(static_cast<std::size_t>(options.devices), Device{});
  for (int i = 0; i < options.devices; ++i) {
    Device& made = devices[static_cast<std::size_t>(i)];
    made.default_stream = streams.make();
    made.default_stream->device = i;
    made.default_stream->owned_by_device = true;
    made.default_pool = made.pool = pools.make();
    made.default_pool->device = i;
    made.default_pool->owned_by_device = true;
  }
}

// -- Calls ------------------------------------------------------------------------------------------------------------

HostThread& World::host() {
  static thread_local HostThread mine;
  if (mine.epoch != epoch_)
    mine = HostThread{.epoch = epoch_};
  return mine;
}

void World::enter(const char* name) {
  ++counts[name];
  if (inside_body()) {
    violation(std::string(name) + " was called by a kernel or a host function");
    throw Refusal{cudaErrorNotPermitted};
  }
  if (fail_in > 0 && (fail_name.empty() || fail_name == name) && --fail_in == 0) {
    failed = name;
    throw Refusal{fail_with};
  }
  if (failing == name) {
    failed = name;
    throw Refusal{failing_with};
  }
}

cudaError_t World::leave(cudaError_t status) {
  if (status != cudaSuccess)
    host().error = status;
  return status;
}

void World::violation(const std::string& what) {
  if (std::find(violations.begin(), violations.end(), what) == violations.end())
    violations.push_back(what);
}

// -- Handles ----------------------------------------------------------------------------------------------------------

Device& World::device(int index) {
  if (index < 0 || index >= options.devices)
    throw Refusal{cudaErrorInvalidDevice};
  return devices[static_cast<std::size_t>(index)];
}

void World::check_device(int index) {
  if (const cudaError_t lost = device(index).lost; lost != cudaSuccess)
    throw Refusal{lost};
}

int World::current_device() {
  if (options.devices == 0)
    throw Refusal{cudaErrorNoDevice};
  const int index = host().device;
  check_device(index);
  return index;
}

namespace {

// Graphs are not guarded by CUDA: two threads that use one without an order between them race, for all to see.
void touch(int& word) {
  const Seen seen;
  volatile int& seen_word = word;
  seen_word = seen_word + 1;
}

}  // namespace

CUstream_st& World::stream(cudaStream_t handle) {
  const bool is_default = handle == nullptr || handle == cudaStreamLegacy || handle == cudaStreamPerThread;
  if (is_default)
    return *devices[static_cast<std::size_t>(current_device())].default_stream;
  CUstream_st& found = alive(streams, handle, "a stream");
  check_device(found.device);
  return found;
}

CUevent_st& World::event(cudaEvent_t handle) {
  CUevent_st& found = alive(events, handle, "an event");
  check_device(found.device);
  return found;
}

CUgraph_st& World::graph(cudaGraph_t handle) {
  CUgraph_st& found = alive(graphs, handle, "a graph");
  touch(found.touched);
  return found;
}

CUgraphExec_st& World::exec(cudaGraphExec_t handle) {
  CUgraphExec_st& found = alive(execs, handle, "an executable graph");
  touch(found.touched);
  check_device(found.device);
  return found;
}

CUmemPoolHandle_st& World::pool(cudaMemPool_t handle) {
  CUmemPoolHandle_st& found = alive(pools, handle, "a memory pool");
  check_device(found.device);
  return found;
}

void World::forget(
    Handles<CUstream_st>& old_streams, Handles<CUgraph_st>& old_graphs, Handles<CUgraphExec_st>& old_execs) {
  busy_.clear();
  std::swap(streams, old_streams);
  std::swap(graphs, old_graphs);
  std::swap(execs, old_execs);
  events.clear();
  pools.clear();
  memory.clear();
  captures.clear();
  peers.clear();
  counts.clear();
  violations.clear();
  failed.clear();
  failing.clear();
  fail_in = blocking = most_at_once = 0;
  waits_ignored = false;
  shared_memory = k_shared_memory;
}

}  // namespace sluice::test::sim
