#pragma once

#include <optional>
#include <string>

#include <sluice/operator/axis_layout.h>
#include <sluice/operator/norm/kernels.h>
#include <sluice/operator/operator.h>

// What layer norm and its like share: rows, each normalised by itself.
namespace sluice::detail {

/// Of layer_norm, rms_norm and their gradients, which take heads of any type that those give.
struct LayerNormAttributes {
  std::int64_t axis = -1;
  double eps = 1e-5;
  std::optional<DType> result = {};  // what a float32 x gives rounded, where that is all that is wanted; x's otherwise

  template <class V>
  void visit(V&& v) {
    v.field("axis", axis);
    v.field("eps", eps);
    v.field("result", result);
  }
};

/// Of group_norm and its gradient.
struct GroupNormAttributes {
  std::int64_t num_groups = 1;
  double eps = 1e-5;

  template <class V>
  void visit(V&& v) {
    v.field("num_groups", num_groups);
    v.field("eps", eps);
  }
};

struct InstanceNormAttributes {
  double eps = 1e-5;

  template <class V>
  void visit(V&& v) {
    v.field("eps", eps);
  }
};

/// `mode` as MXNet has it: instance, channel or spatial.
struct L2NormalizationAttributes {
  double eps = 1e-10;
  std::string mode = "instance";

  template <class V>
  void visit(V&& v) {
    v.field("eps", eps);
    v.field("mode", mode);
  }
};

/// The rows of an array, and which parameters their elements have: element i of row r that of
/// (r % groups) * channels + i / span.
struct NormRows {
  AxisLayout at;              // outer * inner rows of n elements
  std::int64_t groups = 1;    // rows that follow each other and have parameters of their own
  std::int64_t channels = 1;  // parameters a row
  std::int64_t span = 1;      // elements that share one
  double eps = 0;
  bool centred = true;  // otherwise the mean counts as 0
  bool summed = false;  // by the sum of squares, not by their mean

  std::int64_t count() const noexcept { return at.outer * at.inner; }
  std::int64_t parameters() const noexcept { return groups * channels; }
  /// What sums over a row are divided by.
  double divisor() const noexcept { return summed ? 1 : static_cast<double>(at.n); }
};

/// The rows of x for an operator with these attributes.
NormRows norm_rows(const Attributes& attributes, const Shape& x, bool centred);
/// Does x give `result`, its own type or, of float32 under attributes that can say so, a half type?
bool norm_gives(DType x, DType result, const Attributes& attributes) noexcept;

/// Parameters or their gradients; null where there are none.
struct NormParameter {
  void* data = nullptr;
  DType dtype = DType::float32;
};

/// A call of the forward operators: x, then gamma, then beta as far as there are any, to y, the means where rows are
/// centred, 1 / std.
struct NormForward {
  explicit NormForward(const KernelCall& call);
  NormRows rows;
  DType dtype, result;  // of x, of y
  const void* x;
  void* y;
  NormParameter gamma, beta;
  void *mean = nullptr, *inv_std;
};

/// A call of the gradients: dy, x, then gamma, the means, 1 / std as above, to dx and the gradients of gamma and beta.
struct NormBackward {
  explicit NormBackward(const KernelCall& call);
  NormRows rows;
  DType dtype, head;  // of x and dx, of dy
  const void *dy, *x;
  void* dx;
  NormParameter gamma, gamma_grad, beta_grad;
  const void *mean = nullptr, *inv_std;
};

// Of rows of float32 that a GPU keeps in registers: how many elements are moved at once, and there are at
// most.
inline constexpr std::int64_t k_norm_vector = 4, k_most_in_norm = 8192, k_most_in_norm_backward = 4096;

struct NormAddends;  // layer_norm_sum_cuda.cuh

/// What a gradient of float32 takes along: another one that is added to dx, and where the sum goes rounded to a half
/// type as well. Null where there is none.
struct NormSum {
  const void* other = nullptr;
  void* rounded = nullptr;
  DType half = DType::bfloat16;
};

// Kernels of all these operators.
void row_norm_cpu(const KernelCall& call);
void row_norm_backward_cpu(const KernelCall& call);
void row_norm_gpu(const KernelCall& call);
void row_norm_backward_gpu(const KernelCall& call);
void group_norm_gpu(const KernelCall& call);  // of group_norm and instance_norm
void group_norm_backward_gpu(const KernelCall& call);
// Parts of them: rows that are centred and others, and the gradients of gamma and beta alone.
void centred_rows_gpu(const NormForward& norm, const Queue& queue);
void long_row_moments_gpu(const NormForward& norm, const Queue& queue);  // of rows of neighbours, many blocks a row
void uncentred_rows_gpu(const NormForward& norm, const Queue& queue);
/// False, and nothing done, for what it does not take; with a sum, dx is that.
bool norm_backward_in_registers_gpu(const NormBackward& norm, const Queue& queue, const NormSum& sum = {});
/// False, and nothing done, for what they do not take; x of `norm` is the sum.
bool centred_sums_gpu(const NormForward& norm, const NormAddends& of, const Queue& queue);
bool uncentred_sums_gpu(const NormForward& norm, const NormAddends& of, const Queue& queue);
void norm_parameters_backward_gpu(const NormBackward& norm, const Queue& queue);

// Inference of all these operators, and their gradients.
Specs row_norm_infer(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes);
Specs row_norm_backward_infer(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes);
Arrays row_norm_gradient(const GradientCall& call);

extern const Operator layer_norm_op, layer_norm_backward_op, rms_norm_op, rms_norm_backward_op;
extern const Operator group_norm_op, group_norm_backward_op, instance_norm_op, instance_norm_backward_op;
extern const Operator l2_normalization_op, l2_normalization_backward_op;
extern const Operator local_response_norm_op;

}  // namespace sluice::detail
