#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include <sluice/gluon/block.h>
#include <sluice/gluon/nn/dense.h>
#include <sluice/gluon/nn/rotary.h>

namespace sluice::gluon::nn {

/// Of MultiHeadAttention.
struct MultiHeadAttentionOptions {
  double dropout = 0;  // of the weights, in training
  bool causal = false;
  bool use_bias = true;
  std::int64_t kv_heads = 0;  // heads of keys and values, which those of queries share; 0: as many
  DType dtype = float32;
  init::Initializer weight_initializer = {};  // empty: what initialize() is given
  std::optional<RotaryOptions> rotary = {};   // queries and keys are turned by their positions (RotaryEmbedding)
};

/// Keys and values of the positions that sequences have had, each (N, heads of them, length, width): attention to these
/// need not be computed again for the positions that follow. Copies mean the same arrays.
struct KeyValueCache {
  NDArray keys, values;
};

/// Attention of several heads (PyTorch nn.MultiheadAttention with batch_first): query (N, L, C), key and value (N, S,
/// ..) give (N, L, units). One input is query, key and value; a second one of four axes, or a fourth one, is the mask
/// of scaled_dot_product_attention(), which broadcasts to (N, num_heads, L, S): (N, 1, 1, S), 0 where a key is padding.
/// With options.rotary two arrays are x and its positions, and a fifth one says where queries stand, as behind a cache;
/// keys stand at 0 to S - 1. Children: the Dense layers "query", "key", "value" and "out"; "rotary".
///
/// In training one input is multiplied by the three weights at once, as PyTorch's in_proj_weight, and so are gradients,
/// while "query", "key" and "value" are Dense layers of that very type with the units that they had, no activation, no
/// flatten, biases all or none, weights of one type, width and device, no hooks are on them, and their weights train or
/// are frozen together, as their biases; otherwise, and in prediction, by one after the other, which may round
/// otherwise.
class SLUICE_API MultiHeadAttention : public Block {
 public:
  /// Throws ValueError where units do not divide into num_heads, or these into kv_heads, and for a dropout outside [0,
  /// 1].
  MultiHeadAttention(std::int64_t units, std::int64_t num_heads, MultiHeadAttentionOptions options = {});

  /// Whether queries and keys are turned by their positions.
  bool is_rotary() const noexcept { return turns_; }
  /// Zeros for `batch` sequences of `length` positions at most.
  KeyValueCache make_cache(std::int64_t batch, std::int64_t length, Device device = cpu()) const;
  /// The next positions of sequences, x (N, L, channels): what a call of all positions with a causal mask gives for
  /// these, up to rounding. Their keys and values are written to the cache, whose arrays any graph may capture.
  /// `position`, int64 without axes, is the number of the first; nobody checks that the last is within the cache's
  /// length, but what lies beyond is an IndexError at the wait. `seen` (L, length), of bool, says which keys each of
  /// them sees: causal_mask() makes it.
  NDArray step(
      const NDArray& x,
      const NDArray& position,
      const NDArray& seen,
      const KeyValueCache& cache,
      SourceLocation site = SourceLocation::current()) const;

 protected:
  Arrays forward_all(std::span<const NDArray> inputs) const override;

 private:
  NDArray projected(const NDArray& x, SourceLocation site) const;
  NDArray attended_at_once(
      const NDArray& qkv, const NDArray& mask, const NDArray& positions, SourceLocation site) const;

  std::int64_t num_heads_, kv_heads_, width_;
  double dropout_;
  bool causal_;
  bool turns_;
  Child<Dense> query_, key_, value_, out_;
  Child<RotaryEmbedding> rotary_;
};

/// Of `steps` positions from number `position` on (int64, no axes): true where a key of a cache of `length` is theirs
/// or one before, (steps, length).
SLUICE_API NDArray causal_mask(
    const NDArray& position, std::int64_t steps, std::int64_t length, SourceLocation site = SourceLocation::current());

}  // namespace sluice::gluon::nn
