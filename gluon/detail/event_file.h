#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sluice/engine/export.h>

/// Event files of TensorBoard: records framed as TensorFlow does, each an Event in the wire format of protocol buffers,
/// of which there is here what scalars need.
namespace sluice::gluon::detail {

/// CRC-32C (Castagnoli) of the bytes.
SLUICE_API std::uint32_t crc32c(std::string_view bytes) noexcept;

/// A message in the making: fields by number.
class SLUICE_API ProtoMessage {
 public:
  ProtoMessage& add_number(std::uint32_t field, std::int64_t value);  // int64, enumerations
  ProtoMessage& add_double(std::uint32_t field, double value);
  ProtoMessage& add_float(std::uint32_t field, float value);
  ProtoMessage& add_bytes(std::uint32_t field, std::string_view value);  // strings, messages
  const std::string& bytes() const noexcept { return bytes_; }

 private:
  void add_varint(std::uint64_t value);
  void add_key(std::uint32_t field, std::uint32_t wire_type);

  std::string bytes_;
};

/// Bytes as a record: length, its checksum, the bytes, theirs.
SLUICE_API std::string framed_record(std::string_view bytes);

/// A file of events; what is added is with the system when the call returns.
class SLUICE_API EventFile {
 public:
  /// A new file in `folder`, which is made, that sorts behind those there. Throws FileError.
  explicit EventFile(const std::filesystem::path& folder);

  /// Throw FileError.
  void add_scalars(std::int64_t step, const std::vector<std::pair<std::string, double>>& values);
  /// What other files say of this step and later ones is void.
  void add_restart(std::int64_t step);
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  void write(const ProtoMessage& event);

  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace sluice::gluon::detail
