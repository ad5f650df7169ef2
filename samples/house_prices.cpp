// What houses cost, from a table of numbers and of words: made here, by a rule that the network has to find.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sluice/sluice.h>

#include "samples/support/flags.h"
#include "samples/support/run_main.h"
#include "samples/support/saving.h"

namespace {

using namespace sluice;
namespace nn = gluon::nn;
namespace est = gluon::estimator;
using gluon::data::DataLoader;

struct Options {
  Device device = num_gpus() > 0 ? gpu(0) : cpu();
  std::int64_t houses = 2000, epochs = 60;
  double learning_rate = 0;
  std::uint64_t seed = 1;
  samples::Saving saving = {};
};

struct House {
  double area, rooms, year, garden;
  std::size_t district;
  double price;
};

constexpr std::array<std::string_view, 5> k_districts = {"harbour", "hill", "mill", "old town", "station"};
constexpr std::int64_t k_numbers = 4, k_columns = k_numbers + static_cast<std::int64_t>(k_districts.size());

std::vector<House> build(const Options& options) {
  std::mt19937_64 draw(options.seed);
  // Not the library's distributions, which differ from one to the next.
  const auto uniform = [&] { return static_cast<double>(draw() >> 11) * 0x1p-53; };
  constexpr std::array<double, 5> k_worth = {0.25, 0.4, -0.1, 0.15, -0.3};
  std::vector<House> houses(static_cast<std::size_t>(options.houses));
  for (House& house : houses) {
    house.area = 40 + 160 * uniform() * uniform();
    house.rooms = std::floor(1 + house.area / 25 + 2 * uniform());
    house.year = std::floor(1900 + 120 * uniform());
    house.garden = std::max(0.0, 600 * (uniform() - 0.4));
    house.district = static_cast<std::size_t>(5 * uniform());
    const double age = (2020 - house.year) / 100;
    const double noise = uniform() + uniform() + uniform() - 1.5;
    house.price = 3000 * house.area *
                  std::exp(
                      k_worth[house.district] + 0.03 * house.rooms - 0.5 * age * (1.2 - age) +
                      0.0003 * house.garden * (1 + k_worth[house.district]) + 0.1 * noise);
  }
  return houses;
}

/// A row a house: numbers with mean 0 and deviation 1 by the `known` first ones, and a 1 for its district. Labels are
/// logarithms of prices, lest dear houses alone count.
struct Table {
  std::vector<float> rows, labels;
  double mean_label = 0;

  Table(const std::vector<House>& houses, std::size_t known) {
    std::array<double, k_numbers> mean{}, square{};
    const auto numbers_of = [](const House& h) { return std::array{h.area, h.rooms, h.year, h.garden}; };
    const auto n = static_cast<double>(known);
    for (std::size_t i = 0; i < known; ++i) {
      const auto numbers = numbers_of(houses[i]);
      for (std::size_t c = 0; c < numbers.size(); ++c) {
        mean[c] += numbers[c] / n;
        square[c] += numbers[c] * numbers[c] / n;
      }
      mean_label += std::log(houses[i].price) / n;
    }
    for (const House& house : houses) {
      const auto numbers = numbers_of(house);
      for (std::size_t c = 0; c < numbers.size(); ++c) {
        const double deviation = std::sqrt(std::max(square[c] - mean[c] * mean[c], 1e-12));
        rows.push_back(static_cast<float>((numbers[c] - mean[c]) / deviation));
      }
      for (std::size_t d = 0; d < k_districts.size(); ++d)
        rows.push_back(d == house.district ? 1.0f : 0.0f);
      labels.push_back(static_cast<float>(std::log(house.price) - mean_label));
    }
  }
  gluon::data::ArrayDataset part(std::size_t first, std::size_t last) const {
    const auto n = static_cast<std::int64_t>(last - first);
    const auto at = [](const std::vector<float>& values, std::size_t i) {
      return values.begin() + static_cast<std::ptrdiff_t>(i);
    };
    constexpr auto k_wide = static_cast<std::size_t>(k_columns);
    return {
        array(std::vector<float>(at(rows, first * k_wide), at(rows, last * k_wide)), {n, k_columns}),
        array(std::vector<float>(at(labels, first), at(labels, last)), {n, 1})};
  }
};

void show(gluon::Block& net, const Table& table, const std::vector<House>& houses, std::size_t first, Device device) {
  const std::size_t last = std::min(first + 5, houses.size());
  DataLoader few(table.part(first, last), {.batch_size = 5, .device = device});
  const auto guesses = net((*few.begin()).data).to_vector<float>();
  for (std::size_t i = first; i < last; ++i) {
    const House& house = houses[i];
    fmt::print(
        "{:4.0f} m2, {:2.0f} rooms, of {:.0f}, {:8}: {:9.0f}, guessed {:9.0f}\n",
        house.area,
        house.rooms,
        house.year,
        k_districts[house.district],
        house.price,
        std::exp(guesses[i - first] + table.mean_label));
  }
}

int run(const Options& options) {
  options.saving.begin();
  const std::vector<House> houses = build(options);
  const std::size_t known = houses.size() * 4 / 5;
  const Table table(houses, known);
  random::seed(options.seed);
  nn::Sequential net;
  net.add(
      nn::Dense(64, {.activation = "relu"}), nn::Dropout(0.05), nn::Dense(32, {.activation = "relu"}), nn::Dense(1));
  net.initialize(gluon::init::Xavier(), options.device);
  const gluon::loss::L2Loss loss;
  DataLoader training(table.part(0, known), {.batch_size = 64, .shuffle = true, .device = options.device});
  DataLoader testing(table.part(known, houses.size()), {.batch_size = 64, .device = options.device});
  est::Estimator estimator(
      net,
      loss,
      gluon::optimizer::AdamW({.wd = 0.01}),
      {.validation_metrics = {std::make_shared<gluon::metric::RMSE>()}});
  double rate = options.learning_rate;
  if (rate == 0) {
    const auto sweep = est::find_learning_rate(estimator, training, {.first = 1e-5, .last = 1, .steps = 60});
    rate = std::clamp(sweep.suggestion.value_or(1e-3), 1e-4, 2e-2);
    fmt::print("learning rate by a sweep: {:.2g}\n", rate);
  }
  estimator.trainer().set_learning_rate(rate);
  est::Handlers handlers = options.saving.handlers();
  handlers.push_back(std::make_shared<est::EarlyStoppingHandler>(
      est::EarlyStoppingOptions{.monitor = "validation rmse", .patience = 10}));
  estimator.fit(training, {.epochs = options.epochs, .validation = testing, .handlers = std::move(handlers)});
  options.saving.end_if_interrupted();
  show(net, table, houses, known, options.device);
  const double error = estimator.evaluate(testing)[1].second;
  fmt::print("prices are guessed to {:.1f} %\n", 100 * (std::exp(error) - 1));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  samples::CommandLine command("What houses cost, from a table of numbers and words that is made here.");
  command.add_device_flag(options.device);
  command.add_option("--houses", options.houses, "Rows of the table").check(samples::whole_within(10, 1'000'000));
  command.add_option("--epochs", options.epochs, "Epochs at most").check(samples::whole_within(1, 100'000));
  command.add_option("--lr", options.learning_rate, "Learning rate; 0: found by a sweep")
      .check(samples::finite_within({.low = 0, .high = 1}));
  command.add_option("--seed", options.seed, "Of all random numbers").check(samples::whole_number());
  options.saving.add_to(command);
  return samples::run_main(command, argc, argv, [&] { return run(options); });
}
