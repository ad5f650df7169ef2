#pragma once

#include <cstdint>

#include <sluice/gluon/block.h>

namespace sluice::gluon::nn {

/// Of LayerNorm.
struct LayerNormOptions {
  int axis = -1;
  double epsilon = 1e-5;
  bool center = true;  // train beta
  bool scale = true;   // train gamma
  init::Initializer beta_initializer = init::Zero();
  init::Initializer gamma_initializer = init::One();
  std::int64_t in_channels = 0;  // 0: found at the first forward
};

/// layer_norm() along an axis (Gluon's nn.LayerNorm). Parameters: gamma and beta, each (in_channels,).
class SLUICE_API LayerNorm : public Block {
 public:
  /// Throws ValueError for in_channels < 0 or an epsilon that is negative.
  explicit LayerNorm(LayerNormOptions options = {});

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  int axis_;
  double epsilon_;
  Parameter &gamma_, &beta_;
};

/// Of RMSNorm.
struct RMSNormOptions {
  int axis = -1;
  double epsilon = 1e-5;
  bool scale = true;  // train gamma
  init::Initializer gamma_initializer = init::One();
  std::int64_t in_channels = 0;  // 0: found at the first forward
};

/// rms_norm() along an axis. Parameter: gamma, (in_channels,).
class SLUICE_API RMSNorm : public Block {
 public:
  /// Throws ValueError as LayerNorm does.
  explicit RMSNorm(RMSNormOptions options = {});

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  int axis_;
  double epsilon_;
  Parameter& gamma_;
};

/// Of GroupNorm.
struct GroupNormOptions {
  std::int64_t num_groups = 1;
  double epsilon = 1e-5;
  bool center = true;  // train beta
  bool scale = true;   // train gamma
  init::Initializer beta_initializer = init::Zero();
  init::Initializer gamma_initializer = init::One();
  std::int64_t in_channels = 0;  // 0: found at the first forward
};

/// group_norm() of channels on axis 1 (Gluon's nn.GroupNorm). Parameters: gamma and beta, each (in_channels,).
class SLUICE_API GroupNorm : public Block {
 public:
  /// Throws ValueError for num_groups < 1, and as LayerNorm does.
  explicit GroupNorm(GroupNormOptions options = {});

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  std::int64_t num_groups_;
  double epsilon_;
  Parameter &gamma_, &beta_;
};

/// Of InstanceNorm.
struct InstanceNormOptions {
  int axis = 1;  // of the channels
  double epsilon = 1e-5;
  bool center = true;  // train beta
  bool scale = false;  // train gamma
  init::Initializer beta_initializer = init::Zero();
  init::Initializer gamma_initializer = init::One();
  std::int64_t in_channels = 0;  // 0: found at the first forward
};

/// instance_norm() (Gluon's nn.InstanceNorm). Parameters: gamma and beta, each (in_channels,).
class SLUICE_API InstanceNorm : public Block {
 public:
  /// Throws ValueError as LayerNorm does.
  explicit InstanceNorm(InstanceNormOptions options = {});

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  int axis_;
  double epsilon_;
  Parameter &gamma_, &beta_;
};

}  // namespace sluice::gluon::nn
