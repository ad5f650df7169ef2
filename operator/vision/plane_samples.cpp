#include <array>
#include <vector>

#include <sluice/ndarray/create.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/detail/spec_checks.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/sides.h>
#include <sluice/operator/sink.h>
#include <sluice/operator/vision/plane_samples.h>

namespace sluice::detail {

namespace {

Shape check_samples(const Operator& op, const ArraySpec& x, const ArraySpec& rows, const ArraySpec& columns) {
  const Shape &xs = x.shape, &at = rows.shape;
  require<DTypeError>(x.dtype == wide_type(x.dtype) && rows.dtype == x.dtype && columns.dtype == x.dtype, [&] {
    return message(
        op.name, ": takes float32 or float64, all alike, not ", x.dtype, ", ", rows.dtype, " and ", columns.dtype);
  });
  const bool fits = xs.ndim() == 4 && at.ndim() == 3 && at == columns.shape && xs[0] == at[0];
  require<ShapeError>(fits && xs[2] >= 1 && xs[3] >= 1 && xs[2] <= k_most_of_window / xs[3], [&] {
    return message(
        op.name,
        ": x must be (N, C, H, W), of 1 to 2^31 - 1 pixels, places twice (N, A, B), not ",
        xs,
        ", ",
        at,
        " and ",
        columns.shape);
  });
  return {xs[0], xs[1], at[1], at[2]};
}

Specs infer_samples(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  return {{check_samples(op, inputs[0], inputs[1], inputs[2]), inputs[0].dtype, inputs[0].device}};
}

// dy, rows, columns, x (shape alone)
Specs infer_backward(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  const ArraySpec &dy = inputs[0], x{inputs[3].shape, dy.dtype, dy.device};
  check_like(op.name, "dy", dy, check_samples(op, x, inputs[1], inputs[2]), dy.dtype);
  return {x};
}

// dy, x, rows, columns
Specs infer_moves(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const ArraySpec &dy = inputs[0], &x = inputs[1], &rows = inputs[2];
  require<ValueError>(!attributes.as<PlaneSamplesAttributes>().nearest, [&] {
    return message(op.name, ": the nearest pixel stays the same where its place moves");
  });
  check_like(op.name, "dy", dy, check_samples(op, x, rows, inputs[3]), x.dtype);
  return {rows, rows};
}

SampleMode mode_of(const Attributes& attributes) {
  return attributes.as<PlaneSamplesAttributes>().nearest ? SampleMode::nearest : SampleMode::bilinear;
}

Arrays compose(std::span<const NDArray> in, const Attributes& attributes, SourceLocation site) {
  infer_samples(k_plane_samples, specs_of(in), attributes);
  return {sampled_by_takes(in[0], in[1], in[2], mode_of(attributes), site)};
}

// Back over the tape of what they are composed of, to those of x, rows and columns that are wanted: recorded, these are
// on the tape, otherwise it is one of its own.
Arrays pulled(
    const NDArray& dy,
    std::span<const NDArray> inputs,
    std::array<bool, 3> wanted,
    const Attributes& attributes,
    SourceLocation site) {
  const bool is_recorded = autograd::is_recording();
  std::vector<NDArray> of(inputs.begin(), inputs.end());
  std::vector<autograd::Entry> places;
  std::vector<std::size_t> of_input;
  for (std::size_t i = 0; i < of.size(); ++i) {
    if (!is_recorded) {
      of[i] = of[i].detach();
      if (wanted[i])
        of[i].attach_grad(GradReq::write, {});
    }
    if (wanted[i] && autograd::on_tape(of[i])) {
      places.push_back(autograd::entry_of(of[i]));
      of_input.push_back(i);
    }
  }
  std::vector<NDArray> y;
  {
    const autograd::RecordScope record;
    y.push_back(sampled_by_takes(of[0], of[1], of[2], mode_of(attributes), site));
  }
  const std::vector<NDArray> heads{dy};
  const auto made = autograd::grad_at(k_plane_samples.name, y, heads, places, {.create_graph = is_recorded}, site);
  Arrays grads(3);
  for (std::size_t i = 0; i < made.size(); ++i)
    grads[of_input[i]] = made[i];
  return grads;
}

Arrays compose_backward(std::span<const NDArray> in, const Attributes& attributes, SourceLocation site) {
  infer_backward(k_plane_samples_backward, specs_of(in), attributes);
  const NDArray of[] = {zeros_like(in[3], site), in[1], in[2]};
  return {pulled(in[0], of, {true, false, false}, attributes, site)[0]};
}

Arrays compose_moves(std::span<const NDArray> in, const Attributes& attributes, SourceLocation site) {
  infer_moves(k_plane_samples_moves, specs_of(in), attributes);
  const Arrays all = pulled(in[0], in.subspan(1), {false, true, true}, attributes, site);
  return {all[1], all[2]};
}

Arrays gradient(const GradientCall& call) {
  const NDArray& dy = call.output_grads[0];
  if (!dy.defined())
    return Arrays(3);
  const SourceLocation site = SourceLocation::current();
  const NDArray &x = call.inputs[0], &rows = call.inputs[1], &columns = call.inputs[2];
  if (autograd::is_recording())
    return pulled(dy, call.inputs, {call.wanted[0], call.wanted[1], call.wanted[2]}, call.attributes, site);
  NDArray dx;
  Arrays moves(2);
  if (call.wanted[0]) {
    const NDArray like = shape_only(call.input_specs[0]);
    dx = invoke_one(k_plane_samples_backward, {dy, rows, columns, like}, call.attributes, site);
  }
  if ((call.wanted[1] || call.wanted[2]) && mode_of(call.attributes) == SampleMode::bilinear) {
    const NDArray of[] = {dy, x, rows, columns};
    moves = invoke(k_plane_samples_moves, of, call.attributes, site);
  }
  return {dx, moves[0], moves[1]};
}

}  // namespace

constinit const Operator k_plane_samples{
    .name = "plane_samples",
    .inputs = 3,
    .attributes = &attribute_type<PlaneSamplesAttributes>,
    .infer = infer_samples,
    .kernels = {on_cpu(plane_samples_cpu)},
    .composition = compose,
    .gradient = gradient,
    .saved_inputs = 0b111,
};
constinit const Operator k_plane_samples_backward{
    .name = "plane_samples_backward",
    .inputs = 4,
    .attributes = &attribute_type<PlaneSamplesAttributes>,
    .infer = infer_backward,
    .kernels = {on_cpu(plane_samples_backward_cpu)},
    .composition = compose_backward,
    .shape_inputs = 0b1000,
};
constinit const Operator k_plane_samples_moves{
    .name = "plane_samples_places_backward",
    .inputs = 4,
    .outputs = 2,
    .attributes = &attribute_type<PlaneSamplesAttributes>,
    .infer = infer_moves,
    .kernels = {on_cpu(plane_samples_moves_cpu)},
    .composition = compose_moves,
};

}  // namespace sluice::detail
