#pragma once

#include <cstdint>

#include <sluice/gluon/block.h>

namespace sluice::gluon::nn {

/// leaky_relu: x, or alpha * x where it is negative (Gluon's nn.LeakyReLU).
class SLUICE_API LeakyReLU : public Block {
 public:
  /// Throws ValueError for alpha < 0.
  explicit LeakyReLU(double alpha);

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  double alpha_;
};

/// Of PReLU.
struct PReLUOptions {
  init::Initializer alpha_initializer = init::Constant(0.25);
  std::int64_t in_channels = 1;  // slopes: one for all, or one for each entry of axis 1
  DType dtype = float32;
};

/// leaky_relu with slopes that are learnt (Gluon's nn.PReLU). Parameter: alpha (in_channels,).
class SLUICE_API PReLU : public Block {
 public:
  /// Throws ValueError for in_channels < 1.
  explicit PReLU(PReLUOptions options = {});

 protected:
  /// Throws ShapeError where there are several slopes and not as many entries of axis 1.
  NDArray forward(const NDArray& x) const override;

 private:
  Parameter& alpha_;
};

/// elu: x, or alpha * (e^x - 1) where it is negative (Gluon's nn.ELU).
class SLUICE_API ELU : public Block {
 public:
  explicit ELU(double alpha = 1);

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  double alpha_;
};

/// selu (Gluon's nn.SELU).
class SLUICE_API SELU : public Block {
 protected:
  NDArray forward(const NDArray& x) const override;
};

/// By the error function, or by tanh.
enum class GELUForm : std::uint8_t { erf, tanh };

/// gelu or gelu_tanh (Gluon's nn.GELU).
class SLUICE_API GELU : public Block {
 public:
  explicit GELU(GELUForm form = GELUForm::erf);

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  GELUForm form_;
};

/// x * sigmoid(beta * x) (Gluon's nn.Swish).
class SLUICE_API Swish : public Block {
 public:
  explicit Swish(double beta = 1);

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  double beta_;
};

/// Swish with beta 1 (Gluon's nn.SiLU).
class SLUICE_API SiLU : public Swish {};

}  // namespace sluice::gluon::nn
