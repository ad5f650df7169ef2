#pragma once

#include <sluice/operator/axis_layout.h>
#include <sluice/operator/gather/gather.h>
#include <sluice/operator/operator.h>

// The kernels and constants of this family; the registry lists the constants.
namespace sluice {

extern const Operator k_take, k_take_backward, k_one_hot, k_pick, k_pick_backward;

namespace detail {

/// Attributes of take and pick. `axis` is not negative, `mode` an IndexMode.
struct GatherAttributes {
  std::int64_t axis = 0;
  std::int64_t mode = 0;

  IndexMode index_mode() const noexcept { return static_cast<IndexMode>(mode); }

  template <class V>
  void visit(V&& v) {
    v.field("axis", axis);
    v.field("mode", mode);
  }
};

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
/// Of `x`, the array that is taken from, or its gradient.
inline GatherAxis gather_axis(const KernelCall& call, const TensorView& x) noexcept {
  const auto& a = call.attributes.as<GatherAttributes>();
  return {a.axis, x.shape[static_cast<int>(a.axis)], a.index_mode()};
}

/// `take` as loops: y[outer][indices][inner] = x[outer][index][inner].
struct TakeLayout {
  std::int64_t outer = 1;
  std::int64_t n = 1;
  std::int64_t indices = 1;
  std::int64_t inner = 1;
};
TakeLayout take_layout(const Shape& taken, const Shape& indices, const GatherAxis& along);

// x, indices -> y
void take_cpu(const KernelCall& call);
void take_gpu(const KernelCall& call);
// indices, dy, x (shape alone) -> dx
void take_backward_cpu(const KernelCall& call);
void take_backward_gpu(const KernelCall& call);
// indices -> y
void one_hot_cpu(const KernelCall& call);
void one_hot_gpu(const KernelCall& call);
// x, index -> y
void pick_cpu(const KernelCall& call);
void pick_gpu(const KernelCall& call);
// index, dy, x (shape alone) -> dx
void pick_backward_cpu(const KernelCall& call);
void pick_backward_gpu(const KernelCall& call);

}  // namespace detail
}  // namespace sluice
