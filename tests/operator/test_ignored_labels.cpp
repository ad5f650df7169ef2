// Losses of rows some of which do not count, by softmax_cross_entropy and negative_log_likelihood.
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/softmax/kernels.h>

#include "tests/operator/by_name.h"
#include "tests/operator/counted_casts.h"
#include "tests/operator/random_program.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr double k_nan = std::numeric_limits<double>::quiet_NaN();

/// A loss of logits and labels, with or without an ignored one.
using Loss = std::function<NDArray(const NDArray&, const NDArray&, int, std::optional<std::int64_t>)>;

const std::vector<std::pair<const char*, Loss>>& losses() {
  static const std::vector<std::pair<const char*, Loss>> both = {
      {"softmax_cross_entropy",
       [](const NDArray& x, const NDArray& labels, int axis, std::optional<std::int64_t> ignored) {
         return ignored ? softmax_cross_entropy(x, labels, {.axis = axis, .ignored = ignored})
                        : softmax_cross_entropy(x, labels, axis);
       }},
      {"negative_log_likelihood",
       [](const NDArray& x, const NDArray& labels, int axis, std::optional<std::int64_t> ignored) {
         return ignored ? negative_log_likelihood(x, labels, {.axis = axis, .ignored = ignored})
                        : negative_log_likelihood(x, labels, axis);
       }}};
  return both;
}

struct Made {
  NDArray loss, grad;
};

Made made_of(
    const Loss& loss,
    const NDArray& x,
    const NDArray& labels,
    int axis,
    std::optional<std::int64_t> ignored,
    const NDArray& heads) {
  NDArray input = x.detach();
  input.attach_grad();
  NDArray y;
  {
    const autograd::RecordScope record;
    y = loss(input, labels, axis, ignored);
  }
  y.backward(heads);
  return {y, input.grad()};
}

// Rows that count are to the last bit what they are without others, and the others 0, even of logits that are NaN.
void check_rows(const NDArray& x, const NDArray& labels, const NDArray& hidden, int axis, std::int64_t ignored) {
  const NDArray heads = random_array(labels.shape(), 12, -2, 2, x.dtype(), x.device());
  const NDArray told = where(hidden, ignored, labels.astype(int64)).astype(labels.dtype());
  const NDArray rows = hidden.expand_dims(axis), wild = where(rows, k_nan, x);
  for (const auto& [name, loss] : losses()) {
    CAPTURE(name);
    const Made want = made_of(loss, x, labels, axis, {}, heads);
    for (const NDArray& logits : {x, wild}) {
      const Made got = made_of(loss, logits, told, axis, ignored, heads);
      CHECK(got.loss.dtype() == x.dtype());
      CHECK((all_bytes({got.loss}) == all_bytes({where(hidden, 0, want.loss)})));
      CHECK((all_bytes({got.grad}) == all_bytes({where(rows, 0, want.grad)})));
    }
  }
}

void check_on(Device device) {
  for (const DType dtype : {float16, bfloat16, float32, float64}) {
    for (const auto& [shape, axis] :
         {std::pair{Shape{7, 10}, 1}, {Shape{5, 33}, -1}, {Shape{4, 7, 6}, 1}, {Shape{9, 8}, 0}, {Shape{5, 4104}, 1}}) {
      CAPTURE(device, dtype, shape, axis);
      const int along = axis < 0 ? shape.ndim() + axis : axis;
      Shape beside = shape;
      beside.erase(along);
      const NDArray x = random_array(shape, 3, -8, 8, dtype, device);
      const NDArray labels = random_array(beside, 4, 1, static_cast<double>(shape[along] - 1), int32, device);
      const NDArray hidden = random_array(beside, 5, 0, 1, float32, device) < 0.4;
      check_rows(x, labels, hidden, along, -100);
      check_rows(x, labels, hidden, along, 0);  // a class
      check_rows(x, labels.astype(int64), hidden, along, std::numeric_limits<std::int64_t>::min());
      check_rows(x.T(), labels.astype(uint16).T(), hidden.T(), shape.ndim() - 1 - along, 65535);
      check_rows(x, labels, logical_or(hidden, true), along, -100);  // none counts
    }
  }
}

void check_refusals(Device device) {
  const NDArray x = zeros({3, 4}, {.device = device});
  for (const auto& [name, loss] : losses()) {
    for (const int label : {4, -1, -99}) {
      CAPTURE(device, name, label);
      const NDArray labels = array<int>({1, -100, label}).to(device);
      const NDArray y = loss(x, labels, 1, -100);
      CHECK_THROWS_AS(y.wait_to_read(), IndexError);
      CHECK_THROWS_WITH(y.wait_to_read(), contains(std::to_string(label)));
      // Of another ignored label this one is none.
      CHECK_THROWS_AS(loss(x, array<int>({1, -100, 0}).to(device), 1, 0).wait_to_read(), IndexError);
      CHECK(loss(x, array<int>({1, label, 0}).to(device), 1, label).to_vector<float>()[1] == 0);
    }
  }
}

// In one call with its gradient, which may run in one kernel.
void check_both(Device device, const Shape& shape, DType dtype) {
  CAPTURE(device, shape, dtype);
  NDArray labels = random_array({shape[0]}, 4, 0, static_cast<double>(shape[1] - 1), int32, device);
  labels = where(arange(0, static_cast<double>(shape[0]), 1, {.device = device}) % 2 == 0, -100, labels).astype(int32);
  const NDArray x = random_array(shape, 3, -8, 8, dtype, device), heads = random_array({shape[0]}, 5).astype(dtype);
  const Made want = made_of(losses()[0].second, x, labels, 1, -100, heads.to(device));
  const Arrays got =
      call_all("softmax_cross_entropy_both", {x, labels, heads.to(device)}, "axis=1, wide=false, ignored=-100");
  CHECK((all_bytes({got[0]}) == all_bytes({want.loss})));
  CHECK((all_bytes({got[2]}) == all_bytes({want.grad})));
  CHECK(want.loss.to_vector<double>()[0] == 0);
}

void check_without_classes(Device device) {
  const NDArray x = zeros({3, 0}, {.device = device}), labels = full({3}, -100, {.dtype = int32, .device = device});
  for (const auto& [name, loss] : losses()) {
    CAPTURE(device, name);
    const Made made = made_of(loss, x, labels, 1, -100, ones({3}, {.device = device}));
    CHECK(made.loss.to_vector<float>() == std::vector<float>{0, 0, 0});
    CHECK(made.grad.shape() == Shape{3, 0});
  }
}

}  // namespace

TEST_CASE("Rows of an ignored label are 0 with a gradient of 0, the others as without them", "[ignored]") {
  check_on(cpu());
  check_without_classes(cpu());
}

TEST_CASE("On a GPU rows of an ignored label are 0 with a gradient of 0", "[ignored][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_on(gpu());
  check_without_classes(gpu());
}

TEST_CASE("Beside an ignored label others that are no class are refused", "[ignored]") {
  check_refusals(cpu());
}

TEST_CASE("On a GPU labels beside an ignored one that are no class are refused", "[ignored][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_refusals(gpu());
}

TEST_CASE("A loss with its gradient in one call ignores labels too", "[ignored]") {
  check_both(cpu(), {6, 100}, float32);
}

TEST_CASE("On a GPU a loss with its gradient in one call ignores labels too", "[ignored][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const Shape& shape : {Shape{6, 100}, Shape{5, 1000}, Shape{4, 8208}, Shape{3, 4099}})
    check_both(gpu(), shape, float32);
  check_both(gpu(), {4, 16400}, bfloat16);
}

TEST_CASE("Gradients of gradients of losses with ignored labels agree with finite differences", "[ignored]") {
  const NDArray x = random_array({4, 3, 2}, 7, -2, 2, float64),
                labels = array<int>({1, -100, 0, 2, -100, 1, 0, 0}, {4, 2});
  for (const auto& [name, loss] : losses()) {
    CAPTURE(name);
    CHECK(gradient_differences([&, f = loss](const auto& in) { return f(in[0], labels, 1, -100); }, {x}) == "");
  }
  CHECK(
      gradient_differences(
          [&](const auto& in) {
            return softmax_cross_entropy(
                in[0], labels, {.axis = 1, .ignored = -100, .smoothing = 0.3, .class_weights = in[1]});
          },
          {x, array<double>({0.5, 2, 1.5})}) == "");
  // The kernel's gradient as a function of logits and of the losses' gradient.
  detail::CrossEntropyAttributes how{1};
  how.ignore(-100);
  const auto fused = [&, attributes = Attributes::of(how)](const auto& in) {
    const NDArray inputs[] = {in[0].detach(), labels};
    const NDArray log_sum = invoke(k_softmax_cross_entropy, inputs, attributes, {})[1].detach();
    return invoke_one(k_softmax_cross_entropy_backward, {in[0], labels, log_sum, in[1]}, attributes, {});
  };
  CHECK(gradient_differences(fused, {x, random_array({4, 2}, 8, 0.5, 1.5, float64)}) == "");
}

TEST_CASE("What is ignored is an attribute by name, none by default", "[ignored]") {
  const Operator& op = *find_operator("softmax_cross_entropy");
  CHECK(to_string(parse_attributes(op, "")) == "axis=-1, wide=false, ignored=none");
  CHECK(to_string(parse_attributes(op, "ignored=-100, axis=1")) == "axis=1, wide=false, ignored=-100");
  CHECK_FALSE(parse_attributes(op, "ignored=none").as<detail::CrossEntropyAttributes>().ignores);
  CHECK_THROWS_WITH(parse_attributes(op, "ignored=0.5"), contains("softmax_cross_entropy") && contains("0.5"));
  const NDArray x = random_array({3, 4}, 1), labels = array<int>({2, 7, 0});
  for (const auto& [name, loss] : losses())
    CHECK(difference(call(name, {x, labels}, "ignored=7"), loss(x, labels, -1, 7)) == "");
}

TEST_CASE("Under autocast half logits are read as they are where labels are ignored or classes weighted", "[ignored]") {
  const NDArray x = random_array({4, 5}, 1, -3, 3, bfloat16), labels = array<int>({2, -100, 0, 4});
  const NDArray weights = array<float>({1, 2, 0.5, 3, 1});
  for (const CrossEntropyOptions& options :
       {CrossEntropyOptions{.ignored = -100},
        {.ignored = -100, .class_weights = weights},
        {.ignored = -100, .smoothing = 0.1},
        {.ignored = -100, .smoothing = 0.1, .class_weights = weights}}) {
    CAPTURE(options.smoothing, options.class_weights.defined());
    Casts casts;
    NDArray got;
    {
      const CallSinkScope here(&casts);
      const auto scope = amp::autocast(bfloat16);
      got = softmax_cross_entropy(x, labels, options);
    }
    CHECK(casts.count == 0);
    CHECK(got.dtype() == float32);
    CHECK(
        differences(
            got, softmax_cross_entropy(x.astype(float32), labels, options), {.relative = 1e-3, .absolute = 4e-3}) ==
        "");
  }
}
