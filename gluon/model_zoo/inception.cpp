#include <initializer_list>
#include <utility>

#include <sluice/gluon/model_zoo/parts.h>
#include <sluice/gluon/model_zoo/vision.h>
#include <sluice/gluon/nn/basic.h>
#include <sluice/gluon/nn/concurrent.h>
#include <sluice/gluon/nn/dense.h>
#include <sluice/gluon/nn/pool.h>

namespace sluice::gluon::model_zoo::vision {

namespace {

enum class Pool : std::uint8_t { none, average, largest };

/// Convolutions one after the other, behind a pool perhaps.
nn::Sequential branch(std::initializer_list<ConvNorm> convolutions, Pool pool = Pool::none) {
  nn::Sequential net;
  if (pool == Pool::average)
    net.add(nn::AvgPool2D(3, {.strides = 1, .padding = 1}));
  if (pool == Pool::largest)
    net.add(nn::MaxPool2D(3, {.strides = 2}));
  for (ConvNorm each : convolutions) {
    each.epsilon = 1e-3;
    add_conv_norm(net, each);
  }
  return net;
}

ConvNorm conv(std::int64_t channels, nn::Size2D kernel = 1, nn::Padding2D padding = 0, std::int64_t strides = 1) {
  return {.channels = channels, .kernel = kernel, .strides = strides, .padding = padding};
}
/// 1 x n and n x 1, which leave sizes as they are.
ConvNorm wide(std::int64_t channels, std::int64_t n) {
  return conv(channels, {1, n}, {0, n / 2});
}
ConvNorm tall(std::int64_t channels, std::int64_t n) {
  return conv(channels, {n, 1}, {n / 2, 0});
}

// The stages under the names that the paper's implementations give them.
nn::Concurrent stage_a(std::int64_t pooled) {
  nn::Concurrent net(1);
  net.add(branch({conv(64)}), branch({conv(48), conv(64, 5, 2)}));
  net.add(branch({conv(64), conv(96, 3, 1), conv(96, 3, 1)}), branch({conv(pooled)}, Pool::average));
  return net;
}
nn::Concurrent stage_b() {
  nn::Concurrent net(1);
  net.add(branch({conv(384, 3, 0, 2)}), branch({conv(64), conv(96, 3, 1), conv(96, 3, 0, 2)}));
  net.add(branch({}, Pool::largest));
  return net;
}
nn::Concurrent stage_c(std::int64_t channels) {
  nn::Concurrent net(1);
  net.add(branch({conv(192)}), branch({conv(channels), wide(channels, 7), tall(192, 7)}));
  net.add(branch({conv(channels), tall(channels, 7), wide(channels, 7), tall(channels, 7), wide(192, 7)}));
  net.add(branch({conv(192)}, Pool::average));
  return net;
}
nn::Concurrent stage_d() {
  nn::Concurrent net(1);
  net.add(branch({conv(192), conv(320, 3, 0, 2)}));
  net.add(branch({conv(192), wide(192, 7), tall(192, 7), conv(192, 3, 0, 2)}), branch({}, Pool::largest));
  return net;
}
/// A branch that ends in two, side by side.
nn::Sequential forked(nn::Sequential stem) {
  nn::Concurrent both(1);
  both.add(branch({wide(384, 3)}), branch({tall(384, 3)}));
  nn::Sequential net;
  net.add(std::move(stem), std::move(both));
  return net;
}
nn::Concurrent stage_e() {
  nn::Concurrent net(1);
  net.add(branch({conv(320)}), forked(branch({conv(384)})), forked(branch({conv(448), conv(384, 3, 1)})));
  net.add(branch({conv(192)}, Pool::average));
  return net;
}

}  // namespace

Classifier inception_v3(const ModelOptions& options) {
  nn::Sequential features;
  features.add(branch({conv(32, 3, 0, 2), conv(32, 3), conv(64, 3, 1)}), nn::MaxPool2D(3, {.strides = 2}));
  features.add(branch({conv(80), conv(192, 3)}), nn::MaxPool2D(3, {.strides = 2}));
  features.add(stage_a(32), stage_a(64), stage_a(64), stage_b());
  features.add(stage_c(128), stage_c(160), stage_c(160), stage_c(192));
  features.add(stage_d(), stage_e(), stage_e(), nn::AvgPool2D(8), nn::Dropout(0.5));
  return {std::move(features), shared(nn::Dense(options.classes))};
}

}  // namespace sluice::gluon::model_zoo::vision
