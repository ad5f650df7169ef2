// Convolutions of one axis, transposed ones, and the pools beside those of images: shapes, parameters, graphs, files.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/gluon/support.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;
namespace nn = gluon::nn;

namespace {

struct Layer {
  std::string name;
  std::shared_ptr<gluon::Block> block;
  Shape x, y, weight;
  std::function<NDArray(const NDArray& x, const NDArray& weight, const NDArray& bias)> f;
};

template <class B, class... Arguments>
std::shared_ptr<gluon::Block> made(Arguments&&... arguments) {
  return std::make_shared<B>(std::forward<Arguments>(arguments)...);
}

std::vector<Layer> convolutions() {
  const nn::Conv1DOptions narrow{.strides = 2, .padding = 1, .dilation = 2, .groups = 2, .activation = "relu"};
  const nn::Conv1DTransposeOptions row{.strides = 3, .padding = 1, .output_padding = 2, .groups = 2};
  const nn::Conv2DTransposeOptions image{
      .strides = {2, 1}, .padding = {1, 0, 0, 1}, .output_padding = {1, 0}, .dilation = {1, 2}, .activation = "tanh"};
  const nn::Conv3DOptions volume{.strides = {1, 2, 1}, .padding = {1, 0, 2}, .groups = 2, .activation = "relu"};
  const nn::Conv3DTransposeOptions spread{.strides = {2, 1, 1}, .padding = {1, 0, 0}, .output_padding = {1, 0, 0}};
  return {
      {"Conv1D",
       made<nn::Conv1D>(6, 3, narrow),
       {2, 4, 9},
       {2, 6, 4},
       {6, 2, 3},
       [](auto& x, auto& w, auto& b) {
         return relu(convolution1d(x, w, b, {.stride = 2, .pad = {1}, .dilation = 2, .groups = 2}));
       }},
      {"Conv1DTranspose",
       made<nn::Conv1DTranspose>(6, 4, row),
       {2, 4, 5},
       {2, 6, 16},
       {4, 3, 4},
       [](auto& x, auto& w, auto& b) {
         return deconvolution1d(x, w, b, {.stride = 3, .pad = {1}, .adj = 2, .groups = 2});
       }},
      {"Conv2DTranspose",
       made<nn::Conv2DTranspose>(3, nn::Size2D(3, 2), image),
       {2, 2, 4, 5},
       {2, 3, 9, 6},
       {2, 3, 3, 2},
       [](auto& x, auto& w, auto& b) {
         return tanh(
             deconvolution(x, w, b, {.stride = {2, 1}, .pad = {1, 0, 0, 1}, .dilation = {1, 2}, .adj = {1, 0}}));
       }},
      {"Conv3D",
       made<nn::Conv3D>(6, 3, volume),
       {2, 4, 3, 5, 4},
       {2, 6, 3, 2, 6},
       {6, 2, 3, 3, 3},
       [](auto& x, auto& w, auto& b) {
         return relu(convolution3d(x, w, b, {.stride = {1, 2, 1}, .pad = {1, 0, 2}, .groups = 2}));
       }},
      {"Conv3DTranspose",
       made<nn::Conv3DTranspose>(3, nn::Size3D(3, 2, 1), spread),
       {2, 2, 2, 3, 4},
       {2, 3, 4, 4, 4},
       {2, 3, 3, 2, 1},
       [](auto& x, auto& w, auto& b) {
         return deconvolution3d(x, w, b, {.stride = {2, 1, 1}, .pad = {1, 0, 0}, .adj = {1, 0, 0}});
       }},
  };
}

template <class F>
Layer pool(const char* name, std::shared_ptr<gluon::Block> block, Shape x, Shape y, F f) {
  return {name, std::move(block), x, y, {}, [f](auto& in, auto&, auto&) { return f(in); }};
}

std::vector<Layer> pools() {
  const nn::Pool1DOptions how{.strides = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false};
  const Pool1DOptions same{.kernel = 3, .stride = 2, .pad = {1}, .ceil_mode = true, .count_include_pad = false};
  const Shape row{2, 3, 8}, image{2, 3, 5, 7};
  return {
      pool("MaxPool1D", made<nn::MaxPool1D>(), row, {2, 3, 4}, [](auto& x) { return max_pool1d(x); }),
      pool("AvgPool1D", made<nn::AvgPool1D>(3, how), row, {2, 3, 5}, [=](auto& x) { return avg_pool1d(x, same); }),
      pool("GlobalMaxPool1D", made<nn::GlobalMaxPool1D>(), row, {2, 3, 1}, [](auto& x) { return max(x, {2}, true); }),
      pool(
          "GlobalAvgPool1D",
          made<nn::GlobalAvgPool1D>(),
          row,
          {2, 3, 1},
          [](auto& x) { return avg_pool1d(x, {.global = true}); }),
      pool(
          "GlobalMaxPool2D",
          made<nn::GlobalMaxPool2D>(),
          image,
          {2, 3, 1, 1},
          [](auto& x) {
            return max(x, {2, 3}, true);
          }),
      pool(
          "GlobalAvgPool2D",
          made<nn::GlobalAvgPool2D>(),
          image,
          {2, 3, 1, 1},
          [](auto& x) { return avg_pool2d(x, {.global = true}); }),
      pool(
          "AdaptiveAvgPool2D",
          made<nn::AdaptiveAvgPool2D>(nn::Size2D(2, 3)),
          image,
          {2, 3, 2, 3},
          [](auto& x) {
            return adaptive_avg_pool2d(x, {2, 3});
          }),
      pool(
          "AdaptiveMaxPool2D",
          made<nn::AdaptiveMaxPool2D>(4),
          image,
          {2, 3, 4, 4},
          [](auto& x) {
            return adaptive_max_pool2d(x, {4, 4});
          }),
      pool(
          "AdaptiveAvgPool1D",
          made<nn::AdaptiveAvgPool1D>(3),
          row,
          {2, 3, 3},
          [](auto& x) { return adaptive_avg_pool1d(x, 3); }),
      pool(
          "AdaptiveMaxPool1D",
          made<nn::AdaptiveMaxPool1D>(5),
          row,
          {2, 3, 5},
          [](auto& x) { return adaptive_max_pool1d(x, 5); }),
  };
}

std::vector<Layer> volume_pools() {
  const Shape volume{2, 3, 4, 5, 6};
  const nn::Pool3DOptions apart{
      .strides = nn::Size3D(1, 2, 2), .padding = 1, .ceil_mode = true, .count_include_pad = false};
  const Pool3DOptions deep{
      .kernel = {2, 3, 2}, .stride = {1, 2, 2}, .pad = {1, 1, 1}, .ceil_mode = true, .count_include_pad = false};
  return {
      pool("MaxPool3D", made<nn::MaxPool3D>(), volume, {2, 3, 2, 2, 3}, [](auto& x) { return max_pool3d(x); }),
      pool(
          "AvgPool3D",
          made<nn::AvgPool3D>(nn::Size3D(2, 3, 2), apart),
          volume,
          {2, 3, 5, 3, 4},
          [=](auto& x) { return avg_pool3d(x, deep); }),
      pool(
          "GlobalMaxPool3D",
          made<nn::GlobalMaxPool3D>(),
          volume,
          {2, 3, 1, 1, 1},
          [](auto& x) {
            return max(x, {2, 3, 4}, true);
          }),
      pool(
          "GlobalAvgPool3D",
          made<nn::GlobalAvgPool3D>(),
          volume,
          {2, 3, 1, 1, 1},
          [](auto& x) { return avg_pool3d(x, {.global = true}); }),
      pool(
          "AdaptiveAvgPool3D",
          made<nn::AdaptiveAvgPool3D>(nn::Size3D(2, 3, 4)),
          volume,
          {2, 3, 2, 3, 4},
          [](auto& x) {
            return adaptive_avg_pool3d(x, {2, 3, 4});
          }),
      pool(
          "AdaptiveMaxPool3D",
          made<nn::AdaptiveMaxPool3D>(3),
          volume,
          {2, 3, 3, 3, 3},
          [](auto& x) {
            return adaptive_max_pool3d(x, {3, 3, 3});
          }),
  };
}

std::vector<Layer> layers() {
  std::vector<Layer> all = convolutions();
  for (const auto some : {pools, volume_pools}) {
    for (Layer& each : some())
      all.push_back(std::move(each));
  }
  return all;
}

void fill(gluon::Block& block) {
  for (const auto& [name, parameter] : block.collect_params())
    parameter.set_data(random_array(parameter.shape(), 5));
}

Shape with_batch(Shape shape, std::int64_t batch) {
  shape[0] = batch;
  return shape;
}

}  // namespace

TEST_CASE(
    "Layers of one axis and transposed ones find their shapes and compute what operators do",
    "[gluon][layers][neural]") {
  for (const Layer& layer : layers()) {
    CAPTURE(layer.name);
    layer.block->initialize();
    NDArray x = random_array(layer.x, 1, -2, 3), y;
    CHECK((*layer.block)(x).shape() == layer.y);
    fill(*layer.block);
    const ParameterDict parameters = layer.block->collect_params();
    CHECK(parameters.names() == (layer.weight.empty() ? "none" : "weight, bias"));
    const NDArray weight = layer.weight.empty() ? NDArray() : parameters["weight"].data();
    const NDArray bias = layer.weight.empty() ? NDArray() : parameters["bias"].data();
    CHECK((layer.weight.empty() || weight.shape() == layer.weight));
    x.attach_grad();
    {
      const autograd::RecordScope record;
      y = (*layer.block)(x);
    }
    CHECK(values(y) == values(layer.f(x, weight, bias)));
    y.backward();
    CHECK(x.grad().shape() == layer.x);
    if (!layer.weight.empty())
      CHECK(parameters["weight"].grad_is_fresh());
    CHECK((*layer.block)(zeros(with_batch(layer.x, 0))).shape() == with_batch(layer.y, 0));
    CHECK_THROWS_AS((*layer.block)(zeros({2, 9})), Error);
  }
}

TEST_CASE("One trace of such a layer serves batches of all sizes, forward and backward", "[gluon][layers][neural]") {
  for (const Layer& layer : layers()) {
    CAPTURE(layer.name);
    layer.block->initialize();
    (*layer.block)(random_array(layer.x, 1));
    fill(*layer.block);
    const auto run = [&](std::int64_t batch) {
      NDArray x = random_array(with_batch(layer.x, batch), 2), y;
      x.attach_grad();
      {
        const autograd::RecordScope record;
        y = (*layer.block)(x);
      }
      y.backward();
      return std::pair(values(y), values(x.grad()));
    };
    const auto two = run(2), five = run(5);
    layer.block->hybridize();
    CHECK(run(2) == two);
    CHECK(run(5) == five);
    const std::size_t traces = layer.block->hybrid_traces();
    run(7);
    CHECK(layer.block->hybrid_traces() == traces);
    layer.block->hybridize(false);
  }
}

TEST_CASE("Such layers are exported and imported, for other batches too", "[gluon][layers][neural][export]") {
  for (const Layer& layer : layers()) {
    CAPTURE(layer.name);
    const TemporaryFolder folder;
    layer.block->initialize();
    const NDArray x = random_array(layer.x, 1), more = random_array(with_batch(layer.x, 5), 2);
    (*layer.block)(x);
    fill(*layer.block);
    layer.block->export_to(folder / "net", {x});
    const auto imported = gluon::SymbolBlock::imports(folder / "net.json");
    CHECK(values(imported(x)) == values((*layer.block)(x)));
    CHECK(values(imported(more)) == values((*layer.block)(more)));
  }
}

TEST_CASE("Such layers refuse sizes out of range, by name", "[gluon][layers][neural]") {
  CHECK_THROWS_WITH(nn::Conv1D(3, 2, {.groups = 2}), contains("nn::Conv1D") && contains("3 channels"));
  CHECK_THROWS_AS(nn::Conv1D(4, 2, {.groups = 2, .in_channels = 3}), ValueError);
  CHECK_THROWS_AS(nn::Conv1D(4, 0), ValueError);
  CHECK_THROWS_AS(nn::Conv1D(4, 2, {.padding = -1}), ValueError);
  CHECK_THROWS_AS(nn::Conv1D(4, 2, {.activation = "rellu"}), ValueError);
  CHECK_THROWS_AS(nn::Conv2DTranspose(4, 2, {.output_padding = 1}), ValueError);
  CHECK_THROWS_AS(nn::Conv2DTranspose(4, 2, {.strides = 0}), ValueError);
  CHECK_THROWS_AS(nn::Conv2DTranspose(4, 2, {.padding = {0, 0, -1, 0}}), ValueError);
  CHECK_THROWS_WITH(nn::Conv1DTranspose(4, 2, {.output_padding = 1}), contains("nn::Conv1DTranspose"));
  CHECK_THROWS_AS(nn::Conv1DTranspose(4, 2, {.padding = -1}), ValueError);
  CHECK_THROWS_AS(nn::MaxPool1D(0), ValueError);
  CHECK_THROWS_AS(nn::AvgPool1D(2, {.strides = 0}), ValueError);
  CHECK_THROWS_AS(nn::AdaptiveAvgPool2D(0), ValueError);
  CHECK_THROWS_AS(nn::AdaptiveMaxPool1D(0), ValueError);
  CHECK_THROWS_AS(nn::AdaptiveAvgPool3D(nn::Size3D(1, 0, 1)), ValueError);
  CHECK_THROWS_AS(nn::AdaptiveMaxPool2D({1, 0}), ValueError);
  CHECK_THROWS_WITH(nn::Conv3D(3, 2, {.groups = 2}), contains("nn::Conv3D") && contains("3 channels"));
  CHECK_THROWS_AS(nn::Conv3D(4, {1, 0, 1}), ValueError);
  CHECK_THROWS_AS(nn::Conv3D(4, 2, {.padding = {0, 0, -1}}), ValueError);
  CHECK_THROWS_AS(nn::Conv3D(4, 2, {.activation = "rellu"}), ValueError);
  CHECK_THROWS_AS(nn::Conv3DTranspose(4, 2, {.strides = {1, 0, 1}}), ValueError);
  CHECK_THROWS_AS(nn::Conv3DTranspose(4, 2, {.strides = {2, 2, 1}, .output_padding = 1}), ValueError);
  CHECK_NOTHROW(nn::Conv3DTranspose(4, 2, {.strides = 2, .output_padding = 1}));
  CHECK_THROWS_AS(nn::MaxPool3D(0), ValueError);
  CHECK_THROWS_AS(nn::AvgPool3D(2, {.strides = nn::Size3D(1, 1, 0)}), ValueError);
  nn::Conv1D apart(4, 2, {.groups = 2});
  apart.initialize();
  CHECK_THROWS_AS(apart(ones({1, 3, 5})), ShapeError);
  CHECK_THROWS_AS(apart(ones({1, 4})), ShapeError);
  nn::Conv2DTranspose image(4, 2, {.groups = 2, .use_bias = false});
  image.initialize();
  CHECK_THROWS_AS(image(ones({1, 3, 5, 5})), ShapeError);
  CHECK(image(ones({1, 2, 5, 5})).shape() == Shape{1, 4, 6, 6});
  CHECK(image.collect_params().names() == "weight");
  image.cast(float16);
  CHECK(image(ones({1, 2, 5, 5}).astype(float16)).dtype() == float16);
}
