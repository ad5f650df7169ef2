#include <string>
#include <thread>
#include <utility>

#include <sluice/engine/cuda/gpu.h>
#include <sluice/engine/cuda/policy_stream.h>
#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/named_range.h>

namespace sluice::detail {

using cuda::cuda_check;

namespace {

struct CaptureGivenUp {};

}  // namespace

void BodyCalls::order_before_enqueue() noexcept {
  if (call_.ordered)
    return;
  call_.ordered = true;
  try {
    if (call_.captured)
      return gpu_.batches.begin_step(*call_.logical, *call_.needs);
    gpu_.slots.order(*call_.slot, *call_.needs);
    call_.input = gpu_.direct.failed_meanwhile(*call_.task);
    if (call_.input != nullptr)
      std::rethrow_exception(call_.input->exception);
    if (call_.task->traced) [[unlikely]]
      call_.span = gpu_.policy.trace().before_body(gpu_.slots.traced(*call_.slot), *call_.task);
  } catch (...) {
    abandoned_ = call_.captured;
    call_.failure = std::current_exception();
  }
}

void BodyCalls::order_or_throw() {
  order_before_enqueue();
  if (call_.failure != nullptr)
    std::rethrow_exception(call_.failure);
}

void BodyCalls::call_body(const BodyCall& call, Closure& body) {
  TaskNode* const task = call.task;
  Work here = work_of(gpu_.core, task);
  here.gpu_body = call.name;
  const WorkScope work(this_thread(), here);
  const NamedRange range(NamedRange::k_body, task == nullptr ? "launched again" : task->name);
  try {
    body(Queue(
        *gpu_.core.facade(), gpu_.device, 1, call.captured ? &call.logical->captured : &call.logical->direct, task));
  } catch (...) {
    cudaGetLastError();  // which CUDA keeps, if it was its error, for the next task to find
    throw;
  }
  // Launches report nothing themselves; a bad one is found here, so that it blames this task and no other. What other
  // calls of a body have left that enqueues nothing is nobody's.
  keep_error();
  if (call_.ordered)
    cuda_check(call_.error, "kernel launch");
}

// The legacy stream comes after the slot's, and the slot's after it, whatever becomes of the body.
void BodyCalls::call_among_legacy(const BodyCall& call, Closure& body) {
  const cudaStream_t native = call.slot->stream->native();
  order_or_throw();
  cuda::order_streams(native, cudaStreamLegacy);
  try {
    call_body(call, body);
  } catch (...) {
    cuda::order_streams(cudaStreamLegacy, native);
    throw;
  }
  cuda::order_streams(cudaStreamLegacy, native);
}

void BodyCalls::keep_error() noexcept {
  const cudaError_t left = cudaGetLastError();
  if (call_.error == cudaSuccess)
    call_.error = left;
}

// A task that has enqueued nothing is done when the one task before it is; if its stream could not be made to wait, it
// has no place: its Vars still name what it would have waited for.
bool BodyCalls::run(const BodyCall& call, FailureRef& failure) {
  TaskNode* const task = call.task;
  const BodyCall before = std::exchange(call_, call);
  abandoned_ = false;
  try {
    if (task->legacy_stream)
      call_among_legacy(call, task->body);
    else
      call_body(call, task->body);
  } catch (...) {
    failure = gpu_.loss.caught(gpu_.core.record_of(task));
  }
  if (call.needs->size() > 1)
    order_before_enqueue();
  const BodyCall after = std::exchange(call_, before);
  if (after.span != nullptr) [[unlikely]]
    gpu_.policy.trace().after_body(gpu_.slots.traced(*call.slot), *after.span);
  if (after.input != nullptr) {
    failure = after.input;
  } else if (after.failure != nullptr) {
    try {
      std::rethrow_exception(after.failure);
    } catch (...) {
      failure = gpu_.loss.caught(gpu_.core.record_of(task));
    }
  }
  const bool out_of_order = !after.captured && after.failure != nullptr;
  if ((after.ordered && !out_of_order) || (after.captured && abandoned_))
    return true;
  task->body.reset();
  const bool has_place = !out_of_order && !call.needs->empty();
  gpu_.core.finish(task, std::move(failure), after.input == nullptr, has_place ? *call.needs->begin() : Position());
  return false;
}

void BodyCalls::run_again(const BodyCall& call, Closure& body) {
  struct Restore {
    BodyCall& call;
    const BodyCall before;
    ~Restore() { call = before; }
  } const restore{call_, std::exchange(call_, call)};
  call_body(call_, body);
}

void BodyCalls::give_up_capture() {
  abandoned_ = true;
  throw CaptureGivenUp();
}

// While this thread waits for another device, that one may be waiting for a batch of this one. Tasks that wait there to
// be begun are left alone: their bodies might wait for the one that this thread is in.
void BodyCalls::launch(const LogicalStream& logical, std::uint64_t sequence) {
  const bool here = &logical.gpu() == &gpu_;
  for (;;) {
    if (!here) {
      logical.gpu().issuer.nudge(true);
      if (logical.launched() >= sequence)
        return;
      std::this_thread::yield();
    }
    if (here || gpu_.issuer.take_launch_wanted()) {
      if (call_.captured)
        give_up_capture();
      gpu_.batches.launch();
      gpu_.slots.mark_all();
    }
    if (here)
      return;
  }
}

Stream& BodyCalls::stream() const noexcept {
  return call_.captured ? call_.logical->captured : call_.logical->direct;
}

ErrorWord* BodyCalls::error_word(Position at) {
  Reports& reports = gpu_.policy.reports();
  if (reports.is_crowded()) [[unlikely]] {
    keep_error();
    reports.relieve();
  }
  if (const Batch::Step* step = call_.step)
    return reports.word_for({at, step->name, step->site, step->push_number, step->uses});
  const TaskNode& task = *call_.task;
  return reports.word_for({at, task.name, task.site(), task.push_number, gpu_.core.late().uses_of(task)});
}

void BodyCalls::wait_for_own() {
  const cuda::DeviceScope on(gpu_.device.index);
  try {
    call_.slot->stream->wait_until_idle();
  } catch (...) {
    gpu_.loss.rethrow_if_lost();
  }
}

void BodyCalls::wait_for(const PositionSet& all, bool captured) {
  PositionSet positions;  // the rest of the task's own stream comes before it anyway, or is itself
  for (Position position : all) {
    if (position.stream() != call_.logical->number())
      positions.add(position);
  }
  for (Position position : positions) {
    const LogicalStream& logical = gpu_.logical.of(position);
    if (logical.launched() >= position.sequence())
      continue;
    if (logical.device() != gpu_.device) {
      launch(logical, position.sequence());
    } else if (gpu_.batches.slot_of(position) == nullptr) {
      gpu_.slots.mark_all();
    } else if (!captured) {
      gpu_.batches.launch();
    }
  }
  for (Position position : positions) {
    const bool there = gpu_.logical.of(position).launched() >= position.sequence();
    require<ValueError>(there || (captured && gpu_.batches.slot_of(position) != nullptr), [] {
      return std::string("wait_for: a body that is called late waits for what comes after it");
    });
  }
  if (captured)
    gpu_.batches.add_needs(*call_.logical, positions);
  else
    call_.slot->stream->wait_for(positions);
}

}  // namespace sluice::detail
