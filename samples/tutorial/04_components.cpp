// What training consists of, by hand: parameters, a loss, an optimizer and a trainer that applies it.
#include <iomanip>
#include <iostream>

#include <sluice/sluice.h>

using namespace sluice;

int main() {
  // 200 points of a plane, 2 a - 3 b + 4, and a little noise.
  random::seed(2);
  const NDArray x = random::normal(0, 1, {200, 2});
  const NDArray y = matmul(x, array({2.0f, -3.0f}).reshape({2, 1})) + 4 + 0.01 * random::normal(0, 1, {200, 1});

  gluon::nn::Dense net(1);
  net.initialize(gluon::init::Normal(0.01));
  const gluon::loss::L2Loss loss;  // half of the squares, one value a sample
  gluon::Trainer trainer(net.collect_params(), gluon::optimizer::SGD({.learning_rate = 0.5}));
  gluon::metric::MSE error;

  for (int step = 1; step <= 40; ++step) {
    NDArray losses, predictions;
    {
      autograd::RecordScope record;
      predictions = net(x);
      losses = loss(predictions, y);
    }
    losses.backward();
    trainer.step(x.shape()[0]);  // divides gradients by the size of the batch
    error.reset();
    error.update(y, predictions);
  }

  std::cout << std::fixed << std::setprecision(2);
  const NDArray weight = net.own_parameter("weight").data().reshape({2});
  std::cout << "weights " << weight[{0}].item<float>() << ", " << weight[{1}].item<float>() << ", bias "
            << net.own_parameter("bias").data().item<float>() << "\n";
  std::cout << "mean squared error " << error.get().second << "\n";
}
