#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <optional>
#include <set>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <sluice/gluon/formats/formats.h>
#include <sluice/gluon/formats/mapped_file.h>
#include <sluice/ndarray/file.h>
#include <sluice/ndarray/written.h>

// How long a header is, the header as JSON, values one behind the other without gaps.
namespace sluice::gluon::formats {

namespace {

namespace json = boost::json;

constexpr std::uint64_t k_longest_header = 100'000'000;  // the format's own limit
constexpr std::string_view k_metadata = "__metadata__";

constexpr std::array<std::pair<std::string_view, DType>, 13> k_type_names = {
    {{"F64", float64},
     {"F32", float32},
     {"F16", float16},
     {"BF16", bfloat16},
     {"I64", int64},
     {"U64", uint64},
     {"I32", int32},
     {"U32", uint32},
     {"I16", int16},
     {"U16", uint16},
     {"I8", int8},
     {"U8", uint8},
     {"BOOL", bool_}}};

/// What a header says of an array.
struct Place {
  std::string name;
  DType dtype;
  Shape shape;
  std::uint64_t begin, end;
};

class Header {
 public:
  Header(const MappedFile& file, const std::string& text) : file_(file) {
    json::error_code error;
    const json::value root = json::parse(text, error);
    if (error || !root.is_object())
      file_.fail(message("has no JSON object as its header", error ? ": " + error.message() : ""));
    for (const auto& [key, field] : root.get_object()) {
      if (std::string_view(key.data(), key.size()) != k_metadata)
        places_.push_back(place_of({key.data(), key.size()}, field));
    }
  }

  /// In the order of their values, which lie one behind the other in so many bytes.
  const std::vector<Place>& places(std::uint64_t bytes) {
    std::stable_sort(places_.begin(), places_.end(), [](const Place& a, const Place& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    std::uint64_t at = 0;
    for (const Place& place : places_) {
      if (place.begin != at)
        file_.fail(message("\"", place.name, "\" begins at ", place.begin, ", what is before it ends at ", at));
      at = place.end;
    }
    if (at != bytes)
      file_.fail(message("its header says ", at, " bytes of values, it has ", bytes));
    return places_;
  }

 private:
  Place place_of(const std::string& name, const json::value& value) const {
    const json::object* const field = value.if_object();
    const json::value* const type = field == nullptr ? nullptr : field->if_contains("dtype");
    const json::value* const shape = field == nullptr ? nullptr : field->if_contains("shape");
    const json::value* const offsets = field == nullptr ? nullptr : field->if_contains("data_offsets");
    if (type == nullptr || !type->is_string() || shape == nullptr || offsets == nullptr)
      file_.fail(message("\"", name, "\" has no dtype, shape and data_offsets"));
    Place place{name, dtype_of_name(name, type->get_string()), {}, 0, 0};
    std::uint64_t bytes = size_of(place.dtype);
    const std::vector<std::uint64_t> extents = numbers(name, *shape, k_max_ndim);
    for (const std::uint64_t extent : extents) {
      // Of two that are too large together one may still be 0.
      if (extent > std::uint64_t{1} << 62 || (bytes != 0 && extent > (std::uint64_t{1} << 62) / bytes))
        file_.fail(message("\"", name, "\" has more elements than memory could hold"));
      bytes *= extent;
      place.shape.push_back(static_cast<std::int64_t>(extent));
    }
    const std::vector<std::uint64_t> ends = numbers(name, *offsets, 2);
    if (ends.size() != 2 || ends[1] < ends[0] || ends[1] - ends[0] != bytes)
      file_.fail(
          message("\"", name, "\" of shape ", place.shape, " needs ", bytes, " bytes, its data_offsets are others"));
    place.begin = ends[0];
    place.end = ends[1];
    return place;
  }

  DType dtype_of_name(const std::string& name, std::string_view type) const {
    for (const auto& [each, dtype] : k_type_names) {
      if (each == type)
        return dtype;
    }
    file_.fail(message("\"", name, "\" is of type ", type, ", which arrays here cannot be"));
  }

  std::vector<std::uint64_t> numbers(const std::string& name, const json::value& list, std::size_t most) const {
    std::vector<std::uint64_t> found;
    if (!list.is_array() || list.get_array().size() > most)
      file_.fail(message("\"", name, "\" has something in place of a list of at most ", most, " numbers"));
    for (const json::value& each : list.get_array()) {
      if (each.is_int64() && each.get_int64() >= 0)
        found.push_back(static_cast<std::uint64_t>(each.get_int64()));
      else
        file_.fail(message("\"", name, "\" has something in place of a number that is not negative"));
    }
    return found;
  }

  const MappedFile& file_;
  std::vector<Place> places_;
};

std::string_view name_of_type(DType dtype) {
  for (const auto& [name, each] : k_type_names) {
    if (each == dtype)
      return name;
  }
  throw DTypeError(message("save_safetensors: the format has no type ", dtype));
}

/// Padded to eight bytes, as the format's own writers do.
std::string header_of(const NamedArrays& arrays) {
  json::object root;
  std::uint64_t at = 0;
  for (const auto& [name, array] : arrays) {
    json::array shape;
    for (int axis = 0; axis < array.ndim(); ++axis)
      shape.emplace_back(array.shape()[axis]);
    const std::uint64_t end = at + static_cast<std::uint64_t>(array.size()) * size_of(array.dtype());
    root[name] = json::object{
        {"dtype", std::string(name_of_type(array.dtype()))}, {"shape", shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = json::serialize(root);
  json::error_code error;
  json::parse(text, error);
  require(!error, [] { return "save_safetensors: names must be UTF-8, and one is not"; });
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

void check_names(const NamedArrays& arrays) {
  std::set<std::string_view> names;
  for (const auto& [name, array] : arrays) {
    require(array.defined(), [&, &name = name] {
      return message("save_safetensors: the array \"", name, "\" is undefined");
    });
    require(name != k_metadata && names.insert(name).second, [&, &name = name] {
      return message("save_safetensors: \"", name, "\" is there twice, or no name that an array can have");
    });
  }
}

}  // namespace

NamedArrays load_safetensors(const std::filesystem::path& path, Device device) {
  const MappedFile file(path);
  ByteCursor rest(file);
  const auto length = rest.number<std::uint64_t>("its first word");
  if (length > k_longest_header)
    file.fail(message("is no .safetensors file: its header would have ", length, " bytes"));
  Header header(file, rest.text(length, "its header"));
  NamedArrays arrays;
  for (const Place& place : header.places(rest.left())) {
    const auto values = rest.take(place.end - place.begin, place.name);
    arrays.emplace_back(place.name, array_of(values, place.shape, place.dtype, device));
  }
  return arrays;
}

void save_safetensors(const std::filesystem::path& path, const NamedArrays& arrays) {
  check_names(arrays);
  const std::string header = header_of(arrays);
  write_whole(path, [&](const std::filesystem::path& draft) {
    std::ofstream file(draft, std::ios::binary);
    std::string length;
    append_number<std::uint64_t>(length, header.size());
    file << length << header;
    for (const auto& [name, array] : arrays) {
      std::string values(static_cast<std::size_t>(array.size()) * size_of(array.dtype()), '\0');
      array.read_out(values.data(), array.dtype(), array.size());
      file.write(values.data(), static_cast<std::streamsize>(values.size()));
      sluice::detail::require_written(file, path);
    }
    file.close();
    sluice::detail::require_written(file, path);
  });
}

}  // namespace sluice::gluon::formats
