#pragma once

#include <algorithm>

#include <sluice/operator/conv/geometry.h>

namespace sluice::detail {

/// Rows [begin, end) of the output of one image.
struct RowRange {
  std::int64_t begin = 0, end = 0;
};

// The outputs along one axis whose input, at kernel position `tap`, is inside the image: [first, second).
inline std::pair<std::int64_t, std::int64_t> outputs_inside(
    const ConvolutionGeometry& g, int axis, std::int64_t tap) noexcept {
  const std::int64_t shift = tap * g.dilation[axis] - g.pad[axis];  // input = output * stride + shift
  const std::int64_t stride = g.stride[axis];
  const std::int64_t first = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
  const std::int64_t room = g.in[axis] - shift;  // output * stride < room
  const std::int64_t second = room <= 0 ? 0 : (room + stride - 1) / stride;
  return {std::min(first, g.out[axis]), std::clamp(second, std::min(first, g.out[axis]), g.out[axis])};
}

/// Calls body(row, output_y, output_begin, output_end, input_offset) for each row of the unfolded image
/// (channel, kernel y, kernel x) and each output row of the range: the outputs whose input lies inside, and where the
/// input of output_begin is; inputs follow with the stride of the width.
template <class Body>
void for_each_tap(const ConvolutionGeometry& g, std::int64_t row, RowRange rows, Body&& body) {
  const std::int64_t kernel_x = row % g.kernel[1];
  const std::int64_t kernel_y = row / g.kernel[1] % g.kernel[0];
  const std::int64_t channel = row / (g.kernel[0] * g.kernel[1]);
  const auto [x_begin, x_end] = outputs_inside(g, 1, kernel_x);
  const auto [y_begin, y_end] = outputs_inside(g, 0, kernel_y);
  for (std::int64_t y = rows.begin; y < rows.end; ++y) {
    const bool inside = y >= y_begin && y < y_end && x_begin < x_end;
    const std::int64_t in_y = y * g.stride[0] + kernel_y * g.dilation[0] - g.pad[0];
    const std::int64_t in_x = x_begin * g.stride[1] + kernel_x * g.dilation[1] - g.pad[1];
    body(y, inside ? x_begin : 0, inside ? x_end : 0, (channel * g.in[0] + in_y) * g.in[1] + in_x);
  }
}

/// The image as a matrix (depth, outputs of the range): a convolution is a product with it (im2col).
template <class T>
void unfold(const ConvolutionGeometry& g, const T* image, RowRange rows, std::int64_t row, T* to) {
  for_each_tap(g, row, rows, [&](std::int64_t y, std::int64_t begin, std::int64_t end, std::int64_t offset) {
    T* out = to + (y - rows.begin) * g.out[1];
    std::fill(out, out + begin, T{});
    const T* from = image + (begin < end ? offset : 0);
    for (std::int64_t x = begin; x < end; ++x)
      out[x] = from[(x - begin) * g.stride[1]];
    std::fill(out + end, out + g.out[1], T{});
  });
}

/// The transpose of unfold: adds one row of the matrix to the image (col2im).
template <class Acc>
void fold(const ConvolutionGeometry& g, const Acc* from, RowRange rows, std::int64_t row, Acc* image) {
  for_each_tap(g, row, rows, [&](std::int64_t y, std::int64_t begin, std::int64_t end, std::int64_t offset) {
    const Acc* in = from + (y - rows.begin) * g.out[1];
    for (std::int64_t x = begin; x < end; ++x)
      image[offset + (x - begin) * g.stride[1]] += in[x];
  });
}

}  // namespace sluice::detail
