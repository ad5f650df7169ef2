#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tests/operator/norm_reference.h"
#include "tests/operator/simd_targets.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

NDArray layer(const std::vector<NDArray>& v, int axis, double eps = 1e-5) {
  return v.size() == 3 ? layer_norm(v[0], v[1], v[2], axis, eps) : rms_norm(v[0], v[1], axis, eps);
}

// Of sums of as many terms as rows have here.
Tolerance tolerance(DType dtype) {
  if (dtype == float64)
    return {1e-10, 1e-10};
  return dtype == float32 ? Tolerance{2e-5, 2e-5} : dtype == float16 ? Tolerance{4e-3, 1e-2} : Tolerance{2e-2, 8e-2};
}

// x, gamma and, of layer norm, beta.
std::vector<NDArray> drawn(const Shape& shape, int axis, bool centred, DType dtype, DType parameters) {
  std::vector<NDArray> all{random_array(shape, 1, -1, 3, dtype), random_array({shape[axis]}, 2, 0.5, 2, parameters)};
  if (centred)
    all.push_back(random_array({shape[axis]}, 3, -1, 1, parameters));
  return all;
}

std::string disagreement(const std::vector<NDArray>& inputs, int axis, const NDArray& dy, double eps = 1e-5) {
  const bool centred = inputs.size() == 3;
  const std::optional<NDArray> beta = centred ? std::optional(inputs[2]) : std::nullopt;
  const NormReference want =
      norm_reference(inputs[0], inputs[1], beta, dy, along_axis(inputs[0].shape(), axis), centred, eps);
  const auto got = with_gradients([=](const auto& v) { return layer(v, axis - v[0].ndim(), eps); }, inputs, dy);
  const NDArray wanted[] = {want.y, want.dx, want.dgamma, want.dbeta};
  for (std::size_t i = 0; i < got.size(); ++i) {
    const DType own = i == 0 ? inputs[0].dtype() : inputs[i - 1].dtype();
    if (got[i].dtype() != own)
      return message("array ", i, " is ", got[i].dtype());
    // Sums over many rows of numbers that were rounded: by the rows' type.
    const std::string found = differences(got[i], wanted[i], tolerance(i < 2 ? own : inputs[0].dtype()));
    if (!found.empty())
      return message("array ", i, ": ", found);
  }
  return {};
}

}  // namespace

TEST_CASE("layer_norm and rms_norm agree with plain loops for every type and axis, gradients too", "[layer_norm]") {
  const Shape shapes[] = {{1, 1}, {7, 16}, {5, 33}, {3, 1000}, {4, 5, 6}, {2, 3, 4, 5}, {70, 3}, {16}};
  for (const simd::Target target : simd_targets()) {
    const simd::TargetScope scope(target);
    for (const DType dtype : floating_dtypes()) {
      for (const DType parameters : {dtype, dtype == float64 ? float64 : float32}) {
        for (const Shape& shape : shapes) {
          for (int axis = 0; axis < shape.ndim(); ++axis) {
            for (const bool centred : {true, false}) {
              CAPTURE(name_of(target), dtype, parameters, shape, axis, centred);
              const NDArray dy = random_array(shape, 4, -1, 1, dtype);
              CHECK(disagreement(drawn(shape, axis, centred, dtype, parameters), axis, dy, 0.1) == "");
            }
          }
        }
      }
    }
  }
}

TEST_CASE("layer_norm keeps its precision where rows are far from zero", "[layer_norm]") {
  const Shape shape{4, 4096};
  for (const simd::Target target : simd_targets()) {
    const simd::TargetScope scope(target);
    for (const double mean : {1e4, -1e4}) {
      CAPTURE(name_of(target), mean);
      const NDArray x = random_array(shape, 1, -1.7, 1.7) + mean;
      const std::vector<NDArray> inputs{x, ones({4096}), zeros({4096})};
      const NormReference want = norm_reference(x, inputs[1], inputs[2], x, along_axis(shape, 1), true, 1e-5);
      // What the mean itself loses as a float32.
      CHECK(differences(layer(inputs, 1), want.y, {1e-5, 6e-4}) == "");
    }
  }
}

TEST_CASE("layer_norm of a first element far from the others has the others' digits", "[layer_norm]") {
  NDArray x = random_array({2, 512}, 5, -1e-3, 1e-3);
  x.slice(1, 0, 1).assign(30000);
  const NDArray gamma = ones({512}), beta = zeros({512});
  for (const simd::Target target : simd_targets()) {
    const simd::TargetScope scope(target);
    const NormReference want = norm_reference(x, gamma, beta, x, along_axis({2, 512}, 1), true, 0);
    CHECK(differences(layer_norm(x, gamma, beta, -1, 0), want.y, {1e-5, 1e-6}) == "");
  }
}

TEST_CASE("layer_norm takes rows and heads that lie anyhow", "[layer_norm]") {
  for (const bool centred : {true, false}) {
    const NDArray x = random_array({6, 40}, 1), wide = random_array({6, 80}, 2);
    const std::vector<NDArray> parameters = drawn({6, 40}, 1, centred, float32, float32);
    const NDArray dy = random_array({6, 1}, 4).broadcast_to({6, 40});
    std::vector<NDArray> inputs = parameters;
    for (const NDArray& view :
         {x.T().copy().T(), wide.slice(1, 0, 80, 2), wide.slice(1, 3, 43), x.slice(1, 0, 1).broadcast_to({6, 40})}) {
      inputs[0] = view;
      CHECK(disagreement(inputs, 1, dy, 0.1) == "");
    }
    inputs[0] = x;
    inputs[1] = random_array({81}, 5).slice(0, 1, 81, 2);
    CHECK(disagreement(inputs, 1, dy) == "");
  }
}

TEST_CASE("layer_norm of nothing gives nothing, and parameters gradients of zero", "[layer_norm]") {
  for (const Shape& shape : {Shape{0, 4}, Shape{3, 0}, Shape{0, 0}, Shape{2, 0, 3}}) {
    for (int axis = 0; axis < shape.ndim(); ++axis) {
      for (const bool centred : {true, false}) {
        CAPTURE(shape, axis, centred);
        const auto all = with_gradients(
            [=](const auto& v) { return layer(v, axis); }, drawn(shape, axis, centred, float32, float32), ones(shape));
        CHECK(all[0].shape() == shape);
        for (std::size_t i = 2; i < all.size(); ++i)
          CHECK(all[i].to_vector<float>() == std::vector<float>(static_cast<std::size_t>(shape[axis]), 0));
      }
    }
  }
}

TEST_CASE("The gradients of layer_norm and rms_norm agree with finite differences, twice", "[layer_norm]") {
  for (const auto& [shape, axis] : std::vector<std::pair<Shape, int>>{{{3, 5}, 1}, {{2, 4, 3}, 1}, {{4, 2}, 0}}) {
    for (const bool centred : {true, false}) {
      CAPTURE(shape, axis, centred);
      const auto inputs = drawn(shape, axis, centred, float64, float64);
      const auto f = [axis = axis](const std::vector<NDArray>& v) { return layer(v, axis, 1e-2); };
      CHECK(gradient_differences(f, inputs) == "");
      // The gradients as functions of x and gamma.
      for (const std::size_t of : {0, 1}) {
        const auto gradient = [=](const std::vector<NDArray>& v) {
          std::vector<NDArray> variables;
          for (const NDArray& one : v) {
            variables.push_back(one.requires_grad() ? one : one.detach());
            if (!variables.back().requires_grad())
              variables.back().attach_grad();
          }
          const autograd::RecordScope record;
          const NDArray y = f(variables);
          const std::vector<NDArray> heads{y * y}, by{variables[of]};
          return autograd::grad(heads, by, {}, {.create_graph = true})[0];
        };
        CHECK(gradient_differences(gradient, inputs) == "");
      }
    }
  }
}

TEST_CASE("Gradients of tiny and of huge rows fit though the third power of their size does not", "[layer_norm]") {
  const std::vector<Function> norms{
      [](const auto& v) { return rms_norm(v[0], ones({33}, {.dtype = v[0].dtype()}), -1, 0); },
      [](const auto& v) { return layer(v, 1, 0); },
      [](const auto& v) {
        const NDArray by = full({3}, 2, {.dtype = v[0].dtype()});
        return group_norm(v[0].reshape({5, 3, 11}), by, by, 1, 0).reshape({5, 33});
      }};
  for (const simd::Target target : simd_targets()) {
    const simd::TargetScope scope(target);
    for (const double size : {1e-20, 1e19}) {
      for (std::size_t i = 0; i < norms.size(); ++i) {
        CAPTURE(target, size, i);
        std::vector<NDArray> inputs = drawn({5, 33}, 1, true, float64, float64), narrow;
        inputs[0] = inputs[0] * size;
        inputs.resize(i == 1 ? 3 : 1);
        for (const NDArray& input : inputs)
          narrow.push_back(input.astype(float32));
        const NDArray dy = random_array({5, 33}, 4, -1, 1, float64);
        const NDArray want = with_gradients(norms[i], inputs, dy)[1];
        const NDArray got = with_gradients(norms[i], narrow, dy.astype(float32))[1];
        CHECK(differences(got.astype(float64) * size, want * size, {1e-4, 1e-4}) == "");
      }
    }
  }
}

TEST_CASE("layer_norm and rms_norm treat NaN and infinities as PyTorch does", "[layer_norm]") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const NDArray x = array<float>({1, nan, 2, 3, 1, inf, 2, 3, -inf, inf, 2, 3, 4, 4, 4, 4, inf, 1, 1, 1}, {5, 4});
  const NDArray gamma = ones({4}), beta = zeros({4});
  for (const simd::Target target : simd_targets()) {
    const simd::TargetScope scope(target);
    const float n = nan;
    const std::vector<float> centred{n, n, n, n, n, n, n, n, n, n, n, n, 0, 0, 0, 0, n, n, n, n};
    CHECK(differences(layer_norm(x, gamma, beta), array(centred, {5, 4})) == "");
    // An infinity has an inverse root of 0.
    const std::vector<float> plain{n, n, n, n, 0, n, 0, 0, n, n, 0, 0, 1, 1, 1, 1, n, 0, 0, 0};
    CHECK(differences(rms_norm(x, gamma), array(plain, {5, 4})) == "");
    // Without eps a row without variance has no scale.
    CHECK(std::isnan(layer_norm(x.slice(0, 3, 4), gamma, beta, -1, 0).to_vector<float>()[0]));
  }
  // A gamma of zero stands in no quotient.
  const auto all = with_gradients(
      [](const auto& v) { return layer(v, 1); }, {random_array({3, 4}, 1), zeros({4}), beta}, random_array({3, 4}, 2));
  CHECK(all[1].to_vector<float>() == std::vector<float>(12, 0));
}

TEST_CASE("layer_norm and rms_norm refuse what does not fit, by name", "[layer_norm]") {
  const NDArray x = zeros({2, 3}), p = ones({3});
  CHECK_THROWS_AS(layer_norm(x, ones({2}), p), ShapeError);
  CHECK_THROWS_AS(layer_norm(x, p, ones({4})), ShapeError);
  CHECK_THROWS_AS(layer_norm(x, p, ones({1, 3})), ShapeError);
  CHECK_THROWS_AS(layer_norm(x, p, p, 2), IndexError);
  CHECK_THROWS_AS(layer_norm(x, p, p, -3), IndexError);
  CHECK_THROWS_AS(rms_norm(zeros({}), p), IndexError);
  CHECK_THROWS_AS(layer_norm(x, p, p.astype(float16)), DTypeError);
  CHECK_THROWS_AS(rms_norm(x, p.astype(float64)), DTypeError);
  CHECK_THROWS_AS(rms_norm(x.astype(float16), p.astype(bfloat16)), DTypeError);
  CHECK_THROWS_AS(layer_norm(x, p, p, -1, -1e-5), ValueError);
  CHECK_THROWS_AS(rms_norm(x, p, -1, std::nan("")), ValueError);
  CHECK_THROWS_AS(layer_norm(x.astype(int32), p, p), DTypeError);
  CHECK_THROWS_WITH(layer_norm(x, p, ones({4})), contains("layer_norm") && contains("beta") && contains("(4,)"));
  CHECK_THROWS_WITH(rms_norm(x, ones({2})), contains("rms_norm") && contains("gamma") && contains("(2,)"));
  // Gradients by name, of what forward did not save.
  const Operator& backward = *find_operator("layer_norm_backward");
  const auto call = [&](const std::vector<NDArray>& inputs) {
    return invoke(backward, inputs, parse_attributes(backward, "axis=-1"), SourceLocation::current());
  };
  CHECK(call({x, x, p, ones({2}), ones({2})}).size() == 3);
  CHECK_THROWS_AS(call({x, x, p, ones({3}), ones({2})}), ShapeError);
  CHECK_THROWS_AS(call({zeros({2, 4}), x, p, ones({2}), ones({2})}), ShapeError);
  CHECK_THROWS_AS(call({x.astype(float64), x, p, ones({2}), ones({2})}), DTypeError);
}

TEST_CASE("layer_norm and its gradients have the same bits with 1, 2, 3 and 4 workers", "[layer_norm]") {
  const auto step = [](const EngineOptions& options) {
    Engine engine(options);
    const EngineScope scope(engine);
    std::vector<std::vector<float>> values;
    for (const bool centred : {true, false}) {
      for (const int axis : {0, 1}) {
        const auto inputs = drawn({900, 700}, axis, centred, float32, float32);
        const NDArray dy = random_array({900, 700}, 9);
        for (const NDArray& one : with_gradients([=](const auto& v) { return layer(v, axis); }, inputs, dy))
          values.push_back(one.to_vector<float>());
      }
    }
    return values;
  };
  const auto want = step({.workers = 1});
  for (const int workers : {2, 3, 4})
    CHECK(step({.workers = workers}) == want);
  CHECK(step({.cpu_policy = CpuMode::serial}) == want);
}

TEST_CASE("The gradients of gamma and beta are sums over all pieces of many rows", "[layer_norm]") {
  for (const simd::Target target : simd_targets()) {
    const simd::TargetScope scope(target);
    for (const bool centred : {true, false}) {
      for (const int axis : {0, 1}) {
        CAPTURE(name_of(target), centred, axis);
        const auto inputs = drawn({900, 700}, axis, centred, float32, float32);
        CHECK(disagreement(inputs, axis, random_array({900, 700}, 9), 0.1) == "");
      }
    }
  }
}

// More than 4 MB of whole lines: they go past the caches.
TEST_CASE("Rows of a large layer_norm have the bits of each row alone", "[layer_norm]") {
  const NDArray x = random_array({1100, 1024}, 3, -3, 5), head = random_array(x.shape(), 4);
  const NDArray gamma = random_array({1024}, 5), beta = random_array({1024}, 6);
  for (const simd::Target target : simd_targets()) {
    const simd::TargetScope scope(target);
    const auto run = [&](const NDArray& v, const NDArray& dy) {
      return with_gradients([](const auto& in) { return layer(in, 1); }, {v, gamma, beta}, dy);
    };
    const auto all = run(x, head);
    for (const std::int64_t row : {0, 1, 547, 1099}) {
      const auto one = [&](const NDArray& array) { return array.slice(0, row, row + 1).copy(); };
      const auto alone = run(one(x), one(head));
      CHECK((equal_bits(one(all[0]), alone[0]) && equal_bits(one(all[1]), alone[1])));
    }
  }
}
