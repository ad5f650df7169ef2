// Convolutions and pools of three axes against plain loops in double.
#include <array>
#include <cmath>
#include <vector>

#include <sluice/operator/conv/volume.h>
#include <sluice/operator/pool/volume.h>

#include "tests/operator/heavy_reference.h"
#include "tests/operator/traced.h"
#include "tests/support/catch.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using Triple = std::array<std::int64_t, 3>;

std::int64_t pad_of(const Shape& pad, int axis, bool behind) {
  return pad[behind && pad.ndim() == 6 ? axis + 3 : axis];
}

// Calls body(place) for every place of a box.
template <class Body>
void for_each_place(const Triple& box, Body&& body) {
  for (std::int64_t z = 0; z < box[0]; ++z)
    for (std::int64_t y = 0; y < box[1]; ++y)
      for (std::int64_t x = 0; x < box[2]; ++x)
        body(Triple{z, y, x});
}

std::size_t offset(const Shape& shape, std::int64_t n, std::int64_t c, const Triple& at) {
  return static_cast<std::size_t>((((n * shape[1] + c) * shape[2] + at[0]) * shape[3] + at[1]) * shape[4] + at[2]);
}

Triple box_of(const Shape& shape) {
  return {shape[2], shape[3], shape[4]};
}

// Each tap of a window adds where it meets an element of x, forward or, for a transposed convolution, back.
struct Taps {
  Shape stride, pad, dilation;

  bool meets(const Triple& out, const Triple& tap, const Triple& box, Triple& in) const {
    bool inside = true;
    for (int i = 0; i < 3; ++i) {
      const auto axis = static_cast<std::size_t>(i);
      in[axis] = out[axis] * stride[i] - pad_of(pad, i, false) + tap[axis] * dilation[i];
      inside = inside && in[axis] >= 0 && in[axis] < box[axis];
    }
    return inside;
  }
};

NDArray reference(const NDArray& x, const NDArray& weight, const NDArray& bias, const Convolution3DOptions& o) {
  const Shape &xs = x.shape(), &ws = weight.shape();
  const auto xv = x.to_vector<double>(), wv = weight.to_vector<double>();
  Shape out{xs[0], ws[0], 0, 0, 0};
  for (int i = 0; i < 3; ++i)
    out[i + 2] = (xs[i + 2] + pad_of(o.pad, i, false) + pad_of(o.pad, i, true) - o.dilation[i] * (ws[i + 2] - 1) - 1) /
                     o.stride[i] +
                 1;
  const Taps taps{o.stride, o.pad, o.dilation};
  std::vector<double> y(static_cast<std::size_t>(out.size()));
  const std::int64_t each = ws[0] / o.groups;
  for (std::int64_t n = 0; n < out[0]; ++n)
    for (std::int64_t k = 0; k < out[1]; ++k)
      for_each_place(box_of(out), [&](const Triple& at) {
        double sum = bias.defined() ? bias.to_vector<double>()[static_cast<std::size_t>(k)] : 0;
        for (std::int64_t c = 0; c < ws[1]; ++c)
          for_each_place(box_of(ws), [&](const Triple& tap) {
            Triple in;
            if (taps.meets(at, tap, box_of(xs), in))
              sum += xv[offset(xs, n, k / each * ws[1] + c, in)] * wv[offset(ws, k, c, tap)];
          });
        y[offset(out, n, k, at)] = sum;
      });
  return array(y, out);
}

NDArray reference_back(const NDArray& x, const NDArray& weight, const NDArray& bias, const Deconvolution3DOptions& o) {
  const Shape &xs = x.shape(), &ws = weight.shape();
  const auto xv = x.to_vector<double>(), wv = weight.to_vector<double>();
  Shape out{xs[0], ws[1] * o.groups, 0, 0, 0};
  for (int i = 0; i < 3; ++i)
    out[i + 2] = o.stride[i] * (xs[i + 2] - 1) + o.dilation[i] * (ws[i + 2] - 1) + 1 - pad_of(o.pad, i, false) -
                 pad_of(o.pad, i, true) + o.adj[i];
  const Taps taps{o.stride, o.pad, o.dilation};
  std::vector<double> y(static_cast<std::size_t>(out.size()));
  const std::int64_t each = xs[1] / o.groups;
  for (std::int64_t n = 0; n < xs[0]; ++n)
    for (std::int64_t c = 0; c < xs[1]; ++c)
      for_each_place(box_of(xs), [&](const Triple& at) {
        for (std::int64_t k = 0; k < ws[1]; ++k)
          for_each_place(box_of(ws), [&](const Triple& tap) {
            Triple to;
            if (taps.meets(at, tap, box_of(out), to))
              y[offset(out, n, c / each * ws[1] + k, to)] += xv[offset(xs, n, c, at)] * wv[offset(ws, c, k, tap)];
          });
      });
  const NDArray sums = array(y, out);
  return bias.defined() ? sums + bias.astype(float64).reshape({1, out[1], 1, 1, 1}) : sums;
}

struct Forward {
  Shape x, weight;
  Convolution3DOptions options;
};

const std::vector<Forward> k_forward = {
    {{2, 3, 4, 5, 4}, {4, 3, 3, 3, 3}, {.pad = {1, 1, 1}}},
    {{1, 2, 5, 4, 6}, {3, 2, 2, 3, 1}, {.stride = {2, 1, 3}, .pad = {1, 0, 2}}},
    {{2, 4, 5, 5, 5}, {6, 2, 2, 2, 3}, {.stride = {1, 2, 1}, .dilation = {3, 2, 2}, .groups = 2}},
    {{1, 2, 3, 4, 3}, {2, 1, 3, 2, 2}, {.pad = {2, 0, 1, 0, 3, 2}, .groups = 2}},
    {{2, 2, 1, 3, 3}, {3, 2, 1, 1, 1}, {}},
};

struct Back {
  Shape x, weight;
  Deconvolution3DOptions options;
};

const std::vector<Back> k_back = {
    {{2, 3, 3, 2, 4}, {3, 2, 3, 3, 3}, {}},
    {{1, 4, 2, 3, 3}, {4, 3, 2, 2, 3}, {.stride = {2, 3, 1}, .pad = {1, 0, 1}, .adj = {1, 2, 0}, .groups = 2}},
    {{2, 2, 3, 2, 2}, {2, 2, 2, 3, 2}, {.stride = {3, 1, 2}, .pad = {2, 0, 0, 0, 1, 3}, .dilation = {2, 1, 3}}},
    {{1, 1, 1, 1, 1}, {1, 2, 1, 1, 1}, {.stride = {4, 4, 4}, .adj = {3, 0, 2}}},
};

NDArray pool_reference(const NDArray& x, const Pool3DOptions& o, bool is_max) {
  const Shape& xs = x.shape();
  const Shape& stride = o.stride.empty() ? o.kernel : o.stride;
  const auto xv = x.to_vector<double>();
  Shape out{xs[0], xs[1], 0, 0, 0};
  for (int i = 0; i < 3; ++i) {
    const std::int64_t front = pad_of(o.pad, i, false);
    const std::int64_t room = xs[i + 2] + front + pad_of(o.pad, i, true) - o.kernel[i];
    out[i + 2] = (room + (o.ceil_mode ? stride[i] - 1 : 0)) / stride[i] + 1;
    out[i + 2] -= o.ceil_mode && (out[i + 2] - 1) * stride[i] >= xs[i + 2] + front;
  }
  std::vector<double> y(static_cast<std::size_t>(out.size()));
  for (std::int64_t plane = 0; plane < xs[0] * xs[1]; ++plane)
    for_each_place(box_of(out), [&](const Triple& at) {
      double most = -INFINITY, sum = 0, count = 0;
      for_each_place({o.kernel[0], o.kernel[1], o.kernel[2]}, [&](const Triple& tap) {
        Triple in;
        bool counted = true;
        for (int i = 0; i < 3; ++i) {
          const auto axis = static_cast<std::size_t>(i);
          const std::int64_t padded = at[axis] * stride[i] + tap[axis];
          counted = counted && padded < xs[i + 2] + pad_of(o.pad, i, false) + pad_of(o.pad, i, true);
        }
        const bool inside = Taps{stride, o.pad, {1, 1, 1}}.meets(at, tap, box_of(xs), in);
        if (inside) {
          const double value = xv[offset({1, 1, xs[2], xs[3], xs[4]}, plane, 0, in)];
          sum += value;
          most = std::isnan(value) || std::isnan(most) ? NAN : std::max(most, value);
        }
        count += inside || (counted && o.count_include_pad) ? 1 : 0;
      });
      y[offset({1, 1, out[2], out[3], out[4]}, plane, 0, at)] = is_max ? most : sum / count;
    });
  return array(y, out);
}

const std::vector<Pool3DOptions> k_windows = {
    {},
    {.kernel = {3, 2, 3}, .stride = {1, 2, 2}, .pad = {1, 1, 0}},
    {.kernel = {2, 3, 2}, .stride = {3, 1, 2}, .pad = {1, 0, 1, 0, 2, 1}, .count_include_pad = false},
    {.kernel = {2, 3, 2}, .stride = {2, 2, 3}, .pad = {1, 1, 0}, .ceil_mode = true},
    {.kernel = {2, 2, 2}, .stride = {3, 3, 3}, .ceil_mode = true, .count_include_pad = false},
};

}  // namespace

TEST_CASE("Convolutions of volumes agree with plain loops for every type and attribute", "[volume]") {
  for (const Forward& c : k_forward) {
    for (const DType dtype : k_heavy_dtypes) {
      CAPTURE(to_string(c.x), to_string(c.weight), name_of(dtype));
      const NDArray x = random_array(c.x, 1, -1, 1, dtype), weight = random_array(c.weight, 2, -1, 1, dtype);
      const NDArray bias = random_array({c.weight[0]}, 3, -1, 1, dtype), y = convolution3d(x, weight, bias, c.options);
      CHECK(y.dtype() == dtype);
      CHECK(differences(y, reference(x, weight, bias, c.options), sum_tolerance(dtype)) == "");
      Convolution3DOptions positive = c.options;
      positive.activation = "relu";
      CHECK(differences(convolution3d(x, weight, bias, positive), relu(y), {0, 0}) == "");
      CHECK(
          differences(
              convolution3d(x, weight, {}, c.options), reference(x, weight, {}, c.options), sum_tolerance(dtype)) ==
          "");
    }
  }
  CHECK(convolution3d(zeros({0, 2, 3, 3, 3}), zeros({4, 2, 2, 2, 2}), {}).shape() == Shape{0, 4, 2, 2, 2});
}

TEST_CASE("Transposed convolutions of volumes agree with plain loops for every type and attribute", "[volume]") {
  for (const Back& c : k_back) {
    for (const DType dtype : k_heavy_dtypes) {
      CAPTURE(to_string(c.x), to_string(c.weight), name_of(dtype));
      const NDArray x = random_array(c.x, 1, -1, 1, dtype), weight = random_array(c.weight, 2, -1, 1, dtype);
      const NDArray bias = random_array({c.weight[1] * c.options.groups}, 3, -1, 1, dtype);
      const Tolerance tolerance = sum_tolerance(dtype);
      const NDArray want = reference_back(x, weight, bias, c.options);
      CHECK(differences(deconvolution3d(x, weight, bias, c.options), want, tolerance) == "");
      CHECK(
          differences(deconvolution3d(x, weight, {}, c.options), reference_back(x, weight, {}, c.options), tolerance) ==
          "");
    }
  }
  CHECK(deconvolution3d(zeros({0, 3, 2, 2, 2}), zeros({3, 1, 2, 2, 2}), {}).shape() == Shape{0, 1, 3, 3, 3});
  // Sums of planes are rounded once: 257 is no bfloat16, and 3 * 257 next to 772.
  const NDArray x = array<float>({256, 256, 256, 1, 1, 1}).reshape({1, 2, 3, 1, 1}).astype(bfloat16);
  const NDArray y = deconvolution3d(x, ones({2, 1, 3, 1, 1}, {.dtype = bfloat16}), {});
  CHECK(y.to_vector<float>() == std::vector<float>{256, 512, 772, 512, 256});
}

TEST_CASE("The gradients of convolutions of volumes agree with finite differences", "[volume]") {
  for (const Forward& c : k_forward) {
    CAPTURE(to_string(c.x), to_string(c.weight));
    const std::vector<NDArray> inputs{
        random_array(c.x, 1, -1, 1, float64),
        random_array(c.weight, 2, -1, 1, float64),
        random_array({c.weight[0]}, 3, -1, 1, float64)};
    CHECK(
        gradient_differences([&](const auto& v) { return convolution3d(v[0], v[1], v[2], c.options); }, inputs) == "");
  }
  for (const Back& c : k_back) {
    CAPTURE(to_string(c.x), to_string(c.weight));
    const std::vector<NDArray> inputs{random_array(c.x, 1, -1, 1, float64), random_array(c.weight, 2, -1, 1, float64)};
    CHECK(
        gradient_differences([&](const auto& v) { return deconvolution3d(v[0], v[1], {}, c.options); }, inputs) == "");
  }
}

TEST_CASE("Pools of volumes agree with plain loops for every type and attribute", "[volume]") {
  for (const Pool3DOptions& o : k_windows) {
    for (const DType dtype : k_heavy_dtypes) {
      CAPTURE(to_string(o.kernel), name_of(dtype));
      const NDArray x = random_array({2, 3, 5, 6, 7}, 1, -1, 1, dtype);
      CHECK(differences(max_pool3d(x, o), pool_reference(x, o, true), {0, 0}) == "");
      CHECK(differences(avg_pool3d(x, o), pool_reference(x, o, false)) == "");
      CHECK(avg_pool3d(x, o).dtype() == dtype);
    }
    const std::vector<NDArray> inputs{random_array({1, 2, 4, 5, 4}, 1, -1, 1, float64)};
    CHECK(gradient_differences([&](const auto& v) { return max_pool3d(v[0], o); }, inputs) == "");
    CHECK(gradient_differences([&](const auto& v) { return avg_pool3d(v[0], o); }, inputs) == "");
  }
  const NDArray x = random_array({2, 3, 4, 5, 6}, 1);
  const Pool3DOptions all{.kernel = {4, 5, 6}};
  CHECK(differences(max_pool3d(x, {.global = true}), pool_reference(x, all, true), {0, 0}) == "");
  CHECK(differences(avg_pool3d(x, {.global = true}), pool_reference(x, all, false)) == "");
  CHECK(max_pool3d(zeros({0, 3, 4, 4, 4})).shape() == Shape{0, 3, 2, 2, 2});
}

TEST_CASE("Of equal maxima of a volume the first has the gradient, and a NaN wins", "[volume]") {
  NDArray x = ones({1, 1, 2, 2, 2});
  x.attach_grad();
  NDArray y;
  {
    const autograd::RecordScope record;
    y = max_pool3d(x);
  }
  y.backward();
  CHECK(x.grad().to_vector<float>() == std::vector<float>{1, 0, 0, 0, 0, 0, 0, 0});
  std::vector<float> odd(8, 1);
  odd[6] = NAN;
  CHECK(std::isnan(max_pool3d(array(odd, {1, 1, 2, 2, 2})).item<float>()));
}

TEST_CASE("Convolutions and pools of volumes are in graphs what they are by hand", "[volume]") {
  const auto f = [](const auto& v) {
    const NDArray wide = deconvolution3d(v[0], v[1], {}, {.stride = {2, 1, 1}});
    return avg_pool3d(max_pool3d(convolution3d(wide, v[1], {}, {.activation = "relu"})), {.global = true});
  };
  CHECK(traced_differences(f, {random_array({3, 2, 3, 4, 4}, 1), random_array({2, 2, 2, 2, 2}, 2)}) == "");
}

// The bias, and gradients of 0 for what has elements: as convolution() of planes gives them.
TEST_CASE("Convolutions of volumes without channels, results, rows or planes give the bias", "[volume]") {
  struct Empty {
    Shape x, weight;
    bool transposed;
    Shape y;
  };
  const Empty all[] = {
      {{2, 0, 3, 4, 5}, {4, 0, 3, 3, 3}, false, {2, 4, 3, 4, 5}},
      {{2, 2, 3, 4, 5}, {0, 2, 3, 3, 3}, false, {2, 0, 3, 4, 5}},
      {{2, 2, 3, 0, 5}, {4, 2, 3, 1, 3}, false, {2, 4, 3, 2, 5}},
      {{2, 2, 0, 4, 5}, {4, 2, 1, 3, 3}, false, {2, 4, 2, 4, 5}},
      {{0, 0, 0, 4, 5}, {4, 0, 1, 3, 3}, false, {0, 4, 2, 4, 5}},
      {{2, 2, 3, 4, 5}, {2, 0, 3, 3, 3}, true, {2, 0, 3, 4, 5}},
      {{0, 2, 3, 4, 5}, {2, 0, 3, 3, 3}, true, {0, 0, 3, 4, 5}},
  };
  for (const Empty& c : all) {
    for (const DType dtype : k_heavy_dtypes) {
      CAPTURE(to_string(c.x), to_string(c.weight), c.transposed, name_of(dtype));
      NDArray x = ones(c.x, {.dtype = dtype}), weight = ones(c.weight, {.dtype = dtype}), y;
      NDArray bias = random_array({c.y[1]}, 1, -1, 1, dtype);
      for (NDArray* of : {&x, &weight, &bias})
        of->attach_grad();
      {
        const autograd::RecordScope record;
        y = c.transposed ? deconvolution3d(x, weight, bias, {.pad = {1, 1, 1}})
                         : convolution3d(x, weight, bias, {.pad = {1, 1, 1}});
      }
      y.backward();
      CHECK(y.dtype() == dtype);
      CHECK(differences(y, bias.reshape({1, c.y[1], 1, 1, 1}).broadcast_to(c.y).copy(), {0, 0}) == "");
      CHECK(differences(x.grad(), zeros_like(x), {0, 0}) == "");
      CHECK(differences(weight.grad(), zeros_like(weight), {0, 0}) == "");
      const auto each = static_cast<double>(c.y[0] * c.y[2] * c.y[3] * c.y[4]);
      CHECK(differences(bias.grad(), full({c.y[1]}, each, {.dtype = dtype}), {0, 0}) == "");
    }
  }
  CHECK_THROWS_AS(deconvolution3d(zeros({2, 0, 3, 4, 5}), zeros({0, 4, 3, 3, 3}), {}), ShapeError);  // as of planes
  const NDArray none = zeros({2, 0, 3, 3, 3}), kernel = zeros({4, 0, 1, 1, 1}), negative = full({4}, -1);
  CHECK(convolution3d(none, kernel, {}).shape() == Shape{2, 4, 3, 3, 3});
  CHECK(!any(convolution3d(none, kernel, negative, {.activation = "relu"}) != 0).item<bool>());
  CHECK(convolution3d(zeros({2, 0, 3, 3, 3}), zeros({4, 0, 1, 1, 1}), {}, {.groups = 2}).size() == 2 * 4 * 27);
}

TEST_CASE("Convolutions and pools of volumes refuse what does not fit, by name and values", "[volume]") {
  const NDArray x = ones({1, 2, 3, 3, 3}), weight = ones({4, 2, 2, 2, 2}), back = ones({2, 4, 2, 2, 2});
  CHECK_THROWS_AS(convolution3d(x[0], weight, {}), ShapeError);
  CHECK_THROWS_AS(convolution3d(x, weight[0], {}), ShapeError);
  CHECK_THROWS_AS(convolution3d(x, ones({4, 3, 2, 2, 2}), {}), ShapeError);
  CHECK_THROWS_AS(convolution3d(x, weight, ones({3})), ShapeError);
  CHECK_THROWS_AS(convolution3d(x, weight, {}, {.stride = {1, 1}}), ValueError);
  CHECK_THROWS_AS(convolution3d(x, weight, {}, {.stride = {0, 1, 1}}), ValueError);
  CHECK_THROWS_AS(convolution3d(x, weight, {}, {.pad = {1, 1, 1, 1}}), ValueError);
  CHECK_THROWS_AS(convolution3d(x, weight, {}, {.groups = 3}), ShapeError);
  CHECK_THROWS_AS(convolution3d(x, weight, {}, {.activation = "tanh"}), ValueError);
  CHECK_THROWS_AS(convolution3d(x.astype(int32), weight.astype(int32), {}), DTypeError);
  CHECK_THROWS_AS(convolution3d(x, weight.astype(float64), {}), DTypeError);
  CHECK_NOTHROW(convolution3d(x, ones({4, 2, 3, 2, 2}), {}));
  CHECK_THROWS_WITH(convolution3d(x, ones({4, 2, 4, 2, 2}), {}), contains("convolution3d") && contains("4 planes"));
  CHECK_THROWS_AS(convolution3d(x, ones({4, 2, 2, 4, 2}), {}), ShapeError);
  CHECK_THROWS_AS(deconvolution3d(x, weight, {}), ShapeError);
  CHECK_THROWS_AS(deconvolution3d(x, back, {}, {.adj = {1, 0, 0}}), ValueError);
  CHECK_THROWS_AS(deconvolution3d(x, back, {}, {.adj = {0, 1, 0}}), ValueError);
  CHECK_NOTHROW(deconvolution3d(x, back, {}, {.pad = {1, 0, 0, 2, 0, 0}}));
  CHECK_THROWS_WITH(deconvolution3d(x, back, {}, {.pad = {2, 0, 0}}), contains("nothing is left"));
  CHECK_THROWS_AS(max_pool3d(x[0]), ShapeError);
  CHECK_THROWS_AS(max_pool3d(x, {.kernel = {4, 1, 1}}), ShapeError);
  CHECK_THROWS_AS(max_pool3d(x, {.kernel = {1, 4, 1}}), ShapeError);
  CHECK_THROWS_AS(avg_pool3d(x, {.kernel = {2, 2}}), ValueError);
  CHECK_THROWS_AS(avg_pool3d(x, {.pad = {2, 0, 0}}), ValueError);
  CHECK_THROWS_AS(avg_pool3d(x.astype(int32)), DTypeError);
}
