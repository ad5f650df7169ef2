#pragma once

#include <sluice/operator/operator.h>

// What the registry lists of replaced.cpp.
namespace sluice::detail {

extern const Operator k_put, k_masked_fill;

}  // namespace sluice::detail
