#pragma once

#include <optional>

#include <sluice/operator/axis_layout.h>
#include <sluice/operator/index_value.h>
#include <sluice/operator/operator.h>

// The kernels and constants of this family; the registry lists the constants.
namespace sluice {

extern const Operator k_softmax, k_log_softmax, k_softmax_backward, k_log_softmax_backward;
extern const Operator k_masked_softmax, k_masked_log_softmax;
extern const Operator k_softmax_cross_entropy, k_softmax_cross_entropy_backward;
extern const Operator k_softmax_cross_entropy_both;  // of plans; its gradient may lie where the logits do
extern const Operator k_negative_log_likelihood, k_negative_log_likelihood_backward;
extern const Operator k_weighted_cross_entropy, k_weighted_likelihood;

namespace detail {

/// Attributes of all of them; `axis` is not negative in their normal form.
struct SoftmaxAttributes {
  std::int64_t axis = -1;

  template <class V>
  void visit(V&& v) {
    v.field("axis", axis);
  }
};

/// Attributes of cross entropies; `axis` is not negative in their normal form. What is ignored stands in parts: an
/// optional number beside the others would not lie in place.
struct CrossEntropyAttributes {
  std::int64_t axis = -1;
  std::int64_t ignored_label = 0;  // its rows give 0, and no gradient, where `ignores`
  bool ignores = false;
  bool wide = false;  // of half logits: losses, and the gradient of these, are float32

  IgnoredLabel ignored() const noexcept { return {ignored_label, ignores}; }
  void ignore(const std::optional<std::int64_t>& label) noexcept;

  template <class V>
  void visit(V&& v) {
    v.field("axis", axis);
    v.field("wide", wide);
    std::optional<std::int64_t> label = ignores ? std::optional(ignored_label) : std::nullopt;
    v.field("ignored", label);
    ignore(label);
  }
};
static_assert(Attributes::k_in_place<CrossEntropyAttributes>);

/// Attributes of likelihoods; `axis` is not negative in their normal form.
struct LikelihoodAttributes {
  std::int64_t axis = -1;
  std::optional<std::int64_t> ignored = {};

  template <class V>
  void visit(V&& v) {
    v.field("axis", axis);
    v.field("ignored", ignored);
  }
};
static_assert(Attributes::k_in_place<LikelihoodAttributes>);

/// Throws DTypeError and ShapeError naming `op` where labels along that axis of x do not fit.
void check_labels(const char* op, const ArraySpec& x, const ArraySpec& labels, int axis);
/// Of the losses of logits of that type.
DType loss_type(DType logits, bool wide) noexcept;
/// Where labels are `label`, whatever their type holds.
NDArray rows_of_label(const NDArray& labels, std::int64_t label, SourceLocation site = SourceLocation::current());

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
