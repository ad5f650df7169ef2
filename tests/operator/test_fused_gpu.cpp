// Fused programs on a GPU: to the last bit what their calls give one by one there. On a real GPU they are kernels made
// by NVRTC, on a simulated one the calls run by themselves within one task.
#include <limits>

#include <sluice/operator/fused/fused.h>
#include <sluice/operator/fused/fused_gpu.h>
#include <sluice/operator/fused/layout.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/graph/plan.h>
#include <sluice/operator/graph/trace.h>

#include "tests/operator/elementwise_rows.h"
#include "tests/operator/fused_programs.h"
#include "tests/operator/random_program.h"
#include "tests/operator/run_kernel.h"
#include "tests/support/bytes.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;

namespace {

Arrays run(const fused::Program& program, const Arrays& inputs, const Arrays& destinations = {}) {
  return invoke(fused::k_fused, inputs, fused::attributes_of(program), SourceLocation::current(), destinations);
}
Arrays alone(const fused::Program& program, const Arrays& inputs) {
  return fused::compose(inputs, fused::attributes_of(program), SourceLocation::current());
}

void check_same(const fused::Program& program, const Arrays& inputs) {
  CAPTURE(fused::to_text(program));
  const auto got = all_bytes(run(program, inputs)), wanted = all_bytes(alone(program, inputs));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    CAPTURE(i);
    CHECK(first_difference(got[i], wanted[i]) == "none");
  }
}

/// Random numbers with special ones among them, on the GPU.
NDArray draw(const Shape& shape, std::uint64_t seed, DType dtype, double low = -3, double high = 3) {
  const NDArray plain = random_array(shape, seed, dtype == uint8 ? 0 : low, high, dtype);
  if (!is_floating(dtype) || shape.size() < 40)
    return plain.to(gpu());
  constexpr double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> special = {
      0., -0., 1., -1., inf, -inf, std::nan(""), 1e-40, -1e-40, 6e-8, 3e38, 65504, 0.5};
  auto values = plain.to_vector<double>();
  for (std::size_t i = 0; i < special.size(); ++i)
    values[(i * 131 + seed * 17) % values.size()] = special[i];
  return from_values(
             values.data(), float64, static_cast<std::int64_t>(values.size()), shape, {.dtype = dtype, .device = cpu()})
      .to(gpu());
}

Arrays draw_inputs(const fused::Program& program, const Shape& shape, std::uint64_t seed) {
  Arrays inputs;
  for (const DType dtype : program.inputs)
    inputs.push_back(draw(shape, ++seed, dtype));
  return inputs;
}

/// y = relu(a * b + c) * 0.5 - a, and the product.
fused::Program mixed(DType dtype) {
  ProgramBuilder build;
  const auto a = build.input(dtype), b = build.input(dtype), c = build.input(dtype);
  const auto product = build.call("multiply", {a, b});
  const auto relu = build.call("relu", {build.call("add", {product, c})});
  const auto half = build.call("multiply", {relu}, beside_number(0.5));
  return build.with_outputs({build.call("subtract", {half, a}), product});
}

// The boundary between two calls: the first ends in a product, the second begins with a sum, or the other way round.
void check_boundaries(DType dtype) {
  for (const Operator* const op : fusable_operators()) {
    if (program_of_one(*op, dtype).calls.empty() || std::string(op->name) == "where")
      continue;
    ProgramBuilder build;
    const auto a = build.input(dtype), b = build.input(dtype), c = build.input(dtype);
    const auto gelu = build.call("gelu", {build.call("multiply", {a, b})});
    const auto row = build.call(op->name, std::vector<fused::Number>(operands_of(*op), gelu), default_attributes(*op));
    std::vector<fused::Number> outputs = {row};
    if (fused::type_of(build.program, row) == dtype) {
      outputs.push_back(build.call("add", {row, c}));
      outputs.push_back(build.call("log1p", {row}));
      outputs.push_back(build.call("tanh_backward", {c, row, row}));
    }
    const fused::Program program = build.with_outputs(outputs);
    CAPTURE(op->name, dtype);
    check_same(program, draw_inputs(program, {4099}, 11));
  }
}

}  // namespace

TEST_CASE("Programs are compiled on a GPU for which there is NVRTC", "[fused][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  if (const std::string why = fused::why_not_compiled(gpu()); !why.empty())
    SLUICE_SKIP(why);
  CHECK(fused::prepare(fused::attributes_of(mixed(float32)), gpu()) == "");
  ProgramDraw draw(3);
  for (int i = 0; i < 5; ++i)
    CHECK(fused::prepare(fused::attributes_of(draw.draw()), gpu()) == "");
}

TEST_CASE("Every row in a program gives on a GPU what it gives alone", "[fused][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : k_all_dtypes) {
    for (const Operator* const op : fusable_operators()) {
      const fused::Program program = program_of_one(*op, dtype);
      if (program.calls.empty())
        continue;
      CAPTURE(op->name, dtype);
      check_same(program, draw_inputs(program, {33, 47}, 5));
    }
  }
}

TEST_CASE(
    "Any row of float32 behind or before a product and a sum rounds on a GPU as by itself", "[fused][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  check_boundaries(float32);
}
TEST_CASE(
    "Any row of float64 behind or before a product and a sum rounds on a GPU as by itself", "[fused][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  check_boundaries(float64);
}
TEST_CASE(
    "Any row of float16 behind or before a product and a sum rounds on a GPU as by itself", "[fused][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  check_boundaries(float16);
}

TEST_CASE("Random programs give on a GPU what their calls give", "[fused][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  ProgramDraw any(29);
  for (int i = 0; i < 200; ++i) {
    const fused::Program program = any.draw();
    Arrays inputs;
    const Shape shapes[] = {{12, 40}, {12, 40}, {40}, {12, 1}, {}};
    // Gradients have the whole shape.
    const bool stretched = fused::to_text(program).find("_backward") == std::string::npos;
    for (const DType dtype : program.inputs)
      inputs.push_back(draw(shapes[inputs.empty() || !stretched ? 0 : any.below(5)], any.below(1000), dtype));
    CAPTURE(i);
    check_same(program, inputs);
  }
}

TEST_CASE("Operands of any layout and size give on a GPU what single calls give", "[fused][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {float32, float16, float64}) {
    const auto d = [&](const Shape& shape, std::uint64_t seed) { return draw(shape, seed, dtype); };
    const Arrays layouts[] = {
        {d({6, 64}, 1), d({64}, 2), d({6, 1}, 3)},
        {d({50, 6}, 4).T(), d({6, 50}, 5), d({}, 6)},
        {d({50, 6}, 7).T(), d({50, 6}, 8).T(), d({50, 6}, 9).T()},
        {d({6, 150}, 10).slice(1, 1, 150, 3), d({6, 50}, 11), d({1, 50}, 12).broadcast_to({6, 50})},
        {d({6, 50}, 13).slice(1, 49, -51, -1), d({6, 50}, 14), d({6, 50}, 15)},
        {d({7, 901}, 19).slice(1, 3, 901), d({898}, 20), d({7, 1}, 21)},
        {d({40, 1, 70}, 25), d({1, 33, 1}, 26), d({40, 33, 70}, 27)},
        {d({70, 33, 40}, 28).swapaxes(0, 2), d({33, 1}, 29), d({70}, 30)},
        {d({2, 3, 2, 4, 2, 3, 2, 3}, 31).swapaxes(1, 6), d({2, 1, 4, 1, 3, 1, 3}, 32), d({3}, 33)},
        {d({}, 34), d({}, 35), d({}, 36)},
        {d({0, 5}, 37), d({5}, 38), d({1, 5}, 39)},
        {d({400, 300}, 46).T(), d({300, 400}, 47), d({400, 300}, 48).T()},  // worth a copy
        {d({10, 300, 40}, 49).swapaxes(0, 2), d({40, 300, 1}, 50), d({10, 300}, 51).T()},
        {d({70003}, 40), d({70003}, 41), d({1}, 42)},  // vectors and a tail
        {d({129}, 43).slice(0, 1, 129), d({128}, 44), d({128}, 45)},
    };
    for (const Arrays& inputs : layouts)
      check_same(mixed(dtype), inputs);
  }
}

TEST_CASE("Results on a GPU go where they are wanted, strided or over what is read", "[fused][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const fused::Program program = mixed(float32);
  for (const std::int64_t rows : {1, 6, 700}) {
    const Arrays inputs{draw({rows, 64}, 1, float32), draw({64}, 2, float32), draw({rows, 1}, 3, float32)};
    const auto wanted = all_bytes(alone(program, inputs));
    const NDArray wide = zeros({64, 2 * rows}, {.device = gpu()}), turned = zeros({64, rows}, {.device = gpu()});
    CHECK(all_bytes(run(program, inputs, {wide.slice(1, 0, 2 * rows, 2).T(), turned.T()})) == wanted);
    for (const std::size_t over : {0, 1}) {
      Arrays given = inputs, results{zeros({rows, 64}, {.device = gpu()}), zeros({rows, 64}, {.device = gpu()})};
      given[0] = results[over] = inputs[0].copy();
      CHECK(all_bytes(run(program, given, results)) == wanted);
    }
  }
}

TEST_CASE("A plan on a GPU runs programs as single kernels, and gives the same", "[fused][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  if (const std::string why = fused::why_not_compiled(gpu()); !why.empty())
    SLUICE_SKIP(why);
  const auto chain = [](const NDArray& x, const NDArray& y) {
    return tanh(x * y + 0.5) * sigmoid(x) - maximum(y, x * 0.25);
  };
  const NDArray x = draw({100, 64}, 1, float32), y = draw({64}, 2, float32);
  graph::Tracer tracer;
  const NDArray a = tracer.input({x.shape(), float32, gpu()}), b = tracer.input({y.shape(), float32, gpu()});
  graph::Plan plan(tracer.trace([&] { return Arrays{chain(a, b)}; }));
  CHECK(plan.graph().nodes.size() == 1);
  const auto wanted = all_bytes({chain(x, y)});
  for (int run = 0; run < 3; ++run)
    CHECK(all_bytes(plan.run(Arrays{x, y})) == wanted);
}

TEST_CASE("Calls run one by one give what the program gives", "[fused][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const fused::Program program = mixed(float32);
  const Arrays inputs = draw_inputs(program, {37, 40}, 3);
  const Arrays results{zeros({37, 40}, {.device = gpu()}), zeros({37, 40}, {.device = gpu()})};
  run_kernel({inputs[0], inputs[1], inputs[2], results[0], results[1]}, [=](const Queue& queue) {
    const auto view = [](const NDArray& array) {
      return TensorView{data_of(array), array.shape(), array.strides(), array.size(), array.dtype()};
    };
    const TensorView in[] = {view(inputs[0]), view(inputs[1]), view(inputs[2])};
    const TensorView out[] = {view(results[0]), view(results[1])};
    const Attributes attributes = fused::attributes_of(program);
    fused::run_one_by_one({fused::k_fused, queue, in, out, attributes}, program);
  });
  CHECK(all_bytes(results) == all_bytes(alone(program, inputs)));
}
