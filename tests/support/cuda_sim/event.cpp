// Events.
#include "tests/support/cuda_sim/world.h"

using namespace sluice::test::sim;

namespace {

cudaError_t create(World& all, cudaEvent_t* made, unsigned flags) {
  const int device = all.current_device();
  constexpr unsigned k_known = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
  if (made == nullptr || (flags & ~k_known) != 0)
    return cudaErrorInvalidValue;
  CUevent_st* const event = all.events.make();
  event->device = device;
  event->flags = flags;
  *made = event;
  return cudaSuccess;
}

cudaError_t record(World& all, cudaEvent_t handle, cudaStream_t where, unsigned flags) {
  CUevent_st& event = all.event(handle);
  CUstream_st& stream = all.stream(where);
  if (event.device != stream.device)
    return cudaErrorInvalidResourceHandle;
  if ((flags & ~unsigned{cudaEventRecordExternal}) != 0)
    return cudaErrorInvalidValue;
  if (all.capture_of(stream) == nullptr) {
    event.latest = all.add(stream, {.kind = Kind::record});
    event.capture.reset();
  } else if (flags == cudaEventRecordExternal) {
    all.add_node(stream, {.kind = Kind::record, .event = handle});
  } else {
    event.capture = stream.capture;
    event.captured = stream.frontier;
  }
  return cudaSuccess;
}

// A wait that meets a capture, of the stream or of the event.
cudaError_t wait_captured(CUstream_st& stream, Capture* capture, CUevent_st& event) {
  if (event.capture == nullptr || event.capture->ended) {
    if (capture != nullptr)
      World::invalidate(*capture);
    return event.capture == nullptr ? cudaErrorStreamCaptureIsolation : cudaErrorCapturedEvent;
  }
  if (event.capture->invalid)
    return cudaErrorStreamCaptureInvalidated;
  if (capture == nullptr) {  // the stream joins
    if (stream.owned_by_device) {
      World::invalidate(*event.capture);
      return cudaErrorStreamCaptureImplicit;
    }
    stream.capture = event.capture;
    stream.frontier = event.captured;
    event.capture->members.push_back(&stream);
    return cudaSuccess;
  }
  if (event.capture != stream.capture) {
    World::invalidate(*event.capture);
    World::invalidate(*capture);
    return cudaErrorStreamCaptureMerge;
  }
  World::merge(stream.frontier, event.captured);
  return cudaSuccess;
}

// Throws for an event that cannot be asked now.
void check_askable(World& all, CUevent_st& event) {
  all.check_unsafe();
  if (event.capture == nullptr)
    return;
  if (!event.capture->ended)
    World::invalidate(*event.capture);
  throw Refusal{cudaErrorCapturedEvent};
}

}  // namespace

cudaError_t cudaEventCreate(cudaEvent_t* made) {
  return call("cudaEventCreate", [&](World& all, Lock&) { return create(all, made, cudaEventDefault); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* made, unsigned flags) {
  return call("cudaEventCreateWithFlags", [&](World& all, Lock&) { return create(all, made, flags); });
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return call("cudaEventDestroy", [&](World& all, Lock&) {
    CUevent_st& event = all.alive(all.events, handle, "an event");
    event.alive = false;
    event.latest.reset();
    event.capture.reset();
    all.check_device(event.device);
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call("cudaEventRecord", [&](World& all, Lock&) { return record(all, event, stream, cudaEventRecordDefault); });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return call("cudaEventRecordWithFlags", [&](World& all, Lock&) { return record(all, event, stream, flags); });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t waited, unsigned flags) {
  return call("cudaStreamWaitEvent", [&](World& all, Lock&) {
    CUstream_st& stream = all.stream(handle);
    CUevent_st& event = all.event(waited);
    if ((flags & ~unsigned{cudaEventWaitExternal}) != 0)
      return cudaErrorInvalidValue;
    Capture* const capture = all.capture_of(stream);
    if (all.waits_ignored)
      return cudaSuccess;
    if (capture != nullptr && flags == cudaEventWaitExternal) {
      all.add_node(stream, {.kind = Kind::wait, .event = waited});
      return cudaSuccess;
    }
    if (capture != nullptr || event.capture != nullptr)
      return wait_captured(stream, capture, event);
    if (event.latest != nullptr)  // as it is now: a later record is another matter
      all.add(stream, {.kind = Kind::wait}, {event.latest});
    return cudaSuccess;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return call("cudaEventQuery", [&](World& all, Lock&) {
    CUevent_st& event = all.event(handle);
    check_askable(all, event);
    if (event.latest == nullptr)
      return cudaSuccess;
    if (!event.latest->done)
      return cudaErrorNotReady;
    event.latest->ended.follow();
    return cudaSuccess;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return call("cudaEventSynchronize", [&](World& all, Lock& hold) {
    CUevent_st& event = all.event(handle);
    check_askable(all, event);
    all.wait(hold, OpRef(event.latest));
    return cudaSuccess;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  return call("cudaEventElapsedTime", [&](World& all, Lock&) {
    CUevent_st& begin = all.event(from);
    CUevent_st& end = all.event(to);
    check_askable(all, begin);
    check_askable(all, end);
    if (begin.device != end.device || ((begin.flags | end.flags) & cudaEventDisableTiming) != 0)
      return cudaErrorInvalidResourceHandle;
    if (begin.latest == nullptr || end.latest == nullptr)
      return cudaErrorInvalidResourceHandle;
    if (!begin.latest->done || !end.latest->done)
      return cudaErrorNotReady;
    *milliseconds = std::chrono::duration<float, std::milli>(end.latest->ended_at - begin.latest->ended_at).count();
    return cudaSuccess;
  });
}
