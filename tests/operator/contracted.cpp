// Compiled with fused multiply-add instructions at hand, and with no other flags than the library's.
#include "tests/operator/contracted.h"

#include <sluice/operator/random/draw.h>

namespace sluice::test {

float product_and_sum(float a, float b, float c) noexcept {
  return detail::times_plus(a, b, c);
}
double product_and_sum(double a, double b, double c) noexcept {
  return detail::times_plus(a, b, c);
}

}  // namespace sluice::test
