#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/softmax/kernels.h>

#include "tests/operator/reference.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

namespace sluice {
namespace {

using test::Dense;

// softmax or its logarithm, by plain loops in double.
Dense reference(const NDArray& x, int axis, bool log) {
  Dense y(x);
  const Dense largest = test::fold(y, {axis}, -1e300, [](double a, double b) { return std::max(a, b); });
  const auto row_of = [&](std::size_t i) {
    auto index = test::unravel(y.shape, static_cast<std::int64_t>(i));
    index[static_cast<std::size_t>(axis)] = 0;
    return static_cast<std::size_t>(test::ravel(largest.shape, index));
  };
  Dense total(largest.shape, 0);
  for (std::size_t i = 0; i < y.values.size(); ++i)
    total.values[row_of(i)] += std::exp(y.values[i] - largest.values[row_of(i)]);
  for (std::size_t i = 0; i < y.values.size(); ++i) {
    const double value = y.values[i] - largest.values[row_of(i)] - std::log(total.values[row_of(i)]);
    y.values[i] = log ? value : std::exp(value);
  }
  return y;
}

NDArray random_labels(const Shape& shape, std::int64_t classes, DType dtype = int64) {
  return test::random_array(shape, 3, 0, static_cast<double>(classes - 1), dtype);
}

const Shape k_shapes[] = {{1, 1}, {4, 10}, {3, 1000}, {2, 1025}, {5, 7, 3}, {2, 100, 70}, {2, 3, 4, 5}};

TEST_CASE("softmax and log_softmax agree with plain loops for every type and axis") {
  for (DType dtype : test::floating_dtypes()) {
    for (const Shape& shape : k_shapes) {
      const NDArray x = test::random_array(shape, 1, -5, 5, dtype);
      for (int axis = 0; axis < shape.ndim(); ++axis) {
        INFO(dtype << " " << shape << " axis " << axis);
        CHECK(softmax(x, axis).dtype() == dtype);
        CHECK(test::differences(softmax(x, axis), reference(x, axis, false).array(dtype)) == "");
        CHECK(test::differences(log_softmax(x, axis - shape.ndim()), reference(x, axis, true).array(dtype)) == "");
      }
    }
  }
}

TEST_CASE("softmax takes strided, empty and extreme rows") {
  const NDArray x = test::random_array({6, 8, 5}, 2);
  CHECK(test::differences(softmax(x.transpose(), 1), reference(x.transpose(), 1, false).array()) == "");
  CHECK(softmax(zeros({0, 4})).shape() == Shape{0, 4});
  CHECK(softmax(zeros({4, 0})).shape() == Shape{4, 0});
  const float inf = std::numeric_limits<float>::infinity();
  const NDArray big = array<float>({1e4f, 1e4f, -1e30f, 0, -inf, 0}, {2, 3});
  CHECK(test::differences(softmax(big), array<double>({0.5, 0.5, 0, 0.5, 0, 0.5}, {2, 3})) == "");
  CHECK(std::isnan(softmax(array<float>({1, std::nanf(""), 2})).to_vector<float>()[0]));
  CHECK(test::differences(log_softmax(array<float>({-1e4f, 0})), array<double>({-1e4, 0})) == "");
}

TEST_CASE("gradients of softmax and log_softmax agree with finite differences, twice") {
  const NDArray x = test::random_array({3, 4, 5}, 4, -2, 2, float64);
  const NDArray y = softmax(x, 1), log_y = log_softmax(x, 1), dy = test::random_array({3, 4, 5}, 5, -1, 1, float64);
  const Attributes attributes = Attributes::of(detail::SoftmaxAttributes{1});
  for (int axis : {0, 1, 2}) {
    CHECK(test::gradient_differences([=](const auto& in) { return softmax(in[0], axis); }, {x}) == "");
    CHECK(test::gradient_differences([=](const auto& in) { return log_softmax(in[0], axis); }, {x}) == "");
  }
  const auto backward_of = [&](const Operator& op) {
    return [&](const std::vector<NDArray>& in) { return invoke_one(op, {in[0], in[1]}, attributes, {}); };
  };
  CHECK(test::gradient_differences(backward_of(k_softmax_backward), {y, dy}) == "");
  CHECK(test::gradient_differences(backward_of(k_log_softmax_backward), {log_y, dy}) == "");
}

TEST_CASE("cross entropy is the negative log_softmax at the label, for every type of logits and labels") {
  for (DType dtype : test::floating_dtypes()) {
    for (DType label_type : {uint8, int8, int32, int64, int16, uint16, uint32, uint64}) {
      const NDArray logits = test::random_array({6, 10, 3}, 6, -4, 4, dtype);
      const NDArray labels = random_labels({6, 3}, 10, label_type);
      const NDArray want = -pick(reference(logits, 1, true).array(), labels, 1);
      INFO(dtype << " " << label_type);
      CHECK(softmax_cross_entropy(logits, labels, 1).dtype() == dtype);
      CHECK(test::differences(softmax_cross_entropy(logits, labels, 1), want.astype(dtype)) == "");
      CHECK(test::differences(negative_log_likelihood(log_softmax(logits, 1), labels, -2), want.astype(dtype)) == "");
    }
  }
  CHECK(softmax_cross_entropy(zeros({0, 4}), zeros({0}, {.dtype = int64})).shape() == Shape{0});
}

TEST_CASE("gradients of the losses agree with finite differences, twice") {
  const NDArray logits = test::random_array({4, 5, 2}, 7, -2, 2, float64);
  for (int axis : {0, 1, 2}) {
    Shape shape = logits.shape();
    const std::int64_t classes = shape[axis];
    shape.erase(axis);
    const NDArray labels = random_labels(shape, classes);
    const auto cross_entropy = [=](const auto& in) { return softmax_cross_entropy(in[0], labels, axis); };
    const auto likelihood = [=](const auto& in) { return negative_log_likelihood(in[0], labels, axis); };
    CHECK(test::gradient_differences(cross_entropy, {logits}) == "");
    CHECK(test::gradient_differences(likelihood, {logits}) == "");
    // The fused gradient as a function of logits and dy; the sum follows the logits.
    const NDArray dy = test::random_array(shape, 8, 0.5, 1.5, float64);
    const Attributes attributes = Attributes::of(detail::CrossEntropyAttributes{axis});
    const auto fused = [=](const auto& in) {
      const NDArray inputs[] = {in[0].detach(), labels};
      const NDArray log_sum = invoke(k_softmax_cross_entropy, inputs, attributes, {})[1].detach();
      return invoke_one(k_softmax_cross_entropy_backward, {in[0], labels, log_sum, in[1]}, attributes, {});
    };
    CHECK(test::gradient_differences(fused, {logits, dy}) == "");
  }
}

TEST_CASE("cross entropy keeps its digits under a large common offset") {
  const NDArray logits = array<float>({10000, 10001, 10002}, {1, 3});
  const NDArray loss = softmax_cross_entropy(logits, array<int>({2}));
  CHECK(loss.item<double>() == Approx(0.40760596).epsilon(1e-5));
}

TEST_CASE("a label that is no class is an IndexError at the wait") {
  const NDArray logits = zeros({2, 3});
  for (int label : {3, -1}) {
    const NDArray labels = array<int>({0, label});
    const NDArray loss = softmax_cross_entropy(logits, labels);
    CHECK_THROWS_AS(loss.wait_to_read(), IndexError);
    CHECK_THROWS_WITH(
        loss.wait_to_read(), sluice::test::contains("softmax_cross_entropy: label " + std::to_string(label)));
    const NDArray likelihood = negative_log_likelihood(logits, labels);
    CHECK_THROWS_WITH(likelihood.wait_to_read(), sluice::test::contains("negative_log_likelihood"));
  }
}

TEST_CASE("softmax and the losses refuse what does not fit and name themselves") {
  const NDArray logits = zeros({2, 3});
  CHECK_THROWS_AS(softmax(logits, 2), IndexError);
  CHECK_THROWS_AS(softmax(zeros({}), -1), IndexError);
  CHECK_THROWS_WITH(
      log_softmax(zeros({3}, {.dtype = int32})),
      sluice::test::contains("log_softmax") && sluice::test::contains("int32"));
  CHECK_THROWS_AS(softmax_cross_entropy(logits, zeros({2})), DTypeError);
  CHECK_THROWS_AS(softmax_cross_entropy(logits, zeros({3}, {.dtype = int32})), ShapeError);
  CHECK_THROWS_AS(negative_log_likelihood(zeros({2, 3}, {.dtype = int64}), zeros({2}, {.dtype = int32})), DTypeError);
}

// Forward and backward of `f` on both devices.
void compare_devices(const test::Function& f, const NDArray& x, const NDArray& labels) {
  NDArray results[2], grads[2];
  for (int on_gpu : {0, 1}) {
    const Device device = on_gpu ? gpu() : cpu();
    NDArray input = x.to(device).copy();
    input.attach_grad();
    {
      const autograd::RecordScope record;
      results[on_gpu] = f({input, labels.to(device)});
    }
    results[on_gpu].backward(test::random_array(results[on_gpu].shape(), 9, -1, 1, x.dtype(), device));
    grads[on_gpu] = input.grad().to(cpu());
  }
  CHECK(test::differences(results[1].to(cpu()), results[0]) == "");
  CHECK(test::differences(grads[1], grads[0]) == "");
}

TEST_CASE("softmax and the losses on a GPU agree with the CPU", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (DType dtype : test::floating_dtypes()) {
    for (const Shape& shape :
         {Shape{1, 1},
          Shape{64, 10},
          Shape{5, 1000},
          Shape{3, 1024},
          Shape{3, 1027},
          Shape{2, 50000},
          Shape{4, 12, 33},
          Shape{0, 3}}) {
      const NDArray x = test::random_array(shape, 10, -6, 6, dtype);
      for (int axis = 0; axis < shape.ndim(); ++axis) {
        if (shape[axis] == 0)
          continue;
        Shape rows = shape;
        rows.erase(axis);
        const NDArray labels = random_labels(rows, shape[axis], int32);
        INFO(dtype << " " << shape << " axis " << axis);
        compare_devices([=](const auto& in) { return softmax(in[0], axis); }, x, labels);
        compare_devices([=](const auto& in) { return log_softmax(in[0], axis); }, x, labels);
        compare_devices([=](const auto& in) { return softmax_cross_entropy(in[0], in[1], axis); }, x, labels);
        compare_devices([=](const auto& in) { return negative_log_likelihood(in[0], in[1], axis); }, x, labels);
      }
    }
  }
}

TEST_CASE("Long rows are by one kernel what they are by two, and on a CPU", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const Operator& both = *find_operator("softmax_cross_entropy_both");
  constexpr double inf = std::numeric_limits<double>::infinity();
  for (const auto& [dtype, classes] :
       {std::pair{float32, 8208}, {bfloat16, 16400}, {float16, 24584}, {bfloat16, 57344}}) {
    CAPTURE(dtype);
    NDArray x = test::random_array({12, classes}, 11, -9, 9, dtype);
    x.slice(0, 5, 6).slice(1, 0, classes - 1).assign(-inf);
    x.slice(0, 9, 10).slice(1, classes - 3, classes - 2).assign(std::nan(""));
    x.slice(0, 10, 11).slice(1, 4096, 4097).assign(inf);
    x.slice(0, 11, 12).assign(-inf);
    NDArray labels = random_labels({12}, classes, int32);
    labels.slice(0, 0, 1).assign(0);
    labels.slice(0, 1, 2).assign(classes - 1);
    const NDArray heads = test::random_array({12}, 12, -2, 2, dtype);
    NDArray logits = x.to(gpu());
    logits.attach_grad();
    NDArray losses;
    {
      const autograd::RecordScope record;
      losses = softmax_cross_entropy(logits, labels.to(gpu()));
    }
    losses.backward(heads.to(gpu()));
    const Attributes how = parse_attributes(both, "axis=1");
    const Arrays inputs{logits.detach(), labels.to(gpu()), heads.to(gpu())};
    const Arrays made = invoke(both, inputs, how, SourceLocation::current());
    CHECK(test::differences(made[0].to(cpu()), losses.to(cpu()), {0, 0}) == "");
    CHECK(test::differences(made[2].to(cpu()), logits.grad().to(cpu()), {0, 0}) == "");
    compare_devices([](const auto& in) { return softmax_cross_entropy(in[0], in[1]); }, x, labels);
    compare_devices([](const auto& in) { return log_softmax(in[0]); }, x.slice(0, 6, 9), labels);
  }
}

TEST_CASE("Where there are no classes each label is an IndexError, with the gradient in one call too", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const Operator& both = *find_operator("softmax_cross_entropy_both");
  for (const Device device : {cpu(), gpu()}) {
    for (const int axis : {0, 1}) {
      CAPTURE(device, axis);
      const Shape shape = axis == 0 ? Shape{0, 3} : Shape{3, 0};
      const NDArray logits = zeros(shape, {.device = device});
      const NDArray labels = zeros({3}, {.dtype = int32, .device = device}), heads = ones({3}, {.device = device});
      CHECK_THROWS_AS(softmax_cross_entropy(logits, labels, axis).wait_to_read(), IndexError);
      const Attributes how = parse_attributes(both, message("axis=", axis));
      const Arrays made = invoke(both, Arrays{logits, labels, heads}, how, SourceLocation::current());
      CHECK_THROWS_AS(made[0].wait_to_read(), IndexError);
    }
  }
}

TEST_CASE("softmax on a GPU treats infinities and NaN as the CPU does", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const NDArray x = array<float>({1, -inf, 2, 3, -inf, -inf, -inf, -inf, 1, nan, 2, 3, inf, 1, 2, 3}, {4, 4});
  CHECK(test::differences(softmax(x.to(gpu())).to(cpu()), softmax(x)) == "");
  CHECK(test::differences(log_softmax(x.to(gpu())).to(cpu()), log_softmax(x)) == "");
}

TEST_CASE("a label that is no class on a GPU is an IndexError at the wait, and the GPU goes on", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray logits = zeros({3, 4}, {.device = gpu()});
  const NDArray loss = softmax_cross_entropy(logits, array<int>({0, 7, 1}, gpu()));
  CHECK_THROWS_AS(loss.wait_to_read(), IndexError);
  const NDArray good = softmax_cross_entropy(logits, array<int>({0, 3, 1}, gpu()));
  CHECK(good.to_vector<float>()[1] == Approx(std::log(4.0)));
}

}  // namespace
}  // namespace sluice
