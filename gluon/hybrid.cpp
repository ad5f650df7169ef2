#include <algorithm>
#include <utility>

#include <sluice/engine/detail/engine_access.h>
#include <sluice/engine/error.h>
#include <sluice/gluon/detail/hybrid.h>
#include <sluice/gluon/detail/hybrid_node.h>
#include <sluice/gluon/detail/network_changes.h>
#include <sluice/gluon/detail/tape.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/graph/passes.h>
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
    const graph::Graph marked = tracer_.trace([&] { return recorded ? trace_with_gradients(wanted) : trace_alone(); });
    const graph::Graph joint = graph::without_detached(marked);
    if (writes_inputs(joint))
      made_->by_hand = true;
    if (made_->by_hand)
      return made_;
    if (!recorded || made_->heads.empty()) {
      graph::PlanOptions plan = options_.plan;
      plan.keep_results = !recorded;  // of recorded calls the tape holds some for long
      made_->forward = std::make_unique<graph::Plan>(joint, plan, engine);
    } else {
      made_->again = program_of(marked);
      place_.nodes -= marked.nodes.size() - joint.nodes.size();  // gradients take nothing off the tape
      cut(joint, engine);
    }
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

bool has_data(std::span<const NDArray> inputs) {
  return std::all_of(inputs.begin(), inputs.end(), [](const NDArray& input) {
    return input.defined() && input.object()->buffer != nullptr;
  });
}

// Whether a call now is recorded: somebody may ask for gradients of what it reads.
bool is_recorded(std::span<const NDArray> inputs, const std::vector<Parameter>& parameters) {
  return autograd::is_recording() &&
         (std::any_of(inputs.begin(), inputs.end(), [](const NDArray& input) { return autograd::on_tape(input); }) ||
          std::any_of(parameters.begin(), parameters.end(), [](const Parameter& parameter) {
            return autograd::on_tape(parameter.data());
          }));
}

const void* engine_of(std::span<const NDArray> inputs) noexcept {
  return &sluice::detail::EngineAccess::core(inputs.empty() ? Engine::current() : inputs[0].engine());
}

constexpr auto used_before = [](const auto& a, const auto& b) { return a->used.load() < b->used.load(); };

}  // namespace

bool Hybrid::Signature::operator==(const Signature& other) const {
  const auto same = [](const ArraySpec& a, const ArraySpec& b) {
    return a.shape == b.shape && a.dtype == b.dtype && a.device == b.device;
  };
  return recorded == other.recorded && training == other.training && precision == other.precision &&
         engine == other.engine && wanted == other.wanted && parameters == other.parameters &&
         std::equal(inputs.begin(), inputs.end(), other.inputs.begin(), other.inputs.end(), same);
}

bool Hybrid::stands_for(const Signature& made, std::span<const NDArray> inputs, const Table& table, bool recorded) {
  if (made.recorded != recorded || made.training != autograd::is_training() ||
      made.precision != sluice::detail::current_float32_precision() || made.engine != engine_of(inputs) ||
      made.inputs.size() != inputs.size())
    return false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const sluice::detail::ArrayObject& given = *inputs[i].object();
    const ArraySpec& spec = made.inputs[i];
    if (given.shape != spec.shape || given.dtype != spec.dtype || given.device != spec.device ||
        made.wanted[i] != (recorded && autograd::on_tape(inputs[i])))
      return false;
  }
  for (std::size_t i = 0; i < table.parameters.size(); ++i) {
    const auto* const object = table.parameters[i].data().object();
    if (made.parameters[2 * i] != object || made.parameters[2 * i + 1] != object->variable.get())
      return false;
  }
  return true;
}

Hybrid::Signature Hybrid::signature_of(std::span<const NDArray> inputs, const Table& table, bool recorded) {
  Signature signature{
      .recorded = recorded,
      .training = autograd::is_training(),
      .precision = sluice::detail::current_float32_precision(),
      .engine = engine_of(inputs)};
  for (const NDArray& input : inputs) {
    signature.inputs.push_back(spec_of(input));
    signature.wanted.push_back(recorded && autograd::on_tape(input));
  }
  for (const Parameter& parameter : table.parameters) {
    const auto* const object = parameter.data().object();
    signature.parameters.push_back(object);
    signature.parameters.push_back(object->variable.get());
  }
  return signature;
}

// What the network was before a change no program stands for any more. `changes`: when the call began, so that networks
// that others build meanwhile do not hold it up.
Hybrid::Lookup Hybrid::look_up(const Reading& table, std::span<const NDArray> inputs, std::uint64_t changes) {
  if (!table || table->changes < changes)
    return {Found::no_table};
  for (const Parameter& parameter : table->parameters) {
    if (!parameter.is_initialized())
      return {Found::no_shapes};
  }
  const bool recorded = is_recorded(inputs, table->parameters);
  for (const auto& known : table->known) {
    if (stands_for(known->signature, inputs, *table, recorded))
      return {Found::program, known.get()};
  }
  return {Found::none};
}

// As long as all call one program nobody writes anything.
void Hybrid::note_use(const Known& known) {
  if (used_last_.load(std::memory_order_relaxed) == &known)
    return;
  used_last_.store(&known, std::memory_order_relaxed);
  known.used.store(1 + uses_.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
}

void Hybrid::list_parameters(const List& list) {
  std::vector<std::unique_ptr<const Table>> gone;  // dropped without the lock, as elsewhere
  const std::lock_guard hold(mutex_);
  const std::uint64_t now = network_changes();
  if (table_.latest() != nullptr && table_.latest()->changes == now)
    return;
  auto made = std::make_unique<Table>();
  made->changes = now;
  for (const auto& [name, parameter] : list())
    made->parameters.push_back(parameter);
  gone = table_.publish(std::move(made));
}

// Of several threads that made the same the first one's stays; returns what is to be run.
std::shared_ptr<const HybridProgram> Hybrid::keep(
    Signature signature, std::shared_ptr<const HybridProgram> program, std::uint64_t changes) {
  std::vector<std::unique_ptr<const Table>> gone;
  const std::lock_guard hold(mutex_);
  traced_.fetch_add(1, std::memory_order_relaxed);
  const Table& now = *table_.latest();
  if (now.changes != changes)  // nobody will ask for it
    return program;
  for (const auto& known : now.known) {
    if (known->signature == signature)
      return known->program;
  }
  auto made = std::make_unique<Table>(now);
  while (made->known.size() >= std::max<std::size_t>(options_.most_plans, 1))
    made->known.erase(std::min_element(made->known.begin(), made->known.end(), used_before));
  made->known.push_back(std::make_shared<Known>(std::move(signature), program, 1 + uses_.fetch_add(1)));
  used_last_ = made->known.back().get();
  gone = table_.publish(std::move(made));
  return program;
}

Arrays Hybrid::run_new(std::span<const NDArray> inputs, const Forward& forward, SourceLocation site) {
  std::vector<Parameter> parameters;
  Signature signature;
  std::uint64_t changes = 0;
  {
    const Reading table(table_);
    parameters = table->parameters;
    changes = table->changes;
    signature = signature_of(inputs, *table, is_recorded(inputs, parameters));
  }
  auto made = Making(forward, std::move(parameters), options_).run(inputs, signature.wanted, signature.recorded);
  const auto program = keep(std::move(signature), std::move(made), changes);
  return program->by_hand ? forward(inputs) : call(program, inputs, site);
}

Arrays Hybrid::run(std::span<const NDArray> inputs, const Forward& forward, const List& list, SourceLocation site) {
  if (!has_data(inputs))
    return forward(inputs);
  const std::uint64_t changes = network_changes();
  for (;;) {
    Found what = {};
    {
      const Reading table(table_);
      const Lookup found = look_up(table, inputs, changes);
      if (found.what == Found::program) [[likely]] {
        note_use(*found.known);
        return found.known->program->by_hand ? forward(inputs) : call(found.known->program, inputs, site);
      }
      what = found.what;
    }
    if (what == Found::no_shapes)
      return forward(inputs);
    if (what == Found::none)
      return run_new(inputs, forward, site);
    list_parameters(list);
  }
}

std::size_t Hybrid::traced() const {
  return traced_.load(std::memory_order_relaxed);
}

std::shared_ptr<const HybridProgram> Hybrid::last() const {
  const Reading table(table_);
  if (!table || table->known.empty())
    return nullptr;
  return (*std::max_element(table->known.begin(), table->known.end(), used_before))->program;
}

}  // namespace sluice::gluon::detail
