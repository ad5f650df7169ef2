#include <algorithm>
#include <new>

#include <boost/container/small_vector.hpp>

#include <sluice/engine/cuda/mixed.h>
#include <sluice/engine/cuda/repeats.h>

namespace sluice::detail {

using cuda::cuda_check;

namespace {

std::uint64_t hash_of(const Batch::Script& script) noexcept {
  std::uint64_t hash = script.size();
  for (std::uint64_t word : script)
    hash = mixed(hash, word);
  return hash;
}

// Copies and fills of memory are not kept: the driver looks at addresses when it makes them, and what lies there may be
// other memory by then.
bool has_kernels_only(cudaGraph_t graph) {
  std::size_t count = 0;
  cuda_check(cudaGraphGetNodes(graph, nullptr, &count), "cudaGraphGetNodes");
  boost::container::small_vector<cudaGraphNode_t, Batch::k_most> nodes(count);
  cuda_check(cudaGraphGetNodes(graph, nodes.data(), &count), "cudaGraphGetNodes");
  return std::all_of(nodes.begin(), nodes.end(), [](cudaGraphNode_t node) {
    cudaGraphNodeType type{};
    cuda_check(cudaGraphNodeGetType(node, &type), "cudaGraphNodeGetType");
    return type == cudaGraphNodeTypeKernel;
  });
}

}  // namespace

void Repeats::learn(std::uint64_t description) noexcept try {
  if (bodies_.size() >= k_most_bodies)
    bodies_.clear();
  bodies_.insert(description);
} catch (const std::bad_alloc&) {  // it is captured again next time
}

cudaGraphExec_t Repeats::find(const Batch::Script& script) noexcept {
  ++turn_;
  if (script.empty())
    return nullptr;
  const auto found = known_.find(hash_of(script));
  if (found == known_.end() || found->second.script != script)
    return nullptr;
  found->second.used = turn_;
  return found->second.executable.get();
}

// Not for those that came lately: where more come round than may be kept, some are better than none.
bool Repeats::make_room() {
  if (executables_ < k_most_executables)
    return true;
  auto oldest = known_.end();
  for (auto it = known_.begin(); it != known_.end(); ++it) {
    if (it->second.executable.get() != nullptr && (oldest == known_.end() || it->second.used < oldest->second.used))
      oldest = it;
  }
  if (turn_ - oldest->second.used < k_long_ago)
    return false;
  known_.erase(oldest);
  --executables_;
  return true;
}

cudaGraphExec_t Repeats::keep(const Batch::Script& script, cudaGraph_t graph) {
  ++turn_;
  if (script.empty())
    return nullptr;
  const std::uint64_t hash = hash_of(script);
  const auto found = known_.find(hash);
  if (found == known_.end()) {
    if (known_.size() - executables_ >= k_most_seen)
      std::erase_if(known_, [](const auto& each) { return each.second.executable.get() == nullptr; });
    known_[hash];
    return nullptr;
  }
  if (found->second.executable.get() != nullptr)
    return found->second.script == script ? found->second.executable.get() : nullptr;
  if (found->second.refused || !make_room())
    return nullptr;
  found->second.refused = !has_kernels_only(graph);
  if (found->second.refused)
    return nullptr;
  cudaGraphExec_t made = nullptr;
  cuda_check(cudaGraphInstantiate(&made, graph, cudaGraphInstantiateFlagUseNodePriority), "cudaGraphInstantiate");
  Known& known = found->second;
  known.executable = GraphExecutable(made);
  known.script = script;
  known.used = turn_;
  ++executables_;
  ++made_;
  return made;
}

}  // namespace sluice::detail
