#pragma once

#include <sluice/operator/operator.h>

// Arrays of a form (grids.h) and axes in another order (arranged.h), for the list of the family.
namespace sluice::detail {

extern const Operator k_eye, k_linspace, k_meshgrid;
extern const Operator k_moveaxis, k_rot90;

}  // namespace sluice::detail
