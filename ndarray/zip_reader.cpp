#include <algorithm>

#include <zlib.h>

#include <sluice/ndarray/detail/bytes.h>
#include <sluice/ndarray/detail/zip.h>

namespace sluice::detail {
namespace {

constexpr std::size_t k_end_record = 22;
constexpr std::size_t k_zip64_locator = 20;
constexpr std::size_t k_zip64_record = 56;
constexpr std::size_t k_directory_record = 46;
constexpr std::size_t k_local_record = 30;
constexpr std::uint64_t k_best_ratio = 1032;  // deflate packs no tighter

bool starts_with(std::span<const std::byte> bytes, std::uint32_t signature) noexcept {
  return bytes.size() >= 4 && little_at<std::uint32_t>(bytes, 0) == signature;
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

ZipReader::ZipReader(const std::filesystem::path& path) : path_(path.string()) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  require_that(std::filesystem::exists(status), "there is no such file");
  require_that(std::filesystem::is_regular_file(status), "not a regular file");
  file_.open(path, std::ios::binary);
  require_that(file_.is_open(), "cannot be opened for reading");
  file_size_ = std::filesystem::file_size(path, error);
  require_that(!error, "its size cannot be read");

  const Directory directory = find_directory();
  members_end_ = directory.offset;
  const std::vector<std::byte> bytes = bytes_at(directory.offset, directory.size);
  std::span<const std::byte> rest(bytes);
  std::uint64_t packed = 0;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    require_that(
        rest.size() >= k_directory_record && starts_with(rest, 0x02014b50u), "the directory of the archive is damaged");
    const auto name = little_at<std::uint16_t>(rest, 28);
    const auto extra = little_at<std::uint16_t>(rest, 30);
    const std::size_t length = k_directory_record + name + extra + little_at<std::uint16_t>(rest, 32);
    require_that(rest.size() >= length, "the directory of the archive is cut short");
    members_.push_back(parse_member(rest.first(length), name, extra));
    rest = rest.subspan(length);
    // Members lie side by side, so together they are no larger than the file.
    packed += members_.back().packed_size;
    require_that(packed <= file_size_, "its members overlap");
  }
}

void ZipReader::fail(std::string_view what) const {
  throw FileError(message(path_, ": ", what));
}

std::vector<std::byte> ZipReader::bytes_at(std::uint64_t offset, std::uint64_t count) {
  require_that(offset <= file_size_ && count <= file_size_ - offset, "truncated, or not a zip archive, as .npz is");
  std::vector<std::byte> bytes(count);
  file_.clear();
  file_.seekg(static_cast<std::streamoff>(offset));
  file_.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(count));
  require_that(static_cast<std::uint64_t>(file_.gcount()) == count, "cannot be read to its end");
  return bytes;
}

// The record at the end may be followed by a comment of up to 64 KiB.
ZipReader::Directory ZipReader::find_directory() {
  const std::uint64_t tail_size = std::min<std::uint64_t>(file_size_, k_end_record + 0xffff);
  const std::uint64_t tail_offset = file_size_ - tail_size;
  const std::vector<std::byte> tail = bytes_at(tail_offset, tail_size);
  for (std::size_t at = tail.size() < k_end_record ? 0 : tail.size() - k_end_record + 1; at-- > 0;) {
    const auto record = std::span(tail).subspan(at);
    if (!starts_with(record, 0x06054b50u) || little_at<std::uint16_t>(record, 20) + k_end_record != record.size())
      continue;
    const std::uint64_t end = tail_offset + at;
    Directory directory{
        little_at<std::uint16_t>(record, 10),
        little_at<std::uint32_t>(record, 12),
        little_at<std::uint32_t>(record, 16)};
    require_that(
        little_at<std::uint16_t>(record, 4) == 0 || little_at<std::uint16_t>(record, 4) == 0xffff,
        "an archive of several volumes is not read");
    if (directory.entries == 0xffff || directory.size == k_in_zip64 || directory.offset == k_in_zip64)
      directory = zip64_directory(end);
    require_that(
        directory.offset <= end && directory.size <= end - directory.offset &&
            directory.entries <= directory.size / k_directory_record,
        "the directory of the archive lies outside the file");
    return directory;
  }
  fail("truncated, or not a zip archive");
}

ZipReader::Directory ZipReader::zip64_directory(std::uint64_t end_of_directory) {
  require_that(end_of_directory >= k_zip64_locator, "its zip64 record is missing");
  const auto locator = bytes_at(end_of_directory - k_zip64_locator, k_zip64_locator);
  require_that(starts_with(locator, 0x07064b50u), "its zip64 record is missing");
  const auto record = bytes_at(little_at<std::uint64_t>(locator, 8), k_zip64_record);
  require_that(starts_with(record, 0x06064b50u), "its zip64 record is damaged");
  return {
      little_at<std::uint64_t>(record, 32), little_at<std::uint64_t>(record, 40), little_at<std::uint64_t>(record, 48)};
}

ZipMember ZipReader::parse_member(std::span<const std::byte> record, std::uint16_t name, std::uint16_t extra) {
  ZipMember member;
  member.name = text_of(record.subspan(k_directory_record, name));
  const auto flags = little_at<std::uint16_t>(record, 8);
  member.method = little_at<std::uint16_t>(record, 10);
  member.crc = little_at<std::uint32_t>(record, 16);
  member.packed_size = little_at<std::uint32_t>(record, 20);
  member.size = little_at<std::uint32_t>(record, 24);
  member.offset = little_at<std::uint32_t>(record, 42);
  apply_zip64(member, record.subspan(k_directory_record + name, extra));
  const std::string about = "member \"" + member.name + "\" ";
  require_that((flags & 0x2041u) == 0, about + "is encrypted");
  require_that(member.method == 0 || member.method == 8, about + "is neither stored nor deflated");
  require_that(member.packed_size <= file_size_, about + "is larger than the file");
  if (member.method == 0) {
    require_that(member.size == member.packed_size, about + "has two different sizes");
  } else {
    require_that(member.size / k_best_ratio <= member.packed_size, about + "is larger than deflate could pack it");
  }
  return member;
}

// The 64-bit values stand in this order, each only if its 32-bit field says so.
void ZipReader::apply_zip64(ZipMember& member, std::span<const std::byte> extra) const {
  while (extra.size() >= 4) {
    const std::size_t length = little_at<std::uint16_t>(extra, 2);
    require_that(extra.size() - 4 >= length, "a field of the directory is cut short");
    if (little_at<std::uint16_t>(extra, 0) == 1) {
      std::span<const std::byte> values = extra.subspan(4, length);
      for (std::uint64_t* field : {&member.size, &member.packed_size, &member.offset}) {
        if (*field != k_in_zip64)
          continue;
        require_that(values.size() >= 8, "a zip64 field is cut short");
        *field = little_at<std::uint64_t>(values, 0);
        values = values.subspan(8);
      }
    }
    extra = extra.subspan(4 + length);
  }
}

std::uint64_t ZipReader::data_offset(const ZipMember& member) {
  const auto local = bytes_at(member.offset, k_local_record);
  require_that(starts_with(local, 0x04034b50u), "member \"" + member.name + "\" is not where the directory says");
  const std::size_t name = little_at<std::uint16_t>(local, 26);
  require_that(
      text_of(bytes_at(member.offset + k_local_record, name)) == member.name,
      "member \"" + member.name + "\" has another name in its own header");
  return member.offset + k_local_record + name + little_at<std::uint16_t>(local, 28);
}

std::vector<std::byte> ZipReader::read(const ZipMember& member) {
  const std::uint64_t at = data_offset(member);
  require_that(
      at <= members_end_ && member.packed_size <= members_end_ - at, "member \"" + member.name + "\" is truncated");
  std::vector<std::byte> bytes = bytes_at(at, member.packed_size);
  if (member.method == 8)
    bytes = inflate(bytes, member.size);
  const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  require_that(crc == member.crc, "member \"" + member.name + "\" has a wrong checksum");
  return bytes;
}

std::vector<std::byte> ZipReader::inflate(std::span<const std::byte> packed, std::uint64_t size) const {
  constexpr std::size_t most = std::size_t{1} << 30;  // zlib counts in 32 bits
  std::vector<std::byte> bytes(size);
  z_stream stream{};
  require_that(inflateInit2(&stream, -MAX_WBITS) == Z_OK, "zlib does not start");
  struct End {
    z_stream* stream;
    ~End() { inflateEnd(stream); }
  } end{&stream};
  std::size_t taken = 0, made = 0;
  int result = Z_OK;
  while (result == Z_OK) {
    const std::size_t in = std::min(packed.size() - taken, most), room = std::min(bytes.size() - made, most);
    Bytef spare = 0;  // a place to write to when nothing more is due
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(packed.data() + taken));
    stream.avail_in = static_cast<uInt>(in);
    stream.next_out = room > 0 ? reinterpret_cast<Bytef*>(bytes.data() + made) : &spare;
    stream.avail_out = static_cast<uInt>(room > 0 ? room : 1);
    result = ::inflate(&stream, Z_NO_FLUSH);
    taken += in - stream.avail_in;
    const std::size_t written = (room > 0 ? room : 1) - stream.avail_out;
    require_that(room > 0 || written == 0, "a member unpacks to more than its directory says");
    made += written;
    if (result == Z_OK && written == 0 && in == stream.avail_in)
      break;
  }
  require_that(result == Z_STREAM_END && made == size, "a deflated member is damaged");
  return bytes;
}

}  // namespace sluice::detail
