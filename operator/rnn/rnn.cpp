#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/autocast_here.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/autocast.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/detail/autocast.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/detail/spec_checks.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/random/dropout.h>
#include <sluice/operator/rnn/problem.h>

namespace sluice {

namespace {

using detail::RnnAttributes;
using detail::RnnProblem;

// h and maybe c from `first` on; there may be none.
void check_states(const Operator& op, std::span<const ArraySpec> inputs, std::size_t first, const RnnProblem& problem) {
  const std::size_t states = problem.has_cells() ? 2 : 1;
  require<ValueError>(inputs.size() == first || inputs.size() == first + states, [&] {
    return message(op.name, ": takes ", first, " inputs, or ", first + states, " with states, not ", inputs.size());
  });
  for (std::size_t i = first; i < inputs.size(); ++i)
    detail::check_like(op.name, i == first ? "h" : "c", inputs[i], problem.state_shape(), problem.dtype);
}

/// Where states begin in a call of those operators: behind x, the parameters and maybe lengths.
std::size_t first_state(const Operator& op) noexcept {
  return detail::takes_lengths(op) ? 3 : 2;
}

void check_lengths(const Operator& op, const ArraySpec& lengths, const RnnProblem& problem) {
  require<DTypeError>(is_integer(lengths.dtype), [&] {
    return message(op.name, ": lengths are of an integer type, not ", lengths.dtype);
  });
  require<ShapeError>(lengths.shape == Shape{problem.batch}, [&] {
    return message(op.name, ": lengths are ", lengths.shape, ", not ", Shape{problem.batch}, ", one a sample");
  });
}

ArraySpec kept_spec(const Operator& op, const RnnProblem& problem, Device device, bool keep) {
  const DType wide = detail::wide_type(problem.dtype);
  std::int64_t count = 0;
  if (keep && device.is_cpu()) {
    count = problem.cpu_reserve();
#if SLUICE_CUDA
  } else if (keep && device.is_gpu() && problem.batch > 0 && !detail::takes_lengths(op)) {
    const auto each = static_cast<std::int64_t>(size_of(wide));
    count = (detail::rnn_library_reserve(device, problem) + each - 1) / each;
#endif
  }
  return {{count}, wide, device};
}

Specs infer_rnn(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const std::size_t first = first_state(op);
  require<ValueError>(inputs.size() >= first, [&] {
    const char* const lengths = first == 3 ? ", lengths" : "";
    return message(
        op.name, ": takes x, parameters", lengths, " and maybe states, was given ", inputs.size(), " inputs");
  });
  const auto& how = attributes.as<RnnAttributes>();
  const RnnProblem problem = rnn_problem(op, inputs[0], inputs[1], how);
  if (first == 3)
    check_lengths(op, inputs[2], problem);
  check_states(op, inputs, first, problem);
  const Device device = inputs[0].device;
  const ArraySpec state{problem.state_shape(), problem.dtype, device};
  Specs results{{problem.y_shape(), problem.dtype, device}, state};
  if (problem.has_cells())
    results.push_back(state);
  results.push_back(kept_spec(op, problem, device, how.keep));
  return results;
}

Specs infer_backward(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const std::size_t y = first_state(op);
  require<ValueError>(inputs.size() >= y + 4, [&] {
    const char* const lengths = y == 3 ? ", lengths" : "";
    return message(
        op.name, ": takes x, parameters", lengths, ", y, kept and heads, was given ", inputs.size(), " inputs");
  });
  const auto& how = attributes.as<RnnAttributes>();
  const RnnProblem problem = rnn_problem(op, inputs[0], inputs[1], how);
  const std::size_t states = problem.has_cells() ? 2 : 1;
  check_states(op, inputs, y + 3 + states, problem);
  if (y == 3)
    check_lengths(op, inputs[2], problem);
  const ArraySpec kept = kept_spec(op, problem, inputs[0].device, true);
  detail::check_like(op.name, "y", inputs[y], problem.y_shape(), problem.dtype);
  detail::check_like(op.name, "what was kept", inputs[y + 1], kept.shape, kept.dtype);
  detail::check_like(op.name, "the gradient of y", inputs[y + 2], problem.y_shape(), problem.dtype);
  for (std::size_t i = y + 3; i < y + 3 + states; ++i)
    detail::check_like(op.name, "the gradient of a state", inputs[i], problem.state_shape(), problem.dtype);
  Specs results{inputs[0], inputs[1]};
  for (std::size_t i = 0; i < states; ++i)
    results.push_back({problem.state_shape(), problem.dtype, inputs[0].device});
  return results;
}

// Where there is no kernel.
Arrays run_composed(
    const Operator& op, std::span<const NDArray> inputs, const RnnAttributes& how, SourceLocation site) {
  return detail::takes_lengths(op) ? detail::rnn_lengths_composed(inputs, how, site)
                                   : detail::rnn_composed(inputs, how, site);
}

// By name: of lengths on a GPU, and of further kinds of devices.
template <const Operator& op>
Arrays compose(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const Specs results = infer_rnn(op, detail::specs_of(inputs), attributes);
  Arrays made = run_composed(op, inputs, attributes.as<RnnAttributes>(), site);
  const ArraySpec& kept = results.back();
  made.push_back(zeros(kept.shape, {.dtype = kept.dtype, .device = kept.device}));
  return made;
}

// y and what was kept.
Mask saved_results(Mask, const Attributes& attributes) {
  return attributes.as<RnnAttributes>().mode == "lstm" ? 0b1001 : 0b101;
}

// Zeros in the place of the `result`-th head. In a trace these follow the size of the batch, as y has it.
NDArray no_head(std::size_t result, const NDArray& y, const RnnProblem& problem, SourceLocation site) {
  if (result == 0)
    return zeros_like(y.detach(), site);
  const NDArray of_sample = zeros_like(y.detach().slice(0, 0, 1, 1, site).slice(2, 0, 1, 1, site), site);
  return of_sample.broadcast_to({problem.layers * problem.directions, -1, problem.hidden}, site);
}

// On a GPU: forward again, as operators that the tape knows.
Arrays compose_backward(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const Operator &op = detail::rnn_lengths_backward_op, &forward = detail::rnn_lengths_op;
  const Specs results = infer_backward(op, detail::specs_of(inputs), attributes);
  const std::size_t states = results.size() - 2, first = 6 + states;
  std::vector<NDArray> given(inputs.begin(), inputs.begin() + 3);
  for (std::size_t i = 0; i < states; ++i) {
    const ArraySpec& state = results[2 + i];
    given.push_back(
        inputs.size() > first ? inputs[first + i]
                              : zeros(state.shape, {.dtype = state.dtype, .device = state.device}, site));
  }
  constexpr std::array<bool, 5> wanted{true, true, false, true, true};  // lengths have none
  const autograd::ModeScope off(false, autograd::is_training());
  Arrays grads = detail::rnn_recorded_gradients(
      {.op = forward,
       .inputs = given,
       .output_grads = inputs.subspan(5, 1 + states),
       .attributes = attributes,
       .wanted = std::span(wanted).first(given.size())});
  grads.erase(grads.begin() + 2);
  return grads;
}

// Gradients of x, parameters and all states as those of so many inputs: lengths have none, states who gave some.
Arrays for_inputs(const Arrays& made, std::size_t inputs, const Operator& op) {
  Arrays grads;
  for (std::size_t i = 0, next = 0; i < inputs; ++i)
    grads.push_back(i == 2 && detail::takes_lengths(op) ? NDArray() : made[next++]);
  return grads;
}

Arrays gradient(const GradientCall& call) {
  const SourceLocation site = SourceLocation::current();
  const bool has_heads = std::any_of(
      call.output_grads.begin(), call.output_grads.end() - 1, [](const NDArray& head) { return head.defined(); });
  if (!has_heads)
    return Arrays(call.inputs.size());
  const NDArray& x = call.inputs[0];
  const std::size_t states = call.output_grads.size() - 2;
  NDArray y = call.outputs[0], kept = call.outputs[1 + states];
  // On a GPU what a library kept, or it runs again.
  const bool has_kernel =
      x.device().is_cpu() || (!detail::takes_lengths(call.op) && x.device().is_gpu() &&
                              (detail::unseen_shape(kept)[0] > 0 || !call.attributes.as<RnnAttributes>().keep));
  if (autograd::is_recording() || !has_kernel)
    return detail::rnn_recorded_gradients(call);
  RnnAttributes how = call.attributes.as<RnnAttributes>();
  const auto first = static_cast<std::ptrdiff_t>(first_state(call.op));
  if (!how.keep) {  // forward did not know that there would be a gradient
    how.keep = true;
    const Arrays again = invoke(call.op, call.inputs, Attributes::of(how), site);
    y = again[0];
    kept = again.back();
  }
  const RnnProblem problem = rnn_problem(call.op, detail::spec_of(x), detail::spec_of(call.inputs[1]), how);
  std::vector<NDArray> given(call.inputs.begin(), call.inputs.begin() + first);
  given.push_back(y.detach());
  given.push_back(kept.detach());
  for (std::size_t i = 0; i <= states; ++i)
    given.push_back(call.output_grads[i].defined() ? call.output_grads[i] : no_head(i, y, problem, site));
  given.insert(given.end(), call.inputs.begin() + first, call.inputs.end());
  const Operator& back = first == 3 ? detail::rnn_lengths_backward_op : detail::rnn_backward_op;
  const Arrays made = invoke(back, given, Attributes::of(how), site);
  return for_inputs(made, call.inputs.size(), call.op);
}

RnnAttributes attributes_of(const RnnOptions& o) {
  return {detail::rnn_mode_name(o.mode), o.hidden_size, o.num_layers, o.bidirectional, autograd::is_recording()};
}

// Whether there is a kernel of the arrays' device for what amp::autocast() makes of them.
bool has_kernel(const Operator& op, const ArraySpec& x, const ArraySpec& parameters, const RnnAttributes& how) {
  const RnnProblem problem = rnn_problem(op, x, parameters, how);
  return x.device.is_cpu() || (!detail::takes_lengths(op) && detail::is_for_library(x.device, problem));
}

// Cast as a call of the operator is, whose parts are not cast again: of the same types as where there is a kernel.
Arrays run_cast(const Operator& op, std::span<const NDArray> inputs, const RnnAttributes& how, SourceLocation site) {
  const Attributes attributes = Attributes::of(how);
  Arrays cast;
  if (const detail::AutocastState* const state = detail::autocast_here(); state != nullptr)
    inputs = detail::autocast_inputs(op, inputs, attributes, *state, cast, site);
  const detail::NoAutocast as_they_are;
  infer_rnn(op, detail::specs_of(inputs), attributes);
  return run_composed(op, inputs, how, site);
}

Arrays run(const Operator& op, std::span<const NDArray> inputs, const RnnAttributes& how, SourceLocation site) {
  ArraySpec x = detail::spec_of(inputs[0]), parameters = detail::spec_of(inputs[1]);
  if (const auto low = amp::autocast_dtype())
    x.dtype = parameters.dtype = *low;
  if (!has_kernel(op, x, parameters, how))
    return run_cast(op, inputs, how, site);
  const Arrays results = invoke(op, inputs, Attributes::of(how), site);
  return Arrays(results.begin(), results.end() - 1);
}

/// Cuts the parameters of one layer out of all.
NDArray parameters_of(const NDArray& all, const RnnProblem& p, std::int64_t layer, SourceLocation site) {
  const bool is_last = layer + 1 == p.layers;
  const std::int64_t next = is_last ? p.input_bias(0, 0) : p.input_weights(layer + 1, 0);
  return concat(
      {all.slice(0, p.input_weights(layer, 0), next, 1, site),
       all.slice(0, p.input_bias(layer, 0), p.input_bias(layer + 1, 0), 1, site)},
      0,
      site);
}

// Layer by layer: what lies between them is drawn as everywhere, the same on CPU and GPU.
Arrays run_with_dropout(
    const Operator& op, std::span<const NDArray> inputs, RnnAttributes how, double rate, SourceLocation site) {
  const RnnProblem all = rnn_problem(op, detail::spec_of(inputs[0]), detail::spec_of(inputs[1]), how);
  const std::size_t first = first_state(op);
  const std::int64_t layers = std::exchange(how.num_layers, 1), directions = all.directions;
  std::array<std::vector<NDArray>, 2> ends;
  NDArray y = inputs[0];
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    std::vector<NDArray> given{layer == 0 ? y : dropout(y, rate, site), parameters_of(inputs[1], all, layer, site)};
    given.insert(given.end(), inputs.begin() + 2, inputs.begin() + static_cast<std::ptrdiff_t>(first));
    for (const NDArray& state : inputs.subspan(first))
      given.push_back(state.slice(0, layer * directions, (layer + 1) * directions, 1, site));
    const Arrays made = run(op, given, how, site);
    y = made[0];
    for (std::size_t i = 1; i < made.size(); ++i)
      ends[i - 1].push_back(made[i]);
  }
  Arrays results{y, concat(ends[0], 0, site)};
  if (!ends[1].empty())
    results.push_back(concat(ends[1], 0, site));
  return results;
}

}  // namespace

namespace detail {

bool is_for_library([[maybe_unused]] Device device, [[maybe_unused]] const RnnProblem& problem) {
#if SLUICE_CUDA
  return device.is_gpu() && rnn_has_library(device, problem);
#else
  return false;
#endif
}

constinit const Operator rnn_op{
    .name = "rnn",
    .inputs = -1,
    .outputs = -1,
    .attributes = &attribute_type<RnnAttributes>,
    .infer = infer_rnn,
    .kernels = {on_cpu(rnn_cpu), on_gpu(SLUICE_GPU_KERNEL(rnn_gpu))},
    .composition = compose<rnn_op>,
    .gradient = gradient,
    .saved_inputs = k_all,
    .saved_outputs = k_all,
    .saved_outputs_for = saved_results,
};
constinit const Operator rnn_lengths_op{
    .name = "rnn_lengths",
    .inputs = -1,
    .outputs = -1,
    .attributes = &attribute_type<RnnAttributes>,
    .infer = infer_rnn,
    .kernels = {on_cpu(rnn_cpu)},
    .composition = compose<rnn_lengths_op>,
    .gradient = gradient,
    .saved_inputs = k_all,
    .saved_outputs = k_all,
    .saved_outputs_for = saved_results,
};
constinit const Operator rnn_backward_op{
    .name = "rnn_backward",
    .inputs = -1,
    .outputs = -1,
    .attributes = &attribute_type<RnnAttributes>,
    .infer = infer_backward,
    .kernels = {on_cpu(rnn_backward_cpu), on_gpu(SLUICE_GPU_KERNEL(rnn_backward_gpu))},
};
constinit const Operator rnn_lengths_backward_op{
    .name = "rnn_lengths_backward",
    .inputs = -1,
    .outputs = -1,
    .attributes = &attribute_type<RnnAttributes>,
    .infer = infer_backward,
    .kernels = {on_cpu(rnn_backward_cpu)},
    .composition = compose_backward,
};

OperatorList rnn_operators() noexcept {
  static constexpr const Operator* list[] = {&rnn_op, &rnn_backward_op, &rnn_lengths_op, &rnn_lengths_backward_op};
  return list;
}

}  // namespace detail

namespace {

Arrays called(
    const Operator& op,
    std::vector<NDArray> inputs,
    const Arrays& states,
    const RnnOptions& options,
    SourceLocation site) {
  return detail::located(site, [&]() -> Arrays {
    require<ValueError>(options.dropout >= 0 && options.dropout <= 1, [&] {
      return message(op.name, ": dropout is ", options.dropout, ", not between 0 and 1");
    });
    inputs.insert(inputs.end(), states.begin(), states.end());
    for (const NDArray& input : inputs)
      detail::object_of(input, op.name);  // defined
    const RnnAttributes how = attributes_of(options);
    if (options.dropout > 0 && options.num_layers > 1 && autograd::is_training())
      return run_with_dropout(op, inputs, how, options.dropout, site);
    return run(op, inputs, how, site);
  });
}

}  // namespace

Arrays rnn(
    const NDArray& x, const NDArray& parameters, const Arrays& states, const RnnOptions& options, SourceLocation site) {
  return called(detail::rnn_op, {x, parameters}, states, options, site);
}

Arrays rnn(
    const NDArray& x,
    const NDArray& parameters,
    const Arrays& states,
    const NDArray& lengths,
    const RnnOptions& options,
    SourceLocation site) {
  return called(detail::rnn_lengths_op, {x, parameters, lengths}, states, options, site);
}

}  // namespace sluice
