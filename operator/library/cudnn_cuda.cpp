#include <algorithm>

#include <sluice/engine/error.h>
#include <sluice/operator/library/cudnn_cuda.h>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/library/shared_library.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

CudnnCalls cudnn_calls;

SharedLibrary& cudnn_library() {
  static auto* const library = new SharedLibrary(
      {"cuDNN " SLUICE_TEXT(CUDNN_MAJOR),
       "libcudnn.so." SLUICE_TEXT(CUDNN_MAJOR),
       "cuDNN " SLUICE_TEXT(CUDNN_MAJOR) " for this version of CUDA (libcudnn" SLUICE_TEXT(
           CUDNN_MAJOR) "-cuda in NVIDIA's package archives)"},
      [](const SharedLibrary& loaded) {
#define SLUICE_FIND(name) loaded.find(#name, cudnn_calls.name);
        SLUICE_CUDNN_CALLS(SLUICE_FIND)
#undef SLUICE_FIND
      });
  return *library;
}

void cudnn_check(cudnnStatus_t status, const char* call) {
  if (status != CUDNN_STATUS_SUCCESS) [[unlikely]]
    throw CudaError(message(call, ": ", cudnn_calls.cudnnGetErrorString(status)), static_cast<int>(status));
}

CudnnDescriptor::CudnnDescriptor(cudnnBackendDescriptorType_t type) {
  cudnn_check(cudnn_calls.cudnnBackendCreateDescriptor(type, &raw_), "cudnnBackendCreateDescriptor");
}

CudnnDescriptor::~CudnnDescriptor() {
  if (raw_ != nullptr)
    cudnn_calls.cudnnBackendDestroyDescriptor(raw_);
}

void CudnnDescriptor::set_raw(
    cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count, const void* values) {
  cudnn_check(cudnn_calls.cudnnBackendSetAttribute(raw_, name, type, count, values), "cudnnBackendSetAttribute");
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, std::span<const std::int64_t> values) {
  set_raw(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
}
void CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
  set_raw(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
}
void CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnConvolutionMode_t value) {
  set_raw(name, CUDNN_TYPE_CONVOLUTION_MODE, 1, &value);
}
void CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendHeurMode_t value) {
  set_raw(name, CUDNN_TYPE_HEUR_MODE, 1, &value);
}
void CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnHandle_t value) {
  set_raw(name, CUDNN_TYPE_HANDLE, 1, &value);
}
void CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnPointwiseMode_t value) {
  set_raw(name, CUDNN_TYPE_POINTWISE_MODE, 1, &value);
}
void CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnReduceTensorOp_t value) {
  set_raw(name, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &value);
}
void CudnnDescriptor::set_text(cudnnBackendAttributeName_t name, const std::string& value) {
  set_raw(name, CUDNN_TYPE_CHAR, static_cast<std::int64_t>(value.size()), value.data());
}
void CudnnDescriptor::set_flag(cudnnBackendAttributeName_t name, bool value) {
  set_raw(name, CUDNN_TYPE_BOOLEAN, 1, &value);
}
void CudnnDescriptor::set(cudnnBackendAttributeName_t name, std::span<const CudnnDescriptor> values) {
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const CudnnDescriptor& value : values)
    raw.push_back(value.raw_);
  set_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(raw.size()), raw.data());
}
void CudnnDescriptor::set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
  set_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.raw_);
}
void CudnnDescriptor::set(cudnnBackendAttributeName_t name, std::span<void* const> pointers) {
  set_raw(name, CUDNN_TYPE_VOID_PTR, static_cast<std::int64_t>(pointers.size()), pointers.data());
}
void CudnnDescriptor::set_scale(cudnnBackendAttributeName_t name, double value, bool wide) {
  const auto narrow = static_cast<float>(value);
  set_raw(
      name,
      wide ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT,
      1,
      wide ? static_cast<const void*>(&value) : static_cast<const void*>(&narrow));
}

void CudnnDescriptor::finalize(const char* what) {
  cudnn_check(try_finalize(), what);
}

std::int64_t CudnnDescriptor::int64(cudnnBackendAttributeName_t name) const {
  std::int64_t value = 0, count = 0;
  cudnn_check(
      cudnn_calls.cudnnBackendGetAttribute(raw_, name, CUDNN_TYPE_INT64, 1, &count, &value),
      "cudnnBackendGetAttribute");
  return value;
}

std::string CudnnDescriptor::text(cudnnBackendAttributeName_t name) const {
  std::int64_t size = 0;
  if (cudnn_calls.cudnnBackendGetAttribute(raw_, name, CUDNN_TYPE_CHAR, 0, &size, nullptr) != CUDNN_STATUS_SUCCESS ||
      size <= 0)
    return {};
  std::string value(static_cast<std::size_t>(size), '\0');
  std::int64_t written = 0;
  if (cudnn_calls.cudnnBackendGetAttribute(raw_, name, CUDNN_TYPE_CHAR, size, &written, value.data()) !=
      CUDNN_STATUS_SUCCESS)
    return {};
  value.resize(static_cast<std::size_t>(std::min(written, size)));
  return value;
}

Cudnn::Cudnn(const Queue& queue) {
  cudnn_check(cudnn_calls.cudnnCreate(&handle_), "cudnnCreate");
  const cudnnStatus_t status = cudnn_calls.cudnnSetStream(handle_, stream_of(queue));
  if (status != CUDNN_STATUS_SUCCESS)
    cudnn_calls.cudnnDestroy(handle_);
  cudnn_check(status, "cudnnSetStream");
}

Cudnn::~Cudnn() {
  cudnn_calls.cudnnDestroy(handle_);
}

CudnnMaker::CudnnMaker() {
  cudnn_check(cudnn_calls.cudnnCreate(&handle_), "cudnnCreate");
}

CudnnMaker::~CudnnMaker() {
  cudnn_calls.cudnnDestroy(handle_);
}

std::shared_ptr<const CudnnMaker> CudnnPlans::maker(const Queue& queue) {
  const std::lock_guard hold(mutex_);
  auto& made = makers_[queue.device().index];
  if (made == nullptr)
    made = std::make_shared<const CudnnMaker>();
  return made;
}

bool CudnnPlans::ask(int device, const std::function<bool(const CudnnMaker&)>& question) {
  const std::lock_guard hold(questions_);
  auto& asked = asked_[device];
  if (asked == nullptr)
    asked = std::make_unique<const CudnnMaker>();
  return question(*asked);
}

void cudnn_execute(
    cudnnHandle_t handle,
    const CudnnDescriptor& plan,
    std::span<const std::int64_t> ids,
    std::span<void* const> pointers,
    void* scratch) {
  CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, pointers);
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, std::span<void* const>(&scratch, 1));
  pack.finalize("cudnnBackendFinalize (variant pack)");
  cudnn_check(cudnn_calls.cudnnBackendExecute(handle, plan.get(), pack.get()), "cudnnBackendExecute");
}

void cudnn_run(
    const Queue& queue, const CudnnPlan& plan, std::span<const std::int64_t> ids, std::span<void* const> pointers) {
  const Workspace workspace(queue, plan.workspace);
  cudnn_execute(Cudnn::of(queue).handle(), *plan.plan, ids, pointers, workspace.data());
}

}  // namespace sluice::detail
