#include <cstring>

#include <sluice/gluon/image/detail/decoder.h>

namespace sluice::image::detail {

namespace {

constexpr std::uint32_t k_orientation = 0x0112, k_short = 3;
constexpr std::size_t k_entry_bytes = 12;

// Whole numbers of TIFF, in the byte order that its first two bytes say.
struct Tiff {
  std::span<const std::uint8_t> bytes;
  bool little;

  std::uint32_t number(std::size_t at, int size) const {
    std::uint32_t value = 0;
    for (int i = 0; i < size; ++i)
      value |= std::uint32_t{bytes[at + static_cast<std::size_t>(i)]} << 8 * (little ? i : size - 1 - i);
    return value;
  }
};

// A row or column of the source for each of the result: first, and the way from one to the next.
struct Walk {
  std::int64_t first, down, right;  // in pixels
};

Walk walk_of(const Pixels& from, int orientation) {
  const std::int64_t width = from.width, last_row = (from.height - 1) * width, last = width - 1;
  switch (orientation) {
    case 2:
      return {last, width, -1};
    case 3:
      return {last_row + last, -width, -1};
    case 4:
      return {last_row, -width, 1};
    case 5:
      return {0, 1, width};
    case 6:
      return {last_row, 1, -width};
    case 7:
      return {last_row + last, -1, -width};
    case 8:
      return {last, -1, width};
    default:
      return {0, width, 1};
  }
}

}  // namespace

int exif_orientation(std::span<const std::uint8_t> bytes) noexcept {
  if (bytes.size() < 8 || bytes[0] != bytes[1] || (bytes[0] != 'I' && bytes[0] != 'M'))
    return 1;
  const Tiff tiff{bytes, bytes[0] == 'I'};
  const std::size_t directory = tiff.number(4, 4);
  if (tiff.number(2, 2) != 42 || directory > bytes.size() - 2)
    return 1;
  const std::size_t entries = tiff.number(directory, 2);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t at = directory + 2 + i * k_entry_bytes;
    if (at + k_entry_bytes > bytes.size())
      return 1;
    if (tiff.number(at, 2) != k_orientation)
      continue;
    const std::uint32_t value = tiff.number(at + 8, 2);
    return tiff.number(at + 2, 2) == k_short && value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

void turn(const Pixels& from, int orientation, std::uint8_t* to) {
  const Walk walk = walk_of(from, orientation);
  const bool on_side = lies_on_side(orientation);
  const std::int64_t height = on_side ? from.width : from.height, width = on_side ? from.height : from.width;
  const auto channels = static_cast<std::size_t>(from.channels);
  for (std::int64_t i = 0; i < height; ++i) {
    for (std::int64_t j = 0; j < width; ++j, to += channels)
      std::memcpy(to, from.data + (walk.first + i * walk.down + j * walk.right) * from.channels, channels);
  }
}

}  // namespace sluice::image::detail
