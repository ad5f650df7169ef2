#pragma once

#include <functional>
#include <span>
#include <vector>

#include <sluice/engine/engine.h>
#include <sluice/operator/operator.h>

namespace sluice {

/// The arrays that a task of the program's own reads, and those that it writes, whose old values it may read too.
struct TaskArrays {
  std::vector<NDArray> reads = {};
  std::vector<NDArray> writes = {};
};

/// What the body of such a task sees: its arrays in the order of TaskArrays, as they lie (TensorView::strides).
struct ArrayCall {
  std::span<const TensorView> reads;
  std::span<const TensorView> writes;
  Queue queue;  // on a GPU the body enqueues on queue.stream() and returns
};

/// Pushes a task of the program's own on arrays: behind all that was pushed on them, before all that will be (MXNet's
/// Engine::PushAsync with the arrays' var()). It runs on their device and in their engine; `task` says all else, Vars
/// of the program's own among it. What the body throws is the error of the arrays that it writes. Returns at once. The
/// tape and programs that are traced do not see it: an autograd::Function or an Operator of one's own stands in these.
/// Throws ValueError for no array, undefined ones, those of several engines, those without memory (a value of a program
/// that is traced), and for written ones that are read-only, name an element twice or are copies that index arrays or a
/// mask made (x[mask]; a .copy() of it can be written); DeviceError for several devices;
/// AutogradError for writes that the tape would miss, as in place; what Engine::push() throws.
SLUICE_API TaskHandle push_task(
    Task task,
    const TaskArrays& arrays,
    std::function<void(const ArrayCall&)> body,
    SourceLocation site = SourceLocation::current());

}  // namespace sluice
