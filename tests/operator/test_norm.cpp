#include <cmath>
#include <limits>

#include "tests/operator/heavy_reference.h"
#include "tests/support/catch.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

// x and its parameters; the statistics as plain operators compute them in float64.
struct Setup {
  NDArray x, gamma, beta, running_mean, running_var;
  Shape others, along;

  Setup(const Shape& shape, int axis, DType dtype, DType parameters) {
    const std::int64_t channels = shape[axis];
    x = random_array(shape, 1, -1, 3, dtype);
    gamma = random_array({channels}, 2, 0.5, 2, parameters);
    beta = random_array({channels}, 3, -1, 1, parameters);
    running_mean = random_array({channels}, 4, -1, 1, parameters);
    running_var = random_array({channels}, 5, 0.5, 2, parameters);
    along = Shape::filled(shape.ndim(), 1);
    along[axis] = channels;
    for (int i = 0; i < shape.ndim(); ++i) {
      if (i != axis)
        others.push_back(i);
    }
  }

  NDArray normalised(const NDArray& mean, const NDArray& var, double eps) const {
    const auto wide = [&](const NDArray& a) { return a.astype(float64).reshape(along); };
    return (x.astype(float64) - wide(mean)) * rsqrt(wide(var) + eps) * wide(gamma) + wide(beta);
  }
  NDArray batch_mean() const { return mean(x.astype(float64), others); }
  NDArray batch_var() const {
    const NDArray distance = x.astype(float64) - batch_mean().reshape(along);
    return mean(distance * distance, others);
  }
  NDArray run(const BatchNormOptions& options) const {
    return batch_norm(x, gamma, beta, running_mean, running_var, options);
  }
};

Tolerance tolerance(DType dtype) {
  return dtype == float64 ? Tolerance{1e-10, 1e-10} : dtype == float32 ? Tolerance{1e-5, 1e-5} : sum_tolerance(dtype);
}

}  // namespace

TEST_CASE("batch_norm in training uses the batch's statistics and moves the running ones") {
  for (const auto& [shape, axis] : std::vector<std::pair<Shape, int>>{
           {{4, 3, 5, 6}, 1}, {{17, 9}, 1}, {{2, 3, 4, 5}, 3}, {{5, 40}, 0}, {{2, 3, 2, 3, 2}, 2}, {{300, 7, 3}, 1}}) {
    for (const DType dtype : k_heavy_dtypes) {
      for (const DType parameters : {dtype, dtype == float64 ? float64 : float32}) {
        CAPTURE(to_string(shape), axis, name_of(dtype), name_of(parameters));
        const Setup s(shape, axis, dtype, parameters);
        const NDArray mean = s.batch_mean(), var = s.batch_var();
        const NDArray new_mean = s.running_mean.astype(float64) * 0.8 + mean * 0.2;
        const NDArray new_var = s.running_var.astype(float64) * 0.8 + var * 0.2;
        const NDArray want = s.normalised(mean, var, 1e-3);
        const autograd::TrainScope train;
        CHECK(differences(s.run({.eps = 1e-3, .momentum = 0.8, .axis = axis}), want, tolerance(dtype)) == "");
        CHECK(differences(s.running_mean, new_mean, tolerance(parameters)) == "");
        CHECK(differences(s.running_var, new_var, tolerance(parameters)) == "");
      }
    }
  }
}

TEST_CASE("batch_norm in prediction, or with global statistics, uses the running ones and leaves them") {
  const Setup s({4, 3, 5, 6}, 1, float32, float32);
  const auto mean = s.running_mean.to_vector<float>(), var = s.running_var.to_vector<float>();
  const NDArray want = s.normalised(s.running_mean, s.running_var, 1e-5);
  CHECK(differences(s.run({}), want, tolerance(float32)) == "");
  const autograd::TrainScope train;
  CHECK(differences(s.run({.axis = -3, .use_global_stats = true}), want, tolerance(float32)) == "");
  CHECK(s.running_mean.to_vector<float>() == mean);
  CHECK(s.running_var.to_vector<float>() == var);
}

TEST_CASE("batch_norm keeps its precision where the mean is far from zero") {
  Setup s({64, 2, 8, 8}, 1, float32, float32);
  s.x = s.x + 10000.0;
  const NDArray want = s.normalised(s.batch_mean(), s.batch_var(), 1e-5);
  const autograd::TrainScope train;
  CHECK(differences(s.run({}), want, {2e-3, 2e-3}) == "");
}

TEST_CASE("The gradients of batch_norm agree with finite differences") {
  for (const auto& [shape, axis] : std::vector<std::pair<Shape, int>>{{{3, 2, 2, 3}, 1}, {{6, 4}, 1}, {{2, 3, 2}, 2}}) {
    for (const bool fix_gamma : {false, true}) {
      for (const bool global : {false, true}) {
        CAPTURE(to_string(shape), axis, fix_gamma, global);
        const Setup s(shape, axis, float64, float64);
        const auto f = [&](const std::vector<NDArray>& v) {
          return batch_norm(
              v[0],
              v[1],
              v[2],
              s.running_mean.copy(),
              s.running_var.copy(),
              {.eps = 1e-2, .axis = axis, .use_global_stats = global, .fix_gamma = fix_gamma});
        };
        if (!fix_gamma)
          CHECK(gradient_differences(f, {s.x, s.gamma, s.beta}) == "");
        // A fixed gamma counts as ones.
        const NDArray gamma = ones_like(s.gamma).astype(float32).astype(float64);
        const auto fixed = [&](const std::vector<NDArray>& v) { return f({v[0], gamma, v[1]}); };
        CHECK(gradient_differences(fixed, {s.x, s.beta}) == "");
      }
    }
  }
}

TEST_CASE("A fixed gamma counts as ones and has a zero gradient") {
  Setup s({4, 3}, 1, float32, float32);
  s.gamma.attach_grad();
  NDArray y;
  {
    const autograd::RecordScope record;
    y = s.run({.fix_gamma = true});
  }
  y.backward();
  CHECK(differences(s.gamma.grad(), zeros({3})) == "");
  s.gamma = ones({3});
  CHECK(differences(y, s.normalised(s.batch_mean(), s.batch_var(), 1e-5), tolerance(float32)) == "");
}

TEST_CASE("The gradient of batch_norm's gradient agrees with finite differences") {
  for (const bool global : {false, true}) {
    const Setup s({4, 2, 3}, 1, float64, float64);
    const auto f = [&](const std::vector<NDArray>& v) {
      const NDArray x = v[0].requires_grad() ? v[0] : v[0].detach();
      NDArray gamma = s.gamma.detach();
      gamma.attach_grad();
      const autograd::RecordScope record;
      const NDArray y = batch_norm(
          x, gamma, s.beta, s.running_mean.copy(), s.running_var.copy(), {.eps = 1e-2, .use_global_stats = global});
      const std::vector<NDArray> heads{y * y}, variables{gamma};
      return autograd::grad(heads, variables, {}, {.create_graph = true})[0];
    };
    CHECK(gradient_differences(f, {s.x}) == "");
  }
}

TEST_CASE("batch_norm of nothing leaves the running statistics alone") {
  const NDArray mean = full({3}, 2), var = full({3}, 4), one = ones({3}), zero = zeros({3});
  const autograd::TrainScope train;
  CHECK(batch_norm(zeros({0, 3, 2}), one, zero, mean, var).shape() == Shape{0, 3, 2});
  CHECK(mean.to_vector<float>() == std::vector<float>{2, 2, 2});
  CHECK(var.to_vector<float>() == std::vector<float>{4, 4, 4});
}

TEST_CASE("batch_norm refuses what does not fit, by name") {
  const NDArray x = zeros({2, 3}), p = ones({3});
  CHECK_THROWS_AS(batch_norm(x, p, p, p, ones({2})), ShapeError);
  CHECK_THROWS_AS(batch_norm(x, p, p, p, p, {.axis = 2}), IndexError);
  CHECK_THROWS_AS(batch_norm(x, p, p.astype(float64), p, p), DTypeError);
  CHECK_THROWS_AS(batch_norm(x, p.astype(float16), p, p, p), DTypeError);
  CHECK_THROWS_AS(batch_norm(x, p, p, p, p, {.eps = 0}), ValueError);
  CHECK_THROWS_AS(batch_norm(x, p, p, p, p, {.momentum = 1.5}), ValueError);
  CHECK_THROWS_AS(batch_norm(x.astype(int32), p, p, p, p), DTypeError);
  CHECK_THROWS_WITH(batch_norm(x, p, p, p, ones({2})), contains("running_var") && contains("(2,)"));
}

namespace {

NDArray channels_last(const NDArray& x) {
  return x.transpose({0, 2, 3, 1}).copy().transpose({0, 3, 1, 2});
}

MemoryOrder order_of(const NDArray& array) {
  return sluice::detail::order_of(array.shape(), array.strides());
}

// Result, gradients of x, gamma and beta, statistics, as x lies; the head lies row by row or as x.
std::vector<NDArray> all_of(const Setup& given, bool last, bool head_too, bool training) {
  const auto there = [](const NDArray& array) { return array.to(gpu()).copy(); };
  Setup on = given;
  on.x = last ? channels_last(there(given.x)) : there(given.x);
  for (NDArray* const array : {&on.gamma, &on.beta, &on.running_mean, &on.running_var})
    *array = there(*array);
  for (NDArray* const array : {&on.x, &on.gamma, &on.beta})
    array->attach_grad();
  NDArray y;
  {
    const autograd::RecordScope record(training);
    y = on.run({});
  }
  CHECK(order_of(y) == order_of(on.x));
  const NDArray head = there(random_array(given.x.shape(), 6, -1, 1, given.x.dtype()));
  y.backward(head_too ? channels_last(head) : head);
  return {y, on.x.grad(), on.gamma.grad(), on.beta.grad(), on.running_mean, on.running_var};
}

}  // namespace

TEST_CASE("batch_norm on a GPU takes numbers whose squares do not fit", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const Shape& shape : {Shape{64, 8}, Shape{4, 3, 40, 40}, Shape{5, 3, 3, 3}}) {
    CAPTURE(shape);
    Setup here(shape, 1, float32, float32);
    here.x = here.x * 1e17 + 1e20;
    Setup there = here;
    for (NDArray* const array : {&there.x, &there.gamma, &there.beta, &there.running_mean, &there.running_var})
      *array = array->to(gpu()).copy();
    const autograd::ModeScope training(false, true);
    CHECK(differences(there.run({}).to(cpu()), here.run({}), {1e-2, 1e-2}) == "");
    CHECK(differences(there.running_var.to(cpu()), here.running_var, {1e-2, 0}) == "");
  }
}

// Planes in vectors of 16 bytes: rounds of a block's loads that are whole, that lack one and that are one more, blocks
// that share a channel, and planes of one vector and of all.
TEST_CASE("Statistics of a channel on a GPU are exact wherever a round of loads ends", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  constexpr std::int64_t round = 1024;
  for (const DType dtype : {float16, bfloat16, float32, float64}) {
    const DType parameters = dtype == float64 ? float64 : float32;
    const std::int64_t V = 16 / static_cast<std::int64_t>(size_of(dtype));
    for (const std::int64_t vectors :
         {round - 1, round, round + 1, 2 * round - 1, 2 * round + 1, 2 * round + 769, 5 * round + 300}) {
      for (const Shape& shape : {Shape{1, 2, vectors * V}, Shape{(vectors * V + 15) / 16, 2, 16}}) {
        CAPTURE(dtype, vectors, shape);
        Setup s(shape, 1, dtype, parameters);
        if (size_of(dtype) >= 4)
          s.x = s.x + 1000;
        const NDArray mean = s.batch_mean(), var = s.batch_var();
        for (NDArray* const array : {&s.x, &s.gamma, &s.beta, &s.running_mean, &s.running_var})
          *array = array->to(gpu()).copy();
        const autograd::ModeScope training(false, true);
        const auto y = s.run({.momentum = 0}).astype(float64).to_vector<double>();
        CHECK(differences(s.running_mean.to(cpu()), mean.astype(parameters), {1e-6, 1e-6}) == "");
        CHECK(differences(s.running_var.to(cpu()), var.astype(parameters), {1e-5, 0}) == "");
        CHECK(s.run({.momentum = 0}).astype(float64).to_vector<double>() == y);  // the same bits
      }
    }
  }
}

TEST_CASE("What is not a number, or infinite, stays in its channel's statistics on a GPU", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {bfloat16, float32}) {
    for (const std::int64_t place : {0, 255, 8191, 40959}) {
      CAPTURE(dtype, place);
      Setup s({4, 3, 10240}, 1, dtype, float32);
      for (NDArray* const array : {&s.x, &s.gamma, &s.beta, &s.running_mean, &s.running_var})
        *array = array->to(gpu()).copy();
      const auto put = [&](std::int64_t channel, double value) {
        s.x.slice(0, place / 10240, place / 10240 + 1)
            .slice(1, channel, channel + 1)
            .slice(2, place % 10240, place % 10240 + 1)
            .assign(value);
      };
      put(0, std::numeric_limits<double>::quiet_NaN());
      put(2, std::numeric_limits<double>::infinity());
      const autograd::ModeScope training(false, true);
      s.run({.momentum = 0});
      const auto mean = s.running_mean.to_vector<double>(), var = s.running_var.to_vector<double>();
      CHECK(std::isnan(mean[0]));
      CHECK(std::isnan(var[0]));
      CHECK(std::isfinite(mean[1]));
      CHECK(std::isfinite(var[1]));
      CHECK_FALSE(std::isfinite(mean[2]));
      CHECK(std::isnan(var[2]));
    }
  }
}

TEST_CASE("batch_norm of channels that are neighbours is that of rows, gradients too", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const Shape shapes[] = {{2, 8, 6, 6}, {3, 5, 7, 3}, {1, 16, 2, 1}, {4, 64, 9, 5}, {2, 1, 3, 3}, {2, 8, 1, 1}};
  for (const DType dtype : {float32, float16, bfloat16}) {
    for (const Shape& shape : shapes) {
      for (const bool training : {true, false}) {
        CAPTURE(dtype, shape, training);
        const Setup given(shape, 1, dtype, float32);
        const std::vector<NDArray> rows = all_of(given, false, false, training);
        for (const bool head_too : {true, false}) {
          const std::vector<NDArray> last = all_of(given, true, head_too, training);
          for (std::size_t i = 0; i < rows.size(); ++i) {
            CAPTURE(i);
            CHECK(differences(last[i].to(cpu()), rows[i].to(cpu()), tolerance(dtype)) == "");
          }
        }
      }
    }
  }
}

TEST_CASE("batch_norm over another axis, or of nothing, takes channels that are neighbours as well", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const Setup given({2, 8, 4, 3}, 3, float32, float32);
  Setup on = given;
  on.x = channels_last(given.x.to(gpu()));
  for (NDArray* const array : {&on.gamma, &on.beta, &on.running_mean, &on.running_var})
    *array = array->to(gpu());
  CHECK(differences(on.run({.axis = 3}).to(cpu()), given.run({.axis = 3}), tolerance(float32)) == "");
  Setup none({0, 8, 4, 3}, 1, float32, float32);
  none.x = channels_last(none.x.to(gpu()));
  for (NDArray* const array : {&none.gamma, &none.beta, &none.running_mean, &none.running_var})
    *array = array->to(gpu());
  const autograd::ModeScope training(false, true);
  CHECK(none.run({}).shape() == Shape{0, 8, 4, 3});
}
