#pragma once

#include <cmath>
#include <limits>
#include <string>

#include <sluice/engine/error.h>

// What constructors of optimizers ask of their options.
namespace sluice::gluon::detail {

inline constexpr double k_any = std::numeric_limits<double>::max();
inline constexpr double k_below_one = 1 - std::numeric_limits<double>::epsilon() / 2;

inline void require_range(const std::string& optimizer, const char* what, double value, double low, double high) {
  require(std::isfinite(value) && value >= low && value <= high, [&] {
    const std::string is = message(optimizer, ": ", what, " is ", value, ", it must be ");
    return high == k_any         ? message(is, "finite and at least ", low)
           : high == k_below_one ? message(is, "at least ", low, " and less than 1")
                                 : message(is, "within [", low, ", ", high, "]");
  });
}

inline void require_betas(const std::string& optimizer, double beta1, double beta2, double epsilon) {
  require_range(optimizer, "beta1", beta1, 0, k_below_one);  // at 1 nothing is ever learnt
  require_range(optimizer, "beta2", beta2, 0, k_below_one);
  require_range(optimizer, "epsilon", epsilon, 0, k_any);
}

inline void require_number(const std::string& optimizer, const char* what, double value) {
  require(!std::isnan(value), [&] {
    return message(optimizer, ": ", what, " is ", value, ", it must be a number; a negative one is for none");
  });
}

}  // namespace sluice::gluon::detail
