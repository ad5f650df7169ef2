#pragma once

// A CUDA runtime without a GPU, for tests of how the engine orders GPU work. The functions of cuda_runtime_api.h are
// defined here and linked instead of libcudart; "kernels" are host functions on a few executor threads. What runs next
// is drawn at random among all that CUDA would allow, so that an order which nobody asked for does not come about by
// itself. Under ThreadSanitizer, work is ordered by streams, events, graphs and synchronising calls alone: a missing
// wait is a data race there even if the numbers happen to come out right.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include <cuda_runtime_api.h>

namespace sluice::test::sim {

struct Options {
  int devices = 1;
  /// Of every choice. Threads of the host come and go as they like, so that a seed does not fix the whole order.
  std::uint64_t seed = 1;
  /// Threads that run work; work of one stream, and of graph nodes that wait for each other, still runs in order.
  int executors = 4;
  /// Of each device, in bytes.
  std::size_t memory = std::size_t{1} << 30;
  /// Nothing runs until run_one() or run_all() is called.
  bool manual = false;
  /// How long a stream may be passed over, in picks; 0: never.
  int drowsiness = 24;
};

/// Begins anew: waits for what runs, drops what is queued, and forgets all handles, counts, faults and violations. To
/// be called while nobody uses the runtime.
void reset(const Options& options = {});

// -- Work -------------------------------------------------------------------------------------------------------------

/// A kernel launch. On a capturing stream it becomes a graph node, which may run many times. `body` makes no CUDA
/// calls. `cluster`: as a node's attribute tells it.
cudaError_t launch(cudaStream_t stream, std::function<void()> body, unsigned cluster = 0);
/// Called in a kernel's body: an illegal address. The device of the kernel is lost when the body returns.
void illegal_address() noexcept;
/// Called in a kernel's body: it has waited for all that it comes after, in the way of programmatic dependent launch.
/// Kernels never begin early here; one that may and does not call this is a violation.
void kernel_waits() noexcept;

// -- Who runs when ----------------------------------------------------------------------------------------------------

/// Nothing more of `stream` begins until release(); what runs goes on.
void hold(cudaStream_t stream);
void release(cudaStream_t stream);
/// Runs one piece of work that may run now, on this thread. False if there is none. In manual mode.
bool run_one();
/// run_one() until there is none; how many there were.
int run_all();
/// Manual mode, from now on or no longer.
void set_manual(bool manual);
/// True if nothing is queued or running.
bool idle();
/// The most kernels that ran at the same time.
int most_at_once();

// -- Faults -----------------------------------------------------------------------------------------------------------

/// The n-th call from now (1: the next) does nothing but return `error`. Calls that only tell of errors don't count.
void fail_nth(int n, cudaError_t error);
/// The n-th call of that name from now does.
void fail_nth(const std::string& name, int n, cudaError_t error);
/// All calls of that name do, until another is named; "": none.
void keep_failing(const std::string& name, cudaError_t error = cudaErrorUnknown);
/// The name of the call that failed so; "" if none has yet.
std::string failed_call();
/// cudaStreamWaitEvent reports success and does nothing.
void ignore_event_waits(bool ignored);
/// What a block has of shared memory at most, on every device.
void set_shared_memory(int bytes);
/// Every call on that device fails with `error` from now on; what is queued there does not run.
void lose_device(int device, cudaError_t error = cudaErrorIllegalAddress);

// -- What happened ----------------------------------------------------------------------------------------------------

/// Calls so far by name.
std::map<std::string, int> calls();
int calls(const std::string& name);
/// Calls for which the host has to wait, or might have to, whatever their name.
int blocking_calls();
void clear_calls();
/// What was done that CUDA does not define: a destroyed handle used, memory freed under a pending copy, CUDA called by
/// a kernel. One line each; "" if nothing.
std::string violations();
/// The same, and forgets them.
std::string take_violations();
/// Streams, events, graphs and memory that were made and not destroyed, by kind; "" if none.
std::string leftovers();

}  // namespace sluice::test::sim
