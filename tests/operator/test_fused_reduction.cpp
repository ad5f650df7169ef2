// Programs whose result a reduction takes in: to the last bit what both give one after the other.
#include <limits>
#include <string>
#include <vector>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/api.h>

#include "tests/engine/expect.h"
#include "tests/operator/reduced_programs.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;
using sluice::detail::ReductionCall;

namespace {

bool is_same(const fused::Program& program, const ReductionCall& call, const Arrays& inputs) {
  const Attributes attributes = fused::attributes_of(program, call);
  const Arrays got = invoke(fused::k_fused_reduction, inputs, attributes, SourceLocation::current());
  return all_bits(got) == all_bits(fused::compose_reduction(inputs, attributes, SourceLocation::current()));
}

void check_same(const fused::Program& program, const ReductionCall& call, const Arrays& inputs) {
  CAPTURE(fused::to_text(program), sluice::detail::operator_of(call.row).name, call.axes, inputs[0].shape());
  CHECK(is_same(program, call, inputs));
}

const std::vector<Shape> k_shapes = {{},        {1},        {5},         {16},        {255},        {256},
                                     {257},     {511},      {8191},      {8193},      {1, 1},       {3, 5},
                                     {5, 1, 3}, {300, 257}, {5, 2049},   {513, 3},    {3, 513},     {64, 64},
                                     {7, 9001}, {4, 5, 6},  {7, 33, 65}, {3, 70, 40}, {2, 3, 4, 5}, {9, 2, 130, 3},
                                     {0},       {0, 5},     {5, 0},      {3, 0, 4}};

}  // namespace

TEST_CASE("Every reduction of every type and set of axes gives the same behind a program", "[fused][reduction]") {
  int checked = 0;
  for (const Shape& shape : k_shapes) {
    for (const DType dtype : k_all_dtypes) {
      const Arrays inputs{random_terms(shape, 1, dtype), random_terms(shape, 2, dtype)};
      for (const Reduction row : all_reductions()) {
        if (shape.size() == 0 && !takes_nothing(row))
          continue;
        const fused::Program program = product_for(row, dtype);
        for (const Shape& axes : sets_of_axes(shape.ndim())) {
          check_same(program, {row, axes, checked % 2 == 0}, inputs);
          ++checked;
        }
      }
    }
  }
  CHECK(checked > 10000);
}

TEST_CASE("Terms enough to be cut into pieces are cut alike", "[fused][reduction]") {
  for (const Shape& shape :
       {Shape{300007}, Shape{3, 100003}, Shape{100003, 3}, Shape{1030, 1025}, Shape{40, 3, 9000}}) {
    for (const DType dtype : {float32, float64, bfloat16, int32, bool_}) {
      const Arrays inputs{random_terms(shape, 3, dtype), random_terms(shape, 4, dtype)};
      for (const Reduction row :
           {Reduction::sum, Reduction::mean, Reduction::variance, Reduction::logsumexp, Reduction::any}) {
        for (const Shape& axes : sets_of_axes(shape.ndim()))
          check_same(product_for(row, dtype), {row, axes}, inputs);
      }
    }
  }
}

TEST_CASE("What moments are divided by is told, and one past the number of terms too", "[fused][reduction]") {
  const Arrays inputs{random_terms({4, 3}, 1, float32), random_terms({4, 3}, 2, float32)};
  for (const Reduction row : {Reduction::variance, Reduction::standard_deviation}) {
    for (const std::int64_t ddof : {0, 1, 3, 4, 5, -2})
      check_same(product_for(row, float32), {row, {0}, false, ddof}, inputs);
  }
}

namespace {

fused::Program mixed() {
  return fused::parse(
      "float32 float32 float16; %3 = multiply(%0, %1) float32; %4 = add(%3) {number=0.5, first=false} float32; "
      "%5 = astype(%2) {dtype=float32} float32; %6 = greater(%4, %5) bool; %7 = where(%6, %4, %5) float32; "
      "%8 = astype(%7) {dtype=float16} float16; %9 = multiply(%8, %2) float16; -> %9");
}

}  // namespace

TEST_CASE("Inputs of any layout are reduced as they are one after the other", "[fused][reduction]") {
  const auto draw = [](const Shape& shape, std::uint64_t seed, DType dtype = float32) {
    return random_array(shape, seed, -1, 1, dtype);
  };
  const Arrays layouts[] = {
      {draw({60, 50}, 1), draw({50}, 2), draw({60, 1}, 3, float16)},
      {draw({50, 60}, 4).T(), draw({60, 50}, 5), draw({}, 6, float16)},
      {draw({50, 60}, 7).T(), draw({50, 60}, 8).T(), draw({50, 60}, 9, float16).T()},
      {draw({60, 150}, 10).slice(1, 1, 150, 3), draw({60, 50}, 11), draw({1, 50}, 12, float16).broadcast_to({60, 50})},
      {draw({60, 50}, 13).slice(1, 49, -51, -1), draw({60, 50}, 14), draw({60, 50}, 15, float16).slice(0, 59, -61, -1)},
      {draw({7, 9001}, 16).slice(1, 3, 9001), draw({8998}, 17), draw({7, 1}, 18, float16)},
      {draw({999, 300}, 19), draw({300}, 20), draw({300}, 21, float16)},
      {draw({9, 3000}, 22), draw({3000}, 23), draw({9, 1}, 24, float16)},
      {draw({40, 1, 70}, 25), draw({1, 33, 1}, 26), draw({40, 33, 70}, 27, float16)},
      {draw({70, 33, 40}, 28).swapaxes(0, 2), draw({33, 1}, 29), draw({70}, 30, float16)},
      {draw({1}, 31).broadcast_to({3000}), draw({}, 32), draw({1}, 33, float16)},
      {draw({}, 34), draw({}, 35), draw({}, 36, float16)},
      {draw({0, 5}, 37), draw({5}, 38), draw({1, 5}, 39, float16)},
      {draw({100003}, 40), draw({1}, 41), draw({100004}, 42, float16).slice(0, 1, 100004)},
  };
  for (const Arrays& inputs : layouts) {
    Shape shape = inputs[0].shape();
    for (const NDArray& input : inputs)
      shape = broadcast_shape(shape, input.shape(), "test");
    for (const Shape& axes : sets_of_axes(shape.ndim())) {
      for (const Reduction row : {Reduction::sum, Reduction::max_norm, Reduction::l2_norm, Reduction::count_nonzero})
        check_same(mixed(), {row, axes}, inputs);
    }
  }
}

TEST_CASE("Random programs are reduced as they are one after the other", "[fused][reduction]") {
  ProgramDraw draw(77);
  const Shape shapes[] = {{97, 101}, {6, 5}, {1, 700}, {700, 1}, {3, 5, 170}, {0, 4}};
  int checked = 0;
  for (unsigned i = 0; i < 400; ++i) {
    auto made = random_reduction(draw, shapes, i + 7, cpu());
    if (!made)
      continue;
    made->program.outputs.resize(1 + i % 2 * (made->program.outputs.size() - 1));
    check_same(made->program, made->call, made->inputs);
    ++checked;
  }
  CHECK(checked > 250);
}

TEST_CASE("Special values and denormals are reduced as they are one after the other", "[fused][reduction]") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> special = {0, -0.0f, inf, -inf, nan, 1e-40f, -1e-40f, 3e38f, -3e38f, 1e-20f, 1};
  for (const DType dtype : {float16, bfloat16, float32, float64}) {
    for (const Reduction row : all_reductions()) {
      for (std::size_t i = 0; i < special.size(); ++i) {
        // One of them among others, at places that blocks begin and end with, and all of them together.
        std::vector<float> values(300 * 3, 0.25f);
        values[i] = values[255 * 3 + 1] = values[899] = special[i];
        const NDArray x = array(values, {300, 3}).astype(dtype);
        const NDArray y = array(special, {static_cast<std::int64_t>(special.size())}).astype(dtype);
        for (const Shape& axes : sets_of_axes(2)) {
          check_same(product_for(row, dtype), {row, axes}, {x, x});
          check_same(product_for(row, dtype), {row, axes}, {y, y.reshape({y.size(), 1})});
        }
      }
    }
  }
  // Of float64 denormals stay, of float32 they do not.
  const NDArray small = full({600}, 1e-310, {.dtype = float64}), half = full({600}, 0.5, {.dtype = float64});
  const Attributes wide = fused::attributes_of(product_for(Reduction::sum, float64), {Reduction::sum, {0}});
  CHECK((reduced(wide, {small, half}) * 0x1p100).item<double>() > 0);
  check_same(product_for(Reduction::sum, float64), {Reduction::sum, {0}}, {small, half});
  const Attributes narrow = fused::attributes_of(product_for(Reduction::sum, float32), {Reduction::sum, {0}});
  CHECK(bits_of(reduced(narrow, {full({600}, 1e-39f), full({600}, 0.5f)})) == bits_of(full({}, 0.0f)));
}

TEST_CASE("However many workers there are the bits are the same", "[fused][reduction]") {
  const std::vector<float> values = random_array({700 * 900}, 5).to_vector<float>();
  std::vector<std::string> seen;
  for (const int workers : {1, 2, 5}) {
    Engine engine({.workers = workers});
    const EngineScope scope(engine);
    const NDArray x = array(values, {700, 900});
    std::string all;
    for (const Shape& axes : sets_of_axes(2)) {
      const Attributes attributes = fused::attributes_of(product_for(Reduction::sum, float32), {Reduction::sum, axes});
      all += bits_of(reduced(attributes, {x, x}));
      CHECK(bits_of(reduced(attributes, {x, x})) == bits_of(one_after_the_other(attributes, {x, x})));
    }
    seen.push_back(all);
  }
  CHECK(seen[0] == seen[1]);
  CHECK(seen[0] == seen[2]);
}

TEST_CASE("Results go where they are wanted, and into what lies over an input too", "[fused][reduction]") {
  const NDArray x = random_array({300, 40}, 1), y = random_array({40}, 2);
  const Attributes attributes = fused::attributes_of(product_for(Reduction::sum, float32), {Reduction::sum, {0}});
  const std::string wanted = bits_of(one_after_the_other(attributes, {x, y}));
  const auto into = [&](const Arrays& inputs, const NDArray& to) {
    const Arrays destinations{to};
    invoke(fused::k_fused_reduction, inputs, attributes, SourceLocation::current(), destinations);
    return bits_of(to);
  };
  CHECK(into({x, y}, zeros({40})) == wanted);
  CHECK(into({x, y}, zeros({80}).slice(0, 1, 80, 2)) == wanted);
  const NDArray over = y.copy(), whole = x.copy();
  CHECK(into({x, over}, over) == wanted);
  CHECK(into({whole, y}, whole[299]) == wanted);
}

TEST_CASE("The operator is called by name and text, and refuses what it cannot be told", "[fused][reduction]") {
  const Operator& op = fused::k_fused_reduction;
  CHECK(find_operator("fused_reduction") == &op);
  const ReductionCall call{Reduction::variance, {0, 2}, true, 1};
  const Attributes made = fused::attributes_of(product_for(call.row, float32), call);
  const Attributes read = parse_attributes(op, to_string(made));
  const Arrays inputs{random_array({3, 4, 5}, 1), random_array({3, 4, 5}, 2)};
  CHECK(bits_of(reduced(read, inputs)) == bits_of(one_after_the_other(made, inputs)));

  const std::string product = "float32 float32; %2 = multiply(%0, %1) float32; -> %2";
  const auto refusal = [&](const std::string& program, const std::string& rest, const Arrays& given) {
    return text_of_error([&] { reduced(parse_attributes(op, "program=\"" + program + "\", " + rest), given); });
  };
  const auto says = [](const std::string& text, const std::string& part) {
    CAPTURE(text);
    return text.find(part) != std::string::npos;
  };
  CHECK(says(refusal(product, "reduction=\"argmax\"", inputs), "no reduction \"argmax\""));
  CHECK(says(refusal(product, "reduction=\"sum\", axes=(3,)", inputs), "not sorted axes"));
  CHECK(says(refusal(product, "reduction=\"sum\", axes=(-1,)", inputs), "not sorted axes"));
  CHECK(says(refusal(product, "reduction=\"sum\", axes=(1, 0)", inputs), "not sorted axes"));
  CHECK(says(refusal(product, "reduction=\"sum\", axes=(1, 1)", inputs), "not sorted axes"));
  CHECK(says(refusal(product, "reduction=\"sum\", ddof=1", inputs), "not told ddof, was given 1"));
  CHECK(says(refusal(product, "reduction=\"sum\"", {inputs[0]}), "takes 2 inputs, was given 1"));
  CHECK(says(refusal(product, "reduction=\"sum\"", {inputs[0], inputs[1].astype(int32)}), "input 1 is int32"));
  CHECK(says(refusal(product, "reduction=\"max\", axes=(0,)", {zeros({0, 2}), zeros({2})}), "nothing to reduce"));
  CHECK(says(
      refusal(
          "int32; %1 = square(%0) int32; -> %1", "reduction=\"variance\", axes=(0,)", {zeros({3}, {.dtype = int32})}),
      "variance takes floating elements, the program gives int32"));
  CHECK(says(refusal("nothing", "reduction=\"sum\"", inputs), "a type was expected"));
  CHECK_THROWS_AS(reduced(made, {inputs[0], random_array({3, 4, 4}, 3)}), ShapeError);
}

TEST_CASE("A program that throws while it is reduced leaves its error in the result alone", "[fused][reduction]") {
  const Attributes attributes = fused::attributes_of(product_for(Reduction::sum, float32), {Reduction::sum, {0}});
  const NDArray fine = random_array({50}, 1), broken = zeros({50});
  Engine::current().push(
      {.name = "breaks", .access = {write(broken.object()->buffer->var())}}, [] { throw ValueError("first"); });
  const NDArray lost = reduced(attributes, {fine, broken});
  CHECK_THROWS_AS(lost.wait_to_read(), ValueError);
  CHECK_THROWS_AS(reduced(attributes, {lost.reshape({1}), broken}).wait_to_read(), ValueError);
  CHECK(bits_of(reduced(attributes, {fine, fine})) == bits_of(one_after_the_other(attributes, {fine, fine})));
}
