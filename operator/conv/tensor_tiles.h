#pragma once

// Convolutions of two-byte types on a GPU's tensor cores by a kernel of ours, with what follows them; and what kernels
// of floats share with it.
#include <cstdint>

#include <sluice/operator/conv/geometry.h>
#include <sluice/operator/library/multiprocessors.h>
#include <sluice/operator/matmul/gemm.h>

namespace sluice::detail {

/// As many parts of `each` as hold `extent`.
constexpr std::int64_t parts_of(std::int64_t extent, std::int64_t each) noexcept {
  return (extent + each - 1) / each;
}
/// Whether whole pieces of 16 bytes lie there.
inline bool is_aligned(const void* data) noexcept {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
}

/// Whether the kernel takes it: arrays whose channels are last, in whole pieces of 16 bytes, one group.
/// No extent is 0.
bool is_tiled(
    const Queue& queue,
    const ConvolutionGeometry& g,
    MemoryOrder order,
    const ConvolutionData& data,
    const ChannelEpilogue& then);

/// All of it, rounded once; is_tiled(). The same bits every time.
void convolution_by_tiles(
    const Queue& queue, const ConvolutionGeometry& g, const ConvolutionData& data, const ChannelEpilogue& then);

/// A product of floats in TF32, where that is asked for, whose tiles are few: each is shared by some blocks. Terms of
/// rows of a and of columns of b are neighbours. False, and nothing done, where it is none of these.
bool product_by_tiles(const Queue& queue, const GemmProblem& problem);

}  // namespace sluice::detail
