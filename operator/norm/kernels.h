#pragma once

#include <algorithm>
#include <cmath>

#include <sluice/operator/axis_layout.h>
#include <sluice/operator/library/channel.h>
#include <sluice/operator/operator.h>

namespace sluice::detail {

/// Attributes of batch_norm and of its gradient.
struct BatchNormAttributes {
  double eps = 1e-5;
  double momentum = 0.9;
  std::int64_t axis = 1;  // not negative
  bool fix_gamma = false;
  bool batch_stats = true;  // false: the running statistics are constants

  template <class V>
  void visit(V&& v) {
    v.field("eps", eps);
    v.field("momentum", momentum);
    v.field("axis", axis);
    v.field("fix_gamma", fix_gamma);
    v.field("batch_stats", batch_stats);
  }
};

inline ChannelView channel_view(const TensorView& x, std::int64_t axis) noexcept {
  if (order_of(x.shape, x.strides) == MemoryOrder::channels_last)  // as batch_norm_order() chose, of axis 1
    return {x.size / std::max<std::int64_t>(x.shape[1], 1), x.shape[1], 1, x.dtype};
  const AxisLayout layout = axis_layout(x.shape, static_cast<int>(axis));
  // Of no elements there are no planes to walk over, however large N is.
  return {x.size == 0 ? 0 : layout.outer, layout.n, layout.inner, x.dtype};
}

/// One number of a parameter of any floating type; gamma and its like are short.
template <class Acc>
SLUICE_HD Acc load_parameter(const void* data, DType dtype, std::int64_t i) noexcept {
  switch (dtype) {
    case DType::float16:
      return static_cast<Acc>(static_cast<float>(static_cast<const Half*>(data)[i]));
    case DType::bfloat16:
      return static_cast<Acc>(static_cast<float>(static_cast<const BFloat16*>(data)[i]));
    case DType::float64:
      return static_cast<Acc>(static_cast<const double*>(data)[i]);
    default:
      return static_cast<Acc>(static_cast<const float*>(data)[i]);
  }
}
template <class Acc>
SLUICE_HD void store_parameter(void* data, DType dtype, std::int64_t i, Acc value) noexcept {
  switch (dtype) {
    case DType::float16:
      static_cast<Half*>(data)[i] = Half(static_cast<float>(value));
      break;
    case DType::bfloat16:
      static_cast<BFloat16*>(data)[i] = BFloat16(static_cast<float>(value));
      break;
    case DType::float64:
      static_cast<double*>(data)[i] = static_cast<double>(value);
      break;
    default:
      static_cast<float*>(data)[i] = static_cast<float>(value);
  }
}

/// What forward does with the statistics of each channel: keeps them for backward, moves the running ones, and
/// prepares y = (x - mean) * scale + shift.
template <class Acc>
struct BatchNormChannel {
  void *gamma, *beta, *running_mean, *running_var;
  DType parameters;
  Acc *mean, *inv_std, *scale, *shift;
  Acc eps, momentum;
  bool fix_gamma, batch_stats;

  BatchNormChannel(const KernelCall& call, Acc* scale_and_shift)
      : gamma(call.inputs[1].data),
        beta(call.inputs[2].data),
        running_mean(call.inputs[3].data),
        running_var(call.inputs[4].data),
        parameters(call.inputs[1].dtype),
        mean(call.outputs[1].as<Acc>()),
        inv_std(call.outputs[2].as<Acc>()),
        scale(scale_and_shift),
        shift(scale_and_shift + call.inputs[1].size) {
    const auto& how = call.attributes.as<BatchNormAttributes>();
    eps = static_cast<Acc>(how.eps);
    momentum = static_cast<Acc>(how.momentum);
    fix_gamma = how.fix_gamma;
    batch_stats = how.batch_stats;
  }

  /// With batch statistics: their mean and (biased) variance over `count` elements; otherwise those are not looked at.
  SLUICE_HD void finish(std::int64_t c, Acc count, Acc batch_mean, Acc batch_var) const {
    if (!batch_stats) {
      batch_mean = load_parameter<Acc>(running_mean, parameters, c);
      batch_var = load_parameter<Acc>(running_var, parameters, c);
    } else if (count > 0) {
      const Acc old_mean = load_parameter<Acc>(running_mean, parameters, c);
      const Acc old_var = load_parameter<Acc>(running_var, parameters, c);
      store_parameter<Acc>(running_mean, parameters, c, momentum * old_mean + (1 - momentum) * batch_mean);
      store_parameter<Acc>(running_var, parameters, c, momentum * old_var + (1 - momentum) * batch_var);
    }
    const Acc inverse = 1 / sqrt(batch_var + eps);
    mean[c] = batch_mean;
    inv_std[c] = inverse;
    scale[c] = fix_gamma ? inverse : inverse * load_parameter<Acc>(gamma, parameters, c);
    shift[c] = load_parameter<Acc>(beta, parameters, c);
  }
};

/// What backward does with the sums of each channel: writes the gradients of gamma and beta, and prepares
/// dx = scale * (dy - mean_dy - (x - mean) * slope).
template <class Acc>
struct BatchNormGradientChannel {
  const void* gamma;
  const Acc* inv_std;
  void *gamma_grad, *beta_grad;
  DType parameters;
  Acc *scale, *mean_dy, *slope;
  bool fix_gamma, batch_stats;

  BatchNormGradientChannel(const KernelCall& call, Acc* coefficients)
      : gamma(call.inputs[2].data),
        inv_std(call.inputs[4].as<Acc>()),
        gamma_grad(call.outputs[1].data),
        beta_grad(call.outputs[2].data),
        parameters(call.inputs[2].dtype),
        scale(coefficients),
        mean_dy(coefficients + call.inputs[2].size),
        slope(coefficients + 2 * call.inputs[2].size) {
    const auto& how = call.attributes.as<BatchNormAttributes>();
    fix_gamma = how.fix_gamma;
    batch_stats = how.batch_stats;
  }

  SLUICE_HD Acc scale_of(std::int64_t c) const {
    return fix_gamma ? inv_std[c] : inv_std[c] * load_parameter<Acc>(gamma, parameters, c);
  }
  /// `sum_dy`, and `sum_dy_x` of dy times (x - mean) / std, over `count` elements.
  SLUICE_HD void finish(std::int64_t c, Acc count, Acc sum_dy, Acc sum_dy_x) const {
    store_parameter<Acc>(beta_grad, parameters, c, sum_dy);
    store_parameter<Acc>(gamma_grad, parameters, c, fix_gamma ? Acc(0) : sum_dy_x);
    scale[c] = scale_of(c);
    const bool through_statistics = batch_stats && count > 0;
    mean_dy[c] = through_statistics ? sum_dy / count : Acc(0);
    slope[c] = through_statistics ? sum_dy_x / count * inv_std[c] : Acc(0);
  }
};

/// Attributes of batch_norm_fold.
struct BatchNormFoldAttributes {
  double eps = 1e-5;
  bool fix_gamma = false;

  template <class V>
  void visit(V&& v) {
    v.field("eps", eps);
    v.field("fix_gamma", fix_gamma);
  }
};

/// Statistics that are constants as what they do to x.
template <class Acc>
struct BatchNormFold {
  const void *gamma, *beta, *mean, *var, *bias;
  DType parameters, bias_type;
  Acc *scale, *shift;
  Acc eps;
  bool fix_gamma;

  explicit BatchNormFold(const KernelCall& call)
      : gamma(call.inputs[0].data),
        beta(call.inputs[1].data),
        mean(call.inputs[2].data),
        var(call.inputs[3].data),
        bias(call.inputs.size() > 4 ? call.inputs[4].data : nullptr),
        parameters(call.inputs[0].dtype),
        bias_type(call.inputs.back().dtype),
        scale(call.outputs[0].as<Acc>()),
        shift(call.outputs[1].as<Acc>()),
        eps(static_cast<Acc>(call.attributes.as<BatchNormFoldAttributes>().eps)),
        fix_gamma(call.attributes.as<BatchNormFoldAttributes>().fix_gamma) {}

  SLUICE_HD void finish(std::int64_t c) const {
    const Acc inverse = 1 / sqrt(load_parameter<Acc>(var, parameters, c) + eps);
    const Acc factor = fix_gamma ? inverse : inverse * load_parameter<Acc>(gamma, parameters, c);
    const Acc before = bias == nullptr ? Acc(0) : load_parameter<Acc>(bias, bias_type, c);
    scale[c] = factor;
    shift[c] = (before - load_parameter<Acc>(mean, parameters, c)) * factor + load_parameter<Acc>(beta, parameters, c);
  }
};

// Kernels of the operators.
void batch_norm_fold_cpu(const KernelCall& call);
void batch_norm_fold_gpu(const KernelCall& call);
void batch_norm_cpu(const KernelCall& call);
void batch_norm_backward_cpu(const KernelCall& call);
// The same in vectors; false, and nothing done, where there are none for the type.
bool batch_norm_in_vectors(const KernelCall& call);
bool batch_norm_backward_in_vectors(const KernelCall& call);
void batch_norm_relu_cpu(const KernelCall& call);
void batch_norm_relu_backward_cpu(const KernelCall& call);
void batch_norm_add_relu_backward_cpu(const KernelCall& call);
void batch_norm_gpu(const KernelCall& call);
void batch_norm_backward_gpu(const KernelCall& call);

}  // namespace sluice::detail
