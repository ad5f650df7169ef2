#include <algorithm>
#include <utility>

#include <sluice/engine/error.h>
#include <sluice/gluon/detail/hybrid.h>
#include <sluice/gluon/detail/why_by_hand.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/view/attributes.h>

namespace sluice::gluon::detail {

namespace {

/// Makes a program of a traced call.
class Making {
 public:
  Making(
      std::shared_ptr<const TracedForward> traced, const HybridOptions& options, std::span<const Parameter> parameters)
      : traced_(std::move(traced)), options_(options), parameters_(parameters) {
    static_cast<ForwardOutline&>(*made_) = *traced_;
  }

  std::shared_ptr<const HybridProgram> run(Engine& engine) {
    made_->engine = engine.new_var();
    const graph::Graph& marked = traced_->program.graph;
    const graph::Graph joint = graph::without_detached(marked);
    if (made_->by_hand.empty())
      made_->by_hand = why_writing(joint);  // the caller's arrays, where a plan would not
    if (!made_->by_hand.empty())
      return made_;
    if (std::find(traced_->batched.begin(), traced_->batched.end(), true) != traced_->batched.end())
      made_->traced = traced_;
    if (!made_->recorded || made_->heads.empty()) {
      graph::PlanOptions plan = options_.plan;
      plan.keep_results = !made_->recorded;                       // of recorded calls the tape holds some for long
      plan.keep_derived = plan.keep_derived && !made_->recorded;  // parameters that train change each time
      made_->forward = std::make_unique<graph::Plan>(joint, plan, engine);
    } else {
      note_again(marked);
      place_.nodes = static_cast<std::size_t>(std::count_if(
          marked.nodes.begin(),
          marked.nodes.begin() + static_cast<std::ptrdiff_t>(place_.nodes),
          [](const graph::Node& node) { return node.op != &sluice::detail::k_detach; }));
      try {
        cut(joint, engine);
      } catch (const AutogradError& error) {  // it writes in place what some gradient needs; perhaps nobody asks for it
        made_->by_hand = error.message();
      }
    }
    note_captured(joint);
    return made_;
  }

 private:
  // Of what the program reads beside inputs and parameters somebody may ask for gradients later.
  void note_captured(const graph::Graph& graph) {
    for (const graph::Value& value : graph.values) {
      const bool is_parameter = std::any_of(parameters_.begin(), parameters_.end(), [&](const Parameter& parameter) {
        return value.array.defined() && parameter.data().same(value.array);
      });
      if (value.source == graph::Source::constant && is_floating(value.spec.dtype) && !is_parameter)
        made_->captured.push_back(value.array);
    }
  }

  // Before it is cut, so that less is kept from the one part to the other; copies in the second part share memory as
  // the order of its nodes says. Each part alone has nothing to gain.
  graph::Graph within_budget(const graph::Graph& joint, graph::PlanOptions& plan) const {
    const std::size_t budget = std::exchange(plan.memory_budget, 0);
    if (budget == 0 || !plan.share_memory || graph::planned_bytes(joint, graph::Sharing::proven, false) <= budget)
      return joint;
    plan.share_in_order = true;
    return graph::with_recomputation(joint, {.budget = budget, .program = place_.nodes, .keep_derived = false});
  }

  void cut(const graph::Graph& whole, Engine& engine) {
    graph::PlanOptions plan = options_.plan;
    plan.keep_derived = false;
    graph::SplitGraph parts = graph::split(within_budget(whole, plan), place_);
    for (graph::ValueId id = 0; id < parts.forward.values.size(); ++id) {
      if (parts.forward.values[id].source != graph::Source::random || !is_read(parts.forward, id))
        continue;
      parts.forward.outputs.push_back(id);
      ++made_->random;
    }
    for (graph::ValueId id = 0; id < parts.backward.values.size(); ++id) {
      const graph::Value& value = parts.backward.values[id];
      if (value.source == graph::Source::constant && is_read(parts.backward, id))
        made_->constants.push_back(value.array);
    }
    std::erase_if(made_->constants_again, [&](const NDArray& array) {  // looked at anyway
      return std::any_of(
          made_->constants.begin(), made_->constants.end(), [&](const NDArray& one) { return one.same(array); });
    });
    made_->forward = std::make_unique<graph::Plan>(parts.forward, plan, engine);
    made_->backward = std::make_unique<graph::Plan>(parts.backward, plan, engine);
  }

  // The program with the places where its gradients end, as far as there are any.
  void note_again(const graph::Graph& marked) {
    graph::Graph program = marked;
    program.nodes.resize(place_.nodes);
    program.inputs.resize(place_.inputs);
    program.outputs.clear();
    for (const std::size_t head : made_->heads)
      program.outputs.push_back(marked.outputs[head]);
    made_->again = graph::for_outputs_alone(program);
    made_->constants_again = graph::steady_constants(made_->again);
    std::size_t drawn = 0;
    for (graph::ValueId id = 0; id < program.values.size(); ++id) {
      if (program.values[id].source != graph::Source::random || !is_read(program, id))
        continue;
      if (is_read(made_->again, id))
        made_->random_again.push_back(drawn);
      ++drawn;
    }
  }

  static bool is_read(const graph::Graph& graph, graph::ValueId value) {
    return std::any_of(graph.nodes.begin(), graph.nodes.end(), [value](const graph::Node& node) {
      return std::find(node.inputs.begin(), node.inputs.end(), value) != node.inputs.end();
    });
  }

  const std::shared_ptr<const TracedForward> traced_;
  const HybridOptions& options_;
  const std::span<const Parameter> parameters_;
  graph::SplitPlace place_ = traced_->place;
  std::shared_ptr<HybridProgram> made_ = std::make_shared<HybridProgram>();
};

Engine& engine_for(std::span<const NDArray> inputs) {
  return inputs.empty() ? Engine::current() : inputs[0].engine();
}

}  // namespace

std::shared_ptr<const HybridProgram> make_program(
    const Hybrid::Forward& forward,
    const std::vector<Parameter>& parameters,
    const HybridOptions& options,
    std::span<const NDArray> inputs,
    const std::vector<bool>& wanted,
    bool recorded) {
  Engine& engine = engine_for(inputs);
  const EngineScope here(engine);
  std::vector<ArraySpec> specs;
  for (const NDArray& input : inputs)
    specs.push_back(spec_of(input));
  const ForwardCall call{forward, specs, wanted, parameters, recorded};
  auto traced = std::make_shared<TracedForward>(trace_forward(call));
  if (options.batch_sizes == BatchSizes::any)
    compare_batches(call, *traced);
  return Making(std::move(traced), options, parameters).run(engine);
}

std::shared_ptr<const HybridProgram> make_program_like(
    const TracedForward& known,
    const std::vector<Parameter>& parameters,
    const HybridOptions& options,
    std::span<const NDArray> inputs) {
  Engine& engine = engine_for(inputs);
  const EngineScope here(engine);
  std::vector<ArraySpec> specs;
  for (const NDArray& input : inputs)
    specs.push_back(spec_of(input));
  std::shared_ptr<const TracedForward> traced = for_batch(known, specs);
  return traced == nullptr ? nullptr : Making(std::move(traced), options, parameters).run(engine);
}

}  // namespace sluice::gluon::detail
