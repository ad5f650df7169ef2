#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/detail/spec_checks.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/reduce/reduce.h>
#include <sluice/operator/sides.h>
#include <sluice/operator/sink.h>
#include <sluice/operator/vision/samples.h>

namespace sluice::detail {

namespace {

Shape check_samples(const Operator& op, const Shape& x, const ArraySpec& rows, const ArraySpec& columns) {
  const Shape& at = rows.shape;
  require<DTypeError>(rows.dtype == wide_type(rows.dtype) && is_floating(rows.dtype), [&] {
    return message(op.name, ": takes float32 or float64, not ", rows.dtype);
  });
  check_like(op.name, "columns", columns, at, rows.dtype);
  const auto is_plane = [](std::int64_t height, std::int64_t width) {
    return height == 0 || width == 0 || height <= k_most_of_window / 2 / width;
  };
  const bool fits = x.ndim() == 4 && at.ndim() == 3 && x[0] == at[0] && x[2] >= 1 && x[3] >= 1;
  require<ShapeError>(fits && is_plane(x[2] + 1, x[3] + 1) && is_plane(at[1], at[2]), [&] {
    return message(
        op.name,
        ": x must be (N, C, H, W) and rows (N, A, B), planes of less than 2^30 elements, not ",
        x,
        " and ",
        at);
  });
  return {x[0], x[1], at[1], at[2]};
}

// x, rows, columns
Specs infer_samples(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  const ArraySpec &x = inputs[0], &rows = inputs[1];
  const Shape y = check_samples(op, x.shape, rows, inputs[2]);
  check_like(op.name, "x", x, x.shape, rows.dtype);
  return {{y, x.dtype, x.device}};
}

// dy, rows, columns, x (shape alone)
Specs infer_backward(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  const ArraySpec &dy = inputs[0], &x = inputs[3];
  check_like(op.name, "dy", dy, check_samples(op, x.shape, inputs[1], inputs[2]), inputs[1].dtype);
  return {{x.shape, dy.dtype, dy.device}};
}

// dy, x, rows, columns
Specs infer_slopes(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const ArraySpec &dy = inputs[0], &x = inputs[1], &rows = inputs[2];
  require<ValueError>(!attributes.as<SamplesAttributes>().nearest, [&] {
    return message(op.name, ": nearest pixels do not change with a place");
  });
  check_like(op.name, "dy", dy, check_samples(op, x.shape, rows, inputs[3]), rows.dtype);
  check_like(op.name, "x", x, x.shape, rows.dtype);
  return {{rows.shape, x.dtype, x.device}, {rows.shape, x.dtype, x.device}};
}

NDArray samples_of(const NDArray& x, const NDArray& rows, const NDArray& columns, const Attributes& how) {
  return invoke_one(k_plane_samples, {x, rows, columns}, how, SourceLocation::current());
}

NDArray spread(
    const NDArray& dy, const NDArray& rows, const NDArray& columns, const ArraySpec& x, const Attributes& how) {
  return invoke_one(k_plane_samples_backward, {dy, rows, columns, shape_only(x)}, how, SourceLocation::current());
}

// Into grads[first] and the one behind it.
void add_slopes(const GradientCall& call, std::size_t first, const NDArray& dy, const NDArray& x, Arrays& grads) {
  if (call.attributes.as<SamplesAttributes>().nearest || (!call.wanted[first] && !call.wanted[first + 1]))
    return;
  const NDArray inputs[] = {dy, x, call.inputs[1], call.inputs[2]};
  const Arrays slopes = invoke(k_plane_slopes, inputs, call.attributes, SourceLocation::current());
  grads[first] = slopes[0];
  grads[first + 1] = slopes[1];
}

Arrays samples_gradient(const GradientCall& call) {
  Arrays grads(3);
  const NDArray& dy = call.output_grads[0];
  if (!dy.defined())
    return grads;
  if (call.wanted[0])
    grads[0] = spread(dy, call.inputs[1], call.inputs[2], call.input_specs[0], call.attributes);
  add_slopes(call, 1, dy, call.inputs[0], grads);
  return grads;
}

Mask samples_saved_for(Mask wanted, const Attributes& attributes) {
  return (wanted & 0b110) != 0 && !attributes.as<SamplesAttributes>().nearest ? 0b111 : 0b110;
}

// dx is as linear in dy as y in x: where a sum of dx times g is asked for, it is one of dy times samples of g.
Arrays backward_gradient(const GradientCall& call) {
  Arrays grads(4);
  const NDArray& g = call.output_grads[0];
  if (!g.defined())
    return grads;
  if (call.wanted[0])
    grads[0] = samples_of(g, call.inputs[1], call.inputs[2], call.attributes);
  add_slopes(call, 1, call.inputs[0], g, grads);
  return grads;
}

Mask backward_saved_for(Mask wanted, const Attributes&) {
  return (wanted & 0b110) != 0 ? 0b111 : 0b110;
}

/// A place along one axis: the pixel before it, the one behind that, and by how much it lies behind the first.
struct Between {
  NDArray low, high, part, rest;

  explicit Between(const NDArray& at) {
    const NDArray before = floor(at.detach());
    low = before;
    high = before + 1;
    const NDArray known = isfinite(before);
    part = where(known, subtract(where(known, at, 0), where(known, before, 0)), 0).expand_dims(1);
    rest = subtract(1, part);
  }
};

// Of the sums over channels of dy by slopes: by pixels that are taken as they are.
Arrays slopes_gradient(const GradientCall& call) {
  Arrays grads(4);
  const NDArray &dy = call.inputs[0], &x = call.inputs[1];
  const Between row(call.inputs[2]), column(call.inputs[3]);
  const auto head = [&](std::size_t i) {
    const NDArray& g = call.output_grads[i];
    return (g.defined() ? g : zeros_like(call.inputs[2 + i])).expand_dims(1);
  };
  const NDArray down = head(0), across = head(1);
  const Attributes nearest = Attributes::of(SamplesAttributes{true});
  const NDArray* const rows[] = {&row.low, &row.low, &row.high, &row.high};
  const NDArray* const columns[] = {&column.low, &column.high, &column.low, &column.high};
  if (call.wanted[0] || call.wanted[2] || call.wanted[3]) {
    NDArray pixel[4];
    for (int i = 0; i < 4; ++i)
      pixel[i] = samples_of(x, *rows[i], *columns[i], nearest);
    if (call.wanted[0]) {
      const NDArray by_row = (pixel[2] - pixel[0]) * column.rest + (pixel[3] - pixel[1]) * column.part;
      const NDArray by_column = (pixel[1] - pixel[0]) * row.rest + (pixel[3] - pixel[2]) * row.part;
      grads[0] = down * by_row + across * by_column;
    }
    const NDArray twice = sum(dy * (pixel[3] - pixel[2] - pixel[1] + pixel[0]), {1}, true);
    grads[2] = (across * twice).squeeze(1);
    grads[3] = (down * twice).squeeze(1);
  }
  if (call.wanted[1]) {
    const NDArray weights[] = {
        negative(down * column.rest + across * row.rest),
        across * row.rest - down * column.part,
        down * column.rest - across * row.part,
        down * column.part + across * row.part};
    for (int i = 0; i < 4; ++i) {
      const NDArray term = spread(dy * weights[i], *rows[i], *columns[i], call.input_specs[1], nearest);
      grads[1] = i == 0 ? term : grads[1] + term;
    }
  }
  return grads;
}

}  // namespace

constinit const Operator k_plane_samples{
    .name = "plane_samples",
    .inputs = 3,
    .attributes = &attribute_type<SamplesAttributes>,
    .infer = infer_samples,
    .kernels = {on_cpu(plane_samples_cpu), on_gpu(SLUICE_GPU_KERNEL(plane_samples_gpu))},
    .gradient = samples_gradient,
    .saved_inputs = 0b111,
    .saved_for = samples_saved_for,
};
constinit const Operator k_plane_samples_backward{
    .name = "plane_samples_backward",
    .inputs = 4,
    .attributes = &attribute_type<SamplesAttributes>,
    .infer = infer_backward,
    .kernels = {on_cpu(plane_samples_backward_cpu), on_gpu(SLUICE_GPU_KERNEL(plane_samples_backward_gpu))},
    .gradient = backward_gradient,
    .saved_inputs = 0b111,
    .saved_for = backward_saved_for,
    .shape_inputs = 0b1000,
};
constinit const Operator k_plane_slopes{
    .name = "plane_slopes",
    .inputs = 4,
    .outputs = 2,
    .attributes = &attribute_type<SamplesAttributes>,
    .infer = infer_slopes,
    .kernels = {on_cpu(plane_slopes_cpu), on_gpu(SLUICE_GPU_KERNEL(plane_slopes_gpu))},
    .gradient = slopes_gradient,
    .saved_inputs = 0b1111,
};

}  // namespace sluice::detail
