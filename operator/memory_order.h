#pragma once

#include <cstdint>

#include <sluice/ndarray/shape.h>

namespace sluice {

/// How an array of four axes, (N, C, H, W), lies in memory: neighbours are those of its last axis, or the channels of
/// one place (NHWC, PyTorch's channels_last). Shapes and results are the same; only strides differ.
enum class MemoryOrder : std::uint8_t { row_major, channels_last };

namespace detail {

/// The strides of an array without gaps. Shapes that do not have four axes, or whose channels or planes are single
/// elements, lie row-major in either order.
Shape ordered_strides(const Shape& shape, MemoryOrder order);

/// Whether elements lie in `order` and without gaps, whatever the strides of axes of extent 1 say.
bool is_in_order(const Shape& shape, const Shape& strides, MemoryOrder order);

/// channels_last where an array lies so and not row-major as well.
MemoryOrder order_of(const Shape& shape, const Shape& strides);

}  // namespace detail
}  // namespace sluice
