#pragma once

#include <cstdint>
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
  std::int64_t units_;
  bool flatten_;
  bool fused_relu_;
  detail::ActivationFunction activation_;  // null where there is none, or where it is part of the product
  Parameter& weight_;
  Parameter* bias_;
};

}  // namespace sluice::gluon::nn
