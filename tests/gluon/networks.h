#pragma once

#include <utility>

#include "tests/gluon/support.h"

namespace sluice::test {

/// The networks of the samples, by name: "mlp", "torch", "tf".
inline gluon::nn::Sequential sample_network(const std::string& name) {
  namespace nn = gluon::nn;
  nn::Sequential net;
  if (name == "mlp") {
    net.add(nn::Dense(256, {.activation = "relu"}), nn::Dense(10));
  } else if (name == "torch") {
    net.add(
        nn::Conv2D(32, 3, {.activation = "relu"}),
        nn::Conv2D(64, 3, {.activation = "relu"}),
        nn::MaxPool2D(2),
        nn::Dropout(0.25),
        nn::Dense(128, {.activation = "relu"}),
        nn::Dropout(0.5),
        nn::Dense(10));
  } else {
    net.add(
        nn::Conv2D(32, 3, {.activation = "relu"}),
        nn::MaxPool2D(2),
        nn::Dense(64, {.activation = "relu"}),
        nn::Dense(10));
  }
  return net;
}

/// A layer that adds its inputs up.
inline gluon::nn::Dense ones_of(std::int64_t units, std::int64_t inputs, Device device = cpu()) {
  gluon::nn::Dense net(units, {.use_bias = false, .in_units = inputs});
  net.initialize(gluon::init::One(), device);
  return net;
}

/// The same images and labels on every machine: (n, 1, side, side) within [0, 1), classes that can be learned.
inline std::pair<NDArray, NDArray> synthetic_batch(std::int64_t n, std::int64_t side, int seed, Device device) {
  std::vector<float> images(static_cast<std::size_t>(n * side * side));
  std::vector<std::int32_t> labels(static_cast<std::size_t>(n));
  std::uint32_t state = static_cast<std::uint32_t>(seed) * 2654435761u + 12345;
  const auto next = [&] { return (state = state * 1664525u + 1013904223u) >> 8; };
  for (std::int64_t i = 0; i < n; ++i) {
    const auto label = static_cast<std::int64_t>(next() % 10);
    labels[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(label);
    for (std::int64_t p = 0; p < side * side; ++p) {
      const bool bright = p / side * 10 / side == label;
      images[static_cast<std::size_t>(i * side * side + p)] =
          (bright ? 0.6f : 0.0f) + static_cast<float>(next() % 1000) / 2500.0f;
    }
  }
  return {array(images, {n, 1, side, side}, device), array(labels, {n}, device)};
}

/// Mean losses of `steps` training steps with Adam on an engine of its own with that seed, of images times `bright`.
inline std::vector<float> training_losses(
    const std::string& network,
    Device device,
    int steps,
    std::int64_t batch,
    std::int64_t side = 28,
    double bright = 1) {
  Engine engine({.seed = 7});
  EngineScope scope(engine);
  gluon::nn::Sequential net = sample_network(network);
  net.initialize(gluon::init::Xavier(), device);
  gluon::Trainer trainer(net.collect_params(), gluon::optimizer::Adam());
  gluon::loss::SoftmaxCrossEntropyLoss loss;
  std::vector<NDArray> means;
  for (int step = 0; step < steps; ++step) {
    const auto [x, y] = synthetic_batch(batch, side, step, device);
    NDArray losses;
    {
      autograd::RecordScope record;
      losses = loss(net(bright == 1 ? x : x * bright), y);
    }
    losses.backward();
    trainer.step(batch);
    means.push_back(mean(losses.detach()));
  }
  std::vector<float> read;
  for (const NDArray& value : means)
    read.push_back(value.item<float>());
  return read;
}

}  // namespace sluice::test
