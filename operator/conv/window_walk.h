#pragma once

// Where elements of windows come from, the same on CPU and GPU.
#include <cstdint>

#include <sluice/operator/conv/geometry.h>
#include <sluice/operator/floating_array.h>

namespace sluice::detail {

/// Windows of images (N, C, H, W) as (N, C, KH, KW, OH, OW), or with the windows' rows in front: (N, OH, C, KH, KW,
/// OW). A row is what lies along the last axis.
struct WindowWalk {
  std::int64_t images, channels;
  std::int64_t in[2], kernel[2], out[2], stride[2], dilation[2], pad[2];
  bool rows_first;

  struct Row {
    std::int64_t plane, ky, kx, oy;  // plane: of the image and channel
  };

  SLUICE_HD std::int64_t rows() const noexcept { return images * channels * kernel[0] * kernel[1] * out[0]; }
  SLUICE_HD Row row(std::int64_t i) const noexcept {
    Row at{};
    if (!rows_first) {
      at.oy = i % out[0];
      i /= out[0];
    }
    at.kx = i % kernel[1];
    at.ky = i / kernel[1] % kernel[0];
    i /= kernel[1] * kernel[0];
    if (!rows_first) {
      at.plane = i;
      return at;
    }
    at.oy = i / channels % out[0];
    at.plane = i / channels / out[0] * channels + i % channels;
    return at;
  }
  SLUICE_HD std::int64_t row_at(const Row& at) const noexcept {
    if (!rows_first)
      return ((at.plane * kernel[0] + at.ky) * kernel[1] + at.kx) * out[0] + at.oy;
    const std::int64_t of = (at.plane / channels * out[0] + at.oy) * channels + at.plane % channels;
    return (of * kernel[0] + at.ky) * kernel[1] + at.kx;
  }

  /// Where along an axis tap k of window o lies; outside the image for padding.
  SLUICE_HD std::int64_t place(int axis, std::int64_t o, std::int64_t k) const noexcept {
    return o * stride[axis] - pad[axis] + k * dilation[axis];
  }
  /// The window whose tap k lies there; -1 for none.
  SLUICE_HD std::int64_t window(int axis, std::int64_t place, std::int64_t k) const noexcept {
    const std::int64_t from = place + pad[axis] - k * dilation[axis];
    return from < 0 || from % stride[axis] != 0 || from / stride[axis] >= out[axis] ? -1 : from / stride[axis];
  }
  SLUICE_HD bool is_inside(int axis, std::int64_t place) const noexcept { return place >= 0 && place < in[axis]; }

  /// Element `ox` of a row.
  template <class U>
  SLUICE_HD U taken(const U* x, const Row& at, std::int64_t ox) const {
    const std::int64_t y = place(0, at.oy, at.ky), column = place(1, ox, at.kx);
    return is_inside(0, y) && is_inside(1, column) ? x[(at.plane * in[0] + y) * in[1] + column] : U{};
  }
  /// The sum of all that was taken of element i of the images.
  template <class C>
  SLUICE_HD C added(const FloatingArray<C>& columns, std::int64_t i) const {
    const std::int64_t x = i % in[1], y = i / in[1] % in[0], plane = i / in[1] / in[0];
    C sum = 0;
    for (std::int64_t ky = 0; ky < kernel[0]; ++ky) {
      const std::int64_t oy = window(0, y, ky);
      if (oy < 0)
        continue;
      for (std::int64_t kx = 0; kx < kernel[1]; ++kx) {
        const std::int64_t ox = window(1, x, kx);
        if (ox >= 0)
          sum += columns[row_at({plane, ky, kx, oy}) * out[1] + ox];
      }
    }
    return sum;
  }
};

// x -> columns
void unfold_cpu(const KernelCall& call, const WindowWalk& walk);
void unfold_gpu(const KernelCall& call, const WindowWalk& walk);
// columns -> x
void fold_cpu(const KernelCall& call, const WindowWalk& walk);
void fold_gpu(const KernelCall& call, const WindowWalk& walk);

}  // namespace sluice::detail
