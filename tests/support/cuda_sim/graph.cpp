// Graphs, made by capture alone.
#include <algorithm>
#include <map>
#include <utility>

#include "tests/support/cuda_sim/world.h"

using namespace sluice::test::sim;

namespace {

std::vector<Node> copy_nodes(const CUgraph_st& graph);

// The nodes of the side that the value says, one after the other; of a loop's, as long as it says so.
void add_sides(Node& node) {
  std::vector<std::vector<Node>> sides;
  for (cudaGraph_t side : node.branch->sides) {
    sides.push_back(copy_nodes(*side));
    for (const Node& inner : sides.back())
      node.touches.insert(node.touches.end(), inner.touches.begin(), inner.touches.end());
  }
  node.work = std::make_shared<const std::function<void()>>([branch = node.branch, sides = std::move(sides)] {
    const auto run = [&](std::size_t side) {
      for (const Node& inner : sides[side]) {
        if (inner.work != nullptr)
          (*inner.work)();
      }
    };
    if (sides.size() == 2)
      return run(branch->value != 0 ? 0 : 1);
    while (branch->value != 0)
      run(0);
  });
}

std::vector<Node> copy_nodes(const CUgraph_st& graph) {
  std::vector<Node> nodes;
  nodes.reserve(graph.nodes.size());
  for (const auto& node : graph.nodes) {
    nodes.push_back(node->node);
    if (node->node.kind == Kind::branch)
      add_sides(nodes.back());
  }
  return nodes;
}

cudaError_t instantiate(World& all, cudaGraphExec_t* made, cudaGraph_t handle) {
  const CUgraph_st& graph = all.graph(handle);
  const int device = all.current_device();
  if (made == nullptr)
    return cudaErrorInvalidValue;
  for (const CaptureRef& capture : all.captures) {
    if (capture->graph == handle)
      return cudaErrorInvalidValue;  // still under capture
  }
  if (!bodies_are_allowed(all, graph))
    return cudaErrorNotSupported;
  CUgraphExec_st* const exec = all.execs.make();
  exec->device = device;
  exec->nodes = copy_nodes(graph);
  *made = exec;
  return cudaSuccess;
}

OpRef make_launch(World& all, const CUgraphExec_st& exec, int device) {
  auto whole = std::make_shared<Op>();
  whole->kind = Kind::graph;
  whole->device = device;
  whole->parts_left = exec.nodes.size();
  for (const Node& node : exec.nodes) {
    auto part = std::make_shared<Op>();
    part->kind = node.kind;
    part->device = node.device;
    part->work = node.work;
    part->touches = node.touches;
    part->has_to_wait = !node.early.empty();
    for (std::size_t before : node.before)
      part->needs.push_back(whole->parts[before]);
    if (node.event != nullptr) {
      CUevent_st& event = all.event(node.event);
      if (node.kind == Kind::record) {
        event.latest = part;
        event.capture.reset();
      } else if (event.latest != nullptr) {
        part->needs.push_back(event.latest);
      }
    }
    whole->parts.push_back(std::move(part));
  }
  if (exec.last != nullptr)
    whole->needs.push_back(exec.last);
  return whole;
}

cudaGraphExecUpdateResult compare(const std::vector<Node>& have, const std::vector<Node>& want) {
  if (have.size() != want.size())
    return cudaGraphExecUpdateErrorTopologyChanged;
  for (std::size_t i = 0; i < have.size(); ++i) {
    if (have[i].kind != want[i].kind)
      return cudaGraphExecUpdateErrorNodeTypeChanged;
    if (have[i].before != want[i].before || have[i].early != want[i].early || have[i].device != want[i].device)
      return cudaGraphExecUpdateErrorTopologyChanged;
  }
  return cudaGraphExecUpdateSuccess;
}

bool same_kernels(const std::vector<Node>& have, const std::vector<Node>& want) {
  return std::equal(have.begin(), have.end(), want.begin(), [](const Node& one, const Node& other) {
    return one.kind != Kind::kernel ||
           (one.work->target_type() == other.work->target_type() && one.cluster == other.cluster);
  });
}

cudaGraphEdgeData edge_of(const Node& node, std::size_t before) {
  cudaGraphEdgeData edge{};
  if (std::find(node.early.begin(), node.early.end(), before) != node.early.end()) {
    edge.from_port = cudaGraphKernelNodePortProgrammatic;
    edge.type = cudaGraphDependencyTypeProgrammatic;
  }
  return edge;
}

void drop(World& all, CUgraph_st& graph) {
  graph.alive = false;
  all.dropped.push_back(copy_nodes(graph));
  for (const BranchRef& branch : graph.branches) {
    for (cudaGraph_t side : branch->sides)
      drop(all, *side);
  }
  graph.nodes.clear();
  graph.branches.clear();
}

bool is_early(const cudaGraphEdgeData& edge) {
  return edge.type == cudaGraphDependencyTypeProgrammatic;
}

}  // namespace

cudaError_t cudaGraphNodeGetDependencies(
    cudaGraphNode_t handle, cudaGraphNode_t* before, cudaGraphEdgeData* edges, size_t* count) {
  return call("cudaGraphNodeGetDependencies", [&](World& all, Lock&) {
    if (handle == nullptr || count == nullptr)
      return cudaErrorInvalidValue;
    const Node& node = handle->node;
    const size_t total = before == nullptr ? 0 : std::min(*count, node.before.size());
    for (size_t i = 0; i < total; ++i) {
      before[i] = all.graph(handle->graph).nodes[node.before[i]].get();
      if (edges != nullptr)
        edges[i] = edge_of(node, node.before[i]);
    }
    *count = before == nullptr ? node.before.size() : total;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphRemoveDependencies(
    cudaGraph_t graph,
    const cudaGraphNode_t* from,
    const cudaGraphNode_t* to,
    const cudaGraphEdgeData* edges,
    size_t count) {
  return call("cudaGraphRemoveDependencies", [&](World& all, Lock&) {
    all.graph(graph);
    for (size_t i = 0; i < count; ++i) {
      Node& node = to[i]->node;
      const cudaGraphEdgeData named = edges == nullptr ? cudaGraphEdgeData{} : edges[i];
      const auto at = std::find(node.before.begin(), node.before.end(), from[i]->index);
      if (at == node.before.end() || is_early(edge_of(node, *at)) != is_early(named))
        return cudaErrorInvalidValue;
      std::erase(node.early, *at);
      node.before.erase(at);
    }
    return cudaSuccess;
  });
}

cudaError_t cudaGraphAddDependencies(
    cudaGraph_t graph,
    const cudaGraphNode_t* from,
    const cudaGraphNode_t* to,
    const cudaGraphEdgeData* edges,
    size_t count) {
  return call("cudaGraphAddDependencies", [&](World& all, Lock&) {
    all.graph(graph);
    for (size_t i = 0; i < count; ++i) {
      Node& node = to[i]->node;
      const bool early = edges != nullptr && is_early(edges[i]);
      const bool kernels = node.kind == Kind::kernel && from[i]->node.kind == Kind::kernel;
      const bool known = std::find(node.before.begin(), node.before.end(), from[i]->index) != node.before.end();
      if (known || from[i]->index >= to[i]->index || (early && (!kernels || edges[i].from_port == 0)))
        return cudaErrorInvalidValue;
      node.before.insert(std::upper_bound(node.before.begin(), node.before.end(), from[i]->index), from[i]->index);
      if (early)
        node.early.insert(std::upper_bound(node.early.begin(), node.early.end(), from[i]->index), from[i]->index);
    }
    return cudaSuccess;
  });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t* nodes, size_t* count) {
  return call("cudaGraphGetNodes", [&](World& all, Lock&) {
    const CUgraph_st& graph = all.graph(handle);
    if (count == nullptr)
      return cudaErrorInvalidValue;
    for (size_t i = 0; nodes != nullptr && i < *count; ++i)
      nodes[i] = i < graph.nodes.size() ? graph.nodes[i].get() : nullptr;
    *count = nodes == nullptr ? graph.nodes.size() : std::min(*count, graph.nodes.size());
    return cudaSuccess;
  });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return call("cudaGraphNodeGetType", [&](World&, Lock&) {
    if (node == nullptr || type == nullptr)
      return cudaErrorInvalidValue;
    const std::map<Kind, cudaGraphNodeType> types{
        {Kind::kernel, cudaGraphNodeTypeKernel},
        {Kind::copy, cudaGraphNodeTypeMemcpy},
        {Kind::fill, cudaGraphNodeTypeMemset},
        {Kind::host, cudaGraphNodeTypeHost},
        {Kind::record, cudaGraphNodeTypeEventRecord},
        {Kind::wait, cudaGraphNodeTypeWaitEvent},
        {Kind::graph, cudaGraphNodeTypeGraph},
        {Kind::empty, cudaGraphNodeTypeEmpty},
        {Kind::free, cudaGraphNodeTypeMemFree},
        {Kind::branch, cudaGraphNodeTypeConditional}};
    *type = types.at(node->node.kind);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphGetEdges(
    cudaGraph_t handle, cudaGraphNode_t* from, cudaGraphNode_t* to, cudaGraphEdgeData* data, size_t* count) {
  return call("cudaGraphGetEdges", [&](World& all, Lock&) {
    const CUgraph_st& graph = all.graph(handle);
    if (count == nullptr || (from == nullptr) != (to == nullptr))
      return cudaErrorInvalidValue;
    size_t total = 0;
    for (const auto& node : graph.nodes) {
      for (std::size_t before : node->node.before) {
        if (from != nullptr && total < *count) {
          from[total] = graph.nodes[before].get();
          to[total] = node.get();
          if (data != nullptr)
            data[total] = edge_of(node->node, before);
        }
        ++total;
      }
    }
    *count = from == nullptr ? total : std::min(*count, total);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  return call("cudaGraphInstantiate", [&](World& all, Lock&) { return instantiate(all, made, graph); });
}

cudaError_t cudaGraphInstantiateWithParams(
    cudaGraphExec_t* made, cudaGraph_t graph, cudaGraphInstantiateParams* parameters) {
  return call("cudaGraphInstantiateWithParams", [&](World& all, Lock&) {
    parameters->result_out = cudaGraphInstantiateError;
    parameters->errNode_out = nullptr;
    const cudaError_t status = instantiate(all, made, graph);
    if (status == cudaSuccess)
      parameters->result_out = cudaGraphInstantiateSuccess;
    return status;
  });
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t handle, cudaGraph_t source, cudaGraphExecUpdateResultInfo* info) {
  return call("cudaGraphExecUpdate", [&](World& all, Lock&) {
    CUgraphExec_st& exec = all.exec(handle);
    std::vector<Node> wanted = copy_nodes(all.graph(source));
    const cudaGraphExecUpdateResult result = compare(exec.nodes, wanted);
    if (info != nullptr)
      *info = {.result = result, .errorNode = nullptr, .errorFromNode = nullptr};
    if (result != cudaGraphExecUpdateSuccess)
      return cudaErrorGraphExecUpdateFailure;
    if (std::any_of(wanted.begin(), wanted.end(), [](const Node& node) { return node.kind == Kind::branch; }))
      all.violation("a graph with branches was brought up to date, of which CUDA says little");
    if (!same_kernels(exec.nodes, wanted))
      all.violation("a graph was brought up to date with other kernels or clusters than it was made with");
    std::swap(exec.nodes, wanted);  // launches under way keep what they were launched with
    all.dropped.push_back(std::move(wanted));
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t where) {
  return call("cudaGraphLaunch", [&](World& all, Lock&) {
    CUgraphExec_st& exec = all.exec(handle);
    CUstream_st& stream = all.stream(where);
    all.refuse_capture(stream);
    OpRef launched = make_launch(all, exec, stream.device);
    exec.last = launched;
    all.enqueue(stream, std::move(launched));
    return cudaSuccess;
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t handle, cudaStream_t where) {
  return call("cudaGraphUpload", [&](World& all, Lock&) {
    all.exec(handle);
    CUstream_st& stream = all.stream(where);
    all.refuse_capture(stream);
    all.add(stream, {.kind = Kind::empty});
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t handle) {
  return call("cudaGraphExecDestroy", [&](World& all, Lock&) {
    CUgraphExec_st& exec = all.alive(all.execs, handle, "an executable graph");
    exec.alive = false;
    exec.last.reset();
    all.dropped.push_back(std::move(exec.nodes));
    all.check_device(exec.device);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t handle) {
  return call("cudaGraphDestroy", [&](World& all, Lock&) {
    CUgraph_st& graph = all.alive(all.graphs, handle, "a graph");
    for (const CaptureRef& capture : all.captures) {
      if (capture->graph == handle) {
        all.violation("a graph was destroyed while its capture was under way");
        return cudaErrorInvalidValue;
      }
    }
    if (graph.is_side) {
      all.violation("a side of a branch was destroyed apart from its graph");
      return cudaErrorInvalidValue;
    }
    drop(all, graph);
    return cudaSuccess;
  });
}
