#pragma once

#include <sluice/ndarray/ndarray.h>

namespace sluice {

/// While autograd::is_training(): zero with probability `rate`, otherwise x / (1 - rate). Otherwise x itself. The
/// mask is not stored: backward draws it again, from the state of the random numbers that forward noted. Same mask on
/// CPU and GPU. Floating types. Throws ValueError unless 0 <= rate <= 1, DTypeError. (Srivastava et al., "Dropout",
/// 2014; scaled in training.)
SLUICE_API NDArray dropout(const NDArray& x, double rate, SourceLocation site = SourceLocation::current());

}  // namespace sluice
