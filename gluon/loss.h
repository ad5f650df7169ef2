#pragma once

#include <sluice/engine/export.h>
#include <sluice/gluon/block.h>
#include <sluice/ndarray/ndarray.h>

/// Losses: blocks of predictions and labels that give one value per sample (N,), to be averaged by the trainer's
/// batch size. They read nothing back: the host does not wait.
namespace sluice::gluon::loss {

/// What all losses are: `loss(predictions, labels)`. One of one's own overrides compute().
class SLUICE_API Loss : public Block {
 protected:
  Loss() = default;
  Loss(Loss&&) = default;
  /// One value per sample.
  virtual NDArray compute(const NDArray& predictions, const NDArray& labels) const = 0;

 private:
  Arrays forward_all(std::span<const NDArray> inputs) const final;
};

/// Of SoftmaxCrossEntropyLoss.
struct SoftmaxCrossEntropyOptions {
  int axis = -1;             // of the classes
  bool sparse_label = true;  // labels are class indices; otherwise they are probabilities of the predictions' shape
  bool from_logits = false;  // predictions are log-probabilities already (negative log likelihood), as in Gluon
  double weight = 1;         // factor on the loss
};

/// -log(softmax(predictions))[label] (Gluon's SoftmaxCrossEntropyLoss): the mean over all axes but the first and
/// that of the classes. Called, it throws ShapeError for labels that do not fit, DTypeError; a class outside the axis
/// is an IndexError at the wait.
class SLUICE_API SoftmaxCrossEntropyLoss : public Loss {
 public:
  explicit SoftmaxCrossEntropyLoss(SoftmaxCrossEntropyOptions options = {}) : options_(options) {}

 protected:
  NDArray compute(const NDArray& predictions, const NDArray& labels) const override;

 private:
  SoftmaxCrossEntropyOptions options_;
};

/// Of L2Loss.
struct L2Options {
  double weight = 1;
};

/// weight / 2 * (prediction - label)^2, the mean over all axes but the first (Gluon's L2Loss). Labels are reshaped
/// to the predictions' shape. Called, it throws ShapeError if the sizes differ.
class SLUICE_API L2Loss : public Loss {
 public:
  explicit L2Loss(L2Options options = {}) : options_(options) {}

 protected:
  NDArray compute(const NDArray& predictions, const NDArray& labels) const override;

 private:
  L2Options options_;
};

}  // namespace sluice::gluon::loss
