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
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/random/dropout.h>
#include <sluice/operator/rnn/problem.h>

namespace sluice {

namespace {

using detail::RnnAttributes;
using detail::RnnProblem;

void check_like(const Operator& op, const char* name, const ArraySpec& given, const Shape& shape, DType dtype) {
  require<ShapeError>(
      given.shape == shape, [&] { return message(op.name, ": ", name, " is ", given.shape, ", not ", shape); });
  require<DTypeError>(
      given.dtype == dtype, [&] { return message(op.name, ": ", name, " is ", given.dtype, ", not ", dtype); });
}

// h and maybe c from `first` on; there may be none.
void check_states(const Operator& op, std::span<const ArraySpec> inputs, std::size_t first, const RnnProblem& problem) {
  const std::size_t states = problem.has_cells() ? 2 : 1;
  require<ValueError>(inputs.size() == first || inputs.size() == first + states, [&] {
    return message(op.name, ": takes ", first, " inputs, or ", first + states, " with states, not ", inputs.size());
  });
  for (std::size_t i = first; i < inputs.size(); ++i)
    check_like(op, i == first ? "h" : "c", inputs[i], problem.state_shape(), problem.dtype);
}

ArraySpec kept_spec(const RnnProblem& problem, Device device, bool keep) {
  const DType wide = detail::rnn_wide(problem.dtype);
  std::int64_t count = 0;
  if (keep && device.is_cpu()) {
    count = problem.cpu_reserve();
#if SLUICE_CUDA
  } else if (keep && device.is_gpu() && problem.batch > 0) {
    const auto each = static_cast<std::int64_t>(size_of(wide));
    count = (detail::rnn_library_reserve(device, problem) + each - 1) / each;
#endif
  }
  return {{count}, wide, device};
}

Specs infer_rnn(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  require<ValueError>(inputs.size() >= 2, [&] {
    return message(op.name, ": takes x, parameters and maybe states, was given ", inputs.size(), " inputs");
  });
  const auto& how = attributes.as<RnnAttributes>();
  const RnnProblem problem = rnn_problem(op, inputs[0], inputs[1], how);
  check_states(op, inputs, 2, problem);
  const Device device = inputs[0].device;
  const ArraySpec state{problem.state_shape(), problem.dtype, device};
  Specs results{{problem.y_shape(), problem.dtype, device}, state};
  if (problem.has_cells())
    results.push_back(state);
  results.push_back(kept_spec(problem, device, how.keep));
  return results;
}

Specs infer_backward(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  require<ValueError>(inputs.size() >= 6, [&] {
    return message(op.name, ": takes x, parameters, y, kept and heads, was given ", inputs.size(), " inputs");
  });
  const auto& how = attributes.as<RnnAttributes>();
  const RnnProblem problem = rnn_problem(op, inputs[0], inputs[1], how);
  const std::size_t states = problem.has_cells() ? 2 : 1;
  check_states(op, inputs, 5 + states, problem);
  const ArraySpec kept = kept_spec(problem, inputs[0].device, true);
  check_like(op, "y", inputs[2], problem.y_shape(), problem.dtype);
  check_like(op, "what was kept", inputs[3], kept.shape, kept.dtype);
  check_like(op, "the gradient of y", inputs[4], problem.y_shape(), problem.dtype);
  for (std::size_t i = 5; i < 5 + states; ++i)
    check_like(op, "the gradient of a state", inputs[i], problem.state_shape(), problem.dtype);
  Specs results{inputs[0], inputs[1]};
  for (std::size_t i = 0; i < states; ++i)
    results.push_back({problem.state_shape(), problem.dtype, inputs[0].device});
  return results;
}

// Where neither a kernel nor a library is: of further kinds of devices.
Arrays compose(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const Specs results = infer_rnn(detail::rnn_op, detail::specs_of(inputs), attributes);
  Arrays made = detail::rnn_composed(inputs, attributes.as<RnnAttributes>(), site);
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

Arrays gradient(const GradientCall& call) {
  const SourceLocation site = SourceLocation::current();
  const bool has_heads = std::any_of(
      call.output_grads.begin(), call.output_grads.end() - 1, [](const NDArray& head) { return head.defined(); });
  if (!has_heads)
    return Arrays(call.inputs.size());
  const NDArray& x = call.inputs[0];
  const std::size_t states = call.output_grads.size() - 2;
  NDArray y = call.outputs[0], kept = call.outputs[1 + states];
  const bool has_kernel = x.device().is_cpu() || (x.device().is_gpu() && detail::unseen_shape(kept)[0] > 0) ||
                          !call.attributes.as<RnnAttributes>().keep;
  if (autograd::is_recording() || !has_kernel)
    return detail::rnn_recorded_gradients(call);
  RnnAttributes how = call.attributes.as<RnnAttributes>();
  if (!how.keep) {  // forward did not know that there would be a gradient
    how.keep = true;
    const Arrays again = invoke(detail::rnn_op, call.inputs, Attributes::of(how), site);
    y = again[0];
    kept = again.back();
  }
  const RnnProblem problem = rnn_problem(call.op, detail::spec_of(x), detail::spec_of(call.inputs[1]), how);
  std::vector<NDArray> given{x, call.inputs[1], y.detach(), kept.detach()};
  for (std::size_t i = 0; i <= states; ++i)
    given.push_back(call.output_grads[i].defined() ? call.output_grads[i] : no_head(i, y, problem, site));
  given.insert(given.end(), call.inputs.begin() + 2, call.inputs.end());
  const Arrays made = invoke(detail::rnn_backward_op, given, Attributes::of(how), site);
  // Of states for who gave some.
  return Arrays(made.begin(), made.begin() + static_cast<std::ptrdiff_t>(call.inputs.size()));
}

RnnAttributes attributes_of(const RnnOptions& o) {
  return {detail::rnn_mode_name(o.mode), o.hidden_size, o.num_layers, o.bidirectional, autograd::is_recording()};
}

// Whether there is a kernel of the arrays' device for what amp::autocast() makes of them.
bool has_kernel(const ArraySpec& x, const ArraySpec& parameters, const RnnAttributes& how) {
  [[maybe_unused]] RnnProblem problem = rnn_problem(detail::rnn_op, x, parameters, how);
  if (x.device.is_cpu())
    return true;
#if SLUICE_CUDA
  return x.device.is_gpu() && detail::rnn_has_library(x.device, problem);
#else
  return false;
#endif
}

// Cast as a call of the operator is, whose parts are not cast again: of the same types as where there is a kernel.
Arrays run_composed(std::span<const NDArray> inputs, const RnnAttributes& how, SourceLocation site) {
  const Attributes attributes = Attributes::of(how);
  Arrays cast;
  if (const detail::AutocastState* const state = detail::autocast_here(); state != nullptr)
    inputs = detail::autocast_inputs(detail::rnn_op, inputs, attributes, *state, cast, site);
  const detail::NoAutocast as_they_are;
  infer_rnn(detail::rnn_op, detail::specs_of(inputs), attributes);
  return detail::rnn_composed(inputs, how, site);
}

Arrays run(std::span<const NDArray> inputs, const RnnAttributes& how, SourceLocation site) {
  ArraySpec x = detail::spec_of(inputs[0]), parameters = detail::spec_of(inputs[1]);
  if (const auto low = amp::autocast_dtype())
    x.dtype = parameters.dtype = *low;
  if (!has_kernel(x, parameters, how))
    return run_composed(inputs, how, site);
  const Arrays results = invoke(detail::rnn_op, inputs, Attributes::of(how), site);
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
Arrays run_with_dropout(std::span<const NDArray> inputs, RnnAttributes how, double rate, SourceLocation site) {
  const RnnProblem all = rnn_problem(detail::rnn_op, detail::spec_of(inputs[0]), detail::spec_of(inputs[1]), how);
  const std::int64_t layers = std::exchange(how.num_layers, 1), directions = all.directions;
  std::array<std::vector<NDArray>, 2> ends;
  NDArray y = inputs[0];
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    std::vector<NDArray> given{layer == 0 ? y : dropout(y, rate, site), parameters_of(inputs[1], all, layer, site)};
    for (const NDArray& state : inputs.subspan(2))
      given.push_back(state.slice(0, layer * directions, (layer + 1) * directions, 1, site));
    const Arrays made = run(given, how, site);
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

constinit const Operator rnn_op{
    .name = "rnn",
    .inputs = -1,
    .outputs = -1,
    .attributes = &attribute_type<RnnAttributes>,
    .infer = infer_rnn,
    .kernels = {on_cpu(rnn_cpu), on_gpu(SLUICE_GPU_KERNEL(rnn_gpu))},
    .composition = compose,
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

OperatorList rnn_operators() noexcept {
  static constexpr const Operator* list[] = {&rnn_op, &rnn_backward_op};
  return list;
}

}  // namespace detail

Arrays rnn(
    const NDArray& x, const NDArray& parameters, const Arrays& states, const RnnOptions& options, SourceLocation site) {
  return detail::located(site, [&]() -> Arrays {
    require<ValueError>(options.dropout >= 0 && options.dropout <= 1, [&] {
      return message("rnn: dropout is ", options.dropout, ", not between 0 and 1");
    });
    std::vector<NDArray> inputs{x, parameters};
    inputs.insert(inputs.end(), states.begin(), states.end());
    for (const NDArray& input : inputs)
      detail::object_of(input, "rnn");  // defined
    const RnnAttributes how = attributes_of(options);
    if (options.dropout > 0 && options.num_layers > 1 && autograd::is_training())
      return run_with_dropout(inputs, how, options.dropout, site);
    return run(inputs, how, site);
  });
}

}  // namespace sluice
