#pragma once

#include <sluice/operator/operator.h>

// Calls with arrays of stored types (ndarray/dtype.h), which no kernel computes with.
namespace sluice::detail {

/// Whether a call in its normal form has an input of a stored type that is reckoned with, not only moved: operators
/// that stand in no list of stored_types.cpp, users' own too, are given their inputs as they are.
bool is_reckoned(const Operator& op, std::span<const NDArray> inputs);
/// The results of such a call, by one in int64 whose results are cast back: what is too large wraps, as NumPy's
/// integers do. uint64 is the same bits; where the order of numbers matters, with the highest one turned. Throws
/// what inference throws, and DTypeError where uint64 cannot be had so. No call waits.
Arrays reckon(const Operator& op, std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site);

}  // namespace sluice::detail
