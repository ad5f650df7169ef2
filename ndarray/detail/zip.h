#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/engine/export.h>

// Zip archives as NumPy reads and writes them (PKWARE APPNOTE 6.3): stored and deflated members, no encryption, one
// volume, zip64 where sizes ask for it.
namespace sluice::detail {

/// Of a size or place that stands in the zip64 record.
inline constexpr std::uint32_t k_in_zip64 = 0xffff'ffff;

struct ZipMember {
  std::string name;
  std::uint16_t method = 0;  // 0 stored, 8 deflated
  std::uint32_t crc = 0;
  std::uint64_t packed_size = 0;
  std::uint64_t size = 0;
  std::uint64_t offset = 0;  // of the local header
};

/// Reads an archive that may be truncated, damaged or made to do harm: every figure is checked against the size of the
/// file before memory is asked for. Throws FileError naming the file.
class SLUICE_API ZipReader {
 public:
  explicit ZipReader(const std::filesystem::path& path);
  const std::vector<ZipMember>& members() const noexcept { return members_; }
  /// The member's bytes, unpacked; its checksum was right.
  std::vector<std::byte> read(const ZipMember& member);
  /// Throws FileError with the file's name in front of `what`.
  [[noreturn]] void fail(std::string_view what) const;

 private:
  struct Directory {
    std::uint64_t entries = 0, size = 0, offset = 0;
  };
  void require_that(bool holds, std::string_view what) const {
    if (!holds)
      fail(what);
  }
  std::vector<std::byte> bytes_at(std::uint64_t offset, std::uint64_t count);
  Directory find_directory();
  Directory zip64_directory(std::uint64_t end_of_directory);
  ZipMember parse_member(std::span<const std::byte> record, std::uint16_t name, std::uint16_t extra);
  void apply_zip64(ZipMember& member, std::span<const std::byte> extra) const;
  std::uint64_t data_offset(const ZipMember& member);
  std::vector<std::byte> inflate(std::span<const std::byte> packed, std::uint64_t size) const;

  std::string path_;
  std::ifstream file_;
  std::uint64_t file_size_ = 0;
  std::uint64_t members_end_ = 0;  // where the directory starts
  std::vector<ZipMember> members_;
};

/// Writes stored members. Throws FileError naming the file.
class SLUICE_API ZipWriter {
 public:
  /// `zip64_from`: sizes and offsets from here on are written in the zip64 form.
  explicit ZipWriter(const std::filesystem::path& path, std::uint64_t zip64_from = 0xffff'ffffu);
  /// A member whose bytes are `head` followed by `body`.
  void add(const std::string& name, std::span<const std::byte> head, std::span<const std::byte> body);
  /// Writes the directory; nothing can be added afterwards.
  void finish();

 private:
  void write(std::span<const std::byte> bytes);
  std::string directory_record(const ZipMember& member) const;

  std::string path_;
  std::ofstream file_;
  std::uint64_t at_ = 0;
  std::uint64_t zip64_from_;
  std::vector<ZipMember> members_;
};

}  // namespace sluice::detail
