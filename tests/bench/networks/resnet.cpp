#include "tests/bench/networks/resnet.h"

#include "tests/bench/networks/layers.h"

namespace sluice::bench {

namespace nn = gluon::nn;

namespace {

struct BottleneckOptions {
  std::int64_t in, width, stride = 1, dilation = 1;
};

nn::Sequential body(const BottleneckOptions& o) {
  nn::Sequential net;
  net.add(conv_norm(o.in, o.width, {}));
  net.add(conv_norm(o.width, o.width, {.kernel = 3, .stride = o.stride, .dilation = o.dilation}));
  net.add(conv_norm(o.width, 4 * o.width, {}, false));
  return net;
}

nn::Sequential shortcut(const BottleneckOptions& o) {
  nn::Sequential net;
  if (o.stride != 1 || o.in != 4 * o.width)
    net.add(conv_norm(o.in, 4 * o.width, {.stride = o.stride}, false));
  else
    net.add(nn::Lambda([](const NDArray& x) { return x; }));
  return net;
}

// 1x1, 3x3 and 1x1 to four times the width, beside a shortcut.
class Bottleneck : public gluon::Block {
 public:
  explicit Bottleneck(const BottleneckOptions& options)
      : body_(child("body", body(options))), shortcut_(child("shortcut", shortcut(options))) {}

 protected:
  NDArray forward(const NDArray& x) const override { return relu(body_(x) + shortcut_(x)); }

 private:
  gluon::Child<nn::Sequential> body_, shortcut_;
};

std::int64_t width_of(std::size_t stage) {
  return std::int64_t{64} << stage;
}

}  // namespace

nn::Sequential resnet_features(const ResNetOptions& options) {
  nn::Sequential net;
  net.add(conv_norm(3, 64, {.kernel = 7, .stride = 2}), nn::MaxPool2D(3, {.strides = 2, .padding = 1}));
  BottleneckOptions next{.in = 64, .width = 64};
  for (std::size_t stage = 0; stage < options.blocks.size(); ++stage) {
    const bool dilates = options.dilated && stage >= 2;
    next.width = width_of(stage);
    next.stride = stage > 0 && !dilates ? 2 : 1;
    for (int block = 0; block < options.blocks[stage]; ++block) {
      net.add(Bottleneck(next));
      next.in = 4 * next.width;
      next.stride = 1;
      if (dilates && block == 0)  // the first block still has the dilation of the stage before
        next.dilation *= 2;
    }
  }
  return net;
}

std::int64_t channels_of(const ResNetOptions& options) {
  return 4 * width_of(options.blocks.size() - 1);
}

nn::Sequential resnet(const ResNetOptions& options) {
  nn::Sequential net;
  net.add(resnet_features(options), nn::Lambda([](const NDArray& x) { return mean(x, {2, 3}); }));
  net.add(Linear(channels_of(options), 1000));
  return net;
}

}  // namespace sluice::bench
