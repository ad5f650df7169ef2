// Convolution as products with unfolded images: what runs where cuDNN has no engine. One image and group at a time.
#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/conv/geometry.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/matmul/product.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {
namespace {

// block (depth, outputs) from an image (channels, height, width).
template <class T>
__global__ void unfold_kernel(ConvolutionGeometry g, const T* image, T* block, std::int64_t total) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < total; i += step) {
    const std::int64_t x = i % g.out[1];
    const std::int64_t y = i / g.out[1] % g.out[0];
    const std::int64_t row = i / (g.out[1] * g.out[0]);
    const std::int64_t in_x = x * g.stride[1] + row % g.kernel[1] * g.dilation[1] - g.pad[1];
    const std::int64_t in_y = y * g.stride[0] + row / g.kernel[1] % g.kernel[0] * g.dilation[0] - g.pad[0];
    const std::int64_t channel = row / (g.kernel[0] * g.kernel[1]);
    const bool inside = in_x >= 0 && in_x < g.in[1] && in_y >= 0 && in_y < g.in[0];
    block[i] = inside ? image[(channel * g.in[0] + in_y) * g.in[1] + in_x] : T(0.0f);
  }
}

// The transpose: each pixel gathers what it gave, in a fixed order.
template <class T>
__global__ void fold_kernel(ConvolutionGeometry g, const T* block, T* image, std::int64_t total) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < total; i += step) {
    const std::int64_t in_x = i % g.in[1];
    const std::int64_t in_y = i / g.in[1] % g.in[0];
    const std::int64_t channel = i / (g.in[1] * g.in[0]);
    Compute<T> sum = 0;
    for (std::int64_t ky = 0; ky < g.kernel[0]; ++ky) {
      const std::int64_t y = in_y + g.pad[0] - ky * g.dilation[0];
      if (y < 0 || y % g.stride[0] != 0 || y / g.stride[0] >= g.out[0])
        continue;
      for (std::int64_t kx = 0; kx < g.kernel[1]; ++kx) {
        const std::int64_t x = in_x + g.pad[1] - kx * g.dilation[1];
        if (x < 0 || x % g.stride[1] != 0 || x / g.stride[1] >= g.out[1])
          continue;
        const std::int64_t row = (channel * g.kernel[0] + ky) * g.kernel[1] + kx;
        sum += static_cast<Compute<T>>(block[(row * g.out[0] + y / g.stride[0]) * g.out[1] + x / g.stride[1]]);
      }
    }
    image[i] = T(sum);
  }
}

template <class T>
void unfold(const Queue& queue, const ConvolutionGeometry& g, const T* image, T* block) {
  const std::int64_t total = g.depth() * g.out_plane();
  unfold_kernel<<<blocks_for(total), k_block, 0, stream_of(queue)>>>(g, image, block, total);
  check_launch("convolution (unfold)");
}

template <class T>
void run_one(
    const Queue& queue,
    ConvolutionPass pass,
    const ConvolutionGeometry& g,
    T* x,
    T* weight,
    T* y,
    T* block,
    bool accumulate) {
  const std::int64_t outputs = g.group_outputs(), depth = g.depth(), pixels = g.out_plane();
  GemmProblem p;
  p.dtype = g.dtype;
  if (pass == ConvolutionPass::backward_data) {
    p.m = depth, p.n = pixels, p.k = outputs;
    p.a = {weight, 1, depth, 0};
    p.b = {y, pixels, 1, 0};
    p.c = {block, pixels, 1, 0};
    product_gpu(queue, p);
    const std::int64_t total = g.group_inputs() * g.in_plane();
    fold_kernel<<<blocks_for(total), k_block, 0, stream_of(queue)>>>(g, block, x, total);
    check_launch("convolution (fold)");
    return;
  }
  unfold(queue, g, x, block);
  if (pass == ConvolutionPass::forward) {
    p.m = outputs, p.n = pixels, p.k = depth;
    p.a = {weight, depth, 1, 0};
    p.b = {block, pixels, 1, 0};
    p.c = {y, pixels, 1, 0};
  } else {
    p.m = outputs, p.n = depth, p.k = pixels;
    p.a = {y, pixels, 1, 0};
    p.b = {block, 1, pixels, 0};
    p.c = {weight, depth, 1, 0};
    p.accumulate = accumulate;
  }
  product_gpu(queue, p);
}

// Between rows and channels that are neighbours.
template <class T>
__global__ void __launch_bounds__(k_block)
    reorder_kernel(const T* from, T* to, std::int64_t size, std::int64_t channels, std::int64_t plane, bool to_rows) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * k_block;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * k_block + threadIdx.x; row < size; row += step) {
    const std::int64_t image = row / (channels * plane), rest = row % (channels * plane);
    const std::int64_t last = (image * plane + rest % plane) * channels + rest / plane;
    to[to_rows ? row : last] = from[to_rows ? last : row];
  }
}

void reorder(const Queue& queue, DType dtype, const Shape& shape, const void* from, void* to, bool to_rows) {
  by_floating(dtype, [&]<class T>() {
    reorder_kernel<<<blocks_for(shape.size()), k_block, 0, stream_of(queue)>>>(
        static_cast<const T*>(from), static_cast<T*>(to), shape.size(), shape[1], shape[2] * shape[3], to_rows);
    check_launch("convolution");
  });
}

void run_in_rows(const Queue& queue, ConvolutionPass pass, const ConvolutionGeometry& g, const ConvolutionData& d) {
  const Shape shapes[] = {g.x_shape(), g.weight_shape(), g.y_shape()};
  void* const given[] = {d.x, d.weight, d.y};
  const auto bytes_of = [&](int i) { return static_cast<std::size_t>(shapes[i].size()) * size_of(g.dtype); };
  const Workspace rows[] = {{queue, bytes_of(0)}, {queue, bytes_of(1)}, {queue, bytes_of(2)}};
  const int result = pass == ConvolutionPass::forward ? 2 : pass == ConvolutionPass::backward_data ? 0 : 1;
  for (int i = 0; i < 3; ++i) {
    if (i != result)
      reorder(queue, g.dtype, shapes[i], given[i], rows[i].data(), true);
  }
  convolution_unfolded_gpu(queue, pass, g, {rows[0].data(), rows[1].data(), rows[2].data()});
  reorder(queue, g.dtype, shapes[result], rows[result].data(), given[result], false);
}

}  // namespace

void convolution_unfolded_gpu(
    const Queue& queue,
    ConvolutionPass pass,
    const ConvolutionGeometry& g,
    const ConvolutionData& d,
    MemoryOrder order) {
  if (order == MemoryOrder::channels_last)
    return run_in_rows(queue, pass, g, d);
  by_floating(g.dtype, [&]<class T>() {
    const Workspace block(queue, sizeof(T) * static_cast<std::size_t>(g.depth() * g.out_plane()));
    for (std::int64_t image = 0; image < g.images; ++image) {
      for (std::int64_t group = 0; group < g.groups; ++group) {
        T* x = static_cast<T*>(d.x) + (image * g.inputs + group * g.group_inputs()) * g.in_plane();
        T* weight = static_cast<T*>(d.weight) + group * g.group_outputs() * g.depth();
        T* y = static_cast<T*>(d.y) + (image * g.outputs + group * g.group_outputs()) * g.out_plane();
        run_one(queue, pass, g, x, weight, y, block.as<T>(), image > 0);
      }
    }
  });
}

}  // namespace sluice::detail
