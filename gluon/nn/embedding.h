#pragma once

#include <cstdint>
#include <optional>

#include <sluice/gluon/block.h>

namespace sluice::gluon::nn {

/// Of Embedding.
struct EmbeddingOptions {
  DType dtype = float32;
  init::Initializer weight_initializer = {};  // empty: what initialize() is given
  /// This row stays as it is: no gradient comes there. It may count from the back.
  std::optional<std::int64_t> padding = {};
};

/// A row of numbers for each index (Gluon's nn.Embedding; `padding` is torch.nn.Embedding's padding_idx): x of any
/// shape and an integer type gives x's shape with one axis more, of `output_dim`. An index out of range is an
/// IndexError at the wait for the result. Parameter: weight (input_dim, output_dim).
class SLUICE_API Embedding : public Block {
 public:
  /// Throws ValueError for sizes < 1, IndexError for a row of padding that there is not.
  Embedding(std::int64_t input_dim, std::int64_t output_dim, EmbeddingOptions options = {});

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  std::optional<std::int64_t> padding_;
  Parameter& weight_;
};

}  // namespace sluice::gluon::nn
