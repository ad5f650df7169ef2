#include <algorithm>
#include <utility>

#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/control/detail/turns.h>
#include <sluice/operator/detail/operator_node.h>

namespace sluice::control {

namespace {

/// Of the entries of an array: their gradients together are the array's.
class EntriesNode final : public autograd::Node {
 public:
  EntriesNode(const NDArray& data, std::span<const NDArray> entries, SourceLocation site) : Node(k_entries_node, site) {
    inputs.push_back(autograd::entry_of(data));
    for (const NDArray& entry : entries)
      outputs.push_back({entry.shape(), entry.dtype(), entry.device()});
  }
  std::vector<NDArray> pull(std::span<const NDArray> output_grads) override {
    std::vector<NDArray> rows(output_grads.begin(), output_grads.end());
    for (NDArray& row : rows) {
      if (!row.defined())
        row = zeros(outputs[0].shape, {.dtype = outputs[0].dtype, .device = outputs[0].device}, site());
    }
    return {stack(rows, 0, site())};
  }
  void release_saved() noexcept override {}
};

}  // namespace

void check_same(const char* op, const std::string& what, const ArraySpec& found, const ArraySpec& expected) {
  require<ShapeError>(found.shape == expected.shape, [&] {
    return message(op, ": ", what, " has shape ", found.shape, ", not ", expected.shape);
  });
  require<DTypeError>(found.dtype == expected.dtype, [&] {
    return message(op, ": ", what, " is ", found.dtype, ", not ", expected.dtype);
  });
  require<DeviceError>(found.device == expected.device, [&] {
    return message(op, ": ", what, " is on ", found.device, ", not on ", expected.device);
  });
}

void check_defined(const char* op, const char* what, std::span<const NDArray> arrays) {
  for (std::size_t i = 0; i < arrays.size(); ++i)
    require<ValueError>(
        arrays[i].defined(), [&] { return message(op, ": ", what, ' ', i, " is an undefined NDArray"); });
}

void check_predicate(const char* op, const ArraySpec& predicate) {
  require<ShapeError>(predicate.shape.size() == 1, [&] {
    return message(op, ": the predicate has shape ", predicate.shape, "; it must have exactly one element");
  });
}

bool truth_of(const char* op, const NDArray& predicate, SourceLocation site) {
  check_defined(op, "predicate", {&predicate, 1});
  check_predicate(op, sluice::detail::spec_of(predicate));
  if (is_floating(predicate.dtype()))
    return predicate.item<double>(site) != 0;
  return predicate.item<std::int64_t>(site) != 0;
}

void Turns::add(LoopResult result) {
  const auto named = [&](const char* what, std::size_t i) { return message(what, ' ', i, " of turn ", taken_); };
  check_defined(op_, "output", result.outputs);
  check_defined(op_, "new state", result.states);
  require<ValueError>(result.states.size() == states_.size(), [&] {
    return message(
        op_, ": the body was given ", states_.size(), " states and gave ", result.states.size(), " at turn ", taken_);
  });
  for (std::size_t i = 0; i < states_.size(); ++i)
    check_same(op_, named("state", i), sluice::detail::spec_of(result.states[i]), sluice::detail::spec_of(states_[i]));
  if (taken_ == 0) {
    for (const NDArray& output : result.outputs)
      specs_.push_back(sluice::detail::spec_of(output));
    outputs_.resize(specs_.size());
  }
  require<ValueError>(result.outputs.size() == specs_.size(), [&] {
    return message(
        op_, ": the body gave ", result.outputs.size(), " outputs at turn ", taken_, ", ", specs_.size(), " before");
  });
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    check_same(op_, named("output", i), sluice::detail::spec_of(result.outputs[i]), specs_[i]);
    outputs_[i].push_back(std::move(result.outputs[i]));
  }
  states_ = std::move(result.states);
  ++taken_;
}

void Turns::none_taken(const std::vector<ArraySpec>& outputs) {
  specs_ = outputs;
  outputs_.resize(specs_.size());
}

Arrays Turns::stacked(std::int64_t length, SourceLocation site) const {
  Arrays all;
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    Shape rest = specs_[i].shape;
    rest.insert(0, length - taken_);
    const ArrayOptions options{.dtype = specs_[i].dtype, .device = specs_[i].device};
    if (taken_ == 0) {
      all.push_back(zeros(rest, options, site));
      continue;
    }
    const NDArray rows = stack(outputs_[i], 0, site);
    all.push_back(taken_ == length ? rows : concat({rows, zeros(rest, options, site)}, 0, site));
  }
  return all;
}

std::vector<NDArray> entries_of(const NDArray& data, SourceLocation site) {
  std::vector<NDArray> entries;
  {
    const autograd::PauseScope unrecorded(autograd::is_training());
    for (std::int64_t i = 0; i < data.shape()[0]; ++i)
      entries.push_back(data.slice(0, i, i + 1, 1, site).squeeze(0, site));
  }
  const bool is_recorded = autograd::is_recording() && is_floating(data.dtype()) && autograd::on_tape(data);
  if (!is_recorded || entries.empty())
    return entries;
  const autograd::NodeRef node(new EntriesNode(data, entries, site));
  for (std::size_t i = 0; i < entries.size(); ++i)
    autograd::set_entry(entries[i], node, static_cast<int>(i));
  return entries;
}

}  // namespace sluice::control
