// Arrays as text: NumPy's layout (numpy.array2string): lines of 75 characters, and of arrays with more than 1000
// elements the first and last three entries of each axis.
#include <algorithm>
#include <ostream>

#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/print_elements.h>

namespace sluice {
namespace {

constexpr std::int64_t k_threshold = 1000;
constexpr std::int64_t k_edge = 3;
constexpr std::size_t k_line = 75;

/// The entries that are printed, as an array of their own; only they are read.
NDArray edges_of(const NDArray& array) {
  const detail::ArrayObject& object = *array.object();
  Shape shape = object.shape;
  std::vector<int> cut;
  for (int axis = 0; axis < shape.ndim(); ++axis) {
    if (shape[axis] > 2 * k_edge) {
      shape[axis] = 2 * k_edge;
      cut.push_back(axis);
    }
  }
  NDArray edges = detail::make_empty(array.engine(), shape, {.dtype = object.dtype, .device = object.device});
  const Shape packed = contiguous_strides(shape);
  for (std::uint32_t corner = 0; corner < (1u << cut.size()); ++corner) {
    Shape part = shape;
    std::int64_t from = object.offset, to = 0;
    for (std::size_t i = 0; i < cut.size(); ++i) {
      const int axis = cut[i];
      part[axis] = k_edge;
      if ((corner >> i & 1) != 0) {
        from += (object.shape[axis] - k_edge) * object.strides[axis];
        to += k_edge * packed[axis];
      }
    }
    detail::push_copy(
        detail::make_view(array, part, object.strides, from),
        detail::make_view(edges, part, packed, to),
        SourceLocation::current());
  }
  return edges;
}

class Layout {
 public:
  Layout(const Shape& full, const Shape& printed, std::vector<std::string> words)
      : full_(full), printed_(printed), words_(std::move(words)) {}

  std::string print(int axis, const std::string& indent, std::size_t width) {
    if (axis == full_.ndim())
      return words_[next_++];
    const std::string body = axis == full_.ndim() - 1 ? row(indent, width) : rows(axis, indent, width);
    std::string text = "[";
    text.append(body, indent.size());
    text += ']';
    return text;
  }

 private:
  bool is_cut(int axis) const { return full_[axis] != printed_[axis]; }

  std::string row(const std::string& indent, std::size_t width) {
    const int axis = full_.ndim() - 1;
    std::string text, line = indent;
    const auto extend = [&](const std::string& word) {
      if (line.size() + word.size() > width - 1 && line.size() > indent.size()) {
        text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
        line = indent;
      }
      line += word;
    };
    for (std::int64_t i = 0; i < printed_[axis]; ++i) {
      if (is_cut(axis) && i == k_edge) {
        extend("...");
        line += " ";
      }
      extend(words_[next_++]);
      if (i + 1 < printed_[axis])
        line += " ";
    }
    return text + line;
  }

  std::string rows(int axis, const std::string& indent, std::size_t width) {
    const std::string gap(static_cast<std::size_t>(full_.ndim() - axis - 1), '\n');
    std::string text;
    for (std::int64_t i = 0; i < printed_[axis]; ++i) {
      if (is_cut(axis) && i == k_edge)
        text += indent + "..." + gap;
      text += indent + print(axis + 1, indent + " ", width - 1);
      if (i + 1 < printed_[axis])
        text += gap;
    }
    return text;
  }

  const Shape& full_;
  const Shape& printed_;
  std::vector<std::string> words_;
  std::size_t next_ = 0;
};

}  // namespace

std::string NDArray::to_string() const {
  const detail::ArrayObject& object = detail::with_data("to_string", detail::object_of(*this, "to_string"));
  if (object.size == 0) {
    wait_to_read();
    return "[]";
  }
  const NDArray printed = object.size > k_threshold ? edges_of(*this) : *this;
  std::vector<std::byte> values(static_cast<std::size_t>(printed.size()) * size_of(object.dtype));
  printed.read_for("to_string", values.data(), object.dtype, printed.size(), {});  // whose line nobody told: not ours
  if (object.shape.ndim() == 0)
    return detail::print_scalar(values.data(), object.dtype);
  auto words = detail::print_elements(values.data(), object.dtype, static_cast<std::size_t>(printed.size()));
  return Layout(object.shape, printed.shape(), std::move(words)).print(0, " ", k_line);
}

std::ostream& operator<<(std::ostream& out, const NDArray& array) {
  return out << (array.defined() ? array.to_string() : "undefined");
}

}  // namespace sluice
