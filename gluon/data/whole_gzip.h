#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>

namespace sluice::gluon::data::detail {

/// What a gzip file holds.
struct Unpacked {
  std::unique_ptr<std::uint8_t[]> bytes = {};
  std::size_t size = 0;
};

/// Unpacks `file`, `file_bytes` long, at once by libdeflate, which takes a sixth of zlib's time; what it holds is at
/// most `most_bytes`. Null bytes where the file is anything but one whole and sound gzip member, where memory is short,
/// and in builds without libdeflate: who wants to know why reads on by zlib.
Unpacked unpack_whole(std::ifstream& file, std::uint64_t file_bytes, std::uint64_t most_bytes);

}  // namespace sluice::gluon::data::detail
