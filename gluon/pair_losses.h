#pragma once

#include <cstddef>

#include <sluice/engine/export.h>
#include <sluice/gluon/loss.h>
#include <sluice/ndarray/ndarray.h>

/// Gluon's losses that compare samples: blocks of three arrays, or two, called as `loss({a, b, c})[0]`. One value per
/// sample, (N,). They take weights, (N,) or (N, 1), as one array more.
namespace sluice::gluon::loss {

/// Takes so many arrays, and weights of samples as one more.
class SLUICE_API PairLoss : public Block {
 protected:
  PairLoss(std::size_t arrays, double weight) : arrays_(arrays), weight_(weight) {
    note_options(OptionNotes().add("weight", weight, 1.0));
  }
  PairLoss(PairLoss&&) = default;
  /// One value per sample.
  virtual NDArray compare(std::span<const NDArray> inputs) const = 0;
  Arrays forward_all(std::span<const NDArray> inputs) const final;

 private:
  std::size_t arrays_;
  double weight_;
};

/// Of TripletLoss.
struct TripletOptions {
  double margin = 1;
  double weight = 1;
};

/// max(0, sum (anchor - positive)^2 - sum (anchor - negative)^2 + margin), sums over all axes but the first, of
/// anchors, positives and negatives (Gluon's TripletLoss; Schroff et al., "FaceNet", 2015). Called, it throws
/// ShapeError unless the three have as many elements.
class SLUICE_API TripletLoss : public PairLoss {
 public:
  explicit TripletLoss(TripletOptions options = {}) : PairLoss(3, options.weight), margin_(options.margin) {
    note_options(OptionNotes().add("margin", options.margin));
  }

 protected:
  NDArray compare(std::span<const NDArray> inputs) const override;

 private:
  double margin_;
};

/// Of CosineEmbeddingLoss.
struct CosineEmbeddingOptions {
  double margin = 0;  // pairs that are not to be alike cost nothing below it
  double weight = 1;
};

/// 1 - cos(a, b) of samples of label 1, max(0, cos(a, b) - margin) of the others, whose label is -1 (Gluon's
/// CosineEmbeddingLoss): a and b (N, ...), of one shape, labels (N,). The cosine of a vector of zeros is 0, its length
/// counting as 1e-12 (float16: 2^-7) at least. Called, it throws ShapeError.
class SLUICE_API CosineEmbeddingLoss : public PairLoss {
 public:
  explicit CosineEmbeddingLoss(CosineEmbeddingOptions options = {})
      : PairLoss(3, options.weight), margin_(options.margin) {
    note_options(OptionNotes().add("margin", options.margin));
  }

 protected:
  NDArray compare(std::span<const NDArray> inputs) const override;

 private:
  double margin_;
};

/// Of SDMLLoss.
struct SDMLOptions {
  double smoothing_parameter = 0.3;  // of the probability, shared by the pairs that do not belong together
  double weight = 1;
};

/// Smoothed deep metric learning: row i of a belongs to row i of b, (N, width) both, all other pairs of the batch do
/// not. The divergence of softmax(-|a_i - b_j|^2) over j from the smoothed right answer (Gluon's SDMLLoss of
/// MXNet 1.9; Bonadiman et al., 2019). A batch has two samples at least: ShapeError otherwise, and unless both shapes
/// are alike.
class SLUICE_API SDMLLoss : public PairLoss {
 public:
  /// Throws ValueError unless the parameter is from 0 to 1.
  explicit SDMLLoss(SDMLOptions options = {});

 protected:
  NDArray compare(std::span<const NDArray> inputs) const override;

 private:
  double smoothing_;
};

}  // namespace sluice::gluon::loss
