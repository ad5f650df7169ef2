#include <vector>

#include <sluice/ndarray/autograd.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/norm/layer_norm_kernels.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/reduce/reduce.h>

namespace sluice::detail {

namespace {

const Operator& backward_of(const Operator& op) noexcept {
  if (&op == &layer_norm_op)
    return layer_norm_backward_op;
  if (&op == &group_norm_op)
    return group_norm_backward_op;
  if (&op == &instance_norm_op)
    return instance_norm_backward_op;
  return &op == &rms_norm_op ? rms_norm_backward_op : l2_normalization_backward_op;
}

// One an input; of constant lengths, for g++ 12 warns of any other.
Arrays no_gradients(std::size_t inputs) {
  return inputs == 3 ? Arrays(3) : inputs == 2 ? Arrays(2) : Arrays(1);
}

// The gradient in operators that can themselves be differentiated, for a backward that is recorded.
Arrays recorded_gradient(const GradientCall& call) {
  const NDArray& x = call.inputs[0];
  const bool centred = call.inputs.size() == 3, scaled = call.inputs.size() > 1;
  const NormRows rows = norm_rows(call.attributes, x.shape(), centred);
  const DType wide = wide_type(x.dtype());
  const Shape by_row = with_open_rows({rows.at.outer, rows.at.n, rows.at.inner});
  const Shape by_parameter =
      with_open_rows({rows.at.outer / rows.groups, rows.parameters(), rows.span * rows.at.inner});
  const auto mean_of = [&](const NDArray& a) { return rows.summed ? sum(a, {1}, true) : mean(a, {1}, true); };

  const NDArray of_rows = x.astype(wide).reshape(by_row);
  const NDArray dy = call.output_grads[0].astype(wide);
  const NDArray centre = centred ? of_rows - mean_of(of_rows) : of_rows;
  const NDArray inv_std = rsqrt(mean_of(centre * centre) + rows.eps);
  const NDArray normal = centre * inv_std;
  NDArray scaled_dy = dy.reshape(by_row);
  if (scaled) {
    const NDArray gamma = call.inputs[1].astype(wide).reshape({1, rows.parameters(), 1});
    scaled_dy = (dy.reshape(by_parameter) * gamma).reshape(by_row);
  }
  NDArray dx = scaled_dy - normal * mean_of(scaled_dy * normal);
  if (centred)
    dx = dx - mean_of(scaled_dy);
  Arrays grads = no_gradients(call.inputs.size());
  grads[0] = (dx * inv_std).reshape(x.shape()).astype(x.dtype());
  if (scaled) {
    const NDArray product = dy.reshape(by_parameter) * normal.reshape(by_parameter);
    grads[1] = sum(product, {0, 2}).astype(call.inputs[1].dtype());
  }
  if (centred)
    grads[2] = sum(dy.reshape(by_parameter), {0, 2}).astype(call.inputs[1].dtype());
  return grads;
}

}  // namespace

Arrays row_norm_gradient(const GradientCall& call) {
  if (!call.output_grads[0].defined())
    return no_gradients(call.inputs.size());
  if (autograd::is_recording())
    return recorded_gradient(call);
  std::vector<NDArray> inputs{call.output_grads[0], call.inputs[0]};
  if (call.inputs.size() > 1)
    inputs.push_back(call.inputs[1]);
  for (const NDArray& statistics : call.outputs.subspan(1))
    inputs.push_back(statistics.detach());
  return invoke(backward_of(call.op), inputs, call.attributes, SourceLocation::current());
}

}  // namespace sluice::detail
