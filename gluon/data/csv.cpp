#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include <sluice/engine/error.h>
#include <sluice/gluon/data/csv.h>
#include <sluice/gluon/data/csv_reader.h>

namespace sluice::gluon::data {

struct CsvDataset::Table {
  std::vector<std::string> names;
  DType dtype, label_dtype;
  std::int64_t rows = 0, columns = 0;
  bool has_label = false;
  std::vector<std::byte> data, labels;
};

namespace {

using detail::CsvReader;

// Puts numbers into memory of a type, row by row.
class Columns {
 public:
  Columns(const CsvOptions& options, CsvReader& reader) : options_(options), reader_(reader) {}

  /// Finds what is asked for among `n` columns of these names (or none).
  void find(std::size_t n, const std::vector<std::string>& names) {
    width_ = n;
    names_ = names;
    if (options_.label)
      label_ = place_of(*options_.label);
    for (const CsvColumn& column : options_.columns)
      data_.push_back(place_of(column));
    for (std::size_t i = 0; options_.columns.empty() && i < n; ++i) {
      if (label_ != i)
        data_.push_back(i);
    }
    if (data_.empty())
      reader_.fail("there is no column of data beside the label");
  }
  bool found() const noexcept { return width_ > 0; }
  const std::vector<std::size_t>& data() const noexcept { return data_; }

  void add(const std::vector<std::string>& row, std::vector<std::byte>& data, std::vector<std::byte>& labels) const {
    if (row.size() != width_)
      reader_.fail(message("it has ", row.size(), " fields, the first line has ", width_));
    for (const std::size_t column : data_)
      append(data, options_.dtype, column, row[column]);
    if (label_)
      append(labels, options_.label_dtype, *label_, row[*label_]);
  }

 private:
  std::string those_there() const {
    constexpr std::size_t k_most = 20;
    std::string names;
    for (std::size_t i = 0; i < std::min(names_.size(), k_most); ++i)
      names += (names.empty() ? "" : ", ") + shortened(names_[i]);
    return "; there are " + names + (names_.size() > k_most ? message(", .. (", names_.size(), " in all)") : "");
  }

  std::size_t place_of(const CsvColumn& column) const {
    if (const auto* number = std::get_if<std::int64_t>(&column)) {
      const auto n = static_cast<std::int64_t>(width_);
      const std::int64_t place = *number < 0 ? *number + n : *number;
      if (place < 0 || place >= n)
        reader_.fail(message("there is no column ", *number, ", there are ", n));
      return static_cast<std::size_t>(place);
    }
    const auto& name = std::get<std::string>(column);
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found == names_.end())
      reader_.fail(message("there is no column '", name, "'", those_there()));
    if (std::find(found + 1, names_.end(), name) != names_.end())
      reader_.fail(message("there is more than one column '", name, "'"));
    return static_cast<std::size_t>(found - names_.begin());
  }

  [[noreturn]] void fail(std::size_t column, const std::string& field, const std::string& what) const {
    const char* const cure = reader_.line() == 1 ? "; if the first line holds names, .header = true says so" : "";
    reader_.fail(column, names_.empty() ? "" : names_[column], "'" + shortened(field) + "' " + what + cure);
  }

  static std::string shortened(const std::string& text) { return text.size() > 40 ? text.substr(0, 40) + ".." : text; }

  // Without spaces around it and a plus sign before it, which from_chars does not take.
  static std::string_view trimmed(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t'))
      text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t'))
      text.remove_suffix(1);
    if (text.size() > 1 && text[0] == '+' && text[1] != '-')
      text.remove_prefix(1);
    return text;
  }

  // Of a decimal number that is out of a type's range: too small, not too large.
  static bool is_tiny(std::string_view number) {
    const std::size_t e = std::min(number.find_first_of("eE"), number.size());
    std::int64_t digits = 0;  // before the point; negative: zeros behind it
    bool is_behind = false, is_zero = true;
    for (const char c : number.substr(0, e)) {
      is_behind |= c == '.';
      is_zero &= c == '0' || c == '.' || c == '-';
      if (c >= '0' && c <= '9')
        digits += is_zero ? (is_behind ? -1 : 0) : (is_behind ? 0 : 1);
    }
    std::string_view power = number.substr(std::min(e + 1, number.size()));
    if (power.starts_with('+'))
      power.remove_prefix(1);
    std::int64_t exponent = 0;
    const auto result = std::from_chars(power.data(), power.data() + power.size(), exponent);
    if (result.ec == std::errc::result_out_of_range)
      return power.starts_with('-');
    return exponent < -digits;
  }

  // The nearest of a smaller type's numbers, 0 perhaps.
  template <class T>
  static T narrowed(std::string_view text) {
    double value = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc())
      value = text.starts_with('-') ? -0.0 : 0.0;
    return static_cast<T>(value);
  }

  template <class T>
  T parsed(std::size_t column, const std::string& field, std::string_view text) const {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if constexpr (std::is_floating_point_v<T>) {
      if (error == std::errc::result_out_of_range &&
          is_tiny(std::string_view(text.data(), static_cast<std::size_t>(end - text.data()))) &&
          end == text.data() + text.size())
        return narrowed<T>(text);
    }
    if (error == std::errc::result_out_of_range)
      fail(column, field, message("does not fit ", dtype_of<T>));
    if (error != std::errc() || end != text.data() + text.size())
      fail(column, field, std::numeric_limits<T>::is_integer ? "is no whole number" : "is no number");
    return value;
  }

  void append(std::vector<std::byte>& to, DType dtype, std::size_t column, const std::string& field) const {
    const std::string_view text = trimmed(field);
    by_dtype(dtype, [&]<class T>() {
      if constexpr (std::is_arithmetic_v<T> && sizeof(T) >= 4) {
        T value{};
        if (!text.empty())
          value = parsed<T>(column, field, text);
        else if (options_.missing)
          value = static_cast<T>(*options_.missing);
        else
          fail(column, field, "is empty; CsvOptions::missing may say what stands for that");
        const auto* bytes = reinterpret_cast<const std::byte*>(&value);
        to.insert(to.end(), bytes, bytes + sizeof(T));
      }
    });
  }

  const CsvOptions& options_;
  CsvReader& reader_;
  std::size_t width_ = 0;
  std::vector<std::string> names_;
  std::vector<std::size_t> data_;
  std::optional<std::size_t> label_;
};

void check_options(const CsvOptions& options) {
  require(options.dtype == float32 || options.dtype == float64, [&] {
    return message("CsvDataset: dtype is ", options.dtype, ", it can be float32 or float64");
  });
  const DType label = options.label_dtype;
  require(label == float32 || label == float64 || label == int32 || label == int64, [&] {
    return message("CsvDataset: label_dtype is ", label, ", it can be float32, float64, int32 or int64");
  });
  require(std::string_view("\"\r\n").find(options.delimiter) == std::string_view::npos, [] {
    return "CsvDataset: the delimiter is a quote or a line's end";
  });
  const double missing = options.missing.value_or(0);
  require(
      !options.label || is_floating(label) || (missing == std::floor(missing) && std::abs(missing) <= 0x1p31 - 1),
      [&] { return message("CsvDataset: missing is ", missing, ", which is no label of ", label); });
  const auto is_name = [](const CsvColumn& column) { return std::holds_alternative<std::string>(column); };
  const bool names = (options.label && is_name(*options.label)) ||
                     std::any_of(options.columns.begin(), options.columns.end(), is_name);
  require(options.header || !names, [] { return "CsvDataset: columns are named, but there is no header line"; });
}

void copy_rows(
    const std::vector<std::byte>& from, std::span<const std::int64_t> indices, std::size_t row, const TensorView& to) {
  for (std::size_t i = 0; i < indices.size(); ++i)
    std::memcpy(
        static_cast<std::byte*>(to.data) + i * row, from.data() + static_cast<std::size_t>(indices[i]) * row, row);
}

}  // namespace

CsvDataset::CsvDataset(const std::filesystem::path& path, const CsvOptions& options) {
  check_options(options);
  CsvReader reader(path, options.delimiter);
  Columns columns(options, reader);
  auto table = std::make_shared<Table>();
  table->dtype = options.dtype;
  table->label_dtype = options.label_dtype;
  table->has_label = options.label.has_value();
  std::vector<std::string> row, names;
  if (options.header && reader.next(names))
    columns.find(names.size(), names);
  while (reader.next(row)) {
    if (!columns.found())
      columns.find(row.size(), {});
    columns.add(row, table->data, table->labels);
    ++table->rows;
  }
  require<FileError>(columns.found(), [&] { return message(path.string(), ": it has no rows"); });
  table->columns = static_cast<std::int64_t>(columns.data().size());
  for (const std::size_t column : columns.data()) {
    if (options.header)
      table->names.push_back(names[column]);
  }
  table_ = std::move(table);
}

std::int64_t CsvDataset::size() const noexcept {
  return table_->rows;
}

const std::vector<std::string>& CsvDataset::names() const noexcept {
  return table_->names;
}

std::vector<ArraySpec> CsvDataset::specs() const {
  std::vector<ArraySpec> specs = {{.shape = {table_->columns}, .dtype = table_->dtype}};
  if (table_->has_label)
    specs.push_back({.shape = {}, .dtype = table_->label_dtype});
  return specs;
}

void CsvDataset::read(std::span<const std::int64_t> indices, std::span<const TensorView> out) const {
  copy_rows(table_->data, indices, static_cast<std::size_t>(table_->columns) * size_of(table_->dtype), out[0]);
  if (table_->has_label)
    copy_rows(table_->labels, indices, size_of(table_->label_dtype), out[1]);
}

}  // namespace sluice::gluon::data
