#include <algorithm>
#include <utility>

#include <sluice/engine/detail/engine_access.h>
#include <sluice/engine/error.h>
#include <sluice/gluon/detail/hybrid.h>
#include <sluice/gluon/detail/hybrid_node.h>
#include <sluice/gluon/detail/network_changes.h>
#include <sluice/gluon/detail/tape.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/graph/trace.h>

namespace sluice::gluon::detail {

namespace {

ArraySpec spec_of(const NDArray& array) {
  return {array.shape(), array.dtype(), array.device()};
}

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
    for (const NDArray& input : inputs)
      inputs_.push_back(tracer_.input(spec_of(input)));
    const graph::Graph joint = tracer_.trace([&] { return recorded ? trace_with_gradients(wanted) : trace_alone(); });
    if (writes_inputs(joint))
      made_->by_hand = true;
    if (made_->by_hand)
      return made_;
    if (!recorded || made_->heads.empty())
      made_->forward = std::make_unique<graph::Plan>(joint, options_.plan, engine);
    else
      cut(joint, engine);
    return made_;
  }

 private:
  Arrays trace_alone() {
    const autograd::PauseScope unrecorded(made_->training);
    const Arrays outputs = forward_(inputs_);
    made_->outputs = outputs.size();
    return outputs;
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
    made_->outputs = outputs.size();
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

  void cut(const graph::Graph& joint, Engine& engine) {
    graph::SplitGraph parts = graph::split(joint, place_);
    made_->again = parts.forward;
    made_->again.outputs.resize(made_->outputs);
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
    made_->forward = std::make_unique<graph::Plan>(parts.forward, options_.plan, engine);
    made_->backward = std::make_unique<graph::Plan>(parts.backward, options_.plan, engine);
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
  graph::Tracer tracer_;
  std::vector<NDArray> inputs_;
  graph::SplitPlace place_;
  std::shared_ptr<HybridProgram> made_ = std::make_shared<HybridProgram>();
};

Arrays call(const std::shared_ptr<const HybridProgram>& program, std::span<const NDArray> inputs, SourceLocation site) {
  Arrays results = program->forward->run(inputs, site);
  if (program->backward == nullptr)
    return results;
  const autograd::NodeRef node(new HybridNode(program, inputs, results, site));
  results.resize(program->outputs);
  for (std::size_t i = 0; i < program->heads.size(); ++i) {
    NDArray& head = results[program->heads[i]];
    head = head.detach();  // what the program hands through has a place on the tape already
    autograd::set_entry(head, node, static_cast<int>(i));
  }
  return results;
}

}  // namespace

bool Hybrid::Signature::operator==(const Signature& other) const {
  const auto same = [](const ArraySpec& a, const ArraySpec& b) {
    return a.shape == b.shape && a.dtype == b.dtype && a.device == b.device;
  };
  return recorded == other.recorded && training == other.training && precision == other.precision &&
         engine == other.engine && wanted == other.wanted && parameters == other.parameters &&
         std::equal(inputs.begin(), inputs.end(), other.inputs.begin(), other.inputs.end(), same);
}

// False where some parameter waits for its shape. What the network was before a change no program stands for any more.
bool Hybrid::list_parameters(const std::function<ParameterDict()>& list, std::vector<Parameter>& parameters) {
  const std::lock_guard hold(mutex_);
  if (const std::uint64_t now = network_changes(); !listed_ || now != changes_) {
    parameters_.clear();
    known_.clear();
    for (const auto& [name, parameter] : list())
      parameters_.push_back(parameter);
    changes_ = now;
    listed_ = true;
  }
  parameters = parameters_;
  return std::all_of(
      parameters.begin(), parameters.end(), [](const Parameter& parameter) { return parameter.is_initialized(); });
}

std::shared_ptr<const HybridProgram> Hybrid::find(const Signature& signature) {
  const std::lock_guard hold(mutex_);
  const auto found =
      std::find_if(known_.begin(), known_.end(), [&](const Known& one) { return one.signature == signature; });
  if (found == known_.end())
    return nullptr;
  std::rotate(known_.begin(), found, found + 1);
  return known_.front().program;
}

void Hybrid::keep(Signature signature, std::shared_ptr<const HybridProgram> program) {
  std::vector<Known> gone;  // dropped without the lock
  const std::lock_guard hold(mutex_);
  ++traced_;
  for (const Known& one : known_) {
    if (one.signature == signature)  // another thread's first call
      return;
  }
  while (known_.size() >= std::max<std::size_t>(options_.most_plans, 1)) {
    gone.push_back(std::move(known_.back()));
    known_.pop_back();
  }
  known_.push_front({std::move(signature), std::move(program)});
}

Arrays Hybrid::run(
    std::span<const NDArray> inputs,
    const Forward& forward,
    const std::function<ParameterDict()>& list,
    SourceLocation site) {
  std::vector<Parameter> parameters;
  const bool has_data = std::all_of(inputs.begin(), inputs.end(), [](const NDArray& input) {
    return input.defined() && input.object()->buffer != nullptr;
  });
  if (!has_data || !list_parameters(list, parameters))
    return forward(inputs);
  Signature signature{
      .recorded = autograd::is_recording(),
      .training = autograd::is_training(),
      .precision = sluice::detail::current_float32_precision()};
  Engine& engine = inputs.empty() ? Engine::current() : inputs[0].engine();
  signature.engine = &sluice::detail::EngineAccess::core(engine);
  bool on_tape = false;
  for (const NDArray& input : inputs) {
    signature.inputs.push_back(spec_of(input));
    signature.wanted.push_back(signature.recorded && autograd::on_tape(input));
    on_tape = on_tape || signature.wanted.back();
  }
  for (const Parameter& parameter : parameters) {
    const auto* const object = parameter.data().object();
    signature.parameters.push_back(object);
    signature.parameters.push_back(object->variable.get());
    on_tape = on_tape || autograd::on_tape(parameter.data());
  }
  signature.recorded = signature.recorded && on_tape;
  std::shared_ptr<const HybridProgram> program = find(signature);
  if (program == nullptr) {
    program = Making(forward, std::move(parameters), options_).run(inputs, signature.wanted, signature.recorded);
    keep(std::move(signature), program);
  }
  return program->by_hand ? forward(inputs) : call(program, inputs, site);
}

std::size_t Hybrid::traced() const {
  const std::lock_guard hold(mutex_);
  return traced_;
}

std::shared_ptr<const HybridProgram> Hybrid::last() const {
  const std::lock_guard hold(mutex_);
  return known_.empty() ? nullptr : known_.front().program;
}

}  // namespace sluice::gluon::detail
