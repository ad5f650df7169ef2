#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "tests/support/cuda_sim/objects.h"
#include "tests/support/cuda_sim/sim.h"

namespace sluice::test::sim {

using Lock = std::unique_lock<std::mutex>;

/// Ends a call with that error.
struct Refusal {
  cudaError_t status;
};

/// All handles of one kind. Destroyed ones are kept, dead, so that their use is noticed.
template <class T>
class Handles {
 public:
  T* make() {
    auto made = std::make_unique<T>();
    T* handle = made.get();
    made_.emplace(handle, std::move(made));
    return handle;
  }
  /// Null if there never was such a handle.
  T* find(T* handle) const { return made_.contains(handle) ? handle : nullptr; }
  template <class Act>
  void each(Act&& act) const {
    for (const auto& [handle, owner] : made_)
      act(*handle);
  }
  void clear() { made_.clear(); }

 private:
  std::unordered_map<T*, std::unique_ptr<T>> made_;
};

enum class MemoryKind : std::uint8_t { device, host, pool };

struct Block {
  std::size_t bytes = 0;
  MemoryKind kind = MemoryKind::device;
  int device = 0;
  cudaMemPool_t pool = nullptr;
  bool freed = false;  // cudaFreeAsync was called, and has not run yet
};

struct Device {
  cudaError_t lost = cudaSuccess;
  std::size_t used = 0;  // by cudaMalloc
  cudaStream_t default_stream = nullptr;
  cudaMemPool_t default_pool = nullptr;
  cudaMemPool_t pool = nullptr;
};

/// What CUDA keeps of each thread.
struct HostThread {
  std::uint64_t epoch = 0;
  int device = 0;
  cudaError_t error = cudaSuccess;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
};

/// Everything there is, under one mutex. Bodies of kernels run without it.
class World {
 public:
  World() { begin(Options{}); }

  // -- Calls ----------------------------------------------------------------------------------------------------------
  /// Counts a call; throws Refusal if it is to fail.
  void enter(const char* name);
  cudaError_t leave(cudaError_t status);
  HostThread& host();
  void violation(const std::string& what);

  // -- Handles: of a call's arguments. They throw Refusal for a handle that is not alive or a device that is lost -----
  int current_device();
  Device& device(int index);
  void check_device(int index);
  CUstream_st& stream(cudaStream_t handle);
  CUevent_st& event(cudaEvent_t handle);
  CUgraph_st& graph(cudaGraph_t handle);
  CUgraphExec_st& exec(cudaGraphExec_t handle);
  CUmemPoolHandle_st& pool(cudaMemPool_t handle);
  /// As above, whatever has become of its device.
  template <class T>
  T& alive(const Handles<T>& handles, T* handle, const char* kind) {
    T* const found = handles.find(handle);
    if (found != nullptr && found->alive)
      return *found;
    violation(std::string(found == nullptr ? "something else was used as " : "used after it was destroyed: ") + kind);
    throw Refusal{cudaErrorInvalidResourceHandle};
  }

  // -- Work -----------------------------------------------------------------------------------------------------------
  void enqueue(CUstream_st& stream, OpRef op);
  /// As a graph node if the stream captures, otherwise as an Op that is returned.
  /// Leaves `node` as it is if it throws.
  OpRef add(CUstream_st& stream, Node&& node, std::vector<OpRef> needs = {});
  /// Blocks the host until `op` (may be null) has ended, or its device is lost.
  void wait(Lock& hold, const OpRef& op);
  void wait_device(Lock& hold, int index);
  void lose(int index, cudaError_t error);
  bool drain_one(Lock& hold);
  bool quiet() const { return busy_.empty() && running_ == 0; }
  void wake();
  void start_executors();

  // -- Captures -------------------------------------------------------------------------------------------------------
  /// Throws Refusal if `stream` captures: what the call asks of it cannot be captured.
  void refuse_capture(CUstream_st& stream);
  /// Throws Refusal if this thread may not make calls that could disturb a capture; such captures become invalid.
  void check_unsafe();
  static void invalidate(Capture& capture);
  /// The capture of `stream`, null if there is none; throws Refusal if it is invalid.
  Capture* capture_of(CUstream_st& stream);
  static void merge(std::vector<cudaGraphNode_t>& into, const std::vector<cudaGraphNode_t>& from);
  void add_node(CUstream_st& stream, Node node);

  // -- Memory ---------------------------------------------------------------------------------------------------------
  const std::pair<char* const, Block>* block_of(const void* address) const;
  void* allocate(std::size_t bytes, Block block);
  void release_block(char* address);
  std::size_t in_use(int device) const;
  void check_pending(const char* call, const char* address, std::size_t bytes);

  void begin(const Options& options);
  /// Stops the executors; what is queued stays so.
  void end(Lock& hold);
  /// Forgets everything; the handles of what may hold closures are handed out.
  void forget(Handles<CUstream_st>& streams, Handles<CUgraph_st>& graphs, Handles<CUgraphExec_st>& execs);

  std::mutex mutex;
  Options options;
  std::vector<Device> devices;
  Handles<CUstream_st> streams;
  Handles<CUevent_st> events;
  Handles<CUgraph_st> graphs;
  Handles<CUgraphExec_st> execs;
  Handles<CUmemPoolHandle_st> pools;
  std::map<char*, Block> memory;
  std::vector<CaptureRef> captures;
  std::set<std::pair<int, int>> peers;
  std::vector<cudaGraphEdgeData> plain_edges;
  unsigned long long next_id = 1;
  std::vector<std::vector<Node>> dropped;  // their closures end after the call, without the lock

  std::map<std::string, int> counts;
  int blocking = 0;
  int fail_in = 0;
  std::string fail_name;
  cudaError_t fail_with = cudaSuccess;
  std::string failing;
  cudaError_t failing_with = cudaSuccess;
  std::string failed;
  bool waits_ignored = false;
  static constexpr int k_shared_memory = 227 << 10;
  int shared_memory = k_shared_memory;  // of a block
  std::vector<std::string> violations;
  int most_at_once = 0;

 private:
  struct Pick {
    CUstream_st* stream;
    Op* op;
  };
  enum class Choice : std::uint8_t { none, asleep, chosen };

  void collect();
  Choice choose(Pick& pick);
  void run(Pick pick, Lock& hold);
  void run_body(Op& op, Op* whole, Work work, const OpRef& previous, bool lost);
  void finish(CUstream_st& stream, const OpRef& op, bool part);
  void execute();
  void maybe_drowse(CUstream_st& stream, int one_in);
  std::unique_ptr<Strand> take_strand();

  std::mt19937_64 random_;
  std::uint64_t epoch_ = 0;
  std::uint64_t picks_ = 0;
  std::vector<CUstream_st*> busy_;
  std::vector<Pick> ready_, awake_;
  std::vector<std::unique_ptr<Strand>> strands_;
  std::vector<std::thread> executors_;
  std::condition_variable work_, done_;
  int hosts_waiting_ = 0;
  int running_ = 0;
  int kernels_ = 0;
  bool stopping_ = false;
};

World& world();

/// True while this thread runs a kernel's body or a host function.
bool inside_body() noexcept;

/// May conditional nodes of the graph, and of their bodies, have the bodies that they have?
bool bodies_are_allowed(const World& all, const CUgraph_st& graph);

/// A call of the runtime: `act(world, lock)` returns its status or throws Refusal.
template <class Act>
cudaError_t call(const char* name, Act&& act) {
  std::vector<std::vector<Node>> dropped;
  const Unseen unseen;
  World& all = world();
  Lock hold(all.mutex);
  cudaError_t status = cudaSuccess;
  try {
    all.enter(name);
    status = act(all, hold);
  } catch (const Refusal& refusal) {
    status = refusal.status;
  }
  std::swap(dropped, all.dropped);
  return all.leave(status);
}

}  // namespace sluice::test::sim
