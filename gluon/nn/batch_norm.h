#pragma once

#include <cstdint>

#include <sluice/gluon/block.h>
#include <sluice/operator/norm/norm.h>

namespace sluice::gluon::nn {

/// Of BatchNorm.
struct BatchNormOptions {
  int axis = 1;  // of the channels
  double momentum = 0.9;
  double epsilon = 1e-5;
  bool center = true;  // add beta
  bool scale = true;   // multiply by gamma
  bool use_global_stats = false;
  init::Initializer beta_initializer = init::Zero();
  init::Initializer gamma_initializer = init::One();
  init::Initializer running_mean_initializer = init::Zero();
  init::Initializer running_variance_initializer = init::One();
  std::int64_t in_channels = 0;  // 0: found at the first forward
};

/// Batch normalisation (Gluon's nn.BatchNorm), any rank. Parameters: gamma, beta, running_mean, running_var, each
/// (channels,); the running ones are not trained but follow the batches in training. Under cast() to a 16-bit type
/// the parameters stay float32.
class SLUICE_API BatchNorm : public Block {
 public:
  /// Throws ValueError for in_channels < 0, epsilon <= 0 or a momentum outside [0, 1].
  explicit BatchNorm(BatchNormOptions options = {});
  void cast(DType dtype) override;

 protected:
  NDArray forward(const NDArray& x) const override;
  /// Gives parameters that wait for it their shape.
  void complete(const NDArray& x) const;

  sluice::BatchNormOptions settings_;
  Parameter &gamma_, &beta_, &running_mean_, &running_var_;
};

/// relu of BatchNorm (Gluon's nn.BatchNormReLU): one layer for nn::BatchNorm with nn::Activation("relu") behind it. In
/// a hybridized network on a GPU the two are one kernel, as are those.
class SLUICE_API BatchNormReLU : public BatchNorm {
 public:
  using BatchNorm::BatchNorm;

 protected:
  NDArray forward(const NDArray& x) const override;
};

}  // namespace sluice::gluon::nn
