// Resized planes in one go against what they are composed of elsewhere, in the sizes at which their loops change.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/resize/taps.h>

#include "tests/operator/heavy_reference.h"
#include "tests/operator/reference.h"
#include "tests/operator/traced.h"
#include "tests/support/catch.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

const std::vector<std::string> k_ways = {
    "",
    ", bilinear=true",
    ", bilinear=true, align_corners=true",
    ", bicubic=true",
    ", bicubic=true, align_corners=true",
    ", bilinear=true, antialias=true",
    ", bicubic=true, align_corners=true, antialias=true"};

/// From planes larger and smaller along either axis, of whole vectors and of some more.
struct Sizes {
  Shape from, to;
};
const std::vector<Sizes> k_sizes = {
    {{9, 16}, {18, 32}},
    {{7, 33}, {21, 17}},
    {{40, 5}, {13, 19}},
    {{12, 65}, {12, 66}},
    {{31, 47}, {8, 9}},
    {{1, 1}, {5, 37}},
    {{33, 70}, {1, 1}},
    {{70, 3}, {69, 3}}};

Attributes attributes_of(const Operator& op, const Shape& size, const std::string& way) {
  return parse_attributes(op, "size=" + to_string(size) + way);
}

}  // namespace

TEST_CASE("Planes resized in one go are what they are composed of, and so are their gradients", "[resize]") {
  const Operator &op = *find_operator("resize_planes"), &back = *find_operator("resize_planes_backward");
  const SourceLocation site = SourceLocation::current();
  for (const Sizes& sizes : k_sizes) {
    for (const std::string& way : k_ways) {
      for (const DType dtype : k_heavy_dtypes) {
        CAPTURE(to_string(sizes.from), to_string(sizes.to), way, name_of(dtype));
        const Attributes how = attributes_of(op, sizes.to, way);
        const NDArray x = random_array({2, 3, sizes.from[0], sizes.from[1]}, 1, -1, 1, dtype);
        const NDArray y = invoke_one(op, {x}, how, site);
        const Tolerance tolerance = way.empty() ? Tolerance{0, 0} : tolerance_of(dtype);
        CHECK(differences(y, op.composition(std::vector{x}, how, site)[0], tolerance) == "");
        const NDArray dy = random_array(y.shape(), 2, -1, 1, dtype);
        const NDArray dx = invoke_one(back, {dy, x}, how, site);
        CHECK(dx.dtype() == dtype);
        CHECK(differences(dx, back.composition(std::vector{dy, x}, how, site)[0], tolerance_of(dtype)) == "");
      }
    }
  }
}

TEST_CASE("What elements are mixed of and what they are in fits what was laid out for it", "[resize]") {
  using namespace sluice::detail;
  for (const TapKind kind :
       {TapKind::nearest, TapKind::linear, TapKind::cubic, TapKind::wide_linear, TapKind::wide_cubic}) {
    for (const bool corners : {false, true}) {
      for (std::int64_t in = 1; in <= 24; ++in) {
        for (std::int64_t out = 1; out <= 70; ++out) {
          const TapRule rule{kind, in, out, corners};
          const Taps<double> taps = taps_of<double>(rule), back = turned(taps);
          std::int64_t faults = 0;
          for (std::int64_t i = 0; i < out; ++i) {
            const TapWindow at = rule.window(i);
            double sum = 0;
            for (std::int64_t place = rule.begin(at); place < rule.end(at); ++place)
              sum += rule.weight_of_element<double>(at, place);
            faults += rule.end(at) - rule.begin(at) > rule.most_of_result() || std::abs(sum - 1) > 1e-12;
          }
          for (std::int64_t place = 0; place < in; ++place) {
            const std::int64_t first = rule.first_result(place, false), end = rule.first_result(place, true);
            faults += end - first > rule.most_of_element();
            double sum = 0, want = 0;
            for (std::int64_t i = first; i < end; ++i)
              sum += rule.weight_of_element<double>(rule.window(i), place);
            for (std::int64_t term = back.begin[place]; term < back.begin[place + 1]; ++term)
              want += back.weight[term];
            faults += std::abs(sum - want) > 1e-12;
          }
          CAPTURE(kind, corners, in, out);
          CHECK(faults == 0);
        }
      }
    }
  }
}

TEST_CASE("Elements of all types are taken as they are where planes are resized by the nearest", "[resize]") {
  const Operator& op = *find_operator("resize_planes");
  for (const DType dtype : all_dtypes()) {
    CAPTURE(name_of(dtype));
    const NDArray x = arange(0, 2 * 3 * 5).reshape({1, 2, 3, 5}).astype(dtype);
    const Attributes how = attributes_of(op, {7, 4}, "");
    const NDArray want = op.composition(std::vector{x}, how, SourceLocation::current())[0];
    CHECK(differences(resize2d(x, {7, 4}), want, {0, 0}) == "");
  }
}

TEST_CASE("Resized planes have the same bits whatever the number of workers", "[resize]") {
  for (const ResizeMode mode : {ResizeMode::nearest, ResizeMode::bilinear, ResizeMode::bicubic}) {
    for (const Shape& size : {Shape{160, 231}, Shape{45, 60}}) {
      std::vector<std::vector<float>> all;
      for (const int workers : {1, 2, 4}) {
        Engine engine({.workers = workers});
        const EngineScope scope(engine);
        NDArray x = random_array({2, 3, 90, 77}, 1);
        x.attach_grad();
        NDArray y;
        {
          const autograd::RecordScope record;
          y = resize2d(x, size, {.mode = mode});
        }
        y.backward(random_array(y.shape(), 2));
        all.push_back(y.to_vector<float>());
        const auto gradient = x.grad().to_vector<float>();
        all.back().insert(all.back().end(), gradient.begin(), gradient.end());
      }
      CHECK((all[0] == all[1]));
      CHECK((all[0] == all[2]));
    }
  }
}

TEST_CASE("An infinite gradient of a resized plane stays one, beside the end of a row too", "[resize]") {
  const float infinite = std::numeric_limits<float>::infinity();
  for (const Shape& size : {Shape{5, 7}, Shape{2, 7}}) {
    NDArray x = ones({1, 2, 3, 4});
    x.attach_grad();
    NDArray y;
    {
      const autograd::RecordScope record;
      y = resize2d(x, size);
    }
    y.backward(full(y.shape(), infinite));
    for (const float number : x.grad().to_vector<float>())
      CHECK((number == infinite || number == 0));
  }
}

TEST_CASE("An infinite pixel at the edge of a plane stays one where it alone is mixed", "[resize][gpu]") {
  constexpr float k_infinity = std::numeric_limits<float>::infinity();
  const NDArray plane = concat({zeros({1, 1, 3, 5}), full({1, 1, 3, 1}, -k_infinity)}, 3);
  for (const Device device : num_gpus() > 0 ? std::vector{cpu(), gpu()} : std::vector{cpu()}) {
    for (const ResizeOptions& how :
         {ResizeOptions{ResizeMode::bilinear},
          ResizeOptions{ResizeMode::bilinear, true},
          ResizeOptions{ResizeMode::bicubic},
          ResizeOptions{ResizeMode::bicubic, true}}) {
      for (const DType dtype : {float32, float64, float16}) {
        CAPTURE(device, static_cast<int>(how.mode), how.align_corners, dtype);
        const NDArray y = resize2d(plane.astype(dtype).to(device), {3, 40}, how).astype(float32);
        CHECK(y.to_vector<float>()[39] == -k_infinity);
      }
    }
  }
}

TEST_CASE("Gradients of the gradients of resized planes are right", "[resize]") {
  const std::vector<NDArray> inputs{random_array({1, 2, 4, 5}, 1, -1, 1, float64)};
  const auto of_gradient = [](const auto& v) {
    NDArray x = autograd::on_tape(v[0]) ? v[0] : v[0].detach();
    if (!autograd::on_tape(x))
      x.attach_grad();
    const autograd::RecordScope record;
    const NDArray y = square(resize2d(x, {7, 3}, {.mode = ResizeMode::bicubic}));
    return autograd::grad(std::vector{sum(y)}, std::vector{x}, {}, {.create_graph = true})[0];
  };
  CHECK(gradient_differences(of_gradient, inputs) == "");
}

TEST_CASE("Resized planes refuse what does not fit, by name and values", "[resize]") {
  const Operator &op = *find_operator("resize_planes"), &back = *find_operator("resize_planes_backward");
  const NDArray x = ones({1, 2, 3, 3});
  const auto call = [&](const NDArray& of, const char* text) {
    return invoke_one(op, {of}, parse_attributes(op, text), SourceLocation::current());
  };
  CHECK_THROWS_AS(call(x, "size=(0, 2)"), ValueError);
  CHECK_THROWS_AS(call(x, "size=(2, 2), bilinear=true, bicubic=true"), ValueError);
  CHECK_THROWS_AS(call(x, "size=(2, 2), align_corners=true"), ValueError);
  CHECK_THROWS_AS(call(x.astype(int32), "size=(2, 2), bilinear=true"), DTypeError);
  CHECK_THROWS_AS(call(zeros({1, 2, 0, 3}), "size=(2, 2)"), ShapeError);
  const Attributes how = parse_attributes(back, "size=(2, 2)");
  CHECK_THROWS_AS(invoke_one(back, {ones({1, 2, 3, 2}), x}, how, SourceLocation::current()), ShapeError);
  CHECK(invoke_one(op, {zeros({0, 2, 3, 3})}, how, SourceLocation::current()).shape() == Shape{0, 2, 2, 2});
}
