// Pooling of one axis, by norms, and to a given size, against plain loops in double.
#include <cmath>
#include <vector>

#include "tests/operator/heavy_reference.h"
#include "tests/operator/traced.h"
#include "tests/support/catch.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

const std::vector<PoolOptions> k_windows = {
    {.kernel = {2, 2}, .stride = {2, 2}},
    {.kernel = {3, 2}, .stride = {1, 2}, .pad = {1, 1}},
    {.kernel = {3, 3}, .stride = {2, 3}, .pad = {1, 0, 2, 1}},
    {.kernel = {2, 3}, .stride = {2, 2}, .ceil_mode = true},
    {.kernel = {2, 2}, .stride = {3, 4}, .pad = {1, 1}, .ceil_mode = true},
};

NDArray norm_reference(const NDArray& x, double p, const PoolOptions& o) {
  const Shape& xs = x.shape();
  const auto xv = x.to_vector<double>();
  const bool apart = o.pad.ndim() == 4;
  std::int64_t out[2];
  for (int i = 0; i < 2; ++i) {
    const std::int64_t room = xs[i + 2] + o.pad[i] + o.pad[apart ? i + 2 : i] - o.kernel[i];
    out[i] = (room + (o.ceil_mode ? o.stride[i] - 1 : 0)) / o.stride[i] + 1;
    if (o.ceil_mode && (out[i] - 1) * o.stride[i] >= xs[i + 2] + o.pad[i])
      --out[i];
  }
  std::vector<double> values;
  for (std::int64_t plane = 0; plane < xs[0] * xs[1]; ++plane)
    for (std::int64_t i = 0; i < out[0] * out[1]; ++i) {
      double sum = 0;
      for (std::int64_t k = 0; k < o.kernel[0] * o.kernel[1]; ++k) {
        const std::int64_t y = i / out[1] * o.stride[0] - o.pad[0] + k / o.kernel[1];
        const std::int64_t z = i % out[1] * o.stride[1] - o.pad[1] + k % o.kernel[1];
        if (y >= 0 && y < xs[2] && z >= 0 && z < xs[3])
          sum += std::pow(std::abs(xv[static_cast<std::size_t>((plane * xs[2] + y) * xs[3] + z)]), p);
      }
      values.push_back(std::pow(sum, 1 / p));
    }
  return array(values, {xs[0], xs[1], out[0], out[1]});
}

// PyTorch's windows.
NDArray adaptive_reference(const NDArray& x, const Shape& size, bool is_max) {
  const Shape& xs = x.shape();
  const auto xv = x.to_vector<double>();
  const auto begin = [&](int axis, std::int64_t i) {
    return static_cast<std::int64_t>(
        std::floor(static_cast<double>(i * xs[axis + 2]) / static_cast<double>(size[axis])));
  };
  const auto end = [&](int axis, std::int64_t i) {
    return static_cast<std::int64_t>(
        std::ceil(static_cast<double>((i + 1) * xs[axis + 2]) / static_cast<double>(size[axis])));
  };
  std::vector<double> values;
  for (std::int64_t plane = 0; plane < xs[0] * xs[1]; ++plane)
    for (std::int64_t i = 0; i < size[0]; ++i)
      for (std::int64_t j = 0; j < size[1]; ++j) {
        double most = -INFINITY, sum = 0, count = 0;
        for (std::int64_t y = begin(0, i); y < end(0, i); ++y)
          for (std::int64_t z = begin(1, j); z < end(1, j); ++z, ++count) {
            const double value = xv[static_cast<std::size_t>((plane * xs[2] + y) * xs[3] + z)];
            sum += value;
            most = std::isnan(value) || std::isnan(most) ? NAN : std::max(most, value);
          }
        values.push_back(is_max ? most : sum / count);
      }
  return array(values, {xs[0], xs[1], size[0], size[1]});
}

const std::vector<Shape> k_sizes = {{1, 1}, {1, 3}, {2, 2}, {3, 5}, {4, 7}, {6, 4}, {6, 7}, {9, 11}};

}  // namespace

TEST_CASE("Pooling along one axis is that of images of one row", "[pool_composed]") {
  const Pool1DOptions how{.kernel = 3, .stride = 2, .pad = {1, 2}, .ceil_mode = true, .count_include_pad = false};
  const PoolOptions image{
      .kernel = {1, 3}, .stride = {1, 2}, .pad = {0, 1, 0, 2}, .ceil_mode = true, .count_include_pad = false};
  for (const DType dtype : k_heavy_dtypes) {
    CAPTURE(name_of(dtype));
    const NDArray x = random_array({2, 3, 8}, 1, -1, 1, dtype), wide = x.expand_dims(2);
    CHECK(
        differences(max_pool1d(x), reference_pool(wide, {.kernel = {1, 2}, .stride = {1, 2}}, true).squeeze(2)) == "");
    CHECK(
        differences(avg_pool1d(x), reference_pool(wide, {.kernel = {1, 2}, .stride = {1, 2}}, false).squeeze(2)) == "");
    CHECK(differences(max_pool1d(x, how), max_pool2d(wide, image).squeeze(2)) == "");
    CHECK(differences(avg_pool1d(x, how), avg_pool2d(wide, image).squeeze(2)) == "");
    CHECK(differences(max_pool1d(x, {.global = true}), max(x, {2}, true)) == "");
    CHECK(differences(avg_pool1d(x, {.global = true}), mean(x, {2}, true)) == "");
    CHECK(differences(lp_pool1d(x, 2, {.global = true}), l2_norm(x, {2}, true)) == "");
  }
  CHECK(max_pool1d(zeros({0, 3, 8})).shape() == Shape{0, 3, 4});
}

TEST_CASE("Pooling by norms agrees with plain loops for every type, order and attribute", "[pool_composed]") {
  for (const PoolOptions& o : k_windows) {
    for (const DType dtype : k_heavy_dtypes) {
      for (const double p : {1.0, 2.0, 3.0, 0.5}) {
        CAPTURE(to_string(o.kernel), name_of(dtype), p);
        const NDArray x = random_array({2, 3, 6, 7}, 1, -1, 1, dtype);
        const Tolerance tolerance = dtype == float64 ? Tolerance{1e-11, 1e-12} : tolerance_of(dtype);
        CHECK(differences(lp_pool2d(x, p, o), norm_reference(x, p, o), tolerance) == "");
      }
    }
  }
  // Squares that half types do not hold.
  const NDArray large = full({1, 1, 2, 2}, 3e4, {.dtype = float16});
  CHECK(lp_pool2d(large).item<double>() == 6e4);
}

TEST_CASE(
    "The gradients of pooling by norms agree with finite differences, and are 0 beside zeros", "[pool_composed]") {
  for (const PoolOptions& o : k_windows) {
    for (const double p : {1.0, 2.0, 3.0, 1.5}) {
      CAPTURE(to_string(o.kernel), p);
      const std::vector<NDArray> inputs{random_array({1, 2, 6, 7}, 1, -1, 1, float64)};
      CHECK(gradient_differences([&](const auto& v) { return lp_pool2d(v[0], p, o); }, inputs) == "");
    }
  }
  for (const double p : {0.5, 1.0, 2.0, 3.0}) {
    NDArray x = zeros({1, 1, 2, 2});
    x.attach_grad();
    NDArray y;
    {
      const autograd::RecordScope record;
      y = lp_pool2d(x, p);
    }
    y.backward();
    CHECK(y.item<float>() == 0);
    CHECK(x.grad().to_vector<float>() == std::vector<float>(4, 0));
  }
}

TEST_CASE("Adaptive pooling agrees with plain loops for every type and size", "[pool_composed]") {
  for (const Shape& size : k_sizes) {
    for (const DType dtype : k_heavy_dtypes) {
      CAPTURE(to_string(size), name_of(dtype));
      const NDArray x = random_array({2, 3, 6, 7}, 1, -1, 1, dtype);
      CHECK(differences(adaptive_avg_pool2d(x, size), adaptive_reference(x, size, false)) == "");
      CHECK(differences(adaptive_max_pool2d(x, size), adaptive_reference(x, size, true), {0, 0}) == "");
    }
  }
  CHECK(adaptive_avg_pool2d(zeros({0, 3, 6, 7}), {4, 3}).shape() == Shape{0, 3, 4, 3});
  CHECK(adaptive_max_pool2d(zeros({2, 0, 6, 7}), {4, 3}).shape() == Shape{2, 0, 4, 3});
}

TEST_CASE("Adaptive pooling keeps infinities and NaNs to the windows that hold them", "[pool_composed]") {
  for (const double odd : {double{INFINITY}, -double{INFINITY}, double{NAN}}) {
    std::vector<double> values(35, 0.5);
    values[17] = odd;
    const NDArray x = array(values, {1, 1, 5, 7});
    for (const Shape& size : {Shape{2, 3}, Shape{3, 4}, Shape{1, 1}}) {
      CAPTURE(odd, to_string(size));
      CHECK(differences(adaptive_avg_pool2d(x, size), adaptive_reference(x, size, false)) == "");
      CHECK(differences(adaptive_max_pool2d(x, size), adaptive_reference(x, size, true)) == "");
    }
  }
}

TEST_CASE(
    "The gradients of adaptive pooling agree with finite differences, and the first of equal maxima has it",
    "[pool_composed]") {
  for (const Shape& size : k_sizes) {
    CAPTURE(to_string(size));
    const std::vector<NDArray> inputs{random_array({1, 2, 6, 7}, 1, -1, 1, float64)};
    CHECK(gradient_differences([&](const auto& v) { return adaptive_avg_pool2d(v[0], size); }, inputs) == "");
    CHECK(gradient_differences([&](const auto& v) { return adaptive_max_pool2d(v[0], size); }, inputs) == "");
  }
  NDArray x = ones({1, 1, 1, 5});
  x.attach_grad();
  NDArray y;
  {
    const autograd::RecordScope record;
    y = adaptive_max_pool2d(x, {1, 3});
  }
  y.backward();
  CHECK(x.grad().to_vector<float>() == std::vector<float>{1, 1, 0, 1, 0});
}

TEST_CASE("Adaptive pools of one axis and of three are those of planes, axis by axis", "[pool_composed][gpu]") {
  const std::vector<Device> devices = num_gpus() > 0 ? std::vector<Device>{cpu(), gpu()} : std::vector<Device>{cpu()};
  for (const Device device : devices) {
    const NDArray row = random_array({2, 3, 7}, 1).to(device), volume = random_array({2, 3, 5, 4, 6}, 2).to(device);
    for (const std::int64_t size : {1, 3, 7, 9}) {
      CAPTURE(device, size);
      const NDArray image = row.expand_dims(2);
      CHECK(
          differences(adaptive_avg_pool1d(row, size).expand_dims(2), adaptive_reference(image, {1, size}, false)) ==
          "");
      CHECK(
          differences(adaptive_max_pool1d(row, size).expand_dims(2), adaptive_reference(image, {1, size}, true)) == "");
    }
    for (const Shape& size : {Shape{1, 1, 1}, Shape{2, 3, 4}, Shape{5, 4, 6}, Shape{1, 2, 1}, Shape{7, 1, 5}}) {
      CAPTURE(device, to_string(size));
      for (const bool is_max : {false, true}) {
        const NDArray planes = adaptive_reference(volume.reshape({6, 5, 4, 6}), {size[1], size[2]}, is_max);
        const NDArray depths = planes.reshape({2, 3, 5, size[1] * size[2]});
        const NDArray want = adaptive_reference(depths, {size[0], size[1] * size[2]}, is_max);
        const NDArray got = is_max ? adaptive_max_pool3d(volume, size) : adaptive_avg_pool3d(volume, size);
        CHECK(got.shape() == Shape{2, 3, size[0], size[1], size[2]});
        CHECK(differences(got.reshape(want.shape()), want) == "");
      }
    }
  }
  for (const DType dtype : {float16, bfloat16}) {  // rounded once
    const NDArray half = random_array({2, 3, 5, 4, 6}, 3).astype(dtype);
    const NDArray want = adaptive_avg_pool3d(half.astype(float32), {2, 3, 1}).astype(dtype);
    CHECK(differences(adaptive_avg_pool3d(half, {2, 3, 1}), want, {0, 0}) == "");
  }
  CHECK(adaptive_avg_pool3d(zeros({0, 2, 3, 3, 3}), {2, 2, 2}).shape() == Shape{0, 2, 2, 2, 2});
  CHECK(adaptive_max_pool3d(zeros({2, 0, 3, 3, 3}), {2, 2, 2}).shape() == Shape{2, 0, 2, 2, 2});
  CHECK(adaptive_avg_pool1d(zeros({2, 0, 3}), 2).shape() == Shape{2, 0, 2});
  const std::vector<NDArray> row{random_array({2, 2, 7}, 1, -1, 1, float64)};
  CHECK(gradient_differences([](const auto& v) { return adaptive_avg_pool1d(v[0], 3); }, row) == "");
  CHECK(gradient_differences([](const auto& v) { return adaptive_max_pool1d(v[0], 3); }, row) == "");
  const std::vector<NDArray> volume{random_array({1, 2, 3, 4, 5}, 1, -1, 1, float64)};
  CHECK(gradient_differences([](const auto& v) { return adaptive_avg_pool3d(v[0], {2, 3, 2}); }, volume) == "");
  CHECK(gradient_differences([](const auto& v) { return adaptive_max_pool3d(v[0], {2, 3, 2}); }, volume) == "");
  CHECK(traced_differences([](const auto& v) { return adaptive_avg_pool3d(v[0], {2, 3, 2}); }, volume) == "");
}

TEST_CASE("lp_pool3d is the norm of each window, also of half types", "[pool_composed][gpu]") {
  const std::vector<Device> devices = num_gpus() > 0 ? std::vector<Device>{cpu(), gpu()} : std::vector<Device>{cpu()};
  const Pool3DOptions window{.kernel = {2, 3, 2}, .stride = {1, 2, 2}, .pad = {1, 0, 1}};
  for (const Device device : devices) {
    for (const DType dtype : {float16, float32, float64}) {
      const NDArray x = random_array({2, 3, 4, 5, 6}, 1, -2, 2, dtype).to(device);
      for (const double p : {1.0, 2.0, 3.0}) {
        CAPTURE(device, dtype, p);
        const NDArray means = avg_pool3d(power(abs(x.astype(float64)), p), window);
        CHECK(differences(lp_pool3d(x, p, window), power(means * 12, 1 / p), tolerance_of(dtype)) == "");
        const NDArray all = sum(power(abs(x.astype(float64)), p), {2, 3, 4}, true);
        CHECK(differences(lp_pool3d(x, p, {.global = true}), power(all, 1 / p), tolerance_of(dtype)) == "");
      }
    }
  }
  const std::vector<NDArray> x{random_array({1, 2, 3, 4, 5}, 1, 0.3, 1, float64)};
  CHECK(gradient_differences([&](const auto& v) { return lp_pool3d(v[0], 3, window); }, x) == "");
  CHECK(traced_differences([&](const auto& v) { return lp_pool3d(v[0], 2, window); }, x) == "");
  CHECK(lp_pool3d(zeros({2, 0, 3, 3, 3})).shape() == Shape{2, 0, 1, 1, 1});
  CHECK_THROWS_WITH(lp_pool3d(x[0], 0), contains("lp_pool3d: the order p") && contains("0"));
  CHECK_THROWS_WITH(lp_pool3d(ones({2, 2, 2, 2})), contains("lp_pool3d") && contains("(2, 2, 2, 2)"));
  CHECK_THROWS_WITH(adaptive_avg_pool3d(x[0], {1, 2}), contains("adaptive_avg_pool3d: output_size"));
  CHECK_THROWS_WITH(
      adaptive_max_pool1d(ones({2, 2, 3}), 0),
      contains("adaptive_max_pool1d: output_size must be a number >= 1 and < 2^31, not 0"));
  CHECK_THROWS_WITH(adaptive_avg_pool1d(ones({2, 2, 3}), std::int64_t{1} << 31), contains("not 2147483648"));
  CHECK_THROWS_AS(adaptive_max_pool1d(ones({2, 2, 0})), ShapeError);
  CHECK_THROWS_AS(adaptive_avg_pool1d(ones({2, 2, 2}).astype(int32)), DTypeError);
}

TEST_CASE("Composed pools are in graphs what they are by hand", "[pool_composed]") {
  const auto f = [](const auto& v) {
    const NDArray some = adaptive_max_pool2d(v[0], {5, 5}) + lp_pool2d(v[0], 2, {.kernel = {2, 3}, .stride = {1, 1}});
    return adaptive_avg_pool2d(some, {2, 3}) + avg_pool1d(some[0]).slice(0, 0, 2).slice(2, 0, 1).slice(1, 0, 1);
  };
  CHECK(traced_differences(f, {random_array({3, 2, 6, 7}, 1)}) == "");
}

TEST_CASE("Composed pools refuse what does not fit, by name and values", "[pool_composed]") {
  const NDArray x = ones({1, 2, 5, 5}), row = ones({1, 2, 5});
  CHECK_THROWS_AS(max_pool1d(x), ShapeError);
  CHECK_THROWS_WITH(max_pool1d(row, {.kernel = 6}), contains("max_pool1d") && contains("6"));
  CHECK(max_pool1d(row, {.kernel = 5}).shape() == Shape{1, 2, 1});
  CHECK_THROWS_AS(avg_pool1d(row, {.kernel = 0}), ValueError);
  CHECK_THROWS_AS(avg_pool1d(row, {.stride = 0}), ValueError);
  CHECK_THROWS_AS(avg_pool1d(row, {.pad = {2}}), ValueError);
  CHECK_THROWS_AS(avg_pool1d(row, {.pad = {1, 1, 1}}), ValueError);
  CHECK_THROWS_AS(avg_pool1d(row.astype(int32)), DTypeError);
  CHECK_THROWS_AS(lp_pool2d(row), ShapeError);
  CHECK_THROWS_WITH(lp_pool2d(x, 2, {.kernel = {6, 1}}), contains("lp_pool2d") && contains("(6, 1)"));
  for (const double p : {0.0, -1.0, double{INFINITY}, double{NAN}})
    CHECK_THROWS_AS(lp_pool2d(x, p), ValueError);
  CHECK_THROWS_AS(lp_pool1d(row, -2), ValueError);
  CHECK_THROWS_AS(adaptive_avg_pool2d(row), ShapeError);
  CHECK_THROWS_AS(adaptive_avg_pool2d(x, {3}), ValueError);
  CHECK_THROWS_WITH(adaptive_max_pool2d(x, {0, 2}), contains("adaptive_max_pool2d") && contains("(0, 2)"));
  CHECK_THROWS_AS(adaptive_avg_pool2d(zeros({1, 2, 0, 5}), {1, 1}), ShapeError);
  CHECK_THROWS_AS(adaptive_avg_pool2d(x.astype(int32)), DTypeError);
  // As a file may ask.
  constexpr std::int64_t k_many = (std::int64_t{1} << 31) - 1;
  CHECK_THROWS_AS(adaptive_max_pool3d(ones({1, 1, 2, 2, 2}), {k_many, k_many, k_many}), ShapeError);
}
