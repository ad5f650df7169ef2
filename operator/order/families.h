#pragma once

#include <sluice/operator/operator.h>

// Quantiles (quantile.h), for the list of what counts.
namespace sluice::detail {

extern const Operator k_quantile, k_percentile, k_median, k_nanquantile, k_nanpercentile, k_nanmedian;

}  // namespace sluice::detail
