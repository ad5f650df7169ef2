// Reductions of programs on a GPU: to the last bit what both give one after the other there. On a real GPU they are
// kernels made by NVRTC, on a simulated one both run within one task, but for those of test_reduction_kernels_sim.cpp.
#include <limits>
#include <string>
#include <vector>

#include <sluice/operator/fused/fused.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/graph/plan.h>
#include <sluice/operator/graph/trace.h>

#include "tests/operator/random_program.h"
#include "tests/operator/reduction_graphs.h"
#include "tests/support/bytes.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
using sluice::detail::ReductionCall;

namespace {

NDArray draw(const Shape& shape, std::uint64_t seed, DType dtype) {
  return random_terms(shape, seed, dtype, gpu());
}

std::string difference_of(const fused::Program& program, const ReductionCall& call, const Arrays& inputs) {
  const Attributes attributes = fused::attributes_of(program, call);
  const Arrays got = invoke(fused::k_fused_reduction, inputs, attributes, SourceLocation::current());
  const Arrays wanted = fused::compose_reduction(inputs, attributes, SourceLocation::current());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const bool is_wide = wanted[i].dtype() == float64;  // whose NaNs differ on a GPU
    const std::string difference = first_difference(
        is_wide ? all_bytes({got[i]})[0] : bits_of(got[i]), is_wide ? all_bytes({wanted[i]})[0] : bits_of(wanted[i]));
    if (difference != "none")
      return message("result ", i, ": ", difference);
  }
  return got.size() == wanted.size() ? "none" : "another number of results";
}

void check_same(const fused::Program& program, const ReductionCall& call, const Arrays& inputs) {
  CAPTURE(fused::to_text(program), sluice::detail::operator_of(call.row).name, call.axes, inputs[0].shape());
  CHECK(difference_of(program, call, inputs) == "none");
}

/// One shape a form: rows and columns in vectors and not, general walks too, pieces, nothing.
const std::vector<Shape> k_shapes = {
    {},
    {1},
    {5000},
    {6, 37},
    {6, 64},
    {4100, 33},
    {300, 130},
    {3, 70, 40},
    {2, 9, 130},
    {2, 3, 4, 5},
    {2, 3, 2, 96},
    {0, 5},
    {5, 0}};

}  // namespace

TEST_CASE("Every reduction of every type gives the same behind a program on a GPU", "[fused][gpu][reduction]") {
  SLUICE_NEEDS_GPUS(1);
  // One after the other they are tested elsewhere.
  const std::vector<Shape> shapes = fused::runs_on(gpu()) ? k_shapes : std::vector<Shape>{{6, 37}, {0, 5}};
  for (const DType dtype : k_all_dtypes) {
    for (const Reduction row : all_reductions()) {
      const fused::Program program = product_for(row, dtype);
      for (const Shape& shape : shapes) {
        if (shape.size() == 0 && !takes_nothing(row))
          continue;
        const Arrays inputs{draw(shape, 1, dtype), draw(shape, 2, dtype)};
        for (const Shape& axes : sets_of_axes(shape.ndim()))
          check_same(program, {row, axes, axes.ndim() == 1}, inputs);
      }
    }
  }
}

TEST_CASE("Terms enough to be cut into pieces are cut alike on a GPU", "[fused][gpu][reduction][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  for (const Shape& shape :
       {Shape{3000007}, Shape{3, 100003}, Shape{100003, 3}, Shape{1030, 1025}, Shape{40, 3, 9000}}) {
    for (const DType dtype : {float32, float64, bfloat16, int32, bool_}) {
      const Arrays inputs{draw(shape, 3, dtype), draw(shape, 4, dtype)};
      for (const Reduction row :
           {Reduction::sum, Reduction::mean, Reduction::variance, Reduction::logsumexp, Reduction::any}) {
        for (const Shape& axes : sets_of_axes(shape.ndim()))
          check_same(product_for(row, dtype), {row, axes}, inputs);
      }
    }
  }
}

// The boundary between program and reduction: a product that a sum follows, of any row.
TEST_CASE("Any row before a sum rounds on a GPU as by itself", "[fused][gpu][reduction][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {float32, float64, float16}) {
    for (const Operator* const op : fusable_operators()) {
      fused::Program program = program_of_one(*op, dtype);
      if (program.calls.empty() || !sluice::detail::reads(Reduction::variance, program.calls[0].dtype))
        continue;
      Arrays inputs;
      for (const DType input : program.inputs)
        inputs.push_back(draw({257, 60}, inputs.size() + 7, input));
      for (const Reduction row : {Reduction::sum, Reduction::variance, Reduction::l2_norm}) {
        check_same(program, {row, {0}}, inputs);
        check_same(program, {row, {1}}, inputs);
      }
    }
  }
}

TEST_CASE("Random programs of several results are reduced on a GPU as by hand", "[fused][gpu][reduction]") {
  SLUICE_NEEDS_GPUS(1);
  ProgramDraw any(91);
  const Shape shapes[] = {{97, 101}, {6, 5}, {1, 700}, {700, 1}, {3, 5, 170}, {3, 32, 70}, {0, 4}};
  int checked = 0;
  for (unsigned i = 0; i < 120; ++i) {
    if (const auto made = random_reduction(any, shapes, i + 7, gpu())) {
      check_same(made->program, made->call, made->inputs);
      ++checked;
    }
  }
  CHECK(checked > 60);
}

TEST_CASE("Special values are reduced on a GPU as they are one after the other", "[fused][gpu][reduction]") {
  SLUICE_NEEDS_GPUS(1);
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> special = {0, -0.0f, inf, -inf, nan, 1e-40f, 3e38f, 1e-20f, 1};
  for (const DType dtype : {float16, float32}) {
    for (const Reduction row : all_reductions()) {
      std::vector<float> values(300 * 8, 0.25f);
      for (std::size_t i = 0; i < special.size(); ++i)
        values[i * 131 + 3] = special[i];
      const NDArray x = array(values, {300, 8}).astype(dtype).to(gpu());
      for (const Shape& axes : sets_of_axes(2))
        check_same(product_for(row, dtype), {row, axes}, {x, x});
    }
  }
}

TEST_CASE("A plan on a GPU takes reductions in, and gives the same", "[fusion][gpu][reduction][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  if (!fused::runs_on(gpu()))
    SLUICE_SKIP("nothing is compiled at run time");
  using graph::TakenReductions;
  const NDArray x = draw({512, 2048}, 1, float32), y = draw({2048}, 2, float32);
  const auto body = [&](const NDArray& a, const NDArray& b) {
    const NDArray gate = sigmoid(a * b), centred = gate - mean(gate, {1}, true);
    return Arrays{mean(square(a - b)), sum(relu(a) * b, {0}), centred, variance(gate * 2.0, {1}), max(centred, {0})};
  };
  const std::string wanted = all_bits(body(x, y));
  std::size_t fewest = 0;
  for (const auto taken : {TakenReductions::none, TakenReductions::profitable, TakenReductions::all}) {
    graph::Tracer tracer;
    const NDArray a = tracer.input({x.shape(), float32, gpu()}), b = tracer.input({y.shape(), float32, gpu()});
    graph::Plan plan(tracer.trace([&] { return body(a, b); }), {.reductions = taken});
    const std::size_t nodes = plan.graph().nodes.size();
    if (taken == TakenReductions::none)
      fewest = nodes;
    else
      CHECK(nodes < fewest);
    for (int run = 0; run < 3; ++run)
      CHECK(all_bits(plan.run(Arrays{x, y})) == wanted);
  }
}

TEST_CASE("Random programs with reductions give as plans on a GPU what they give by hand", "[fusion][gpu][reduction]") {
  SLUICE_NEEDS_GPUS(1);
  for (unsigned seed = 0; seed < 25; ++seed) {
    const RandomProgram program(52000 + seed, gpu());
    const auto body = [&](const std::vector<NDArray>& in) {
      const Arrays made = program.run({in.begin(), in.end()});
      Arrays ends;
      const auto rows = reduction_cases();
      for (std::size_t i = 0; i < made.size(); ++i) {
        const ReductionCase& row = rows[(seed + 5 * i) % rows.size()];
        const NDArray terms = made[i] * 0.5 + in[0];
        ends.push_back(
            terms.size() == 0 && !row.takes_nothing ? terms
                                                    : row.run(terms, sets_of_axes(2)[(seed + i) % 3], i % 2 == 0));
        if (i % 2 == 1)
          ends.push_back(terms);
      }
      return ends;
    };
    CAPTURE(seed);
    for (const auto taken : {graph::TakenReductions::profitable, graph::TakenReductions::all})
      graph_of_runs(program, body, taken);
  }
}
