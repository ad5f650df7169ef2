// One pass over all gradients of a step: their norm, what scales them, and whether the step is taken.
#include <cmath>
#include <limits>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/reference.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

namespace sluice {
namespace {

using test::contains;
using List = std::vector<NDArray>;
constexpr double k_inf = std::numeric_limits<double>::infinity(), k_nan = std::numeric_limits<double>::quiet_NaN();

List gradients(Device device) {
  List made;
  std::uint64_t seed = 1;
  for (const DType dtype : test::floating_dtypes()) {
    for (const Shape& shape : {Shape{3, 4}, Shape{}, Shape{0, 5}, Shape{130, 150}, Shape{9001}})
      made.push_back(test::random_array(shape, seed++, -1, 1, dtype, device));
  }
  made.push_back(made[3].T());                                         // with gaps
  made.push_back(full({1}, 2, {.device = device}).broadcast_to({7}));  // steps of 0
  for (int i = 0; i < 300; ++i)                                        // more than one table
    made.push_back(full({i % 3}, 0.125, {.device = device}));
  return made;
}

double reference_norm(const List& arrays) {
  double sum = 0;
  for (const NDArray& array : arrays) {
    for (const double value : array.to_vector<double>())
      sum += value * value;
  }
  return std::sqrt(sum);
}

void check_norm(Device device) {
  const List grads = gradients(device);
  const double wanted = reference_norm(grads);
  CHECK(global_norm(grads).item<double>() == Approx(wanted).epsilon(1e-12));
  const auto guard = [&](const GuardOptions& options) { return gradient_guard(grads, options).to_vector<double>(); };
  const auto free = guard({.rescale_grad = -0.5});
  CHECK(free[0] == Approx(wanted / 2).epsilon(1e-12));
  CHECK((free[1] == 1 && free[2] == 1));
  CHECK(guard({.max_norm = wanted * 1.01})[1] == 1);
  CHECK(guard({.max_norm = 3})[1] == Approx(3 / wanted).epsilon(1e-12));
  CHECK(guard({.max_norm = 0})[1] == 0);
  CHECK(
      guard({.max_norm = 3, .numbers = array<double>({5, 6, 0.5}, {3}, device)})[0] ==
      Approx(wanted / 2).epsilon(1e-12));
  CHECK(global_norm(List{zeros({0}, {.device = device})}).item<double>() == 0);
  // What does not fit float32's squares fits float64's.
  CHECK(global_norm(List{full({4}, 1e30, {.device = device})}).item<double>() == Approx(2e30));
}

void check_finite(Device device) {
  for (const DType dtype : test::floating_dtypes()) {
    for (const double strange : {k_inf, -k_inf, k_nan}) {
      const List grads = {
          ones({5000}, {.dtype = dtype, .device = device}), ones({5001}, {.dtype = dtype, .device = device})};
      const auto taken = [&] { return gradient_guard(grads, {.skip_non_finite = true}).to_vector<double>(); };
      CHECK(taken()[2] == 1);
      fill(grads[1].slice(0, 5000, 5001), strange);
      const auto after = taken();
      INFO(dtype << " " << strange);
      CHECK(after[2] == 0);
      CHECK_FALSE(std::isfinite(after[0]));
      CHECK(gradient_guard(grads, {}).to_vector<double>()[2] == 1);  // nobody asked
    }
  }
  // Squares of float64 may leave float64: that alone leaves no step out.
  const auto wide =
      gradient_guard(
          List{full({3}, 1e200, {.dtype = float64, .device = device})}, {.max_norm = 1, .skip_non_finite = true})
          .to_vector<double>();
  CHECK((wide[0] == k_inf && wide[1] == 0 && wide[2] == 1));
}

void check_near(const NDArray& got, const std::vector<float>& wanted) {
  CHECK(test::differences(got, array(wanted, got.shape()), {1e-6, 0}) == "");
}

// Steps are scaled by a guard, before clip_gradient, and left out where it says so.
void check_guarded_steps(Device device) {
  const ArrayOptions there{.device = device};
  const List w = {full({2}, 1, there), full({3}, 1, there)}, m = {zeros({2}, there), zeros({3}, there)};
  const List g = {array<float>({3, 0}, {2}, device), array<float>({0, 4, 0}, {3}, device)};
  const NDArray guard = gradient_guard(g, {.max_norm = 1});
  sgd_update(w, g, m, {.learning_rate = 1, .clip_gradient = 0.7, .guard = guard});
  check_near(w[0], {1 - 0.6F, 1});
  check_near(w[1], {1, 1 - 0.7F, 1});
  fill(g[1], k_nan);
  gradient_guard(g, {.max_norm = 1, .skip_non_finite = true}, guard);
  sgd_update(w, g, m, {.learning_rate = 1, .momentum = 0.9, .guard = guard});
  check_near(w[0], {1 - 0.6F, 1});
  check_near(m[1], {0, -0.7F, 0});
  const update_rules::Lamb lamb;
  const std::vector<List> states = {m, {zeros({2}, there), zeros({3}, there)}};
  optimizer_update(lamb, w, g, states, {.steps = {1, 1}, .guard = guard});  // neither of its passes
  check_near(m[1], {0, -0.7F, 0});
  check_near(w[1], {1, 1 - 0.7F, 1});
}

}  // namespace

TEST_CASE("A guard gives the norm of all gradients and what scales them", "[update][guard]") {
  check_norm(cpu());
}
TEST_CASE("A guard on a GPU gives the norm of all gradients", "[update][guard][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_norm(gpu());
}

TEST_CASE("A guard tells of gradients that are not finite, wherever they stand", "[update][guard][special]") {
  check_finite(cpu());
}
TEST_CASE("A guard on a GPU tells of gradients that are not finite", "[update][guard][special][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_finite(gpu());
}

TEST_CASE("Steps are scaled by their guard, and left out where it says so", "[update][guard]") {
  check_guarded_steps(cpu());
}
TEST_CASE("Steps on a GPU are scaled by their guard, and left out", "[update][guard][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_guarded_steps(gpu());
}

TEST_CASE("A norm has the same bits whatever the number of workers", "[update][guard]") {
  std::vector<double> norms;
  for (const int workers : {1, 2, 4}) {
    Engine engine({.workers = workers});
    const EngineScope scope(engine);
    norms.push_back(global_norm(gradients(cpu())).item<double>());
  }
  CHECK(norms[0] == norms[1]);
  CHECK(norms[0] == norms[2]);
}

TEST_CASE("A guard refuses what is no norm and no gradient", "[update][guard]") {
  const List g = {zeros({2})};
  CHECK_THROWS_AS(gradient_guard(g, {.max_norm = k_nan}), ValueError);
  CHECK_THROWS_AS(gradient_guard({}, {}), ValueError);
  CHECK(global_norm({}).item<double>() == 0);
  CHECK_THROWS_WITH(
      global_norm(List{zeros({2}), zeros({2}, {.dtype = int32})}), contains("gradient_guard: array 1 is int32"));
  CHECK_THROWS_AS(gradient_guard(g, {.numbers = zeros({2})}), DTypeError);
  CHECK_THROWS_AS(gradient_guard(g, {.numbers = zeros({0}, {.dtype = float64})}), ShapeError);
  CHECK_THROWS_AS(gradient_guard(g, {}, zeros({2}, {.dtype = float64})), ShapeError);
}

}  // namespace sluice
