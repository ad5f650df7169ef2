#include <algorithm>
#include <utility>

#include <sluice/engine/error.h>
#include <sluice/gluon/detail/hybrid_trace.h>
#include <sluice/gluon/detail/tape.h>
#include <sluice/gluon/detail/why_by_hand.h>
#include <sluice/ndarray/autograd.h>

namespace sluice::gluon::detail {

namespace {

using sluice::detail::unseen_shape;

class Tracing {
 public:
  explicit Tracing(const ForwardCall& call) : call_(call) {}

  TracedForward run() {
    made_.training = autograd::is_training();
    made_.recorded = call_.recorded;
    for (std::size_t i = 0; i < call_.inputs.size(); ++i)
      inputs_.push_back(tracer_.input(call_.inputs[i], call_.recorded && call_.wanted[i]));
    const ParameterReads reads;
    made_.program = watched_trace(tracer_, [&] { return call_.recorded ? with_gradients() : alone(); });
    if (reads_recorded_)
      made_.by_hand = why_reading(made_.program.graph, recorded_elsewhere());
    made_.others = reads.others([&](const Parameter& read) {
      return std::any_of(
          call_.parameters.begin(), call_.parameters.end(), [&](const Parameter& own) { return own.same(read); });
    });
    return std::move(made_);
  }

 private:
  Arrays alone() {
    // Nothing that is known to be on the tape is read; an array that forward brings along may be.
    const autograd::ModeScope mode(autograd::is_recording(), made_.training);
    const Arrays outputs = call_forward();
    note_outputs(outputs);
    reads_recorded_ = !tracer_.recorded_constants().empty() && autograd::is_recording();
    return outputs;
  }

  // Undefined results are no values of a graph.
  Arrays call_forward() {
    Arrays outputs;
    const Arrays all = call_.forward(inputs_);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].defined())
        outputs.push_back(all[i]);
      else
        made_.undefined.push_back(i);
    }
    return outputs;
  }

  void note_outputs(const Arrays& outputs) {
    made_.outputs = outputs.size();
    for (const NDArray& output : outputs) {
      const bool is_input =
          std::any_of(inputs_.begin(), inputs_.end(), [&](const NDArray& input) { return input.same(output); });
      made_.passed_on.push_back(is_input || autograd::on_tape(output));
    }
  }

  Arrays with_gradients() {
    made_.wanted = call_.wanted;
    for (std::size_t i = 0; i < made_.wanted.size(); ++i) {
      if (made_.wanted[i])
        inputs_[i].attach_grad(GradReq::write, {});
    }
    Arrays outputs;
    {
      const autograd::ModeScope recording(true, made_.training);
      outputs = call_forward();
    }
    note_outputs(outputs);
    made_.place = {tracer_.size(), inputs_.size(), outputs.size()};
    made_.by_hand = what_tape_knows_more(outputs);
    reads_recorded_ = made_.by_hand.empty() && !recorded_elsewhere().empty();
    if (reads_recorded_ || !made_.by_hand.empty())
      return outputs;
    try {
      const std::vector<NDArray> gradients = trace_gradients(outputs);
      outputs.insert(outputs.end(), gradients.begin(), gradients.end());
    } catch (const AutogradError& error) {  // it wrote what some gradient needs; perhaps nobody asks for that one
      made_.by_hand = error.message();
    }
    return outputs;
  }

  // Than the graph of calls: gradients that the program gave itself.
  std::string what_tape_knows_more(const Arrays& outputs) {
    if (tracer_.records_outside() || tracer_.has_own_gradients())
      return tracer_.beyond_calls();
    const bool stand = std::all_of(
        outputs.begin(), outputs.end(), [&](const NDArray& output) { return tracer_.stands_as_called(output); });
    return stand ? "" : "a result is a variable, or has a gradient of its own";
  }

  // Gradients of arrays that are neither inputs nor parameters: where they go the tape knows.
  std::vector<NDArray> recorded_elsewhere() const {
    std::vector<NDArray> found = tracer_.recorded_constants();
    std::erase_if(found, [&](const NDArray& one) {
      return std::any_of(call_.parameters.begin(), call_.parameters.end(), [&](const Parameter& parameter) {
        return parameter.data().same(one);
      });
    });
    return found;
  }

  std::vector<NDArray> trace_gradients(const Arrays& outputs) {
    std::vector<NDArray> heads, head_gradients, variables;
    Tape tape;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!autograd::on_tape(outputs[i]))
        continue;
      made_.heads.push_back(i);
      heads.push_back(outputs[i]);
      head_gradients.push_back(tracer_.late_input({unseen_shape(outputs[i]), outputs[i].dtype(), outputs[i].device()}));
      tape.add(outputs[i]);
    }
    if (heads.empty())
      return {};
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      made_.wanted[i] = made_.wanted[i] && tape.reaches(inputs_[i]);
      if (made_.wanted[i])
        variables.push_back(inputs_[i]);
    }
    for (const Parameter& parameter : call_.parameters) {
      const NDArray& data = parameter.data();
      const bool is_listed = std::any_of(
          made_.parameters.begin(), made_.parameters.end(), [&](const NDArray& one) { return one.same(data); });
      if (autograd::on_tape(data) && tape.reaches(data) && !is_listed)  // layers may share one
        made_.parameters.push_back(data);
    }
    variables.insert(variables.end(), made_.parameters.begin(), made_.parameters.end());
    if (variables.empty()) {
      made_.heads.clear();
      return {};
    }
    return gradients_at(variables, heads, head_gradients, {}, {});
  }

  const ForwardCall& call_;
  graph::Tracer tracer_{graph::Outside::constants, graph::Detached::kept};
  std::vector<NDArray> inputs_;
  TracedForward made_;
  bool reads_recorded_ = false;
};

// Gradients come in with the shapes of the outputs that they are of.
std::optional<graph::Graph> program_for(const TracedForward& known, std::span<const ArraySpec> inputs) {
  std::vector<graph::ValueId> like;
  for (const std::size_t head : known.heads)
    like.push_back(known.program.graph.outputs[head]);
  return for_batch(known.program, inputs, like);
}

bool is_same_outline(const ForwardOutline& a, const ForwardOutline& b) {
  const auto is_same_array = [](const NDArray& x, const NDArray& y) { return x.same(y); };
  return a.by_hand.empty() == b.by_hand.empty() && a.outputs == b.outputs && a.undefined == b.undefined &&
         a.passed_on == b.passed_on && a.wanted == b.wanted && a.heads == b.heads &&
         std::equal(a.parameters.begin(), a.parameters.end(), b.parameters.begin(), b.parameters.end(), is_same_array);
}

}  // namespace

TracedForward trace_forward(const ForwardCall& call) {
  return Tracing(call).run();
}

void compare_batches(const ForwardCall& call, TracedForward& traced) {
  const std::vector<bool> batched = batched_inputs(call.inputs);
  if (!traced.by_hand.empty() || std::find(batched.begin(), batched.end(), true) == batched.end())
    return;
  const std::vector<ArraySpec> others = with_other_batch(call.inputs, batched);
  const std::optional<graph::Graph> expected = program_for(traced, others);
  if (!expected)
    return;
  try {
    const TracedForward other = trace_forward({call.forward, others, call.wanted, call.parameters, call.recorded});
    if (is_same_outline(traced, other) && is_same_with_constants(*expected, other.program.graph))
      traced.batched = batched;
  } catch (const std::exception&) {  // it need not take such a batch
  }
}

std::shared_ptr<TracedForward> for_batch(const TracedForward& known, std::span<const ArraySpec> inputs) {
  std::optional<graph::Graph> program = program_for(known, inputs);
  if (!program)
    return nullptr;
  auto made = std::make_shared<TracedForward>();
  static_cast<ForwardOutline&>(*made) = known;
  made->program = {std::move(*program), known.program.asked};
  made->place = known.place;
  made->batched = known.batched;
  return made;
}

}  // namespace sluice::gluon::detail
