// Batch norm that takes along the relu behind it: the operators, the pass that makes them, and that bits stay.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/elementwise/in_place.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/graph/plan.h>
#include <sluice/operator/norm/kernels.h>

#include "tests/operator/norm_steps.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
using graph::Graph;
using graph::Plan;
using graph::Tracer;

namespace {

const Network k_plain = [](const Arrays& in) { return relu(norm_of(in)); };
const Network k_sum = [](const Arrays& in) { return relu(norm_of(in) + in[5]); };
const Network k_sum_turned = [](const Arrays& in) { return relu(in[5] + norm_of(in)); };

/// Both operators beside the calls that they stand for.
void check_operators(Device device) {
  for (const DType dtype : {float32, float16, bfloat16, float64}) {
    for (const Shape& shape :
         {Shape{3, 8, 5, 4}, Shape{4, 3, 2, 3}, Shape{2, 16, 1, 1}, Shape{0, 4, 2, 2}, Shape{7, 5}}) {
      for (const bool fixed : {false, true}) {
        CAPTURE(dtype, to_string(shape), fixed);
        const DType wide = dtype == float64 ? float64 : float32;
        Arrays in = draw_inputs(shape, dtype, wide, device);
        if (shape.size() > 0) {
          in[0].slice(0, 0, 1).slice(1, 0, 1).assign(NAN);
          in[6].slice(0, 1, 2).slice(1, 1, 2).assign(INFINITY);
        }
        const Attributes how = Attributes::of(detail::BatchNormAttributes{.eps = 1e-3, .fix_gamma = fixed});
        const auto call = [&](const Operator& op, Arrays inputs) { return invoke(op, inputs, how, {}); };
        const auto& [x, gamma, beta, mean, var, added, dy] = std::tie(in[0], in[1], in[2], in[3], in[4], in[5], in[6]);
        const Arrays norm = call(detail::batch_norm_op, {x, gamma, beta, mean.copy(), var.copy()});
        const Arrays plain = call(detail::batch_norm_relu_op, {x, gamma, beta, mean.copy(), var.copy()});
        const Arrays sum = call(detail::batch_norm_relu_op, {x, gamma, beta, mean.copy(), var.copy(), added});
        const auto bits = [](const NDArray& array) { return all_bytes({array}); };
        CHECK((bits(plain[0]) == bits(relu(norm[0]))));
        CHECK((bits(sum[0]) == bits(relu(norm[0] + added))));
        CHECK((all_bytes({sum[1], sum[2]}) == all_bytes({norm[1], norm[2]})));
        const Arrays backward = call(detail::batch_norm_relu_backward_op, {dy, x, gamma, norm[1], norm[2], beta});
        const NDArray passed = where(plain[0] <= 0, zeros_like(dy), dy);
        CHECK(
            (all_bytes(backward) ==
             all_bytes(call(detail::batch_norm_backward_op, {passed, x, gamma, norm[1], norm[2]}))));
      }
    }
  }
}

}  // namespace

TEST_CASE("Batch norm with a relu is batch norm, a sum and a relu, to the last bit", "[norm]") {
  check_operators(cpu());
}
TEST_CASE("Batch norm with a relu is batch norm, a sum and a relu on a GPU, to the last bit", "[norm][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_operators(gpu());
}

TEST_CASE("The gradient of batch norm with a relu is that of the calls", "[norm]") {
  const Arrays given = draw_inputs({3, 4, 3, 2}, float64, float64, cpu());
  const auto whole = [](bool sum) -> Network {
    return [sum](const Arrays& in) {
      Arrays inputs(in.begin(), in.begin() + (sum ? 6 : 5));
      return invoke(detail::batch_norm_relu_op, inputs, Attributes::of(detail::BatchNormAttributes{}), {})[0];
    };
  };
  for (const bool sum : {false, true}) {
    const Arrays want = step(copies(given), sum ? k_sum : k_plain), got = step(copies(given), whole(sum));
    for (std::size_t i = 0; i < want.size(); ++i) {
      CHECK(want[i].defined() == got[i].defined());
      if (want[i].defined())
        CHECK(differences(got[i], want[i], {1e-12, 1e-12}) == "");
    }
  }
}

TEST_CASE("Batch norm with a relu refuses what does not fit, by name", "[norm]") {
  const Arrays in = draw_inputs({3, 4, 3, 2}, float32, float32, cpu());
  const Attributes how = Attributes::of(detail::BatchNormAttributes{});
  const auto call = [&](const Operator& op, Arrays inputs) { return invoke(op, inputs, how, {}); };
  const Operator &forward = detail::batch_norm_relu_op, &backward = detail::batch_norm_relu_backward_op;
  const auto says = sluice::test::contains("batch_norm_relu");
  const NDArray y = ones({4});
  CHECK_THROWS_AS(call(forward, {in[0], in[1], in[2], in[3]}), ValueError);
  CHECK_THROWS_AS(call(forward, {in[0], in[1], in[2], in[3], in[4], in[5], in[5]}), ValueError);
  CHECK_THROWS_AS(call(forward, {in[0], in[1], in[2], in[3], in[4], ones({3, 4, 3, 1})}), ShapeError);
  CHECK_THROWS_WITH(call(forward, {in[0], in[1], in[2], in[3], in[4], ones({1, 4, 3, 2})}), says);
  CHECK_THROWS_AS(call(forward, {in[0], in[1], in[2], in[3], in[4], in[5].astype(float64)}), DTypeError);
  CHECK_THROWS_AS(call(backward, {in[6], in[0], in[1], y, y, ones({3})}), ShapeError);
  CHECK_THROWS_WITH(call(backward, {in[6], in[0], in[1], y, y, ones({4}, {.dtype = float64})}), says);
}

TEST_CASE("A relu behind batch norm goes along, and its gradient with batch norm's", "[graph][norm]") {
  SLUICE_NEEDS_GPU_KERNELS();
  const Arrays in = draw_inputs({3, 4, 3, 2}, float32, float32, cpu());
  const auto on_gpu = [&](const Network& network) {
    Tracer tracer;
    Arrays given;
    for (const NDArray& input : in)
      given.push_back(tracer.input({input.shape(), input.dtype(), gpu(0)}));
    const Graph made = with_norm_relus(without_dead_code(tracer.trace([&] { return step(given, network); })));
    verify(made);
    return made;
  };
  const Graph plain = on_gpu(k_plain);
  CHECK(count(plain, "batch_norm_relu") == 1);
  CHECK(count(plain, "batch_norm_relu_backward") == 1);
  CHECK(count(plain, "relu") + count(plain, "relu_backward") == 0);
  for (const Network& network : {k_sum, k_sum_turned}) {
    const Graph sum = on_gpu(network);
    CHECK(count(sum, "batch_norm_relu") == 1);
    CHECK(count(sum, "batch_norm_relu_backward") == 0);  // what is added gets the masked gradient as well
    CHECK(count(sum, "add") + count(sum, "relu") == 0);
  }
  const auto stays = [&](const Network& network) { return count(on_gpu(network), "batch_norm_relu") == 0; };
  CHECK(stays([](const Arrays& each) {
    const NDArray y = norm_of(each);
    return relu(y) + y;
  }));
  CHECK(stays([](const Arrays& each) { return relu(norm_of(each) * each[5]); }));
  CHECK(stays([](const Arrays& each) { return relu(norm_of(each).astype(float16)).astype(float32); }));
  CHECK(stays([](const Arrays& each) {
    const NDArray y = norm_of(each);
    return relu(y + exp(each[5]));  // made behind batch norm
  }));
  CHECK(stays([](const Arrays& each) {
    const NDArray y = norm_of(each);
    return relu(y + y);
  }));
  CHECK(stays([](const Arrays& each) { return relu(norm_of(each, {.use_global_stats = true})); }));
  CHECK(count(with_norm_relus(traced(in, k_plain)), "batch_norm_relu") == 0);  // on a CPU
}

TEST_CASE("What the relu let through is not computed again of what was written since", "[graph][norm]") {
  SLUICE_NEEDS_GPU_KERNELS();
  const Arrays in = draw_inputs({3, 4, 3, 2}, float32, float32, cpu());
  constexpr int k_result = 3;
  for (const int written : {-1, 0, 1, 2, k_result}) {  // x, gamma, beta, and what the relu gave
    CAPTURE(written);
    Tracer tracer;
    Arrays given;
    for (const NDArray& input : in)
      given.push_back(tracer.input({input.shape(), input.dtype(), gpu(0)}));
    const Graph made = with_norm_relus(tracer.trace([&] {
      const Attributes how = Attributes::of(detail::BatchNormAttributes{});
      const Arrays norm = invoke(detail::batch_norm_op, std::span(given).first(5), how, {});
      NDArray y = relu(norm[0]);
      if (written == k_result)
        y.slice(0, 0, 1).assign(1);
      else if (written >= 0)
        given[static_cast<std::size_t>(written)] += 1;
      const NDArray passed = detail::relu_gradient(given[6], y, {});
      const Arrays heads{passed, given[0], given[1], norm[1], norm[2]};
      return Arrays{y, invoke(detail::batch_norm_backward_op, heads, how, {})[0]};
    }));
    verify(made);
    CHECK(count(made, "batch_norm_relu") == 1);
    CHECK(count(made, "batch_norm_relu_backward") == (written < 0 ? 1 : 0));
  }
}

TEST_CASE("A step with batch norm and relu on a GPU gives as a plan what it gives by hand", "[graph][norm][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {float32, float16, bfloat16}) {
    for (const Shape& shape : {Shape{3, 8, 6, 4}, Shape{2, 3, 5, 3}}) {
      CAPTURE(dtype, to_string(shape));
      const Arrays in = draw_inputs(shape, dtype, float32, gpu());
      for (const Network& network : {k_plain, k_sum, k_sum_turned})
        check_same_bits(in, network);
      Arrays last = in;  // channels as neighbours
      for (const std::size_t i : {0, 5, 6})
        last[i] = in[i].transpose({0, 2, 3, 1}).copy().transpose({0, 3, 1, 2});
      check_same_bits(last, k_plain);
    }
  }
}
