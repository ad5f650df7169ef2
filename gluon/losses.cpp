#include <algorithm>
#include <cmath>
#include <numbers>

#include <sluice/engine/error.h>
#include <sluice/engine/origin.h>
#include <sluice/gluon/detail/labels.h>
#include <sluice/gluon/losses.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/softmax/softmax.h>

namespace sluice::gluon::loss {

namespace {

using detail::labels_like;

/// Of logits and labels between 0 and 1: -(label log p + (1 - label) log(1 - p)), p = sigmoid(logit).
NDArray cross_entropy_of_logits(const NDArray& logits, const NDArray& labels) {
  // Each term with its own gradient: of relu() and abs() at 0, where an output layer of zeros begins, there is none.
  return labels * softplus(-logits) + (1 - labels) * softplus(logits);
}

}  // namespace

NDArray L1Loss::elements(const NDArray& predictions, const NDArray& labels) const {
  return abs(predictions - labels_like(predictions, labels, "L1Loss"));
}

HuberLoss::HuberLoss(HuberOptions options) : ElementLoss(options.weight), scalar_(1 / std::sqrt(options.rho)) {
  require(std::isfinite(options.rho) && options.rho > 0, [&] {
    return message("HuberLoss: rho must be finite and positive, not ", options.rho);
  });
  note_options(OptionNotes().add("rho", options.rho, 1.0));
}

NDArray HuberLoss::elements(const NDArray& predictions, const NDArray& labels) const {
  return smooth_l1(predictions - labels_like(predictions, labels, "HuberLoss"), scalar_);
}

NDArray SigmoidBinaryCrossEntropyLoss::terms(
    const NDArray& predictions, const NDArray& labels, const NDArray& positive) const {
  const NDArray aligned = labels_like(predictions, labels, "SigmoidBinaryCrossEntropyLoss");
  if (!from_sigmoid_) {
    if (!positive.defined())
      return cross_entropy_of_logits(predictions, aligned);
    return positive * (aligned * softplus(-predictions)) + (1 - aligned) * softplus(predictions);
  }
  const double least = predictions.dtype() == float16 ? std::ldexp(1, -14) : 1e-12;
  const NDArray hit = aligned * log(clip(predictions, least, 1));
  return -((positive.defined() ? positive * hit : hit) + (1 - aligned) * log(clip(1 - predictions, least, 1)));
}

NDArray SigmoidBinaryCrossEntropyLoss::elements(const NDArray& predictions, const NDArray& labels) const {
  return terms(predictions, labels, {});
}

Arrays SigmoidBinaryCrossEntropyLoss::forward_all(std::span<const NDArray> inputs) const {
  if (inputs.size() != 4)
    return ElementLoss::forward_all(inputs);
  const OriginScope here(call_site());
  return {average(terms(inputs[0], inputs[1], inputs[3]), inputs[2])};
}

NDArray KLDivLoss::elements(const NDArray& predictions, const NDArray& labels) const {
  const NDArray logs = options_.from_logits ? predictions : log_softmax(predictions, options_.axis);
  const NDArray aligned = labels_like(predictions, labels, "KLDivLoss");
  return xlogy(aligned, aligned) - aligned * logs;
}

NDArray HingeLoss::elements(const NDArray& predictions, const NDArray& labels) const {
  return relu(margin_ - predictions * labels_like(predictions, labels, "HingeLoss"));
}

NDArray SquaredHingeLoss::elements(const NDArray& predictions, const NDArray& labels) const {
  return square(relu(margin_ - predictions * labels_like(predictions, labels, "SquaredHingeLoss")));
}

NDArray LogisticLoss::elements(const NDArray& predictions, const NDArray& labels) const {
  const NDArray aligned = labels_like(predictions, labels, "LogisticLoss");
  return cross_entropy_of_logits(predictions, format_ == LabelFormat::sign ? (aligned + 1) * 0.5 : aligned);
}

NDArray PoissonNLLLoss::elements(const NDArray& predictions, const NDArray& labels) const {
  const NDArray counts = labels_like(predictions, labels, "PoissonNLLLoss");
  const double eps = predictions.dtype() == float16 ? std::max(options_.epsilon, std::ldexp(1, -14)) : options_.epsilon;
  const NDArray values =
      options_.from_logits ? exp(predictions) - counts * predictions : predictions - counts * log(predictions + eps);
  if (!options_.compute_full)
    return values;
  const NDArray stirling = xlogy(counts, counts) - counts + 0.5 * log(2 * std::numbers::pi * maximum(counts, 1));
  return values + where(counts > 1, stirling, 0);
}

FocalLoss::FocalLoss(FocalOptions options) : ElementLoss(options.weight), options_(options) {
  require(
      std::isfinite(options.alpha) && options.alpha <= 1 && std::isfinite(options.gamma) && options.gamma >= 0, [&] {
        return message(
            "FocalLoss: alpha must be 1 at most and gamma not negative, not ", options.alpha, " and ", options.gamma);
      });
  note_options(OptionNotes().add("alpha", options.alpha).add("gamma", options.gamma));
}

NDArray FocalLoss::elements(const NDArray& predictions, const NDArray& labels) const {
  const NDArray aligned = labels_like(predictions, labels, "FocalLoss");
  // The logit of what is right: 1 - p = sigmoid(-logit) without cancellation, with a gradient where it rounds to 0.
  const NDArray right = predictions * (2 * aligned - 1);
  const NDArray values = exp(softplus(right) * -options_.gamma) * softplus(-right);
  if (options_.alpha < 0)
    return values;
  return values * (1 - options_.alpha + (2 * options_.alpha - 1) * aligned);
}

}  // namespace sluice::gluon::loss
