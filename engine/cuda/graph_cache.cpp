#include <algorithm>
#include <atomic>

#include <boost/container/small_vector.hpp>
#include <cuda.h>

#include <sluice/engine/cuda/graph_cache.h>
#include <sluice/engine/cuda/mixed.h>
#include <sluice/engine/detail/test_faults.h>

namespace sluice::detail {

using cuda::cuda_check;

namespace {

using KernelParams = CUresult(CUgraphNode, CUDA_KERNEL_NODE_PARAMS*);

// The runtime's own call knows only kernels that were loaded through the runtime; libraries load theirs otherwise.
KernelParams* kernel_params() {
  if (test_faults().kernels_unnamed.load(std::memory_order_relaxed))
    return nullptr;
  static KernelParams* const found = [] {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult result{};
    constexpr unsigned version = 12000;
    const cudaError_t status =
        cudaGetDriverEntryPointByVersion("cuGraphKernelNodeGetParams", &entry, version, cudaEnableDefault, &result);
    cudaGetLastError();
    return status == cudaSuccess && result == cudaDriverEntryPointSuccess ? reinterpret_cast<KernelParams*>(entry)
                                                                          : nullptr;
  }();
  return found;
}

}  // namespace

std::uint64_t graph_shape(std::uint64_t shape, cudaGraph_t graph, std::size_t nodes) {
  KernelParams* const params_of = kernel_params();
  if (params_of == nullptr) {  // a graph whose kernels nobody can name is like no other
    static std::atomic<std::uint64_t> unnamed{0};
    return mixed(shape, unnamed.fetch_add(1, std::memory_order_relaxed) + 1);
  }
  boost::container::small_vector<cudaGraphNode_t, 128> all(nodes);
  cuda_check(cudaGraphGetNodes(graph, all.data(), &nodes), "cudaGraphGetNodes");
  for (cudaGraphNode_t node : all) {
    CUDA_KERNEL_NODE_PARAMS params{};
    const bool is_kernel = params_of(node, &params) == CUDA_SUCCESS;
    shape = mixed(shape, is_kernel ? static_cast<const void*>(params.func) : nullptr);
    shape = mixed(shape, is_kernel ? static_cast<const void*>(params.kern) : nullptr);
  }
  return shape;
}

// One last launched on the same stream follows itself there anyway, and one not launched for long holds nobody up;
// otherwise another, as long as more may be made.
GraphCache::Instance* GraphCache::choose(Shape& shape, const CudaStream& stream) const {
  Instance* oldest = nullptr;
  for (Instance& instance : shape.instances) {
    if (instance.stream == &stream)
      return &instance;
    if (oldest == nullptr || instance.used < oldest->used)
      oldest = &instance;
  }
  const bool may_make = shape.instances.size() < k_a_shape;
  return oldest != nullptr && (!may_make || turn_ - oldest->used >= k_long_ago) ? oldest : nullptr;
}

cudaGraphExec_t GraphCache::prepare(std::uint64_t key, cudaGraph_t graph, const CudaStream& stream) {
  Shape& shape = shapes_[key];
  shape.used = ++turn_;
  Instance* instance = choose(shape, stream);
  if (instance != nullptr) {
    instance->stream = &stream;
    instance->used = turn_;
    cudaGraphExecUpdateResultInfo info{};
    if (cudaGraphExecUpdate(instance->executable.get(), graph, &info) == cudaSuccess) {
      ++updated_;
      misses_ = 0;
      return instance->executable.get();
    }
    cudaGetLastError();  // the same names in the same order, but other kernels inside
  }
  misses_ = instance == nullptr && !shape.instances.empty() ? 0 : misses_ + 1;
  cudaGraphExec_t made = nullptr;
  cuda_check(cudaGraphInstantiate(&made, graph, cudaGraphInstantiateFlagUseNodePriority), "cudaGraphInstantiate");
  ++made_;
  GraphExecutable executable(made);
  if (instance != nullptr) {
    instance->executable = std::move(executable);
    return made;
  }
  shape.instances.push_back({std::move(executable), &stream, turn_});
  ++size_;
  if (size_ > k_most)
    make_room();
  return made;
}

// The shape that was used longest ago goes; launches of it that are under way end as if it were there.
void GraphCache::make_room() {
  const auto oldest = std::min_element(
      shapes_.begin(), shapes_.end(), [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
  size_ -= oldest->second.instances.size();
  shapes_.erase(oldest);
}

}  // namespace sluice::detail
