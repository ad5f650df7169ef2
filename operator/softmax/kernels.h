#pragma once

#include <sluice/operator/axis_layout.h>
#include <sluice/operator/operator.h>

// The kernels and constants of this family; the registry lists the constants.
namespace sluice {

extern const Operator k_softmax, k_log_softmax, k_softmax_backward, k_log_softmax_backward;
extern const Operator k_masked_softmax, k_masked_log_softmax;
extern const Operator k_softmax_cross_entropy, k_softmax_cross_entropy_backward;
extern const Operator k_softmax_cross_entropy_both;  // of plans; its gradient may lie where the logits do
extern const Operator k_negative_log_likelihood, k_negative_log_likelihood_backward;

namespace detail {

/// Attributes of all of them; `axis` is not negative in their normal form.
struct SoftmaxAttributes {
  std::int64_t axis = -1;

  template <class V>
  void visit(V&& v) {
    v.field("axis", axis);
  }
};

/// Attributes of cross entropies; `axis` is not negative in their normal form.
struct CrossEntropyAttributes {
  std::int64_t axis = -1;
  bool wide = false;  // of half logits: losses, and the gradient of these, are float32

  template <class V>
  void visit(V&& v) {
    v.field("axis", axis);
    v.field("wide", wide);
  }
};

/// softmax_cross_entropy_both by the kernels of forward and backward.
void cross_entropy_in_two(const KernelCall& call, Kernel forward, Kernel backward);

inline AxisLayout softmax_layout(const KernelCall& call) noexcept {
  return axis_layout(call.inputs[0].shape, static_cast<int>(call.attributes.as<SoftmaxAttributes>().axis));
}

inline AxisLayout cross_entropy_layout(const KernelCall& call) noexcept {
  return axis_layout(call.inputs[0].shape, static_cast<int>(call.attributes.as<CrossEntropyAttributes>().axis));
}

// x -> y
void softmax_cpu(const KernelCall& call);
void softmax_gpu(const KernelCall& call);
void log_softmax_cpu(const KernelCall& call);
void log_softmax_gpu(const KernelCall& call);
// y, dy -> dx
void softmax_backward_cpu(const KernelCall& call);
void softmax_backward_gpu(const KernelCall& call);
void log_softmax_backward_cpu(const KernelCall& call);
void log_softmax_backward_gpu(const KernelCall& call);
// logits, labels -> loss, log of the sum of exponentials
void softmax_cross_entropy_cpu(const KernelCall& call);
void softmax_cross_entropy_gpu(const KernelCall& call);
// logits, labels, log of the sum, dy -> dlogits
void softmax_cross_entropy_backward_cpu(const KernelCall& call);
void softmax_cross_entropy_backward_gpu(const KernelCall& call);
// logits, labels, dy -> loss, log of the sum, dlogits
void softmax_cross_entropy_both_cpu(const KernelCall& call);
void softmax_cross_entropy_both_gpu(const KernelCall& call);

}  // namespace detail
}  // namespace sluice
