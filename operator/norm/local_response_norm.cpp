#include <algorithm>
#include <utility>
#include <vector>

#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/norm/layer_norm.h>
#include <sluice/operator/norm/layer_norm_kernels.h>
#include <sluice/operator/walk/walk.h>

// Made of other operators, whose gradients it has.
namespace sluice {

namespace {

struct LocalResponseNormAttributes {
  std::int64_t nsize = 5;
  double alpha = 1e-4;
  double beta = 0.75;
  double knorm = 2;

  template <class V>
  void visit(V&& v) {
    v.field("nsize", nsize);
    v.field("alpha", alpha);
    v.field("beta", beta);
    v.field("knorm", knorm);
  }
};

Specs infer(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const ArraySpec& x = inputs[0];
  const std::int64_t nsize = attributes.as<LocalResponseNormAttributes>().nsize;
  require<DTypeError>(is_floating(x.dtype), [&] { return message(op.name, ": takes floating types, not ", x.dtype); });
  require<ShapeError>(
      x.shape.ndim() >= 2, [&] { return message(op.name, ": needs x of at least 2 axes, not of shape ", x.shape); });
  require<ValueError>(
      nsize >= 1, [&] { return message(op.name, ": a window of ", nsize, " channels over x of shape ", x.shape); });
  return {x};
}

Arrays compose(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  infer(detail::local_response_norm_op, detail::specs_of(inputs), attributes);
  const auto& how = attributes.as<LocalResponseNormAttributes>();
  const Shape& shape = detail::unseen_shape(inputs[0]);
  const DType own = inputs[0].dtype();
  const NDArray x = inputs[0].astype(detail::wide_type(own), site);
  std::vector<std::pair<std::int64_t, std::int64_t>> widths(static_cast<std::size_t>(shape.ndim()));
  // A wider window than all channels to both sides sees no more; and each of its places is a call.
  const std::int64_t farthest = std::max<std::int64_t>(shape[1] - 1, 0);
  widths[1] = {std::min(how.nsize / 2, farthest), std::min((how.nsize - 1) / 2, farthest)};
  const std::int64_t places = widths[1].first + widths[1].second + 1;
  const NDArray padded = pad(multiply(x, x, site), widths, PadMode::constant, 0, site);
  NDArray squares = padded.slice(1, 0, shape[1], 1, site);
  for (std::int64_t i = 1; i < places; ++i)
    squares = add(squares, padded.slice(1, i, i + shape[1], 1, site), site);
  const NDArray scale = add(multiply(squares, how.alpha / static_cast<double>(how.nsize), site), how.knorm, site);
  return {multiply(x, power(scale, -how.beta, site), site).astype(own, site)};
}

}  // namespace

namespace detail {

const Operator local_response_norm_op{
    .name = "local_response_norm",
    .attributes = &attribute_type<LocalResponseNormAttributes>,
    .infer = infer,
    .composition = compose,
};

}  // namespace detail

NDArray local_response_norm(
    const NDArray& x, std::int64_t nsize, const LocalResponseNormOptions& options, SourceLocation site) {
  const LocalResponseNormAttributes how{nsize, options.alpha, options.beta, options.knorm};
  return invoke_one(detail::local_response_norm_op, {x}, Attributes::of(how), site);
}

}  // namespace sluice
