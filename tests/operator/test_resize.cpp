// Images of other sizes, and overlaps of boxes, against plain loops in double.
#include <algorithm>
#include <cmath>
#include <vector>

#include <sluice/operator/resize/resize.h>

#include "tests/operator/heavy_reference.h"
#include "tests/operator/traced.h"
#include "tests/support/catch.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr ResizeOptions k_mixed{.mode = ResizeMode::bilinear};
constexpr ResizeOptions k_corners{.mode = ResizeMode::bilinear, .align_corners = true};

double place(std::int64_t i, std::int64_t in, std::int64_t out, bool corners) {
  if (corners)
    return out == 1 ? 0 : static_cast<double>(i * (in - 1)) / static_cast<double>(out - 1);
  const double at = (static_cast<double>(i) + 0.5) * static_cast<double>(in) / static_cast<double>(out) - 0.5;
  return std::max(at, 0.0);
}

NDArray reference(const NDArray& x, const Shape& size, const ResizeOptions& o) {
  const Shape& xs = x.shape();
  const auto xv = x.to_vector<double>();
  std::vector<double> values;
  for (std::int64_t plane = 0; plane < xs[0] * xs[1]; ++plane)
    for (std::int64_t i = 0; i < size[0]; ++i)
      for (std::int64_t j = 0; j < size[1]; ++j) {
        const auto at = [&](std::int64_t row, std::int64_t column) {
          row = std::min(row, xs[2] - 1);
          column = std::min(column, xs[3] - 1);
          return xv[static_cast<std::size_t>((plane * xs[2] + row) * xs[3] + column)];
        };
        if (o.mode == ResizeMode::nearest) {
          values.push_back(at(i * xs[2] / size[0], j * xs[3] / size[1]));
          continue;
        }
        const double y = place(i, xs[2], size[0], o.align_corners), z = place(j, xs[3], size[1], o.align_corners);
        const auto row = static_cast<std::int64_t>(y), column = static_cast<std::int64_t>(z);
        const double down = y - std::floor(y), right = z - std::floor(z);
        const double above = at(row, column) * (1 - right) + at(row, column + 1) * right;
        const double below = at(row + 1, column) * (1 - right) + at(row + 1, column + 1) * right;
        values.push_back(above * (1 - down) + below * down);
      }
  return array(values, {xs[0], xs[1], size[0], size[1]});
}

constexpr ResizeOptions k_cubic{.mode = ResizeMode::bicubic};
constexpr ResizeOptions k_cubic_corners{.mode = ResizeMode::bicubic, .align_corners = true};
constexpr ResizeOptions k_smooth{.mode = ResizeMode::bilinear, .antialias = true};
constexpr ResizeOptions k_smooth_cubic{.mode = ResizeMode::bicubic, .antialias = true};

double spline(double x, double a) {
  x = std::abs(x);
  if (x < 1)
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// What pixel j of `in` weighs in pixel i of `out`.
double weight(std::int64_t i, std::int64_t j, std::int64_t in, std::int64_t out, const ResizeOptions& o) {
  const auto at = static_cast<double>(i), pixel = static_cast<double>(j), last = static_cast<double>(in - 1);
  const double ratio = static_cast<double>(in) / static_cast<double>(out);
  if (!o.antialias) {
    const double place = !o.align_corners ? (at + 0.5) * ratio - 0.5
                         : out == 1       ? 0
                                          : at * last / static_cast<double>(out - 1);
    double total = 0;
    for (double tap = std::floor(place) - 1; tap <= std::floor(place) + 2; ++tap)
      total += std::clamp(tap, 0.0, last) == pixel ? spline(place - tap, -0.75) : 0;
    return total;
  }
  const auto raw = [&](double of) {
    const double apart = (of + 0.5 - (at + 0.5) * ratio) / std::max(ratio, 1.0);
    return o.mode == ResizeMode::bicubic ? spline(apart, -0.5) : std::max(1 - std::abs(apart), 0.0);
  };
  double total = 0;
  for (std::int64_t of = 0; of < in; ++of)
    total += raw(static_cast<double>(of));
  return raw(pixel) / total;
}

NDArray weighted_reference(const NDArray& x, const Shape& size, const ResizeOptions& o) {
  const Shape& xs = x.shape();
  const auto xv = x.to_vector<double>();
  std::vector<double> values;
  for (std::int64_t plane = 0; plane < xs[0] * xs[1]; ++plane)
    for (std::int64_t i = 0; i < size[0] * size[1]; ++i) {
      double sum = 0;
      for (std::int64_t j = 0; j < xs[2] * xs[3]; ++j)
        sum += weight(i / size[1], j / xs[3], xs[2], size[0], o) * weight(i % size[1], j % xs[3], xs[3], size[1], o) *
               xv[static_cast<std::size_t>(plane * xs[2] * xs[3] + j)];
      values.push_back(sum);
    }
  return array(values, {xs[0], xs[1], size[0], size[1]});
}

const std::vector<Shape> k_sizes = {{1, 1}, {4, 5}, {8, 10}, {3, 7}, {9, 2}, {13, 11}, {4, 3}};

double overlap(const double* a, const double* b) {
  const auto length = [](double low, double high) { return std::max(high - low, 0.0); };
  const double shared =
      length(std::max(a[0], b[0]), std::min(a[2], b[2])) * length(std::max(a[1], b[1]), std::min(a[3], b[3]));
  const double all = length(a[0], a[2]) * length(a[1], a[3]) + length(b[0], b[2]) * length(b[1], b[3]) - shared;
  return all == 0 ? 0 : shared / all;
}

}  // namespace

TEST_CASE("Images of other sizes agree with plain loops for every type and mode", "[resize]") {
  for (const Shape& size : k_sizes) {
    for (const DType dtype : k_heavy_dtypes) {
      CAPTURE(to_string(size), name_of(dtype));
      const NDArray x = random_array({2, 3, 4, 5}, 1, -1, 1, dtype);
      CHECK(differences(resize2d(x, size), reference(x, size, {}), {0, 0}) == "");
      CHECK(differences(resize2d(x, size, k_mixed), reference(x, size, k_mixed)) == "");
      CHECK(differences(resize2d(x, size, k_corners), reference(x, size, k_corners)) == "");
      CHECK(resize2d(x, size, k_corners).dtype() == dtype);
    }
  }
  const NDArray whole = random_array({2, 3, 4, 5}, 1, 0, 100, int32);
  CHECK(differences(resize2d(whole, {7, 3}), reference(whole, {7, 3}, {}), {0, 0}) == "");
  CHECK(resize2d(zeros({0, 3, 4, 5}), {7, 3}, k_mixed).shape() == Shape{0, 3, 7, 3});
  const NDArray pixel = random_array({1, 2, 1, 1}, 1);
  CHECK(differences(resize2d(pixel, {3, 2}, k_corners), pixel.broadcast_to({1, 2, 3, 2})) == "");
}

TEST_CASE("Images of other sizes by splines and without aliases agree with plain loops for every type", "[resize]") {
  for (const Shape& size : k_sizes) {
    for (const ResizeOptions& o : {k_cubic, k_cubic_corners, k_smooth, k_smooth_cubic}) {
      for (const DType dtype : k_heavy_dtypes) {
        CAPTURE(to_string(size), o.antialias, o.align_corners, name_of(dtype));
        const NDArray x = random_array({2, 3, 4, 5}, 1, -1, 1, dtype), y = resize2d(x, size, o);
        CHECK(y.dtype() == dtype);
        CHECK(differences(y, weighted_reference(x, size, o), tolerance_of(dtype)) == "");
      }
      const std::vector<NDArray> inputs{random_array({1, 2, 4, 5}, 1, -1, 1, float64)};
      CHECK(gradient_differences([&](const auto& v) { return resize2d(v[0], size, o); }, inputs) == "");
    }
  }
  const NDArray x = random_array({2, 3, 4, 5}, 1);
  CHECK(differences(upsampling(x, 3, k_cubic), resize2d(x, {12, 15}, k_cubic), {0, 0}) == "");
  CHECK(resize2d(zeros({0, 3, 4, 5}), {7, 3}, k_smooth).shape() == Shape{0, 3, 7, 3});
  const auto f = [](const auto& v) { return resize2d(resize2d(v[0], {3, 9}, k_smooth_cubic), {6, 4}, k_cubic); };
  CHECK(traced_differences(f, {x}) == "");
  CHECK_THROWS_AS(resize2d(x, {2, 2}, {.antialias = true}), ValueError);
  CHECK_THROWS_AS(resize2d(x.astype(int32), {2, 2}, k_cubic), DTypeError);
  const Operator& op = *find_operator("resize2d");
  CHECK_THROWS_AS(
      invoke_one(op, {x}, parse_attributes(op, "size=(2, 2), bilinear=true, bicubic=true"), {}), ValueError);
}

TEST_CASE("upsampling is a resize to a multiple", "[resize]") {
  const NDArray x = random_array({2, 3, 4, 5}, 1);
  for (const std::int64_t scale : {1, 2, 3}) {
    for (const ResizeOptions& o : {ResizeOptions{}, k_mixed, k_corners}) {
      CAPTURE(scale, o.align_corners);
      CHECK(differences(upsampling(x, scale, o), resize2d(x, {4 * scale, 5 * scale}, o), {0, 0}) == "");
    }
  }
}

TEST_CASE("The gradients of resizing agree with finite differences", "[resize]") {
  const std::vector<NDArray> inputs{random_array({1, 2, 4, 5}, 1, -1, 1, float64)};
  for (const Shape& size : k_sizes) {
    for (const ResizeOptions& o : {ResizeOptions{}, k_mixed, k_corners}) {
      CAPTURE(to_string(size), o.align_corners);
      CHECK(gradient_differences([&](const auto& v) { return resize2d(v[0], size, o); }, inputs) == "");
    }
  }
  CHECK(gradient_differences([](const auto& v) { return upsampling(v[0], 2); }, inputs) == "");
}

TEST_CASE("Overlaps of boxes agree with plain loops, empty and inside out ones too", "[resize][box_iou]") {
  for (const DType dtype : k_heavy_dtypes) {
    CAPTURE(name_of(dtype));
    const NDArray a = random_array({5, 4}, 1, 0, 4, dtype), b = random_array({2, 3, 4}, 2, 0, 4, dtype);
    const auto av = a.to_vector<double>(), bv = b.to_vector<double>();
    std::vector<double> want;
    for (std::size_t i = 0; i < 5; ++i)
      for (std::size_t j = 0; j < 6; ++j)
        want.push_back(overlap(&av[4 * i], &bv[4 * j]));
    CHECK(differences(box_iou(a, b), array(want, {5, 2, 3}), tolerance_of(dtype)) == "");
  }
  const NDArray box = array({0.f, 0.f, 2.f, 2.f}, {1, 4}), centred = array({1.f, 1.f, 2.f, 2.f}, {1, 4});
  const NDArray other = array({1.f, 1.f, 3.f, 3.f}), other_centred = array({2.f, 2.f, 2.f, 2.f});
  CHECK(box_iou(box, other).to_vector<float>()[0] == Approx(1.0 / 7));
  CHECK(box_iou(centred, other_centred, BoxFormat::center).to_vector<float>()[0] == Approx(1.0 / 7));
  CHECK(box_iou(zeros({4}), zeros({4})).item<float>() == 0);
  CHECK(box_iou(zeros({0, 4}), box).shape() == Shape{0, 1});
  const std::vector<NDArray> inputs{
      array({0.0, 0.0, 2.0, 3.0, 1.0, 1.0, 4.0, 2.5}, {2, 4}), array({0.5, 0.25, 3.0, 2.0}, {1, 4})};
  CHECK(gradient_differences([](const auto& v) { return box_iou(v[0], v[1]); }, inputs) == "");
  CHECK(gradient_differences([](const auto& v) { return box_iou(v[0], v[1], BoxFormat::center); }, inputs) == "");
}

TEST_CASE("Overlaps have as many axes as an array can, and no more", "[box_iou]") {
  const NDArray a = random_array({6, 4}, 1, 0, 4), b = random_array({4, 4}, 2, 0, 4);
  for (const BoxFormat format : {BoxFormat::corner, BoxFormat::center}) {
    const auto of = [&](const Shape& first, const Shape& second) {
      return box_iou(a.reshape(first), b.reshape(second), format);
    };
    const NDArray want = box_iou(a, b, format);
    CHECK(differences(of({1, 2, 3, 1, 4}, {2, 1, 1, 2, 4}), want.reshape({1, 2, 3, 1, 2, 1, 1, 2}), {0, 0}) == "");
    CHECK(of({6, 4}, {1, 1, 1, 1, 2, 1, 2, 4}).shape() == Shape{6, 1, 1, 1, 1, 2, 1, 2});
    CHECK(of({1, 1, 1, 1, 2, 1, 3, 4}, {4, 4}).shape() == Shape{1, 1, 1, 1, 2, 1, 3, 4});
    CHECK_THROWS_WITH(
        of({1, 1, 2, 3, 1, 4}, {2, 1, 1, 2, 4}),
        contains("box_iou") && contains("(1, 1, 2, 3, 1, 4)") && contains("9 axes"));
  }
}

TEST_CASE("Resizing and boxes are in graphs what they are by hand", "[resize]") {
  const auto f = [](const auto& v) { return resize2d(upsampling(v[0], 2), {5, 7}, k_mixed); };
  CHECK(traced_differences(f, {random_array({3, 2, 4, 5}, 1)}) == "");
  const auto boxes = [](const auto& v) { return box_iou(v[0], v[1], BoxFormat::center); };
  CHECK(traced_differences(boxes, {random_array({5, 4}, 1, 0, 4), random_array({3, 4}, 2, 0, 4)}) == "");
}

TEST_CASE("What is resized to its own size is an array of its own", "[resize]") {
  for (const ResizeMode mode : {ResizeMode::nearest, ResizeMode::bilinear}) {
    const NDArray x = arange(0, 4).reshape({1, 1, 2, 2});
    const NDArray same = resize2d(x, {2, 2}, {.mode = mode}), scaled = upsampling(x, 1, {.mode = mode});
    same.assign(9);
    scaled.assign(8);
    CHECK(x.to_vector<int>() == std::vector<int>{0, 1, 2, 3});
    CHECK(
        gradient_differences(
            [=](const auto& v) {
              return resize2d(v[0], {2, 2}, {.mode = mode});
            },
            {x.astype(float64)}) == "");
  }
}

TEST_CASE("Resizing and boxes refuse what does not fit, by name and values", "[resize]") {
  const NDArray x = ones({1, 2, 3, 3});
  CHECK_THROWS_WITH(resize2d(ones({2, 3, 3}), {2, 2}), contains("resize2d") && contains("(2, 3, 3)"));
  CHECK_THROWS_AS(resize2d(zeros({1, 2, 0, 3}), {2, 2}), ShapeError);
  CHECK_THROWS_AS(resize2d(x, {2}), ValueError);
  CHECK_THROWS_AS(resize2d(x, {0, 2}), ValueError);
  CHECK_THROWS_AS(resize2d(x, {2, 2}, {.align_corners = true}), ValueError);
  CHECK_THROWS_AS(resize2d(x.astype(int32), {2, 2}, k_mixed), DTypeError);
  CHECK_THROWS_WITH(upsampling(x, 0), contains("upsampling") && contains("0"));
  CHECK_THROWS_AS(upsampling(x[0], 2), ShapeError);
  CHECK_THROWS_AS(box_iou(ones({2, 3}), ones({2, 4})), ShapeError);
  CHECK_THROWS_AS(box_iou(ones({2, 4}), ones({})), ShapeError);
  CHECK_THROWS_AS(box_iou(ones({2, 4}).astype(int32), ones({2, 4})), DTypeError);
}
