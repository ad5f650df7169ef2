#include <algorithm>

#include <zlib.h>

#include <sluice/ndarray/detail/bytes.h>
#include <sluice/ndarray/detail/zip.h>
#include <sluice/ndarray/written.h>

namespace sluice::detail {
namespace {

constexpr std::uint16_t k_date = 0x21;  // 1980-01-01: the same arrays give the same file

std::uint16_t flags_of(const std::string& name) noexcept {
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  return plain ? 0 : 0x800;  // UTF-8
}

/// The fields that local header and directory share, from "version needed" to the length of the name.
std::string common_fields(const ZipMember& member, bool zip64) {
  std::string text;
  append_little<std::uint16_t>(text, zip64 ? 45 : 20);
  append_little<std::uint16_t>(text, flags_of(member.name));
  append_little<std::uint16_t>(text, 0);  // stored
  append_little<std::uint16_t>(text, 0);  // midnight
  append_little<std::uint16_t>(text, k_date);
  append_little<std::uint32_t>(text, member.crc);
  for (int both = 0; both < 2; ++both)
    append_little<std::uint32_t>(text, zip64 ? k_in_zip64 : static_cast<std::uint32_t>(member.size));
  append_little<std::uint16_t>(text, static_cast<std::uint16_t>(member.name.size()));
  return text;
}

}  // namespace

ZipWriter::ZipWriter(const std::filesystem::path& path, std::uint64_t zip64_from)
    : path_(path.string()), file_(path, std::ios::binary | std::ios::trunc), zip64_from_(zip64_from) {
  require_written(file_, path_);
}

void ZipWriter::write(std::span<const std::byte> bytes) {
  file_.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  require_written(file_, path_);
  at_ += bytes.size();
}

void ZipWriter::add(const std::string& name, std::span<const std::byte> head, std::span<const std::byte> body) {
  require<FileError>(!name.empty() && name.size() <= 0xffff, [&] {
    return message(path_, ": a member's name has ", name.size(), " characters; 1 to 65535 are possible");
  });
  ZipMember member{.name = name, .offset = at_};
  member.size = member.packed_size = head.size() + body.size();
  for (const auto part : {head, body}) {
    if (!part.empty())  // a null pointer would start zlib's sum anew
      member.crc =
          static_cast<std::uint32_t>(crc32_z(member.crc, reinterpret_cast<const Bytef*>(part.data()), part.size()));
  }

  const bool zip64 = member.size >= zip64_from_;
  std::string local;
  append_little<std::uint32_t>(local, 0x04034b50u);
  local += common_fields(member, zip64);
  append_little<std::uint16_t>(local, zip64 ? 20 : 0);
  local += name;
  if (zip64) {
    append_little<std::uint16_t>(local, 1);
    append_little<std::uint16_t>(local, 16);
    append_little<std::uint64_t>(local, member.size);
    append_little<std::uint64_t>(local, member.packed_size);
  }
  write(bytes_of(local));
  write(head);
  write(body);
  members_.push_back(std::move(member));
}

std::string ZipWriter::directory_record(const ZipMember& member) const {
  const bool large = member.size >= zip64_from_;
  const bool far = member.offset >= zip64_from_;
  std::string extra;
  if (large || far) {
    append_little<std::uint16_t>(extra, 1);
    append_little<std::uint16_t>(extra, static_cast<std::uint16_t>((large ? 16 : 0) + (far ? 8 : 0)));
    if (large) {
      append_little<std::uint64_t>(extra, member.size);
      append_little<std::uint64_t>(extra, member.packed_size);
    }
    if (far)
      append_little<std::uint64_t>(extra, member.offset);
  }
  std::string record;
  append_little<std::uint32_t>(record, 0x02014b50u);
  append_little<std::uint16_t>(record, 0x0300 + 45);  // made on a Unix, for zip 4.5
  record += common_fields(member, large);
  append_little<std::uint16_t>(record, static_cast<std::uint16_t>(extra.size()));
  record += std::string(6, '\0');                                      // comment, volume, internal attributes
  append_little<std::uint32_t>(record, std::uint32_t{0100644} << 16);  // a plain file
  append_little<std::uint32_t>(record, far ? k_in_zip64 : static_cast<std::uint32_t>(member.offset));
  return record + member.name + extra;
}

void ZipWriter::finish() {
  const std::uint64_t start = at_;
  for (const ZipMember& member : members_)
    write(bytes_of(directory_record(member)));
  const std::uint64_t size = at_ - start;
  const std::uint64_t entries = members_.size();
  std::string end;
  const bool zip64 =
      start >= zip64_from_ || size >= zip64_from_ || entries >= std::min<std::uint64_t>(0xffff, zip64_from_);
  if (zip64) {
    append_little<std::uint32_t>(end, 0x06064b50u);
    append_little<std::uint64_t>(end, 44);
    append_little<std::uint16_t>(end, 45);
    append_little<std::uint16_t>(end, 45);
    append_little<std::uint64_t>(end, 0);  // volumes
    append_little<std::uint64_t>(end, entries);
    append_little<std::uint64_t>(end, entries);
    append_little<std::uint64_t>(end, size);
    append_little<std::uint64_t>(end, start);
    append_little<std::uint32_t>(end, 0x07064b50u);
    append_little<std::uint32_t>(end, 0);
    append_little<std::uint64_t>(end, at_);
    append_little<std::uint32_t>(end, 1);
  }
  append_little<std::uint32_t>(end, 0x06054b50u);
  append_little<std::uint32_t>(end, 0);  // volumes
  for (int both = 0; both < 2; ++both)
    append_little<std::uint16_t>(end, zip64 ? 0xffff : static_cast<std::uint16_t>(entries));
  append_little<std::uint32_t>(end, zip64 ? k_in_zip64 : static_cast<std::uint32_t>(size));
  append_little<std::uint32_t>(end, zip64 ? k_in_zip64 : static_cast<std::uint32_t>(start));
  append_little<std::uint16_t>(end, 0);  // comment
  write(bytes_of(end));
  file_.close();
  require_written(file_, path_);
}

}  // namespace sluice::detail
