#pragma once

#include <cstdint>
#include <stop_token>

#include <sluice/engine/access.h>
#include <sluice/engine/device.h>
#include <sluice/engine/task_name.h>

namespace sluice {

/// Classes of urgency; a worker does not start a lower class while a higher one has been ready for long.
enum class Priority : std::uint8_t { urgent, high, normal, background };

/// What a task does when something it reads failed: be skipped and pass the failure on, or run all the same.
enum class OnFailedInput : std::uint8_t { skip, run };

/// What a CPU body's arithmetic does with denormals, numbers so near zero that a normal float or double cannot hold
/// them. keep: whatever the thread that runs it does, by default what IEEE 754 says, at some hundred clock ticks each.
/// flush: reads and writes them as zero (x86: FTZ and DAZ; AArch64: FZ).
enum class Denormals : std::uint8_t { keep, flush };

/// Which of a GPU's streams a task belongs on; the engine chooses the stream itself. copy_in, copy_out: between host
/// and GPU, one stream a direction. copy_peer: from another GPU, so that those two go on beside it.
enum class StreamKind : std::uint8_t { compute, copy_in, copy_out, copy_peer, collective };

/// What a task is, apart from its body. Written with designated initialisers:
/// `{.name = "axpy", .device = gpu(0), .access = {read(x), write(y)}}`.
struct Task {
  TaskName name = {};
  Device device = cpu();
  /// Every Var the body touches. Naming a Var twice is allowed; the stronger mode wins.
  AccessList access = {};
  Priority priority = Priority::normal;
  OnFailedInput on_failed_input = OnFailedInput::skip;
  /// Once a stop is requested, the body is not begun (its Vars then hold Cancelled) and a running one is told by
  /// Queue::stop_requested(): one std::stop_source is a scope of tasks. Tasks that a body pushes inherit its token.
  std::stop_token stop = {};
  StreamKind stream = StreamKind::compute;
  /// CPU: how many threads a library inside the body (OpenMP and its like) would use. The engine rests as many
  /// workers meanwhile; Queue::threads() says how many were granted.
  int threads = 1;
  /// CPU: flush: while the body runs, also where it is left by an exception, its thread flushes denormals; so do those
  /// that help its parallel_for, and teams of OpenMP where `threads` asks for one. All operators on float32 and
  /// smaller types say so. EngineOptions::denormals may forbid it.
  Denormals denormals = Denormals::keep;
  /// GPU: the body may run more than once (graph capture), so it has no host side effects.
  bool capturable = false;
  /// GPU: the body uses the legacy default stream; it is fenced on both sides.
  bool legacy_stream = false;
  /// Estimates of the memory that the body reads and writes, in bytes, and of its arithmetic operations: a trace shows
  /// what rate they make (TraceEvent::bytes, work). 0: not known. Nothing is scheduled by them.
  std::uint64_t bytes = 0;
  std::uint64_t work = 0;
};

}  // namespace sluice
