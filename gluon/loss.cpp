#include <sluice/engine/error.h>
#include <sluice/engine/origin.h>
#include <sluice/gluon/loss.h>
#include <sluice/ndarray/shape.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/reduce/reduce.h>
#include <sluice/operator/softmax/softmax.h>

namespace sluice::gluon::loss {

namespace {

// Per element (N, ...) to per sample (N,): the mean of what is left of each, times a factor.
NDArray per_sample(NDArray values, double factor) {
  require<ShapeError>(values.ndim() >= 1, [] { return "a loss needs a first axis, that of the samples"; });
  if (values.ndim() > 1) {
    Shape others;
    for (int axis = 1; axis < values.ndim(); ++axis)
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
  require<ShapeError>(predictions.shape() == labels.shape(), [&] {
    return message(
        "SoftmaxCrossEntropyLoss: probabilities ",
        labels.shape(),
        " do not have the predictions' shape ",
        predictions.shape(),
        " (sparse_label takes class indices)");
  });
  const NDArray log_probs = from_logits ? predictions : log_softmax(predictions, axis);
  return per_sample(
      sum(log_probs * labels, {normal_axis(axis, predictions.ndim(), "SoftmaxCrossEntropyLoss")}), -weight);
}

NDArray L2Loss::compute(const NDArray& predictions, const NDArray& labels) const {
  const OriginScope here(call_site());
  require<ShapeError>(predictions.size() == labels.size(), [&] {
    return message(
        "L2Loss: labels of shape ",
        labels.shape(),
        " do not fit predictions of shape ",
        predictions.shape(),
        "; give labels of shape ",
        predictions.shape(),
        ", or as many numbers");
  });
  const NDArray aligned = labels.shape() == predictions.shape() ? labels : labels.reshape(predictions.shape());
  return per_sample(square(predictions - aligned), options_.weight / 2);
}

}  // namespace sluice::gluon::loss
