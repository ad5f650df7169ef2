#pragma once

// Where the moved taps of a convolution lie, the same on CPU and GPU.
#include <cstdint>

#include <sluice/ndarray/half.h>
#include <sluice/operator/operator.h>

namespace sluice {

/// Of windows of `kernel` taps, `out` of them, the first beginning `begin` before the image.
struct TapPlacesAttributes {
  Shape kernel{1, 1}, out{1, 1}, stride{1, 1}, begin{0, 0}, dilation{1, 1};

  template <class V>
  void visit(V&& v) {
    v.field("kernel", kernel);
    v.field("out", out);
    v.field("stride", stride);
    v.field("begin", begin);
    v.field("dilation", dilation);
  }
};

namespace detail {

/// Offsets (N, 2 * groups * taps, OH, OW), rows and columns in turn, as rows and columns (N * groups, taps, OH * OW)
/// counted in pixels.
extern const Operator k_tap_places;

void tap_places_cpu(const KernelCall& call);
void tap_places_gpu(const KernelCall& call);

template <class C>
struct TapPlaces {
  const C* offsets = nullptr;
  C *rows = nullptr, *columns = nullptr;
  std::int64_t size = 0, taps = 1, points = 1, out_columns = 1, tap_columns = 1;
  std::int64_t stride[2], begin[2], dilation[2];

  explicit TapPlaces(const KernelCall& call)
      : offsets(call.inputs[0].as<const C>()),
        rows(call.outputs[0].as<C>()),
        columns(call.outputs[1].as<C>()),
        size(call.outputs[0].size) {
    const auto& a = call.attributes.as<TapPlacesAttributes>();
    taps = a.kernel[0] * a.kernel[1];
    points = a.out[0] * a.out[1];
    out_columns = a.out[1];
    tap_columns = a.kernel[1];
    for (int axis = 0; axis < 2; ++axis) {
      stride[axis] = a.stride[axis];
      begin[axis] = a.begin[axis];
      dilation[axis] = a.dilation[axis];
    }
  }
  SLUICE_HD void put(std::int64_t i) const {
    const std::int64_t line = i / points, point = i - line * points, tap = line % taps;
    const std::int64_t row = point / out_columns, column = point - row * out_columns;
    const C* const by = offsets + 2 * line * points + point;
    rows[i] = place(0, row, tap / tap_columns) + by[0];
    columns[i] = place(1, column, tap % tap_columns) + by[points];
  }

 private:
  SLUICE_HD C place(int axis, std::int64_t window, std::int64_t tap) const {
    return static_cast<C>(window * stride[axis] - begin[axis] + tap * dilation[axis]);
  }
};

}  // namespace detail
}  // namespace sluice
