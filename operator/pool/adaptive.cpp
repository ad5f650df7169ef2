#include <sluice/ndarray/create.h>
#include <sluice/operator/detail/beside_batch.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gather/gather.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/pool/composed.h>
#include <sluice/operator/pool/geometry.h>
#include <sluice/operator/sides.h>
#include <sluice/operator/walk/walk.h>

// Windows of an axis that does not divide evenly overlap and differ by one element or two. Their elements are laid out
// side by side, each window as long as the longest, so that windows of one size stand beside each other.
namespace sluice {

namespace {

struct AdaptiveAttributes {
  Shape output_size{1, 1};

  template <class V>
  void visit(V&& v) {
    v.field("output_size", output_size);
  }
};

detail::PoolAttributes whole_plane() {
  detail::PoolAttributes window;
  window.global = true;
  return window;
}

Specs infer_adaptive(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const ArraySpec& x = inputs[0];
  const Shape& size = attributes.as<AdaptiveAttributes>().output_size;
  detail::check_pair(op.name, size, 1, "output_size");
  require<DTypeError>(
      is_floating(x.dtype), [&] { return message(op.name, ": no kernel for ", x.dtype, " on ", x.device); });
  detail::pool_geometry(op.name, x.shape, whole_plane());
  const Shape y{x.shape[0], x.shape[1], size[0], size[1]};
  y.size();  // says that it fits
  return {{y, x.dtype, x.device}};
}

/// The windows of one axis.
struct Windows {
  std::int64_t in = 0, out = 0;
  bool even() const noexcept { return in % out == 0; }
  std::int64_t begin(std::int64_t i) const noexcept { return i * in / out; }
  std::int64_t end(std::int64_t i) const noexcept { return ((i + 1) * in + out - 1) / out; }
  /// in / out and what is left of it, which ends on borders alone where it divides `out`.
  std::int64_t longest() const noexcept {
    const std::int64_t left = in % out;
    return in / out + (left == 0 ? 0 : out % left == 0 ? 1 : 2);
  }
};

/// Where the windows of a list of numbers begin and end, as arrays.
struct Ends {
  NDArray begin, end;
};

Ends ends_of(const Windows& w, const NDArray& window, SourceLocation site) {
  const NDArray next = multiply(add(window, 1, site), w.in, site);
  return {
      floor_divide(multiply(window, w.in, site), w.out, site), floor_divide(add(next, w.out - 1, site), w.out, site)};
}

// x with its windows along an axis one after the other, each of `longest` elements. What a shorter one does not have is
// its last element again, which no maximum notices, or the element behind x.
NDArray laid_out(const NDArray& x, int axis, const Windows& w, bool repeats_last, SourceLocation site) {
  const std::int64_t longest = w.longest();
  const ArrayOptions where_x_is{.dtype = int64, .device = x.device()};
  const NDArray place = arange(0, static_cast<double>(w.out * longest), 1, where_x_is, site);
  const Ends ends = ends_of(w, floor_divide(place, longest, site), site);
  const NDArray element = add(ends.begin, mod(place, longest, site), site);
  const NDArray is_inside = less(element, ends.end, site);
  const NDArray instead = repeats_last ? subtract(ends.end, 1, site) : full({}, w.in, where_x_is, site);
  return take(x, where(is_inside, element, instead, site), axis, IndexMode::raise, site);
}

// How often the mean of a window of `longest` elements holds the mean of its own.
NDArray shares(const Windows& w, const NDArray& y, SourceLocation site) {
  const DType dtype = detail::wide_type(y.dtype());
  const NDArray window = arange(0, static_cast<double>(w.out), 1, {.dtype = int64, .device = y.device()}, site);
  const Ends ends = ends_of(w, window, site);
  const NDArray elements = subtract(ends.end, ends.begin, site).astype(dtype, site);
  return divide(static_cast<double>(w.longest()), elements, site);
}

template <bool IsMax>
Arrays pool(const Operator& op, std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const Specs specs = infer_adaptive(op, detail::specs_of(inputs), attributes);
  const Shape& size = attributes.as<AdaptiveAttributes>().output_size;
  const Operator& plain = IsMax ? detail::max_pool2d_op : detail::avg_pool2d_op;
  NDArray x = inputs[0];
  if (size == Shape{1, 1})
    return {invoke(plain, {&x, 1}, Attributes::of(whole_plane()), site)[0]};
  const Shape extents = detail::extents_beside_batch(x);
  detail::PoolAttributes windows;
  for (int axis = 0; axis < 2; ++axis) {
    const Windows w{extents[axis + 2], size[axis]};
    windows.kernel[axis] = w.longest();
    if (w.even())
      continue;
    if (!IsMax) {
      std::vector<std::pair<std::int64_t, std::int64_t>> widths(4);
      widths[static_cast<std::size_t>(axis) + 2] = {0, 1};
      x = pad(x, widths, PadMode::constant, 0, site);
    }
    x = laid_out(x, axis + 2, w, IsMax, site);
  }
  NDArray y = invoke(plain, {&x, 1}, Attributes::of(windows), site)[0];
  for (int axis = 0; axis < 2 && !IsMax; ++axis) {
    const Windows w{extents[axis + 2], size[axis]};
    if (!w.even())
      y = multiply(y, shares(w, y, site).reshape(axis == 0 ? Shape{-1, 1} : Shape{-1}, site), site);
  }
  return {y.astype(specs[0].dtype, site)};
}

Arrays pool_means(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  return pool<false>(detail::k_adaptive_avg_pool2d, inputs, attributes, site);
}
Arrays pool_maxima(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  return pool<true>(detail::k_adaptive_max_pool2d, inputs, attributes, site);
}

}  // namespace

namespace detail {

constinit const Operator k_adaptive_avg_pool2d{
    .name = "adaptive_avg_pool2d",
    .attributes = &attribute_type<AdaptiveAttributes>,
    .infer = infer_adaptive,
    .composition = pool_means,
};
constinit const Operator k_adaptive_max_pool2d{
    .name = "adaptive_max_pool2d",
    .attributes = &attribute_type<AdaptiveAttributes>,
    .infer = infer_adaptive,
    .composition = pool_maxima,
};

}  // namespace detail

NDArray adaptive_avg_pool2d(const NDArray& x, const Shape& output_size, SourceLocation site) {
  return invoke_one(detail::k_adaptive_avg_pool2d, {x}, Attributes::of(AdaptiveAttributes{output_size}), site);
}

NDArray adaptive_max_pool2d(const NDArray& x, const Shape& output_size, SourceLocation site) {
  return invoke_one(detail::k_adaptive_max_pool2d, {x}, Attributes::of(AdaptiveAttributes{output_size}), site);
}

}  // namespace sluice
