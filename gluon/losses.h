#pragma once

#include <cstdint>

#include <sluice/engine/export.h>
#include <sluice/gluon/loss.h>
#include <sluice/ndarray/ndarray.h>

/// Gluon's losses of elements beside those of loss.h; those of pairs: pair_losses.h. Labels are reshaped to the
/// predictions' shape; called, all throw ShapeError if the sizes differ.
namespace sluice::gluon::loss {

/// Of L1Loss.
struct L1Options {
  double weight = 1;
};

/// weight * |prediction - label| (Gluon's L1Loss). The gradient at 0 is 0.
class SLUICE_API L1Loss : public ElementLoss {
 public:
  explicit L1Loss(L1Options options = {}) : ElementLoss(options.weight) {}

 protected:
  NDArray elements(const NDArray& predictions, const NDArray& labels) const override;
};

/// Of HuberLoss.
struct HuberOptions {
  double rho = 1;  // where the square ends
  double weight = 1;
};

/// d^2 / (2 rho) where d = |prediction - label| is below rho, d - rho / 2 elsewhere (Huber, 1964; Gluon's HuberLoss,
/// torch's SmoothL1Loss).
class SLUICE_API HuberLoss : public ElementLoss {
 public:
  /// Throws ValueError unless rho is finite and positive.
  explicit HuberLoss(HuberOptions options = {});

 protected:
  NDArray elements(const NDArray& predictions, const NDArray& labels) const override;

 private:
  double scalar_;
};

/// Of SigmoidBinaryCrossEntropyLoss.
struct SigmoidBinaryCrossEntropyOptions {
  bool from_sigmoid = false;  // predictions are probabilities already
  double weight = 1;
};

/// -(pos_weight label log p + (1 - label) log(1 - p)) with p the sigmoid of the prediction (Gluon's
/// SigmoidBinaryCrossEntropyLoss), of labels between 0 and 1. Takes a third array, weights of samples, and a fourth,
/// what the positive terms are multiplied by, which broadcasts to the predictions as in NumPy; weights of 1 stand in
/// for none. With `from_sigmoid` probabilities nearer to 0 than 1e-12 (float16: 2^-14) count as that.
class SLUICE_API SigmoidBinaryCrossEntropyLoss : public ElementLoss {
 public:
  explicit SigmoidBinaryCrossEntropyLoss(SigmoidBinaryCrossEntropyOptions options = {})
      : ElementLoss(options.weight), from_sigmoid_(options.from_sigmoid) {
    note_options(OptionNotes().add("from_sigmoid", options.from_sigmoid, false));
  }

 protected:
  NDArray elements(const NDArray& predictions, const NDArray& labels) const override;
  Arrays forward_all(std::span<const NDArray> inputs) const override;

 private:
  NDArray terms(const NDArray& predictions, const NDArray& labels, const NDArray& positive) const;

  bool from_sigmoid_;
};

/// What SigmoidBinaryCrossEntropyLoss is called for short, as in Gluon.
using SigmoidBCELoss = SigmoidBinaryCrossEntropyLoss;

/// Of KLDivLoss.
struct KLDivOptions {
  bool from_logits = true;  // predictions are logarithms of probabilities; otherwise log_softmax makes them that
  int axis = -1;            // of that softmax
  double weight = 1;
};

/// label (log label - log p), the divergence of predictions from labels (Kullback and Leibler, 1951; Gluon's KLDivLoss
/// of MXNet 1.9): the sum over all axes but the first. A label of 0 gives 0.
class SLUICE_API KLDivLoss : public ElementLoss {
 public:
  explicit KLDivLoss(KLDivOptions options = {}) : ElementLoss(options.weight, true), options_(options) {
    note_options(OptionNotes().add("from_logits", options.from_logits, true).add("axis", options.axis, -1));
  }

 protected:
  NDArray elements(const NDArray& predictions, const NDArray& labels) const override;

 private:
  KLDivOptions options_;
};

/// Of HingeLoss and SquaredHingeLoss.
struct HingeOptions {
  double margin = 1;
  double weight = 1;
};

/// max(0, margin - prediction label), of labels -1 and 1 (Gluon's HingeLoss).
class SLUICE_API HingeLoss : public ElementLoss {
 public:
  explicit HingeLoss(HingeOptions options = {}) : ElementLoss(options.weight), margin_(options.margin) {
    note_options(OptionNotes().add("margin", options.margin, 1.0));
  }

 protected:
  NDArray elements(const NDArray& predictions, const NDArray& labels) const override;

 private:
  double margin_;
};

/// max(0, margin - prediction label)^2, of labels -1 and 1 (Gluon's SquaredHingeLoss).
class SLUICE_API SquaredHingeLoss : public ElementLoss {
 public:
  explicit SquaredHingeLoss(HingeOptions options = {}) : ElementLoss(options.weight), margin_(options.margin) {
    note_options(OptionNotes().add("margin", options.margin, 1.0));
  }

 protected:
  NDArray elements(const NDArray& predictions, const NDArray& labels) const override;

 private:
  double margin_;
};

/// How labels of two classes are written.
enum class LabelFormat : std::uint8_t {
  sign,    // -1 and 1 ("signed" in Gluon)
  binary,  // 0 and 1
};

/// Of LogisticLoss.
struct LogisticOptions {
  LabelFormat label_format = LabelFormat::sign;
  double weight = 1;
};

/// log(1 + exp(-prediction label)), of labels -1 and 1, or what that is for labels 0 and 1 (Gluon's LogisticLoss).
class SLUICE_API LogisticLoss : public ElementLoss {
 public:
  explicit LogisticLoss(LogisticOptions options = {}) : ElementLoss(options.weight), format_(options.label_format) {
    note_options(OptionNotes().add("binary", options.label_format == LabelFormat::binary, false));
  }

 protected:
  NDArray elements(const NDArray& predictions, const NDArray& labels) const override;

 private:
  LabelFormat format_;
};

/// Of PoissonNLLLoss.
struct PoissonNLLOptions {
  bool from_logits = true;    // predictions are logarithms of the rates
  bool compute_full = false;  // with Stirling's approximation of log(label!) for labels above 1
  double epsilon = 1e-8;      // added to rates before their logarithm is taken (float16: 2^-14 at least)
  double weight = 1;
};

/// rate - label log(rate), of counts (Gluon's PoissonNLLLoss, which takes one mean of all samples; this one's values
/// are of samples as all others').
class SLUICE_API PoissonNLLLoss : public ElementLoss {
 public:
  explicit PoissonNLLLoss(PoissonNLLOptions options = {}) : ElementLoss(options.weight), options_(options) {
    const PoissonNLLOptions usual;
    note_options(OptionNotes()
                     .add("from_logits", options.from_logits, usual.from_logits)
                     .add("compute_full", options.compute_full, usual.compute_full)
                     .add("epsilon", options.epsilon, usual.epsilon));
  }

 protected:
  NDArray elements(const NDArray& predictions, const NDArray& labels) const override;

 private:
  PoissonNLLOptions options_;
};

/// Of FocalLoss.
struct FocalOptions {
  double alpha = 0.25;  // weight of positive labels, 1 - alpha that of negative ones; negative: no weights
  double gamma = 2;     // how much less what is predicted well counts
  double weight = 1;
};

/// alpha (1 - p)^gamma times the binary cross entropy, where p is the probability given to what is right: predictions
/// before the sigmoid, labels 0 and 1 (Lin et al., "Focal loss for dense object detection", 2017; GluonCV's,
/// torchvision's sigmoid_focal_loss).
class SLUICE_API FocalLoss : public ElementLoss {
 public:
  /// Throws ValueError for an alpha above 1 and for a gamma that is negative, or either not finite.
  explicit FocalLoss(FocalOptions options = {});

 protected:
  NDArray elements(const NDArray& predictions, const NDArray& labels) const override;

 private:
  FocalOptions options_;
};

}  // namespace sluice::gluon::loss
