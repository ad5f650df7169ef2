#include <cmath>

#include <sluice/engine/error.h>
#include <sluice/engine/origin.h>
#include <sluice/gluon/detail/labels.h>
#include <sluice/gluon/pair_losses.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/reduce/reduce.h>
#include <sluice/operator/softmax/softmax.h>

namespace sluice::gluon::loss {

namespace {

using detail::labels_like;
using sluice::detail::unseen_shape;

/// The sum over all axes but the first: (N,).
NDArray sum_of_each(const NDArray& values) {
  Shape others;
  for (int axis = 1; axis < unseen_shape(values).ndim(); ++axis)
    others.push_back(axis);
  return others.ndim() == 0 ? values : sum(values, others);
}

void require_alike(const NDArray& a, const NDArray& b, std::string_view loss) {
  const Shape &first = unseen_shape(a), &second = unseen_shape(b);
  require<ShapeError>(first == second && first.ndim() >= 1, [&] {
    return message(loss, ": samples of shapes ", first, " and ", second, " cannot be compared one by one");
  });
}

}  // namespace

Arrays PairLoss::forward_all(std::span<const NDArray> inputs) const {
  const bool is_weighted = inputs.size() == arrays_ + 1;
  if (!is_weighted)
    require_inputs(inputs, arrays_);
  const OriginScope here(call_site());
  const NDArray values = compare(inputs.first(arrays_));
  const NDArray scaled = weight_ == 1 ? values : values * weight_;
  if (!is_weighted)
    return {scaled};
  const NDArray weights = labels_like(scaled, inputs.back(), "a loss of pairs");
  return {scaled * (weights.dtype() == scaled.dtype() ? weights : weights.astype(scaled.dtype()))};
}

NDArray TripletLoss::compare(std::span<const NDArray> inputs) const {
  const NDArray& anchor = inputs[0];
  const NDArray positive = labels_like(anchor, inputs[1], "TripletLoss");
  const NDArray negative = labels_like(anchor, inputs[2], "TripletLoss");
  return relu(sum_of_each(square(positive - anchor) - square(negative - anchor)) + margin_);
}

NDArray CosineEmbeddingLoss::compare(std::span<const NDArray> inputs) const {
  const NDArray &a = inputs[0], &b = inputs[1];
  require_alike(a, b, "CosineEmbeddingLoss");
  // Squares of lengths are kept from 0 before the root: its gradient there is no number. In float16 from what makes the
  // gradient of a product overflow.
  const double least = a.dtype() == float16 ? std::ldexp(1, -14) : 1e-24;
  const auto length = [&](const NDArray& x) { return sqrt(maximum(sum_of_each(square(x)), least)); };
  const NDArray cosines = sum_of_each(a * b) / (length(a) * length(b));
  const NDArray labels = labels_like(cosines, inputs[2], "CosineEmbeddingLoss");
  return where(labels == 1, 1 - cosines, relu(cosines - margin_));
}

SDMLLoss::SDMLLoss(SDMLOptions options) : PairLoss(2, options.weight), smoothing_(options.smoothing_parameter) {
  require(smoothing_ >= 0 && smoothing_ <= 1, [&] {
    return message("SDMLLoss: smoothing_parameter must be from 0 to 1, not ", smoothing_);
  });
  note_options(OptionNotes().add("smoothing_parameter", smoothing_));
}

NDArray SDMLLoss::compare(std::span<const NDArray> inputs) const {
  const NDArray &a = inputs[0], &b = inputs[1];
  require_alike(a, b, "SDMLLoss");
  const Shape shape = a.shape();  // what is right depends on how many there are
  require<ShapeError>(shape.ndim() == 2 && shape[0] >= 2, [&] {
    return message("SDMLLoss: needs two samples at least, (N, width), was given ", shape);
  });
  const std::int64_t count = shape[0];
  const NDArray distances = sum(square(a.expand_dims(1) - b.expand_dims(0)), {2});
  const NDArray logs = log_softmax(-distances, 1);
  const NDArray places = arange(0, static_cast<double>(count), 1, {.dtype = int64, .device = a.device()});
  const double others = smoothing_ / static_cast<double>(count - 1);
  const NDArray right = where(
      equal(places.expand_dims(1), places.expand_dims(0)),
      full({count, count}, 1 - smoothing_, {.dtype = a.dtype(), .device = a.device()}),
      others);
  return sum(xlogy(right, right) - right * logs, {1});
}

}  // namespace sluice::gluon::loss
