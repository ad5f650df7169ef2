#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include <sluice/engine/export.h>

namespace sluice {

/// Counts of what an engine has done so far. Read while tasks run, they are some tasks apart from one another; after
/// wait_all() `pushed == retired == run + skipped`.
struct EngineCounters {
  std::uint64_t pushed = 0;
  std::uint64_t retired = 0;
  std::uint64_t run = 0;      // retired tasks that reached their body, well or not
  std::uint64_t skipped = 0;  // retired without: cancelled, or an input had failed
  std::uint64_t failed = 0;   // of `run`: threw
  std::uint64_t waits = 0;    // times that a host thread had to wait, for tasks or for a GPU

  // Memory that unfinished tasks alone hold: see EngineOptions::max_bytes_in_flight. It is counted by threads, which
  // tell each other of less than 64 KiB now and then only.
  std::uint64_t bytes_in_flight = 0;           // of host memory, now
  std::uint64_t peak_bytes_in_flight = 0;      // the most that was seen
  std::uint64_t gpu_bytes_in_flight = 0;       // of the GPU that has most, now
  std::uint64_t peak_gpu_bytes_in_flight = 0;  // the most that was seen on one
  std::uint64_t rests = 0;                     // times that a push rested because of it

  // The pool of CPU workers
  std::uint64_t run_next = 0;    // tasks run at once by the worker that made them ready
  std::uint64_t stolen = 0;      // tasks that a worker took from another one
  std::uint64_t overflowed = 0;  // tasks that found their thread's ring full
  std::uint64_t parked = 0;      // times that a worker went to sleep
  std::uint64_t run_ahead = 0;   // tasks run by a body that waited for them

  // GPUs
  std::uint64_t stream_waits = 0;  // cudaStreamWaitEvent calls
  std::uint64_t batches = 0;       // CUDA graphs launched
  std::uint64_t batched = 0;       // tasks in them
  std::uint64_t graphs_made = 0;   // of `batches`: for which an executable had to be made
  std::uint64_t reissued = 0;      // tasks that were captured in vain and launched by themselves
};

/// "pushed 12, retired 12, run 10, ..." in one line, every counter with its name.
SLUICE_API std::string to_string(const EngineCounters& counters);
SLUICE_API std::ostream& operator<<(std::ostream& out, const EngineCounters& counters);

}  // namespace sluice
