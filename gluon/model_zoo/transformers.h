#pragma once

#include <cstdint>
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

 protected:
  NDArray forward(const NDArray& tokens) const override;

 private:
  Child<nn::Embedding> wte_;
  Child<nn::LearnedPositions> wpe_;
  Child<nn::Dropout> dropout_;
  Child<nn::TransformerEncoder> body_;
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
