#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <sluice/gluon/block.h>
#include <sluice/gluon/nn/activation.h>

namespace sluice::gluon::nn {

/// Of Dense.
struct DenseOptions {
  std::string activation = {};  // a name that nn::Activation knows; "" = none
  bool use_bias = true;
  bool flatten = true;  // join all axes but the first; otherwise only the last axis is multiplied
  DType dtype = float32;
  init::Initializer weight_initializer = {};  // empty: what initialize() is given
  init::Initializer bias_initializer = init::Zero();
  std::int64_t in_units = 0;  // 0: found at the first forward
};

/// activation(x W^T + b) (Gluon's nn.Dense): x (batch, ...) gives (batch, units), or (..., in) gives (..., units)
/// without flatten. Parameters: weight (units, in), bias (units,).
class SLUICE_API Dense : public Block {
 public:
  /// Throws ValueError for units < 1, in_units < 0 and an unknown activation.
  explicit Dense(std::int64_t units, DenseOptions options = {});

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  friend class MultiHeadAttention;

  /// What layers give for one input, (..., in) to (..., all units), as one product of their weights; undefined where it
  /// takes more than that: for null, an activation, flatten, biases that some have, weights of several types,
  /// parameters of which some are frozen.
  static NDArray side_by_side(std::span<const Dense* const> layers, const NDArray& x, SourceLocation site);
  bool goes_beside(const Dense& first) const;
  /// False where the layer would refuse x, which it is to say itself, by its own name.
  bool would_take(const NDArray& x) const;
  /// Completes and checks it.
  const NDArray& weight_for(const NDArray& x) const;
  void complete(const NDArray& x) const;

  std::int64_t units_;
  bool flatten_;
  bool fused_relu_;
  detail::ActivationFunction activation_;  // null where there is none, or where it is part of the product
  Parameter& weight_;
  Parameter* bias_;
};

}  // namespace sluice::gluon::nn
