#include <charconv>

#include <sluice/engine/error.h>
#include <sluice/gluon/formats/symbol_node.h>

namespace sluice::gluon::formats {

namespace {

template <class T>
bool parse_whole(std::string_view text, T& value) {
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  return end.ec == std::errc() && end.ptr == text.data() + text.size();
}

}  // namespace

const std::string* SymbolAttributes::find(const char* key) const {
  const auto found = texts_.find(key);
  return found == texts_.end() || found->second == "None" ? nullptr : &found->second;
}

void SymbolAttributes::fail(const char* key, const std::string& text) const {
  throw FileError(message("node \"", node_, "\": ", key, " cannot be \"", text, "\""));
}

std::string SymbolAttributes::text(const char* key, const char* otherwise) const {
  const std::string* const found = find(key);
  return found == nullptr ? otherwise : *found;
}

bool SymbolAttributes::flag(const char* key, bool otherwise) const {
  const std::string* const found = find(key);
  if (found == nullptr)
    return otherwise;
  if (*found == "True" || *found == "1" || *found == "true")
    return true;
  if (*found != "False" && *found != "0" && *found != "false")
    fail(key, *found);
  return false;
}

std::int64_t SymbolAttributes::integer(const char* key, std::int64_t otherwise) const {
  const std::string* const found = find(key);
  if (found != nullptr && !parse_whole(*found, otherwise))
    fail(key, *found);
  return otherwise;
}

double SymbolAttributes::number(const char* key, double otherwise) const {
  const std::string* const found = find(key);
  if (found != nullptr && !parse_whole(*found, otherwise))
    fail(key, *found);
  return otherwise;
}

Shape SymbolAttributes::numbers(const char* key, const Shape& otherwise) const {
  const std::string* const found = find(key);
  if (found == nullptr)
    return otherwise;
  Shape shape;
  std::string_view rest = *found;
  while (!rest.empty()) {
    const std::size_t first = rest.find_first_not_of("([, )]");
    if (first == std::string_view::npos)
      break;
    rest.remove_prefix(first);
    const std::size_t length = std::min(rest.find_first_of(", )]"), rest.size());
    std::int64_t value = 0;
    std::string_view digits = rest.substr(0, length);
    if (digits.ends_with('L'))  // of Python 2
      digits.remove_suffix(1);
    if (shape.ndim() == k_max_ndim || !parse_whole(digits, value))
      fail(key, *found);
    shape.push_back(value);
    rest.remove_prefix(length);
  }
  return shape.empty() ? otherwise : shape;
}

}  // namespace sluice::gluon::formats
