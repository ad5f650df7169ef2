#include <algorithm>

#include <sluice/engine/parallel.h>
#include <sluice/ndarray/detail/copy_kernels.h>
#include <sluice/ndarray/detail/simd_casts.h>
#include <sluice/operator/conv/few_pixels.h>
#include <sluice/operator/conv/unfold.h>
#include <sluice/operator/library/channel.h>
#include <sluice/operator/library/widened.h>
#include <sluice/operator/matmul/product.h>

namespace sluice::detail {
namespace {

constexpr std::int64_t k_grain = 16 * 1024;  // elements worth a thread

// Columns of the products: the pixels of all results.
std::int64_t pixels_of(const ConvolutionGeometry& g) {
  return g.images * g.out_plane();
}

// As measured for bfloat16 on AMX: oneDNN's gradient of weights sums up row by row, which leaves most of a tile of
// short ones empty; for the other passes only its order of the weights is dear.
bool is_worth(ConvolutionPass pass, const ConvolutionGeometry& g) {
  constexpr std::int64_t k_least_weights = 1 << 15, k_most_unfolded = 1 << 24;
  const bool weights = pass == ConvolutionPass::backward_weights;
  const std::int64_t most_pixels = weights ? 3136 : 128, most_wide = weights ? 14 : 2;
  return g.groups == 1 && pixels_of(g) <= most_pixels && g.out[1] <= most_wide &&
         g.outputs * g.depth() >= k_least_weights && pixels_of(g) * g.depth() <= k_most_unfolded;
}

std::int64_t grain_of(std::int64_t elements_a_row) {
  return std::max<std::int64_t>(1, k_grain / std::max<std::int64_t>(1, elements_a_row));
}

// (depth, images, pixels); bits that are moved alone.
void unfold_images(const ConvolutionGeometry& g, const void* x, std::uint16_t* to) {
  const std::int64_t columns = pixels_of(g), plane = g.out_plane();
  parallel_for(g.depth(), grain_of(columns), [=, &g](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t image = 0; image < g.images; ++image) {
        const auto* from = static_cast<const std::uint16_t*>(x) + image * g.inputs * g.in_plane();
        unfold(g, from, {0, g.out[0]}, row, to + row * columns + image * plane);
      }
    }
  });
}

// dy as (outputs, images, pixels).
void gather_channels(const ConvolutionGeometry& g, const void* y, void* to) {
  const std::int64_t plane = g.out_plane();
  const Shape from{plane, g.outputs * plane, 1}, dense{g.images * plane, plane, 1};
  cast_on_cpu(plan_strided<2>(Shape{g.outputs, g.images, plane}, {&dense, &from}), to, g.dtype, y, g.dtype);
}

// Sums (outputs, images, pixels) and a bias a channel, rounded once.
template <class T>
void scatter_channels(const ConvolutionGeometry& g, float* sums, const T* bias, T* y) {
  const std::int64_t plane = g.out_plane();
  parallel_for(g.outputs, grain_of(pixels_of(g)), [=, &g](std::int64_t begin, std::int64_t end) {
    for (std::int64_t channel = begin; channel < end; ++channel) {
      for (std::int64_t image = 0; image < g.images; ++image) {
        float* const from = sums + (channel * g.images + image) * plane;
        if (bias != nullptr) {
          const auto add = static_cast<float>(bias[channel]);
          for (std::int64_t i = 0; i < plane; ++i)
            from[i] += add;
        }
        simd::convert(from, y + (image * g.outputs + channel) * plane, plane);
      }
    }
  });
}

template <class T>
bool run_forward(const Queue& queue, const ConvolutionGeometry& g, const ConvolutionData& data) {
  const std::int64_t columns = pixels_of(g);
  const Workspace unfolded(queue, static_cast<std::size_t>(g.depth() * columns) * sizeof(T));
  const Widened sums(queue, g.dtype, nullptr, g.outputs * columns);
  unfold_images(g, data.x, unfolded.as<std::uint16_t>());
  GemmProblem p{.dtype = g.dtype, .m = g.outputs, .n = columns, .k = g.depth(), .c_in_accumulator = true};
  p.a = {data.weight, g.depth(), 1};
  p.b = {unfolded.data(), columns, 1};
  p.c = {sums.data(), columns, 1};
  if (!product_onednn(queue, p))
    return false;
  scatter_channels(g, sums.data(), static_cast<const T*>(data.bias), static_cast<T*>(data.y));
  return true;
}

bool run_backward_data(const Queue& queue, const ConvolutionGeometry& g, const ConvolutionData& data) {
  const std::int64_t columns = pixels_of(g), taps = g.kernel[0] * g.kernel[1], x_size = g.x_shape().size();
  const Workspace dy(queue, static_cast<std::size_t>(g.outputs * columns) * size_of(g.dtype));
  const Widened unfolded(queue, g.dtype, nullptr, g.depth() * columns), sums(queue, g.dtype, nullptr, x_size);
  gather_channels(g, data.y, dy.data());
  GemmProblem p{.dtype = g.dtype, .m = g.depth(), .n = columns, .k = g.outputs, .c_in_accumulator = true};
  p.a = {data.weight, 1, g.depth()};
  p.b = {dy.data(), columns, 1};
  p.c = {unfolded.data(), columns, 1};
  if (!product_onednn(queue, p))
    return false;
  parallel_for(g.inputs, grain_of(taps * columns), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t image = 0; image < g.images; ++image) {
      float* const to = sums.data() + image * g.inputs * g.in_plane();
      std::fill(to + begin * g.in_plane(), to + end * g.in_plane(), 0.0F);
      for (std::int64_t row = begin * taps; row < end * taps; ++row)
        fold(g, unfolded.data() + row * columns + image * g.out_plane(), {0, g.out[0]}, row, to);
    }
  });
  narrow(sums.data(), g.dtype, data.x, x_size);
  return true;
}

bool run_backward_weights(const Queue& queue, const ConvolutionGeometry& g, const ConvolutionData& data) {
  const std::int64_t columns = pixels_of(g);
  const Workspace dy(queue, static_cast<std::size_t>(g.outputs * columns) * size_of(g.dtype));
  const Workspace unfolded(queue, static_cast<std::size_t>(g.depth() * columns) * size_of(g.dtype));
  gather_channels(g, data.y, dy.data());
  unfold_images(g, data.x, unfolded.as<std::uint16_t>());
  GemmProblem p{.dtype = g.dtype, .m = g.outputs, .n = g.depth(), .k = columns};
  p.a = {dy.data(), columns, 1};
  p.b = {unfolded.data(), 1, columns};
  p.c = {data.weight, g.depth(), 1};
  if (!product_onednn(queue, p))
    return false;
  if (data.bias_grad != nullptr)
    channel_sum_cpu({g.images, g.outputs, g.out_plane(), g.dtype}, data.y, data.bias_grad);
  return true;
}

}  // namespace

bool convolution_of_few_pixels(
    const Queue& queue, ConvolutionPass pass, const ConvolutionGeometry& g, const ConvolutionData& data) {
  if (!is_worth(pass, g))
    return false;
  switch (pass) {
    case ConvolutionPass::forward:
      return g.dtype == DType::bfloat16 ? run_forward<BFloat16>(queue, g, data) : run_forward<Half>(queue, g, data);
    case ConvolutionPass::backward_data:
      return run_backward_data(queue, g, data);
    default:
      return run_backward_weights(queue, g, data);
  }
}

}  // namespace sluice::detail
