// Deformable convolutions as layers, against loops with bilinear samples.
#include <cmath>
#include <vector>

#include "tests/gluon/reference.h"

using namespace sluice;
using namespace sluice::test;
namespace nn = gluon::nn;

namespace {

using Numbers = std::vector<double>;

struct Sizes {
  std::int64_t stride, pad, dilation, groups, shares;
  bool modulated;
};

/// The value of channel c of image n at (y, x), 0 beside it.
double sampled(const Table& image, std::int64_t n, std::int64_t c, double y, double x) {
  const double top = std::floor(y), left = std::floor(x);
  double sum = 0;
  for (const int down : {0, 1}) {
    for (const int right : {0, 1}) {
      const auto row = static_cast<std::int64_t>(top) + down, column = static_cast<std::int64_t>(left) + right;
      if (row < 0 || row >= image.shape[2] || column < 0 || column >= image.shape[3])
        continue;
      const double share = (down == 1 ? y - top : 1 - (y - top)) * (right == 1 ? x - left : 1 - (x - left));
      sum += share * image.at({n, c, row, column});
    }
  }
  return sum;
}

/// x, the weight, its bias, offsets' weight and their bias.
Numbers convolved(const Tables& given, const Sizes& s) {
  const Table &x = given[0], &weight = given[1], &said_by = given[3];
  const std::int64_t kh = weight.shape[2], kw = weight.shape[3], taps = kh * kw;
  const auto extent = [&](std::int64_t in, std::int64_t kernel) {
    return (in + 2 * s.pad - s.dilation * (kernel - 1) - 1) / s.stride + 1;
  };
  Table said{{x.shape[0], said_by.shape[0], extent(x.shape[2], kh), extent(x.shape[3], kw)}, {}};
  for_each_place(said.shape, [&](const std::vector<std::int64_t>& at) {
    double sum = given[4].at({at[1]});
    for_each_place({x.shape[1], kh, kw}, [&](const std::vector<std::int64_t>& tap) {
      const std::int64_t row = at[2] * s.stride + tap[1] * s.dilation - s.pad;
      const std::int64_t column = at[3] * s.stride + tap[2] * s.dilation - s.pad;
      if (row >= 0 && row < x.shape[2] && column >= 0 && column < x.shape[3])
        sum += x.at({at[0], tap[0], row, column}) * said_by.at({at[1], tap[0], tap[1], tap[2]});
    });
    said.values.push_back(sum);
  });
  Numbers all;
  for_each_place({x.shape[0], weight.shape[0], said.shape[2], said.shape[3]}, [&](const std::vector<std::int64_t>& at) {
    const std::int64_t group = at[1] / (weight.shape[0] / s.groups);
    double sum = given[2].at({at[1]});
    for_each_place({weight.shape[1], kh, kw}, [&](const std::vector<std::int64_t>& tap) {
      const std::int64_t channel = group * weight.shape[1] + tap[0], share = channel / (x.shape[1] / s.shares);
      const std::int64_t place = share * taps + tap[1] * kw + tap[2];
      const auto told = [&](std::int64_t number) { return said.at({at[0], number, at[2], at[3]}); };
      const double row = static_cast<double>(at[2] * s.stride + tap[1] * s.dilation - s.pad) + told(2 * place);
      const double column = static_cast<double>(at[3] * s.stride + tap[2] * s.dilation - s.pad) + told(2 * place + 1);
      const double factor = s.modulated ? 2 / (1 + std::exp(-told(2 * s.shares * taps + place))) : 1;
      sum += factor * sampled(x, at[0], channel, row, column) * weight.at({at[1], tap[0], tap[1], tap[2]});
    });
    all.push_back(sum);
  });
  return all;
}

template <class Layer>
void check_layer(bool modulated, std::int64_t dilation = 1) {
  Layer layer(
      4,
      {2, 3},
      {.strides = 2, .padding = 1, .dilation = dilation, .groups = 2, .num_deformable_group = 2, .dtype = float64});
  layer.initialize();
  const NDArray x = numbers({2, 4, 4, 5});
  layer(x);
  fill_parameters(layer, 0.13);  // so that samples lie between places
  const Sizes sizes{2, 1, dilation, 2, 2, modulated};
  check_block(
      layer, {x}, [&](const Tables& given) { return convolved(given, sizes); }, true, 1e-5);
}

}  // namespace

TEST_CASE("DeformableConvolution samples where its own convolution says", "[gluon][layers]") {
  check_layer<nn::DeformableConvolution>(false);
  check_layer<nn::DeformableConvolution>(false, 2);
}

TEST_CASE("ModulatedDeformableConvolution weighs its samples too", "[gluon][layers]") {
  check_layer<nn::ModulatedDeformableConvolution>(true);
}

TEST_CASE("A new deformable layer is a convolution; it refuses sizes that do not fit", "[gluon][layers]") {
  nn::DeformableConvolution layer(3, 3, {.padding = 1, .activation = "relu"});
  layer.initialize(gluon::init::Xavier());
  const NDArray x = pattern_array({2, 4, 5, 5});
  const NDArray y = layer(x);
  CHECK(layer.collect_params().names() == "deformable_conv_weight, deformable_conv_bias, offset_weight, offset_bias");
  CHECK(layer.own_parameter("offset_weight").shape() == Shape{18, 4, 3, 3});
  const NDArray weight = layer.own_parameter("deformable_conv_weight").data();
  check_near(values(y), values(relu(convolution(x, weight, {}, {.pad = {1, 1}}))), 1e-4);
  nn::ModulatedDeformableConvolution bare(3, 1, {.use_bias = false, .offset_use_bias = false});
  bare.initialize();
  bare(x);
  CHECK(bare.collect_params().names() == "deformable_conv_weight, offset_weight");
  CHECK(bare.own_parameter("offset_weight").shape() == Shape{3, 4, 1, 1});
  CHECK_THROWS_AS(nn::DeformableConvolution(3, 3, {.groups = 2}), ValueError);
  CHECK_THROWS_AS(nn::DeformableConvolution(2, 0), ValueError);
  CHECK_THROWS_AS(nn::DeformableConvolution(2, 3, {.num_deformable_group = 2, .in_channels = 3}), ValueError);
  CHECK_THROWS_AS(nn::DeformableConvolution(2, 3, {.strides = 0}), ValueError);
  nn::DeformableConvolution shares(2, 1, {.num_deformable_group = 3});
  shares.initialize();
  CHECK_THROWS_AS(shares(x), ShapeError);
}
