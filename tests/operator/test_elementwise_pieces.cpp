// Which launches an elementwise run on a GPU becomes; host code, so no GPU is needed.
#include <cstdint>
#include <vector>

#include <sluice/operator/elementwise/pieces.h>

#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::detail;

namespace {

std::vector<PointwiseArgs<2>> g_pieces;  // NOLINT: launches are plain functions

PointwiseArgs<2> run_over(const Shape& shape, const Shape& out, const Shape& in) {
  PointwiseArgs<2> args;
  args.plan = plan_strided<2>(shape, {&out, &in}, AxisOrder::free);
  args.dtypes = {DType::float32, DType::float32};
  // Nothing is read: addresses only tell where a piece begins.
  args.data = {reinterpret_cast<std::byte*>(std::uintptr_t{1} << 44), reinterpret_cast<std::byte*>(1ull << 45)};
  return args;
}

const std::vector<PointwiseArgs<2>>& pieces_of(const PointwiseArgs<2>& args, int pack) {
  g_pieces.clear();
  launch_in_pieces<2>(
      args, pack, [](const PointwiseArgs<2>& piece, void*) { g_pieces.push_back(piece); }, nullptr);
  return g_pieces;
}

bool all_fit() {
  for (const PointwiseArgs<2>& piece : g_pieces) {
    if (!fits_32_bits(piece.plan))
      return false;
  }
  return true;
}

std::int64_t total() {
  std::int64_t sum = 0;
  for (const PointwiseArgs<2>& piece : g_pieces)
    sum += piece.plan.size;
  return sum;
}

constexpr std::int64_t k_row = std::int64_t{1} << 30, k_part = std::int64_t{1} << 18;

}  // namespace

TEST_CASE("a narrow view of a wide array is launched row by row, not element by element") {
  // Columns 0 .. 2^18 of a (4, 2^30) array: four rows that lie 2^30 apart.
  REQUIRE(pieces_of(run_over({4, k_part}, {k_part, 1}, {k_row, 1}), 4).size() == 4);
  CHECK(all_fit());
  CHECK(total() == 4 * k_part);
  for (std::int64_t row = 0; row < 4; ++row) {
    const PointwiseArgs<2>& piece = g_pieces[static_cast<std::size_t>(row)];
    CHECK(piece.plan.inner() == k_part);
    CHECK(piece.data[0] - g_pieces[0].data[0] == row * k_part * 4);
    CHECK(piece.data[1] - g_pieces[0].data[1] == row * k_row * 4);
  }
  // Written through the view, and read backwards.
  CHECK(pieces_of(run_over({4, k_part}, {k_row, 1}, {k_part, 1}), 4).size() == 4);
  CHECK(all_fit());
  CHECK(pieces_of(run_over({4, k_part}, {k_part, 1}, {-k_row, 1}), 4).size() == 4);
  CHECK(all_fit());
  // The axis between is the far one.
  CHECK(pieces_of(run_over({k_part, 2, 64}, {128, 64, 1}, {64, k_row, 1}), 4).size() == 2);
  CHECK(all_fit());
}

TEST_CASE("what is larger than 32 bits goes in few pieces of whole vectors, together all of it") {
  const std::int64_t n = (std::int64_t{5} << 30) + 3;
  const auto pieces = pieces_of(run_over({n}, {1}, {1}), 8);
  CHECK(pieces.size() <= 9);
  CHECK(all_fit());
  CHECK(total() == n);
  std::int64_t at = 0;
  for (const PointwiseArgs<2>& piece : pieces) {
    CHECK(piece.data[0] - pieces[0].data[0] == at * 4);
    CHECK(at % 8 == 0);
    at += piece.plan.size;
  }
  // A transposed operand reaches as far along another axis.
  const std::int64_t side = std::int64_t{1} << 16;
  CHECK(pieces_of(run_over({side, side}, {side, 1}, {1, side}), 4).size() <= 32);
  CHECK(all_fit());
  CHECK(total() == side * side);
  // One value for all elements reaches nowhere.
  CHECK(pieces_of(run_over({side, side}, {side, 1}, {0, 0}), 4).size() <= 8);
  CHECK(all_fit());
}

TEST_CASE("what fits is launched once, long runs with a rest of no whole vector twice, nothing never") {
  CHECK(pieces_of(run_over({4, k_part}, {k_part, 1}, {k_part, 1}), 4).size() == 1);
  CHECK(pieces_of(run_over({k_worth_two_launches + 1}, {1}, {1}), 4).size() == 2);
  CHECK(g_pieces[1].plan.size == 1);
  CHECK(pieces_of(run_over({k_worth_two_launches - 1}, {1}, {1}), 4).size() == 1);
  CHECK(pieces_of(run_over({4, 0}, {0, 1}, {0, 1}), 4).empty());
}

TEST_CASE("neighbours that begin at a vector are told from all else, and their plan is as a walk's") {
  const auto vectors_of = [](const PointwiseArgs<2>& args) { return flat_vectors(args, 4); };
  PointwiseArgs<2> flat = run_over({64}, {1}, {1});
  CHECK(vectors_of(flat) == 16);
  CHECK(vectors_of(run_over({8, 8}, {8, 1}, {8, 1})) == 16);
  const StridedPlan<2> plan = plan_of_flat(flat, 16, 4);
  CHECK((plan.ndim == 1 && plan.size == 16 && plan.inner() == 16));
  CHECK((plan.inner_stride(0) == 4 && plan.inner_stride(1) == 4));
  // A number in the operand's place has neither stride nor address.
  PointwiseArgs<2> beside = flat;
  beside.is_constant[1] = true;
  beside.data[1] = nullptr;
  beside.plan.strides[1][0] = 0;
  CHECK(vectors_of(beside) == 16);
  CHECK(plan_of_flat(beside, 16, 4).inner_stride(1) == 0);
  // A rest, none, one element, a step, one value for all, another axis, a start within a vector, more than 32 bits.
  CHECK(vectors_of(run_over({65}, {1}, {1})) == 0);
  CHECK(vectors_of(run_over({0}, {1}, {1})) == 0);
  CHECK(vectors_of(run_over({1}, {1}, {1})) == 0);
  CHECK(vectors_of(run_over({64}, {1}, {2})) == 0);
  CHECK(vectors_of(run_over({64}, {2}, {1})) == 0);
  CHECK(vectors_of(run_over({64}, {1}, {-1})) == 0);
  CHECK(vectors_of(run_over({64}, {1}, {0})) == 0);
  CHECK(vectors_of(run_over({8, 8}, {8, 1}, {1, 8})) == 0);
  for (const int operand : {0, 1}) {
    PointwiseArgs<2> within = flat;
    within.data[static_cast<std::size_t>(operand)] += sizeof(float);
    CHECK(vectors_of(within) == 0);
  }
  CHECK(vectors_of(run_over({(std::int64_t{1} << 30) - 4}, {1}, {1})) == (std::int64_t{1} << 28) - 1);
  CHECK(vectors_of(run_over({std::int64_t{1} << 30}, {1}, {1})) == 0);
}

TEST_CASE("rows and columns of any length are cycles along a result of neighbours, what turns or ends often is none") {
  const auto cycle = [](const PointwiseArgs<2>& args) { return cycle_of(args.plan, 1, 4); };
  const auto is = [&](const PointwiseArgs<2>& args, std::int64_t repeats, std::int64_t count, std::int64_t stride) {
    const auto found = cycle(args);
    return found && found->repeats == repeats && found->count == count && found->stride == stride;
  };
  CHECK(is(run_over({5, 7}, {7, 1}, {7, 1}), 1, 0, 1));            // as the result
  CHECK(is(run_over({5, 7}, {7, 1}, {0, 1}), 1, 7, 1));            // a row
  CHECK(is(run_over({5, 7}, {7, 1}, {0, -2}), 1, 7, -2));          // one of steps
  CHECK(is(run_over({5, 7}, {7, 1}, {3, 0}), 7, 5, 3));            // a column
  CHECK(is(run_over({2, 5, 7}, {35, 7, 1}, {0, 1, 0}), 7, 5, 1));  // a channel's number
  CHECK(is(run_over({2, 5, 7}, {35, 7, 1}, {0, 7, 1}), 1, 35, 1));
  CHECK(is(run_over({2, 5, 7}, {35, 7, 1}, {5, 1, 0}), 7, 10, 1));
  CHECK(is(run_over({2, 5, 7}, {35, 7, 1}, {35, 7, 1}), 1, 0, 1));
  CHECK(is(run_over({5, 4}, {4, 1}, {1, 0}), 4, 5, 1));
  CHECK(!cycle(run_over({5, 3}, {3, 1}, {1, 0})));  // two ends in a vector
  CHECK(!cycle(run_over({5, 3}, {3, 1}, {0, 1})));
  CHECK(!cycle(run_over({5, 7}, {7, 1}, {1, 5})));  // turned
  CHECK(!cycle(run_over({5, 7}, {7, 1}, {8, 1})));  // cut out of wider rows
  CHECK(!cycle(run_over({2, 5, 7}, {35, 7, 1}, {1, 0, 2})));
  CHECK(!cycle(run_over({5, 7}, {7, 1}, {0, 0})));
}

TEST_CASE("cycles are taken for large results of neighbours that begin at a vector") {
  const auto taken = [](const PointwiseArgs<2>& args) { return cycles_of(args, 4).has_value(); };
  const std::int64_t rows = 301, columns = 303;
  const PointwiseArgs<2> good = run_over({rows, columns}, {columns, 1}, {0, 1});
  REQUIRE(taken(good));
  CHECK((*cycles_of(good, 4))[1].count == columns);
  CHECK((*cycles_of(good, 4))[0].count == 0);
  PointwiseArgs<2> within = good;
  within.data[1] += sizeof(float);  // single elements may begin anywhere
  CHECK(taken(within));
  within.data[0] += sizeof(float);
  CHECK(!taken(within));
  PointwiseArgs<2> constant = good;
  constant.is_constant[1] = true;
  CHECK(taken(constant));
  CHECK((*cycles_of(constant, 4))[1].count == 0);
  CHECK(!taken(run_over({rows, columns}, {columns + 1, 1}, {0, 1})));  // written between others
  CHECK(taken(run_over({rows, 2, columns}, {2 * columns, columns, 1}, {1, 0, 0})));
  CHECK(!taken(run_over({8, columns}, {columns, 1}, {0, 1})));         // small
  CHECK(!taken(run_over({k_worth_two_launches, 3}, {3, 1}, {0, 1})));  // short rows
  CHECK(taken(run_over({std::int64_t{1} << 15, (1 << 15) - 1}, {(1 << 15) - 1, 1}, {0, 1})));
  CHECK(!taken(run_over({std::int64_t{1} << 15, (1 << 15) + 1}, {(1 << 15) + 1, 1}, {0, 1})));  // more than 2^30
  CHECK(!taken(run_over({rows, columns}, {columns, 1}, {std::int64_t{1} << 24, 0})));  // reaches beyond 32 bits
  const PointwiseArgs<2> tail = tail_of(good, 3);
  CHECK(tail.plan.size == 3);
  CHECK(tail.data[0] - good.data[0] == (rows * columns - 3) * 4);
  CHECK(tail.data[1] - good.data[1] == (columns - 3) * 4);
}
