#pragma once

#include <sluice/operator/operator.h>
#include <sluice/operator/resize/taps.h>

// Resized planes in one go, on a CPU; elsewhere they are composed (resize.cpp), and so is what is mixed of more than
// the neighbours.
namespace sluice {

struct PlanesAttributes {
  Shape size{1, 1};
  bool bilinear = false, bicubic = false, align_corners = false;

  detail::TapKind kind() const noexcept {
    return bilinear ? detail::TapKind::linear : bicubic ? detail::TapKind::cubic : detail::TapKind::nearest;
  }
  template <class V>
  void visit(V&& v) {
    v.field("size", size);
    v.field("bilinear", bilinear);
    v.field("bicubic", bicubic);
    v.field("align_corners", align_corners);
  }
};

namespace detail {

extern const Operator k_resize_planes, k_resize_planes_backward;

/// The planes of other operators, axis by axis.
NDArray resized_by_takes(const NDArray& x, const PlanesAttributes& how, SourceLocation site);

// x -> y
void resize_planes_cpu(const KernelCall& call);
// dy, x (shape alone) -> dx
void resize_planes_backward_cpu(const KernelCall& call);

}  // namespace detail
}  // namespace sluice
