#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>

#include <sluice/gluon/formats/formats.h>
#include <sluice/gluon/formats/mapped_file.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/file.h>
#include <sluice/ndarray/written.h>

// src/ndarray/ndarray.cc of MXNet: a list is a magic number, 0, its arrays and their names, each with how many there
// are.
namespace sluice::gluon::formats {

namespace {

constexpr std::uint64_t k_list = 0x112;
// The first word of an array; older ones begin with their number of axes.
constexpr std::uint32_t k_wide_shape = 0xf993fac8, k_storage_type = 0xf993fac9, k_numpy_shape = 0xf993faca;
constexpr std::uint32_t k_most_axes = 32;  // MXNet's

/// mshadow's numbers for types.
constexpr std::array<std::pair<std::int32_t, DType>, 13> k_types = {
    {{0, float32},
     {1, float64},
     {2, float16},
     {3, uint8},
     {4, int32},
     {5, int8},
     {6, int64},
     {7, bool_},
     {8, int16},
     {9, uint16},
     {10, uint32},
     {11, uint64},
     {12, bfloat16}}};

std::optional<DType> type_of(std::int32_t number) {
  for (const auto& [each, dtype] : k_types) {
    if (each == number)
      return dtype;
  }
  return std::nullopt;
}
std::int32_t number_of(DType dtype) {
  for (const auto& [number, each] : k_types) {
    if (each == dtype)
      return number;
  }
  throw DTypeError(message("save_mxnet: MXNet has no type ", dtype));
}

class Reader {
 public:
  Reader(const std::filesystem::path& path, Device device) : file_(path), rest_(file_), device_(device) {}

  NamedArrays read() {
    if (rest_.number<std::uint64_t>("its first word") != k_list)
      file_.fail("is no .params file of MXNet's: it begins with another number");
    rest_.number<std::uint64_t>("its second word");
    // Of fewer bytes no array is made.
    const auto count = number_of_items("arrays", 4);
    std::vector<NDArray> arrays;
    for (std::uint64_t i = 0; i < count; ++i) {
      about_ = message("array ", i);
      arrays.push_back(array());
    }
    const auto names = number_of_items("names", 8);
    if (names != 0 && names != count)
      file_.fail(message("has ", names, " names for ", count, " arrays"));
    NamedArrays named;
    for (std::uint64_t i = 0; i < count; ++i) {
      about_ = message("name ", i);
      named.emplace_back(names == 0 ? std::to_string(i) : name(), std::move(arrays[i]));
    }
    if (!rest_.empty())
      file_.fail(message("has ", rest_.left(), " bytes behind its last name"));
    return named;
  }

 private:
  std::uint64_t number_of_items(const char* of, std::uint64_t least_bytes) {
    const auto count = rest_.number<std::uint64_t>(of);
    if (count > rest_.left() / least_bytes)
      file_.fail(message("cannot have ", count, " ", of, " in ", rest_.left(), " bytes"));
    return count;
  }

  std::string name() {
    const auto length = rest_.number<std::uint64_t>(about_);
    std::string text = rest_.text(length, about_);
    for (const std::string_view prefix : {"arg:", "aux:"}) {
      if (text.starts_with(prefix))
        return text.substr(prefix.size());
    }
    return text;
  }

  NDArray array() {
    const auto first = rest_.number<std::uint32_t>(about_);
    const bool is_old = first != k_wide_shape && first != k_storage_type && first != k_numpy_shape;
    if (first == k_storage_type || first == k_numpy_shape) {
      if (const auto storage = rest_.number<std::int32_t>(about_); storage != 0)
        file_.fail(message(about_, " is sparse (storage type ", storage, ")"));
    }
    const Shape shape = is_old ? shape_of<std::uint32_t>(first, false)
                               : shape_of<std::int64_t>(rest_.number<std::uint32_t>(about_), first == k_numpy_shape);
    rest_.number<std::int32_t>(about_);  // the kind of device that it was on
    rest_.number<std::int32_t>(about_);  // which one
    const auto number = rest_.number<std::int32_t>(about_);
    const std::optional<DType> dtype = type_of(number);
    if (!dtype)
      file_.fail(message(about_, " is of MXNet's type ", number, ", which arrays here cannot be"));
    return values(shape, *dtype);
  }

  /// In older files no axes mean that there is no array.
  template <class Extent>
  Shape shape_of(std::uint32_t axes, bool as_in_numpy) {
    if (axes == 0 && !as_in_numpy)
      file_.fail(message(about_, " has no shape"));
    if (axes > k_most_axes)
      file_.fail(message(about_, " has ", static_cast<std::int32_t>(axes), " axes"));
    if (axes > static_cast<std::uint32_t>(k_max_ndim))
      file_.fail(message(about_, " has ", axes, " axes, more than an array can have"));
    Shape shape;
    for (std::uint32_t axis = 0; axis < axes; ++axis) {
      const auto extent = static_cast<std::int64_t>(rest_.number<Extent>(about_));
      if (extent < 0)
        file_.fail(message(about_, " has an axis of ", extent));
      shape.push_back(extent);
    }
    return shape;
  }

  NDArray values(const Shape& shape, DType dtype) {
    std::uint64_t bytes = size_of(dtype);
    bool is_empty = false;
    for (int axis = 0; axis < shape.ndim(); ++axis)
      is_empty = is_empty || shape[axis] == 0;
    for (int axis = 0; axis < shape.ndim() && !is_empty; ++axis) {
      if (bytes > rest_.left() / static_cast<std::uint64_t>(shape[axis]))
        file_.fail(message(about_, " of shape ", shape, " does not fit the ", rest_.left(), " bytes that are left"));
      bytes *= static_cast<std::uint64_t>(shape[axis]);
    }
    const auto held = rest_.take(is_empty ? 0 : bytes, about_);
    return array_of(held, shape, dtype, device_);
  }

  MappedFile file_;
  ByteCursor rest_;
  Device device_;
  std::string about_;
};

/// MXNet takes arrays of one kind of shapes from a file.
bool needs_numpy(const NamedArrays& arrays) {
  return std::any_of(arrays.begin(), arrays.end(), [](const auto& named) {
    return named.second.ndim() == 0 || named.second.size() == 0;
  });
}

std::string header_of(const NDArray& array, bool as_in_numpy) {
  const Shape& shape = array.shape();
  std::string header;
  append_number(header, as_in_numpy ? k_numpy_shape : k_storage_type);
  append_number<std::int32_t>(header, 0);  // dense
  append_number<std::int32_t>(header, shape.ndim());
  for (int axis = 0; axis < shape.ndim(); ++axis)
    append_number<std::int64_t>(header, shape[axis]);
  append_number<std::int32_t>(header, 1);  // a CPU
  append_number<std::int32_t>(header, 0);
  append_number<std::int32_t>(header, number_of(array.dtype()));
  return header;
}

}  // namespace

NamedArrays load_mxnet(const std::filesystem::path& path, Device device) {
  return Reader(path, device).read();
}

void save_mxnet(const std::filesystem::path& path, const NamedArrays& arrays) {
  for (const auto& [name, array] : arrays) {
    require(
        array.defined(), [&, &name = name] { return message("save_mxnet: the array \"", name, "\" is undefined"); });
  }
  write_whole(path, [&](const std::filesystem::path& draft) {
    std::ofstream file(draft, std::ios::binary);
    const auto put = [&](std::string_view bytes) {
      file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
      sluice::detail::require_written(file, path);
    };
    const bool as_in_numpy = needs_numpy(arrays);
    std::string words;
    append_number(words, k_list);
    append_number<std::uint64_t>(words, 0);
    append_number<std::uint64_t>(words, arrays.size());
    put(words);
    std::string names;
    append_number<std::uint64_t>(names, arrays.size());
    for (const auto& [name, array] : arrays) {
      put(header_of(array, as_in_numpy));
      std::string values(static_cast<std::size_t>(array.size()) * size_of(array.dtype()), '\0');
      array.read_out(values.data(), array.dtype(), array.size());
      put(values);
      append_number<std::uint64_t>(names, name.size());
      names += name;
    }
    put(names);
    file.close();
    sluice::detail::require_written(file, path);
  });
}

}  // namespace sluice::gluon::formats
