// Conditional nodes, whose bodies are graphs of their own.
#include <algorithm>
#include <utility>

#include "tests/support/cuda_sim/world.h"

using namespace sluice::test::sim;

namespace device_sim {
void set_condition(unsigned long long handle, unsigned value) noexcept;  // kernels call it
}

namespace sluice::test::sim {

namespace {

bool is_on_device(const World& all, const Range& range) {
  return range.bytes == 0 || all.block_of(range.first) != nullptr;
}

// As CUDA's programming guide has it: no nodes of the host's, of events or that allocate; copies and fills of memory
// that the device reaches, which is not what was not allocated by CUDA.
bool is_allowed(const World& all, const Node& node, int device) {
  switch (node.kind) {
    case Kind::kernel:
    case Kind::empty:
    case Kind::branch:
    case Kind::graph:
      return node.device == device;
    case Kind::copy:
    case Kind::fill:
      return node.device == device && std::all_of(node.touches.begin(), node.touches.end(), [&](const Range& range) {
               return is_on_device(all, range);
             });
    default:
      return false;
  }
}

bool is_allowed_body(const World& all, const CUgraph_st& body, int device) {
  return std::all_of(
             body.nodes.begin(),
             body.nodes.end(),
             [&](const auto& node) { return is_allowed(all, node->node, device); }) &&
         bodies_are_allowed(all, body);
}

}  // namespace

bool bodies_are_allowed(const World& all, const CUgraph_st& graph) {
  return std::all_of(graph.nodes.begin(), graph.nodes.end(), [&](const auto& node) {
    return node->node.branch == nullptr ||
           std::all_of(node->node.branch->sides.begin(), node->node.branch->sides.end(), [&](cudaGraph_t side) {
             return is_allowed_body(all, *side, node->node.device);
           });
  });
}

}  // namespace sluice::test::sim

cudaError_t cudaGraphConditionalHandleCreate(
    cudaGraphConditionalHandle* made, cudaGraph_t handle, unsigned value, unsigned) {
  return call("cudaGraphConditionalHandleCreate", [&](World& all, Lock&) {
    CUgraph_st& graph = all.graph(handle);
    graph.branches.push_back(std::make_shared<Branch>());
    graph.branches.back()->value = value;
    *made = reinterpret_cast<cudaGraphConditionalHandle>(graph.branches.back().get());
    return cudaSuccess;
  });
}

cudaError_t cudaGraphAddNode(
    cudaGraphNode_t* made,
    cudaGraph_t handle,
    const cudaGraphNode_t* before,
    const cudaGraphEdgeData*,
    size_t count,
    cudaGraphNodeParams* params) {
  return call("cudaGraphAddNode", [&](World& all, Lock&) {
    CUgraph_st& graph = all.graph(handle);
    cudaConditionalNodeParams& wanted = params->conditional;
    const auto of_handle = [&](const BranchRef& branch) {
      return reinterpret_cast<cudaGraphConditionalHandle>(branch.get()) == wanted.handle;
    };
    const auto branch = std::find_if(graph.branches.begin(), graph.branches.end(), of_handle);
    if (params->type != cudaGraphNodeTypeConditional ||
        wanted.size != (wanted.type == cudaGraphCondTypeWhile ? 1u : 2u) || wanted.type == cudaGraphCondTypeSwitch ||
        branch == graph.branches.end() || std::exchange((*branch)->used, true))
      return cudaErrorInvalidValue;
    graph.nodes.push_back(std::make_unique<CUgraphNode_st>());
    CUgraphNode_st& node = *graph.nodes.back();
    node.graph = handle;
    node.index = graph.nodes.size() - 1;
    node.node.kind = Kind::branch;
    node.node.device = all.current_device();
    node.node.branch = *branch;
    for (size_t i = 0; i < count; ++i)
      node.node.before.push_back(before[i]->index);
    std::sort(node.node.before.begin(), node.node.before.end());
    for (unsigned i = 0; i < wanted.size; ++i) {
      (*branch)->sides.push_back(all.graphs.make());
      (*branch)->sides.back()->is_side = true;
    }
    wanted.phGraph_out = (*branch)->sides.data();
    *made = &node;
    return cudaSuccess;
  });
}

void device_sim::set_condition(unsigned long long handle, unsigned value) noexcept {
  reinterpret_cast<Branch*>(handle)->value = value;
}
