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
  find_damaged(message(key, " cannot be \"", text, "\""));
}

void SymbolAttributes::find_damaged(const std::string& what) const {
  throw FileError(message("node \"", node_, "\": ", what));
}

void SymbolAttributes::refuse(const std::string& what) const {
  throw UnsupportedError(message("node \"", node_, "\": ", what));
}

void SymbolAttributes::check() const {
  for (const char* const key :
       {"no_bias",
        "flatten",
        "use_global_stats",
        "fix_gamma",
        "global_pool",
        "count_include_pad",
        "squeeze_axis",
        "keepdims",
        "multi_output",
        "is_int",
        "bidirectional",
        "state_outputs",
        "use_sequence_length"})
    flag(key, false);
  for (const char* const key :
       {"num_filter",
        "num_group",
        "num_hidden",
        "block_size",
        "num_outputs",
        "dim",
        "dim1",
        "dim2",
        "begin",
        "end",
        "state_size",
        "num_layers"})
    integer(key, 0);
  for (const char* const key : {"eps", "momentum", "p", "slope", "temperature", "scalar", "a_min", "a_max"})
    number(key, 0);
  for (const char* const key : {"kernel", "stride", "dilate", "pad", "shape", "axes", "axis"})
    numbers(key, {});
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

int SymbolAttributes::axis(const char* key, int otherwise) const {
  const std::int64_t found = integer(key, otherwise);
  if (found < -k_max_ndim || found > k_max_ndim)
    fail(key, *find(key));
  return static_cast<int>(found);
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
