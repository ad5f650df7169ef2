// Layers of rows and volumes, transposed ones, and those that move what is there: values and gradients against loops.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <vector>

#include "tests/gluon/reference.h"

using namespace sluice;
using namespace sluice::test;
namespace nn = gluon::nn;

namespace {

using Numbers = std::vector<double>;
using Place = std::vector<std::int64_t>;

struct Window {
  std::vector<std::int64_t> stride, pad, dilation, more;  // more: of transposed ones, at the end
  std::int64_t groups = 1;
};

std::int64_t at(const std::vector<std::int64_t>& values, int axis) {
  return values[static_cast<std::size_t>(axis)];
}

double shaped(const std::string& activation, double x) {
  return activation == "tanh" ? std::tanh(x) : activation == "sigmoid" ? 1 / (1 + std::exp(-x)) : x;
}

/// Of x (N, C, ..), weight (O, C / groups, ..) and bias.
Numbers convolved(const Tables& given, const Window& w, const std::string& activation) {
  const Table &x = given[0], &weight = given[1];
  const int axes = x.shape.ndim() - 2;
  Shape result{x.shape[0], weight.shape[0]}, taps{weight.shape[1]};
  for (int a = 0; a < axes; ++a) {
    const std::int64_t window = at(w.dilation, a) * (weight.shape[a + 2] - 1) + 1;
    result.push_back((x.shape[a + 2] + 2 * at(w.pad, a) - window) / at(w.stride, a) + 1);
    taps.push_back(weight.shape[a + 2]);
  }
  Numbers all;
  for_each_place(result, [&](const Place& out) {
    const std::int64_t group = out[1] / (weight.shape[0] / w.groups);
    double sum = given.size() > 2 ? given[2].at({out[1]}) : 0;
    for_each_place(taps, [&](const Place& tap) {
      Place from{out[0], group * weight.shape[1] + tap[0]}, of{out[1], tap[0]};
      bool inside = true;
      for (int a = 0; a < axes; ++a) {
        const auto i = static_cast<std::size_t>(a);
        from.push_back(out[i + 2] * at(w.stride, a) + tap[i + 1] * at(w.dilation, a) - at(w.pad, a));
        of.push_back(tap[i + 1]);
        inside = inside && from.back() >= 0 && from.back() < x.shape[a + 2];
      }
      sum += inside ? x.at(from) * weight.at(of) : 0;
    });
    all.push_back(shaped(activation, sum));
  });
  return all;
}

/// Of x (N, C, ..), weight (C, O / groups, ..) and bias: each entry of x adds its weights to the result.
Numbers transposed(const Tables& given, const Window& w, const std::string& activation) {
  const Table &x = given[0], &weight = given[1];
  const int axes = x.shape.ndim() - 2;
  const std::int64_t inputs = x.shape[1] / w.groups;
  Shape result{x.shape[0], weight.shape[1] * w.groups}, taps{weight.shape[1]};
  for (int a = 0; a < axes; ++a) {
    const std::int64_t window = at(w.dilation, a) * (weight.shape[a + 2] - 1) + 1;
    result.push_back((x.shape[a + 2] - 1) * at(w.stride, a) - 2 * at(w.pad, a) + window + at(w.more, a));
    taps.push_back(weight.shape[a + 2]);
  }
  Table y{result, Numbers(static_cast<std::size_t>(result.size()))};
  for_each_place(result, [&](const Place& out) { y.at(out) = given.size() > 2 ? given[2].at({out[1]}) : 0; });
  for_each_place(x.shape, [&](const Place& from) {
    for_each_place(taps, [&](const Place& tap) {
      Place to{from[0], from[1] / inputs * weight.shape[1] + tap[0]}, of{from[1], tap[0]};
      bool inside = true;
      for (int a = 0; a < axes; ++a) {
        const auto i = static_cast<std::size_t>(a);
        to.push_back(from[i + 2] * at(w.stride, a) + tap[i + 1] * at(w.dilation, a) - at(w.pad, a));
        of.push_back(tap[i + 1]);
        inside = inside && to.back() >= 0 && to.back() < result[a + 2];
      }
      if (inside)
        y.at(to) += x.at(from) * weight.at(of);
    });
  });
  for (double& value : y.values)
    value = shaped(activation, value);
  return y.values;
}

struct Pooling {
  std::vector<std::int64_t> kernel, stride, pad;
  bool is_mean = false, counts_pad = true, ceil = false;
};

Numbers pooled(const Table& x, const Pooling& p) {
  const int axes = x.shape.ndim() - 2;
  Shape result{x.shape[0], x.shape[1]}, taps;
  for (int a = 0; a < axes; ++a) {
    const std::int64_t rest = x.shape[a + 2] + 2 * at(p.pad, a) - at(p.kernel, a), step = at(p.stride, a);
    result.push_back((p.ceil ? (rest + step - 1) / step : rest / step) + 1);
    taps.push_back(at(p.kernel, a));
  }
  Numbers all;
  for_each_place(result, [&](const Place& out) {
    double most = -1e300, sum = 0;
    std::int64_t inside_count = 0, with_pad = 0;
    for_each_place(taps, [&](const Place& tap) {
      Place from{out[0], out[1]};
      bool inside = true, padded = true;
      for (int a = 0; a < axes; ++a) {
        const auto i = static_cast<std::size_t>(a);
        from.push_back(out[i + 2] * at(p.stride, a) + tap[i] - at(p.pad, a));
        inside = inside && from.back() >= 0 && from.back() < x.shape[a + 2];
        padded = padded && from.back() < x.shape[a + 2] + at(p.pad, a);
      }
      with_pad += padded ? 1 : 0;
      if (!inside)
        return;
      ++inside_count;
      most = std::max(most, x.at(from));
      sum += x.at(from);
    });
    all.push_back(p.is_mean ? sum / static_cast<double>(p.counts_pad ? with_pad : inside_count) : most);
  });
  return all;
}

/// What `from` says of each place of the result.
Loop moved(const Shape& result, const std::function<Place(const Place&)>& from) {
  return [=](const Tables& given) {
    Numbers all;
    for_each_place(result, [&](const Place& place) { all.push_back(given[0].at(from(place))); });
    return all;
  };
}

template <class Layer>
void check_layer(Layer layer, const NDArray& x, const Loop& loop) {
  layer.initialize();
  layer(x);
  fill_parameters(layer);
  check_block(layer, {x}, loop);
}

/// All numbers differ: no ties for a maximum.
NDArray distinct(const Shape& shape) {
  Numbers all;
  for (std::int64_t i = 0; i < shape.size(); ++i)
    all.push_back(static_cast<double>(i * 37 % 211) / 50 - 2);
  return array(all, shape);
}

}  // namespace

TEST_CASE("Conv1D and Conv3D have the values and gradients of loops, of all options", "[gluon][layers]") {
  check_layer(
      nn::Conv1D(
          4, 3, {.strides = 2, .padding = 2, .dilation = 2, .groups = 2, .activation = "tanh", .dtype = float64}),
      numbers({2, 2, 7}),
      [](const Tables& given) {
        return convolved(given, {{2}, {2}, {2}, {}, 2}, "tanh");
      });
  check_layer(nn::Conv1D(3, 2, {.use_bias = false, .dtype = float64}), numbers({2, 2, 4}), [](const Tables& given) {
    return convolved(given, {{1}, {0}, {1}, {}, 1}, "");
  });
  check_layer(
      nn::Conv3D(
          2,
          {2, 1, 3},
          {.strides = {1, 2, 1},
           .padding = {1, 0, 1},
           .dilation = {1, 1, 2},
           .groups = 2,
           .activation = "sigmoid",
           .dtype = float64}),
      numbers({1, 2, 2, 3, 5}),
      [](const Tables& given) {
        return convolved(given, {{1, 2, 1}, {1, 0, 1}, {1, 1, 2}, {}, 2}, "sigmoid");
      });
  check_layer(
      nn::Conv3D(2, 2, {.use_bias = false, .dtype = float64}), numbers({2, 1, 3, 2, 2}), [](const Tables& given) {
        return convolved(given, {{1, 1, 1}, {0, 0, 0}, {1, 1, 1}, {}, 1}, "");
      });
}

TEST_CASE("Transposed convolutions have the values and gradients of loops, of all options", "[gluon][layers]") {
  check_layer(
      nn::Conv1DTranspose(
          4,
          3,
          {.strides = 2,
           .padding = 1,
           .output_padding = 1,
           .dilation = 2,
           .groups = 2,
           .activation = "tanh",
           .dtype = float64}),
      numbers({2, 4, 3}),
      [](const Tables& given) {
        return transposed(given, {{2}, {1}, {2}, {1}, 2}, "tanh");
      });
  check_layer(
      nn::Conv2DTranspose(
          2,
          {3, 2},
          {.strides = {2, 1},
           .padding = {1, 0},
           .output_padding = {1, 0},
           .dilation = {1, 2},
           .groups = 2,
           .activation = "sigmoid",
           .dtype = float64}),
      numbers({2, 2, 3, 2}),
      [](const Tables& given) {
        return transposed(given, {{2, 1}, {1, 0}, {1, 2}, {1, 0}, 2}, "sigmoid");
      });
  check_layer(
      nn::Conv2DTranspose(3, 2, {.use_bias = false, .dtype = float64}), numbers({1, 2, 2, 3}), [](const Tables& given) {
        return transposed(given, {{1, 1}, {0, 0}, {1, 1}, {0, 0}, 1}, "");
      });
  check_layer(
      nn::Conv3DTranspose(
          2,
          {2, 1, 2},
          {.strides = {1, 2, 2},
           .padding = {1, 0, 0},
           .output_padding = {0, 1, 0},
           .dilation = {2, 1, 1},
           .activation = "tanh",
           .dtype = float64}),
      numbers({1, 2, 2, 2, 2}),
      [](const Tables& given) {
        return transposed(given, {{1, 2, 2}, {1, 0, 0}, {2, 1, 1}, {0, 1, 0}, 1}, "tanh");
      });
}

TEST_CASE("Pools of rows and volumes have the values and gradients of loops, of all options", "[gluon][layers]") {
  const NDArray rows = distinct({2, 2, 7}), volumes = distinct({1, 2, 4, 3, 4});
  check_layer(nn::MaxPool1D(3, {.strides = 2, .padding = 1}), rows, [](const Tables& given) {
    return pooled(given[0], {{3}, {2}, {1}});
  });
  check_layer(nn::MaxPool1D(2, {.ceil_mode = true}), rows, [](const Tables& given) {
    return pooled(given[0], {.kernel = {2}, .stride = {2}, .pad = {0}, .ceil = true});
  });
  for (const bool counts : {true, false}) {
    check_layer(
        nn::AvgPool1D(3, {.strides = 2, .padding = 1, .count_include_pad = counts}), rows, [=](const Tables& given) {
          return pooled(given[0], {.kernel = {3}, .stride = {2}, .pad = {1}, .is_mean = true, .counts_pad = counts});
        });
    check_layer(
        nn::AvgPool3D({2, 3, 2}, {.strides = nn::Size3D(1, 2, 2), .padding = {1, 1, 0}, .count_include_pad = counts}),
        volumes,
        [=](const Tables& given) {
          return pooled(
              given[0],
              {.kernel = {2, 3, 2}, .stride = {1, 2, 2}, .pad = {1, 1, 0}, .is_mean = true, .counts_pad = counts});
        });
  }
  check_layer(
      nn::MaxPool3D({2, 3, 2}, {.strides = nn::Size3D(1, 2, 2), .padding = {1, 1, 0}}),
      volumes,
      [](const Tables& given) {
        return pooled(given[0], {{2, 3, 2}, {1, 2, 2}, {1, 1, 0}});
      });
  check_layer(nn::GlobalMaxPool1D(), rows, [](const Tables& given) { return pooled(given[0], {{7}, {1}, {0}}); });
  check_layer(nn::GlobalAvgPool3D(), volumes, [](const Tables& given) {
    return pooled(given[0], {.kernel = {4, 3, 4}, .stride = {1, 1, 1}, .pad = {0, 0, 0}, .is_mean = true});
  });
}

TEST_CASE("Layers that move what is there move gradients back", "[gluon][layers]") {
  check_layer(nn::PixelShuffle1D(3), numbers({2, 6, 2}), moved({2, 2, 6}, [](const Place& p) {
                return Place{p[0], p[1] * 3 + p[2] % 3, p[2] / 3};
              }));
  check_layer(nn::PixelShuffle2D(2), numbers({2, 8, 2, 3}), moved({2, 2, 4, 6}, [](const Place& p) {
                return Place{p[0], (p[1] * 2 + p[2] % 2) * 2 + p[3] % 2, p[2] / 2, p[3] / 2};
              }));
  check_layer(nn::PixelShuffle3D({2, 1, 3}), numbers({2, 12, 1, 2, 2}), moved({2, 2, 2, 2, 6}, [](const Place& p) {
                return Place{p[0], (p[1] * 2 + p[2] % 2) * 3 + p[4] % 3, p[2] / 2, p[3], p[4] / 3};
              }));
  const auto mirrored = [](std::int64_t place, std::int64_t extent) {
    const std::int64_t inside = std::abs(place - 2);
    return inside < extent ? inside : 2 * (extent - 1) - inside;
  };
  check_layer(nn::ReflectionPad2D(2), numbers({2, 1, 3, 4}), moved({2, 1, 7, 8}, [=](const Place& p) {
                return Place{p[0], p[1], mirrored(p[2], 3), mirrored(p[3], 4)};
              }));
  CHECK_THROWS_AS(nn::PixelShuffle1D(0), ValueError);
  CHECK_THROWS_AS(nn::PixelShuffle3D({1, 0, 1}), ValueError);
  CHECK_THROWS_AS(nn::PixelShuffle1D(3)(ones({1, 4, 2})), ShapeError);
  CHECK_THROWS_AS(nn::PixelShuffle1D(3)(ones({1, 3, 2, 2})), ShapeError);
  CHECK_THROWS_AS(nn::PixelShuffle3D(2)(ones({1, 4, 2, 2, 2})), ShapeError);
}
