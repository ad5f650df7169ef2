#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include <zlib.h>

#include "tests/gluon/support.h"

namespace sluice::test {

using Bytes = std::vector<std::uint8_t>;

/// An IDX file of type byte `type` with the extents and values given, whether they fit each other or not.
inline Bytes idx_bytes(const std::vector<std::uint32_t>& extents, const Bytes& values, std::uint8_t type = 8) {
  Bytes bytes = {0, 0, type, static_cast<std::uint8_t>(extents.size())};
  for (std::uint32_t extent : extents) {
    for (int shift = 24; shift >= 0; shift -= 8)
      bytes.push_back(static_cast<std::uint8_t>(extent >> shift));
  }
  bytes.insert(bytes.end(), values.begin(), values.end());
  return bytes;
}

inline Bytes gzipped(const Bytes& plain) {
  Bytes packed(compressBound(plain.size()) + 64);
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = const_cast<Bytef*>(plain.data());
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

/// Images of `side` x `side` pixels whose class shows: row `label` of the image is bright.
struct ToyImages {
  Bytes pixels, labels;
};
inline ToyImages toy_images(std::uint32_t count, std::uint32_t side) {
  ToyImages made;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t label = (i * 7 + i / 10) % 10;
    made.labels.push_back(static_cast<std::uint8_t>(label));
    for (std::uint32_t y = 0; y < side; ++y) {
      for (std::uint32_t x = 0; x < side; ++x) {
        const bool bright = y / (side / 10 > 0 ? side / 10 : 1) == label;
        made.pixels.push_back(static_cast<std::uint8_t>((bright ? 200 : 20) + (i * 13 + y * 5 + x * 3) % 40));
      }
    }
  }
  return made;
}

/// The four files of a small dataset; the training files are gzipped, the others plain.
inline void write_toy_dataset(
    const std::filesystem::path& folder, std::uint32_t train, std::uint32_t test, std::uint32_t side = 28) {
  const ToyImages a = toy_images(train, side), b = toy_images(test, side);
  write_file(folder / "train-images-idx3-ubyte.gz", gzipped(idx_bytes({train, side, side}, a.pixels)));
  write_file(folder / "train-labels-idx1-ubyte.gz", gzipped(idx_bytes({train}, a.labels)));
  write_file(folder / "t10k-images-idx3-ubyte", idx_bytes({test, side, side}, b.pixels));
  write_file(folder / "t10k-labels-idx1-ubyte", idx_bytes({test}, b.labels));
}

}  // namespace sluice::test
