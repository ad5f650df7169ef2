#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/data/dataset.h>

namespace sluice::gluon::data {

/// MXNet's record files: records of bytes one after the other, beside which an index (".idx") may say where each
/// begins: a line of a number, a tab and a position for each.
namespace recordio {

using Bytes = std::vector<std::uint8_t>;
using ByteView = std::span<const std::uint8_t>;

/// What stands before an image in a record (MXNet's IRHeader).
struct IRHeader {
  std::uint32_t flag = 0;  // 0: one label, in the header itself; else the number of labels, which follow it
  std::vector<float> labels = {};
  std::uint64_t id = 0, id2 = 0;
};
/// A header and what follows it, in the memory of the record.
struct Unpacked {
  IRHeader header = {};
  ByteView content = {};
};
/// The bytes of a header and of `content`. One label goes into the header itself if flag is 0. Throws ValueError for
/// none.
SLUICE_API Bytes pack(const IRHeader& header, ByteView content);
/// Takes apart what pack() made. Throws FileError where there are not as many bytes as there should be.
SLUICE_API Unpacked unpack(ByteView record);

/// Writes a record file (mx.recordio.MXRecordIO), anew: what the file held is gone.
class SLUICE_API RecordWriter {
 public:
  /// Throws FileError.
  explicit RecordWriter(const std::filesystem::path& path);
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;
  /// Ends the file; who wants to know whether that went well calls close().
  ~RecordWriter() = default;

  /// Appends a record and gives its position. Throws ValueError for one of 2^29 bytes or more, FileError.
  std::uint64_t write(ByteView record);
  /// Where the next record will stand.
  std::uint64_t tell() const noexcept { return position_; }
  /// Throws FileError if not all could be written.
  void close();

 private:
  void write_part(std::uint32_t kind, ByteView part);

  std::filesystem::path path_;
  std::ofstream file_;
  std::uint64_t position_ = 0;
};

/// Writes a record file and its index (mx.recordio.MXIndexedRecordIO).
class SLUICE_API IndexedRecordWriter {
 public:
  /// Throws FileError.
  IndexedRecordWriter(const std::filesystem::path& index, const std::filesystem::path& records);
  /// Throws ValueError for a key that was there already, and what RecordWriter::write() throws.
  void write(std::int64_t key, ByteView record);
  /// Throws FileError if not all could be written.
  void close();

 private:
  std::filesystem::path index_path_;
  RecordWriter records_;
  std::ofstream index_;
  std::set<std::int64_t> keys_;
};

/// A record file open for reading, from several threads at once. Copies share it.
class SLUICE_API RecordFile {
 public:
  /// Throws FileError.
  explicit RecordFile(const std::filesystem::path& path);
  /// The record at `position`, and where the next one stands. Throws FileError, naming the position, where no sound
  /// record begins; memory is taken for what the file holds, whatever the record claims.
  Bytes read(std::uint64_t position, std::uint64_t* next = nullptr) const;
  /// Where the record after the one at `position` stands, without reading it.
  std::uint64_t skip(std::uint64_t position) const;
  std::uint64_t bytes() const noexcept;
  const std::filesystem::path& path() const noexcept;

 private:
  struct File;
  std::uint64_t walk(std::uint64_t position, Bytes* record) const;
  std::shared_ptr<const File> file_;
};

/// Reads a record file from its beginning to its end (mx.recordio.MXRecordIO).
class SLUICE_API RecordReader {
 public:
  explicit RecordReader(const std::filesystem::path& path) : file_(path) {}
  /// The next record, or none at the end. Throws FileError as RecordFile::read() does.
  std::optional<Bytes> read();
  /// Back to the beginning.
  void reset() noexcept { position_ = 0; }
  std::uint64_t tell() const noexcept { return position_; }

 private:
  RecordFile file_;
  std::uint64_t position_ = 0;
};

/// Key and position of a record, as an index has them.
struct IndexEntry {
  std::int64_t key = 0;
  std::uint64_t position = 0;
};
/// Reads an index. Throws FileError that names the line which is none.
SLUICE_API std::vector<IndexEntry> read_index(const std::filesystem::path& path);

}  // namespace recordio

/// The records of a record file as samples: one array, its bytes (n,) of uint8 (Gluon's RecordFileDataset). Records are
/// read when they are asked for. Copies share the file.
class SLUICE_API RecordFileDataset : public Transformable<RecordFileDataset> {
 public:
  /// In the order of the index beside the file (its name with ".idx"), or, where there is none, all in the order in
  /// which they stand, which it looks through the file for. Throws FileError.
  explicit RecordFileDataset(const std::filesystem::path& path);
  /// In the order of this index. Throws FileError, also for positions beyond the file.
  RecordFileDataset(const std::filesystem::path& path, const std::filesystem::path& index);

  std::int64_t size() const noexcept { return static_cast<std::int64_t>(entries_->size()); }
  Sample sample_at(std::int64_t index) const;
  /// The bytes of record `index`, which is to be within [0, size()). Throws FileError.
  recordio::Bytes record(std::int64_t index) const;
  /// Its key in the index; its number in the file where there is no index.
  std::int64_t key(std::int64_t index) const { return (*entries_)[static_cast<std::size_t>(index)].key; }

 private:
  recordio::RecordFile file_;
  std::shared_ptr<const std::vector<recordio::IndexEntry>> entries_;
};

}  // namespace sluice::gluon::data
