#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include <sluice/engine/export.h>

namespace sluice::gluon::data {

/// The content of an IDX file of unsigned bytes: the format of MNIST (LeCun's page of it: two zero bytes, a type
/// byte, the number of axes, big-endian extents, the values).
struct IdxFile {
  std::vector<std::int64_t> shape = {};
  std::vector<std::uint8_t> values = {};
};

/// Reads an IDX file, plain or gzipped, that must have `axes` axes of type uint8. Throws FileError that names the
/// file and says what is wrong: missing, not IDX, other type or number of axes, damaged gzip data, truncated, bytes
/// after the end. Memory is taken as data arrives, whatever the header claims.
SLUICE_API IdxFile read_idx(const std::filesystem::path& path, int axes);

}  // namespace sluice::gluon::data
