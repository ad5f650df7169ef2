#pragma once

#ifdef SLUICE_ONEDNN
#include <cstdint>
#include <memory>

#include <sluice/operator/conv/geometry.h>
#include <sluice/operator/library/onednn.h>

namespace sluice::detail {

/// A part of a convolution: its own geometry, and the strides of the whole in elements.
struct ConvolutionPart {
  ConvolutionGeometry g;
  std::int64_t x_image, y_image, weight_row;
};

/// What oneDNN runs for a pass of that part, made once; not usable where oneDNN has nothing that is quicker than our
/// own. Gradients of weight and bias are float32 whatever the geometry's type.
std::shared_ptr<const OnednnPlan> convolution_plan(
    Onednn& library, ConvolutionPass pass, const ConvolutionPart& part, bool bias);

}  // namespace sluice::detail
#endif
