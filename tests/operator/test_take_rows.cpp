// Rows that are long enough to be asked for before they are copied.
#include <cstdint>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/engine/expect.h"
#include "tests/operator/simd_targets.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

TEST_CASE("Rows of any length and number are taken, by names from either end", "[take]") {
  Engine engine({.workers = 1});  // whose pieces are long
  const EngineScope scope(engine);
  for (const std::int64_t width : {1, 63, 64, 65, 511, 512, 513, 700}) {
    for (const std::int64_t n : {0, 1, 2, 3, 511, 512, 513, 1025, 5000}) {
      CAPTURE(width, n);
      std::vector<std::int64_t> names(static_cast<std::size_t>(n));
      for (std::int64_t i = 0; i < n; ++i)
        names[static_cast<std::size_t>(i)] = i % 3 == 0 ? -1 - i % 9 : i * 7 % 9;
      const NDArray x = random_array({9, width}, 3), numbers = array(names, {n});
      const NDArray chosen = one_hot(fmod(numbers.astype(float32) + 9.0, 9).astype(int64), 9);
      for (const NDArray& of : {x, random_array({9, 2 * width}, 4).slice(1, 0, 2 * width, 2)}) {
        const NDArray want = n == 0 ? zeros({0, width}) : matmul(chosen, of);
        CHECK(differences(take(of, numbers), want, {1e-6, 1e-6}) == "");
        CHECK(differences(embedding(numbers.astype(int32), of), want, {1e-6, 1e-6}) == "");
      }
    }
  }
  CHECK(take(zeros({5, 0}), zeros({7}, {.dtype = int64})).shape() == Shape{7, 0});
}

TEST_CASE("A name of no row is refused wherever it stands among long rows", "[take]") {
  for (const std::int64_t at : {0, 1, 510, 511, 512, 1024}) {
    const NDArray names = where(equal(arange(0, 1025), static_cast<double>(at)), 9, 3).astype(int64);
    CHECK_THROWS_AS(take(random_array({9, 128}, 1), names).wait_to_read(), IndexError);
  }
}
