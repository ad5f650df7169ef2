// Steps of a small GPT in bfloat16 with a residual stream of float32, whose sums layer norm takes along on a GPU.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <sluice/gluon/model_zoo/transformers.h>
#include <sluice/operator/autocast.h>

#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using gluon::TrainStep;
using gluon::model_zoo::GPT;

constexpr int k_layers = 2;

struct Training {
  GPT net{{.vocabulary = 11, .length = 8, .units = 16, .layers = k_layers, .heads = 2, .dropout = 0}};
  SoftmaxCrossEntropyLoss cost;
  std::unique_ptr<Trainer> trainer;
  NDArray x, next;

  explicit Training(Device device) {
    random::seed(2);
    net.initialize(gluon::init::Normal(0.1), device);
    const NDArray all =
        (arange(0, 9, 1, {.dtype = int64}).expand_dims(0) * 3 + arange(0, 3, 1, {.dtype = int64}).expand_dims(1)) % 11;
    x = all.slice(1, 0, 8).to(device);
    next = all.slice(1, 1, 9).to(device);
    (void)net(x);
    trainer = std::make_unique<Trainer>(net.collect_params(), Adam({.learning_rate = 0.02}));
  }

  NDArray by_hand() {
    NDArray losses;
    {
      const autograd::RecordScope record;
      losses = cost(net(x), next);
    }
    losses.backward();
    trainer->step(losses.shape()[0]);
    return losses;
  }
  std::vector<std::vector<float>> weights() const {
    std::vector<std::vector<float>> all;
    for (const auto& [name, parameter] : net.collect_params())
      all.push_back(values(parameter.data()));
    return all;
  }
};

std::int64_t count(const graph::Graph& graph, const std::string& name) {
  return std::count_if(
      graph.nodes.begin(), graph.nodes.end(), [&](const graph::Node& node) { return node.op->name == name; });
}

void check_steps(Device device) {
  const amp::AutocastScope cast(bfloat16);
  Training by_hand(device), as_graph(device), hybrid(device);
  hybrid.net.hybridize();
  TrainStep step(as_graph.net, as_graph.cost, *as_graph.trainer);
  for (int i = 0; i < 3; ++i) {
    const auto losses = values(by_hand.by_hand());
    CHECK(values(hybrid.by_hand()) == losses);
    CHECK(values(step(as_graph.x, as_graph.next).losses) == losses);
  }
  CHECK((hybrid.weights() == by_hand.weights()));
  CHECK((as_graph.weights() == by_hand.weights()));
  const graph::Graph& made = step.plan()->graph();
  const std::int64_t sums = device.is_gpu() ? 2 * k_layers : 0;
  CHECK(count(made, "add_layer_norm") == sums);
  CHECK(count(made, "layer_norm") == 2 * k_layers + 1 - sums);
  CHECK(count(made, "add_layer_norm_backward") == sums);
  const std::int64_t rounded = std::count_if(made.nodes.begin(), made.nodes.end(), [](const graph::Node& node) {
    return node.op->name == std::string("add_layer_norm_backward") && node.results.size() == 4;
  });
  CHECK(rounded == std::max<std::int64_t>(0, sums - 1));  // the first one's goes on in float32
  CHECK(count(made, "layer_norm_backward") == 2 * k_layers + 1 - sums);
}

}  // namespace

TEST_CASE("A small GPT in bfloat16 learns the same by hand, hybridized and as a step", "[gluon][amp][graph][norm]") {
  check_steps(cpu());
}

TEST_CASE(
    "A small GPT in bfloat16 learns the same on a GPU, sums beside its layer norms", "[gluon][amp][graph][norm][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_steps(gpu(0));
}
