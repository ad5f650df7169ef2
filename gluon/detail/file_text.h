#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/ndarray/file.h>
#include <sluice/ndarray/written.h>
#include <sluice/operator/graph/file.h>

namespace sluice::gluon::detail {

/// Throws FileError where the file cannot be read.
inline std::ifstream opened(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const bool is_there = file.is_open() && !std::filesystem::is_directory(path);
  require<FileError>(is_there, [&] { return message(path.string(), ": cannot be read; is it there?"); });
  return file;
}

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file = opened(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline std::uint32_t checksum_of_file(const std::filesystem::path& path) {
  std::ifstream file = opened(path);
  std::vector<char> piece(1 << 20);
  std::uint32_t sum = 0;
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())) || file.gcount() > 0)
    sum = graph::checksum({piece.data(), static_cast<std::size_t>(file.gcount())}, sum);
  return sum;
}

/// Whole or not at all.
inline void write_text(const std::filesystem::path& path, const std::string& text) {
  write_whole(path, [&](const std::filesystem::path& draft) {
    std::ofstream file(draft, std::ios::binary);
    file.write(text.data(), static_cast<std::streamsize>(text.size())).flush();
    sluice::detail::require_written(file, path);
  });
}

}  // namespace sluice::gluon::detail
