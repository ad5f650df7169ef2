#pragma once

// What stands behind CUDA's handles. All of it is guarded by the world's mutex.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <cuda_runtime_api.h>

#include "tests/support/cuda_sim/order.h"

namespace sluice::test::sim {

enum class Kind : std::uint8_t { kernel, copy, fill, host, record, wait, graph, empty, free, branch };

using Work = std::shared_ptr<const std::function<void()>>;

/// Memory that a copy or a fill will touch.
struct Range {
  const char* first = nullptr;
  std::size_t bytes = 0;
};

/// One piece of work: in a stream, or a node of a graph that was launched.
struct Op {
  Kind kind = Kind::empty;
  int device = 0;
  Work work;                               // may be null
  std::vector<Range> touches;              // of copies and fills
  std::vector<std::shared_ptr<Op>> needs;  // besides the order of its stream
  std::vector<std::shared_ptr<Op>> parts;  // of a launched graph
  std::size_t parts_left = 0;
  bool has_to_wait = false;  // a kernel that may begin before what it comes after has ended
  bool begun = false;
  bool opened = false;  // of a graph: its parts may begin
  bool done = false;
  std::chrono::steady_clock::time_point ended_at{};
  Point enqueued, ended;
};
using OpRef = std::shared_ptr<Op>;

/// What a conditional node has: the value that kernels set, and a graph for what is not zero and one for zero.
struct Branch {
  std::atomic<unsigned> value{0};
  std::vector<cudaGraph_t> sides;
  bool used = false;  // by a node
};
using BranchRef = std::shared_ptr<Branch>;

/// A node of a graph, and what an executable graph keeps of it (then without its graph).
struct Node {
  Kind kind = Kind::empty;
  int device = 0;
  Work work = {};
  std::vector<Range> touches = {};
  std::vector<std::size_t> before = {};  // indices of the nodes that it comes after, ascending
  std::vector<std::size_t> early = {};   // those of them that it may begin before, and wait for itself
  cudaEvent_t event = nullptr;           // of event nodes
  BranchRef branch = {};                 // of conditional nodes
  unsigned cluster = 0;                  // blocks of a kernel's clusters along x; 0: it was launched without
};

/// A capture under way.
struct Capture {
  unsigned long long id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  cudaStream_t origin = nullptr;
  cudaGraph_t graph = nullptr;
  bool invalid = false;
  bool ended = false;
  std::vector<cudaStream_t> members;
  bool of_side = false;  // its graph is a side of a branch
};
using CaptureRef = std::shared_ptr<Capture>;

}  // namespace sluice::test::sim

struct CUgraphNode_st {
  sluice::test::sim::Node node;
  cudaGraph_t graph = nullptr;
  std::size_t index = 0;
};

struct CUgraph_st {
  bool alive = true;
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
  std::vector<sluice::test::sim::BranchRef> branches;  // handles made for it
  bool is_side = false;                                // of a branch, whose graph it goes with
  int touched = 0;
};

struct CUgraphExec_st {
  bool alive = true;
  int device = 0;
  std::vector<sluice::test::sim::Node> nodes;
  sluice::test::sim::OpRef last;  // launches of one executable graph follow each other
  int touched = 0;
};

struct CUstream_st {
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  unsigned long long id = 0;
  bool alive = true;
  bool owned_by_device = false;  // a default stream
  bool held = false;
  std::uint64_t asleep_until = 0;
  std::deque<sluice::test::sim::OpRef> queue;
  sluice::test::sim::OpRef last;      // the one enqueued last
  sluice::test::sim::OpRef previous;  // the one that ended last
  sluice::test::sim::CaptureRef capture;
  std::vector<cudaGraphNode_t> frontier;  // in a capture: what the next node comes after
  sluice::test::sim::Strand strand;
};

struct CUevent_st {
  int device = 0;
  unsigned flags = 0;
  bool alive = true;
  sluice::test::sim::OpRef latest;        // its latest record; null: never recorded
  sluice::test::sim::CaptureRef capture;  // the latest record was captured
  std::vector<cudaGraphNode_t> captured;
};

struct CUmemPoolHandle_st {
  int device = 0;
  bool alive = true;
  bool owned_by_device = false;
  std::uint64_t threshold = 0;
  std::uint64_t used = 0, used_high = 0;
  std::uint64_t reserved = 0, reserved_high = 0;
  int follow_events = 1, opportunistic = 1, internal_dependencies = 1;
};
