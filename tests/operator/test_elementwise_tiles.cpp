// In which order a GPU walks an elementwise run over transposed operands; host code, so no GPU is needed.
#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <vector>

#include <sluice/operator/elementwise/tiles.h>

#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::detail;

namespace {

template <std::size_t K>
using Places = std::vector<std::array<std::int64_t, K>>;

/// Where each operand's element lies, in the plan's order.
template <int K>
Places<K> places_of(const StridedPlan<K>& plan) {
  Places<K> places;
  walk_runs(plan, 0, plan.size, [&](const StridedRun<K>& run) {
    for (std::int64_t i = 0; i < run.count; ++i) {
      auto place = run.offset;
      for (int k = 0; k < K; ++k)
        place[k] += i * run.step[k];
      places.push_back(place);
    }
  });
  return places;
}

template <std::size_t K>
bool same_elements(Places<K> a, Places<K> b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

/// Sectors of 32 bytes that `count` elements of an operand from `first` on lie in.
template <std::size_t K>
std::size_t sectors(const Places<K>& places, int operand, std::size_t first, std::size_t count, std::size_t element) {
  std::set<std::int64_t> met;
  for (std::size_t i = first; i < first + count; ++i)
    met.insert(places[i][static_cast<std::size_t>(operand)] * static_cast<std::int64_t>(element) / 32);
  return met.size();
}

StridedPlan<3> sum_with_transposed(std::int64_t n) {
  const Shape rows{n, 1}, columns{1, n};
  return plan_strided<3>({n, n}, {&rows, &rows, &columns}, AxisOrder::free);
}

}  // namespace

TEST_CASE("Tiles hold the elements of the plan, and a block touches whole sectors of every operand") {
  for (const std::size_t element : {1, 2, 4, 8}) {
    CAPTURE(element);
    const StridedPlan<3> plan = sum_with_transposed(256);
    StridedPlan<3> tiled = plan;
    order_in_tiles(tiled, element);
    const Places<3> places = places_of(tiled);
    CHECK(tiled.ndim > plan.ndim);
    CHECK(same_elements(places, places_of(plan)));
    constexpr std::size_t k_block = 256;
    const std::size_t least = k_block * element / 32;
    for (const std::size_t first : {std::size_t{0}, 7 * k_block, places.size() - k_block}) {
      CHECK(sectors(places, 0, first, k_block, element) == least);
      // A byte's tile would need 32 warps for that.
      CHECK(sectors(places, 2, first, k_block, element) <= (element == 1 ? 4 * least : least));
      CHECK(sectors(places_of(plan), 2, first, k_block, element) == k_block);
    }
  }
}

TEST_CASE("Tiles walk a batch of transposed matrices, and operands that are broadcast beside them") {
  const Shape shape{3, 64, 32}, out{2048, 32, 1}, turned{2048, 1, 64}, row{0, 0, 1}, column{0, 1, 0};
  StridedPlan<4> plan = plan_strided<4>(shape, {&out, &turned, &row, &column}, AxisOrder::free);
  const Places<4> before = places_of(plan);
  order_in_tiles(plan, 4);
  CHECK(plan.ndim > 3);
  CHECK(same_elements(places_of(plan), before));
}

TEST_CASE("A plan stays in its order where operands agree, tiles do not fit, or axes would be too many") {
  const auto stays = [](StridedPlan<2> plan) {
    const int before = plan.ndim;
    order_in_tiles(plan, 4);
    return plan.ndim == before;
  };
  const Shape rows{64, 1}, columns{1, 64}, spread{128, 2}, column{1, 0};
  CHECK(!stays(plan_strided<2>({64, 64}, {&rows, &columns}, AxisOrder::free)));
  CHECK(stays(plan_strided<2>({64, 64}, {&rows, &rows}, AxisOrder::free)));
  CHECK(stays(plan_strided<2>({64, 64}, {&rows, &spread}, AxisOrder::free)));
  CHECK(stays(plan_strided<2>({64, 64}, {&rows, &column}, AxisOrder::free)));
  CHECK(stays(plan_strided<2>({64, 64}, {&spread, &columns}, AxisOrder::free)));
  const Shape odd_rows{63, 1}, odd_columns{1, 63};
  CHECK(stays(plan_strided<2>({63, 63}, {&odd_rows, &odd_columns}, AxisOrder::free)));
  const Shape five{2, 2, 2, 64, 64}, out{65536, 16384, 4096 * 3, 64, 1}, in{32768 * 5, 32768, 4096 * 7, 1, 64};
  CHECK(stays(plan_strided<2>(five, {&out, &in}, AxisOrder::free)));
}
