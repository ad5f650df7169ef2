#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include <sluice/engine/export.h>
#include <sluice/gluon/nn/conv.h>
#include <sluice/gluon/nn/embedding.h>
#include <sluice/gluon/nn/transformer.h>

/// Transformers for text and images. They come without trained weights.
namespace sluice::gluon::model_zoo {

/// Of GPT.
struct GPTOptions {
  std::int64_t vocabulary = 50257;
  std::int64_t length = 1024;  // of sequences at most
  std::int64_t units = 768;
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  double dropout = 0.1;  // of embeddings, attention and products
};

/// A decoder of text as GPT-2 (Radford et al., 2019): tokens (N, L), whole numbers, give logits (N, L, vocabulary) of
/// the next ones. Weights of the output are those of the embedding. Children: "wte", "wpe", "dropout", "body".
class SLUICE_API GPT : public Block {
 public:
  /// Throws ValueError for numbers that do not divide, or are too small.
  explicit GPT(const GPTOptions& options = {});

  /// The longest sequence that it takes.
  std::int64_t length() const noexcept { return length_; }

 protected:
  NDArray forward(const NDArray& tokens) const override;

 private:
  friend class GPTDecoder;
  std::int64_t length_;
  Child<nn::Embedding> wte_;
  Child<nn::LearnedPositions> wpe_;
  Child<nn::Dropout> dropout_;
  Child<nn::TransformerEncoder> body_;
};

/// Goes on with texts token by token: what a GPT says of a text that grows, without what was computed of its beginning
/// being computed again.
///
///     GPTDecoder decoder(net);
///     NDArray logits = decoder(prompt);              // (1, L) gives (1, L, vocabulary)
///     for (..)
///       logits = decoder(next_token(logits));        // (1, 1) gives (1, 1, vocabulary)
///
/// Keys and values stay on the network's device; each call is one graph, traced once for each number of tokens, of one
/// engine. Nothing waits. It uses the network's layers as they are when it is called, of which there must be as many
/// sequences and positions as it was made for; it computes as in predict mode, and records nothing. One thread at a
/// time.
class SLUICE_API GPTDecoder {
 public:
  /// For `batch` texts at a time, of net.length() tokens at most. `net` may move, but not end before. Throws ValueError
  /// unless it was initialised, and for a batch below 1.
  explicit GPTDecoder(const GPT& net, std::int64_t batch = 1);
  ~GPTDecoder();
  GPTDecoder(GPTDecoder&&) noexcept;
  GPTDecoder& operator=(GPTDecoder&&) noexcept;

  /// Logits (batch, L, vocabulary) of what follows each of `tokens` (batch, L), which come behind those of the calls
  /// before. Throws ShapeError for another shape, ValueError where there would be more than net.length() of them.
  NDArray operator()(const NDArray& tokens, SourceLocation site = SourceLocation::current());
  /// How many tokens it has seen.
  std::int64_t position() const noexcept { return position_; }
  /// Other texts begin.
  void reset();
  /// Programs that were traced.
  std::size_t traces() const;

 private:
  class Step;
  std::unique_ptr<Step> step_;
  std::int64_t batch_, length_, position_ = 0;
};

/// GPT-2 of 124, 355, 774 or 1558 million parameters: "124m", "355m", "774m", "1558m". Throws ValueError for another.
SLUICE_API GPT gpt2(std::string_view size);

/// Of ViT.
struct ViTOptions {
  std::int64_t image = 224;
  std::int64_t patch = 16;
  std::int64_t units = 768;
  std::int64_t hidden = 3072;
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t classes = 1000;
  double dropout = 0;
};

/// A transformer of patches of images (Dosovitskiy et al., "An image is worth 16 x 16 words", 2021; torchvision's
/// vit_b_16): (N, 3, image, image) gives logits (N, classes). Children: "patches", "positions", "dropout", "body",
/// "head"; parameter "class_token".
class SLUICE_API ViT : public Block {
 public:
  /// Throws ValueError for numbers that do not divide, or are too small.
  explicit ViT(const ViTOptions& options = {});

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  std::int64_t units_;
  Parameter& class_token_;
  Child<nn::Conv2D> patches_;
  Child<nn::LearnedPositions> positions_;
  Child<nn::Dropout> dropout_;
  Child<nn::TransformerEncoder> body_;
  Child<nn::Dense> head_;
};

/// ViT-B/16 and ViT-S/16.
SLUICE_API ViT vit_b_16(std::int64_t classes = 1000);
SLUICE_API ViT vit_s_16(std::int64_t classes = 1000);

}  // namespace sluice::gluon::model_zoo
