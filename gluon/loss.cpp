#include <utility>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/engine/origin.h>
#include <sluice/gluon/detail/labels.h>
#include <sluice/gluon/loss.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gather/gather.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/reduce/reduce.h>
#include <sluice/operator/softmax/softmax.h>

namespace sluice::gluon::loss {

namespace {

using sluice::detail::unseen_shape;

/// The weights as an array that `values` (N, ...) is multiplied by: axes that they lack are the last ones.
NDArray aligned_weights(const NDArray& values, const NDArray& weights) {
  const Shape &shape = unseen_shape(values), &given = unseen_shape(weights);
  bool fits = given.ndim() >= 1;
  for (int axis = 0; axis < given.ndim(); ++axis) {
    const bool is_there = axis < shape.ndim();
    fits = fits && (given[axis] == (is_there ? shape[axis] : 1) || (axis > 0 && given[axis] == 1));
  }
  require<ShapeError>(
      fits, [&] { return message("a loss: sample_weight of shape ", given, " does not fit values of shape ", shape); });
  if (given.ndim() == shape.ndim())
    return weights;
  Shape target;
  for (int axis = 0; axis < shape.ndim(); ++axis)
    target.push_back(axis < given.ndim() ? given[axis] : 1);
  return weights.reshape(sluice::detail::with_open_rows(target));
}

NDArray weighed(const NDArray& values, const NDArray& weights) {
  const bool cast = is_floating(values.dtype()) && weights.dtype() != values.dtype();
  const NDArray aligned = aligned_weights(values, weights);
  return values * (cast ? aligned.astype(values.dtype()) : aligned);
}

}  // namespace

Arrays Loss::forward_all(std::span<const NDArray> inputs) const {
  if (inputs.size() == 3)
    return {compute_weighted(inputs[0], inputs[1], inputs[2])};
  require_inputs(inputs, 2);
  return {compute(inputs[0], inputs[1])};
}

NDArray Loss::compute_weighted(const NDArray& predictions, const NDArray& labels, const NDArray& sample_weight) const {
  const OriginScope here(call_site());
  return weighed(compute(predictions, labels), sample_weight);
}

NDArray ElementLoss::average(const NDArray& values, const NDArray& sample_weight) const {
  const int ndim = unseen_shape(values).ndim();
  require<ShapeError>(ndim >= 1, [] { return "a loss needs a first axis, that of the samples"; });
  NDArray averaged = sample_weight.defined() ? weighed(values, sample_weight) : values;
  if (ndim > 1) {
    Shape others;
    for (int axis = 1; axis < ndim; ++axis)
      others.push_back(axis);
    averaged = sums_ ? sum(averaged, others) : mean(averaged, others);
  }
  return weight_ == 1 ? averaged : averaged * weight_;
}

NDArray ElementLoss::compute(const NDArray& predictions, const NDArray& labels) const {
  return compute_weighted(predictions, labels, {});
}

NDArray ElementLoss::compute_weighted(
    const NDArray& predictions, const NDArray& labels, const NDArray& sample_weight) const {
  const OriginScope here(call_site());
  return average(elements(predictions, labels), sample_weight);
}

SoftmaxCrossEntropyLoss::SoftmaxCrossEntropyLoss(SoftmaxCrossEntropyOptions options)
    : ElementLoss(options.weight), options_(std::move(options)) {
  const auto& [axis, sparse, from_logits, weight, ignored, smoothing, class_weights, by_weights] = options_;
  require(smoothing >= 0 && smoothing < 1, [&, smoothing = smoothing] {
    return message("SoftmaxCrossEntropyLoss: smoothing is ", smoothing, ", not in [0, 1)");
  });
  require(sparse || (!ignored && smoothing == 0 && !class_weights.defined()), [] {
    return message(
        "SoftmaxCrossEntropyLoss: sparse_label = false takes probabilities, which ignored, smoothing and "
        "class_weights do not go with");
  });
  require(!from_logits || smoothing == 0, [] {
    return message("SoftmaxCrossEntropyLoss: smoothing takes logits, from_logits = true log-probabilities");
  });
  require(!by_weights || class_weights.defined(), [] {
    return message("SoftmaxCrossEntropyLoss: mean_by_weights = true needs class_weights");
  });
  const SoftmaxCrossEntropyOptions usual;
  OptionNotes notes;
  notes.add("axis", axis, usual.axis)
      .add("sparse_label", sparse, usual.sparse_label)
      .add("from_logits", from_logits, usual.from_logits)
      .add("ignored", ignored, usual.ignored)
      .add("smoothing", smoothing, usual.smoothing)
      .add("mean_by_weights", by_weights, usual.mean_by_weights);
  if (class_weights.defined())
    notes.add("class_weights", class_weights);
  note_options(std::move(notes));
}

// The part of all labels that counts, or their sum of class weights by their number; 1 where nothing counts and losses
// are 0 without it.
NDArray SoftmaxCrossEntropyLoss::share_that_counts(const NDArray& labels, DType dtype) const {
  NDArray counts;
  if (options_.mean_by_weights)
    counts = take(options_.class_weights.to(labels.device()).astype(dtype), labels, 0, IndexMode::clip);
  if (options_.ignored) {
    const NDArray hidden = labels.astype(int64) == *options_.ignored;
    counts = counts.defined() ? where(hidden, 0, counts) : logical_not(hidden).astype(dtype);
  }
  const NDArray share = mean(counts);
  return where(share == 0, 1, share);
}

NDArray SoftmaxCrossEntropyLoss::compute_weighted(
    const NDArray& predictions, const NDArray& labels, const NDArray& sample_weight) const {
  const OriginScope here(call_site());
  const NDArray losses = average(elements(predictions, labels), sample_weight);
  if (!options_.ignored && !options_.mean_by_weights)
    return losses;
  const DType dtype = losses.dtype();  // of half types the share is not rounded to one
  return (losses / share_that_counts(labels, size_of(dtype) == 2 ? float32 : dtype)).astype(dtype);
}

NDArray SoftmaxCrossEntropyLoss::elements(const NDArray& predictions, const NDArray& labels) const {
  const auto& [axis, sparse, from_logits, weight, ignored, smoothing, class_weights, by_weights] = options_;
  if (sparse) {
    const NDArray weights = class_weights.defined() ? class_weights.to(predictions.device()) : NDArray();
    return from_logits ? negative_log_likelihood(predictions, labels, {axis, ignored, weights})
                       : softmax_cross_entropy(predictions, labels, {axis, ignored, smoothing, weights});
  }
  const Shape& shape = unseen_shape(predictions);
  require<ShapeError>(shape == unseen_shape(labels), [&] {
    return message(
        "SoftmaxCrossEntropyLoss: probabilities ",
        labels.shape(),
        " do not have the predictions' shape ",
        predictions.shape(),
        " (sparse_label takes class indices)");
  });
  const NDArray log_probs = from_logits ? predictions : log_softmax(predictions, axis);
  return -sum(log_probs * labels, {normal_axis(axis, shape.ndim(), "SoftmaxCrossEntropyLoss")});
}

NDArray L2Loss::elements(const NDArray& predictions, const NDArray& labels) const {
  return square(predictions - detail::labels_like(predictions, labels, "L2Loss"));
}

CTCLoss::CTCLoss(CTCLossOptions options) : options_(std::move(options)) {
  const std::string &layout = options_.layout, &of_labels = options_.label_layout;
  require((layout == "NTC" || layout == "TNC") && (of_labels == "NT" || of_labels == "TN"), [&] {
    return message(
        "CTCLoss: layout \"", layout, "\" is not NTC or TNC, or label_layout \"", of_labels, "\" not NT or TN");
  });
  const CTCLossOptions usual;
  note_options(OptionNotes()
                   .add("layout", layout, usual.layout)
                   .add("label_layout", of_labels, usual.label_layout)
                   .add("zero_infinity", options_.zero_infinity, usual.zero_infinity)
                   .add("weight", options_.weight, usual.weight));
}

NDArray CTCLoss::compute(const NDArray& predictions, const NDArray& labels) const {
  const std::vector<NDArray> inputs{predictions, labels};
  return forward_all(inputs)[0];
}

Arrays CTCLoss::forward_all(std::span<const NDArray> inputs) const {
  require(inputs.size() >= 2 && inputs.size() <= 4, [&] {
    return message("CTCLoss: takes predictions, labels and maybe lengths of each, not ", inputs.size(), " arrays");
  });
  const SourceLocation site = call_site();
  const OriginScope here(site);
  const bool turned = options_.layout == "NTC" && unseen_shape(inputs[0]).ndim() == 3;
  const NDArray x = turned ? inputs[0].transpose({1, 0, 2}, site) : inputs[0];
  const bool turned_labels = options_.label_layout == "TN" && unseen_shape(inputs[1]).ndim() == 2;
  const NDArray labels = turned_labels ? inputs[1].transpose({1, 0}, site) : inputs[1];
  CtcLossOptions how{.blank = options_.blank, .zero_infinity = options_.zero_infinity};
  if (inputs.size() > 2)
    how.data_lengths = inputs[2];
  if (inputs.size() > 3)
    how.label_lengths = inputs[3];
  const NDArray costs = ctc_loss(x, labels, how, site);
  return {options_.weight == 1 ? costs : costs * options_.weight};
}

}  // namespace sluice::gluon::loss
