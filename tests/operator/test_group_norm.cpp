#include <cmath>
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

Tolerance tolerance(DType dtype) {
  if (dtype == float64)
    return {1e-10, 1e-10};
  return dtype == float32 ? Tolerance{3e-5, 3e-5} : dtype == float16 ? Tolerance{4e-3, 2e-2} : Tolerance{2e-2, 0.15};
}

// No groups: instance norm.
NDArray grouped(const std::vector<NDArray>& v, std::int64_t groups, double eps) {
  return groups == 0 ? instance_norm(v[0], v[1], v[2], eps) : group_norm(v[0], v[1], v[2], groups, eps);
}

std::vector<NDArray> drawn(const Shape& shape, DType dtype, DType parameters) {
  return {
      random_array(shape, 1, -1, 3, dtype),
      random_array({shape[1]}, 2, 0.5, 2, parameters),
      random_array({shape[1]}, 3, -1, 1, parameters)};
}

std::string disagreement(const std::vector<NDArray>& inputs, std::int64_t groups, const NDArray& dy) {
  const Shape& shape = inputs[0].shape();
  const NormPlaces places = along_groups(shape, groups == 0 ? shape[1] : groups);
  const NormReference want = norm_reference(inputs[0], inputs[1], inputs[2], dy, places, true, 0.1);
  const auto got = with_gradients([=](const auto& v) { return grouped(v, groups, 0.1); }, inputs, dy);
  const NDArray wanted[] = {want.y, want.dx, want.dgamma, want.dbeta};
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::string found = differences(got[i], wanted[i], tolerance(inputs[0].dtype()));
    if (!found.empty())
      return message("array ", i, ": ", found);
  }
  return {};
}

struct Case {
  Shape shape;
  std::int64_t groups;
};
const Case k_cases[] = {
    {{2, 4, 3, 5}, 2},
    {{3, 6, 16}, 3},
    {{2, 8, 7, 7}, 1},
    {{2, 3, 33}, 0},
    {{5, 4, 2}, 4},
    {{2, 6}, 2},
    {{4, 3}, 0},
    {{1, 1, 1}, 1},
    {{40, 4, 9}, 2},
    {{2, 4, 2, 3, 2}, 0}};
// Of so many rows that pieces of them have sums of their own.
const Case k_large[] = {{{600, 6, 160}, 3}, {{600, 6, 160}, 0}};

}  // namespace

TEST_CASE("group_norm and instance_norm agree with plain loops for every type, gradients too", "[group_norm]") {
  for (const simd::Target target : simd_targets()) {
    const simd::TargetScope scope(target);
    for (const DType dtype : floating_dtypes()) {
      for (const DType parameters : {dtype, dtype == float64 ? float64 : float32}) {
        for (const auto& [shape, groups] : k_cases) {
          CAPTURE(name_of(target), dtype, parameters, shape, groups);
          CHECK(disagreement(drawn(shape, dtype, parameters), groups, random_array(shape, 4, -1, 1, dtype)) == "");
        }
      }
    }
  }
}

TEST_CASE("The gradients of group_norm's parameters are sums over all pieces of many rows", "[group_norm]") {
  for (const simd::Target target : simd_targets()) {
    const simd::TargetScope scope(target);
    for (const auto& [shape, groups] : k_large) {
      CAPTURE(name_of(target), groups);
      const NDArray dy = random_array(shape, 4, -1, 1);
      CHECK(disagreement(drawn(shape, float32, float32), groups, dy) == "");
    }
  }
}

TEST_CASE("group_norm takes arrays and heads that lie anyhow, and nothing", "[group_norm]") {
  auto inputs = drawn({2, 4, 6}, float32, float32);
  const NDArray dy = random_array({2, 4, 1}, 4).broadcast_to({2, 4, 6});
  for (const NDArray& view :
       {random_array({6, 4, 2}, 5).transpose(),
        random_array({2, 4, 13}, 6).slice(2, 1, 13, 2),
        random_array({1, 4, 6}, 7).broadcast_to({2, 4, 6})}) {
    inputs[0] = view;
    CHECK(disagreement(inputs, 2, dy) == "");
    CHECK(disagreement(inputs, 0, dy) == "");
  }
  for (const Shape& shape : {Shape{0, 4, 3}, Shape{2, 4, 0}, Shape{2, 0, 3}}) {
    for (const std::int64_t groups : {0, 2}) {
      CAPTURE(shape, groups);
      const auto all = with_gradients(
          [=](const auto& v) { return grouped(v, groups, 0.1); }, drawn(shape, float32, float32), ones(shape));
      CHECK(all[0].shape() == shape);
      const std::vector<float> none(static_cast<std::size_t>(shape[1]), 0);
      CHECK(all[2].to_vector<float>() == none);
      CHECK(all[3].to_vector<float>() == none);
    }
  }
}

TEST_CASE("The gradients of group_norm and l2_normalization agree with finite differences, twice", "[group_norm]") {
  const auto twice = [](const Function& f, const std::vector<NDArray>& inputs) {
    const auto gradient = [=](const std::vector<NDArray>& v) {
      std::vector<NDArray> variables;
      for (const NDArray& one : v) {
        variables.push_back(one.requires_grad() ? one : one.detach());
        if (!variables.back().requires_grad())
          variables.back().attach_grad();
      }
      const autograd::RecordScope record;
      const NDArray y = f(variables);
      const std::vector<NDArray> heads{y * y}, by{variables[0]};
      return autograd::grad(heads, by, {}, {.create_graph = true})[0];
    };
    CHECK(gradient_differences(f, inputs) == "");
    CHECK(gradient_differences(gradient, inputs) == "");
  };
  for (const std::int64_t groups : {0, 1, 2})
    twice([=](const auto& v) { return grouped(v, groups, 1e-2); }, drawn({2, 4, 3}, float64, float64));
  for (const L2Mode mode : {L2Mode::instance, L2Mode::channel, L2Mode::spatial})
    twice([=](const auto& v) { return l2_normalization(v[0], mode); }, {random_array({2, 3, 4}, 1, 0.5, 2, float64)});
}

TEST_CASE("l2_normalization gives rows of length one in each mode", "[group_norm]") {
  const std::pair<L2Mode, Shape> modes[] = {
      {L2Mode::instance, {1, 2, 3}}, {L2Mode::channel, {1}}, {L2Mode::spatial, {2, 3}}};
  for (const DType dtype : floating_dtypes()) {
    const NDArray x = random_array({3, 5, 2, 4}, 1, -2, 2, dtype);
    for (const auto& [mode, axes] : modes) {
      const NDArray wide = x.astype(float64);
      const NDArray want = wide / sqrt(sum(wide * wide, axes, true) + 0.5);
      CAPTURE(dtype, axes);
      CHECK(l2_normalization(x, mode, 0.5).dtype() == dtype);
      CHECK(differences(l2_normalization(x, mode, 0.5), want.astype(dtype)) == "");
      CHECK(l2_normalization(zeros({0, 5, 2}, {.dtype = dtype}), mode).shape() == Shape{0, 5, 2});
    }
  }
  const NDArray one = l2_normalization(array<float>({3, 4, 0, 0}, {2, 2}));
  CHECK(one.to_vector<float>() == std::vector<float>{0.6F, 0.8F, 0, 0});
  CHECK(l2_normalization(array<float>({3, 4}, {2})).shape() == Shape{2});
}

TEST_CASE("local_response_norm looks at the neighbours that there are", "[group_norm]") {
  for (const DType dtype : floating_dtypes()) {
    for (const std::int64_t nsize : {1, 2, 3, 5, 12, 13, 101}) {
      const NDArray x = random_array({2, 6, 3}, 1, -2, 2, dtype);
      const Dense from(x);
      Dense want = from;
      for (std::size_t i = 0; i < from.values.size(); ++i) {
        const auto index = unravel(from.shape, static_cast<std::int64_t>(i));
        double squares = 0;
        for (std::int64_t c = index[1] - nsize / 2; c <= index[1] + (nsize - 1) / 2; ++c) {
          if (c >= 0 && c < 6)
            squares += std::pow(from.values[static_cast<std::size_t>(ravel(from.shape, {index[0], c, index[2]}))], 2);
        }
        want.values[i] *= std::pow(1.5 + 0.3 / static_cast<double>(nsize) * squares, -0.6);
      }
      CAPTURE(dtype, nsize);
      const NDArray got = local_response_norm(x, nsize, {.alpha = 0.3, .beta = 0.6, .knorm = 1.5});
      CHECK(got.dtype() == dtype);
      CHECK(differences(got, want.array(dtype)) == "");
    }
  }
  const auto f = [](const auto& v) { return local_response_norm(v[0], 3, {.alpha = 0.5}); };
  CHECK(gradient_differences(f, {random_array({2, 4, 2}, 3, -2, 2, float64)}) == "");
  // Squares of half types need not fit.
  const NDArray large = local_response_norm(full({1, 2, 1}, 300, {.dtype = float16}), 1, {.alpha = 1, .beta = 0.5});
  CHECK(differences(large, ones({1, 2, 1}).astype(float16)) == "");
  // Windows may be wider than all channels.
  const NDArray one = local_response_norm(full({1, 1, 2}, 2), 5, {.alpha = 5, .beta = 1, .knorm = 0});
  CHECK(one.to_vector<float>() == std::vector<float>{0.5F, 0.5F});
  CHECK(local_response_norm(zeros({2, 0, 3}), std::int64_t{1} << 62).shape() == Shape{2, 0, 3});
}

TEST_CASE("group_norm and its like refuse what does not fit, by name", "[group_norm]") {
  const NDArray x = zeros({2, 6, 3}), p = ones({6});
  CHECK_THROWS_AS(group_norm(x, p, p, 4), ValueError);
  CHECK_THROWS_AS(group_norm(x, p, p, 0), ValueError);
  CHECK_THROWS_AS(group_norm(x, p, p, 7), ValueError);
  CHECK_THROWS_AS(group_norm(x, ones({3}), p, 2), ShapeError);
  CHECK_THROWS_AS(group_norm(zeros({6}), p, p, 2), ShapeError);
  CHECK_THROWS_AS(instance_norm(zeros({6}), p, p), ShapeError);
  CHECK_THROWS_AS(instance_norm(x, p, p, -1), ValueError);
  CHECK_THROWS_AS(instance_norm(x, p, ones({5})), ShapeError);
  CHECK_THROWS_AS(group_norm(x.astype(int64), p, p), DTypeError);
  CHECK_THROWS_WITH(group_norm(x, p, p, 4), contains("group_norm") && contains("4 equal groups"));
  CHECK_THROWS_AS(l2_normalization(zeros({3}), L2Mode::channel), ShapeError);
  CHECK_THROWS_AS(l2_normalization(zeros({})), ShapeError);
  CHECK_THROWS_AS(l2_normalization(zeros({3}, {.dtype = int32})), DTypeError);
  const Operator& l2 = *find_operator("l2_normalization");
  CHECK_THROWS_WITH(
      invoke(l2, {&x, 1}, parse_attributes(l2, "mode=\"rows\""), SourceLocation::current()), contains("rows"));
  CHECK_THROWS_AS(local_response_norm(x, 0), ValueError);
  CHECK_THROWS_AS(local_response_norm(zeros({3}), 1), ShapeError);
  CHECK_THROWS_AS(local_response_norm(x.astype(int32), 3), DTypeError);
}
