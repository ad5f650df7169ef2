#pragma once

#include <sluice/engine/export.h>
#include <sluice/ndarray/ndarray.h>

/// Losses: functions of predictions and labels that give one value per sample (N,), to be averaged by the trainer's
/// batch size. They read nothing back: the host does not wait.
namespace sluice::gluon::loss {

/// Of SoftmaxCrossEntropyLoss.
struct SoftmaxCrossEntropyOptions {
  int axis = -1;             // of the classes
  bool sparse_label = true;  // labels are class indices; otherwise they are probabilities of the predictions' shape
  bool from_logits = false;  // predictions are log-probabilities already (negative log likelihood), as in Gluon
  double weight = 1;         // factor on the loss
};

/// -log(softmax(predictions))[label] (Gluon's SoftmaxCrossEntropyLoss): the mean over all axes but the first and
/// that of the classes.
class SLUICE_API SoftmaxCrossEntropyLoss {
 public:
  explicit SoftmaxCrossEntropyLoss(SoftmaxCrossEntropyOptions options = {}) : options_(options) {}
  /// Throws ShapeError for labels that do not fit, DTypeError; a class outside the axis is an IndexError at the wait.
  NDArray operator()(const NDArray& predictions, const NDArray& labels) const;

 private:
  SoftmaxCrossEntropyOptions options_;
};

/// Of L2Loss.
struct L2Options {
  double weight = 1;
};

/// weight / 2 * (prediction - label)^2, the mean over all axes but the first (Gluon's L2Loss). Labels are reshaped
/// to the predictions' shape.
class SLUICE_API L2Loss {
 public:
  explicit L2Loss(L2Options options = {}) : options_(options) {}
  /// Throws ShapeError if the sizes differ.
  NDArray operator()(const NDArray& predictions, const NDArray& labels) const;

 private:
  L2Options options_;
};

}  // namespace sluice::gluon::loss
