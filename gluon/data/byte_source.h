#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include <sluice/gluon/data/whole_gzip.h>

struct z_stream_s;  // zlib's, which headers of ours do not drag in

namespace sluice::gluon::data::detail {

/// The bytes of a file, unpacked if they are gzip data, one after the other. Throws FileError naming the file.
class ByteSource {
 public:
  explicit ByteSource(const std::filesystem::path& path);
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  ~ByteSource();

  /// Up to `n` bytes; fewer at the end only. At the end of gzip data its checksum has been verified, and what
  /// follows it in the file counts as an error.
  std::size_t read(std::uint8_t* to, std::size_t n);
  /// A most generous bound on the bytes that the file can hold: deflate packs at most 1032 to 1.
  std::uint64_t most_bytes() const noexcept;

 private:
  std::size_t read_packed(std::uint8_t* to, std::size_t n);
  std::size_t read_unpacked(std::uint8_t* to, std::size_t n);
  void rewind();
  bool refill();
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path path_;
  std::ifstream file_;
  std::uint64_t file_bytes_ = 0;
  bool ended_ = false;
  std::vector<std::uint8_t> buffer_;
  Unpacked unpacked_ = {};  // of gzip data that could be unpacked at once
  std::size_t unpacked_read_ = 0;
  std::unique_ptr<z_stream_s> unpacker_;  // of other gzip data
};

}  // namespace sluice::gluon::data::detail
