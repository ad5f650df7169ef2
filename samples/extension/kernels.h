#pragma once

#include <cstdint>

// Kernels of kernels_cuda.cu, which knows nothing of Sluice.
namespace samples {

struct ConvolutionExtents {
  std::int64_t images, height, width, window_height, window_width;
  std::int64_t rows() const { return height - window_height + 1; }
  std::int64_t columns() const { return width - window_width + 1; }
};
/// y[n, i, j] = sum of x[n, i + a, j + b] weight[a, b], on a cudaStream_t. What CUDA says of the launch, 0 for well.
int enqueue_convolution(void* stream, const float* x, const float* weight, float* y, const ConvolutionExtents& extents);

/// x[i] = x[i] * x[i], on no stream in particular: CUDA's legacy default stream then.
void pasted_square(float* x, int n);

}  // namespace samples
