#pragma once

#include <cstdint>

namespace sluice::simd {

/// Windows over one plane of a block of channels, which lie beside each other in each pixel. They lie inside the plane
/// and apart from each other. Their results stand window by window, a block of channels each.
struct BlockWindows {
  std::int64_t out[2] = {}, kernel[2] = {}, stride[2] = {};
  std::int64_t in[2] = {};    // of the plane, in pixels
  std::int64_t pixel = 0;     // floats from one to the next
  std::int64_t channels = 0;  // of the block that there are; what stands behind them is zero
  std::int64_t places = 0;    // from one window's first place to the next one's
};

/// What stands in the place of a maximum where relu gave 0: all gradients end there.
inline constexpr std::uint8_t k_masked_place = 255;

/// What a convolution with relu and pooling do to blocks of channels, in the vectors of simd::target(). The same bits
/// as the same plane by plane.
struct BlockRows {
  /// Maxima of relu(x), and which tap of its window each is: the first of equal ones, the first NaN if there is one.
  void (*largest)(const BlockWindows& windows, const float* x, float* maxima, std::uint8_t* places);
  /// The gradient of x from that of the maxima.
  void (*spread)(const BlockWindows& windows, const float* heads, const std::uint8_t* places, float* dx);
  /// Sums of each channel of a block over all pixels, `pixel` floats from one to the next, in the order of
  /// channel_sum_cpu().
  void (*sum)(const float* x, std::int64_t pixel, std::int64_t pixels, double* sums);
};

/// For blocks of so many channels; null if there are none.
const BlockRows* block_rows(std::int64_t block) noexcept;

}  // namespace sluice::simd
