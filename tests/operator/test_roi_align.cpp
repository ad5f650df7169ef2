// Samples of regions against plain loops in double.
#include <algorithm>
#include <cmath>
#include <vector>

#include <sluice/operator/vision/roi_align.h>
#include <sluice/operator/vision/roi_walk.h>

#include "tests/operator/heavy_reference.h"
#include "tests/operator/traced.h"
#include "tests/support/catch.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

double pixel(const double* plane, std::int64_t height, std::int64_t width, double y, double x) {
  const auto h = static_cast<double>(height), w = static_cast<double>(width);
  if (y < -1 || y > h || x < -1 || x > w)
    return 0;
  y = std::clamp(y, 0.0, h - 1);
  x = std::clamp(x, 0.0, w - 1);
  const double top = std::floor(y), left = std::floor(x);
  double sum = 0;
  for (const double row : {top, top + 1}) {
    for (const double column : {left, left + 1}) {
      const double weight = (1 - std::abs(y - row)) * (1 - std::abs(x - column));
      if (weight > 0)
        sum += weight * plane[static_cast<std::int64_t>(row) * width + static_cast<std::int64_t>(column)];
    }
  }
  return sum;
}

NDArray reference(const NDArray& x, const NDArray& rois, const RoiAlignOptions& o) {
  const Shape& xs = x.shape();
  const auto xv = x.to_vector<double>(), rv = rois.to_vector<double>();
  const std::int64_t rows = o.pooled_size[0], columns = o.pooled_size[1];
  std::vector<double> values;
  for (std::size_t r = 0; r + 4 < rv.size(); r += 5) {
    const double shift = o.aligned ? 0.5 : 0;
    const double left = rv[r + 1] * o.spatial_scale - shift, top = rv[r + 2] * o.spatial_scale - shift;
    double width = rv[r + 3] * o.spatial_scale - shift - left, height = rv[r + 4] * o.spatial_scale - shift - top;
    if (!o.aligned) {
      width = std::max(width, 1.0);
      height = std::max(height, 1.0);
    }
    const double bin_height = height / static_cast<double>(rows), bin_width = width / static_cast<double>(columns);
    const auto points = [&](double bin) {
      return o.sampling_ratio > 0 ? o.sampling_ratio
                                  : std::max<std::int64_t>(0, static_cast<std::int64_t>(std::ceil(bin)));
    };
    const std::int64_t down = points(bin_height), across = points(bin_width);
    for (std::int64_t c = 0; c < xs[1]; ++c) {
      const double* const plane = xv.data() + (static_cast<std::int64_t>(rv[r]) * xs[1] + c) * xs[2] * xs[3];
      for (std::int64_t bin = 0; bin < rows * columns; ++bin) {
        double sum = 0;
        for (std::int64_t i = 0; i < down * across; ++i) {
          const auto part = [](std::int64_t n, std::int64_t of) {
            return (static_cast<double>(n) + 0.5) / static_cast<double>(of);
          };
          const double y = top + (static_cast<double>(bin / columns) + part(i / across, down)) * bin_height;
          const double z = left + (static_cast<double>(bin % columns) + part(i % across, across)) * bin_width;
          sum += pixel(plane, xs[2], xs[3], y, z);
        }
        values.push_back(sum / static_cast<double>(std::max<std::int64_t>(down * across, 1)));
      }
    }
  }
  return array(values, {rois.shape()[0], xs[1], rows, columns});
}

// Inside, over the edges, outside, below a pixel, turned inside out, as large as all.
NDArray regions(DType dtype) {
  const std::vector<double> values{0,  1.5, 0.75, 5.25, 4.5,  1,   -3,  -2.5, 3, 2, 1,   4,    3, 9.5, 8.25, 0, 12, 12,
                                   15, 14,  1,    2.25, 2.25, 2.5, 2.5, 0,    4, 4, 2.5, 3.25, 1, 0,   0,    7, 6};
  return array(values, {7, 5}).astype(dtype);
}

const std::vector<RoiAlignOptions> k_options = {
    {.pooled_size = {2, 3}},
    {.pooled_size = {3, 2}, .sampling_ratio = 2, .aligned = true},
    {.pooled_size = {1, 1}, .spatial_scale = 0.5, .sampling_ratio = 3},
    {.pooled_size = {4, 5}, .spatial_scale = 1.75, .aligned = true},
};

void check_regions(Device device) {
  for (const RoiAlignOptions& o : k_options) {
    for (const DType dtype : k_heavy_dtypes) {
      CAPTURE(to_string(o.pooled_size), name_of(dtype));
      const NDArray x = random_array({2, 3, 6, 7}, 1, -1, 1, dtype), rois = regions(float32);
      const NDArray y = roi_align(x.to(device), rois.to(device), o);
      CHECK(y.dtype() == dtype);
      CHECK(differences(y.to(cpu()), reference(x, rois, o), tolerance_of(dtype)) == "");
    }
  }
}

NDArray gradient_on(Device device, DType dtype, const RoiAlignOptions& o) {
  NDArray x = random_array({2, 11, 6, 7}, 1, -1, 1, dtype).to(device), y;
  x.attach_grad();
  {
    const autograd::RecordScope record;
    y = roi_align(x, regions(float32).to(device), o);
    y = y * random_array(y.shape(), 2, -1, 1, dtype).to(device);
  }
  y.backward();
  return x.grad().to(cpu());
}

// 10^12 samples, of which 16 lie in the image.
void check_large_regions(Device device) {
  for (const double half : {5e5, 1e5}) {
    NDArray x = ones({1, 1, 3, 3}, {.dtype = float64, .device = device}), y;
    x.attach_grad();
    {
      const autograd::RecordScope record;
      const NDArray roi = array(std::vector<double>{0, -half, -half, half, half}, {1, 5}, device);
      y = roi_align(x, roi, {.pooled_size = {1, 1}});
    }
    y.backward();
    const double samples = 4 * half * half;
    CHECK(y.item<double>() == Approx(16 / samples));
    const NDArray each = array(std::vector<double>{1.5, 1, 1.5}, {3, 1}) / samples;
    const NDArray wanted = each * array(std::vector<double>{1.5, 1, 1.5}, {1, 3});
    CHECK(differences(x.grad().reshape({3, 3}).to(cpu()), wanted, {1e-9, 0}) == "");
  }
}

// Of bins some go together, of channels too: one more, and just as many.
void check_many_bins(Device device) {
  const NDArray rois = regions(float64).to(device);
  for (const Shape& pooled : {Shape{16, 17}, Shape{17, 16}, Shape{1, 33}}) {
    for (const std::int64_t channels : {8, 9}) {
      CAPTURE(to_string(pooled), channels);
      const RoiAlignOptions o{.pooled_size = pooled, .sampling_ratio = 2};
      const NDArray x = random_array({2, channels, 6, 7}, 1, -1, 1, float64);
      CHECK(
          differences(roi_align(x.to(device), rois, o).to(cpu()), reference(x, rois.to(cpu()), o), {1e-12, 1e-12}) ==
          "");
    }
  }
}

// A bin of 8 x 8 pixels whose four points touch the pixels 2 and 6 of an axis, and their neighbours with a weight of 0.
void check_infinite_pixels(Device device) {
  const auto mean_of = [&](std::int64_t y, std::int64_t x, std::vector<float> roi) {
    std::vector<float> values(64, 1);
    values[static_cast<std::size_t>(y * 8 + x)] = INFINITY;
    const RoiAlignOptions o{.pooled_size = {1, 1}, .sampling_ratio = 2};
    return roi_align(array(values, {1, 1, 8, 8}, device), array(roi, {1, 5}, device), o).item<float>();
  };
  const std::vector<float> all{0, 0, 0, 8, 8}, corner{0, 7, 7, 8, 8};
  CHECK(mean_of(0, 0, all) == 1);
  CHECK(mean_of(2, 4, all) == 1);  // between the points
  CHECK(mean_of(2, 6, all) == INFINITY);
  CHECK(std::isnan(mean_of(3, 2, all)));     // infinity times 0
  CHECK(mean_of(7, 7, corner) == INFINITY);  // the last of an axis is its own neighbour
  CHECK(mean_of(6, 7, corner) == 1);
}

}  // namespace

TEST_CASE("roi_align agrees with plain loops for every type and option", "[roi_align]") {
  check_regions(cpu());
  CHECK(roi_align(ones({2, 3, 4, 4}), zeros({0, 5})).shape() == Shape{0, 3, 7, 7});
  const NDArray odd = array(std::vector<float>{0, NAN, 0, 2, 2}, {1, 5});
  CHECK(roi_align(ones({1, 1, 4, 4}), odd).to_vector<float>() == std::vector<float>(49, 0));
}

TEST_CASE("roi_align takes any number of bins and channels, forward and backward", "[roi_align]") {
  check_many_bins(cpu());
  for (const Shape& pooled : {Shape{16, 17}, Shape{17, 16}}) {
    CAPTURE(to_string(pooled));
    const NDArray rois = array(std::vector<double>{0, -0.5, 0.25, 2.5, 1.75}, {1, 5});
    const auto f = [&](const auto& v) { return roi_align(v[0], rois, {.pooled_size = pooled}); };
    CHECK(gradient_differences(f, {random_array({1, 9, 2, 3}, 1, -1, 1, float64)}) == "");
  }
}
TEST_CASE("roi_align takes any number of bins and channels on a GPU", "[roi_align][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_many_bins(gpu());
}

TEST_CASE("Infinite pixels reach the bins that touch them and no others", "[roi_align]") {
  check_infinite_pixels(cpu());
}
TEST_CASE("Infinite pixels reach the bins that touch them and no others on a GPU", "[roi_align][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_infinite_pixels(gpu());
}

TEST_CASE("roi_align and its gradient are on a GPU what they are on the CPU", "[roi_align][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_regions(gpu());
  for (const RoiAlignOptions& o : k_options) {
    for (const DType dtype : k_heavy_dtypes) {
      CAPTURE(to_string(o.pooled_size), name_of(dtype));
      CHECK(differences(gradient_on(gpu(), dtype, o), gradient_on(cpu(), dtype, o), tolerance_of(dtype)) == "");
    }
  }
}

TEST_CASE(
    "More regions than a block works out at once, wide and thin, have a CPU's gradient on a GPU", "[roi_align][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  constexpr std::int64_t k_regions = 300;
  const NDArray corners = random_array({k_regions, 2}, 1, -4, 30), size = random_array({k_regions, 2}, 2, -2, 12);
  const NDArray image = random_array({k_regions, 1}, 3, 0, 1, int32).astype(float32);
  const NDArray rois = concat({image, corners, corners + size}, 1);
  for (const Shape& pooled : {Shape{3, 3}, Shape{2, 19}, Shape{9, 8}}) {
    const auto on = [&](Device device) {
      NDArray x = random_array({2, 17, 20, 25}, 4).to(device), y;
      x.attach_grad();
      {
        const autograd::RecordScope record;
        y = roi_align(x, rois.to(device), {.pooled_size = pooled, .spatial_scale = 0.75, .aligned = true});
      }
      y.backward(random_array(y.shape(), 5).to(device));
      return x.grad().to(cpu());
    };
    CHECK(differences(on(gpu()), on(cpu()), {1e-4, 1e-4}) == "");
  }
}

TEST_CASE("A region of an image that is not there is an error at the wait on a GPU too", "[roi_align][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray x = ones({2, 3, 4, 4}).to(gpu());
  const auto of_image = [&](float image) {
    return roi_align(x, array(std::vector<float>{image, 0, 0, 2, 2}, {1, 5}).to(gpu()));
  };
  CHECK_NOTHROW(of_image(1).wait_to_read());
  CHECK_THROWS_AS(of_image(2).wait_to_read(), IndexError);
  CHECK_THROWS_AS(of_image(-1).wait_to_read(), IndexError);
  const Operator& back = *find_operator("roi_samples_backward");
  const NDArray dy = ones({1, 3, 1, 1}).to(gpu()), rois = array(std::vector<float>{2, 0, 0, 2, 2}, {1, 5}).to(gpu());
  const NDArray dx = invoke_one(back, {dy, rois, x}, parse_attributes(back, "pooled_size=(1, 1)"), {});
  CHECK_THROWS_AS(dx.wait_to_read(), IndexError);
}

TEST_CASE("The gradient of roi_align agrees with finite differences, in graphs too", "[roi_align]") {
  const NDArray rois = regions(float64);
  for (const RoiAlignOptions& o : k_options) {
    CAPTURE(to_string(o.pooled_size));
    const auto f = [&](const auto& v) { return roi_align(v[0], rois, o); };
    CHECK(gradient_differences(f, {random_array({2, 2, 6, 7}, 1, -1, 1, float64)}) == "");
  }
  const auto f = [](const auto& v) { return roi_align(v[0], v[1], {.pooled_size = {2, 2}}); };
  CHECK(traced_differences(f, {random_array({2, 3, 6, 7}, 1), regions(float32)}) == "");
}

TEST_CASE("A region far larger than its image costs what lies inside, backward too", "[roi_align]") {
  check_large_regions(cpu());
  const NDArray none = zeros({1, 0, 3, 3}), rois = zeros({1, 5});
  CHECK(roi_align(none, rois, {.pooled_size = {1 << 30, 1}}).shape() == Shape{1, 0, 1 << 30, 1});
}
TEST_CASE("A region far larger than its image costs no more on a GPU", "[roi_align][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_large_regions(gpu());
}

TEST_CASE("The points of a bin that are left out are those outside, and all of these", "[roi_align]") {
  const float infinite = INFINITY;
  for (const float start : {-7.5f, -1e3f, -1e30f, -1.0f, 0.0f, 3.25f, 8.0f, 9.0f, 1e30f, -infinite, infinite, NAN}) {
    for (const float bin : {0.25f, 1.0f, 3.1f, 1e3f, 1e9f, 3e38f, infinite, 0.0f, -2.5f, NAN}) {
      for (const std::int64_t points : {0, 1, 2, 5, 1000}) {
        for (const std::int64_t of : {0, 3}) {
          CAPTURE(start, bin, points, of);
          const sluice::detail::RoiAxis<float> axis{start, bin, points, 4, 8};
          const auto kept = axis.inside(of);
          std::int64_t lost = 0, outside = 0;
          for (std::int64_t point = 0; point < points; ++point) {
            const auto at = axis.sample(of, point);
            const bool counts = at.of_low != 0 || at.of_high != 0, is_kept = point >= kept.first && point < kept.end;
            lost += counts && !is_kept;
            outside += is_kept && !counts;
          }
          CHECK(lost == 0);
          CHECK((outside == 0 || !(bin > 0)));
          CHECK((kept.first >= 0 && kept.first <= kept.end && kept.end <= points));
        }
      }
    }
  }
}

TEST_CASE("roi_align refuses what does not fit; an image that is not there is an error at the wait", "[roi_align]") {
  const NDArray x = ones({2, 3, 4, 4}), rois = zeros({1, 5});
  const auto of_image = [&](float image) { return roi_align(x, array(std::vector<float>{image, 0, 0, 2, 2}, {1, 5})); };
  CHECK_NOTHROW(of_image(1).wait_to_read());
  CHECK_THROWS_WITH(of_image(2).wait_to_read(), contains("roi_samples") && contains("image 2, of 2"));
  CHECK_THROWS_AS(of_image(-1).wait_to_read(), IndexError);
  CHECK_THROWS_AS(of_image(NAN).wait_to_read(), IndexError);
  CHECK_THROWS_AS(roi_align(x[0], rois), ShapeError);
  CHECK_THROWS_AS(roi_align(x, zeros({1, 4})), ShapeError);
  CHECK_THROWS_AS(roi_align(zeros({2, 3, 0, 4}), rois), ShapeError);
  CHECK_THROWS_AS(roi_align(x, rois, {.pooled_size = {0, 1}}), ValueError);
  CHECK_THROWS_AS(roi_align(x, rois, {.pooled_size = {1}}), ValueError);
  CHECK_THROWS_AS(roi_align(x, rois, {.sampling_ratio = -1}), ValueError);
  CHECK_THROWS_AS(roi_align(x.astype(int32), rois), DTypeError);
  CHECK_THROWS_AS(roi_align(x, rois.astype(int32)), DTypeError);
  const Operator& back = *find_operator("roi_samples_backward");
  const auto gradient = [&](const NDArray& dy, const NDArray& of) {
    return invoke_one(back, {dy, of, x}, parse_attributes(back, "pooled_size=(1, 1)"), SourceLocation::current());
  };
  CHECK_NOTHROW(gradient(ones({1, 3, 1, 1}), rois));
  CHECK_THROWS_AS(gradient(ones({1, 3, 1, 1}), rois.astype(float64)), DTypeError);
  CHECK_THROWS_AS(gradient(ones({1, 3, 1, 1}, {.dtype = float64}), rois), DTypeError);
  CHECK_THROWS_AS(gradient(ones({1, 3, 1, 2}), rois), ShapeError);
}
