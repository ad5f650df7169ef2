#include <algorithm>
#include <atomic>
#include <iterator>
#include <new>

#include <boost/container/small_vector.hpp>
#include <cuda.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/engine/cuda/driver_function.h>
#include <sluice/engine/cuda/executable_cache.h>
#include <sluice/engine/cuda/launch_rules.h>
#include <sluice/engine/cuda/mixed.h>
#include <sluice/engine/detail/test_faults.h>

namespace sluice::detail {

using cuda::cuda_check;

namespace {

// The runtime's own call knows only kernels that were loaded through the runtime; libraries load theirs otherwise.
struct KernelCalls {
  using Params = CUresult(CUgraphNode, CUDA_KERNEL_NODE_PARAMS*);
  using Attribute = CUresult(CUgraphNode, CUlaunchAttributeID, CUlaunchAttributeValue*);
  Params* const params = driver_function<Params>("cuGraphKernelNodeGetParams");
  Attribute* const attribute = driver_function<Attribute>("cuGraphKernelNodeGetAttribute");

  // Null where the driver does not tell.
  static const KernelCalls* found() {
    static const KernelCalls calls;
    const bool tells = calls.params != nullptr && calls.attribute != nullptr;
    return tells && !test_faults().kernels_unnamed.load(std::memory_order_relaxed) ? &calls : nullptr;
  }
};

// Which kernel a node calls, and in what clusters: the driver takes an update to others, and the kernel then meets
// instructions that are illegal in the clusters that it had.
std::uint64_t kernel_of(const KernelCalls& calls, CUgraphNode node) {
  CUDA_KERNEL_NODE_PARAMS params{};
  if (calls.params(node, &params) != CUDA_SUCCESS)
    return 0;
  const std::uint64_t called =
      mixed(mixed(0, static_cast<const void*>(params.func)), static_cast<const void*>(params.kern));
  CUlaunchAttributeValue value{};
  if (calls.attribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &value) != CUDA_SUCCESS)
    return called;
  return mixed(mixed(mixed(called, value.clusterDim.x), value.clusterDim.y), value.clusterDim.z);
}

}  // namespace

GraphShape shape_of(std::uint64_t structure, cudaGraph_t graph) {
  GraphShape shape{structure, 0};
  cuda_check(cudaGraphGetNodes(graph, nullptr, &shape.nodes), "cudaGraphGetNodes");
  if (shape.nodes == 0)
    return shape;
  const KernelCalls* const calls = KernelCalls::found();
  if (calls == nullptr) {  // a graph whose kernels nobody can name is like no other
    static std::atomic<std::uint64_t> unnamed{0};
    shape.key = mixed(structure, unnamed.fetch_add(1, std::memory_order_relaxed) + 1);
    return shape;
  }
  boost::container::small_vector<cudaGraphNode_t, 128> nodes(shape.nodes);
  cuda_check(cudaGraphGetNodes(graph, nodes.data(), &shape.nodes), "cudaGraphGetNodes");
  for (cudaGraphNode_t node : nodes)
    shape.key = mixed(shape.key, kernel_of(*calls, node));
  return shape;
}

ExecutableCache::Lease& ExecutableCache::Lease::operator=(Lease&& other) noexcept {
  if (this == &other)
    return *this;
  give_back();
  cache_ = std::exchange(other.cache_, nullptr);
  shape_ = other.shape_;
  owner_ = other.owner_;
  stream_ = other.stream_;
  executable_ = std::move(other.executable_);
  found_ = other.found_;
  return *this;
}

void ExecutableCache::Lease::give_back() noexcept {
  try {
    if (cache_ != nullptr)
      cache_->put(*this);
  } catch (const std::bad_alloc&) {  // made anew, then
  }
  executable_ = {};
  cache_ = nullptr;
}

std::uint64_t ExecutableCache::key_of(GraphShape shape, const void* owner) noexcept {
  return owner == nullptr ? shape.key : mixed(shape.key, owner);
}

// One last launched on the same stream follows itself there anyway, and one not launched for long holds nobody up;
// otherwise none, so that another is made, as long as more may be.
GraphExecutable ExecutableCache::find(GraphShape wanted, const Use& use, Found& found) {
  const std::lock_guard hold(mutex_);
  Shape& shape = shapes_[key_of(wanted, use.owner)];
  shape.owner = use.owner;
  shape.nodes = wanted.nodes;
  shape.used = ++turn_;
  const auto at = std::min_element(shape.idle.begin(), shape.idle.end(), [&](const Instance& a, const Instance& b) {
    const bool a_here = a.stream == use.stream, b_here = b.stream == use.stream;
    return a_here != b_here ? a_here : a.used < b.used;
  });
  found = at == shape.idle.end() ? Found::made : Found::made_beside;
  if (at == shape.idle.end() || (at->stream != use.stream && shape.idle.size() < LaunchRules::k_a_shape &&
                                 turn_ - at->used < LaunchRules::k_long_ago))
    return {};
  found = Found::updated;
  GraphExecutable executable = std::move(at->executable);
  shape.idle.erase(at);
  --size_;
  nodes_ -= shape.nodes;
  return executable;
}

ExecutableCache::Lease ExecutableCache::take(GraphShape shape, cudaGraph_t graph, const Use& use) {
  Lease lease;
  if (use.alone)
    lease.found_ = Found::made;
  else
    lease.executable_ = find(shape, use, lease.found_);
  if (lease.get() != nullptr) {
    cudaGraphExecUpdateResultInfo info{};
    if (cudaGraphExecUpdate(lease.get(), graph, &info) != cudaSuccess) {
      cudaGetLastError();  // the same names in the same order, but other kernels inside
      lease.executable_ = {};
      lease.found_ = Found::made;
    }
  }
  if (lease.get() == nullptr) {
    cudaGraphExec_t made = nullptr;
    cuda_check(cudaGraphInstantiate(&made, graph, use.flags), "cudaGraphInstantiate");
    lease.executable_ = GraphExecutable(made);
  }
  lease.cache_ = use.alone ? nullptr : this;
  lease.shape_ = shape;
  lease.owner_ = use.owner;
  lease.stream_ = use.stream;
  return lease;
}

void ExecutableCache::put(Lease& lease) {
  const std::lock_guard hold(mutex_);
  const std::uint64_t key = key_of(lease.shape_, lease.owner_);
  Shape& shape = shapes_[key];
  shape.owner = lease.owner_;
  shape.nodes = lease.shape_.nodes;
  shape.used = std::max(shape.used, turn_);
  shape.idle.push_back({std::move(lease.executable_), lease.stream_, turn_});
  ++size_;
  nodes_ += shape.nodes;
  make_room(key);
}

// What was used longest ago goes; launches of it that are under way end as if it were there.
void ExecutableCache::make_room(std::uint64_t but) {
  while ((size_ > k_most || nodes_ > k_most_nodes) && shapes_.size() > 1) {
    auto oldest = shapes_.end();
    for (auto at = shapes_.begin(); at != shapes_.end(); ++at) {
      if (at->first != but && (oldest == shapes_.end() || at->second.used < oldest->second.used))
        oldest = at;
    }
    drop(oldest);
  }
}

ExecutableCache::Shapes::iterator ExecutableCache::drop(Shapes::iterator at) noexcept {
  size_ -= at->second.idle.size();
  nodes_ -= at->second.idle.size() * at->second.nodes;
  return shapes_.erase(at);
}

void ExecutableCache::forget(const void* owner) noexcept {
  const std::lock_guard hold(mutex_);
  for (auto at = shapes_.begin(); at != shapes_.end();)
    at = at->second.owner == owner ? drop(at) : std::next(at);
}

}  // namespace sluice::detail
