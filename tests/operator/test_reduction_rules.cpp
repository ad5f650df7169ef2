// Which reductions a graph takes in on a GPU: the estimates that decide, without one.
#include <sluice/operator/graph/detail/reduction_rules.h>

#include "tests/operator/reduced_programs.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
using namespace sluice::graph;
using sluice::detail::ReduceForm;
using sluice::detail::ReduceWalk;

namespace {

constexpr KernelUse k_whole = {1, 1};

/// Of so many float32 elements: `read` and `written` arrays of them, of `instructions` each.
ChainWork chain(double elements, double instructions, int read, int written = 0, bool are_kept = false) {
  return {elements, instructions, 4 * elements * read, 4 * elements, 4 * elements * written, are_kept};
}

}  // namespace

TEST_CASE("Where a reduction uses the whole GPU it takes its chain in", "[reduction][fusion]") {
  for (const double elements : {1e3, 1e5, 1e7, 1e9}) {
    for (const int read : {1, 3, 8})
      CHECK(joins_on_gpu(chain(elements, 20, read), k_whole));
    CHECK(joins_on_gpu(chain(elements, 20, 2, 1), k_whole));
    CHECK(joins_on_gpu(chain(elements, 20, 2, 1, true), k_whole));
  }
}

TEST_CASE("Where most lanes are idle, or most of the GPU, chains that read much stay apart", "[reduction][fusion]") {
  // Rows of 10 in warps: three lanes for one that works.
  const KernelUse rows{1, 3.2};
  CHECK(joins_on_gpu(chain(1e8, 20, 1), rows));
  CHECK_FALSE(joins_on_gpu(chain(1e8, 20, 3), rows));
  CHECK_FALSE(joins_on_gpu(chain(1e8, 20, 1, 1), rows));
  // One block of 256 threads for 16384 terms: functions that are long take longer there than by a kernel.
  const KernelUse one_block{1.0 / 132, 1};
  CHECK(joins_on_gpu(chain(16384, 20, 1), one_block));
  CHECK_FALSE(joins_on_gpu(chain(16384, 200, 1), one_block));
}

TEST_CASE("What others wait for is not made by the few blocks of a reduction", "[reduction][fusion]") {
  // The gradient of a bias: 32 blocks of columns, while products wait for the gradient itself.
  const KernelUse columns{32.0 / 132, 1};
  CHECK_FALSE(joins_on_gpu(chain(1024 * 1024, 2, 2, 1, true), columns));
  CHECK(joins_on_gpu(chain(1024 * 1024, 2, 1), columns));
  CHECK_FALSE(joins_on_gpu(chain(1024 * 1024, 2, 3), columns));
}

TEST_CASE("A part is taken out of a kernel where reading again costs less than the terms", "[reduction][fusion]") {
  ChainWork whole = chain(1e7, 40, 3, 1);
  CHECK(parts_on_gpu(chain(1e7, 20, 1), chain(1e7, 20, 2), whole, k_whole));
  CHECK_FALSE(parts_on_gpu(chain(1e7, 20, 3), chain(1e7, 20, 3), whole, k_whole));
  CHECK(parts_on_gpu(chain(1e7, 20, 1), chain(1e7, 20, 2), whole, {1, 4}));
  CHECK_FALSE(parts_on_gpu(chain(1e7, 20, 2), chain(1e7, 20, 2), whole, {1, 4}));
}

TEST_CASE("Work is what the calls compute and what lies in memory", "[reduction][fusion]") {
  const fused::Program cheap = product_for(Reduction::sum, float32);
  const ArraySpec terms{{64, 100}, float32}, row{{100}, float32};
  const Joining joining{.program = cheap, .reduction = {Reduction::sum, {0}}, .terms = terms, .inputs = {terms, row}};
  const ChainWork work = work_of(joining);
  CHECK(work.elements == 6400);
  CHECK(work.read == 4 * (6400 + 100));
  CHECK(work.terms == 4 * 6400);
  CHECK(work.written == 0);
  ProgramBuilder build;
  const auto x = build.input(float32);
  const auto last = build.call("tanh", {build.call("exp", {x})});
  const fused::Program dear = build.with_outputs({last, last});
  const ChainWork more =
      work_of({.program = dear, .reduction = {}, .terms = terms, .inputs = {terms}, .are_kept = true});
  CHECK(more.instructions > 10 * work.instructions);
  CHECK(more.written == 4 * 6400);
  CHECK(more.are_kept);
}

TEST_CASE("A kernel's use is that of its blocks and lanes", "[reduction][fusion]") {
  const auto plan_of = [](const Shape& shape, const Shape& axes) {
    const TensorView x{.shape = shape, .strides = contiguous_strides(shape), .size = shape.size()};
    return sluice::detail::plan_reduce(x, axes);
  };
  const ReduceForm rows{.walk = ReduceWalk::rows, .vector = 4, .width = 32, .blocks = 1000, .split = {100, 1}};
  CHECK(use_of(rows, plan_of({8000, 100}, {1}), 4).waste == 32.0 / 25);
  CHECK(use_of(rows, plan_of({8000, 100}, {1}), 4).share == 1);
  CHECK(use_of(rows, plan_of({8000, 128}, {1}), 4).waste == 1);
  const ReduceForm columns{.walk = ReduceWalk::columns, .vector = 1, .width = 32, .blocks = 33, .split = {64, 1}};
  CHECK(use_of(columns, plan_of({64, 1056}, {0}), 4).share == 0.25);
  CHECK(use_of(columns, plan_of({64, 40}, {0}), 4).waste == 1.6);
  CHECK(use_of(columns, plan_of({4, 1056}, {0}), 4).waste == 2);
  // Terms that lie apart are read a line each.
  const ReduceForm general{.walk = ReduceWalk::general, .vector = 1, .width = 1, .blocks = 132, .split = {6, 1}};
  CHECK(use_of(general, plan_of({2, 300, 3, 40}, {0, 2}), 4).waste == 1);
  CHECK(use_of(general, plan_of({300, 2, 30, 3}, {1, 3}), 4).waste == 3);
  const ReduceForm wide{.walk = ReduceWalk::general, .vector = 1, .width = 32, .blocks = 132, .split = {128, 1}};
  CHECK(use_of(wide, plan_of({2, 64, 2, 50}, {1, 3}), 4).waste == 1);
  CHECK(use_of(wide, plan_of({64, 2, 2, 50}, {0, 2}), 4).waste == 8);
  CHECK(use_of({}, plan_of({0, 3}, {0}), 4).waste == 1);
}

TEST_CASE("On a CPU what others read stays apart, and short runs do", "[reduction][fusion]") {
  const fused::Program alone = product_for(Reduction::sum, float32);
  fused::Program kept = alone;
  kept.outputs.push_back(alone.outputs[0]);
  const auto joins = [&](const fused::Program& program, const Shape& shape, const Shape& axes) {
    const ArraySpec terms{shape, float32};
    return is_worth_joining(
        {.program = program, .reduction = {Reduction::sum, axes}, .terms = terms, .inputs = {terms, terms}});
  };
  CHECK(joins(alone, {9, 64}, {0}));
  CHECK_FALSE(joins(kept, {9, 64}, {0}));
  CHECK(joins(alone, {9, 5, 64}, {0, 2}));
  CHECK_FALSE(joins(alone, {9, 5, 63}, {0, 2}));
}
