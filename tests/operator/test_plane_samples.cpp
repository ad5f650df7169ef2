// Planes sampled at places, and the gradients, against plain loops; what they refuse.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/reference.h"
#include "tests/operator/simd_targets.h"
#include "tests/support/catch.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// Images, channels and places in numbers at which loops change: whole groups, some more, more than a stretch.
struct Sizes {
  Shape x, at;
};
const std::vector<Sizes> k_sizes = {
    {{2, 3, 4, 5}, {2, 6, 7}},
    {{1, 33, 9, 8}, {1, 4, 4}},
    {{1, 1, 1, 1}, {1, 1, 19}},
    {{3, 2, 1, 6}, {3, 41, 27}},
    {{2, 9, 7, 1}, {2, 2, 1}},
    {{0, 2, 3, 3}, {0, 4, 4}},
    {{2, 2, 3, 3}, {2, 0, 4}},
};

Arrays called(const char* name, const std::vector<NDArray>& in, const std::string& how) {
  const Operator& op = *find_operator(name);
  return invoke(op, in, parse_attributes(op, how), SourceLocation::current());
}

/// Sums over pixels of what f says of each: f(image, channel, point, pixel, weight and its slopes by row and column).
template <class F>
void each_pixel(const Dense& x, const Dense& rows, const Dense& columns, bool nearest, const F& f) {
  const std::int64_t points = rows.shape[1] * rows.shape[2], height = x.shape[2], width = x.shape[3];
  const auto hat = [&](double at, double pixel) {
    const double before = std::floor(at);
    return nearest               ? std::nearbyint(at) == pixel
           : pixel == before     ? 1 - (at - before)
           : pixel == before + 1 ? at - before
                                 : 0;
  };
  const auto slope = [&](double at, double pixel) {
    return pixel == std::floor(at) ? -1. : pixel == std::floor(at) + 1 ? 1. : 0.;
  };
  for (std::int64_t i = 0; i < x.shape[0] * points; ++i) {
    const double row = rows.values[i], column = columns.values[i];
    for (std::int64_t k = 0; k < height * width; ++k) {
      const auto r = static_cast<double>(k / width), c = static_cast<double>(k % width);
      for (std::int64_t channel = 0; channel < x.shape[1]; ++channel) {
        const std::int64_t plane = i / points * x.shape[1] + channel;
        f(i,
          plane * points + i % points,
          plane * height * width + k,
          hat(row, r) * hat(column, c),
          slope(row, r) * hat(column, c),
          hat(row, r) * slope(column, c));
      }
    }
  }
}

// Places on pixels, between them and beside the plane.
NDArray places(const Shape& at, int seed, std::int64_t extent, DType dtype) {
  const NDArray any = random_array(at, seed, -2, static_cast<double>(extent) + 1, dtype);
  return where(random_array(at, seed + 1, 0, 1) < 0.3, round(any), any);
}

}  // namespace

TEST_CASE("Planes sampled at places agree with plain loops, and so do their gradients", "[grid_sample]") {
  for (const Sizes& sizes : k_sizes) {
    for (const bool nearest : {false, true}) {
      for (const DType dtype : {float32, float64}) {
        CAPTURE(to_string(sizes.x), to_string(sizes.at), nearest, name_of(dtype));
        const std::string how = nearest ? "nearest=true" : "";
        const Tolerance close{tolerance_of(dtype).relative, 10 * tolerance_of(dtype).absolute};
        const NDArray x = random_array(sizes.x, 1, -1, 1, dtype);
        const NDArray rows = places(sizes.at, 2, sizes.x[2], dtype), columns = places(sizes.at, 4, sizes.x[3], dtype);
        const NDArray dy = random_array({sizes.x[0], sizes.x[1], sizes.at[1], sizes.at[2]}, 6, -1, 1, dtype);
        const Dense pixels(x), at(rows), beside(columns), head(dy);
        Dense y(dy.shape(), 0), dx(sizes.x, 0), down(sizes.at, 0), across(sizes.at, 0);
        each_pixel(pixels, at, beside, nearest, [&](auto point, auto place, auto pixel, double w, double r, double c) {
          y.values[place] += w * pixels.values[pixel];
          dx.values[pixel] += w * head.values[place];
          down.values[point] += r * head.values[place] * pixels.values[pixel];
          across.values[point] += c * head.values[place] * pixels.values[pixel];
        });
        CHECK(differences(called("plane_samples", {x, rows, columns}, how)[0], y.array(), close) == "");
        CHECK(differences(called("plane_samples_backward", {dy, rows, columns, x}, how)[0], dx.array(), close) == "");
        if (nearest)
          continue;
        const Arrays slopes = called("plane_slopes", {dy, x, rows, columns}, how);
        CHECK(differences(slopes[0], down.array(), close) == "");
        CHECK(differences(slopes[1], across.array(), close) == "");
      }
    }
  }
}

// Pixels of many channels are turned to be neighbours where that is worth it; of one channel they never are.
TEST_CASE("Samples of channels side by side have the bits of those taken one by one", "[grid_sample]") {
  const double inf = std::numeric_limits<double>::infinity();
  for (const simd::Target target : simd_targets()) {
    const simd::TargetScope scope(target);
    for (const std::int64_t channels : {15, 16, 17, 31, 33}) {
      for (const Shape& at : {Shape{4, 7, 9}, Shape{4, 1, 1}, Shape{4, 33, 32}}) {
        for (const char* const how : {"", "nearest=true"}) {
          CAPTURE(name_of(target), channels, to_string(at), how);
          NDArray x = random_array({4, channels, 9, 11}, 1);
          x = where(abs(x) < 0.02, -0.0, x);
          x.slice(2, 0, 1).slice(3, 0, 1).assign(full({4, channels, 1, 1}, inf));
          NDArray rows = places(at, 2, 9, float32), columns = places(at, 4, 11, float32);
          rows.slice(2, 0, 1).assign(full({4, at[1], 1}, std::nan("")));
          const NDArray all = called("plane_samples", {x, rows, columns}, how)[0];
          for (std::int64_t c = 0; c < channels; ++c) {
            const NDArray one = x.slice(1, c, c + 1).copy();
            CHECK(equal_bits(all.slice(1, c, c + 1), called("plane_samples", {one, rows, columns}, how)[0]));
          }
        }
      }
    }
  }
}

TEST_CASE("Samples of planes have the same bits whatever the number of workers", "[grid_sample]") {
  std::vector<std::vector<float>> all;
  for (const int workers : {1, 2, 4}) {
    Engine engine({.workers = workers});
    const EngineScope scope(engine);
    NDArray x = random_array({2, 35, 31, 29}, 1), grid = random_array({2, 45, 50, 2}, 2, -1.2, 1.2), y;
    x.attach_grad();
    grid.attach_grad();
    {
      const autograd::RecordScope record;
      y = grid_sample(x, grid);
    }
    y.backward(random_array(y.shape(), 3));
    std::vector<float>& bits = all.emplace_back();
    for (const NDArray& of : {y, x.grad(), grid.grad()}) {
      const auto values = of.to_vector<float>();
      bits.insert(bits.end(), values.begin(), values.end());
    }
  }
  CHECK((all[0] == all[1]));
  CHECK((all[0] == all[2]));
}

TEST_CASE("Gradients of the gradients of samples are right", "[grid_sample]") {
  const std::vector<NDArray> inputs{
      random_array({1, 2, 4, 5}, 1, -1, 1, float64), random_array({1, 2, 3, 2}, 2, -0.9, 0.9, float64)};
  const auto of_gradient = [](const auto& v) {
    std::vector<NDArray> in(v.begin(), v.end());
    for (NDArray& each : in) {
      if (!autograd::on_tape(each)) {
        each = each.detach();
        each.attach_grad();
      }
    }
    const autograd::RecordScope record;
    const NDArray y = square(grid_sample(in[0], in[1]));
    const auto first = autograd::grad(std::vector{sum(y)}, in, {}, {.create_graph = true});
    return sum(square(first[0])) + sum(square(first[1]));
  };
  CHECK(gradient_differences(of_gradient, inputs) == "");
}

TEST_CASE("Gradients of the gradients at places that are no numbers are those of no pixel", "[grid_sample]") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  NDArray x = random_array({1, 2, 3, 3}, 1, -1, 1, float64), dy = random_array({1, 2, 1, 5}, 2, -1, 1, float64);
  NDArray rows = array<double>({inf, -inf, nan, 1, 0.5}, {1, 1, 5}),
          columns = array<double>({1, 0.5, 1, inf, 0.5}, {1, 1, 5});
  for (NDArray* each : {&x, &dy, &rows, &columns})
    each->attach_grad();
  {
    const autograd::RecordScope record;
    const Arrays slopes = called("plane_slopes", {dy, x, rows, columns}, "");
    sum(slopes[0] + slopes[1]).backward();
  }
  const auto of_dy = dy.grad().to_vector<double>();
  for (std::size_t i = 0; i < of_dy.size(); ++i) {
    CAPTURE(i);
    CHECK((i % 5 == 4) == (of_dy[i] != 0));
  }
  for (const NDArray& of : {x.grad(), dy.grad(), rows.grad(), columns.grad()})
    CHECK(all(isfinite(of)).item<bool>());
}

TEST_CASE("Places behind planes of more columns than floats count are behind them all the same", "[grid_sample][gpu]") {
  constexpr std::int64_t k_columns = (std::int64_t{1} << 24) + 4;  // of 1 less the nearest float is as many
  for (const Device device : num_gpus() > 0 ? std::vector{cpu(), gpu()} : std::vector{cpu()}) {
    const NDArray all = ones({k_columns + 4}, {.device = device});
    all.slice(0, k_columns, k_columns + 4).assign(7);
    const NDArray grid = ones({1, 1, 1, 2}, {.device = device});
    for (const bool nearest : {false, true}) {
      for (const bool border : {false, true}) {
        CAPTURE(device, nearest, border);
        const GridSampleOptions how{
            nearest ? SampleMode::nearest : SampleMode::bilinear,
            border ? SamplePadding::border : SamplePadding::zeros};
        NDArray x = all.slice(0, 0, k_columns).reshape({1, 1, 1, k_columns});
        CHECK(grid_sample(x, grid, how).to_vector<float>()[0] == (border ? 1 : 0));
        if (device.is_gpu())
          continue;
        x.attach_grad();
        {
          const autograd::RecordScope record;
          grid_sample(x, grid, how).backward();
        }
        CHECK(sum(x.grad()).to_vector<float>()[0] == (border ? 1 : 0));
      }
    }
  }
}

TEST_CASE("Samples of planes refuse what does not fit, by name and values", "[grid_sample]") {
  const NDArray x = ones({2, 3, 4, 5}), at = zeros({2, 3, 3});
  const auto call = [](const char* name, const std::vector<NDArray>& in, const char* how = "") {
    return called(name, in, how);
  };
  CHECK_THROWS_WITH(
      call("plane_samples", {x, at, zeros({2, 3, 4})}), contains("plane_samples") && contains("(2, 3, 4)"));
  CHECK_THROWS_AS(call("plane_samples", {x[0], at, at}), ShapeError);
  CHECK_THROWS_AS(call("plane_samples", {zeros({2, 3, 0, 5}), at, at}), ShapeError);
  CHECK_THROWS_AS(call("plane_samples", {x, at, at.astype(float64)}), DTypeError);
  CHECK_THROWS_AS(call("plane_samples_backward", {ones({2, 3, 3, 2}), at, at, x}), ShapeError);
  const NDArray dy = ones({2, 3, 3, 3});
  CHECK_THROWS_AS(call("plane_slopes", {dy, x, at, at}, "nearest=true"), ValueError);
}
