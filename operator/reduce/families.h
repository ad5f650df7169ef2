#pragma once

#include <sluice/operator/operator.h>

// The reductions that are made of others (composed.h), for the list of the family.
namespace sluice::detail {

extern const Operator k_nanprod, k_nanmean, k_nanmax, k_nanmin, k_norm;

}  // namespace sluice::detail
