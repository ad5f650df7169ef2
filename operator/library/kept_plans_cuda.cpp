#include <cstdlib>

#include <cuda_runtime.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/engine/error.h>
#include <sluice/operator/fused/kept_code.h>
#include <sluice/operator/library/kept_plans_cuda.h>

namespace sluice::detail {

namespace {

// Raised with every change of which engines are accepted and how one of them is chosen (cudnn_plan_cuda.cpp).
constexpr int k_rules = 1;

std::string tf32_of_environment() {
  const char* const set = std::getenv("NVIDIA_TF32_OVERRIDE");
  return set == nullptr ? "as asked" : set;
}

}  // namespace

std::string kept_plan_key(const std::string& problem, CudnnLimits limits, Autotune how) {
  int device = 0, driver = 0;
  cudaDeviceProp about{};
  cuda::cuda_check(cudaGetDevice(&device), "cudaGetDevice");
  cuda::cuda_check(cudaGetDeviceProperties(&about, device), "cudaGetDeviceProperties");
  cuda::cuda_check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  return message(
      "plan by rules ",
      k_rules,
      " of cudnn ",
      cudnn_calls.cudnnGetVersion(),
      ", driver ",
      driver,
      ", on ",
      about.name,
      " with ",
      about.multiProcessorCount,
      " multiprocessors, tensor cores ",
      limits.tensor_cores ? "yes" : "no",
      ", TF32 ",
      tf32_of_environment(),
      ", autotune ",
      static_cast<int>(how),
      ": ",
      problem);
}

bool find_kept_plan(const CudnnMaker& maker, const std::string& key, CudnnPlan& into) {
  const std::optional<std::string> text = fused::KeptCode::plans_of_process().find(key);
  if (!text)
    return false;
  try {
    CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, maker.handle());
    plan.set_text(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, *text);
    if (plan.try_finalize() != CUDNN_STATUS_SUCCESS)
      return false;
    into.workspace = static_cast<std::size_t>(plan.int64(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
    into.plan = std::make_unique<CudnnDescriptor>(std::move(plan));
    return true;
  } catch (const CudaError&) {
    return false;
  }
}

// What cannot be kept is made again.
void keep_plan(const std::string& key, const CudnnPlan& made) noexcept try {
  if (made.plan == nullptr)
    return;
  const std::string text = made.plan->text(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
  if (!text.empty())
    fused::KeptCode::plans_of_process().keep(key, text);
} catch (const std::exception&) {
}

}  // namespace sluice::detail
