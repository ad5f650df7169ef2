#include "samples/extension/kernels.h"

namespace samples {

namespace {

constexpr int k_tile = 16;

// The window is read by all threads of a block, so it lies in shared memory.
__global__ void convolution_kernel(
    const float* x, const float* weight, float* y, ConvolutionExtents at, int rows, int columns) {
  extern __shared__ float window[];
  const int elements = static_cast<int>(at.window_height * at.window_width);
  for (int i = static_cast<int>(threadIdx.y * k_tile + threadIdx.x); i < elements; i += k_tile * k_tile)
    window[i] = weight[i];
  __syncthreads();
  const int column = static_cast<int>(blockIdx.x * k_tile + threadIdx.x);
  const int row = static_cast<int>(blockIdx.y * k_tile + threadIdx.y);
  if (row >= rows || column >= columns)
    return;
  for (std::int64_t image = blockIdx.z; image < at.images; image += gridDim.z) {
    const float* const from = x + image * at.height * at.width;
    float sum = 0;
    for (int a = 0; a < at.window_height; ++a) {
      for (int b = 0; b < at.window_width; ++b)
        sum += from[(row + a) * at.width + column + b] * window[a * at.window_width + b];
    }
    y[(image * rows + row) * columns + column] = sum;
  }
}

__global__ void square_kernel(float* x, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n)
    x[i] *= x[i];
}

unsigned blocks(std::int64_t n, int each) {
  return static_cast<unsigned>((n + each - 1) / each);
}

}  // namespace

int enqueue_convolution(
    void* stream, const float* x, const float* weight, float* y, const ConvolutionExtents& extents) {
  constexpr std::int64_t k_most_layers = 65535;
  const auto rows = static_cast<int>(extents.rows()), columns = static_cast<int>(extents.columns());
  const auto layers = static_cast<unsigned>(extents.images < k_most_layers ? extents.images : k_most_layers);
  const auto shared = static_cast<std::size_t>(extents.window_height * extents.window_width) * sizeof(float);
  convolution_kernel<<<
      dim3(blocks(columns, k_tile), blocks(rows, k_tile), layers),
      dim3(k_tile, k_tile),
      shared,
      static_cast<cudaStream_t>(stream)>>>(x, weight, y, extents, rows, columns);
  return cudaGetLastError();
}

void pasted_square(float* x, int n) {
  square_kernel<<<blocks(n, 256), 256>>>(x, n);
}

}  // namespace samples
