#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

#include <sluice/engine/error.h>
#include <sluice/gluon/data/recordio.h>
#include <sluice/ndarray/written.h>

// A record is parts: a magic number, a word of what part it is (3 bits) and how long (29 bits), the bytes, zeros to a
// multiple of four. Where the magic number itself stands in a record, at a multiple of four, the record is cut in two
// there and the number left out: so it stands at the beginning of parts only, and a reader may look for one anywhere.
namespace sluice::gluon::data {

namespace recordio {

static_assert(std::endian::native == std::endian::little, "numbers are read and written as they lie in memory");

namespace {

constexpr std::uint32_t k_magic = 0xced7230a;
constexpr std::uint32_t k_whole = 0, k_first = 1, k_middle = 2, k_last = 3;
constexpr std::uint32_t k_length_bits = 29;
constexpr std::uint32_t k_length_mask = (1u << k_length_bits) - 1;
constexpr std::size_t k_header_bytes = 24;
constexpr std::size_t k_part_header_bytes = 8;

std::uint64_t padded(std::uint64_t bytes) {
  return (bytes + 3) / 4 * 4;
}

template <class T>
void append(Bytes& to, const T& value) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&value);
  to.insert(to.end(), bytes, bytes + sizeof(T));
}

template <class T>
T number_at(const std::uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

}  // namespace

Bytes pack(const IRHeader& header, ByteView content) {
  require(!header.labels.empty(), [] { return "recordio::pack: a header without a label"; });
  const bool apart = header.flag != 0 || header.labels.size() != 1;
  Bytes record;
  record.reserve(k_header_bytes + (apart ? header.labels.size() * sizeof(float) : 0) + content.size());
  append(record, apart ? static_cast<std::uint32_t>(header.labels.size()) : 0u);
  append(record, apart ? 0.0f : header.labels[0]);
  append(record, header.id);
  append(record, header.id2);
  for (std::size_t i = 0; apart && i < header.labels.size(); ++i)
    append(record, header.labels[i]);
  record.insert(record.end(), content.begin(), content.end());
  return record;
}

Unpacked unpack(ByteView record) {
  require<FileError>(record.size() >= k_header_bytes, [&] {
    return message("recordio::unpack: a record of ", record.size(), " bytes has no header of ", k_header_bytes);
  });
  Unpacked parts{
      .header = {
          .flag = number_at<std::uint32_t>(record.data()),
          .labels = {number_at<float>(record.data() + 4)},
          .id = number_at<std::uint64_t>(record.data() + 8),
          .id2 = number_at<std::uint64_t>(record.data() + 16)}};
  parts.content = record.subspan(k_header_bytes);
  const std::size_t n = parts.header.flag;
  if (n == 0)
    return parts;
  require<FileError>(n <= parts.content.size() / sizeof(float), [&] {
    return message("recordio::unpack: ", n, " labels do not fit the ", parts.content.size(), " bytes of the record");
  });
  parts.header.labels.resize(n);
  std::memcpy(parts.header.labels.data(), parts.content.data(), n * sizeof(float));
  parts.content = parts.content.subspan(n * sizeof(float));
  return parts;
}

RecordWriter::RecordWriter(const std::filesystem::path& path)
    : path_(path), file_(path, std::ios::binary | std::ios::trunc) {
  sluice::detail::require_written(file_, path_);
}

void RecordWriter::write_part(std::uint32_t kind, ByteView part) {
  const std::uint32_t head[] = {k_magic, kind << k_length_bits | static_cast<std::uint32_t>(part.size())};
  file_.write(reinterpret_cast<const char*>(head), sizeof(head));
  file_.write(reinterpret_cast<const char*>(part.data()), static_cast<std::streamsize>(part.size()));
  constexpr char k_zeros[4] = {};
  file_.write(k_zeros, static_cast<std::streamsize>(padded(part.size()) - part.size()));
  position_ += k_part_header_bytes + padded(part.size());
}

std::uint64_t RecordWriter::write(ByteView record) {
  require(record.size() <= k_length_mask, [&] {
    return message(path_.string(), ": a record of ", record.size(), " bytes is more than the format can hold");
  });
  const std::uint64_t position = position_;
  std::size_t begun = 0;  // what stands before is written
  for (std::size_t i = 0; i + 4 <= record.size(); i += 4) {
    if (number_at<std::uint32_t>(record.data() + i) == k_magic) {
      write_part(begun == 0 ? k_first : k_middle, record.subspan(begun, i - begun));
      begun = i + 4;
    }
  }
  write_part(begun == 0 ? k_whole : k_last, record.subspan(begun));
  sluice::detail::require_written(file_, path_);
  return position;
}

void RecordWriter::close() {
  file_.close();
  sluice::detail::require_written(file_, path_);
}

IndexedRecordWriter::IndexedRecordWriter(const std::filesystem::path& index, const std::filesystem::path& records)
    : index_path_(index), records_(records), index_(index, std::ios::trunc) {
  sluice::detail::require_written(index_, index_path_);
}

void IndexedRecordWriter::write(std::int64_t key, ByteView record) {
  require(!keys_.contains(key), [&] { return message(index_path_.string(), ": it has key ", key, " already"); });
  const auto position = records_.write(record);  // where it throws, the index has no line of it
  index_ << key << '\t' << position << '\n';
  keys_.insert(key);
}

void IndexedRecordWriter::close() {
  records_.close();
  index_.close();
  require<FileError>(index_.good(), [&] { return message(index_path_.string(), ": writing it failed"); });
}

struct RecordFile::File {
  std::filesystem::path path;
  int descriptor = -1;
  std::uint64_t bytes = 0;

  File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor >= 0)
      ::close(descriptor);
  }
  [[noreturn]] void fail(std::uint64_t position, const std::string& what) const {
    throw FileError(message(path.string(), ": record at byte ", position, ": ", what));
  }
  void read(std::uint64_t at, std::uint8_t* to, std::size_t n, std::uint64_t record) const {
    while (n > 0) {
      const ssize_t got = ::pread(descriptor, to, n, static_cast<off_t>(at));
      if (got < 0 && errno == EINTR)
        continue;
      if (got < 0)
        fail(record, message("reading failed: ", std::strerror(errno)));
      if (got == 0)
        fail(record, "the file has become shorter");
      at += static_cast<std::uint64_t>(got);
      to += got;
      n -= static_cast<std::size_t>(got);
    }
  }
};

RecordFile::RecordFile(const std::filesystem::path& path) {
  auto file = std::make_shared<File>();
  file->path = path;
  file->descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat about {};
  require<FileError>(file->descriptor >= 0 && ::fstat(file->descriptor, &about) == 0, [&] {
    return message(path.string(), ": cannot be read: ", std::strerror(errno));
  });
  require<FileError>(S_ISREG(about.st_mode), [&] { return message(path.string(), ": is not a regular file"); });
  file->bytes = static_cast<std::uint64_t>(about.st_size);
  file_ = std::move(file);
}

std::uint64_t RecordFile::bytes() const noexcept {
  return file_->bytes;
}

const std::filesystem::path& RecordFile::path() const noexcept {
  return file_->path;
}

// Over the parts of one record, whose bytes go to `record` if there is one. Gives where the next record stands.
std::uint64_t RecordFile::walk(std::uint64_t position, Bytes* record) const {
  std::uint64_t at = position;
  for (bool inside = false;; inside = true) {
    std::uint8_t head[k_part_header_bytes];
    if (at > file_->bytes || file_->bytes - at < sizeof(head))
      file_->fail(position, "the file ends within it");
    file_->read(at, head, sizeof(head), position);
    at += sizeof(head);
    const auto magic = number_at<std::uint32_t>(head), word = number_at<std::uint32_t>(head + 4);
    const std::uint32_t kind = word >> k_length_bits, length = word & k_length_mask;
    if (magic != k_magic)
      file_->fail(position, message("no record begins at byte ", at - sizeof(head), ", its magic number is ", magic));
    if (inside ? kind != k_middle && kind != k_last : kind != k_whole && kind != k_first)
      file_->fail(position, message("a part of kind ", kind, " cannot stand at byte ", at - sizeof(head)));
    if (padded(length) > file_->bytes - at)
      file_->fail(
          position, message("the file ends within it: it claims ", length, " bytes, ", file_->bytes - at, " are left"));
    if (record != nullptr) {
      if (inside) {
        const auto* magic_bytes = reinterpret_cast<const std::uint8_t*>(&k_magic);
        record->insert(record->end(), magic_bytes, magic_bytes + sizeof(k_magic));
      }
      const std::size_t have = record->size();
      record->resize(have + length);
      file_->read(at, record->data() + have, length, position);
    }
    at += padded(length);
    if (kind == k_whole || kind == k_last)
      return at;
  }
}

Bytes RecordFile::read(std::uint64_t position, std::uint64_t* next) const {
  Bytes record;
  const std::uint64_t end = walk(position, &record);
  if (next != nullptr)
    *next = end;
  return record;
}

std::uint64_t RecordFile::skip(std::uint64_t position) const {
  return walk(position, nullptr);
}

std::optional<Bytes> RecordReader::read() {
  if (position_ == file_.bytes())
    return {};
  return file_.read(position_, &position_);
}

std::vector<IndexEntry> read_index(const std::filesystem::path& path) {
  std::ifstream file(path);
  require<FileError>(file.good(), [&] { return message(path.string(), ": cannot be read"); });
  std::vector<IndexEntry> entries;
  std::string line;
  for (std::int64_t number = 1; std::getline(file, line); ++number) {
    if (!line.empty() && line.back() == '\r')
      line.pop_back();
    if (line.empty())
      continue;
    IndexEntry entry;
    const char* const end = line.data() + line.size();
    const auto key = std::from_chars(line.data(), end, entry.key);
    bool is_entry = key.ec == std::errc() && key.ptr != end && *key.ptr == '\t';
    if (is_entry) {
      const auto position = std::from_chars(key.ptr + 1, end, entry.position);
      is_entry = position.ec == std::errc() && position.ptr == end;
    }
    require<FileError>(is_entry, [&] {
      return message(path.string(), ": line ", number, " is no key, tab and position: '", line.substr(0, 40), "'");
    });
    entries.push_back(entry);
  }
  require<FileError>(!file.bad(), [&] { return message(path.string(), ": reading it failed"); });
  return entries;
}

}  // namespace recordio

namespace {

std::vector<recordio::IndexEntry> entries_of(
    const recordio::RecordFile& file, const std::filesystem::path& index, bool must_exist) {
  std::error_code ignored;
  std::vector<recordio::IndexEntry> entries;
  if (!must_exist && !std::filesystem::exists(index, ignored)) {
    for (std::uint64_t at = 0; at < file.bytes(); at = file.skip(at))
      entries.push_back({static_cast<std::int64_t>(entries.size()), at});
    return entries;
  }
  entries = recordio::read_index(index);
  for (const recordio::IndexEntry& entry : entries) {
    require<FileError>(entry.position < file.bytes(), [&] {
      return message(
          index.string(),
          ": key ",
          entry.key,
          " stands at byte ",
          entry.position,
          ", ",
          file.path().string(),
          " has ",
          file.bytes());
    });
  }
  return entries;
}

}  // namespace

RecordFileDataset::RecordFileDataset(const std::filesystem::path& path) : file_(path) {
  std::filesystem::path index = path;
  index.replace_extension(".idx");
  entries_ = std::make_shared<const std::vector<recordio::IndexEntry>>(entries_of(file_, index, false));
}

RecordFileDataset::RecordFileDataset(const std::filesystem::path& path, const std::filesystem::path& index)
    : file_(path),
      entries_(std::make_shared<const std::vector<recordio::IndexEntry>>(entries_of(file_, index, true))) {}

recordio::Bytes RecordFileDataset::record(std::int64_t index) const {
  return file_.read((*entries_)[static_cast<std::size_t>(index)].position);
}

Sample RecordFileDataset::sample_at(std::int64_t index) const {
  const auto bytes = std::make_shared<const recordio::Bytes>(record(index));
  const auto n = static_cast<std::int64_t>(bytes->size());
  return {HostArray({.shape = {n}, .dtype = uint8}, std::shared_ptr<const void>(bytes, bytes->data()))};
}

}  // namespace sluice::gluon::data
