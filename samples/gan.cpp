// Two networks against each other (Goodfellow and others, 2014): one makes points, the other tells them from those of a
// ring of eight clusters.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sluice/sluice.h>

#include "samples/support/flags.h"
#include "samples/support/interrupt.h"
#include "samples/support/run_main.h"

namespace {

using namespace sluice;
namespace nn = gluon::nn;

struct Options {
  Device device = num_gpus() > 0 ? gpu(0) : cpu();
  std::int64_t steps = 3000, batch = 128, units = 64, noise = 8;
  double learning_rate = 1e-3;
  std::uint64_t seed = 1;
};

constexpr std::int64_t k_clusters = 8;
constexpr double k_radius = 2, k_spread = 0.1;

/// Centres of the clusters, (8, 2).
NDArray centres(Device device) {
  std::vector<float> points;
  for (int i = 0; i < k_clusters; ++i) {
    points.push_back(static_cast<float>(k_radius * std::cos(2 * std::numbers::pi * i / k_clusters)));
    points.push_back(static_cast<float>(k_radius * std::sin(2 * std::numbers::pi * i / k_clusters)));
  }
  return array(points, {k_clusters, 2}, device);
}

nn::Sequential perceptron(std::int64_t inputs, std::int64_t units, std::int64_t outputs) {
  nn::Sequential net;
  net.add(nn::Dense(units, {.activation = "relu", .in_units = inputs}));
  net.add(nn::Dense(units, {.activation = "relu", .in_units = units}), nn::Dense(outputs, {.in_units = units}));
  return net;
}

class Game {
 public:
  explicit Game(const Options& options)
      : options_(options),
        centres_(centres(options.device)),
        maker_(perceptron(options.noise, options.units, 2)),
        judge_(perceptron(2, options.units, 1)),
        maker_trainer_(
            prepared(maker_), gluon::optimizer::Adam({.learning_rate = options.learning_rate, .beta1 = 0.5})),
        judge_trainer_(
            prepared(judge_), gluon::optimizer::Adam({.learning_rate = options.learning_rate, .beta1 = 0.5})) {}

  NDArray make(std::int64_t n) const {
    return maker_(random::normal(0, 1, {n, options_.noise}, {.device = options_.device}));
  }
  /// Losses of the judge and of the maker.
  std::array<NDArray, 2> step() {
    const std::int64_t n = options_.batch;
    const NDArray yes = ones({n, 1}, {.device = options_.device}), no = zeros({n, 1}, {.device = options_.device});
    const NDArray which = random::randint(0, k_clusters, {n}, {.dtype = int64, .device = options_.device});
    const NDArray real = take(centres_, which, 0) + random::normal(0, k_spread, {n, 2}, {.device = options_.device});
    NDArray judged, made;
    {
      const NDArray fake = make(n);
      const autograd::RecordScope record;
      judged = loss_(judge_(real), yes) + loss_(judge_(fake), no);
    }
    judged.backward();
    judge_trainer_.step(n);
    {
      const autograd::RecordScope record;
      made = loss_(judge_(make(n)), yes);
    }
    made.backward();  // the judge's gradients too: its next backward writes them anew
    maker_trainer_.step(n);
    return {judged.detach(), made.detach()};
  }
  /// The share of points within four deviations of a centre, and how many centres have a fair share of points.
  std::pair<double, int> look() const {
    constexpr std::int64_t k_looked_at = 2000;
    const NDArray points = make(k_looked_at).reshape({k_looked_at, 1, 2});
    const auto distances = sum(square(points - centres_.reshape({1, k_clusters, 2})), {2}).to_vector<float>();
    std::array<int, k_clusters> near{};
    int hits = 0;
    for (std::int64_t i = 0; i < k_looked_at; ++i) {
      const auto row = distances.begin() + i * k_clusters;
      const auto closest = std::min_element(row, row + k_clusters);
      if (std::sqrt(*closest) < 4 * k_spread) {
        ++near[static_cast<std::size_t>(closest - row)];
        ++hits;
      }
    }
    const auto reached =
        std::count_if(near.begin(), near.end(), [](int count) { return count >= k_looked_at / k_clusters / 5; });
    return {static_cast<double>(hits) / k_looked_at, static_cast<int>(reached)};
  }

 private:
  gluon::ParameterDict prepared(nn::Sequential& net) const {
    net.initialize(gluon::init::Xavier(), options_.device);
    net.hybridize();
    return net.collect_params();
  }

  const Options& options_;
  NDArray centres_;
  nn::Sequential maker_, judge_;
  gluon::Trainer maker_trainer_, judge_trainer_;
  gluon::loss::SigmoidBinaryCrossEntropyLoss loss_;
};

int run(const Options& options) {
  samples::catch_interrupts();
  random::seed(options.seed);
  Game game(options);
  gluon::metric::Loss judged("judge"), made("maker");
  const std::int64_t every = std::max<std::int64_t>(options.steps / 10, 1);
  for (std::int64_t i = 1; i <= options.steps; ++i) {
    const auto [of_judge, of_maker] = game.step();
    samples::end_if_interrupted();
    judged.update(of_judge);
    made.update(of_maker);
    if (i % every != 0 && i != options.steps)
      continue;
    const auto [share, reached] = game.look();
    fmt::print(
        "step {:5}: judge {:.3f}, maker {:.3f}; {:.0f} % of points in {} of {} clusters\n",
        i,
        judged.get().second,
        made.get().second,
        100 * share,
        reached,
        k_clusters);
    std::fflush(stdout);
    judged.reset();
    made.reset();
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  samples::CommandLine command(
      "Two networks against each other: one makes points like those of eight clusters, one judges.");
  command.add_device_flag(options.device);
  command.add_option("--steps", options.steps, "Training steps").check(samples::whole_within(1, 10'000'000));
  command.add_option("--batch", options.batch, "Points in a batch").check(samples::whole_within(1, 65536));
  command.add_option("--units", options.units, "Width of the networks").check(samples::whole_within(1, 4096));
  command.add_option("--noise", options.noise, "Random numbers that a point is made of")
      .check(samples::whole_within(1, 4096));
  command.add_option("--lr", options.learning_rate, "Learning rate")
      .check(samples::finite_within({.low = 0, .high = 1}));
  command.add_option("--seed", options.seed, "Of all random numbers").check(samples::whole_number());
  return samples::run_main(command, argc, argv, [&] { return run(options); });
}
