#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <cuda_runtime.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/engine/cuda/handle.h>
#include <sluice/engine/detail/fork_watch.h>
#include <sluice/engine/error.h>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/library/nvrtc.h>
#include <sluice/operator/library/shared_library.h>
#include <sluice/operator/matmul/precision.h>
#include <sluice/operator/rnn/network_cuda.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {
namespace {

void copy(const Queue& queue, void* to, const void* from, std::size_t bytes) {
  cuda::cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_of(queue)), "cudaMemcpyAsync");
}
void clear(const Queue& queue, void* to, std::size_t bytes) {
  cuda::cuda_check(cudaMemsetAsync(to, 0, bytes, stream_of(queue)), "cudaMemsetAsync");
}

cudnnMathType_t math_of(DType dtype) {
  if (dtype == DType::float32)
    return current_float32_precision() == Float32Precision::high ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
  return dtype == DType::float64 ? CUDNN_DEFAULT_MATH : CUDNN_TENSOR_OP_MATH;
}

// That cuDNN, or this installation of it, does not take a problem, which it will say again. Other errors pass.
bool is_refusal(const CudaError& error) {
  const int category = error.code() / 1000 * 1000;
  return category == CUDNN_STATUS_BAD_PARAM || category == CUDNN_STATUS_NOT_SUPPORTED ||
         error.code() == CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED;
}

// In the order in which they are tried.
std::vector<cudnnRNNAlgo_t> algorithms_for(const RnnProblem& p, int device) {
  if (rnn_asks_persistent(gpu(device), p))
    return {CUDNN_RNN_ALGO_PERSIST_STATIC, CUDNN_RNN_ALGO_STANDARD};
  return {CUDNN_RNN_ALGO_STANDARD};
}

/// All problems of the process, and handles for threads that push tasks: they ask one at a time.
class Known {
 public:
  static Known& all() {
    static auto* const made = new Known;
    return *made;
  }

  /// Null where cuDNN does not take the problem. The device is current.
  std::shared_ptr<const CudnnRnn> get(cudnnHandle_t handle, int device, const RnnProblem& p, cudnnMathType_t math) {
    const CacheKey key = CacheKey::of(
        static_cast<int>(p.mode),
        static_cast<int>(p.dtype),
        p.steps,
        p.batch,
        p.input,
        p.hidden,
        p.layers,
        p.directions,
        static_cast<int>(math),
        device);
    return *problems_.get(key, [&] {
      std::shared_ptr<const CudnnRnn> made;
      // One algorithm for all passes of a problem: backward reads what forward kept.
      for (const cudnnRNNAlgo_t algorithm : algorithms_for(p, device)) {
        try {
          made = std::make_shared<const CudnnRnn>(handle, p, math, algorithm);
          break;
        } catch (const CudaError& error) {
          if (!is_refusal(error))
            throw;
        } catch (const UnsupportedError&) {
        }
      }
      return std::make_shared<const std::shared_ptr<const CudnnRnn>>(std::move(made));
    });
  }
  std::shared_ptr<const CudnnRnn> ask(int device, const RnnProblem& p, cudnnMathType_t math) {
    const std::lock_guard hold(mutex_);
    const cuda::DeviceScope there(device);
    auto& handle = handles_[device];
    if (handle == nullptr)
      handle = std::make_unique<const CudnnMaker>();
    return get(handle->handle(), device, p, math);
  }

 private:
  LibraryCache<std::shared_ptr<const CudnnRnn>> problems_{512};  // of float32 one for each precision
  std::mutex mutex_;
  const HeldOverForks held_{mutex_};
  std::map<int, std::unique_ptr<const CudnnMaker>> handles_;
};

}  // namespace

/// The parameters as cuDNN has them: ours, or a copy in its order.
class CudnnRnn::Weights {
 public:
  Weights(const CudnnRnn& of, const Queue& queue, void* ours)
      : of_(of), queue_(queue), ours_(static_cast<char*>(ours)), copy_(queue, is_ours() ? 0 : of.weights_) {}

  void* data() const noexcept { return is_ours() ? ours_ : copy_.data(); }
  void read() {
    if (is_ours())
      return;
    clear(queue_, data(), of_.weights_);  // what lies between them
    each([&](char* ours, char* theirs, std::size_t bytes) { copy(queue_, theirs, ours, bytes); });
  }
  void write_back() {
    if (!is_ours())
      each([&](char* ours, char* theirs, std::size_t bytes) { copy(queue_, ours, theirs, bytes); });
  }

 private:
  static constexpr std::uintptr_t k_alignment = 256;

  bool is_ours() const noexcept {
    return of_.are_alike() && reinterpret_cast<std::uintptr_t>(ours_) % k_alignment == 0;
  }
  template <class Each>
  void each(const Each& run) {
    const auto size = static_cast<std::int64_t>(size_of(of_.problem_.dtype));
    for (const Piece& piece : of_.pieces_)
      run(ours_ + piece.ours * size,
          copy_.template as<char>() + piece.theirs * size,
          static_cast<std::size_t>(piece.count * size));
  }

  const CudnnRnn& of_;
  const Queue& queue_;
  char* const ours_;
  const Workspace copy_;
};

void CudnnRnn::forward(const Queue& queue, const RnnData& d) const {
  const bool keeps = d.kept != nullptr;
  Weights weights(*this, queue, const_cast<void*>(d.parameters));
  weights.read();
  const Workspace scratch(queue, keeps ? training_scratch_ : inference_scratch_);
  cudnn_check(
      cudnn_rnn_calls().cudnnRNNForward(
          Cudnn::of(queue).handle(),
          network_.get(),
          keeps ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE,
          nullptr,
          x_.get(),
          d.x,
          y_.get(),
          d.y,
          state_.get(),
          d.h0,
          d.h,
          state_.get(),
          d.c0,
          d.c,
          weights_,
          weights.data(),
          scratch.bytes(),
          scratch.data(),
          keeps ? reserve_ : 0,
          d.kept),
      "cudnnRNNForward");
}

// cuDNN writes over what forward kept, which belongs to the tape: a copy of it. Gradients of weights are added to what
// is there, so that begins as zeros.
void CudnnRnn::backward(const Queue& queue, const RnnData& d) const {
  const CudnnRnnCalls& calls = cudnn_rnn_calls();
  const cudnnHandle_t handle = Cudnn::of(queue).handle();
  Weights weights(*this, queue, const_cast<void*>(d.parameters)), gradients(*this, queue, d.dparameters);
  weights.read();
  const Workspace kept(queue, reserve_), scratch(queue, training_scratch_);
  copy(queue, kept.data(), d.kept, reserve_);
  cudnn_check(
      calls.cudnnRNNBackwardData_v8(
          handle,
          network_.get(),
          nullptr,
          y_.get(),
          d.y,
          d.dy,
          x_.get(),
          d.dx,
          state_.get(),
          d.h0,
          d.dh,
          d.dh0,
          state_.get(),
          d.c0,
          d.dc,
          d.dc0,
          weights_,
          weights.data(),
          scratch.bytes(),
          scratch.data(),
          reserve_,
          kept.data()),
      "cudnnRNNBackwardData_v8");
  clear(queue, gradients.data(), weights_);
  cudnn_check(
      calls.cudnnRNNBackwardWeights_v8(
          handle,
          network_.get(),
          CUDNN_WGRAD_MODE_ADD,
          nullptr,
          x_.get(),
          d.x,
          state_.get(),
          d.h0,
          y_.get(),
          d.y,
          weights_,
          gradients.data(),
          scratch.bytes(),
          scratch.data(),
          reserve_,
          kept.data()),
      "cudnnRNNBackwardWeights_v8");
  gradients.write_back();
}

bool rnn_has_library(Device device, const RnnProblem& problem) {
  if (!cudnn_library().load())
    return false;
  RnnProblem small = problem;
  small.steps = small.batch = 1;
  return Known::all().ask(device.index, small, math_of(problem.dtype)) != nullptr;
}

bool rnn_asks_persistent(Device device, const RnnProblem& problem) {
  int processors = 0;
  cuda::cuda_check(
      cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device.index), "cudaDeviceGetAttribute");
  return suits_persistent_kernels(problem, gpu_capability(device.index), processors);
}

bool rnn_is_persistent(Device device, const RnnProblem& problem) {
  if (!cudnn_library().load())
    return false;
  const auto known = Known::all().ask(device.index, problem, math_of(problem.dtype));
  return known != nullptr && known->is_persistent();
}

std::int64_t rnn_library_reserve(Device device, const RnnProblem& problem) {
  if (!cudnn_library().load())
    return 0;
  const auto bytes_for = [&](cudnnMathType_t math) {
    const auto known = Known::all().ask(device.index, problem, math);
    return known == nullptr ? 0 : static_cast<std::int64_t>(known->reserve());
  };
  if (problem.dtype != DType::float32)
    return bytes_for(math_of(problem.dtype));
  // set_float32_precision() may come before the kernel runs: room for either.
  return std::max(bytes_for(CUDNN_DEFAULT_MATH), bytes_for(CUDNN_FMA_MATH));
}

void rnn_by_library(const Queue& queue, const RnnProblem& problem, const RnnData& data, bool is_backward) {
  cudnn_library().require("rnn");
  const auto known = Known::all().get(Cudnn::of(queue).handle(), queue.device().index, problem, math_of(problem.dtype));
  require<UnsupportedError>(known != nullptr, [&] {
    return message(
        "rnn: cuDNN does not take ",
        rnn_mode_name(problem.mode),
        " of ",
        problem.dtype,
        ", ",
        problem.steps,
        " steps of ",
        problem.batch,
        " with ",
        problem.hidden,
        " units, on ",
        queue.device());
  });
  if (is_backward)
    known->backward(queue, data);
  else
    known->forward(queue, data);
}

}  // namespace sluice::detail
