#include <algorithm>
#include <optional>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/free_list.h>
#include <sluice/operator/detail/kernel_task.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/view/attributes.h>

namespace sluice::detail {

namespace {

using NodeMemory = FreeList<OperatorNode>;

bool takes_gradient(const NDArray& input) noexcept {
  const ArrayObject& object = *input.object();
  return object.entry.node && is_floating(object.dtype);
}

}  // namespace

ArraySpec spec_of(const NDArray& array) {
  const ArrayObject& object = *array.object();
  return {object.shape, object.dtype, object.device, object.value};
}

Specs specs_of(std::span<const NDArray> arrays) {
  Specs specs;
  specs.reserve(arrays.size());
  for (const NDArray& array : arrays) {
    const ArrayObject& object = *array.object();
    specs.emplace_back(object.shape, object.dtype, object.device, object.value);
  }
  return specs;
}

bool is_recorded(std::span<const NDArray> inputs) noexcept {
  return std::any_of(inputs.begin(), inputs.end(), takes_gradient);
}

void* OperatorNode::operator new(std::size_t) {
  return NodeMemory::take();
}
void OperatorNode::operator delete(void* memory) noexcept {
  NodeMemory::give(memory);
}

OperatorNode::OperatorNode(
    const Operator& op, std::span<const NDArray> from, Attributes attributes, RandomBlock random, SourceLocation site)
    : Node(op.name, site), op_(op), attributes_(std::move(attributes)), random_(random), input_specs_(specs_of(from)) {
  Mask wanted = 0;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const bool wants = takes_gradient(from[i]);
    wanted_.push_back(wants);
    inputs.push_back(wants ? autograd::entry_of(from[i]) : autograd::Entry{});
    if (wants)
      wanted |= Mask{1} << std::min<std::size_t>(i, 31);
  }
  Mask saved = op.saved_inputs;
  if (op.saved_for != nullptr)
    saved &= op.saved_for(wanted, attributes_);
  for (std::size_t i = 0; i < from.size(); ++i)
    saved_inputs_.push_back(has(saved, i) ? autograd::Saved(from[i]) : autograd::Saved());
  kept_outputs_ = op.saved_outputs;
  if (kept_outputs_ != k_none && op.saved_outputs_for != nullptr)
    kept_outputs_ &= op.saved_outputs_for(wanted, attributes_);
}

void OperatorNode::keep_outputs(std::span<const NDArray> made) {
  for (std::size_t i = 0; i < made.size(); ++i) {
    outputs.push_back({made[i].object()->shape, made[i].dtype(), made[i].device()});
    saved_outputs_.push_back(has(kept_outputs_, i) ? autograd::Saved(made[i]) : autograd::Saved());
  }
}

// While the backward pass is itself recorded, saved arrays stand on the tape where they stood in forward. Fresh handles
// carry that: a saved array that named its own node would keep it alive for ever.
Arrays OperatorNode::restored_inputs() const {
  Arrays restored;
  for (std::size_t i = 0; i < saved_inputs_.size(); ++i) {
    restored.push_back(saved_inputs_[i].defined() ? saved_inputs_[i].get(name()) : NDArray());
    if (restored.back().defined() && wanted_[i] && autograd::is_recording()) {
      restored.back() = restored.back().detach();
      autograd::set_entry(restored.back(), inputs[i].node, inputs[i].index);
    }
  }
  return restored;
}

Arrays OperatorNode::restored_outputs() {
  Arrays restored;
  for (std::size_t i = 0; i < saved_outputs_.size(); ++i) {
    restored.push_back(saved_outputs_[i].defined() ? saved_outputs_[i].get(name()) : NDArray());
    if (restored.back().defined() && autograd::is_recording()) {
      restored.back() = restored.back().detach();
      autograd::set_entry(restored.back(), autograd::NodeRef::share(this), static_cast<int>(i));
    }
  }
  return restored;
}

// Whoever wrote the operator may have forgotten to ask for what the gradient reads.
Arrays OperatorNode::gradients(const GradientCall& call) const {
  try {
    return op_.gradient(call);
  } catch (const ValueError& error) {
    const auto is_missing = [](const NDArray& array) { return !array.defined(); };
    const bool lacks = std::any_of(call.inputs.begin(), call.inputs.end(), is_missing) ||
                       std::any_of(call.outputs.begin(), call.outputs.end(), is_missing);
    if (!lacks || error.record() != nullptr || error.message().find("undefined") == std::string::npos)
      throw;
    throw ValueError(message(
        error.what(),
        "\n  in the gradient of ",
        name(),
        ", which is given the inputs that saved_inputs names, and the outputs that saved_outputs names"));
  }
}

std::vector<NDArray> OperatorNode::pull(std::span<const NDArray> output_grads) {
  require<AutogradError>(!released_, [&] {
    return message(name(), ": its saved arrays were dropped by an earlier backward (retain_graph keeps them)");
  });
  std::optional<EngineScope> scope;  // arrays that the gradient makes belong to the engine of those it was given
  for (const NDArray& grad : output_grads) {
    if (grad.defined() && !scope)
      scope.emplace(grad.engine());
  }
  const Arrays from = restored_inputs();
  const Arrays made = restored_outputs();
  const Arrays grads = gradients(
      {.op = op_,
       .inputs = from,
       .outputs = made,
       .output_grads = output_grads,
       .attributes = attributes_,
       .random = random_,
       .wanted = std::span<const bool>(wanted_.data(), wanted_.size()),
       .input_specs = input_specs_});
  require<AutogradError>(grads.size() == wanted_.size(), [&] {
    return message(name(), ": its gradient returned ", grads.size(), " arrays for ", wanted_.size(), " inputs");
  });
  std::vector<NDArray> result(wanted_.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (!wanted_[i] || !grads[i].defined())
      continue;
    require<AutogradError>(grads[i].object()->shape == input_specs_[i].shape, [&] {
      return message(
          name(), ": gradient of input ", i, " has shape ", grads[i].shape(), ", the input ", input_specs_[i].shape);
    });
    result[i] = grads[i];
  }
  return result;
}

// A cast keeps nothing, and that of a variable may be part of several programs (amp::autocast()): it is not used up.
void OperatorNode::release_saved() noexcept {
  const autograd::Node* const from = inputs.empty() ? nullptr : inputs[0].node.get();
  if (&op_ == &k_cast && from != nullptr && from->inputs.empty() && !from->spent) {
    spent = false;
    return;
  }
  released_ = true;
  for (auto& saved : saved_inputs_)
    saved.release();
  for (auto& saved : saved_outputs_)
    saved.release();
}

}  // namespace sluice::detail
