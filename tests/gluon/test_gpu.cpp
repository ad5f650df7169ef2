#include <algorithm>
#include <cmath>

#include "tests/gluon/idx_files.h"
#include "tests/gluon/networks.h"

using namespace sluice;
using namespace sluice::test;
using namespace gluon::data;

TEST_CASE("a GPU and a CPU train alike from one seed", "[gluon][training][gpu][long]") {
  SLUICE_NEEDS_GPUS(1);
  constexpr int k_steps = 20;
  for (const char* network : {"mlp", "torch", "tf"}) {
    INFO(network);
    const std::vector<float> on_cpu = training_losses(network, cpu(), k_steps, 64);
    const std::vector<float> on_gpu = training_losses(network, gpu(0), k_steps, 64);
    // How far the CPU comes from itself where its images are off by some of their last bits: a maximum that is another
    // place's then counts for much more than the bits do.
    std::vector<float> apart(k_steps, 0);
    for (const double nudge : {1.2e-7, -1.2e-7, 2.4e-7, -2.4e-7, 1e-6, -1e-6}) {
      const std::vector<float> nudged = training_losses(network, cpu(), k_steps, 64, 28, 1 + nudge);
      for (std::size_t step = 0; step < apart.size(); ++step)
        apart[step] = std::max(apart[step], std::abs(nudged[step] - on_cpu[step]) / std::abs(on_cpu[step]));
    }
    float most = 0;
    for (std::size_t step = 0; step < on_cpu.size(); ++step) {
      INFO("step " << step);
      most = std::max(most, apart[step]);
      CHECK(std::abs(on_gpu[step] - on_cpu[step]) <= (4 * most + 1e-5f) * std::abs(on_cpu[step]));
    }
  }
}

TEST_CASE("initialisers give a GPU and a CPU the same numbers", "[gluon][init][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const auto drawn = [](const gluon::init::Initializer& initializer, Device device) {
    Engine engine({.seed = 11});
    EngineScope scope(engine);
    const NDArray array = empty({33, 17, 3, 3}, {.device = device});
    initializer(array);
    return values(array);
  };
  for (const gluon::init::Initializer& initializer :
       std::vector<gluon::init::Initializer>{gluon::init::Uniform(), gluon::init::Normal(), gluon::init::Xavier()})
    check_near(drawn(initializer, gpu(0)), drawn(initializer, cpu()), 1e-6);
}

TEST_CASE("a loader brings the same batches onto a GPU", "[gluon][data][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  TemporaryFolder folder;
  write_toy_dataset(folder.path(), 1000, 10);
  const auto dataset = vision::MNIST({.root = folder.path().string()})
                           .transform_first(Compose(vision::ToTensor(), vision::Normalize(0.5, 0.25)));
  DataLoader host(dataset, {.batch_size = 64, .shuffle = true, .seed = 4});
  DataLoader device(dataset, {.batch_size = 64, .shuffle = true, .device = gpu(0), .prefetch = 3, .seed = 4});
  auto expected = host.begin();
  for (auto [x, y] : device) {
    CHECK(x.device() == gpu(0));
    CHECK(y.device() == gpu(0));
    CHECK(values(x) == values((*expected).data));
    CHECK(y.to_vector<std::int32_t>() == (*expected).label.to_vector<std::int32_t>());
    ++expected;
  }
  CHECK(expected == host.end());
}

TEST_CASE("leaving an epoch early on a GPU loses nothing", "[gluon][data][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const ArrayDataset dataset(arange(0, 10000).reshape({1000, 10}), arange(0, 1000));
  for (int round = 0; round < 20; ++round) {
    DataLoader loader(dataset, {.batch_size = 100, .device = gpu(0), .prefetch = 4});
    for (auto [x, y] : loader) {
      CHECK(values(y).front() == 0);
      break;
    }
  }
}

TEST_CASE("a network moves to a GPU and back with its parameters and states", "[gluon][block][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  TemporaryFolder folder;
  gluon::nn::Sequential net = sample_network("mlp");
  net.initialize(gluon::init::Xavier());
  gluon::Trainer trainer(net.collect_params(), gluon::optimizer::Adam());
  gluon::metric::Accuracy accuracy;
  const auto step = [&](Device device) {
    const auto [x, y] = synthetic_batch(16, 28, 1, device);
    NDArray losses, predictions;
    {
      autograd::RecordScope record;
      predictions = net(x);
      losses = gluon::loss::SoftmaxCrossEntropyLoss()(predictions, y);
    }
    losses.backward();
    trainer.step(16);
    accuracy.update(y, predictions);
    return mean(losses).item<float>();
  };
  const float first = step(cpu());
  net.to(gpu(0));
  step(gpu(0));
  const float third = step(gpu(0));
  net.to(cpu());
  const float fourth = step(cpu());
  CHECK(third < first);
  CHECK(fourth < third);
  CHECK(accuracy.count() == 64);
  CHECK(accuracy.get().second > 0);
  net.save_parameters(folder / "net.npz");
  gluon::nn::Sequential loaded = sample_network("mlp");
  loaded.load_parameters(folder / "net.npz", {.device = gpu(0)});
  CHECK(loaded.collect_params()["0.weight"].device() == gpu(0));
}

TEST_CASE("batch norm, pooling and every activation run on a GPU as on a CPU", "[gluon][layers][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  namespace nn = gluon::nn;
  const auto run = [](Device device) {
    Engine engine({.seed = 2});
    EngineScope scope(engine);
    nn::Sequential net;
    net.add(nn::Conv2D(8, 3, {.padding = 1, .activation = "gelu"}), nn::BatchNorm(), nn::AvgPool2D(2), nn::Flatten());
    for (const char* name : {"sigmoid", "tanh", "softrelu", "softsign", "silu"})
      net.add(nn::Dense(16, {.activation = name}));
    net.initialize(gluon::init::Xavier(), device);
    NDArray y;
    {
      autograd::RecordScope record;
      y = net(pattern_array({4, 3, 8, 8}, 0, device));
    }
    y.backward();
    std::vector<float> all = values(y);
    for (const auto& [name, parameter] : net.collect_params()) {
      const std::vector<float> one =
          values(parameter.grad_req() == GradReq::null ? parameter.data() : parameter.grad());
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  };
  check_near(run(gpu(0)), run(cpu()), 2e-4);
}
