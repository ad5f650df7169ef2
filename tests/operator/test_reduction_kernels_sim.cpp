// Kernels of reductions behind programs, as written for NVRTC, run by a simulated GPU: to the last bit what both give
// one after the other there. Which kernels there are sim_kernels/samples.h says.
#include <limits>

#include "tests/operator/sim_kernels/samples.h"
#include "tests/support/catch.h"
#include "tests/support/device_sim/compiled.h"

using namespace sluice;
using namespace sluice::test;
using sluice::detail::ReductionCall;

namespace {

NDArray draw(const Shape& shape, std::uint64_t seed, DType dtype) {
  return random_terms(shape, seed, dtype, gpu());
}

Arrays results_of(const Attributes& attributes, const Arrays& inputs, const Arrays& destinations = {}) {
  return invoke(fused::k_fused_reduction, inputs, attributes, SourceLocation::current(), destinations);
}

/// Checks the results, and that a kernel of the program gave them.
void check(const fused::Program& program, const ReductionCall& call, const Arrays& inputs) {
  const Attributes attributes = fused::attributes_of(program, call);
  CAPTURE(fused::to_text(program), sluice::detail::operator_of(call.row).name, call.axes, inputs[0].shape());
  const std::string wanted = all_bits(fused::compose_reduction(inputs, attributes, SourceLocation::current()));
  const long before = device_sim::host_launches();
  const bool same = all_bits(results_of(attributes, inputs)) == wanted;
  CHECK(same);
  CHECK(device_sim::host_launches() == before + 1);
}

Arrays inputs_for(const fused::Program& program, const Shape& shape) {
  Arrays inputs;
  for (const DType dtype : program.inputs)
    inputs.push_back(draw(shape, inputs.size() + 1, dtype));
  return inputs;
}

struct Sample {
  fused::Program program;
  Reduction row;
};
const std::vector<Sample>& samples() {
  static const std::vector<Sample> all = {
      {chain_of_three(float32), Reduction::sum},
      {chain_of_three(float64), Reduction::l2_norm},
      {kept_chain_of_three(float32), Reduction::variance},
      {mixed_chain(), Reduction::mean},
      {product_for(Reduction::any, bool_), Reduction::any},
      {product_for(Reduction::max, int32), Reduction::max}};
  return all;
}

}  // namespace

TEST_CASE("Kernels made of a program give what program and reduction give", "[gpu][reduction]") {
  SLUICE_NEEDS_GPUS(1);
  for (const Sample& sample : samples()) {
    for (const Shape& shape :
         {Shape{},
          Shape{1},
          Shape{37},
          Shape{4099},
          Shape{70000},
          Shape{3, 5},
          Shape{33, 64},
          Shape{600, 65},
          Shape{5, 1200},
          Shape{4, 6, 33},
          Shape{3, 70, 32},
          Shape{2, 3, 4, 5},
          Shape{2, 3, 2, 66}}) {
      for (const Shape& axes : sets_of_axes(shape.ndim()))
        check(sample.program, {sample.row, axes, axes.ndim() % 2 == 0}, inputs_for(sample.program, shape));
    }
  }
}

TEST_CASE("Inputs of any layout come to a kernel's terms as they do to the chain", "[gpu][reduction]") {
  SLUICE_NEEDS_GPUS(1);
  const auto d = [](const Shape& shape, std::uint64_t seed, DType dtype = float32) { return draw(shape, seed, dtype); };
  for (const DType last : {float32, float16}) {
    const fused::Program program = last == float16 ? mixed_chain() : chain_of_three(float32);
    const Reduction row = last == float16 ? Reduction::mean : Reduction::sum;
    const Arrays layouts[] = {
        {d({60, 48}, 1), d({48}, 2), d({60, 1}, 3, last)},
        {d({50, 60}, 4).T(), d({60, 50}, 5), d({}, 6, last)},
        {d({60, 150}, 10).slice(1, 1, 150, 3), d({60, 50}, 11), d({1, 50}, 12, last).broadcast_to({60, 50})},
        {d({60, 50}, 13).slice(1, 49, -51, -1), d({60, 50}, 14), d({60, 50}, 15, last).slice(0, 59, -61, -1)},
        {d({7, 901}, 16).slice(1, 3, 901), d({898}, 17), d({7, 1}, 18, last)},
        {d({40, 1, 70}, 25), d({1, 33, 1}, 26), d({40, 33, 70}, 27, last)},
        {d({1}, 31).broadcast_to({3000}), d({}, 32), d({1}, 33, last)},
        {d({1003}, 40), d({1}, 41), d({1004}, 42, last).slice(0, 1, 1004)},
        {d({400, 300}, 46).T(), d({300, 400}, 47), d({400, 300}, 48, last).T()},  // worth a copy
    };
    for (const Arrays& inputs : layouts) {
      Shape shape = inputs[0].shape();
      for (const NDArray& input : inputs)
        shape = broadcast_shape(shape, input.shape(), "test");
      for (const Shape& axes : sets_of_axes(shape.ndim()))
        check(program, {row, axes}, inputs);
    }
  }
}

TEST_CASE("NaN, infinities and nothing come out of a kernel as one after the other", "[gpu][reduction]") {
  SLUICE_NEEDS_GPUS(1);
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const float special : {inf, -inf, nan, -0.0f, 1e-40f, 3e38f}) {
    for (const std::size_t place : {std::size_t{0}, std::size_t{255}, std::size_t{299}}) {
      std::vector<float> values(300 * 4, 0.25f);
      values[place * 4 + 1] = special;
      const NDArray x = array(values, {300, 4}).to(gpu());
      for (const Shape& axes : sets_of_axes(2))
        check(chain_of_three(float32), {Reduction::sum, axes}, {x, x, x});
    }
  }
  // Of nothing there is no kernel, and what is written down is nothing too.
  const fused::Program program = kept_chain_of_three(float32);
  for (const Shape& shape : {Shape{0}, Shape{0, 5}, Shape{5, 0}}) {
    for (const Shape& axes : sets_of_axes(shape.ndim())) {
      const Attributes attributes = fused::attributes_of(program, {Reduction::variance, axes});
      const Arrays inputs = inputs_for(program, shape);
      CHECK(
          all_bits(results_of(attributes, inputs)) ==
          all_bits(fused::compose_reduction(inputs, attributes, SourceLocation::current())));
    }
  }
}

TEST_CASE("What a kernel writes down beside goes where it is wanted, begin it where it may", "[gpu][reduction]") {
  SLUICE_NEEDS_GPUS(1);
  const fused::Program program = kept_chain_of_three(float32);
  const Arrays inputs = inputs_for(program, {60, 48});
  for (const Shape& axes : sets_of_axes(2)) {
    const Attributes attributes = fused::attributes_of(program, {Reduction::variance, axes});
    const std::string wanted = all_bits(fused::compose_reduction(inputs, attributes, SourceLocation::current()));
    const NDArray result = zeros_like(results_of(attributes, inputs)[0]);
    const auto odd = [] { return zeros({60 * 48 + 1}, {.device = gpu()}).slice(0, 1, 60 * 48 + 1).reshape({60, 48}); };
    const NDArray whole = zeros({60, 48}, {.device = gpu()}), wide = zeros({60, 96}, {.device = gpu()});
    CHECK(all_bits(results_of(attributes, inputs, {result, whole, odd()})) == wanted);
    CHECK(all_bits(results_of(attributes, inputs, {result, wide.slice(1, 0, 96, 2), odd()})) == wanted);
    // Over what is read.
    const NDArray over = inputs[1].copy();
    CHECK(all_bits(results_of(attributes, {inputs[0], over, inputs[2]}, {result, over, whole})) == wanted);
  }
}

TEST_CASE("Of a program that nobody compiled, and of logsumexp, the two steps are taken", "[gpu][reduction]") {
  SLUICE_NEEDS_GPUS(1);
  const Sample two_steps[] = {
      {kept_chain_of_three(float16), Reduction::l2_norm}, {chain_of_three(float64), Reduction::logsumexp}};
  for (const Sample& sample : two_steps) {
    const Attributes attributes = fused::attributes_of(sample.program, {sample.row, {1}});
    const Arrays inputs = inputs_for(sample.program, {7, 90});
    const long before = device_sim::host_launches();
    CHECK(
        all_bits(results_of(attributes, inputs)) ==
        all_bits(fused::compose_reduction(inputs, attributes, SourceLocation::current())));
    CHECK(device_sim::host_launches() == before);
  }
}
