// What changes between steps by reference, rates, numbers of steps and scales of losses, makes no CUDA graph anew.
#include <memory>
#include <string>
#include <vector>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/graph/detail/kept_results.h>

#include "tests/gluon/scaled_training.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct CapturedSteps {
  explicit CapturedSteps(const Make& make, Device device) : by_hand(make, device), as_graph(make, device) {
    for (ScaledTraining* const one : {&by_hand, &as_graph})
      amp::init_trainer(*one->trainer, {.init_scale = 8, .growth_interval = 3});
    step = std::make_unique<gluon::TrainStep>(as_graph.net, as_graph.loss, *as_graph.trainer);
  }

  /// Another rate at each of these.
  void take(int steps) {
    for (int i = 0; i < steps; ++i, ++taken) {
      for (ScaledTraining* const one : {&by_hand, &as_graph})
        one->trainer->set_learning_rate(0.1 / (taken + 1));
      by_hand.own({.batch = 1});
      (void)(*step)(x, y);
    }
  }
  RegionCounts counts() const { return step->plan()->counts(); }

  ScaledTraining by_hand, as_graph;
  NDArray x = pattern_array({4, 5}, 1, as_graph.device()), y = pattern_array({4, 3}, 41, as_graph.device());
  std::unique_ptr<gluon::TrainStep> step;
  int taken = 0;
};

void check_captures(const std::string& optimizer, Device device) {
  CAPTURE(optimizer);
  CapturedSteps steps(optimizers().at(optimizer), device);
  steps.take(6);
  (void)steps.as_graph.all();  // what was pushed is over
  const RegionCounts before = steps.counts();
  const float scale = scale_of(*steps.as_graph.trainer->scaler());
  steps.take(20);
  (void)steps.as_graph.all();
  const RegionCounts after = steps.counts();
  CHECK(after.captured == before.captured);
  CHECK(after.instantiated == before.instantiated);
  CHECK(steps.step->traced() == 1);
  if (device.is_gpu()) {
    std::uint64_t graphs = 0;
    for (const graph::PlanSegment& segment : steps.step->plan()->segments())
      graphs += segment.captured ? 1 : 0;
    CHECK(graphs >= 1);
    CHECK(before.captured <= 2 * graphs);  // the last results may have been in use
    CHECK(after.launched == before.launched + 20 * graphs);
    CHECK(after.in_order == 0);
  }
  CHECK(scale_of(*steps.as_graph.trainer->scaler()) > scale);  // it did change
  CHECK((steps.as_graph.all() == steps.by_hand.all()));
}

// Memory of losses serves again at once, and not while somebody has them.
void give_losses_again(Device device) {
  CapturedSteps held(optimizers().at("SGD"), device), read(optimizers().at("SGD"), device);
  const auto losses = [](CapturedSteps& of) { return (*of.step)(of.x, of.y).losses; };
  CHECK(graph::KeptResults::any_holds(losses(held).object()->buffer));
  CHECK(graph::KeptResults::any_holds(losses(held).object()->buffer));
  (void)losses(read), (void)losses(read);
  std::vector<NDArray> all;
  std::vector<std::vector<float>> values;
  for (int i = 0; i < 5; ++i) {
    all.push_back(losses(held));
    values.push_back(losses(read).to_vector<float>());
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    CHECK(all[i].to_vector<float>() == values[i]);
  CHECK_FALSE(graph::KeptResults::any_holds(all.back().object()->buffer));  // there are two sets, which are taken
}

}  // namespace

TEST_CASE("Losses of a step have memory that serves again once nobody has them", "[gluon][graph]") {
  give_losses_again(cpu());
}
TEST_CASE("Losses of a step on a GPU have memory that serves again", "[gluon][graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  give_losses_again(gpu(0));
}

TEST_CASE("Rates, numbers of steps and scales of losses change without another trace", "[gluon][graph]") {
  for (const char* optimizer : {"SGD", "Adam", "LAMB"})
    check_captures(optimizer, cpu());
}

TEST_CASE("Rates, numbers of steps and scales of losses change without another capture", "[gluon][graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const char* optimizer : {"SGD", "Adam", "LAMB"})
    check_captures(optimizer, gpu(0));
}
