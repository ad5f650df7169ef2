#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/nn/attention.h>
#include <sluice/gluon/nn/basic.h>
#include <sluice/gluon/nn/dense.h>
#include <sluice/gluon/nn/norm.h>
#include <sluice/gluon/nn/rotary.h>
#include <sluice/gluon/nn/sequential.h>

/// Transformers (Vaswani et al., "Attention is all you need", 2017), on sequences (N, length, units), as GluonNLP and
/// PyTorch with batch_first have them.
namespace sluice::gluon::nn {

/// Of the layers of transformers.
struct TransformerOptions {
  double dropout = 0;               // of what attention and the two products give
  double attention_dropout = 0;     // of the weights of attention
  std::string activation = "relu";  // a name that nn::Activation knows
  bool pre_norm = false;            // norms before attention and products, else behind their sums
  bool causal = false;              // of an encoder: position i sees 0 to i alone
  bool use_bias = true;             // of all products
  double layer_norm_eps = 1e-5;
  init::Initializer weight_initializer = {};  // empty: what initialize() is given
  std::optional<RotaryOptions> rotary = {};   // of attention to the sequence itself
};

/// Two products at each position, an activation between them (GluonNLP's PositionwiseFFN without norm and sum).
/// Children: the Dense layers "ffn_1" and "ffn_2".
class SLUICE_API PositionwiseFFN : public Block {
 public:
  /// Throws ValueError for units or hidden < 1, and for an unknown activation.
  PositionwiseFFN(std::int64_t units, std::int64_t hidden, const TransformerOptions& options = {});

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  Child<Dense> first_;
  Child<Dropout> dropout_;
  Child<Dense> second_;
};

/// Attention to the sequence itself, then products at each position, each with a sum round it and layer norm (PyTorch
/// nn.TransformerEncoderLayer): x (N, L, units) gives the same shape. A second array is the mask of MultiHeadAttention.
/// Children: "attention", "norm_1", "ffn", "norm_2", "dropout".
class SLUICE_API TransformerEncoderLayer : public Block {
 public:
  /// Throws ValueError for numbers that do not divide, or are too small, and for options that cannot be.
  TransformerEncoderLayer(
      std::int64_t units, std::int64_t hidden, std::int64_t num_heads, const TransformerOptions& options = {});

  /// The attention inside it: make_cache().
  const Child<MultiHeadAttention>& attention() const noexcept { return attention_; }
  /// The next positions of sequences, as MultiHeadAttention::step(). Of the options causal makes no difference.
  NDArray step(
      const NDArray& x,
      const NDArray& position,
      const NDArray& seen,
      const KeyValueCache& cache,
      SourceLocation site = SourceLocation::current()) const;

 protected:
  Arrays forward_all(std::span<const NDArray> inputs) const override;

 private:
  bool pre_norm_;
  Child<MultiHeadAttention> attention_;
  Child<LayerNorm> norm_1_;
  Child<PositionwiseFFN> ffn_;
  Child<LayerNorm> norm_2_;
  Child<Dropout> dropout_;
};

/// Causal attention to the sequence itself, attention to what an encoder gave, products at each position (PyTorch
/// nn.TransformerDecoderLayer): x (N, L, units) and memory (N, S, ..) give (N, L, units). A third array is the mask of
/// the second attention. Children: "self_attention", "norm_1", "attention", "norm_2", "ffn", "norm_3", "dropout".
class SLUICE_API TransformerDecoderLayer : public Block {
 public:
  /// Throws as TransformerEncoderLayer.
  TransformerDecoderLayer(
      std::int64_t units, std::int64_t hidden, std::int64_t num_heads, const TransformerOptions& options = {});

 protected:
  Arrays forward_all(std::span<const NDArray> inputs) const override;

 private:
  bool pre_norm_;
  Child<MultiHeadAttention> self_attention_;
  Child<LayerNorm> norm_1_;
  Child<MultiHeadAttention> attention_;
  Child<LayerNorm> norm_2_;
  Child<PositionwiseFFN> ffn_;
  Child<LayerNorm> norm_3_;
  Child<Dropout> dropout_;
};

/// What an encoder and a decoder are: layers one after the other, of which each takes what the one before gave and the
/// same arrays beside it, and a layer norm behind the last one where they have theirs before. Children: "0", "1", ..
/// and "norm".
class SLUICE_API TransformerStack : public Block {
 public:
  std::size_t size() const noexcept { return layers_.size(); }

 protected:
  TransformerStack(std::vector<std::shared_ptr<Block>> layers, std::int64_t units, const TransformerOptions& options);
  Arrays forward_all(std::span<const NDArray> inputs) const final;

  const std::vector<Child<>>& layers() const noexcept { return layers_; }
  /// What the last layer gave, with the norm behind it if there is one.
  NDArray ended(const NDArray& x, SourceLocation site) const;

 private:
  std::vector<Child<>> layers_;
  Child<LayerNorm> norm_;
  bool has_norm_;
};

/// Encoder layers, all with the same mask (a second array): x (N, L, units) gives the same shape.
class SLUICE_API TransformerEncoder : public TransformerStack {
 public:
  /// Throws ValueError for fewer layers than one, and as TransformerEncoderLayer.
  TransformerEncoder(
      std::int64_t layers,
      std::int64_t units,
      std::int64_t hidden,
      std::int64_t num_heads,
      const TransformerOptions& options = {});

  /// A cache a layer for `batch` sequences of `length` positions at most.
  std::vector<KeyValueCache> make_caches(std::int64_t batch, std::int64_t length, Device device = cpu()) const;
  /// The next positions x (N, L, units) of sequences: what a causal encoder gives for these in a call of all, up to
  /// rounding. `position`, int64 without axes, is the number of the first one; see MultiHeadAttention::step(). Throws
  /// ValueError for another number of caches than layers, and where a layer was replaced by one of another class.
  NDArray step(
      const NDArray& x,
      const NDArray& position,
      const std::vector<KeyValueCache>& caches,
      SourceLocation site = SourceLocation::current()) const;
};

/// Decoder layers, all with the same memory (a second array) and mask (a third): x (N, L, units) gives the same shape.
class SLUICE_API TransformerDecoder : public TransformerStack {
 public:
  /// Throws as TransformerEncoder.
  TransformerDecoder(
      std::int64_t layers,
      std::int64_t units,
      std::int64_t hidden,
      std::int64_t num_heads,
      const TransformerOptions& options = {});
};

/// Adds to (N, L, units) what tells positions apart: sin(p / 10000^(2i / units)) in the first half of the units and the
/// cosines of the same in the second (GluonNLP's SinusoidalPositionalEmbedding). A plan is made for each length.
class SLUICE_API SinusoidalPositions : public Block {
 protected:
  /// Throws ShapeError for an odd number of units, and for other than three axes.
  NDArray forward(const NDArray& x) const override;
};

/// Adds to (N, L, units) the first L rows of a weight (max_length, units), which is trained; with an array without axes
/// beside it, int64, those from that number on, as behind a cache: a row that there is not is an IndexError at the
/// wait.
class SLUICE_API LearnedPositions : public Block {
 public:
  /// Throws ValueError for a max_length or units < 1.
  LearnedPositions(std::int64_t max_length, std::int64_t units, init::Initializer weight_initializer = {});

 protected:
  /// Throws ShapeError for a sequence longer than max_length, and for a position that has axes.
  Arrays forward_all(std::span<const NDArray> inputs) const override;

 private:
  std::int64_t max_length_;
  Parameter& weight_;
};

}  // namespace sluice::gluon::nn
