// A GPU body is called: what it depends on comes first, and what it may ask for meanwhile.
#include <sluice/engine/cuda/issuer.h>
#include <sluice/engine/cuda/policy_stream.h>
#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/named_range.h>

namespace sluice::detail {

using cuda::cuda_check;

TracedStream Issuer::traced_on(const Route& route) const noexcept {
  return {device_, route.lane->kind(), route.lane->number(), route.stream->native()};
}

void Issuer::touch() noexcept {
  if (call_.touched)
    return;
  call_.touched = true;
  try {
    if (!call_.captured) {
      order(*call_.route, *call_.needs);
      call_.input = failed_meanwhile(*call_.task);
      if (call_.input != nullptr)
        std::rethrow_exception(call_.input->exception);
      call_.span = policy_.trace().before_body(traced_on(*call_.route), *call_.task);
      return;
    }
    batch_.begin_step(*call_.lane, *call_.needs);
  } catch (...) {
    abandon_ = call_.captured;
    call_.failure = std::current_exception();
  }
}

void Issuer::touch_or_throw() {
  touch();
  if (call_.failure != nullptr)
    std::rethrow_exception(call_.failure);
}

void Issuer::call_body(const Call& call, Closure& body) {
  TaskNode* const task = call.task;
  Work here = work_of(core_, task);
  here.gpu_body = call.name;
  const WorkScope work(this_thread(), here);
  const NamedRange range(NamedRange::k_body, task == nullptr ? "launched again" : task->name);
  try {
    body(Queue(*core_.facade(), device_, 1, call.captured ? &call.lane->captured : &call.lane->direct, task));
  } catch (...) {
    cudaGetLastError();  // which CUDA keeps, if it was its error, for the next task to find
    throw;
  }
  // Launches report nothing themselves; a bad one is found here, so that it blames this task and no other. What other
  // calls of a body have left that enqueues nothing is nobody's.
  keep_error();
  if (call_.touched)
    cuda_check(call_.error, "kernel launch");
}

// The legacy stream comes after the route's, and the route's after it, whatever becomes of the body.
void Issuer::call_among_legacy(const Call& call, Closure& body) {
  const cudaStream_t native = call.route->stream->native();
  touch_or_throw();
  cuda::order_streams(native, cudaStreamLegacy);
  try {
    call_body(call, body);
  } catch (...) {
    cuda::order_streams(cudaStreamLegacy, native);
    throw;
  }
  cuda::order_streams(cudaStreamLegacy, native);
}

void Issuer::keep_error() noexcept {
  const cudaError_t left = cudaGetLastError();
  if (call_.error == cudaSuccess)
    call_.error = left;
}

// False if the task is over: it has enqueued nothing. Then it is done when the one task before it is; if its stream
// could not be made to wait, it has no place: its Vars still name what it would have waited for.
bool Issuer::run_body(const Call& call, FailureRef& failure) {
  TaskNode* const task = call.task;
  const Call before = std::exchange(call_, call);
  abandon_ = false;
  try {
    if (task->legacy_stream)
      call_among_legacy(call, task->body);
    else
      call_body(call, task->body);
  } catch (...) {
    failure = caught(core_.record_of(task));
  }
  if (call.needs->size() > 1)
    touch();
  const Call after = std::exchange(call_, before);
  policy_.trace().after(traced_on(*call.route), after.span);
  if (after.input != nullptr) {
    failure = after.input;
  } else if (after.failure != nullptr) {
    try {
      std::rethrow_exception(after.failure);
    } catch (...) {
      failure = caught(core_.record_of(task));
    }
  }
  const bool out_of_order = !after.captured && after.failure != nullptr;
  if ((after.touched && !out_of_order) || (after.captured && abandon_))
    return true;
  task->body.reset();
  const bool has_place = !out_of_order && !call.needs->empty();
  core_.finish(task, std::move(failure), after.input == nullptr, has_place ? *call.needs->begin() : Position());
  return false;
}

// While this thread waits for another device, that one may be waiting for a batch of this one. Tasks that wait there to
// be begun are left alone: their bodies might wait for the one that this thread is in.
void Issuer::await_far_launch(const Lane& lane, std::uint64_t sequence) {
  for (lane.issuer().nudge(true); lane.launched() < sequence; lane.issuer().nudge(true)) {
    std::this_thread::yield();
    {
      const std::lock_guard hold(lock_);
      if (!std::exchange(launch_wanted_, false))
        continue;
    }
    if (call_.captured)
      abandon_capture();
    launch_batch();
    mark_all();
  }
}

void Issuer::launch_in_body(const Lane& lane, std::uint64_t sequence) {
  if (&lane.issuer() != this)
    return await_far_launch(lane, sequence);
  if (call_.captured)
    abandon_capture();
  launch_batch();
  mark_all();
}

void Issuer::wait_for_own() {
  const cuda::DeviceScope on(device_.index);
  try {
    call_.route->stream->wait_until_idle();
  } catch (...) {
    rethrow_if_lost();
  }
}

void Issuer::wait_in_body(const PositionSet& all, bool captured) {
  PositionSet positions;  // the rest of the task's own lane comes before it anyway, or is itself
  for (Position position : all) {
    if (position.stream() != call_.lane->number())
      positions.add(position);
  }
  for (Position position : positions) {
    const Lane& lane = lanes_.at(position.stream());
    if (lane.launched() >= position.sequence())
      continue;
    if (lane.device() != device_) {
      await_far_launch(lane, position.sequence());
    } else if (batch_.step_of(position) < 0) {
      mark_all();
    } else if (!captured) {
      launch_batch();
    }
  }
  for (Position position : positions) {
    const bool there = lanes_.at(position.stream()).launched() >= position.sequence();
    require<ValueError>(there || (captured && batch_.step_of(position) >= 0), [] {
      return std::string("wait_for: a body that is called late waits for what comes after it");
    });
  }
  if (captured) {
    batch_.add_needs(*call_.lane, positions);
  } else {
    call_.route->stream->wait_for(positions);
  }
}

}  // namespace sluice::detail
