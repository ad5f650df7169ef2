#include <sluice/engine/error.h>
#include <sluice/gluon/data/csv_reader.h>

namespace sluice::gluon::data::detail {

namespace {
constexpr std::size_t k_buffer_bytes = 1 << 16;
// Memory is bounded whatever the file holds.
constexpr std::size_t k_longest_field = 1 << 20, k_most_fields = 1 << 20;
constexpr int k_end = -1;
}  // namespace

CsvReader::CsvReader(const std::filesystem::path& path, char delimiter)
    : path_(path), source_(path), delimiter_(delimiter), buffer_(k_buffer_bytes) {
  // What some programs put before UTF-8.
  if (refill() && filled_ >= 3 && buffer_[0] == 0xef && buffer_[1] == 0xbb && buffer_[2] == 0xbf)
    at_ = 3;
}

void CsvReader::fail(const std::string& what) const {
  throw FileError(message(path_.string(), ": line ", row_line_, ": ", what));
}

void CsvReader::fail(std::size_t column, const std::string& name, const std::string& what) const {
  throw FileError(message(
      path_.string(),
      ": line ",
      row_line_,
      ", column ",
      column + 1,
      name.empty() ? "" : " ('" + name + "')",
      ": ",
      what));
}

bool CsvReader::refill() {
  at_ = 0;
  filled_ = source_.read(buffer_.data(), buffer_.size());
  return filled_ > 0;
}

int CsvReader::peek() {
  return at_ < filled_ || refill() ? buffer_[at_] : k_end;
}

int CsvReader::get() {
  const int byte = peek();
  if (byte != k_end)
    ++at_;
  if (byte == '\n')
    ++line_;
  return byte;
}

void CsvReader::add(std::string& field, int byte) const {
  if (field.size() == k_longest_field)
    fail(message("a field of more than ", k_longest_field, " bytes; does a quote not end?"));
  field.push_back(static_cast<char>(byte));
}

// Behind the opening quote, up to the delimiter or the line's end.
void CsvReader::quoted(std::string& field) {
  for (;;) {
    const int byte = get();
    if (byte == k_end)
      fail("a quote does not end");
    if (byte != '"') {
      add(field, byte);
    } else if (peek() == '"') {
      add(field, get());
    } else {
      break;
    }
  }
  const int next = peek();
  if (next != k_end && next != '\n' && next != '\r' && next != static_cast<unsigned char>(delimiter_))
    fail("there is text behind a quote that ended");
}

void CsvReader::plain(std::string& field) {
  for (int byte = peek(); byte != k_end && byte != '\n' && byte != static_cast<unsigned char>(delimiter_);
       byte = peek()) {
    add(field, get());
  }
  if (!field.empty() && field.back() == '\r' && peek() != static_cast<unsigned char>(delimiter_))
    field.pop_back();
}

bool CsvReader::next(std::vector<std::string>& fields) {
  for (;;) {
    if (peek() == k_end)
      return false;
    row_line_ = line_;
    std::size_t n = 0;
    bool is_quoted = false;
    for (bool more = true; more; ++n) {
      if (n == k_most_fields)
        fail(message("more than ", k_most_fields, " fields"));
      if (fields.size() == n)
        fields.emplace_back();
      std::string& field = fields[n];
      field.clear();
      if (peek() == '"') {
        is_quoted = true;
        get();
        quoted(field);
        if (peek() == '\r')
          get();
      } else {
        plain(field);
      }
      const int end = get();
      more = end == static_cast<unsigned char>(delimiter_);
      if (!more && end != '\n' && end != k_end)
        fail("a line ends by a carriage return alone");
    }
    fields.resize(n);
    if (n > 1 || is_quoted || !fields[0].empty())
      return true;
  }
}

}  // namespace sluice::gluon::data::detail
