#include <algorithm>

#include <sluice/engine/error.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/control/detail/loop.h>
#include <sluice/operator/control/detail/turns.h>
#include <sluice/operator/detail/destination.h>

namespace sluice::control {

namespace {

NDArray row_of(const NDArray& array, std::int64_t row) {
  const sluice::detail::ArrayObject& object = *array.object();
  Shape shape = object.shape, strides = object.strides;
  shape.erase(0);
  strides.erase(0);
  return sluice::detail::make_view(array, shape, strides, object.offset + row * object.strides[0]);
}

NDArray rows_of(const NDArray& array, std::int64_t begin, std::int64_t end) {
  const sluice::detail::ArrayObject& object = *array.object();
  Shape shape = object.shape;
  shape[0] = end - begin;
  return sluice::detail::make_view(array, shape, object.strides, object.offset + begin * object.strides[0]);
}

}  // namespace

LoopParts::LoopParts(
    const char* op, const Subgraph& body, std::int64_t of_data, std::int64_t of_states, std::int64_t of_sums) {
  require<ValueError>(!body.empty(), [&] { return message(op, ": has no body"); });
  const auto takes = std::ssize(body.graph().inputs), gives = std::ssize(body.graph().outputs);
  const bool fits = of_data >= 0 && of_states >= 0 && of_sums >= 0 && of_data <= takes &&
                    of_states <= takes - of_data && of_states <= gives && of_sums <= gives - of_states;
  require<ValueError>(fits, [&] {
    return message(
        op,
        ": a body of ",
        takes,
        " inputs and ",
        gives,
        " outputs has not ",
        of_data,
        " entries of data, ",
        of_states,
        " states and ",
        of_sums,
        " sums");
  });
  data = static_cast<std::size_t>(of_data);
  states = static_cast<std::size_t>(of_states);
  sums = static_cast<std::size_t>(of_sums);
  captured = body.graph().inputs.size() - data - states;
  stacked = body.graph().outputs.size() - states - sums;
}

void check_body(const char* op, const char* what, const Subgraph& body, std::span<const ArraySpec> inputs) {
  require<ValueError>(!body.empty(), [&] { return message(op, ": has no ", what); });
  const std::vector<ArraySpec> takes = specs_of(body.graph(), body.graph().inputs);
  require<ValueError>(takes.size() == inputs.size(), [&] {
    return message(op, ": its ", what, " takes ", takes.size(), " arrays, was given ", inputs.size());
  });
  for (std::size_t i = 0; i < inputs.size(); ++i)
    check_same(op, message("what its ", what, " takes as input ", i), inputs[i], takes[i]);
}

void check_states(const char* op, const Subgraph& body, const LoopParts& parts) {
  const graph::Graph& graph = body.graph();
  for (std::size_t i = 0; i < parts.states; ++i)
    check_same(
        op,
        message("state ", i, " behind a turn"),
        graph.values[graph.outputs[parts.stacked + i]].spec,
        graph.values[graph.inputs[parts.data + i]].spec);
}

Subgraph with_saved_states(const Subgraph& body, const LoopParts& parts) {
  graph::Graph graph = body.graph();
  const auto states = graph.inputs.begin() + static_cast<std::ptrdiff_t>(parts.data);
  graph.outputs.insert(
      graph.outputs.begin() + static_cast<std::ptrdiff_t>(parts.stacked),
      states,
      states + static_cast<std::ptrdiff_t>(parts.states));
  return Subgraph(std::move(graph));
}

Mask mask_of(std::size_t i) noexcept {
  return Mask{1} << std::min<std::size_t>(i, 31);
}

Mask saved_states_mask(const LoopParts& parts) noexcept {
  Mask mask = k_none;
  for (std::size_t i = parts.stacked - parts.states; i < parts.stacked; ++i)
    mask |= mask_of(i);
  return mask;
}

Arrays apart(const IssueCall& call) {
  Arrays inputs(call.inputs.begin(), call.inputs.end());
  for (NDArray& input : inputs) {
    const bool meets = !call.made && std::any_of(call.outputs.begin(), call.outputs.end(), [&](const NDArray& output) {
      return sluice::detail::overlaps(input, output);
    });
    if (meets) {
      const NDArray copy = empty(input.shape(), {.dtype = input.dtype(), .device = input.device()});
      sluice::detail::push_copy(input, copy, call.site);
      input = copy;
    }
  }
  return inputs;
}

LoopRun::LoopRun(const LoopParts& parts, const Subgraph& body, SourceLocation site, std::span<const NDArray> stacked)
    : parts_(parts), body_(body), site_(site), stacked_(stacked) {}

void LoopRun::turn(std::span<const NDArray> data, std::span<const NDArray> captured, std::int64_t row) {
  Arrays inputs;
  for (const NDArray& array : data)
    inputs.push_back(row_of(array, row));
  inputs.insert(inputs.end(), states.begin(), states.end());
  inputs.insert(inputs.end(), captured.begin(), captured.end());
  const Arrays results = body_.run(inputs, site_);
  for (std::size_t i = 0; i < parts_.stacked; ++i)
    sluice::detail::push_copy(results[i], row_of(stacked_[i], row), site_);
  const auto behind = results.begin() + static_cast<std::ptrdiff_t>(parts_.stacked);
  states.assign(behind, behind + static_cast<std::ptrdiff_t>(parts_.states));
  for (std::size_t i = 0; i < parts_.sums; ++i) {
    const NDArray& term = results[parts_.stacked + parts_.states + i];
    if (first_)  // as the tape keeps the first gradient: a zero's sign stays
      sluice::detail::push_copy(term, sums[i], site_);
    else
      sluice::detail::accumulate_gradient(sums[i], term);
  }
  first_ = false;
}

void LoopRun::finish(std::int64_t turns, std::int64_t length, std::span<const NDArray> to, std::size_t saved) {
  for (const NDArray& stacked : stacked_.first(stacked_.size() - saved)) {
    if (turns < length)
      sluice::detail::push_fill(rows_of(stacked, turns, length), 0, site_);
  }
  for (std::size_t i = 0; i < to.size(); ++i)
    sluice::detail::push_copy(states[i], to[i], site_);
  for (const NDArray& sum : sums) {
    if (first_)
      sluice::detail::push_fill(sum, 0, site_);
  }
}

}  // namespace sluice::control
