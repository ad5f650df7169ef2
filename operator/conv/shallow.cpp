#include <limits>

#include <sluice/operator/conv/shallow.h>
#include <sluice/operator/half_types.h>

namespace sluice::detail {

bool is_shallow(const ConvolutionGeometry& g, ConvolutionPass pass) noexcept {
  // Of more input channels a pixel of x is a vector, and libraries are good at those.
  constexpr std::int64_t most_inputs = 4;
  constexpr std::int64_t most_outputs = 4096;  // channels: of a grid
  // Ours multiply outside tensor cores. In half types, whose gradients of weights libraries have kernels for, that is
  // slower from here on.
  constexpr double most_half_products = 2e8;
  const bool half = is_half(g.dtype);
  const bool few = static_cast<double>(g.y_shape().size()) * static_cast<double>(g.depth()) <= most_half_products;
  constexpr std::int64_t most_elements = std::numeric_limits<std::int32_t>::max() / 2;  // numbered in 32 bits
  if (pass == ConvolutionPass::backward_data || g.groups != 1 || g.inputs > most_inputs ||
      g.depth() > k_shallow_depth || g.outputs > most_outputs)
    return false;
  for (int axis = 0; axis < 2; ++axis) {
    constexpr std::int64_t most = 1 << 16;  // products of those are numbers of 32 bits too
    if (g.stride[axis] > most || g.pad[axis] > most || g.pad_end[axis] > most || g.dilation[axis] > most)
      return false;
  }
  const std::int64_t x = g.x_shape().size(), y = g.y_shape().size(), weight = g.weight_shape().size();
  return x > 0 && y > 0 && weight > 0 && x <= most_elements && y <= most_elements &&
         (few || !half || pass == ConvolutionPass::forward);
}

}  // namespace sluice::detail
