#include <algorithm>
#include <cstddef>

#include <sluice/engine/parallel.h>
#include <sluice/operator/conv/geometry.h>
#include <sluice/operator/conv/unfold.h>
#include <sluice/operator/detail/thread_scratch.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/matmul/gemm.h>

namespace sluice::detail {
namespace {

constexpr std::int64_t k_block_bytes = 1 << 20;  // of an unfolded block

// Output rows of one block.
std::int64_t rows_per_block(const ConvolutionGeometry& g, std::int64_t element) {
  const std::int64_t row_bytes = std::max<std::int64_t>(1, g.depth() * g.out[1] * element);
  return std::clamp<std::int64_t>(k_block_bytes / row_bytes, 1, std::max<std::int64_t>(1, g.out[0]));
}

template <class Body>
void for_each_block(const ConvolutionGeometry& g, std::int64_t element, Body&& body) {
  const std::int64_t step = rows_per_block(g, element);
  for (std::int64_t begin = 0; begin < g.out[0]; begin += step)
    body(RowRange{begin, std::min(begin + step, g.out[0])});
}

template <class T>
struct Pointers {
  T* x;       // of one image and group
  T* weight;  // of the group
  T* y;
};

template <class T>
Pointers<T> pointers_of(
    const ConvolutionGeometry& g, const ConvolutionData& d, std::int64_t image, std::int64_t group) {
  return {
      static_cast<T*>(d.x) + (image * g.inputs + group * g.group_inputs()) * g.in_plane(),
      static_cast<T*>(d.weight) + group * g.group_outputs() * g.depth(),
      static_cast<T*>(d.y) + (image * g.outputs + group * g.group_outputs()) * g.out_plane()};
}

template <class T>
T* scratch(std::int64_t n) {
  return static_cast<T*>(thread_scratch(ScratchUse::convolution, static_cast<std::size_t>(n) * sizeof(T)));
}

template <class T>
void unfold_block(const ConvolutionGeometry& g, const T* image, RowRange rows, T* block) {
  const std::int64_t columns = (rows.end - rows.begin) * g.out[1];
  const std::int64_t grain = std::max<std::int64_t>(1, 16 * 1024 / std::max<std::int64_t>(1, columns));
  parallel_for(g.depth(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      unfold(g, image, rows, row, block + row * columns);
  });
}

template <class T>
void forward_one(const ConvolutionGeometry& g, const ConvolutionData& d, std::int64_t image, std::int64_t group) {
  const Pointers<T> at = pointers_of<T>(g, d, image, group);
  GemmProblem p{.dtype = g.dtype, .m = g.group_outputs(), .k = g.depth()};
  p.a = {at.weight, g.depth(), 1};
  if (d.bias != nullptr)
    p.row_bias = static_cast<const T*>(d.bias) + group * g.group_outputs();
  if (g.is_pointwise()) {
    p.n = g.out_plane();
    p.b = {at.x, g.in_plane(), 1};
    p.c = {at.y, g.out_plane(), 1};
    return gemm(p);
  }
  for_each_block(g, sizeof(T), [&](RowRange rows) {
    p.n = (rows.end - rows.begin) * g.out[1];
    T* block = scratch<T>(g.depth() * p.n);
    unfold_block(g, at.x, rows, block);
    p.b = {block, p.n, 1};
    p.c = {at.y + rows.begin * g.out[1], g.out_plane(), 1};
    gemm(p);
  });
}

template <class T>
void backward_data_one(const ConvolutionGeometry& g, const ConvolutionData& d, std::int64_t image, std::int64_t group) {
  using Acc = Compute<T>;
  const Pointers<T> at = pointers_of<T>(g, d, image, group);
  const std::int64_t pixels = g.group_inputs() * g.in_plane();
  std::vector<Acc> sums(pixels);
  GemmProblem p{.dtype = g.dtype, .m = g.depth(), .k = g.group_outputs(), .c_in_accumulator = true};
  p.a = {at.weight, 1, g.depth()};
  for_each_block(g, sizeof(Acc), [&](RowRange rows) {
    p.n = (rows.end - rows.begin) * g.out[1];
    Acc* block = scratch<Acc>(p.m * p.n);
    p.b = {at.y + rows.begin * g.out[1], g.out_plane(), 1};
    p.c = {block, p.n, 1};
    gemm(p);
    const std::int64_t taps = g.kernel[0] * g.kernel[1];
    parallel_for(g.group_inputs(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin * taps; row < end * taps; ++row)
        fold(g, block + row * p.n, rows, row, sums.data());
    });
  });
  for (std::int64_t i = 0; i < pixels; ++i)
    at.x[i] = T(sums[i]);
}

// Sums over images one after the other, so that the result does not depend on threads.
template <class T>
void backward_weights_group(const ConvolutionGeometry& g, const ConvolutionData& d, std::int64_t group) {
  using Acc = Compute<T>;
  const std::int64_t weights = g.group_outputs() * g.depth();
  std::vector<Acc> sums(weights);
  GemmProblem p{.dtype = g.dtype, .m = g.group_outputs(), .n = g.depth(), .accumulate = true, .c_in_accumulator = true};
  p.c = {sums.data(), g.depth(), 1};
  for (std::int64_t image = 0; image < g.images; ++image) {
    const Pointers<T> at = pointers_of<T>(g, d, image, group);
    for_each_block(g, sizeof(T), [&](RowRange rows) {
      p.k = (rows.end - rows.begin) * g.out[1];
      T* block = scratch<T>(g.depth() * p.k);
      unfold_block(g, at.x, rows, block);
      p.a = {at.y + rows.begin * g.out[1], g.out_plane(), 1};
      p.b = {block, 1, p.k};
      gemm(p);
    });
  }
  T* weight = static_cast<T*>(d.weight) + group * weights;
  for (std::int64_t i = 0; i < weights; ++i)
    weight[i] = T(sums[i]);
}

template <class T>
void run(const Queue& queue, ConvolutionPass pass, const ConvolutionGeometry& g, const ConvolutionData& d) {
  // Many images: one a thread. Few: one after the other, each on all threads (nested loops run alone).
  const std::int64_t pieces = pass == ConvolutionPass::backward_weights ? g.groups : g.images * g.groups;
  const auto one = [&](std::int64_t piece) {
    if (pass == ConvolutionPass::forward)
      return forward_one<T>(g, d, piece / g.groups, piece % g.groups);
    if (pass == ConvolutionPass::backward_data)
      return backward_data_one<T>(g, d, piece / g.groups, piece % g.groups);
    backward_weights_group<T>(g, d, piece);
  };
  if (pieces <= 1 || pieces < queue.engine().workers()) {
    for (std::int64_t piece = 0; piece < pieces; ++piece)
      one(piece);
    return;
  }
  parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t piece = begin; piece < end; ++piece)
      one(piece);
  });
}

}  // namespace

void convolution_own(
    const Queue& queue, ConvolutionPass pass, const ConvolutionGeometry& g, const ConvolutionData& data) {
  by_floating(g.dtype, [&]<class T>() { run<T>(queue, pass, g, data); });
}

}  // namespace sluice::detail
