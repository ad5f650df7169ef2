#pragma once

// Vector loops of the elementwise rows, for the instruction set of simd::target(). Null where there is none: the plain
// loops serve there.
#include <sluice/operator/elementwise/pointwise.h>
#include <sluice/operator/elementwise/rows.h>

namespace sluice::simd {

using detail::PointwiseLoop;

/// y from x; T is float or double, as below.
template <class T>
PointwiseLoop unary_loop(Unary row);
/// dx from dy, x, y.
template <class T>
PointwiseLoop unary_backward_loop(Unary row);
/// y from a, b.
template <class T>
PointwiseLoop binary_loop(Binary row);
/// da (operand 0) or db (operand 1) from dy, a, b, y.
template <class T, int operand>
PointwiseLoop binary_backward_loop(Binary row);

/// After loops that stream: before another thread reads what they wrote.
void finish_streams() noexcept;

}  // namespace sluice::simd
