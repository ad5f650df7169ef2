// Images at given places, and convolutions whose taps are moved, against plain loops in double.
#include <algorithm>
#include <cmath>
#include <vector>

#include <sluice/operator/vision/grid_sample.h>

#include "tests/operator/heavy_reference.h"
#include "tests/operator/traced.h"
#include "tests/support/catch.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

// Mirrored step by step.
double inside(double at, std::int64_t extent, const GridSampleOptions& o) {
  const auto size = static_cast<double>(extent);
  at = o.align_corners ? (at + 1) / 2 * (size - 1) : ((at + 1) * size - 1) / 2;
  if (o.padding == SamplePadding::border)
    return std::clamp(at, 0.0, size - 1);
  if (o.padding != SamplePadding::reflection)
    return at;
  const double low = o.align_corners ? 0 : -0.5, high = o.align_corners ? size - 1 : size - 0.5;
  if (high <= low)
    return 0;
  while (at < low || at > high)
    at = at < low ? 2 * low - at : 2 * high - at;
  return std::clamp(at, 0.0, size - 1);
}

// 0 beside the plane.
double sample(const double* plane, const Shape& xs, double y, double x, bool nearest) {
  const auto value = [&](double row, double column) {
    if (row < 0 || row >= static_cast<double>(xs[2]) || column < 0 || column >= static_cast<double>(xs[3]))
      return 0.0;
    return plane[static_cast<std::int64_t>(row) * xs[3] + static_cast<std::int64_t>(column)];
  };
  if (nearest)
    return value(std::nearbyint(y), std::nearbyint(x));
  const double top = std::floor(y), left = std::floor(x), down = y - top, right = x - left;
  return (value(top, left) * (1 - right) + value(top, left + 1) * right) * (1 - down) +
         (value(top + 1, left) * (1 - right) + value(top + 1, left + 1) * right) * down;
}

NDArray reference(const NDArray& x, const NDArray& grid, const GridSampleOptions& o) {
  const Shape &xs = x.shape(), &gs = grid.shape();
  const auto xv = x.to_vector<double>(), gv = grid.to_vector<double>();
  std::vector<double> values;
  for (std::int64_t plane = 0; plane < xs[0] * xs[1]; ++plane)
    for (std::int64_t i = 0; i < gs[1] * gs[2]; ++i) {
      const double* const at = gv.data() + (plane / xs[1] * gs[1] * gs[2] + i) * 2;
      const double row = inside(at[1], xs[2], o), column = inside(at[0], xs[3], o);
      values.push_back(sample(xv.data() + plane * xs[2] * xs[3], xs, row, column, o.mode == SampleMode::nearest));
    }
  return array(values, {xs[0], xs[1], gs[1], gs[2]});
}

std::vector<GridSampleOptions> all_options() {
  std::vector<GridSampleOptions> all;
  for (const SampleMode mode : {SampleMode::bilinear, SampleMode::nearest})
    for (const SamplePadding padding : {SamplePadding::zeros, SamplePadding::border, SamplePadding::reflection})
      for (const bool corners : {false, true})
        all.push_back({mode, padding, corners});
  return all;
}

struct Deformed {
  Shape x, weight;
  DeformableConvolutionOptions options;
};

const std::vector<Deformed> k_deformed = {
    {{2, 3, 5, 4}, {4, 3, 3, 2}, {.pad = {1, 1}}},
    {{1, 4, 6, 5},
     {6, 2, 2, 3},
     {.stride = {2, 1}, .pad = {0, 1, 1, 2}, .dilation = {1, 2}, .groups = 2, .deformable_groups = 2}},
    {{2, 2, 3, 3}, {1, 2, 1, 1}, {.deformable_groups = 2}},
};

Shape result_shape(const Deformed& c) {
  const DeformableConvolutionOptions& o = c.options;
  const ConvolutionOptions plain{o.stride, o.pad, o.dilation, o.groups};
  return convolution(zeros(c.x), zeros(c.weight), {}, plain).shape();
}

NDArray reference(
    const Deformed& c, const NDArray& x, const NDArray& offset, const NDArray& weight, const NDArray& mask) {
  const DeformableConvolutionOptions& o = c.options;
  const Shape y = result_shape(c), &xs = c.x, &ws = c.weight;
  const auto xv = x.to_vector<double>(), wv = weight.to_vector<double>(), ov = offset.to_vector<double>();
  const auto mv = mask.to_vector<double>();
  const std::int64_t taps = ws[2] * ws[3], points = y[2] * y[3], share = xs[1] / o.deformable_groups;
  std::vector<double> values;
  for (std::int64_t n = 0; n < y[0]; ++n)
    for (std::int64_t k = 0; k < y[1]; ++k)
      for (std::int64_t i = 0; i < points; ++i) {
        double sum = 0;
        for (std::int64_t j = 0; j < ws[1] * taps; ++j) {
          const std::int64_t channel = k / (y[1] / o.groups) * ws[1] + j / taps, tap = j % taps;
          const std::int64_t moves = (n * o.deformable_groups + channel / share) * taps + tap;
          const auto place = [&](int axis, std::int64_t out, std::int64_t at) {
            const double by = ov[static_cast<std::size_t>((moves * 2 + axis) * points + i)];
            return static_cast<double>(out * o.stride[axis] - o.pad[axis] + at * o.dilation[axis]) + by;
          };
          const double row = place(0, i / y[3], tap / ws[3]), column = place(1, i % y[3], tap % ws[3]);
          const double* const plane = xv.data() + (n * xs[1] + channel) * xs[2] * xs[3];
          sum += sample(plane, xs, row, column, false) * mv[static_cast<std::size_t>(moves * points + i)] *
                 wv[static_cast<std::size_t>(k * ws[1] * taps + j)];
        }
        values.push_back(sum);
      }
  return array(values, y);
}

struct Inputs {
  NDArray x, offset, weight, mask, bias;
};

Inputs inputs_of(const Deformed& c, DType dtype) {
  const Shape y = result_shape(c);
  const std::int64_t samples = c.options.deformable_groups * c.weight[2] * c.weight[3];
  return {
      random_array(c.x, 1, -1, 1, dtype),
      random_array({y[0], 2 * samples, y[2], y[3]}, 2, -2, 2, dtype),
      random_array(c.weight, 3, -1, 1, dtype),
      random_array({y[0], samples, y[2], y[3]}, 4, 0, 1, dtype),
      random_array({y[1]}, 5, -1, 1, dtype)};
}

}  // namespace

TEST_CASE("grid_sample agrees with plain loops for every type, mode and padding", "[grid_sample]") {
  for (const GridSampleOptions& o : all_options()) {
    for (const DType dtype : k_heavy_dtypes) {
      CAPTURE(o.padding, o.mode, o.align_corners, name_of(dtype));
      const NDArray x = random_array({2, 3, 4, 5}, 1, -1, 1, dtype), grid = random_array({2, 6, 7, 2}, 2, -3, 3);
      const NDArray y = grid_sample(x, grid, o);
      CHECK(y.dtype() == dtype);
      const Tolerance tolerance = dtype == float64 ? tolerance_of(float32) : tolerance_of(dtype);
      CHECK(differences(y, reference(x, grid, o), tolerance) == "");
    }
    const NDArray pixel = random_array({1, 2, 1, 1}, 1), at = random_array({1, 3, 3, 2}, 2, -2, 2);
    CHECK(differences(grid_sample(pixel, at, o), reference(pixel, at, o)) == "");
  }
  CHECK(grid_sample(zeros({0, 2, 3, 3}), zeros({0, 4, 5, 2})).shape() == Shape{0, 2, 4, 5});
  CHECK(grid_sample(zeros({2, 2, 3, 3}), zeros({2, 0, 5, 2})).shape() == Shape{2, 2, 0, 5});
  CHECK(grid_sample(zeros({2, 2, 3, 3}), zeros({2, 5, 0, 2})).shape() == Shape{2, 2, 5, 0});
}

TEST_CASE("Samples without channels or results have their shapes, and gradients of 0", "[grid_sample][deformable]") {
  const auto gradients_of = [](std::vector<NDArray> in, const auto& f) {
    NDArray y;
    for (NDArray& x : in)
      x.attach_grad();
    {
      const autograd::RecordScope record;
      y = f(in);
    }
    y.backward();
    for (const NDArray& x : in)
      CHECK(differences(x.grad(), zeros_like(x), {0, 0}) == "");
    return y;
  };
  for (const std::int64_t n : {0, 1, 3}) {
    for (const DType dtype : k_heavy_dtypes) {
      CAPTURE(n, name_of(dtype));
      const ArrayOptions as{.dtype = dtype};
      const auto sampled = [](const auto& in) { return grid_sample(in[0], in[1]); };
      const NDArray y = gradients_of({zeros({n, 0, 3, 3}, as), random_array({n, 4, 5, 2}, 1)}, sampled);
      CHECK(y.shape() == Shape{n, 0, 4, 5});
      CHECK(y.dtype() == dtype);
      struct Empty {
        Shape x, weight;
      };
      for (const Empty& c : {Empty{{n, 0, 3, 3}, {2, 0, 1, 1}}, Empty{{n, 2, 3, 3}, {0, 2, 1, 1}}}) {
        const auto f = [](const auto& in) { return deformable_convolution(in[0], in[1], in[3], {}, in[2]); };
        const NDArray offset = random_array({n, 2, 3, 3}, 1, -1, 1, dtype), mask = ones({n, 1, 3, 3}, as);
        const NDArray made = gradients_of({ones(c.x, as), offset, mask, ones(c.weight, as)}, f);
        CHECK(differences(made, zeros({n, c.weight[0], 3, 3}, as), {0, 0}) == "");
        const NDArray bias = random_array({c.weight[0]}, 2, -1, 1, dtype);
        CHECK(
            differences(
                deformable_convolution(ones(c.x, as), offset, ones(c.weight, as), bias),
                bias.reshape({1, c.weight[0], 1, 1}).broadcast_to({n, c.weight[0], 3, 3}).copy(),
                {0, 0}) == "");
      }
      const NDArray rows = zeros({n, 2, 0, 3}, as), taps = ones({4, 2, 1, 1}, as);  // two rows of padding
      CHECK(
          deformable_convolution(rows, zeros({n, 2, 2, 3}, as), taps, {}, {}, {.pad = {1, 0}}).shape() ==
          Shape{n, 4, 2, 3});
    }
  }
}

TEST_CASE("What lies beside the image is not read, whatever stands at its edge", "[grid_sample]") {
  const NDArray x = full({1, 1, 2, 2}, INFINITY), far = array(std::vector<float>{9, 9, -9, 0, NAN, 0}, {1, 1, 3, 2});
  CHECK(grid_sample(x, far).to_vector<float>() == std::vector<float>(3, 0));
}

// Places 1 and 3 of five are infinite or NaN, the others inside and finite.
TEST_CASE("Places that are infinite or NaN leave gradients of all others alone", "[grid_sample]") {
  for (const GridSampleOptions& o : all_options()) {
    for (const float odd : {INFINITY, -INFINITY, NAN}) {
      CAPTURE(o.padding, o.mode, o.align_corners, odd);
      const auto gradients = [&](const std::vector<float>& places) {
        NDArray x = random_array({1, 2, 4, 4}, 1), grid = array(places, {1, 1, 5, 2}), y;
        x.attach_grad();
        grid.attach_grad();
        {
          const autograd::RecordScope record;
          y = grid_sample(x, grid, o).slice(3, 0, 5, 2);
        }
        y.backward();
        std::vector<NDArray> of{y, x.grad()};
        if (o.mode == SampleMode::bilinear)
          of.push_back(grid.grad());
        return of;
      };
      const auto wanted = gradients({0.1f, 0.2f, 0, 0, -0.3f, 0.4f, 0, 0, 0.5f, -0.1f});
      const auto given = gradients({0.1f, 0.2f, odd, 0.3f, -0.3f, 0.4f, 0.2f, odd, 0.5f, -0.1f});
      for (std::size_t i = 0; i < wanted.size(); ++i)
        CHECK(differences(given[i], wanted[i], {0, 0}) == "");
    }
  }
}

// Heads of 1 for all, so that what is beside takes part in backward.
TEST_CASE("Gradients are finite where a place is not, or a pixel that no place reads", "[grid_sample][deformable]") {
  for (const SamplePadding padding : {SamplePadding::zeros, SamplePadding::border, SamplePadding::reflection}) {
    for (const float odd : {INFINITY, -INFINITY, NAN, 1e38f}) {
      CAPTURE(padding, odd);
      NDArray x = random_array({1, 1, 4, 4}, 1), y;
      NDArray grid = array(std::vector<float>{0.1f, 0.2f, odd, 0.3f, 0.2f, odd, odd, odd}, {1, 1, 4, 2});
      x.attach_grad();
      grid.attach_grad();
      {
        const autograd::RecordScope record;
        y = grid_sample(x, grid, {.padding = padding});
      }
      y.backward();
      CHECK(all(isfinite(y)).item<bool>());
      CHECK(all(isfinite(x.grad())).item<bool>());
      CHECK(all(isfinite(grid.grad())).item<bool>());
      CHECK(any(grid.grad() != 0).item<bool>());
      if (std::isnan(odd) || padding == SamplePadding::zeros)
        CHECK(y.slice(3, 1, 4).to_vector<float>() == std::vector<float>(3, 0));
    }
  }
  NDArray x = ones({1, 1, 4, 4}), far = array(std::vector<float>{5, 5, 0.9f, 0.9f, -5, 0}, {1, 1, 3, 2}), y;
  x.slice(2, 0, 1) += INFINITY;  // what a place beside the image must not read
  far.attach_grad();
  {
    const autograd::RecordScope record;
    y = grid_sample(x, far);
  }
  y.backward();
  CHECK(all(isfinite(far.grad())).item<bool>());

  NDArray image = random_array({1, 1, 3, 3}, 1), weight = ones({1, 1, 1, 1}), offset = zeros({1, 2, 3, 3});
  offset.slice(2, 1, 2).slice(3, 1, 2) += NAN;
  for (NDArray* of : {&image, &weight, &offset})
    of->attach_grad();
  {
    const autograd::RecordScope record;
    y = deformable_convolution(image, offset, weight, {});
  }
  y.backward();
  CHECK(image.grad().to_vector<float>() == std::vector<float>{1, 1, 1, 1, 0, 1, 1, 1, 1});
  CHECK(all(isfinite(offset.grad())).item<bool>());
  CHECK(all(isfinite(weight.grad())).item<bool>());
}

TEST_CASE("The gradients of grid_sample agree with finite differences, twice and in graphs too", "[grid_sample]") {
  const std::vector<NDArray> inputs{
      random_array({2, 2, 3, 4}, 1, -1, 1, float64), random_array({2, 3, 2, 2}, 2, -1.7, 1.7, float64)};
  for (const GridSampleOptions& o : all_options()) {
    CAPTURE(o.padding, o.mode, o.align_corners);
    CHECK(gradient_differences([&](const auto& v) { return grid_sample(v[0], v[1], o); }, inputs) == "");
  }
  const auto f = [](const auto& v) { return grid_sample(v[0], v[1], {.padding = SamplePadding::reflection}); };
  CHECK(traced_differences(f, {random_array({3, 2, 4, 5}, 1), random_array({3, 2, 2, 2}, 2, -3, 3)}) == "");
}

TEST_CASE("Deformable convolutions agree with plain loops for every type and attribute", "[deformable]") {
  for (const Deformed& c : k_deformed) {
    for (const DType dtype : k_heavy_dtypes) {
      CAPTURE(to_string(c.x), to_string(c.weight), name_of(dtype));
      const Inputs in = inputs_of(c, dtype);
      const NDArray y = deformable_convolution(in.x, in.offset, in.weight, {}, in.mask, c.options);
      CHECK(y.dtype() == dtype);
      CHECK(differences(y, reference(c, in.x, in.offset, in.weight, in.mask), sum_tolerance(dtype)) == "");
      const NDArray plain = deformable_convolution(in.x, in.offset, in.weight, {}, {}, c.options);
      CHECK(
          differences(plain, reference(c, in.x, in.offset, in.weight, ones_like(in.mask)), sum_tolerance(dtype)) == "");
      const NDArray biased = deformable_convolution(in.x, in.offset, in.weight, in.bias, {}, c.options);
      CHECK(differences(biased, plain + in.bias.reshape({1, -1, 1, 1}), {0, 0}) == "");
    }
    const Inputs in = inputs_of(c, float64);
    const auto f = [&](const auto& v) { return deformable_convolution(v[0], v[1], v[2], v[4], v[3], c.options); };
    CHECK(gradient_differences(f, {in.x, in.offset, in.weight, in.mask, in.bias}) == "");
  }
  const Deformed& c = k_deformed[0];
  const Inputs in = inputs_of(c, float32);
  const NDArray still = deformable_convolution(in.x, zeros_like(in.offset), in.weight, in.bias, {}, c.options);
  CHECK(differences(still, convolution(in.x, in.weight, in.bias, {.pad = {1, 1}}), sum_tolerance(float32)) == "");
  const auto f = [&](const auto& v) { return deformable_convolution(v[0], v[1], v[2], {}, {}, c.options); };
  CHECK(traced_differences(f, {in.x, in.offset, in.weight}) == "");
}

TEST_CASE("Samples refuse what does not fit, by name and values", "[grid_sample][deformable]") {
  const NDArray x = ones({2, 3, 4, 5}), grid = zeros({2, 2, 2, 2});
  CHECK_THROWS_WITH(grid_sample(x, zeros({1, 2, 2, 2})), contains("grid_sample") && contains("(1, 2, 2, 2)"));
  CHECK_THROWS_AS(grid_sample(x[0], grid), ShapeError);
  CHECK_THROWS_AS(grid_sample(x, zeros({2, 2, 2, 3})), ShapeError);
  CHECK_THROWS_AS(grid_sample(zeros({2, 3, 0, 5}), grid), ShapeError);
  CHECK_THROWS_AS(grid_sample(x.astype(int32), grid), DTypeError);
  CHECK_THROWS_AS(grid_sample(x, grid.astype(int32)), DTypeError);
  const NDArray weight = ones({1, 3, 2, 2}), offset = zeros({2, 8, 3, 4});
  CHECK_NOTHROW(deformable_convolution(x, offset, weight, {}));
  CHECK_THROWS_WITH(deformable_convolution(x, zeros({2, 9, 3, 4}), weight, {}), contains("(2, 8, 3, 4)"));
  CHECK_THROWS_AS(deformable_convolution(x, offset, weight, ones({2})), ShapeError);
  CHECK_THROWS_AS(deformable_convolution(x, offset, weight, {}, ones({2, 3, 3, 4})), ShapeError);
  for (const std::int64_t groups : {2, 0, -1})
    CHECK_THROWS_AS(deformable_convolution(x, offset, weight, {}, {}, {.deformable_groups = groups}), ShapeError);
  CHECK_THROWS_AS(deformable_convolution(x, offset, weight.astype(float64), {}), DTypeError);
  const Operator& op = *find_operator("deformable_convolution");
  CHECK_THROWS_AS(invoke_one(op, {x, offset}, parse_attributes(op, ""), {}), ValueError);
  const Operator& taps = *find_operator("tap_places");
  const auto placed = [&](const char* how) { return invoke(taps, {&offset, 1}, parse_attributes(taps, how), {}); };
  CHECK_NOTHROW(placed("kernel=(2, 2), out=(3, 4)"));
  for (const char* beside : {"stride=(0, 1)", "dilation=(1, 0)", "begin=(-1, 0)", "dilation=(1,)"}) {
    CAPTURE(beside);
    CHECK_THROWS_AS(placed(("kernel=(2, 2), out=(3, 4), " + std::string(beside)).c_str()), ValueError);
  }
}
