#pragma once

// How a first layer is shared out: what its two kernels are told in common.
#include <algorithm>
#include <cstdint>

#include <sluice/operator/conv/first_layer.cuh>
#include <sluice/operator/conv/geometry.h>
#include <sluice/operator/conv/tensor_tiles.h>

namespace sluice::detail {

inline constexpr std::int64_t k_first_ring_room = 48 * 1024;  // of a block's ring, if that many stages do
inline constexpr std::int64_t k_first_most_stages = 8;

/// Bytes of a stage of the ring: rows end behind the last tile of 64 outputs.
inline std::int64_t first_stage_bytes(const ConvolutionGeometry& g) {
  constexpr std::int64_t k_tile = 64;
  return (parts_of(g.out[1], k_tile) * k_tile + k_first_beside - 1) * k_piece_bytes * k_first_down;
}
/// Those that a row of outputs reads, and one for the next.
inline std::int64_t first_least_stages(const ConvolutionGeometry& g) {
  return parts_of(g.kernel[0], k_first_down) + 1;
}

/// Whether what the gradient of the weight reads of a row finds room.
bool first_weights_fit(const ConvolutionGeometry& g);

template <class T>
FirstLayer<T> first_layer(const ConvolutionGeometry& g, const void* x) {
  const std::int64_t bytes = first_stage_bytes(g);
  FirstLayer<T> p{
      .x = static_cast<const T*>(x),
      .height = static_cast<std::int32_t>(g.in[0]),
      .width = static_cast<std::int32_t>(g.in[1]),
      .channels = static_cast<std::int32_t>(g.inputs),
      .out_height = static_cast<std::int32_t>(g.out[0]),
      .out_width = static_cast<std::int32_t>(g.out[1]),
      .outputs = static_cast<std::int32_t>(g.outputs),
      .kernel = {},
      .pad = {},
      .rows = static_cast<std::int32_t>(g.images * g.out[0]),
      .row_pieces = static_cast<std::int32_t>(bytes / k_piece_bytes / k_first_down),
      .used = static_cast<std::int32_t>(g.out[1] + k_first_beside - 1),
      .stages = static_cast<std::int32_t>(
          std::max(first_least_stages(g), std::min(k_first_most_stages, k_first_ring_room / bytes))),
      .stage_bytes = static_cast<std::int32_t>(bytes),
      .by_height = Divider<std::int32_t>(g.out[0]),
      .by_used = Divider<std::int32_t>(g.out[1] + k_first_beside - 1)};
  for (int axis = 0; axis < 2; ++axis) {
    p.kernel[axis] = static_cast<std::int32_t>(g.kernel[axis]);
    p.pad[axis] = static_cast<std::int32_t>(g.pad[axis]);
  }
  return p;
}

/// Bytes of the ring with its barriers, in whole kilobytes.
template <class T>
constexpr int first_ring_bytes(const FirstLayer<T>& p) {
  return (p.stages * (p.stage_bytes + 16) + 1023) / 1024 * 1024;
}

/// body.operator()<T, Down>() of the type and the kernel's rows, which are 3 or 7.
template <class Body>
void by_first_layer(const ConvolutionGeometry& g, Body&& body) {
  constexpr int k_low = 3, k_high = 7;
  const auto run = [&]<class T>() {
    g.kernel[0] == k_low ? body.template operator()<T, k_low>() : body.template operator()<T, k_high>();
  };
  g.dtype == DType::float16 ? run.template operator()<Half>() : run.template operator()<BFloat16>();
}

/// Blocks that share the rows out: by shape alone.
template <class T>
unsigned first_blocks(const FirstLayer<T>& p) {
  return static_cast<unsigned>(std::min<std::int64_t>(p.rows, k_first_blocks * k_multiprocessors));
}

}  // namespace sluice::detail
