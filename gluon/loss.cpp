#include <vector>

#include <sluice/engine/error.h>
#include <sluice/engine/origin.h>
#include <sluice/gluon/loss.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/reduce/reduce.h>
#include <sluice/operator/softmax/softmax.h>

namespace sluice::gluon::loss {

namespace {

using sluice::detail::unseen_shape;

// Per element (N, ...) to per sample (N,): the mean of what is left of each, times a factor.
NDArray per_sample(NDArray values, double factor) {
  const int ndim = unseen_shape(values).ndim();
  require<ShapeError>(ndim >= 1, [] { return "a loss needs a first axis, that of the samples"; });
  if (ndim > 1) {
    Shape others;
    for (int axis = 1; axis < ndim; ++axis)
      others.push_back(axis);
    values = mean(values, others);
  }
  return factor == 1 ? values : values * factor;
}

}  // namespace

Arrays Loss::forward_all(std::span<const NDArray> inputs) const {
  require_inputs(inputs, 2);
  return {compute(inputs[0], inputs[1])};
}

NDArray SoftmaxCrossEntropyLoss::compute(const NDArray& predictions, const NDArray& labels) const {
  const OriginScope here(call_site());
  const auto& [axis, sparse, from_logits, weight] = options_;
  if (sparse) {
    return per_sample(
        from_logits ? negative_log_likelihood(predictions, labels, axis)
                    : softmax_cross_entropy(predictions, labels, axis),
        weight);
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
  return per_sample(sum(log_probs * labels, {normal_axis(axis, shape.ndim(), "SoftmaxCrossEntropyLoss")}), -weight);
}

NDArray L2Loss::compute(const NDArray& predictions, const NDArray& labels) const {
  const OriginScope here(call_site());
  const Shape &shape = unseen_shape(predictions), &given = unseen_shape(labels);
  require<ShapeError>(shape.size() == given.size(), [&] {
    return message(
        "L2Loss: labels of shape ",
        given,
        " do not fit predictions of shape ",
        shape,
        "; give labels of shape ",
        shape,
        ", or as many numbers");
  });
  const NDArray aligned = given == shape ? labels : labels.reshape(sluice::detail::with_open_rows(shape));
  return per_sample(square(predictions - aligned), options_.weight / 2);
}

CTCLoss::CTCLoss(CTCLossOptions options) : options_(std::move(options)) {
  const std::string &layout = options_.layout, &of_labels = options_.label_layout;
  require((layout == "NTC" || layout == "TNC") && (of_labels == "NT" || of_labels == "TN"), [&] {
    return message(
        "CTCLoss: layout \"", layout, "\" is not NTC or TNC, or label_layout \"", of_labels, "\" not NT or TN");
  });
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
