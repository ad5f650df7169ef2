#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <sluice/gluon/data/byte_source.h>

namespace sluice::gluon::data::detail {

/// Takes a text file apart into rows of fields (RFC 4180). Throws FileError naming file and line.
class CsvReader {
 public:
  CsvReader(const std::filesystem::path& path, char delimiter);
  /// The next row that is not an empty line; false at the end.
  bool next(std::vector<std::string>& fields);
  /// The line on which the last row began, counted from 1.
  std::int64_t line() const noexcept { return row_line_; }
  [[noreturn]] void fail(const std::string& what) const;
  /// The same of column `column`, from 0, with its name if it has one.
  [[noreturn]] void fail(std::size_t column, const std::string& name, const std::string& what) const;

 private:
  int get();
  int peek();
  bool refill();
  void quoted(std::string& field);
  void plain(std::string& field);
  void add(std::string& field, int byte) const;

  std::filesystem::path path_;
  ByteSource source_;
  char delimiter_;
  std::vector<std::uint8_t> buffer_;
  std::size_t at_ = 0, filled_ = 0;
  std::int64_t line_ = 1, row_line_ = 0;
};

}  // namespace sluice::gluon::data::detail
