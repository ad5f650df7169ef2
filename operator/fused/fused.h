#pragma once

#include <sluice/operator/operator.h>

namespace sluice::fused {

/// Runs a program over the shape that its inputs stretch to: one output a value that it names, of that shape.
extern SLUICE_API const Operator k_fused;

}  // namespace sluice::fused
