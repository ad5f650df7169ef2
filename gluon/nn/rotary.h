#pragma once

#include <cstdint>
#include <span>

#include <sluice/gluon/block.h>

namespace sluice::gluon::nn {

/// Of RotaryEmbedding.
struct RotaryOptions {
  double base = 10000;
  bool interleaved = false;  // pairs are neighbours (RoFormer, GPT-J), else a half apart (GPT-NeoX, Llama)
  std::int64_t dims = 0;     // so many entries of each vector are turned, the others stay; 0: all
};

/// Tells positions apart by turning queries and keys (Su et al., "RoFormer", 2021): of vectors x (N, .., L, width) the
/// pair i at position p by the angle p / base^(2i / dims). Gives the same shape; products of a query and a key then
/// depend on how far apart they are. Positions are 0 to L - 1, or a second array: of no axes, the first one's, as
/// behind a cache of keys; (L,), or (N, L), each one's. Angles are float64, half types are turned in float32. As an
/// array the offset changes without another trace.
class SLUICE_API RotaryEmbedding : public Block {
 public:
  /// Throws ValueError for dims that are negative or odd, and unless base is positive and finite.
  explicit RotaryEmbedding(RotaryOptions options = {});

 protected:
  /// Throws ShapeError for fewer than three axes, a width that is odd or below dims, and positions that do not fit;
  /// DTypeError for types that are not floating.
  Arrays forward_all(std::span<const NDArray> inputs) const override;

 private:
  RotaryOptions options_;
};

}  // namespace sluice::gluon::nn
