// Graphs: the same network, written the same way, run as one graph. Nothing changes but the time it takes.
#include <iostream>

#include <sluice/sluice.h>

using namespace sluice;
namespace nn = gluon::nn;

nn::Sequential made() {
  random::seed(4);
  nn::Sequential net;
  net.add(nn::Dense(32, {.activation = "tanh"}), nn::BatchNorm(), nn::Dense(2));
  net.initialize(gluon::init::Xavier());
  return net;
}

int main() {
  const NDArray x = random::normal(0, 1, {16, 4}), y = random::randint(0, 2, {16}).astype(int32);
  const gluon::loss::SoftmaxCrossEntropyLoss loss;
  const gluon::optimizer::SGDOptions sgd{.learning_rate = 0.1, .momentum = 0.9};

  // By hand.
  const nn::Sequential plain = made();
  gluon::Trainer plain_trainer(plain.collect_params(), gluon::optimizer::SGD(sgd));
  for (int i = 0; i < 10; ++i) {
    NDArray losses;
    {
      autograd::RecordScope record;
      losses = loss(plain(x), y);
    }
    losses.backward();
    plain_trainer.step(16);
  }

  // As a graph: forward, loss, backward and update, traced once.
  nn::Sequential quick = made();
  gluon::Trainer trainer(quick.collect_params(), gluon::optimizer::SGD(sgd));
  gluon::TrainStep step(quick, loss, trainer);
  for (int i = 0; i < 10; ++i)
    step(x, y);
  std::cout << "traced " << step.traced() << " time, same results: ";
  quick.hybridize();  // predictions as a graph, too
  std::cout << (all(quick(x) == plain(x)).item<bool>() ? "to the last bit" : "no") << "\n";
}
