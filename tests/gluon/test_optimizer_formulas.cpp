// Fifty steps of every optimizer, with options away from their defaults, against the formulas written out here.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/gluon/formula_steps.h"

using namespace sluice;
using namespace sluice::test;
namespace optimizer = gluon::optimizer;

namespace {

double sign(double x) {
  return x > 0 ? 1 : x < 0 ? -1 : 0;
}

/// Adafactor's direction, of means of rows and columns where there are some: epsilon1 is 1e-3, beta2_decay -0.6.
Numbers factored_direction(Told& s) {
  const double b = std::pow(s.t, -0.6);
  Numbers u(s.size());
  if (s.columns > 1) {
    double of_rows = 0;
    for (std::int64_t row = 0; row < s.rows; ++row) {
      double mean = 0;
      for (std::int64_t column = 0; column < s.columns; ++column) {
        const double g = s.g[static_cast<std::size_t>(row * s.columns + column)];
        mean += g * g / static_cast<double>(s.columns);
      }
      double& r = s.a[static_cast<std::size_t>(row)];
      r += b * (mean - r);
      of_rows += r / static_cast<double>(s.rows);
    }
    for (std::int64_t column = 0; column < s.columns; ++column) {
      double mean = 0;
      for (std::int64_t row = 0; row < s.rows; ++row) {
        const double g = s.g[static_cast<std::size_t>(row * s.columns + column)];
        mean += g * g / static_cast<double>(s.rows);
      }
      double& c = s.b[static_cast<std::size_t>(column)];
      c += b * (mean - c);
    }
    for (std::size_t i = 0; i < s.size(); ++i) {
      const auto columns = static_cast<std::size_t>(s.columns);
      const double variance = s.a[i / columns] * s.b[i % columns] / std::max(of_rows, 1e-3);
      u[i] = s.g[i] / std::sqrt(std::max(variance, 1e-6));
    }
  } else {
    for (std::size_t i = 0; i < s.size(); ++i) {
      s.a[i] += b * (s.g[i] * s.g[i] - s.a[i]);
      u[i] = s.g[i] / std::sqrt(std::max(s.a[i], 1e-6));
    }
  }
  return u;
}

}  // namespace

TEST_CASE("SGD and NAG follow their formulas over 50 steps", "[gluon][trainer]") {
  for (const double momentum : {0.0, 0.8}) {
    check<optimizer::SGD>(
        optimizer::SGDOptions{.learning_rate = 0.05, .momentum = momentum, .wd = 0.02, .clip_gradient = 0.9},
        each([=](Told& s, std::size_t i) {
          s.a[i] = momentum * s.a[i] - 0.05 * (s.g[i] + 0.02 * s.w[i]);
          s.w[i] += s.a[i];
        }));
    check<optimizer::NAG>(
        optimizer::NAGOptions{.learning_rate = 0.05, .momentum = momentum, .wd = 0.02, .clip_gradient = 0.9},
        each([=](Told& s, std::size_t i) {
          const double down = 0.05 * (s.g[i] + 0.02 * s.w[i]);
          s.a[i] = momentum * s.a[i] - down;
          s.w[i] += momentum * s.a[i] - down;
        }));
  }
}

TEST_CASE("Adam and AdamW follow their formulas over 50 steps", "[gluon][trainer]") {
  check<optimizer::Adam>(
      optimizer::AdamOptions{
          .learning_rate = 0.02, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3, .wd = 0.03, .clip_gradient = 1},
      each([](Told& s, std::size_t i) {
        const double g = s.g[i] + 0.03 * s.w[i];
        s.a[i] = 0.8 * s.a[i] + 0.2 * g;
        s.b[i] = 0.95 * s.b[i] + 0.05 * g * g;
        const double rate = 0.02 * std::sqrt(1 - std::pow(0.95, s.t)) / (1 - std::pow(0.8, s.t));
        s.w[i] -= rate * s.a[i] / (std::sqrt(s.b[i]) + 1e-3);
      }));
  check<optimizer::AdamW>(
      optimizer::AdamWOptions{
          .learning_rate = 0.02, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3, .wd = 0.1, .clip_gradient = 1},
      each([](Told& s, std::size_t i) {
        s.w[i] -= 0.02 * 0.1 * s.w[i];
        s.a[i] = 0.8 * s.a[i] + 0.2 * s.g[i];
        s.b[i] = 0.95 * s.b[i] + 0.05 * s.g[i] * s.g[i];
        const double mean = s.a[i] / (1 - std::pow(0.8, s.t)), variance = s.b[i] / (1 - std::pow(0.95, s.t));
        s.w[i] -= 0.02 * mean / (std::sqrt(variance) + 1e-3);
      }));
}

TEST_CASE("AdaBelief follows its formula over 50 steps, corrected or not", "[gluon][trainer]") {
  for (const bool corrects : {true, false}) {
    check<optimizer::AdaBelief>(
        optimizer::AdaBeliefOptions{
            .learning_rate = 0.02,
            .beta1 = 0.8,
            .beta2 = 0.95,
            .epsilon = 1e-3,
            .correct_bias = corrects,
            .wd = 0.03,
            .clip_gradient = 1},
        each([=](Told& s, std::size_t i) {
          const double g = s.g[i] + 0.03 * s.w[i];
          s.a[i] = 0.8 * s.a[i] + 0.2 * g;
          s.b[i] = 0.95 * s.b[i] + 0.05 * (g - s.a[i]) * (g - s.a[i]) + 1e-3;
          const double rate = corrects ? 0.02 * std::sqrt(1 - std::pow(0.95, s.t)) / (1 - std::pow(0.8, s.t)) : 0.02;
          s.w[i] -= rate * s.a[i] / (std::sqrt(s.b[i]) + 1e-3);
        }));
  }
}

TEST_CASE("GroupAdaGrad follows its formula over 50 steps, a number a row", "[gluon][trainer]") {
  check<optimizer::GroupAdaGrad>(
      optimizer::GroupAdaGradOptions{.learning_rate = 0.1, .epsilon = 0.01, .wd = 0.03, .clip_gradient = 1},
      [](Told& s) {
        const auto columns = static_cast<std::size_t>(s.columns);
        for (std::size_t i = 0; i < s.size(); ++i) {
          const double g = s.g[i] + 0.03 * s.w[i];
          s.a[i / columns] += g * g / static_cast<double>(columns);
        }
        for (std::size_t i = 0; i < s.size(); ++i)
          s.w[i] -= 0.1 * (s.g[i] + 0.03 * s.w[i]) / (std::sqrt(s.a[i / columns]) + 0.01);
      });
}

TEST_CASE("RMSProp, AdaGrad and AdaDelta follow their formulas over 50 steps", "[gluon][trainer]") {
  for (const bool centered : {false, true}) {
    for (const double momentum : {0.0, 0.7}) {
      check<optimizer::RMSProp>(
          optimizer::RMSPropOptions{
              .learning_rate = 0.02,
              .rho = 0.8,
              .momentum = momentum,
              .epsilon = 0.01,
              .centered = centered,
              .wd = 0.03,
              .clip_gradient = 1},
          each([=](Told& s, std::size_t i) {
            const double g = s.g[i] + 0.03 * s.w[i];
            s.a[i] = 0.8 * s.a[i] + 0.2 * g * g;
            s.b[i] = 0.8 * s.b[i] + 0.2 * g;
            const double variance = centered ? s.a[i] - s.b[i] * s.b[i] : s.a[i];
            s.c[i] = momentum * s.c[i] + g / (std::sqrt(variance) + 0.01);
            s.w[i] -= 0.02 * s.c[i];
          }));
    }
  }
  check<optimizer::AdaGrad>(
      optimizer::AdaGradOptions{.learning_rate = 0.1, .epsilon = 0.01, .wd = 0.03, .clip_gradient = 1},
      each([](Told& s, std::size_t i) {
        const double g = s.g[i] + 0.03 * s.w[i];
        s.a[i] += g * g;
        s.w[i] -= 0.1 * g / (std::sqrt(s.a[i]) + 0.01);
      }));
  check<optimizer::AdaDelta>(
      optimizer::AdaDeltaOptions{.learning_rate = 0.7, .rho = 0.8, .epsilon = 1e-3, .wd = 0.03, .clip_gradient = 1},
      each([](Told& s, std::size_t i) {
        const double g = s.g[i] + 0.03 * s.w[i];
        s.a[i] = 0.8 * s.a[i] + 0.2 * g * g;
        const double d = std::sqrt(s.b[i] + 1e-3) / std::sqrt(s.a[i] + 1e-3) * g;
        s.b[i] = 0.8 * s.b[i] + 0.2 * d * d;
        s.w[i] -= 0.7 * d;
      }));
}

TEST_CASE("Ftrl and Signum follow their formulas over 50 steps", "[gluon][trainer]") {
  check<optimizer::Ftrl>(
      optimizer::FtrlOptions{.learning_rate = 0.2, .lamda1 = 0.3, .beta = 0.5, .wd = 0.04, .clip_gradient = 1},
      each([](Told& s, std::size_t i) {
        const double more = s.b[i] + s.g[i] * s.g[i];
        s.a[i] += s.g[i] - (std::sqrt(more) - std::sqrt(s.b[i])) / 0.2 * s.w[i];
        s.b[i] = more;
        const double z = s.a[i], down = (0.5 + std::sqrt(s.b[i])) / 0.2 + 0.04;
        s.w[i] = std::abs(z) > 0.3 ? (sign(z) * 0.3 - z) / down : 0;
      }));
  for (const double momentum : {0.0, 0.75}) {
    check<optimizer::Signum>(
        optimizer::SignumOptions{
            .learning_rate = 0.02, .momentum = momentum, .wd_lh = 0.1, .wd = 0.03, .clip_gradient = 1},
        each([=](Told& s, std::size_t i) {
          s.a[i] = momentum * s.a[i] - (1 - momentum) * (s.g[i] + 0.03 * s.w[i]);
          s.w[i] = (1 - 0.02 * 0.1) * s.w[i] + 0.02 * sign(s.a[i]);
        }));
  }
}

TEST_CASE("Adamax, Nadam and FTML follow their formulas over 50 steps", "[gluon][trainer]") {
  check<optimizer::Adamax>(
      optimizer::AdamaxOptions{.learning_rate = 0.02, .beta1 = 0.8, .beta2 = 0.9, .wd = 0.03, .clip_gradient = 1},
      each([](Told& s, std::size_t i) {
        const double g = s.g[i] + 0.03 * s.w[i];
        s.a[i] = 0.8 * s.a[i] + 0.2 * g;
        s.b[i] = std::max(0.9 * s.b[i], std::abs(g));
        s.w[i] -= 0.02 / (1 - std::pow(0.8, s.t)) * s.a[i] / s.b[i];
      }));
  for (const double decay : {0.0, 0.004, 1.5}) {
    const auto momentum = [=](int t) { return 0.8 * (1 - 0.5 * std::pow(0.96, t * decay)); };
    check<optimizer::Nadam>(
        optimizer::NadamOptions{
            .learning_rate = 0.02,
            .beta1 = 0.8,
            .beta2 = 0.95,
            .epsilon = 1e-3,
            .schedule_decay = decay,
            .wd = 0.03,
            .clip_gradient = 1},
        each([=](Told& s, std::size_t i) {
          const double g = s.g[i] + 0.03 * s.w[i];
          double product = 1;
          for (int t = 1; t <= s.t; ++t)
            product *= momentum(t);
          s.a[i] = 0.8 * s.a[i] + 0.2 * g;
          s.b[i] = 0.95 * s.b[i] + 0.05 * g * g;
          const double m =
              (1 - momentum(s.t)) * g / (1 - product) + momentum(s.t + 1) * s.a[i] / (1 - product * momentum(s.t + 1));
          s.w[i] -= 0.02 * m / (std::sqrt(s.b[i] / (1 - std::pow(0.95, s.t))) + 1e-3);
        }));
  }
  check<optimizer::FTML>(
      optimizer::FTMLOptions{.learning_rate = 0.02, .epsilon = 1e-3, .wd = 0.03, .clip_gradient = 1},
      each([](Told& s, std::size_t i) {
        const double g = s.g[i] + 0.03 * s.w[i], before = s.a[i];
        s.b[i] = 0.999 * s.b[i] + 0.001 * g * g;
        s.a[i] = (1 - std::pow(0.6, s.t)) / 0.02 * (std::sqrt(s.b[i] / (1 - std::pow(0.999, s.t))) + 1e-3);
        s.c[i] = 0.6 * s.c[i] + 0.4 * g - (s.a[i] - 0.6 * before) * s.w[i];
        s.w[i] = -s.c[i] / s.a[i];
      }));
}

TEST_CASE("DCASGD and SGLD follow their formulas over 50 steps", "[gluon][trainer]") {
  for (const double momentum : {0.0, 0.7}) {
    check<optimizer::DCASGD>(
        optimizer::DCASGDOptions{
            .learning_rate = 0.05, .momentum = momentum, .lamda = 0.6, .wd = 0.03, .clip_gradient = 1},
        each([=](Told& s, std::size_t i) {
          const double moved = s.t == 1 ? 0 : s.w[i] - s.a[i];
          s.a[i] = s.w[i];
          s.b[i] = momentum * s.b[i] - 0.05 * (s.g[i] + 0.03 * s.w[i] + 0.6 * s.g[i] * s.g[i] * moved);
          s.w[i] += s.b[i];
        }));
  }
  // The same numbers again: of both parameters in one array, in which each begins at a multiple of 4.
  Engine again({.workers = 1});
  again.seed(11);
  Engine::current().seed(11);
  Numbers noise;
  check<optimizer::SGLD>(optimizer::SGLDOptions{.learning_rate = 0.04, .wd = 0.03, .clip_gradient = 1}, [&](Told& s) {
    const bool first = s.size() == 12;
    const EngineScope scope(again);
    if (first)
      noise = random::normal({20}, {.dtype = float64}).to_vector<double>();
    for (std::size_t i = 0; i < s.size(); ++i)
      s.w[i] += -0.02 * (s.g[i] + 0.03 * s.w[i]) + 0.2 * noise[i + (first ? 0 : 12)];
  });
}

TEST_CASE("LARS and LAMB follow their formulas over 50 steps, with bounds that cut", "[gluon][trainer]") {
  check<optimizer::LARS>(
      optimizer::LARSOptions{
          .learning_rate = 0.5, .momentum = 0.8, .eta = 0.05, .epsilon = 0.01, .wd = 0.03, .clip_gradient = 1},
      [](Told& s) {
        const double of_w = s.norm(s.w), of_g = s.norm(s.g);
        const double ratio = of_w > 0 && of_g > 0 ? 0.05 * of_w / (of_g + 0.03 * of_w + 0.01) : 1;
        for (std::size_t i = 0; i < s.size(); ++i) {
          s.a[i] = 0.8 * s.a[i] - 0.5 * ratio * (s.g[i] + 0.03 * s.w[i]);
          s.w[i] += s.a[i];
        }
      });
  const std::pair<double, double> bounds[] = {{-1, -1}, {-1, 1.5}, {4, -1}, {1.9, 2.1}};
  for (const auto& [low, high] : bounds) {
    for (const bool corrects : {true, false}) {
      CAPTURE(low, high, corrects);
      check<optimizer::LAMB>(
          optimizer::LAMBOptions{
              .learning_rate = 0.02,
              .beta1 = 0.8,
              .beta2 = 0.95,
              .epsilon = 1e-3,
              .lower_bound = low,
              .upper_bound = high,
              .bias_correction = corrects,
              .wd = 0.05,
              .clip_gradient = 1},
          [=, low = low, high = high](Told& s) {
            for (std::size_t i = 0; i < s.size(); ++i) {
              s.a[i] = 0.8 * s.a[i] + 0.2 * s.g[i];
              s.b[i] = 0.95 * s.b[i] + 0.05 * s.g[i] * s.g[i];
              const double first = corrects ? 1 - std::pow(0.8, s.t) : 1,
                           second = corrects ? 1 - std::pow(0.95, s.t) : 1;
              s.c[i] = s.a[i] / first / (std::sqrt(s.b[i] / second) + 1e-3) + 0.05 * s.w[i];
            }
            double of_w = s.norm(s.w);
            of_w = low >= 0 ? std::max(of_w, low) : of_w;
            of_w = high >= 0 ? std::min(of_w, high) : of_w;
            const double of_step = s.norm(s.c), ratio = of_w > 0 && of_step > 0 ? of_w / of_step : 1;
            for (std::size_t i = 0; i < s.size(); ++i)
              s.w[i] -= 0.02 * ratio * s.c[i];
          });
    }
  }
}

TEST_CASE("LANS follows its formula over 50 steps, with bounds that cut", "[gluon][trainer]") {
  const std::pair<double, double> bounds[] = {{-1, -1}, {-1, 1.5}, {4, -1}, {1.9, 2.1}};
  for (const auto& [low, high] : bounds) {
    CAPTURE(low, high);
    check<optimizer::LANS>(
        optimizer::LANSOptions{
            .learning_rate = 0.02,
            .beta1 = 0.8,
            .beta2 = 0.95,
            .epsilon = 1e-3,
            .lower_bound = low,
            .upper_bound = high,
            .wd = 0.05,
            .clip_gradient = 0.3},
        [=, low = low, high = high](Told& s) {
          const double length = s.norm(s.whole);
          Numbers of_mean, of_grad;
          for (std::size_t i = 0; i < s.size(); ++i) {
            const double g = length == 0 ? 0 : cut(s.whole[i] / length, 0.3);
            s.a[i] = 0.8 * s.a[i] + 0.2 * g;
            s.b[i] = 0.95 * s.b[i] + 0.05 * g * g;
            const double root = std::sqrt(s.b[i] / (1 - std::pow(0.95, s.t))) + 1e-3;
            of_mean.push_back(s.a[i] / (1 - std::pow(0.8, s.t)) / root + 0.05 * s.w[i]);
            of_grad.push_back(g / root + 0.05 * s.w[i]);
          }
          double of_w = s.norm(s.w);
          of_w = low >= 0 ? std::max(of_w, low) : of_w;
          of_w = high >= 0 ? std::min(of_w, high) : of_w;
          for (std::size_t i = 0; i < s.size(); ++i)
            s.w[i] -= 0.02 * of_w * (0.8 * of_mean[i] / s.norm(of_mean) + (1 - 0.8) * of_grad[i] / s.norm(of_grad));
        });
  }
}

TEST_CASE("Adafactor follows its formula over 50 steps, relative, scaled and clipped or not", "[gluon][trainer]") {
  for (const bool relative : {true, false}) {
    for (const bool scales : {true, false}) {
      CAPTURE(relative, scales);
      const double lr = relative ? 0.3 : 0.05;  // of relative steps 1 / sqrt(t) is the smaller one after the first
      check<optimizer::Adafactor>(
          optimizer::AdafactorOptions{
              .learning_rate = lr,
              .beta2_decay = -0.6,
              .epsilon1 = 1e-3,
              .epsilon2 = 0.02,
              .clip_threshold = 0.8,
              .momentum = 0.4,
              .relative_step = relative,
              .scale_parameter = scales,
              .wd = 0.03,
              .clip_gradient = 1},
          [=](Told& s) {
            const Numbers u = factored_direction(s);
            const double n = static_cast<double>(s.size());
            const double cut = std::max(1.0, s.norm(u) / std::sqrt(n) / 0.8);
            double length = relative ? std::min(lr, 1 / std::sqrt(s.t)) : lr;
            if (scales)
              length *= std::max(0.02, s.norm(s.w) / std::sqrt(n));
            for (std::size_t i = 0; i < s.size(); ++i) {
              s.c[i] = 0.4 * s.c[i] + 0.6 * length * u[i] / cut;
              s.w[i] -= lr * 0.03 * s.w[i] + s.c[i];
            }
          });
    }
  }
}
