// Arranged arrays and operators made of parts, in a network that is traced once for batches of all sizes.
#include <vector>

#include "tests/gluon/networks.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;

namespace {

namespace nn = gluon::nn;

/// The network gives of batches of such samples what it gives untraced, and is traced once.
void check_one_trace(nn::Lambda& net, const Shape& sample) {
  const auto batch = [&](std::int64_t n) {
    Shape shape = sample;
    shape.insert(0, n);
    return pattern_array(shape);
  };
  std::vector<std::vector<float>> wanted;
  for (const std::int64_t n : {4, 7, 2, 9})
    wanted.push_back(values(net(batch(n))));
  net.hybridize();
  std::size_t i = 0;
  for (const std::int64_t n : {4, 7, 2, 9})
    CHECK(values(net(batch(n))) == wanted[i++]);
  CHECK(net.hybrid_traces() == 1);
}

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
  check_one_trace(net, {4, 2, 6});
}

TEST_CASE(
    "Entries named beside a batch are one trace for all batches, with their gradients too",
    "[gluon][graph][hybrid][batch]") {
  const NDArray along = array<std::int32_t>({2, 0}, {1, 2}), some = array<std::int32_t>({3, 0}),
                few = array<float>({5, 7}), row = array<float>({1, 2, 3, 4});
  nn::Lambda net([=](const NDArray& x) {  // (N, 4)
    const NDArray taken = take_along_axis(x, along, 1), put = put_along_axis(x, along, few, 1);
    const NDArray updated = index_update(x, {some}, few, 1) + add_along_axis(x, along, few, 1);
    const NDArray places = index_update(x, {{}, some}, few) + masked_fill(x, x > 1.0, row);
    return hstack({taken, put, updated, places});
  });
  check_one_trace(net, {4});
  // Gradients look again at what was broadcast to a batch.
  const auto gradient = [&](std::int64_t n) {
    NDArray x = pattern_array({n, 4});
    x.attach_grad();
    NDArray y;
    {
      const autograd::RecordScope record;
      y = net(x);
    }
    y.backward(pattern_array(y.shape(), 3));
    return values(x.grad());
  };
  std::vector<std::vector<float>> made;
  for (const bool hybrid : {false, true}) {
    net.hybridize(hybrid);
    for (const std::int64_t n : {4, 7, 2})
      made.push_back(gradient(n));
  }
  CHECK(net.hybrid_traces() == 1);
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(made[i] == made[i + 3]);
}
