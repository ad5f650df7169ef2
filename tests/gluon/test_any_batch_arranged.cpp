// Arranged arrays and operators made of parts, in a network that is traced once for batches of all sizes.
#include <vector>

#include "tests/gluon/networks.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;

namespace {

namespace nn = gluon::nn;

}  // namespace

TEST_CASE("Arranged arrays and what is made of parts are one trace for all batches", "[gluon][graph][hybrid][batch]") {
  nn::Lambda net([](const NDArray& x) {  // (N, 4, 2, 6)
    const NDArray squares = depth_to_space(x, 2) + pixel_shuffle(x, 2);
    const NDArray back = space_to_depth(squares, 2) + pixel_unshuffle(squares, 2) + softmin(x, 1);
    const NDArray rows = moveaxis(back, 1, -1).flatten();  // (N, 48)
    const std::vector<NDArray> parts = split(rows, 2, 1);
    const NDArray halves = glu(rows) + fliplr(array_split(rows, 2, 1)[1]) + parts[0] * quantile(parts[1], 0.3, 1, true);
    const std::vector<NDArray> both =
        broadcast_arrays({halves, cosine_similarity(halves, halves * 2.0).expand_dims(1)});
    const NDArray places = arange(0, 24), likely = interp(sigmoid(both[0]), places / 24.0, places);
    const NDArray sides = column_stack({trapezoid(likely), ptp(likely, {1}), sum(both[1], {1}), median(rows, 1)});
    return hstack({sides, isin(likely, places).astype(float32)}) + sum(new_ones(x, {2}));
  });
  const auto batch = [](std::int64_t n) { return pattern_array({n, 4, 2, 6}); };
  std::vector<std::vector<float>> wanted;
  for (const std::int64_t n : {4, 7, 2, 9})
    wanted.push_back(values(net(batch(n))));
  net.hybridize();
  std::size_t i = 0;
  for (const std::int64_t n : {4, 7, 2, 9})
    CHECK(values(net(batch(n))) == wanted[i++]);
  CHECK(net.hybrid_traces() == 1);
}
