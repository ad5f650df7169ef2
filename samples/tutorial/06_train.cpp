// A whole training: two spirals that a line cannot part, a network that learns to.
#include <iostream>
#include <numbers>

#include <sluice/sluice.h>

using namespace sluice;
namespace nn = gluon::nn;
namespace data = gluon::data;

// n points of two classes: 1.5 turns each, one half a turn behind the other.
data::ArrayDataset spirals(std::int64_t n) {
  const NDArray label = random::bernoulli(0.5, {n});
  const NDArray radius = random::uniform(0.2, 1, {n});
  const NDArray angle = std::numbers::pi * (3 * radius + label);
  return {stack({radius * cos(angle), radius * sin(angle)}, 1), label.astype(int32)};
}

double accuracy(const gluon::Block& net, data::DataLoader& loader) {
  gluon::metric::Accuracy right;
  for (const auto& [x, y] : loader)
    right.update(y, net(x));
  return right.get().second;
}

int main() {
  const Device device = num_gpus() > 0 ? gpu(0) : cpu();
  random::seed(3);
  data::DataLoader train(spirals(2000), {.batch_size = 50, .shuffle = true, .device = device, .seed = 3});
  data::DataLoader fresh(spirals(1000), {.batch_size = 500, .device = device});

  nn::Sequential net;
  net.add(nn::Dense(64, {.activation = "relu"}), nn::Dense(64, {.activation = "relu"}), nn::Dense(2));
  net.initialize(gluon::init::Xavier(), device);
  const gluon::loss::SoftmaxCrossEntropyLoss loss;
  gluon::Trainer trainer(net.collect_params(), gluon::optimizer::Adam({.learning_rate = 0.005}));

  for (int epoch = 1; epoch <= 20; ++epoch) {
    for (const auto& [x, y] : train) {
      NDArray losses;
      {
        autograd::RecordScope record;
        losses = loss(net(x), y);
      }
      losses.backward();
      trainer.step(x.shape()[0]);
    }
  }
  std::cout << "learnt: " << (accuracy(net, train) > 0.99 ? "yes" : "no") << "\n";
  std::cout << "fresh points too: " << (accuracy(net, fresh) > 0.98 ? "yes" : "no") << "\n";
}
