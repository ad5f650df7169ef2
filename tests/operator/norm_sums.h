#pragma once

// Layer norm and RMS norm with the sums of a residual stream: what their tests share.
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include <sluice/operator/norm/add_norm.h>

#include "tests/operator/norm_residuals.h"

namespace sluice::test {

using LayerAttributes = detail::LayerNormAttributes;

/// Rows, of vectors and others, along an axis.
struct NormRowsOf {
  Shape shape;
  int axis = -1;

  int axis_in_front() const { return axis < 0 ? shape.ndim() - 1 : axis; }
  std::int64_t length() const { return shape[axis_in_front()]; }
};

/// In registers of one warp and of several, of one vector a thread and of all; beyond them; none.
inline const NormRowsOf k_norm_rows[] = {
    {{6, 64}},
    {{19, 8}},
    {{2, 3, 200}},
    {{9, 512}},
    {{5, 768}},
    {{3, 1536}},
    {{2, 4096}},
    {{5, 7}},
    {{2, 4100}},
    {{4, 6, 5}, 1},
    {{9, 4}, 0},
    {{0, 8}},
    {{3, 0}}};

/// A norm of x and what its gradient is told, float32 beside half types.
struct NormOperands {
  NDArray x, head, other;
  Arrays parameters, made;

  NormOperands(const NormRowsOf& rows, DType dtype, DType head_type, bool centred, Device device) {
    x = random_array(rows.shape, 1, -2, 2, dtype).to(device);
    head = random_array(rows.shape, 4, -1, 1, head_type).to(device);
    other = random_array(rows.shape, 5, -1, 1, dtype).to(device);
    const DType wide = dtype == float64 ? float64 : float32;
    for (int i = 0; i < (centred ? 2 : 1); ++i)
      parameters.push_back(random_array({rows.length()}, static_cast<unsigned>(2 + i), -1, 2, wide).to(device));
    made = norm(x, parameters, {rows.axis_in_front(), 1e-5});
    if (other.size() < 12)
      return;
    NDArray some = other.reshape({-1});
    some.slice(0, 0, 1).assign(NAN);
    some.slice(0, 5, 6).assign(-INFINITY);
    some.slice(0, 7, 8).assign(1e-39);
  }

  static Arrays norm(const NDArray& x, const Arrays& parameters, const LayerAttributes& how) {
    Arrays inputs{x};
    inputs.insert(inputs.end(), parameters.begin(), parameters.end());
    const Operator& op = parameters.size() == 2 ? detail::layer_norm_op : detail::rms_norm_op;
    return invoke(op, inputs, Attributes::of(how), {});
  }
  Arrays backward_inputs() const {
    Arrays inputs{head, x, parameters[0]};
    inputs.insert(inputs.end(), made.begin() + 1, made.end());
    return inputs;
  }
  Arrays backward(const LayerAttributes& how) const {
    const Operator& op = parameters.size() == 2 ? detail::layer_norm_backward_op : detail::rms_norm_backward_op;
    return invoke(op, backward_inputs(), Attributes::of(how), {});
  }
  /// The gradient and the sum in one call, with `how.result` the rounded sum too.
  Arrays at_once(const LayerAttributes& how) const {
    Arrays inputs = backward_inputs();
    inputs.push_back(other);
    const Operator& op = parameters.size() == 2 ? detail::add_layer_norm_backward_op : detail::add_rms_norm_backward_op;
    return invoke(op, inputs, Attributes::of(how), {});
  }
  Arrays one_by_one(const LayerAttributes& how) const {
    Arrays results = backward({how.axis, how.eps});
    results[0] = results[0] + other;
    if (how.result)
      results.push_back(results[0].astype(*how.result));
    return results;
  }
};

}  // namespace sluice::test
