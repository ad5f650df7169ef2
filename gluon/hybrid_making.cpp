#include <algorithm>
#include <utility>

#include <sluice/engine/error.h>
#include <sluice/gluon/detail/hybrid.h>
#include <sluice/gluon/detail/tape.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/graph/trace.h>

namespace sluice::gluon::detail {

namespace {

/// Makes a program of one call.
class Making {
 public:
  Making(const Hybrid::Forward& forward, std::vector<Parameter> parameters, const HybridOptions& options)
      : forward_(forward), parameters_(std::move(parameters)), options_(options) {}

  std::shared_ptr<const HybridProgram> run(
      std::span<const NDArray> inputs, const std::vector<bool>& wanted, bool recorded) {
    Engine& engine = inputs.empty() ? Engine::current() : inputs[0].engine();
    const EngineScope here(engine);
    made_->training = autograd::is_training();
    made_->engine = engine.new_var();
    for (std::size_t i = 0; i < inputs.size(); ++i)
      inputs_.push_back(tracer_.input(spec_of(inputs[i]), recorded && wanted[i]));
    const graph::Graph marked = tracer_.trace([&] { return recorded ? trace_with_gradients(wanted) : trace_alone(); });
    const graph::Graph joint = graph::without_detached(marked);
    if (writes_inputs(joint))
      made_->by_hand = true;
    if (made_->by_hand)
      return made_;
    if (!recorded || made_->heads.empty()) {
      graph::PlanOptions plan = options_.plan;
      plan.keep_results = !recorded;                       // of recorded calls the tape holds some for long
      plan.keep_derived = plan.keep_derived && !recorded;  // parameters that train change each time
      made_->forward = std::make_unique<graph::Plan>(joint, plan, engine);
    } else {
      made_->again = program_of(marked);
      place_.nodes -= marked.nodes.size() - joint.nodes.size();  // gradients take nothing off the tape
      try {
        cut(joint, engine);
      } catch (const AutogradError&) {  // it writes in place what some gradient needs; perhaps nobody asks for that one
        made_->by_hand = true;
      }
    }
    note_captured(joint);
    return made_;
  }

 private:
  Arrays trace_alone() {
    // Nothing that is known to be on the tape is read; an array that forward brings along may be.
    const autograd::ModeScope mode(autograd::is_recording(), made_->training);
    const Arrays outputs = forward_(inputs_);
    note_outputs(outputs);
    made_->by_hand = !tracer_.recorded_constants().empty() && autograd::is_recording();
    return outputs;
  }

  void note_outputs(const Arrays& outputs) {
    made_->outputs = outputs.size();
    for (const NDArray& output : outputs) {
      const bool is_input =
          std::any_of(inputs_.begin(), inputs_.end(), [&](const NDArray& input) { return input.same(output); });
      made_->passed_on.push_back(is_input || autograd::on_tape(output));
    }
  }

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

  Arrays trace_with_gradients(const std::vector<bool>& wanted) {
    made_->wanted = wanted;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i])
        inputs_[i].attach_grad();
    }
    Arrays outputs;
    {
      const autograd::ModeScope recording(true, made_->training);
      outputs = forward_(inputs_);
    }
    note_outputs(outputs);
    place_ = {tracer_.size(), inputs_.size(), outputs.size()};
    if (captures_recorded()) {
      made_->by_hand = true;
      return outputs;
    }
    const std::vector<NDArray> gradients = trace_gradients(outputs);
    outputs.insert(outputs.end(), gradients.begin(), gradients.end());
    return outputs;
  }

  // Gradients of arrays that are neither inputs nor parameters: where they go the tape knows.
  bool captures_recorded() const {
    const std::vector<NDArray>& used = tracer_.recorded_constants();
    return std::any_of(used.begin(), used.end(), [&](const NDArray& one) {
      return std::none_of(parameters_.begin(), parameters_.end(), [&](const Parameter& parameter) {
        return parameter.data().same(one);
      });
    });
  }

  std::vector<NDArray> trace_gradients(const Arrays& outputs) {
    std::vector<NDArray> heads, head_gradients, variables;
    Tape tape;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!autograd::on_tape(outputs[i]))
        continue;
      made_->heads.push_back(i);
      heads.push_back(outputs[i]);
      head_gradients.push_back(tracer_.late_input(spec_of(outputs[i])));
      tape.add(outputs[i]);
    }
    if (heads.empty())
      return {};
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      made_->wanted[i] = made_->wanted[i] && tape.reaches(inputs_[i]);
      if (made_->wanted[i])
        variables.push_back(inputs_[i]);
    }
    for (const Parameter& parameter : parameters_) {
      const NDArray& data = parameter.data();
      const bool is_listed = std::any_of(
          made_->parameters.begin(), made_->parameters.end(), [&](const NDArray& one) { return one.same(data); });
      if (autograd::on_tape(data) && tape.reaches(data) && !is_listed)  // layers may share one
        made_->parameters.push_back(data);
    }
    variables.insert(variables.end(), made_->parameters.begin(), made_->parameters.end());
    if (variables.empty()) {
      made_->heads.clear();
      return {};
    }
    return autograd::grad(heads, variables, head_gradients);
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
    made_->forward = std::make_unique<graph::Plan>(parts.forward, plan, engine);
    made_->backward = std::make_unique<graph::Plan>(parts.backward, plan, engine);
  }

  // With the places where its gradients end.
  graph::Graph program_of(const graph::Graph& marked) const {
    graph::Graph program = marked;
    program.nodes.resize(place_.nodes);
    program.inputs.resize(place_.inputs);
    program.outputs.resize(place_.outputs);
    return program;
  }

  // In the caller's arrays, where a plan would not.
  static bool writes_inputs(const graph::Graph& graph) {
    std::vector<bool> written(graph.values.size());
    for (const graph::Node& node : graph.nodes) {
      for (const graph::Result& result : node.results)
        written[graph.root(result.value)] = written[graph.root(result.value)] || !result.made;
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        written[graph.root(node.inputs[i])] = written[graph.root(node.inputs[i])] || node.mutates(i);
    }
    return std::any_of(graph.inputs.begin(), graph.inputs.end(), [&](graph::ValueId input) { return written[input]; });
  }

  static bool is_read(const graph::Graph& graph, graph::ValueId value) {
    return std::any_of(graph.nodes.begin(), graph.nodes.end(), [value](const graph::Node& node) {
      return std::find(node.inputs.begin(), node.inputs.end(), value) != node.inputs.end();
    });
  }

  const Hybrid::Forward& forward_;
  const std::vector<Parameter> parameters_;
  const HybridOptions& options_;
  graph::Tracer tracer_{graph::Outside::constants, graph::Detached::kept};
  std::vector<NDArray> inputs_;
  graph::SplitPlace place_;
  std::shared_ptr<HybridProgram> made_ = std::make_shared<HybridProgram>();
};

}  // namespace

std::shared_ptr<const HybridProgram> make_program(
    const Hybrid::Forward& forward,
    std::vector<Parameter> parameters,
    const HybridOptions& options,
    std::span<const NDArray> inputs,
    const std::vector<bool>& wanted,
    bool recorded) {
  return Making(forward, std::move(parameters), options).run(inputs, wanted, recorded);
}

}  // namespace sluice::gluon::detail
