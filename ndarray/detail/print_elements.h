#pragma once

#include <string>
#include <vector>

#include <sluice/ndarray/dtype.h>

namespace sluice::detail {

/// The elements as NumPy prints them inside an array: equally wide, floating ones to 8 digits behind the point and
/// without trailing zeros, or all with an exponent where they lie far apart. `values` is row-major.
std::vector<std::string> print_elements(const void* values, DType dtype, std::size_t n);
/// One element as NumPy prints an array without axes: all digits that tell it from its neighbours.
std::string print_scalar(const void* value, DType dtype);

}  // namespace sluice::detail
