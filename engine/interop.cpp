#include <future>
#include <memory>
#include <utility>

#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/engine_access.h>
#include <sluice/engine/error.h>
#include <sluice/engine/interop.h>

#if SLUICE_CUDA
#include <sluice/engine/cuda/handle.h>
#endif

namespace sluice {
namespace {

#if SLUICE_CUDA
void check_stream(const char* what, Device device, void* stream) {
  require<DeviceError>(device.is_gpu() && device.index < num_gpus(), [&] {
    return message(what, ": ", device, " has no streams; there are ", num_gpus(), " GPU(s)");
  });
  const cuda::DeviceScope on(device.index);  // a thread's own stream is another one on each device
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cuda::cuda_check(cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &status), "cudaStreamIsCapturing");
  require(status == cudaStreamCaptureStatusNone, [&] {
    return message(what, ": the stream is being captured; the engine's own work cannot become part of that graph");
  });
}

void order(void* earlier, void* later) {
  cuda::order_streams(static_cast<cudaStream_t>(earlier), static_cast<cudaStream_t>(later));
}

// What lies on `stream` now: the stream may be gone, or hold more, when the task's turn comes.
auto mark_of(const char* what, Device device, void* stream) {
  const auto check = [what](cudaError_t error, const char* call) {
    if (error != cudaSuccess)
      cuda::cuda_check(error, message(what, ": ", call).c_str());
  };
  const cuda::DeviceScope on(device.index);
  cudaEvent_t raw = nullptr;
  check(cudaEventCreateWithFlags(&raw, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  cuda::EventHandle made(raw);
  auto mark = std::make_shared<cuda::EventHandle>(std::move(made));
  check(cudaEventRecord(raw, static_cast<cudaStream_t>(stream)), "cudaEventRecord");
  return mark;
}
void wait_for(const char* what, Device device, void* stream, const std::shared_ptr<cuda::EventHandle>& mark) {
  const cuda::DeviceScope on(device.index);
  if (cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), mark->get(), 0) == cudaSuccess)
    return;
  cudaGetLastError();  // then the host waits: what comes next must not come before that work
  if (const cudaError_t error = cudaEventSynchronize(mark->get()); error != cudaSuccess)
    cuda::cuda_check(error, message(what, ": cudaEventSynchronize").c_str());
}

/// What issues the task may be another thread, for which that name means another stream.
bool is_of_this_thread(void* stream) noexcept {
  return stream == cudaStreamPerThread;
}
#else
void check_stream(const char* what, Device device, void*) {
  throw DeviceError(message(what, ": ", device, " has no streams; this build is without CUDA"));
}
void order(void*, void*) {}
std::shared_ptr<void> mark_of(const char*, Device, void*) {
  return {};
}
void wait_for(const char*, Device, void*, const std::shared_ptr<void>&) {}
bool is_of_this_thread(void*) noexcept {
  return false;
}
#endif

}  // namespace

TaskHandle import_stream(Engine& engine, Device device, void* stream, const AccessList& access, SourceLocation site) {
  check_stream("import_stream", device, stream);
  auto mark = mark_of("import_stream", device, stream);
  // The work is there, whether or not its Vars have failed.
  return engine.push(
      {.name = "import stream", .device = device, .access = access, .on_failed_input = OnFailedInput::run},
      [device, mark = std::move(mark)](Queue queue) { wait_for("import_stream", device, queue.stream(), mark); },
      site);
}

void export_stream(Engine& engine, Device device, void* stream, const AccessList& access, SourceLocation site) {
  check_stream("export_stream", device, stream);
  const detail::ThisThread& here = detail::this_thread();
  require<Deadlock>(here.task == nullptr && here.gpu_body == nullptr, [] {
    return std::string("export_stream: a task cannot wait for tasks to be issued; push a task that uses the stream");
  });
  // Whoever ends the body's life without a call breaks the promise.
  auto issued = std::make_shared<std::promise<void>>();
  std::future<void> is_issued = issued->get_future();
  using Mark = decltype(mark_of("export_stream", device, stream));
  const auto mark = is_of_this_thread(stream) ? std::make_shared<Mark>() : nullptr;
  const TaskHandle task = engine.push(
      {.name = "export stream", .device = device, .access = access, .on_failed_input = OnFailedInput::run},
      [device, stream, mark, issued = std::move(issued)](Queue queue) {
        try {
          if (mark == nullptr)
            order(queue.stream(), stream);
          else
            *mark = mark_of("export_stream", device, queue.stream());
          issued->set_value();
        } catch (...) {
          issued->set_exception(std::current_exception());
        }
      },
      site);
  detail::EngineAccess::core(engine).wait_issued(task);  // which runs CPU tasks where nobody else does
  try {
    is_issued.get();
    if (mark != nullptr)
      wait_for("export_stream", device, stream, *mark);
  } catch (const std::future_error&) {
    throw Cancelled("export_stream: the engine was stopped before the stream's turn came");
  }
}

}  // namespace sluice
