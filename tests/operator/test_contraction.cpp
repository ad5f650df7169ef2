// A product and a sum of the library round twice, whatever instructions there are: CPU and GPU agree on random numbers,
// and results do not depend on how a loop was compiled.
#include <cmath>

#include "tests/operator/contracted.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;

TEST_CASE("A product and a sum are not contracted to one rounding where the processor could", "[operator]") {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("fma"))
    SLUICE_SKIP("needs a processor with fused multiply-add");
#endif
  // (1 + h)^2 - (1 + 2h) is h^2, which the product alone rounds away.
  const float f = 1 + 0x1p-12F;
  CHECK(std::fma(f, f, -(1 + 0x1p-11F)) == 0x1p-24F);
  CHECK(product_and_sum(f, f, -(1 + 0x1p-11F)) == 0);
  const double d = 1 + 0x1p-27;
  CHECK(std::fma(d, d, -(1 + 0x1p-26)) == 0x1p-54);
  CHECK(product_and_sum(d, d, -(1 + 0x1p-26)) == 0);
}
