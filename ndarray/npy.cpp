#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/ndarray/detail/bytes.h>
#include <sluice/ndarray/detail/npy.h>

namespace sluice::detail {
namespace {

/// Reads the Python literal of a header: a dict of strings, booleans and one tuple of numbers.
class HeaderParser {
  static constexpr std::size_t k_character_bytes = 4, k_longest_text = std::size_t{1} << 40;

 public:
  explicit HeaderParser(std::string_view text) : rest_(text) {}

  NpyHeader parse() {
    expect('{');
    bool has_descr = false, has_order = false, has_shape = false;
    while (!take('}')) {
      const std::string_view key = string();
      expect(':');
      if (key == "descr" && !has_descr) {
        has_descr = true;
        type(string());
      } else if (key == "fortran_order" && !has_order) {
        has_order = true;
        header_.fortran_order = boolean();
      } else if (key == "shape" && !has_shape) {
        has_shape = true;
        shape();
      } else {
        fail("an unknown or repeated key");
      }
      if (!take(',') && !at('}'))
        fail("a missing comma");
    }
    skip_space();
    if (!rest_.empty() || !has_descr || !has_order || !has_shape)
      fail("not the keys descr, fortran_order and shape");
    return header_;
  }

 private:
  [[noreturn]] static void fail(const char* what) { throw FileError(message("its .npy header has ", what)); }

  void skip_space() {
    const std::size_t first = rest_.find_first_not_of(" \t\r\n");
    rest_.remove_prefix(first == std::string_view::npos ? rest_.size() : first);
  }
  bool at(char c) {
    skip_space();
    return !rest_.empty() && rest_.front() == c;
  }
  bool take(char c) {
    if (!at(c))
      return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!take(c))
      fail("a syntax that is not NumPy's");
  }
  std::string_view string() {
    const char quote = take('\'') ? '\'' : '"';
    if (quote == '"')
      expect('"');
    const std::size_t end = rest_.find(quote);
    if (end == std::string_view::npos)
      fail("a string without end");
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool boolean() {
    skip_space();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (rest_.starts_with(word)) {
        rest_.remove_prefix(word.size());
        return value;
      }
    }
    fail("a fortran_order that is neither True nor False");
  }
  template <class T>
  T number(std::string_view& text) {
    T value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || value < 0)
      fail("a number that cannot be read");
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return value;
  }
  void shape() {
    expect('(');
    while (!take(')')) {
      skip_space();
      const auto extent = number<std::int64_t>(rest_);
      if (++header_.axes <= k_max_ndim)
        header_.shape.push_back(extent);
      if (!take(',') && !at(')'))
        fail("a shape that is not a tuple");
    }
  }
  void type(std::string_view descr) {
    if (descr.size() < 3 || std::string_view("<>|=").find(descr[0]) == std::string_view::npos)
      fail("a type that is not a plain one");
    header_.big_endian = descr[0] == '>';
    header_.kind = descr[1];
    descr.remove_prefix(2);
    header_.item = static_cast<std::size_t>(number<std::int64_t>(descr));
    if (header_.kind == 'U' && header_.item <= k_longest_text)  // so many characters
      header_.item *= k_character_bytes;
    if (!descr.empty())
      fail("a type that is not a plain one");
  }

  std::string_view rest_;
  NpyHeader header_;
};

struct TypeRow {
  DType dtype;
  char kind;
};
constexpr TypeRow k_types[] = {
    {DType::bool_, 'b'},
    {DType::uint8, 'u'},
    {DType::int8, 'i'},
    {DType::int32, 'i'},
    {DType::int64, 'i'},
    {DType::int16, 'i'},
    {DType::uint16, 'u'},
    {DType::uint32, 'u'},
    {DType::uint64, 'u'},
    {DType::float16, 'f'},
    {DType::float32, 'f'},
    {DType::float64, 'f'},
};

}  // namespace

std::size_t NpyHeader::data_size() const {
  try {
    std::size_t bytes = 0;
    if (!__builtin_mul_overflow(static_cast<std::size_t>(shape.size()), item, &bytes))
      return bytes;
  } catch (const ShapeError&) {
  }
  throw FileError(message("its shape ", shape, " has more bytes than can be counted"));
}

NpyHeader parse_npy_header(std::span<const std::byte> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  require<FileError>(file.size() >= 12 && text.starts_with(k_npy_magic), [] { return "it is not a .npy file"; });
  const int version = static_cast<int>(file[6]);
  require<FileError>(version >= 1 && version <= 3, [&] {
    return message("it is a .npy file of version ", version, "; 1 to 3 are known");
  });
  const std::size_t start = version == 1 ? 10 : 12;
  const std::size_t length = version == 1 ? little_at<std::uint16_t>(file, 8) : little_at<std::uint32_t>(file, 8);
  require<FileError>(length <= file.size() - start, [] { return "its .npy header is cut short"; });
  NpyHeader header = HeaderParser(text.substr(start, length)).parse();
  header.data_offset = start + length;
  return header;
}

std::string format_npy_header(const std::string& descr, const Shape& shape) {
  std::string dict = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + to_string(shape) + ", }";
  constexpr std::size_t before = 10, alignment = 64;
  const std::size_t length = dict.size() + 1;
  dict.append((alignment - (before + length) % alignment) % alignment, ' ');
  dict += '\n';
  std::string header(k_npy_magic);
  header += '\1';
  header += '\0';
  append_little<std::uint16_t>(header, static_cast<std::uint16_t>(dict.size()));
  return header + dict;
}

std::string descr_of(DType dtype) {
  if (dtype == DType::bfloat16)
    return "<u2";
  const auto row = std::find_if(std::begin(k_types), std::end(k_types), [&](TypeRow r) { return r.dtype == dtype; });
  const std::size_t bytes = size_of(dtype);
  return message(bytes == 1 ? '|' : '<', row->kind, bytes);
}

DType dtype_of_header(const NpyHeader& header) {
  for (const TypeRow& row : k_types) {
    if (row.kind == header.kind && size_of(row.dtype) == header.item)
      return row.dtype;
  }
  require<FileError>(
      header.kind != 'U' && header.kind != 'S', [] { return "it holds text, and strings are not read"; });
  throw FileError(message("its type ", header.kind, header.item, " is none of Sluice's"));
}

}  // namespace sluice::detail
