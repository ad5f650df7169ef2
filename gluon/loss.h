#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <sluice/engine/export.h>
#include <sluice/gluon/block.h>
#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/ctc/ctc.h>

/// Losses: blocks of predictions and labels that give one value per sample (N,), to be averaged by the trainer's
/// batch size. They read nothing back: the host does not wait.
namespace sluice::gluon::loss {

/// What all losses are: `loss(predictions, labels)`, or with weights `loss({predictions, labels, sample_weight})[0]`.
/// Weights are one per sample, (N,), or have the first axes of the values that they are for, each behind the first with
/// its extent or 1: unlike NumPy's broadcasting a missing axis is the last one, so that weights of samples are never
/// those of classes. One of one's own overrides compute(), or those of ElementLoss. Called, losses throw ValueError for
/// another number of arrays, ShapeError for weights that do not fit.
class SLUICE_API Loss : public Block {
 protected:
  Loss() = default;
  Loss(Loss&&) = default;
  /// One value per sample.
  virtual NDArray compute(const NDArray& predictions, const NDArray& labels) const = 0;
  /// The same with a weight for each; this one multiplies by them what compute() gives.
  virtual NDArray compute_weighted(
      const NDArray& predictions, const NDArray& labels, const NDArray& sample_weight) const;

  Arrays forward_all(std::span<const NDArray> inputs) const override;
};

/// A loss whose value for a sample is the mean of one value per element, over all axes but the first, or their sum,
/// times `weight`; weights of samples may tell elements apart.
class SLUICE_API ElementLoss : public Loss {
 protected:
  explicit ElementLoss(double weight, bool sums = false) : weight_(weight), sums_(sums) {
    note_options(OptionNotes().add("weight", weight, 1.0));
  }
  ElementLoss(ElementLoss&&) = default;
  /// One value per element: (N, ...).
  virtual NDArray elements(const NDArray& predictions, const NDArray& labels) const = 0;

  NDArray compute(const NDArray& predictions, const NDArray& labels) const override;
  NDArray compute_weighted(
      const NDArray& predictions, const NDArray& labels, const NDArray& sample_weight) const override;
  /// `values` times the weights (undefined: without), to one value per sample.
  NDArray average(const NDArray& values, const NDArray& sample_weight) const;

 private:
  double weight_;
  bool sums_;
};

/// Of SoftmaxCrossEntropyLoss.
struct SoftmaxCrossEntropyOptions {
  int axis = -1;             // of the classes
  bool sparse_label = true;  // labels are class indices; otherwise they are probabilities of the predictions' shape
  bool from_logits = false;  // predictions are log-probabilities already (negative log likelihood), as in Gluon
  double weight = 1;         // factor on the loss
  // As in CrossEntropyOptions; of class indices alone, smoothing of logits alone.
  std::optional<std::int64_t> ignored = {};
  double smoothing = 0;
  NDArray class_weights = {};    // (classes,), taken to the predictions' device
  bool mean_by_weights = false;  // the mean over a batch is by the sum of its labels' weights, as PyTorch's is
};

/// -log(softmax(predictions))[label] (Gluon's SoftmaxCrossEntropyLoss): the mean over all axes but the first and
/// that of the classes. Called, it throws ShapeError for labels that do not fit, DTypeError; a class outside the axis
/// is an IndexError at the wait.
///
/// With `ignored` the mean over a batch, which Trainer::step(N) takes, is that over the labels that count (PyTorch's
/// reduction="mean"): a sample has, of the labels of a call (a batch, or a device's part of it),
///
///     (the sum of its losses) / (its number of labels) * (the number of all labels) / (the number of those that count)
///
/// with ignored ones as losses of 0. Where none counts losses and gradients are 0 (PyTorch: NaN). Class weights alone
/// multiply losses, as weights of samples do, and divide nothing: the mean stays one over labels, as Gluon's users
/// expect. With `mean_by_weights` the last factor is (the number of all labels) / (the sum of the class weights of
/// those that count), which is PyTorch's mean. Weights of samples multiply losses and change no number of labels.
class SLUICE_API SoftmaxCrossEntropyLoss : public ElementLoss {
 public:
  /// Throws ValueError for a smoothing out of [0, 1), and for options that go with class indices, logits or weights
  /// alone where there are none.
  explicit SoftmaxCrossEntropyLoss(SoftmaxCrossEntropyOptions options = {});

 protected:
  NDArray elements(const NDArray& predictions, const NDArray& labels) const override;
  NDArray compute_weighted(
      const NDArray& predictions, const NDArray& labels, const NDArray& sample_weight) const override;

 private:
  NDArray share_that_counts(const NDArray& labels, DType dtype) const;

  SoftmaxCrossEntropyOptions options_;
};
using SoftmaxCELoss = SoftmaxCrossEntropyLoss;

/// Of L2Loss.
struct L2Options {
  double weight = 1;
};

/// weight / 2 * (prediction - label)^2, the mean over all axes but the first (Gluon's L2Loss). Labels are reshaped
/// to the predictions' shape. Called, it throws ShapeError if the sizes differ.
class SLUICE_API L2Loss : public ElementLoss {
 public:
  explicit L2Loss(L2Options options = {}) : ElementLoss(options.weight / 2) {
    note_options(OptionNotes().add("weight", options.weight, 1.0));
  }

 protected:
  NDArray elements(const NDArray& predictions, const NDArray& labels) const override;
};

/// Of CTCLoss.
struct CTCLossOptions {
  std::string layout = "NTC";       // of predictions: or "TNC"
  std::string label_layout = "NT";  // or "TN"
  BlankLabel blank = BlankLabel::last;
  bool zero_infinity = false;  // a sequence too short for its labels costs 0, without a gradient
  double weight = 1;
};

/// ctc_loss() (Gluon's CTCLoss): logits, labels padded with -1 (with 0 for a blank that is the first class) and, where
/// `loss({pred, label, pred_lengths, label_lengths})` is given them, lengths, either of which may be undefined.
class SLUICE_API CTCLoss : public Loss {
 public:
  /// Throws ValueError for other layouts.
  explicit CTCLoss(CTCLossOptions options = {});

 protected:
  NDArray compute(const NDArray& predictions, const NDArray& labels) const override;
  Arrays forward_all(std::span<const NDArray> inputs) const override;

 private:
  CTCLossOptions options_;
};

}  // namespace sluice::gluon::loss
