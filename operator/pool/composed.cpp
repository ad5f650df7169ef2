#include <algorithm>
#include <cmath>

#include <sluice/operator/detail/beside_batch.h>
#include <sluice/operator/detail/one_axis.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/pool/composed.h>
#include <sluice/operator/pool/geometry.h>
#include <sluice/operator/reduce/reduce.h>
#include <sluice/operator/walk/walk.h>

namespace sluice {

namespace {

using detail::PoolAttributes;

// -- Attributes -------------------------------------------------------------------------------------------------------
struct RowPoolAttributes {
  std::int64_t kernel = 2;
  std::optional<std::int64_t> stride = {};
  Shape pad{0};
  bool ceil_mode = false, count_include_pad = true, global = false;

  template <class V>
  void visit(V&& v) {
    v.field("kernel", kernel);
    v.field("stride", stride);
    v.field("pad", pad);
    v.field("ceil_mode", ceil_mode);
    v.field("count_include_pad", count_include_pad);
    v.field("global", global);
  }
};

/// `window` with an order.
template <class Window>
struct LpAttributes {
  double p = 2;
  Window window = {};

  template <class V>
  void visit(V&& v) {
    v.field("p", p);
    window.visit(v);
  }
};

PoolAttributes as_image(const char* op, const RowPoolAttributes& a) {
  return {
      .kernel = {1, a.kernel},
      .stride = a.stride ? Shape{1, *a.stride} : Shape{},
      .pad = detail::pad_of_row(op, a.pad),
      .ceil_mode = a.ceil_mode,
      .count_include_pad = a.count_include_pad,
      .global = a.global};
}

void check_floating(const char* op, const ArraySpec& x) {
  require<DTypeError>(is_floating(x.dtype), [&] { return message(op, ": no kernel for ", x.dtype, " on ", x.device); });
}

Specs infer_window(const char* op, const ArraySpec& x, const Shape& image, const PoolAttributes& window) {
  check_floating(op, x);
  Shape y = detail::pooled_shape(image, detail::pool_geometry(op, image, window));
  if (x.shape.ndim() == 3)
    y.erase(2);
  return {{y, x.dtype, x.device}};
}

// -- One axis ---------------------------------------------------------------------------------------------------------
Specs infer_row(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const Shape image = detail::row_shape(op.name, "x", inputs[0].shape);
  return infer_window(op.name, inputs[0], image, as_image(op.name, attributes.as<RowPoolAttributes>()));
}

template <const Operator& op, const Operator& of_images>
Arrays pool_row(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  infer_row(op, detail::specs_of(inputs), attributes);
  const NDArray image = inputs[0].expand_dims(2, site);
  const Attributes how = Attributes::of(as_image(op.name, attributes.as<RowPoolAttributes>()));
  return {invoke(of_images, {&image, 1}, how, site)[0].squeeze(2, site)};
}

// -- Norms ------------------------------------------------------------------------------------------------------------
void check_order(const char* op, double p) {
  require<ValueError>(
      std::isfinite(p) && p > 0, [&] { return message(op, ": the order p must be finite and above 0, not ", p); });
}

Specs infer_lp(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& a = attributes.as<LpAttributes<PoolAttributes>>();
  check_order(op.name, a.p);
  return infer_window(op.name, inputs[0], inputs[0].shape, a.window);
}

Specs infer_lp_row(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& a = attributes.as<LpAttributes<RowPoolAttributes>>();
  check_order(op.name, a.p);
  const Shape image = detail::row_shape(op.name, "x", inputs[0].shape);
  return infer_window(op.name, inputs[0], image, as_image(op.name, a.window));
}

// The sum of each window, of what counts 0 beside x.
NDArray sums_of_windows(const NDArray& x, PoolAttributes window, SourceLocation site) {
  if (window.global)
    return sum(x, {2, 3}, true, site);
  const double elements = static_cast<double>(window.kernel[0]) * static_cast<double>(window.kernel[1]);
  NDArray padded = x;
  if (window.ceil_mode) {  // whole windows, so that each mean is of as many elements
    Shape shape = detail::extents_beside_batch(x);
    shape[0] = 1;
    const detail::PoolGeometry g = detail::pool_geometry("lp_pool2d", shape, window);
    std::vector<std::pair<std::int64_t, std::int64_t>> widths(4);
    for (int axis = 0; axis < 2; ++axis) {
      const std::int64_t whole = (g.out[axis] - 1) * g.stride[axis] + g.kernel[axis];
      const std::int64_t behind = whole - g.in[axis] - g.pad[axis];
      widths[static_cast<std::size_t>(axis) + 2] = {g.pad[axis], std::max<std::int64_t>(behind, 0)};
    }
    padded = pad(padded, widths, PadMode::constant, 0, site);
    window.pad = {0, 0};
    window.ceil_mode = false;
  }
  window.count_include_pad = true;
  return multiply(invoke_one(detail::avg_pool2d_op, {padded}, Attributes::of(window), site), elements, site);
}

// x to the power of p, x not negative; roots and their like have no gradient at 0, where it is to be 0.
NDArray power_beside_zero(const NDArray& x, double p, SourceLocation site) {
  const NDArray is_zero = equal(x, 0, site), others = where(is_zero, 1, x, site);
  return where(is_zero, 0, p == 0.5 ? sqrt(others, site) : power(others, p, site), site);
}

NDArray norms_of_windows(const NDArray& x, double p, const PoolAttributes& window, SourceLocation site) {
  const NDArray wide = x.astype(detail::wide_type(x.dtype()), site);
  if (p == 1)
    return sums_of_windows(abs(wide, site), window, site).astype(x.dtype(), site);
  const NDArray powers = p == 2 ? multiply(wide, wide, site) : power_beside_zero(abs(wide, site), p, site);
  return power_beside_zero(sums_of_windows(powers, window, site), 1 / p, site).astype(x.dtype(), site);
}

Arrays pool_lp(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  infer_lp(detail::k_lp_pool2d, detail::specs_of(inputs), attributes);
  const auto& a = attributes.as<LpAttributes<PoolAttributes>>();
  return {norms_of_windows(inputs[0], a.p, a.window, site)};
}

Arrays pool_lp_row(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const Operator& op = detail::k_lp_pool1d;
  infer_lp_row(op, detail::specs_of(inputs), attributes);
  const auto& a = attributes.as<LpAttributes<RowPoolAttributes>>();
  return {norms_of_windows(inputs[0].expand_dims(2, site), a.p, as_image(op.name, a.window), site).squeeze(2, site)};
}

template <class A>
constexpr Operator composed(const char* name, Infer infer, Composition composition) {
  Operator op{};
  op.name = name;
  op.attributes = &attribute_type<A>;
  op.infer = infer;
  op.composition = composition;
  return op;
}

RowPoolAttributes attributes_of(const Pool1DOptions& o) {
  return {o.kernel, o.stride, o.pad, o.ceil_mode, o.count_include_pad, o.global};
}

}  // namespace

namespace detail {

constinit const Operator k_max_pool1d =
    composed<RowPoolAttributes>("max_pool1d", infer_row, pool_row<k_max_pool1d, max_pool2d_op>);
constinit const Operator k_avg_pool1d =
    composed<RowPoolAttributes>("avg_pool1d", infer_row, pool_row<k_avg_pool1d, avg_pool2d_op>);
constinit const Operator k_lp_pool2d = composed<LpAttributes<PoolAttributes>>("lp_pool2d", infer_lp, pool_lp);
constinit const Operator k_lp_pool1d =
    composed<LpAttributes<RowPoolAttributes>>("lp_pool1d", infer_lp_row, pool_lp_row);

}  // namespace detail

NDArray max_pool1d(const NDArray& x, const Pool1DOptions& options, SourceLocation site) {
  return invoke_one(detail::k_max_pool1d, {x}, Attributes::of(attributes_of(options)), site);
}

NDArray avg_pool1d(const NDArray& x, const Pool1DOptions& options, SourceLocation site) {
  return invoke_one(detail::k_avg_pool1d, {x}, Attributes::of(attributes_of(options)), site);
}

NDArray lp_pool2d(const NDArray& x, double p, const PoolOptions& o, SourceLocation site) {
  const PoolAttributes window{o.kernel, o.stride, o.pad, o.ceil_mode, o.count_include_pad, o.global};
  return invoke_one(detail::k_lp_pool2d, {x}, Attributes::of(LpAttributes<PoolAttributes>{p, window}), site);
}

NDArray lp_pool1d(const NDArray& x, double p, const Pool1DOptions& options, SourceLocation site) {
  const LpAttributes<RowPoolAttributes> how{p, attributes_of(options)};
  return invoke_one(detail::k_lp_pool1d, {x}, Attributes::of(how), site);
}

}  // namespace sluice
