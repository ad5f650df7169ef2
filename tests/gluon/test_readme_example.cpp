// The example of the README, as a stranger would paste it.
#include <sluice/sluice.h>

#include "tests/gluon/idx_files.h"

using namespace sluice;
namespace nn = gluon::nn;

namespace {

// Returns the mean loss of the last batch.
float run_example(const std::string& root) {
  Device device = num_gpus() > 0 ? gpu(0) : cpu();
  nn::Sequential net;
  net.add(nn::Dense(256, {.activation = "relu"}), nn::Dense(10));
  net.initialize(gluon::init::Xavier(), device);

  auto dataset =
      gluon::data::vision::FashionMNIST({.root = root, .train = true}).transform_first(gluon::data::vision::ToTensor());
  gluon::data::DataLoader loader(dataset, {.batch_size = 256, .shuffle = true, .device = device});
  gluon::Trainer trainer(net.collect_params(), gluon::optimizer::Adam({.learning_rate = 1e-3}));
  gluon::loss::SoftmaxCrossEntropyLoss loss;

  NDArray last;
  for (int epoch = 0; epoch < 4; ++epoch) {
    for (auto [x, y] : loader) {
      NDArray l;
      {
        autograd::RecordScope record;
        l = loss(net(x), y);
      }
      l.backward();
      trainer.step(x.shape()[0]);
      last = l;
    }
  }
  return mean(last).item<float>();
}

}  // namespace

TEST_CASE("the README's example trains", "[gluon][training]") {
  test::TemporaryFolder folder;
  test::write_toy_dataset(folder.path(), 600, 10);
  CHECK(run_example(folder.path().string()) < 1.0f);  // log(10) = 2.3 before training
}
