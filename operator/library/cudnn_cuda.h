#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cudnn_backend.h>

#include <sluice/engine/engine.h>
#include <sluice/ndarray/dtype.h>
#include <sluice/operator/library/cache.h>

namespace sluice::detail {

/// What is called of cuDNN; filled once cudnn_library() is loaded.
#define SLUICE_CUDNN_CALLS(X)      \
  X(cudnnBackendCreateDescriptor)  \
  X(cudnnBackendDestroyDescriptor) \
  X(cudnnBackendExecute)           \
  X(cudnnBackendFinalize)          \
  X(cudnnBackendGetAttribute)      \
  X(cudnnBackendSetAttribute)      \
  X(cudnnCreate)                   \
  X(cudnnDestroy)                  \
  X(cudnnGetErrorString)           \
  X(cudnnGetVersion)               \
  X(cudnnSetStream)
struct CudnnCalls {
#define SLUICE_MEMBER(name) decltype(&::name) name = nullptr;
  SLUICE_CUDNN_CALLS(SLUICE_MEMBER)
#undef SLUICE_MEMBER
};
extern CudnnCalls cudnn_calls;

/// Throws CudaError naming `call` and cuDNN's text for it unless `status` is success.
void cudnn_check(cudnnStatus_t status, const char* call);

/// Owns a descriptor of cuDNN's backend API: attributes are set, then it is finalized and does not change.
class CudnnDescriptor {
 public:
  explicit CudnnDescriptor(cudnnBackendDescriptorType_t type);
  CudnnDescriptor(CudnnDescriptor&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
  CudnnDescriptor& operator=(CudnnDescriptor other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  ~CudnnDescriptor();

  cudnnBackendDescriptor_t get() const noexcept { return raw_; }

  void set(cudnnBackendAttributeName_t name, std::span<const std::int64_t> values);
  void set(cudnnBackendAttributeName_t name, std::int64_t value) { set(name, std::span(&value, 1)); }
  void set(cudnnBackendAttributeName_t name, cudnnDataType_t value);
  void set(cudnnBackendAttributeName_t name, cudnnConvolutionMode_t value);
  void set(cudnnBackendAttributeName_t name, cudnnBackendHeurMode_t value);
  void set(cudnnBackendAttributeName_t name, cudnnHandle_t value);
  void set(cudnnBackendAttributeName_t name, cudnnPointwiseMode_t value);
  void set(cudnnBackendAttributeName_t name, cudnnReduceTensorOp_t value);
  void set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value);
  void set(cudnnBackendAttributeName_t name, std::span<const CudnnDescriptor> values);
  void set(cudnnBackendAttributeName_t name, std::span<void* const> pointers);
  void set_text(cudnnBackendAttributeName_t name, const std::string& value);
  void set_flag(cudnnBackendAttributeName_t name, bool value);
  /// A factor of the sum, in the type that the operation computes in.
  void set_scale(cudnnBackendAttributeName_t name, double value, bool wide);

  void finalize(const char* what);
  cudnnStatus_t try_finalize() noexcept { return cudnn_calls.cudnnBackendFinalize(raw_); }
  std::int64_t int64(cudnnBackendAttributeName_t name) const;
  /// Empty where cuDNN has none.
  std::string text(cudnnBackendAttributeName_t name) const;

 private:
  void set_raw(cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, std::int64_t count, const void* values);

  cudnnBackendDescriptor_t raw_ = nullptr;
};

/// cuDNN's handle of one stream: a slot of its Queue.
class Cudnn {
 public:
  explicit Cudnn(const Queue& queue);
  Cudnn(const Cudnn&) = delete;
  ~Cudnn();
  static Cudnn& of(const Queue& queue) { return queue.slot<Cudnn>(); }
  cudnnHandle_t handle() const noexcept { return handle_; }

 private:
  cudnnHandle_t handle_ = nullptr;
};

/// cuDNN's handle that plans of one device are made with. No stream's: those go with their streams and with regions,
/// while a plan is kept, and run on whichever stream its task is on.
class CudnnMaker {
 public:
  CudnnMaker();
  CudnnMaker(const CudnnMaker&) = delete;
  ~CudnnMaker();
  cudnnHandle_t handle() const noexcept { return handle_; }

 private:
  cudnnHandle_t handle_ = nullptr;
};

/// An execution plan with everything it was made from; none where cuDNN has no engine that we accept.
struct CudnnPlan {
  std::shared_ptr<const CudnnMaker> maker;  // goes last
  std::vector<CudnnDescriptor> parts;
  std::unique_ptr<CudnnDescriptor> plan = {};
  std::size_t workspace = 0;
};

/// The plans of one engine's devices.
struct CudnnPlans {
  explicit CudnnPlans(Engine&) {}
  static CudnnPlans& of(const Queue& queue) { return queue.engine().extension<CudnnPlans>(); }
  /// To be used by the body that asks, while it runs: bodies of one device are called one at a time.
  std::shared_ptr<const CudnnMaker> maker(const Queue& queue);

  /// What `question` says of a handle for threads that push tasks, one at a time. The device is to be current.
  bool ask(int device, const std::function<bool(const CudnnMaker&)>& question);

  LibraryCache<CudnnPlan> plans{512};
  LibraryCache<bool> answers{512};

 private:
  std::mutex questions_;
  std::map<int, std::unique_ptr<const CudnnMaker>> asked_;  // by device
  std::mutex mutex_;
  std::map<int, std::shared_ptr<const CudnnMaker>> makers_;  // by device
};

/// Which engines are accepted, beside that they are deterministic, do not convert inputs down and do not sum below the
/// computing type.
struct CudnnLimits {
  bool tensor_cores = true;                        // false for float32 without TF32
  std::int64_t workspace = std::int64_t{1} << 30;  // plans that need more are a last resort
};

/// What a trial of plans needs: arrays of these bytes in the order of `ids`, and a key that says which problem it is.
struct CudnnTrial {
  std::span<const std::int64_t> ids;
  std::span<const std::size_t> bytes;
  std::string key;
  bool compiles = false;  // cuDNN compiles kernels for it: plans are kept on disk
  bool tries = true;      // false: whatever autotune() says, cuDNN's first is taken; ids and bytes may be empty
};

/// A tensor for the graph; alignment in bytes.
CudnnDescriptor cudnn_tensor(
    std::int64_t id,
    DType dtype,
    std::span<const std::int64_t> extents,
    std::span<const std::int64_t> strides,
    std::int64_t alignment);
/// One that is nowhere in memory: between two operations of a graph.
CudnnDescriptor cudnn_between(
    std::int64_t id,
    cudnnDataType_t type,
    std::span<const std::int64_t> extents,
    std::span<const std::int64_t> strides);
cudnnDataType_t cudnn_type(DType dtype);

/// Chooses an engine for operations that are one graph, within `limits`: as autotune() says the first of cuDNN's
/// heuristics that makes a plan, or the quickest in a trial, in which the host waits for the GPU. The parts and the
/// maker are kept by the plan, as the operations are. result.plan is null if there is none.
CudnnPlan cudnn_plan(
    std::shared_ptr<const CudnnMaker> maker,
    std::vector<CudnnDescriptor> parts,
    std::vector<CudnnDescriptor> operations,
    CudnnLimits limits,
    const CudnnTrial& trial);

/// Whether cuDNN says that it has an engine for operations that are one graph, within `limits`. Makes no plan.
bool cudnn_has_engine(const CudnnMaker& maker, std::span<const CudnnDescriptor> operations, CudnnLimits limits);

/// Enqueues a plan on the stream of `handle`, with that scratch memory: `pointers` in the order of `ids`.
void cudnn_execute(
    cudnnHandle_t handle,
    const CudnnDescriptor& plan,
    std::span<const std::int64_t> ids,
    std::span<void* const> pointers,
    void* scratch);
/// Enqueues a plan on the queue's stream: `pointers` in the order of `ids`.
void cudnn_run(
    const Queue& queue, const CudnnPlan& plan, std::span<const std::int64_t> ids, std::span<void* const> pointers);

}  // namespace sluice::detail
