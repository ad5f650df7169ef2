#pragma once

#include <sluice/engine/export.h>
#include <sluice/gluon/block.h>
#include <sluice/ndarray/dtype.h>

namespace sluice::amp {

/// Casts the parameters of `net` to a half type, but for those of norms (batch, layer, RMS, group, instance), which
/// stay as they are and take half arrays too: for inference, and for training by an optimizer with multi_precision.
/// Inputs are to be of that type then. Throws DTypeError for a type that is neither float16 nor bfloat16.
SLUICE_API void convert_block(gluon::Block& net, DType dtype = bfloat16);

}  // namespace sluice::amp
