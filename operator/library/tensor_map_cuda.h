#pragma once

// What a GPU's unit for copies of whole boxes (sm_90 on) is told of arrays.
#include <cstdint>

#include <cuda.h>

#include <sluice/ndarray/dtype.h>

namespace sluice::detail {

/// Lines of a box are so long in shared memory, and their pieces of 16 bytes change places as place_in_tile() says.
inline constexpr int k_box_line = 128;

/// Images whose channels are last, of a two-byte type.
struct ImageMap {
  DType dtype;
  const void* data;
  std::int64_t images, height, width, channels;
  std::int64_t stride[2], pad[2];
  std::int64_t beyond[2];  // where places of a kernel's first number end, from the image's end on; mostly negative
};
/// Boxes of `pixels` neighbouring results' pixels and one line of channels. False where the driver does not take it.
bool describe_images(CUtensorMap& map, const ImageMap& of, int pixels);

/// `outer` lines of `inner` lines of channels, of a two-byte type, one behind the other.
struct LineMap {
  DType dtype;
  const void* data;
  std::int64_t outer, inner, channels;
};
/// Boxes of `outer` times one line of channels. False where the driver does not take it.
bool describe_lines(CUtensorMap& map, const LineMap& of, int outer);

}  // namespace sluice::detail
