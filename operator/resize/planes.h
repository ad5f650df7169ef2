#pragma once

#include <sluice/operator/operator.h>
#include <sluice/operator/resize/taps.h>

// Resized planes in one go; where there is no kernel they are composed (resize.cpp).
namespace sluice {

struct PlanesAttributes {
  Shape size{1, 1};
  bool bilinear = false, bicubic = false, align_corners = false, antialias = false;

  detail::TapKind kind() const noexcept {
    using detail::TapKind;
    if (bilinear)
      return antialias ? TapKind::wide_linear : TapKind::linear;
    return !bicubic ? TapKind::nearest : antialias ? TapKind::wide_cubic : TapKind::cubic;
  }
  /// Of an axis of `in` elements, resized to `out`.
  detail::TapRule rule(std::int64_t in, std::int64_t out) const noexcept { return {kind(), in, out, align_corners}; }
  template <class V>
  void visit(V&& v) {
    v.field("size", size);
    v.field("bilinear", bilinear);
    v.field("bicubic", bicubic);
    v.field("align_corners", align_corners);
    v.field("antialias", antialias);
  }
};

namespace detail {

extern const Operator k_resize_planes, k_resize_planes_backward;

/// The planes of other operators, axis by axis.
NDArray resized_by_takes(const NDArray& x, const PlanesAttributes& how, SourceLocation site);

// x -> y
void resize_planes_cpu(const KernelCall& call);
void resize_planes_gpu(const KernelCall& call);
// dy, x (shape alone) -> dx
void resize_planes_backward_cpu(const KernelCall& call);
void resize_planes_backward_gpu(const KernelCall& call);

}  // namespace detail
}  // namespace sluice
