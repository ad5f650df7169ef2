// Layer norm and its like on a GPU agree with the CPU, gradients too.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/operator/norm_reference.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using Function = std::function<NDArray(const std::vector<NDArray>&)>;

// Empty where both devices give the same; arrays are moved as they lie.
std::string device_differences(const Function& f, const std::vector<NDArray>& inputs, const NDArray& dy, double loose) {
  std::vector<NDArray> there;
  for (const NDArray& input : inputs)
    there.push_back(input.to(gpu()));
  const auto want = with_gradients(f, inputs, dy), got = with_gradients(f, there, dy.to(gpu()));
  for (std::size_t i = 0; i < want.size(); ++i) {
    Tolerance tolerance = tolerance_of(inputs[0].dtype());
    tolerance.relative *= loose;
    tolerance.absolute *= loose;
    const std::string found = differences(got[i].to(cpu()), want[i], tolerance);
    if (!found.empty())
      return message("array ", i, ": ", found);
  }
  return {};
}

std::vector<NDArray> drawn(const Shape& shape, std::int64_t parameters, bool beta, DType dtype, DType of_parameters) {
  std::vector<NDArray> all{random_array(shape, 1, -1, 3, dtype), random_array({parameters}, 2, 0.5, 2, of_parameters)};
  if (beta)
    all.push_back(random_array({parameters}, 3, -1, 1, of_parameters));
  return all;
}

Function along(int axis) {
  return [=](const std::vector<NDArray>& v) {
    return v.size() == 3 ? layer_norm(v[0], v[1], v[2], axis) : rms_norm(v[0], v[1], axis);
  };
}

}  // namespace

TEST_CASE("layer_norm and rms_norm on a GPU agree with the CPU, gradients too", "[layer_norm][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  // Rows of one warp and of a block, in registers and longer, odd, of one element, many and few.
  const Shape shapes[] = {
      {1, 1},
      {37, 8},
      {3, 512},
      {5, 520},
      {130, 64},
      {3, 1024},
      {2, 1032},
      {2, 4096},
      {3, 4104},
      {3, 33},
      {2, 2049},
      {2, 8200},
      {4, 12, 33},
      {2, 16384},
      {1, 16400},
      {1000, 16},
      {24, 1032}};  // several blocks of rows of a block each
  for (const DType dtype : floating_dtypes()) {
    for (const DType parameters : {dtype, dtype == float64 ? float64 : float32}) {
      for (const Shape& shape : shapes) {
        // A simulated GPU takes its time; only half types have so many in registers.
        if ((parameters != dtype && shape.size() > 5000) || (dtype != float16 && shape.back() > 10000))
          continue;
        for (const bool centred : {true, false}) {
          const int last = shape.ndim() - 1;
          // Gradients of two numbers cancel, each way of adding up to something else.
          for (int axis = shape.size() < 5000 && shape[0] > 2 && dtype == float32 ? 0 : last; axis <= last; ++axis) {
            CAPTURE(dtype, parameters, shape, centred, axis);
            const NDArray dy = random_array(shape, 4, -1, 1, dtype);
            CHECK(device_differences(along(axis), drawn(shape, shape[axis], centred, dtype, parameters), dy, 10) == "");
          }
        }
      }
    }
  }
}

TEST_CASE("layer_norm on a GPU takes arrays and parameters that begin anywhere", "[layer_norm][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {float32, float16}) {
    for (const bool centred : {true, false}) {
      const auto inputs = drawn({3, 64}, 64, centred, dtype, dtype);
      const NDArray dy = random_array({3, 64}, 4, -1, 1, dtype);
      // Of a longer array, without its first element: contiguous, and no vector begins there.
      const auto behind = [](const NDArray& array) {
        const NDArray flat = concat({zeros({1}, {.dtype = array.dtype()}), array.reshape({-1})}).to(gpu());
        return flat.slice(0, 1, flat.size()).reshape(array.shape());
      };
      const auto want = with_gradients(along(1), inputs, dy);
      for (std::size_t moved = 0; moved <= inputs.size(); ++moved) {
        std::vector<NDArray> there;
        for (std::size_t i = 0; i < inputs.size(); ++i)
          there.push_back(i == moved ? behind(inputs[i]) : inputs[i].to(gpu()));
        const auto got = with_gradients(along(1), there, moved == inputs.size() ? behind(dy) : dy.to(gpu()));
        for (std::size_t i = 0; i < want.size(); ++i) {
          CAPTURE(dtype, centred, moved, i);
          CHECK(
              differences(
                  got[i].to(cpu()), want[i], dtype == float32 ? Tolerance{1e-4, 1e-5} : Tolerance{2e-2, 1e-2}) == "");
        }
      }
    }
  }
}

TEST_CASE("layer_norm on a GPU keeps its precision where rows are far from zero", "[layer_norm][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const Shape& shape : {Shape{3, 64}, Shape{2, 4096}, Shape{2, 16384}, Shape{2, 1027}}) {
    const NDArray x = random_array(shape, 1, -1.7, 1.7) + 1e4, gamma = ones({shape[1]}), beta = zeros({shape[1]});
    const NormReference want = norm_reference(x, gamma, beta, x, along_axis(shape, 1), true, 1e-5);
    CAPTURE(shape);
    const NDArray got = layer_norm(x.to(gpu()), gamma.to(gpu()), beta.to(gpu()));
    CHECK(differences(got.to(cpu()), want.y, {1e-4, 2e-3}) == "");
  }
}

TEST_CASE("Norms on a GPU take rows of numbers whose squares do not fit", "[layer_norm][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const Shape& shape : {Shape{3, 64}, Shape{2, 20000}, Shape{2, 17001}}) {  // in registers, longer, odd
    CAPTURE(shape);
    auto inputs = drawn(shape, shape[1], true, float32, float32);
    inputs[0] = inputs[0] * 1e17 + 1e20;
    const auto rows = [&](const NDArray& x) {
      const NDArray gamma = inputs[1].to(x.device()), beta = inputs[2].to(x.device());
      return Arrays{layer_norm(x, gamma, beta), group_norm(x, gamma, beta)};
    };
    const Arrays got = rows(inputs[0].to(gpu())), want = rows(inputs[0]);
    for (std::size_t i = 0; i < got.size(); ++i)
      CHECK(differences(got[i].to(cpu()), want[i], {2e-2, 2e-2}) == "");
  }
}

TEST_CASE("layer_norm on a GPU treats infinities, NaN and nothing as the CPU does", "[layer_norm][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const NDArray x = array<float>({1, nan, 2, 3, 1, inf, 2, 3, -inf, inf, 2, 3, 4, 4, 4, 4, inf, 1, 1, 1}, {5, 4});
  const NDArray odd = concat({x, ones({5, 1})}, 1);
  for (const NDArray& rows : {x, odd}) {
    for (const bool centred : {true, false}) {
      auto inputs = drawn(rows.shape(), rows.shape()[1], centred, float32, float32);
      inputs[0] = rows;
      CHECK(device_differences(along(1), inputs, ones(rows.shape()), 10) == "");
    }
  }
  for (const Shape& shape : {Shape{0, 4}, Shape{3, 0}, Shape{0, 5, 3}}) {
    for (int axis = 0; axis < shape.ndim(); ++axis) {
      CAPTURE(shape, axis);
      CHECK(device_differences(along(axis), drawn(shape, shape[axis], true, float32, float32), ones(shape), 1) == "");
    }
  }
}

TEST_CASE("Gradients of gamma and beta on a GPU have the same bits each time", "[layer_norm][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const Shape& shape : {Shape{700, 256}, Shape{90, 33}}) {
    const auto inputs = drawn(shape, shape[1], true, float32, float32);
    const NDArray dy = random_array(shape, 4).to(gpu());
    std::vector<NDArray> there;
    for (const NDArray& input : inputs)
      there.push_back(input.to(gpu()));
    const auto once = with_gradients(along(1), there, dy), again = with_gradients(along(1), there, dy);
    for (std::size_t i = 0; i < once.size(); ++i)
      CHECK(once[i].to_vector<float>() == again[i].to_vector<float>());
  }
}

TEST_CASE(
    "group_norm, instance_norm and l2_normalization on a GPU agree with the CPU, gradients too", "[layer_norm][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  struct Case {
    Shape shape;
    std::int64_t groups;
  };
  const Case cases[] = {
      {{2, 4, 3, 5}, 2},
      {{3, 6, 16}, 3},
      {{2, 8, 7, 7}, 1},
      {{2, 3, 33}, 3},
      {{5, 4, 2}, 4},
      {{40, 4, 8}, 2},
      {{2, 6}, 2},
      {{3, 32}, 2},  // vectors of parameters that each group has of its own
      {{4, 3}, 3},
      {{1, 1, 1}, 1},
      {{1, 4, 3000}, 2},
      {{0, 4, 3}, 2},
      {{2, 4, 0}, 4}};
  for (const DType dtype : floating_dtypes()) {
    for (const auto& [shape, groups] : cases) {
      for (const DType parameters : {dtype, dtype == float64 ? float64 : float32}) {
        CAPTURE(dtype, parameters, shape, groups);
        const auto inputs = drawn(shape, shape[1], true, dtype, parameters);
        const NDArray dy = random_array(shape, 4, -1, 1, dtype);
        const auto group = [=, groups = groups](const auto& v) { return group_norm(v[0], v[1], v[2], groups, 0.1); };
        const auto instance = [](const auto& v) { return instance_norm(v[0], v[1], v[2], 0.1); };
        CHECK(device_differences(group, inputs, dy, 10) == "");
        CHECK(device_differences(instance, inputs, dy, 10) == "");
        for (const L2Mode mode : {L2Mode::instance, L2Mode::channel, L2Mode::spatial}) {
          const auto l2 = [=](const auto& v) { return l2_normalization(v[0], mode, 0.1); };
          CHECK(device_differences(l2, {inputs[0]}, dy, 10) == "");
        }
      }
    }
  }
}

TEST_CASE("Zeros keep their sign in norms that add nothing", "[layer_norm][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const Device device : {cpu(), gpu()}) {
    for (const std::int64_t n : {8, 7, 9000}) {
      CAPTURE(device, n);
      const NDArray x = concat({full({2, n - 1}, -0.0), ones({2, 1})}, 1).to(device);
      for (const NDArray& y : {l2_normalization(x), rms_norm(x, ones({n}, {.device = device}))})
        CHECK(signbit(y).to_vector<bool>() == signbit(x).to_vector<bool>());
    }
  }
}

TEST_CASE("Long rows of group_norm on a GPU are cut into pieces", "[layer_norm][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  struct Case {
    Shape shape;
    std::int64_t groups;
  };
  // One past what a block takes for itself, odd, and channels that are neighbours.
  const Case cases[] = {{{1, 2, 8192}, 2}, {{1, 2, 8193}, 2}, {{1, 6, 3000}, 2}, {{1, 2, 8196}, 2}, {{2, 16386}, 2}};
  for (const DType dtype : floating_dtypes()) {
    for (const auto& [shape, groups] : cases) {
      CAPTURE(dtype, shape, groups);
      auto inputs = drawn(shape, shape[1], true, dtype, dtype);
      const NDArray dy = random_array(shape, 4, -1, 1, dtype);
      const auto group = [=, groups = groups](const auto& v) { return group_norm(v[0], v[1], v[2], groups, 0.1); };
      CHECK(device_differences(group, inputs, dy, 20) == "");
      if (dtype != float32)
        continue;
      inputs[0] = inputs[0] + 1e4;
      const NDArray there = group(std::vector<NDArray>{inputs[0].to(gpu()), inputs[1].to(gpu()), inputs[2].to(gpu())});
      CHECK(differences(there.to(cpu()), group(inputs), {1e-4, 5e-3}) == "");
    }
  }
}

TEST_CASE("masked softmax and local_response_norm on a GPU agree with the CPU, gradients too", "[layer_norm][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : floating_dtypes()) {
    const NDArray x = random_array({2, 5, 9}, 1, -2, 2, dtype), dy = random_array({2, 5, 9}, 2, -1, 1, dtype);
    const NDArray mask = random_array({5, 1}, 3) > 0.0;
    CAPTURE(dtype);
    for (const int axis : {1, 2}) {
      const auto f = [=](const auto& v) { return masked_softmax(v[0], mask.to(v[0].device()), axis, 2); };
      CHECK(device_differences(f, {x}, dy, 4) == "");
    }
    CHECK(device_differences([](const auto& v) { return local_response_norm(v[0], 3); }, {x}, dy, 4) == "");
  }
}
