// A batch that cannot be a graph: what it held is launched by itself, in the order and at the places that it has.
#include <algorithm>

#include <sluice/engine/cuda/gpu.h>
#include <sluice/engine/cuda/policy_stream.h>
#include <sluice/engine/detail/core.h>

namespace sluice::detail {

namespace {

constexpr int k_tries = 3;  // of a wait without which nothing may go on

}  // namespace

// The body that was not captured after all may have given memory back with the place that it was to have.
void Batches::void_place(LogicalStream& logical, const TaskNode& task) noexcept {
  const Position position = logical.issue(task);
  slot_->stream->learn(logical, position.sequence());
  gpu_.slots.mark(*slot_, logical, position.sequence(), gpu_.slots.record(*slot_));
}

// Bodies may have waited for more than their tasks need, and given back memory which is safe only then.
void Batches::launch_one_by_one() noexcept {
  batch_.close();
  order_or_await(*slot_, batch_.outside());
  traced_.clear();
  gpu_.rules.forget_harmless();  // one of those was not
  open_steps_.store(0, std::memory_order_relaxed);
  for (Batch::Step& step : batch_.take())
    launch_again(step);
}

// Where the GPU cannot be made to wait, the host does: what has a place comes after what it needs. A device of which
// that cannot be learnt again and again is taken for lost, as the need's already is if it is another one.
void Batches::await(Position need) noexcept {
  LogicalStream& logical = gpu_.logical.of(need);
  DeviceLoss& there = logical.gpu().loss;
  FailureRef failure;
  for (int tries = 0; tries < k_tries && logical.done() < need.sequence() && !there.lost(); ++tries) {
    try {
      gpu_.policy.synchronize(logical, need.sequence());
      return;
    } catch (...) {
      failure = gpu_.loss.caught("a wait");
    }
  }
  if (failure != nullptr && !gpu_.loss.lost() && !there.lost())
    gpu_.loss.declare(failure);
}

void Batches::order_or_await(StreamSlot& slot, const PositionSet& needs) noexcept {
  try {
    gpu_.slots.order(slot, needs);
  } catch (...) {
    const FailureRef seen = gpu_.loss.caught("a batch");  // which may be that the device is lost
    gpu_.slots.mark_all();
    std::for_each(needs.begin(), needs.end(), [this](Position need) { await(need); });
  }
}

// The task has finished, and its Vars say that all is well. Where nobody can be told otherwise, nothing of the device
// is to be believed.
void Batches::fail_late(Batch::Step& step, const FailureRef& failure, bool ran) noexcept try {
  step.failed = true;
  gpu_.core.fail_late({step.logical->number(), step.sequence}, failure, ran, step.uses);
} catch (...) {
  gpu_.loss.declare(failure);
}

// True if what the task reads has failed since.
bool Batches::skip_late(Batch::Step& step) noexcept {
  const FailureRef failure = step.runs_anyway ? nullptr : gpu_.core.late().of_inputs(step.uses);
  if (failure != nullptr)
    fail_late(step, failure, false);
  return failure != nullptr;
}

void Batches::launch_again(Batch::Step& step) noexcept {
  LogicalStream& logical = *step.logical;
  StreamSlot& slot = gpu_.slots.with(logical.direct.enqueued_on());
  logical.direct.take_place({logical.number(), step.sequence});
  order_or_await(slot, step.needs);
  try {
    const cuda::DeviceScope on(gpu_.device.index);  // a thread that only has the batch launched may be on another one
    if (!step.failed && !gpu_.loss.lost() && !skip_late(step))
      gpu_.bodies.run_again(
          {.slot = &slot, .logical = &logical, .needs = &step.needs, .name = step.name, .ordered = true, .step = &step},
          step.body);
    gpu_.counts.reissued.fetch_add(1, std::memory_order_relaxed);
  } catch (...) {
    fail_late(step, gpu_.loss.caught(step.name, step.site, step.push_number), true);
  }
  logical.direct.take_place({});
  step.body.reset();
  slot.stream->learn(logical, step.sequence);
  gpu_.slots.mark(slot, logical, step.sequence, gpu_.slots.record(slot));
}

}  // namespace sluice::detail
