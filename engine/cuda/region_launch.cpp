// A region's graph launched from any thread, beside the streams on which the engine issues.
#include <sluice/engine/cuda/check.h>
#include <sluice/engine/cuda/gpu.h>
#include <sluice/engine/cuda/handle.h>
#include <sluice/engine/cuda/policy_stream.h>
#include <sluice/engine/cuda/region_graph.h>

namespace sluice::detail {

using cuda::cuda_check;

namespace {

class CudaRegionLaunch final : public RegionLaunch {
 public:
  CudaRegionLaunch(Gpu& gpu, cudaGraphExec_t executable, Reports::Word* words)
      : gpu_(gpu), executable_(executable), words_(words) {
    const cuda::DeviceScope scope(gpu.device.index);
    cudaStream_t made = nullptr;
    cuda_check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    stream_ = cuda::StreamHandle(made);
  }

  bool launch() noexcept override {
    if (gpu_.loss.lost() || !gpu_.policy.may_call_here())
      return false;
    try {
      const cuda::DeviceScope scope(gpu_.device.index);
      if (cudaGraphLaunch(executable_, stream_.get()) == cudaSuccess) [[likely]]
        return true;
      cudaGetLastError();
    } catch (const Error&) {  // what is wrong with the device a task will say
    }
    return false;
  }

  LaunchEnd synchronize() noexcept override {
    try {
      const cuda::DeviceScope scope(gpu_.device.index);
      cuda_check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
      return LaunchEnd::over;
    } catch (...) {
      gpu_.loss.note_if_lost();
    }
    return gpu_.loss.lost() ? LaunchEnd::lost : LaunchEnd::unknown;
  }

  void give_up() noexcept override {
    try {
      throw CudaError("a launch did not come to its end while CUDA refused to wait for it", cudaErrorUnknown);
    } catch (...) {
      gpu_.loss.declare(gpu_.loss.caught("launch"));
    }
  }

  bool take_report() noexcept override { return words_ != nullptr && Reports::take_report(*words_); }

 private:
  Gpu& gpu_;
  const cudaGraphExec_t executable_;
  Reports::Word* const words_;
  cuda::StreamHandle stream_;
};

}  // namespace

std::unique_ptr<RegionLaunch> CudaRegionVariant::own_launch() {
  if (executable_.get() == nullptr)
    return nullptr;
  auto made = std::make_unique<CudaRegionLaunch>(graphs_->gpu, executable_.get(), words_.all());
  if (words_.all() != nullptr)
    graphs_->reports.hand_over(*words_.all());
  return made;
}

}  // namespace sluice::detail
