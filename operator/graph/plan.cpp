#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <sluice/engine/region.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/buffers_kept.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/graph/detail/binding.h>
#include <sluice/operator/graph/detail/effects.h>
#include <sluice/operator/graph/detail/replay.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/graph/plan.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/sink.h>

namespace sluice::graph {

namespace {

void check_inputs(const Graph& graph, std::span<const NDArray> inputs) {
  require<ValueError>(inputs.size() == graph.inputs.size(), [&] {
    return message("plan: takes ", graph.inputs.size(), " inputs, was given ", inputs.size());
  });
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ArraySpec& spec = graph.values[graph.inputs[i]].spec;
    const sluice::detail::ArrayObject& given = sluice::detail::object_of(inputs[i], "plan");
    require<ShapeError>(given.shape == spec.shape, [&] {
      return message("plan: input ", i, " has shape ", given.shape, ", the graph takes ", spec.shape);
    });
    require<DTypeError>(given.dtype == spec.dtype, [&] {
      return message("plan: input ", i, " is ", given.dtype, ", the graph takes ", spec.dtype);
    });
    require<DeviceError>(given.device == spec.device, [&] {
      return message("plan: input ", i, " is on ", given.device, ", the graph's is on ", spec.device);
    });
  }
}

/// Steps that run together: as one CUDA graph, or one by one.
struct Segment {
  std::size_t begin = 0, end = 0;
  std::unique_ptr<sluice::detail::BuffersKept> kept = {};  // what recorded calls made for themselves
  std::unique_ptr<Region> region = {};                     // of what is captured; goes before the memory
};

Device device_of(const Binding::Step& step) {
  return step.destinations.empty() ? step.inputs[0].device() : step.destinations[0].device();
}

std::vector<Segment> segments_of(const std::vector<Binding::Step>& steps, Engine& engine) {
  std::vector<Segment> segments;
  std::optional<Device> before;
  for (std::size_t at = 0; at < steps.size(); ++at) {
    const std::optional<Device> gpu = steps[at].capturable ? std::optional(device_of(steps[at])) : std::nullopt;
    if (segments.empty() || gpu != before) {
      segments.push_back({.begin = at});
      if (gpu) {
        segments.back().kept = std::make_unique<sluice::detail::BuffersKept>();
        segments.back().region = std::make_unique<Region>(engine, *gpu, "plan");
      }
      before = gpu;
    }
    segments.back().end = at + 1;
  }
  return segments;
}

}  // namespace

Arrays evaluate(const Graph& graph, std::span<const NDArray> inputs) {
  check_inputs(graph, inputs);
  return replay(graph, inputs);
}

struct Plan::State {
  Graph graph;
  const bool share_memory;
  Engine& engine;
  std::mutex mutex = {};  // of one run's pushes, which are not to be mixed with another's
  std::vector<bool> rewritten = rewritten_roots(graph);
  std::unique_ptr<Binding> binding = {};
  std::vector<Segment> segments = {};

  void bind() {
    auto bound = std::make_unique<Binding>(graph, share_memory, engine);
    std::vector<Segment> made = segments_of(bound->steps(), engine);
    segments = std::move(made);
    binding = std::move(bound);
  }

  void run_segment(const Segment& segment, SourceLocation site) {
    const auto run = [&] {
      for (std::size_t at = segment.begin; at < segment.end; ++at)
        Binding::run(binding->steps()[at]);
    };
    if (segment.region == nullptr)
      return run();
    segment.region->run(
        0,
        [&] {
          segment.kept->clear();
          const sluice::detail::BuffersKept::Scope keep(*segment.kept);
          run();
        },
        site);
  }

  Arrays results(std::span<const NDArray> inputs, SourceLocation site) const {
    Arrays made;
    for (const ValueId output : graph.outputs) {
      const Value& value = graph.values[output];
      const bool is_passed_on = !rewritten[value.root];
      if (value.source == Source::input && is_passed_on) {
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          if (graph.inputs[i] == output)
            made.push_back(inputs[i]);
        }
      } else {
        const bool is_constant = value.source == Source::constant && is_passed_on;
        made.push_back(is_constant ? value.array : binding->array(output).copy(site));
      }
    }
    return made;
  }
};

Plan::Plan(const Graph& graph, const PlanOptions& options, Engine& engine)
    : state_(new State{options.optimise ? optimised(graph) : graph, options.share_memory, engine}) {
  verify(state_->graph);
  state_->bind();
}

Plan::~Plan() = default;

Arrays Plan::run(std::span<const NDArray> inputs, SourceLocation site) {
  State& state = *state_;
  check_inputs(state.graph, inputs);
  const CallSinkScope nobody(nullptr);
  const autograd::PauseScope unrecorded;
  const EngineScope here(state.engine);
  const std::lock_guard hold(state.mutex);
  if (!state.binding->is_current())
    state.bind();
  for (std::size_t i = 0; i < inputs.size(); ++i)
    copy_into(inputs[i], state.binding->array(state.graph.inputs[i]), site);
  state.binding->draw(state.engine, site);
  for (const Segment& segment : state.segments)
    state.run_segment(segment, site);
  state.binding->raise_versions();
  return state.results(inputs, site);
}

const Graph& Plan::graph() const noexcept {
  return state_->graph;
}

PlanMemory Plan::memory() const noexcept {
  const MemoryPlan& memory = state_->binding->memory();
  return {bytes_of(memory), memory.bytes_without_sharing};
}

}  // namespace sluice::graph
