// Streams and launches.
#include <algorithm>

#include "tests/support/cuda_sim/world.h"

using namespace sluice::test::sim;

namespace sluice::test::sim {

OpRef World::add(CUstream_st& stream, Node&& node, std::vector<OpRef> needs) {
  if (capture_of(stream) != nullptr) {
    add_node(stream, std::move(node));
    return nullptr;
  }
  auto op = std::make_shared<Op>();
  op->kind = node.kind;
  op->device = stream.device;
  op->work = std::move(node.work);
  op->touches = std::move(node.touches);
  op->needs = std::move(needs);
  enqueue(stream, op);
  return op;
}

cudaError_t launch(cudaStream_t handle, std::function<void()> body, unsigned cluster) {
  Node node{
      .kind = Kind::kernel, .work = std::make_shared<const std::function<void()>>(std::move(body)), .cluster = cluster};
  return call("cudaLaunchKernel", [&](World& all, Lock&) {
    CUstream_st& stream = all.stream(handle);
    if (stream.device != all.current_device())
      return cudaErrorInvalidResourceHandle;
    all.add(stream, std::move(node));
    return cudaSuccess;
  });
}

}  // namespace sluice::test::sim

namespace {

cudaError_t create(World& all, cudaStream_t* made, unsigned flags, int priority) {
  const int device = all.current_device();
  if (made == nullptr || (flags & ~unsigned{cudaStreamNonBlocking}) != 0)
    return cudaErrorInvalidValue;
  CUstream_st* const stream = all.streams.make();
  stream->device = device;
  stream->flags = flags;
  stream->priority = std::clamp(priority, -5, 0);
  stream->id = all.next_id++;
  *made = stream;
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaStreamCreate(cudaStream_t* made) {
  return call("cudaStreamCreate", [&](World& all, Lock&) { return create(all, made, cudaStreamDefault, 0); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* made, unsigned flags) {
  return call("cudaStreamCreateWithFlags", [&](World& all, Lock&) { return create(all, made, flags, 0); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* made, unsigned flags, int priority) {
  return call("cudaStreamCreateWithPriority", [&](World& all, Lock&) { return create(all, made, flags, priority); });
}

// The handle is gone at once; what was enqueued still runs.
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return call("cudaStreamDestroy", [&](World& all, Lock&) {
    CUstream_st& stream = all.alive(all.streams, handle, "a stream");
    if (stream.owned_by_device)
      return cudaErrorInvalidResourceHandle;
    if (stream.capture != nullptr) {
      all.violation("a stream was destroyed while it captured");
      World::invalidate(*stream.capture);
      if (stream.capture->origin == &stream)
        stream.capture->ended = true;
    }
    stream.alive = false;
    all.check_device(stream.device);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  return call("cudaStreamGetPriority", [&](World& all, Lock&) {
    *priority = all.stream(handle).priority;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  return call("cudaStreamGetFlags", [&](World& all, Lock&) {
    *flags = all.stream(handle).flags;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  return call("cudaStreamGetDevice", [&](World& all, Lock&) {
    *device = all.stream(handle).device;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long* id) {
  return call("cudaStreamGetId", [&](World& all, Lock&) {
    *id = all.stream(handle).id;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return call("cudaStreamQuery", [&](World& all, Lock&) {
    CUstream_st& stream = all.stream(handle);
    all.refuse_capture(stream);
    all.check_unsafe();
    if (stream.last == nullptr)
      return cudaSuccess;
    if (!stream.last->done)
      return cudaErrorNotReady;
    stream.last->ended.follow();
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return call("cudaStreamSynchronize", [&](World& all, Lock& hold) {
    CUstream_st& stream = all.stream(handle);
    all.refuse_capture(stream);
    all.check_unsafe();
    all.wait(hold, OpRef(stream.last));
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  return call("cudaLaunchHostFunc", [&](World& all, Lock&) {
    CUstream_st& stream = all.stream(handle);
    if (function == nullptr)
      return cudaErrorInvalidValue;
    auto work = std::make_shared<const std::function<void()>>([function, data] { function(data); });
    all.add(stream, {.kind = Kind::host, .work = std::move(work)});
    return cudaSuccess;
  });
}
