#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/engine/executor.h>
#include <sluice/engine/export.h>
#include <sluice/engine/task.h>

namespace sluice {

/// pool: CPU tasks run on the workers. serial: the pushing thread runs everything, in push order, before the outermost
/// push returns. For tests: chaos runs them on the threads that push and wait, in an order drawn from
/// EngineOptions::chaos_seed, the same for the same seed if one thread pushes; chaos_pool makes workers dawdle and
/// stray.
enum class CpuMode : std::uint8_t { pool, serial, chaos, chaos_pool };

/// stream: GPU tasks are enqueued on CUDA streams, ordered by events, never by the host. serial: the host waits for
/// each task.
enum class GpuMode : std::uint8_t { stream, serial };

/// batch: while GPU tasks come quickly, those that say `capturable` are gathered and launched as CUDA graphs. direct:
/// each by itself.
enum class LaunchMode : std::uint8_t { batch, direct };

/// When errors of kernels are found. end: at a wait. each: the host waits for each task, so that the error is that
/// task's.
enum class GpuCheck : std::uint8_t { end, each };

/// The enumerator's name, as command lines and the environment have it: "chaos-pool" of CpuMode::chaos_pool. "unknown"
/// of a value that has none.
SLUICE_API const char* to_string(CpuMode mode) noexcept;
SLUICE_API const char* to_string(GpuMode mode) noexcept;
SLUICE_API const char* to_string(LaunchMode mode) noexcept;
SLUICE_API const char* to_string(GpuCheck check) noexcept;
SLUICE_API const char* to_string(Denormals denormals) noexcept;

/// Reads what to_string() writes. Throws ValueError on anything else, naming what is accepted.
SLUICE_API CpuMode parse_cpu_mode(std::string_view text);
SLUICE_API GpuMode parse_gpu_mode(std::string_view text);
SLUICE_API LaunchMode parse_launch_mode(std::string_view text);
SLUICE_API GpuCheck parse_gpu_check(std::string_view text);
SLUICE_API Denormals parse_denormals(std::string_view text);

/// How an engine works: `Engine engine({.workers = 2, .cpu_policy = CpuMode::serial})`.
struct EngineOptions {
  /// CPU workers; 0 = as many as the process may use.
  int workers = 0;
  /// Where CPU tasks run, and when.
  CpuMode cpu_policy = CpuMode::pool;
  /// How GPU tasks are ordered.
  GpuMode gpu_policy = GpuMode::stream;
  /// How GPU tasks are given to the GPU. If not set, SLUICE_LAUNCH (batch or direct) in the environment decides,
  /// otherwise batch.
  std::optional<LaunchMode> launch = {};
  /// When errors of kernels are found.
  GpuCheck gpu_check = GpuCheck::end;
  /// Of the two chaos policies, which issue GPU tasks late too, in any order and on any stream.
  std::uint64_t chaos_seed = 1;
  /// flush: tasks that ask for it (Task::denormals), which all operators do, read and write denormals as zero; keep:
  /// all compute as the thread that made the engine does. If not set, SLUICE_DENORMALS in the environment decides,
  /// otherwise flush. The same holds for every number of workers. Kernels of GPUs are compiled to flush those of
  /// float32, whatever is said here, and keep those of float64, as operators on a CPU do where that thread does.
  /// Copies, fills and files keep denormals as they are.
  std::optional<Denormals> denormals = {};
  /// Seed of the engine's random number generator.
  std::uint64_t seed = 0;
  /// Names the worker threads, with a number behind it.
  std::string name = "sluice";
  /// Cores for the workers, by the system's numbers, one each, in turn; empty: the system places them.
  std::vector<int> cores = {};
  /// Back-pressure: with so many tasks pushed and not finished, a push from outside tasks rests until an eighth of
  /// them has gone (an attached thread works meanwhile). It rests in vain where what the others wait for is in its
  /// hands, so it goes beyond the limit by as many again (65536 at least) for each 10 ms in which no task finished and
  /// no thread that runs bodies used its core, and for each 2 s of one long body. While bodies take some hundred
  /// nanoseconds, pushes also keep within 2048 tasks of what has run, resting at most some 30 us every 64 pushes, so
  /// that tasks stay in the cache. 0: neither.
  std::uint64_t max_live_tasks = 65536;
  /// The same for bytes in flight: host memory, pinned or not, that nobody but unfinished tasks holds any more (arrays
  /// that the program has dropped, of a loop that pushes ahead of what runs). A push from outside tasks rests while
  /// there is more, until there is an eighth less; it goes beyond the limit, by as much again, where resting is in
  /// vain as above, or there are fewer tasks than workers, and rests no longer than 10 s at a time. What the program
  /// still holds does not count, its tape and the closures of its tasks included, nor do arrays below 1 KiB. 0: no
  /// limit. Not given: SLUICE_MAX_BYTES_IN_FLIGHT in the environment (like 64M), else 32 MiB for each worker, but no
  /// more than 1/256 of the memory that the process may use (32 MiB at least).
  std::optional<std::uint64_t> max_bytes_in_flight = {};
  /// The same for each GPU's memory: of tasks that have not been given to the GPU yet. Not given:
  /// SLUICE_MAX_GPU_BYTES_IN_FLIGHT in the environment, else 1/64 of the GPU's memory, 64 MiB at least.
  std::optional<std::uint64_t> max_gpu_bytes_in_flight = {};
  /// When the engine stops, and for the default engine when the process ends, one message on standard error says how
  /// many failures no wait has told of, and which was the first. Forgiven ones and Cancelled do not count.
  bool report_failures = true;
  /// After so many reads without a write between, a Var counts its readers in several places, so that threads that
  /// only read it do not meet; the next write ends that. 0: only frozen Vars do.
  int hot_reads = 256;
  /// If set, CPU tasks run on the application's own threads: `{.executor = run_on(io_context)}`, see asio.h. Then
  /// `workers` and `cpu_policy` stay as they are.
  ExternalExecutor executor = {};
};

}  // namespace sluice
