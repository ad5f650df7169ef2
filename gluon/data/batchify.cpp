#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

#include <sluice/engine/error.h>
#include <sluice/gluon/data/batchify.h>

namespace sluice::gluon::data::batchify {

namespace {

Shape with_first(const Shape& shape, std::size_t n) {
  Shape whole = shape;
  whole.insert(0, static_cast<std::int64_t>(n));
  return whole;
}

std::byte* bytes_of(HostArray& array) {
  return static_cast<std::byte*>(const_cast<void*>(array.data()));  // made here, nobody else's
}

void check_types(const char* name, Fields arrays) {
  for (std::size_t i = 1; i < arrays.size(); ++i) {
    require<DTypeError>(arrays[i].dtype() == arrays[0].dtype(), [&] {
      return message(name, ": array ", i, " is ", arrays[i].dtype(), ", the first is ", arrays[0].dtype());
    });
  }
}

template <class T>
void fill(std::byte* to, std::int64_t n, double value) {
  if constexpr (std::numeric_limits<T>::is_integer) {
    const bool holds = value == std::floor(value) && value >= static_cast<double>(std::numeric_limits<T>::min()) &&
                       value < std::ldexp(1.0, std::numeric_limits<T>::digits);
    require(holds, [&] { return message("Pad: ", value, " is no number of ", dtype_of<T>); });
    std::fill_n(reinterpret_cast<T*>(to), n, static_cast<T>(value));
  } else {
    const T rounded = static_cast<T>(static_cast<float>(value));
    require(!std::isfinite(value) || std::isfinite(static_cast<float>(rounded)), [&] {
      return message("Pad: ", value, " is no number of ", dtype_of<T>);
    });
    std::fill_n(reinterpret_cast<T*>(to), n, rounded);
  }
}
template <>
void fill<double>(std::byte* to, std::int64_t n, double value) {
  std::fill_n(reinterpret_cast<double*>(to), n, value);
}

// Copies a box into the corner of a larger one, row by row.
void copy_box(const HostArray& from, const Shape& box, std::byte* to) {
  const Shape& shape = from.shape();
  const int axes = shape.ndim();
  const std::size_t item = size_of(from.dtype());
  if (from.size() == 0)
    return;
  if (axes == 0) {
    std::memcpy(to, from.data(), item);
    return;
  }
  const std::size_t row = static_cast<std::size_t>(shape[axes - 1]) * item;
  const auto* source = static_cast<const std::byte*>(from.data());
  std::vector<std::int64_t> at(static_cast<std::size_t>(axes), 0);
  const std::int64_t rows = from.size() / shape[axes - 1];
  for (std::int64_t r = 0; r < rows; ++r, source += row) {
    std::int64_t place = 0;
    for (int axis = 0; axis < axes; ++axis)
      place = place * box[axis] + at[static_cast<std::size_t>(axis)];
    std::memcpy(to + static_cast<std::size_t>(place) * item, source, row);
    for (int axis = axes - 2; axis >= 0; --axis) {
      std::int64_t& step = at[static_cast<std::size_t>(axis)];
      if (++step < shape[axis])
        break;
      step = 0;
    }
  }
}

}  // namespace

std::vector<HostArray> for_each_field(Samples samples, std::span<const FieldFunction> functions) {
  std::vector<HostArray> made;
  for (std::size_t field = 0; field < functions.size(); ++field) {
    std::vector<HostArray> arrays;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      require<ShapeError>(samples[i].size() == functions.size(), [&] {
        return message(
            "batchify: sample ", i, " of the batch has ", samples[i].size(), " arrays, not ", functions.size());
      });
      arrays.push_back(samples[i][field]);
    }
    for (HostArray& array : functions[field](arrays))
      made.push_back(std::move(array));
  }
  return made;
}

namespace {

std::vector<HostArray> alike(Samples samples, const FieldFunction& function) {
  const std::vector<FieldFunction> functions(samples.empty() ? 0 : samples[0].size(), function);
  return for_each_field(samples, functions);
}

}  // namespace

std::vector<HostArray> Stack::operator()(Fields arrays) const {
  require<ShapeError>(!arrays.empty(), [] { return "Stack: no arrays"; });
  check_types("Stack", arrays);
  HostArray made({.shape = with_first(arrays[0].shape(), arrays.size()), .dtype = arrays[0].dtype()});
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    require<ShapeError>(arrays[i].shape() == arrays[0].shape(), [&] {
      return message("Stack: array ", i, " has shape ", arrays[i].shape(), ", the first has ", arrays[0].shape());
    });
    if (const std::size_t bytes = arrays[i].bytes(); bytes > 0)
      std::memcpy(bytes_of(made) + i * bytes, arrays[i].data(), bytes);
  }
  return {made};
}
std::vector<HostArray> Stack::operator()(Samples samples) const {
  return alike(samples, *this);
}

Pad::Pad(const PadOptions& options) : options_(options) {
  require(options.round_to >= 1, [&] { return message("Pad: round_to is ", options.round_to); });
}

std::vector<HostArray> Pad::operator()(Fields arrays) const {
  require<ShapeError>(!arrays.empty(), [] { return "Pad: no arrays"; });
  check_types("Pad", arrays);
  Shape box = arrays[0].shape();
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const Shape& shape = arrays[i].shape();
    require<ShapeError>(shape.ndim() == box.ndim() && (shape.ndim() > 0 || !options_.lengths), [&] {
      return message("Pad: array ", i, " has shape ", shape, ", the first has ", arrays[0].shape());
    });
    for (int axis = 0; axis < box.ndim(); ++axis)
      box[axis] = std::max(box[axis], shape[axis]);
  }
  for (int axis = 0; axis < box.ndim(); ++axis) {
    std::int64_t& extent = box[axis];
    const std::int64_t over = extent % options_.round_to;
    require<ShapeError>(over == 0 || !__builtin_add_overflow(extent, options_.round_to - over, &extent), [&] {
      return message("Pad: extents of ", box, " cannot be rounded to multiples of ", options_.round_to);
    });
  }
  HostArray made({.shape = with_first(box, arrays.size()), .dtype = arrays[0].dtype()});
  by_any_dtype(made.dtype(), [&]<class T>() { fill<T>(bytes_of(made), made.size(), options_.value); });
  const std::size_t stride = static_cast<std::size_t>(box.size()) * size_of(made.dtype());
  for (std::size_t i = 0; i < arrays.size(); ++i)
    copy_box(arrays[i], box, bytes_of(made) + i * stride);
  if (!options_.lengths)
    return {made};
  std::vector<std::int32_t> lengths;
  for (const HostArray& array : arrays) {
    require<ShapeError>(array.shape()[0] <= std::numeric_limits<std::int32_t>::max(), [&] {
      return message("Pad: length ", array.shape()[0], " does not fit int32");
    });
    lengths.push_back(static_cast<std::int32_t>(array.shape()[0]));
  }
  return {made, HostArray(lengths, {static_cast<std::int64_t>(lengths.size())})};
}
std::vector<HostArray> Pad::operator()(Samples samples) const {
  return alike(samples, *this);
}

std::vector<HostArray> Append::operator()(Fields arrays) const {
  std::vector<HostArray> made;
  for (const HostArray& array : arrays)
    made.push_back(Stack()(Fields(&array, 1))[0]);
  return made;
}
std::vector<HostArray> Append::operator()(Samples samples) const {
  return alike(samples, *this);
}

}  // namespace sluice::gluon::data::batchify
