#pragma once

#include <string>

#include <sluice/engine/error.h>

namespace sluice {

/// What ErrorWord::code says of its numbers. Of an index: the index, and the extent it is outside of. Of a matrix:
/// which one of a batch, and the place where it failed, counted from 1.
enum class FaultCode : int { none = 0, index = 1, singular = 2, indefinite = 3, not_converged = 4 };

namespace detail {

/// The sentence about a matrix, without who found it.
inline std::string matrix_fault(FaultCode code, long long matrix, long long place) {
  const std::string which = message("matrix ", matrix, " of the batch ");
  if (code == FaultCode::singular)
    return message(which, "is singular: pivot ", place, " is 0");
  if (code == FaultCode::indefinite)
    return message(which, "is not positive definite: its leading minor of order ", place, " is not");
  return message(which, "did not converge: ", place, " values are missing");
}

}  // namespace detail

}  // namespace sluice
