#pragma once

#include <cstdint>

#include <sluice/sluice.h>

namespace sluice::bench {

/// A convolution as torchvision's networks have it: as much padding as keeps the extents at stride 1.
struct ConvOptions {
  std::int64_t kernel = 1, stride = 1, dilation = 1;
  bool bias = false;
};

/// Its weight is used in the type of x, whatever type it is kept in, as PyTorch's autocast does: trained in float32,
/// multiplied in bfloat16.
class Conv : public gluon::Block {
 public:
  Conv(std::int64_t in, std::int64_t out, const ConvOptions& options);

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  ConvolutionOptions window_;
  gluon::Parameter& weight_;
  gluon::Parameter* bias_;
};

/// The layer at the end, likewise.
class Linear : public gluon::Block {
 public:
  Linear(std::int64_t in, std::int64_t out);

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  gluon::Parameter &weight_, &bias_;
};

/// A convolution without bias, batch norm and, if wanted, relu.
gluon::nn::Sequential conv_norm(std::int64_t in, std::int64_t out, const ConvOptions& options, bool relu = true);

}  // namespace sluice::bench
