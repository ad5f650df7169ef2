#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/data/dataset.h>

namespace sluice::gluon::data {

/// A column of a table: its number from 0, from the end if negative (-1 is the last), or its name in the header line.
using CsvColumn = std::variant<std::int64_t, std::string>;

/// How a table is read.
struct CsvOptions {
  bool header = false;  // the first line has the columns' names
  char delimiter = ',';
  /// Columns of the data, in this order; none: all but that of the label.
  std::vector<CsvColumn> columns = {};
  /// Column of the label; without it samples are data alone.
  std::optional<CsvColumn> label = {};
  DType dtype = float32;        // of the data: float32 or float64
  DType label_dtype = float32;  // float32, float64, int32 or int64
  /// What stands for an empty field; without it one is an error.
  std::optional<double> missing = {};
};

/// The rows of a table of numbers in a text file, plain or gzipped, as samples: data (number of columns,) and, if a
/// column is named for it, a label (). Fields may stand in quotes (a quote within is doubled), with delimiters and line
/// ends in them; lines end as in Unix or Windows; empty lines do not count. Columns that are not asked for may hold
/// anything. The numbers stay in memory; copies share them.
class SLUICE_API CsvDataset : public Transformable<CsvDataset> {
 public:
  /// Throws ValueError for options that cannot be, FileError that names the file, the line and the column: a field that
  /// is no number or does not fit the type, a row of another length, a quote that does not end, no such column.
  explicit CsvDataset(const std::filesystem::path& path, const CsvOptions& options = {});

  std::int64_t size() const noexcept;
  std::vector<ArraySpec> specs() const;
  void read(std::span<const std::int64_t> indices, std::span<const TensorView> out) const;
  /// The header line's names of the data's columns; empty without a header.
  const std::vector<std::string>& names() const noexcept;

 private:
  struct Table;
  std::shared_ptr<const Table> table_;
};

}  // namespace sluice::gluon::data
