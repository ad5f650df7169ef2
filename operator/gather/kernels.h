#pragma once

#include <sluice/operator/axis_layout.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/gather/gather.h>
#include <sluice/operator/gather/placing.h>
#include <sluice/operator/index_value.h>
#include <sluice/operator/operator.h>
#include <sluice/operator/own_defaults.h>

// The kernels and constants of this family; the registry lists the constants.
namespace sluice {

extern const Operator k_take, k_take_backward, k_one_hot, k_pick, k_pick_backward;
extern const Operator k_gather_nd, k_gather_nd_backward, k_take_along_axis, k_take_along_axis_backward;
extern const Operator k_index_update, k_index_update_nd, k_put_along_axis;
extern const Operator k_index_add, k_index_add_nd, k_add_along_axis;
extern const Operator k_index_update_backward, k_index_update_nd_backward, k_put_along_axis_backward;

namespace detail {

/// Attributes of take and its like, and of pick. `axis` is not negative, `mode` an IndexMode.
struct GatherAttributes {
  std::int64_t axis = 0;
  std::int64_t mode = 0;
  const char* asked = nullptr;  // what the program called, where that is not the operator; errors name it

  IndexMode index_mode() const noexcept { return static_cast<IndexMode>(mode); }

  template <class V>
  void visit(V&& v) {
    v.field("axis", axis);
    v.field("mode", mode);
  }
};

/// Of pick, and of what names an entry for each place: along the last axis where a call does not say which.
constexpr GatherAttributes along_last_axis() {
  return {.axis = -1};
}
template <IndexKind kind>
inline constexpr const AttributeType* k_gather_attributes =
    kind == IndexKind::along ? &attribute_type_from<along_last_axis> : &attribute_type<GatherAttributes>;

struct OneHotAttributes {
  std::int64_t depth = 0;
  DType dtype = DType::float32;

  template <class V>
  void visit(V&& v) {
    v.field("depth", depth);
    v.field("dtype", dtype);
  }
};

/// The axis that indices name entries of, and how.
struct GatherAxis {
  std::int64_t axis = 0;
  std::int64_t extent = 0;
  IndexMode mode = IndexMode::raise;
};

/// What pick takes of each row. With `negative` its sign is the other one, which floating types alone have; of an
/// ignored label it is 0, and so is its gradient.
struct PickRule {
  std::int64_t axis = 0;
  IndexMode mode = IndexMode::raise;
  bool negative = false;
  IgnoredLabel ignored = {};

  GatherAxis of(const TensorView& x) const noexcept { return {axis, x.shape[static_cast<int>(axis)], mode}; }
  /// What turns the sign of an element as wide as U.
  template <class U>
  U flipped_bits() const noexcept {
    return negative ? static_cast<U>(U{1} << (8 * sizeof(U) - 1)) : U{0};
  }
};
using PickKernel = void (*)(const KernelCall& call, const PickRule& rule);

/// The kernel of pick or of its gradient, as the attributes say.
template <PickKernel kernel>
void pick_as_told(const KernelCall& call) {
  const auto& a = call.attributes.as<GatherAttributes>();
  kernel(call, {a.axis, a.index_mode()});
}

/// `take` as loops: y[outer][indices][inner] = x[outer][index][inner].
struct TakeLayout {
  std::int64_t outer = 1;
  std::int64_t n = 1;
  std::int64_t indices = 1;
  std::int64_t inner = 1;
};

/// What one call takes from an array, or puts there; `axis` is the first that numbers name entries of.
struct Taking {
  Placing place;
  TakeLayout at;
  std::int64_t axis = 0;
};
/// Of an array of shape `x`.
Taking taking_of(IndexKind kind, const GatherAttributes& how, const TensorView& indices, const Shape& x);
inline Taking taking_of(IndexKind kind, const KernelCall& call, const TensorView& indices, const Shape& x) {
  return taking_of(kind, call.attributes.as<GatherAttributes>(), indices, x);
}

/// by_floating() of what is added up, int64 too; shape rules have refused other types.
template <class F>
void by_summable(DType dtype, F&& f) {
  if (dtype == DType::int64)
    f.template operator()<std::int64_t>();
  else
    by_floating(dtype, f);
}

// x, indices -> y, for x that lies in any way
void take_strided_cpu(const KernelCall& call, const Taking& taking);
void take_strided_gpu(const KernelCall& call, const Taking& taking);
// y, which is written in place and lies in any way, values, indices of several axes; of several values of one entry the
// last one.
void put_entries_cpu(const KernelCall& call);
void put_entries_gpu(const KernelCall& call);
// x, indices -> y
void take_cpu(const KernelCall& call, IndexKind kind);
void take_gpu(const KernelCall& call, IndexKind kind);
// indices, dy, x (shape alone) -> dx
void take_backward_cpu(const KernelCall& call, IndexKind kind);
void take_backward_gpu(const KernelCall& call, IndexKind kind);
// x, indices, values -> y, x with values where indices say; of several values of one entry the last one.
void put_cpu(const KernelCall& call, IndexKind kind);
void put_gpu(const KernelCall& call, IndexKind kind);
bool put_along_rows_gpu(const KernelCall& call, const Taking& taking);  // false: nothing done, rows are too long or few
// values, indices -> y, of several axes, the others zeros
void scatter_nd_gpu(const KernelCall& call);
// indices, dy -> dx, dvalues
void put_backward_cpu(const KernelCall& call, IndexKind kind);
void put_backward_gpu(const KernelCall& call, IndexKind kind);
// indices -> y
void one_hot_cpu(const KernelCall& call);
void one_hot_gpu(const KernelCall& call);
// x, index -> y
void pick_cpu(const KernelCall& call, const PickRule& rule);
void pick_gpu(const KernelCall& call, const PickRule& rule);
// index, dy, x (shape alone) -> dx
void pick_backward_cpu(const KernelCall& call, const PickRule& rule);
void pick_backward_gpu(const KernelCall& call, const PickRule& rule);

}  // namespace detail
}  // namespace sluice
