#pragma once

// What tests of a convolution with what follows it are made of.
#include <vector>

#include "tests/operator/heavy_reference.h"

namespace sluice::test {

struct FusedConvolution {
  Shape x, weight;
  ConvolutionOptions options = {};
};

inline NDArray draw(const Shape& shape, std::uint64_t seed, DType dtype, Device device) {
  return random_array(shape, seed, -1, 1, dtype).to(device);
}

inline DType coefficients_of(DType dtype) {
  return dtype == float64 ? float64 : float32;
}

// Scale, shift and residual by the bits of `which`.
inline ConvolutionEpilogue epilogue_of(int which, const Shape& y, DType dtype, Device device) {
  ConvolutionEpilogue then;
  if ((which & 1) != 0)
    then.scale = draw({y[1]}, 3, coefficients_of(dtype), device);
  if ((which & 2) != 0)
    then.shift = draw({y[1]}, 4, coefficients_of(dtype), device);
  if ((which & 4) != 0)
    then.residual = draw(y, 5, dtype, device);
  return then;
}

}  // namespace sluice::test
