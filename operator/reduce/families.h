#pragma once

#include <sluice/operator/operator.h>

// The reductions that are made of others (composed.h), for the list of the family.
namespace sluice::detail {

extern const Operator k_nanprod, k_nanmean, k_nanmax, k_nanmin, k_norm;
extern const Operator k_nanvar, k_nanstd, k_nanargmax, k_nanargmin;
/// Which they are made of.
extern const Operator k_argmax, k_argmin;

}  // namespace sluice::detail
