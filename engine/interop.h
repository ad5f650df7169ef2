#pragma once

// A door of its own: CUDA streams of other libraries beside the engine.
#include <sluice/engine/device.h>
#include <sluice/engine/engine.h>
#include <sluice/engine/export.h>
#include <sluice/engine/source_location.h>
#include <sluice/engine/task.h>

namespace sluice {

/// Whatever lies on `stream` now, a cudaStream_t of `device` that the engine knows nothing of, counts as a task with
/// these accesses: tasks pushed later that conflict with it come after that work. Nobody waits; the stream may be
/// destroyed as soon as this returns. Throws ValueError for a stream that is being captured, CudaError or OutOfMemory
/// if CUDA refuses it, and what Engine::push throws.
SLUICE_API TaskHandle import_stream(
    Engine& engine,
    Device device,
    void* stream,
    const AccessList& access,
    SourceLocation site = SourceLocation::current());

/// The other way: what the caller enqueues on `stream` from now on comes after all tasks pushed so far that conflict
/// with `access`. Blocks until those have been given to the GPU, or have run where they are CPU tasks, never for the
/// GPU (unless that is some hundred launches behind, when the engine launches no more). Give the Vars back with
/// import_stream() before tasks touch them again. Throws ValueError for a stream that is being captured, Deadlock
/// inside a task, Cancelled if the engine is stopped meanwhile, CudaError.
SLUICE_API void export_stream(
    Engine& engine,
    Device device,
    void* stream,
    const AccessList& access,
    SourceLocation site = SourceLocation::current());

}  // namespace sluice
