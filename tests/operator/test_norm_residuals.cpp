// The pass that makes one call of the gradient of batch norm, a sum and a relu, and that bits stay.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/elementwise/in_place.h>
#include <sluice/operator/graph/passes.h>

#include "tests/operator/norm_residuals.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
using graph::Graph;
using graph::Tracer;

namespace {

/// Two blocks: what is added goes on to the sum of the second one, so that its gradient has two heads.
NDArray two_blocks(const Arrays& in) {
  const NDArray first = relu(norm_of(in) + in[5]);
  Arrays second = in;
  second[0] = first * in[5];
  return relu(norm_of(second) + first);
}
/// The shortcut has a batch norm of its own.
NDArray narrower(const Arrays& in) {
  Arrays shortcut = in;
  shortcut[0] = in[5] * 0.5;
  const NDArray other = norm_of(shortcut);
  return relu(norm_of(in) + other);
}
/// Three ways on.
NDArray three_ways(const Arrays& in) {
  const NDArray first = relu(norm_of(in) + in[5]);
  return exp(first) + sin(first) * cos(first);
}

/// The gradient of the shortcut's batch norm stands behind that of the block in front.
NDArray shortcut_first(const Arrays& in) {
  Arrays shortcut = in;
  shortcut[0] = in[5] * 0.5;
  const NDArray other = norm_of(shortcut), first = relu(norm_of(in) + in[5]);
  return relu(other + first);
}
/// Blocks, batch norms and sums of what there is, drawn from a seed.
Network drawn(unsigned seed) {
  return [seed](const Arrays& in) {
    std::mt19937 draw(seed);
    std::vector<NDArray> known{in[0], in[5]};
    const auto pick = [&] { return known[known.size() - 1 - draw() % std::min<std::size_t>(known.size(), 4)]; };
    const auto norm = [&] {
      Arrays each = in;
      each[0] = pick();
      return norm_of(each);
    };
    for (int i = 0; i < 9; ++i) {
      const unsigned kind = draw() % 4;
      const NDArray a = kind == 0 ? pick() * 0.5 : norm(), b = pick();
      known.push_back(kind == 1 ? a : kind == 2 ? relu(b + a) : relu(a + b));
    }
    NDArray all = known.back();
    for (std::size_t i = 2; i + 1 < known.size(); ++i)
      all = all + known[i];
    return all;
  };
}

const Network k_networks[] = {
    two_blocks,
    narrower,
    three_ways,
    shortcut_first,
    drawn(3),
    [](const Arrays& in) { return relu(norm_of(in) + in[5]); },
    [](const Arrays& in) { return relu(in[5] + norm_of(in)) * 2.0; }};

}  // namespace

TEST_CASE("A residual block's gradient takes along the sum of its heads and the relu's mask", "[graph][norm]") {
  SLUICE_NEEDS_GPU_KERNELS();
  const Arrays in = draw_inputs({3, 4, 3, 2}, float32, float32, cpu());
  const auto traced_on = [&](Device device, const Network& network) {
    Tracer tracer;
    const Arrays given = abstract_inputs(tracer, in, device);
    return without_dead_code(tracer.trace([&] { return step(given, network); }));
  };
  const auto on_gpu = [&](const Network& network) {
    const Graph made = with_norm_residuals(with_norm_relus(traced_on(gpu(0), network)));
    verify(made);
    return made;
  };
  const Graph blocks = on_gpu(two_blocks);
  CHECK(count(blocks, k_name) == 2);
  CHECK(count(blocks, "batch_norm_backward") + count(blocks, "relu_backward") == 0);
  const auto large_sums = std::count_if(blocks.nodes.begin(), blocks.nodes.end(), [&](const graph::Node& node) {
    return node.op->name == std::string("add") && blocks.values[node.results[0].value].spec.shape.ndim() == 4;
  });
  CHECK(large_sums == 1);  // what is added serves twice
  const auto seven = std::count_if(blocks.nodes.begin(), blocks.nodes.end(), [](const graph::Node& node) {
    return node.op->name == std::string(k_name) && node.inputs.size() == 7;
  });
  CHECK(seven == 1);
  const Graph shortcut = on_gpu(narrower);  // both batch norms read what the relu let through
  CHECK(count(shortcut, k_name) == 1);
  CHECK(count(shortcut, "batch_norm_backward") == 1);
  CHECK(count(shortcut, "relu_backward") == 0);
  CHECK(only(on_gpu(three_ways)).inputs.size() == 7);  // of three heads the last sum
  CHECK(count(on_gpu(shortcut_first), k_name) == 2);
  std::int64_t taken = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    taken += count(on_gpu(drawn(seed)), k_name);
  }
  CHECK(taken > 60);
  CHECK(count(with_norm_residuals(traced_on(cpu(), two_blocks)), k_name) == 0);
}

TEST_CASE("What was written or is read in between stays apart from a residual block's gradient", "[graph][norm]") {
  SLUICE_NEEDS_GPU_KERNELS();
  const Attributes how = Attributes::of(detail::BatchNormAttributes{});
  const Operands like({3, 4, 3, 2}, float32, cpu());
  enum class At { nowhere, before_mask, before_norm };
  struct Case {
    int written;  // a, b, y, x, gamma, mean, 1 / std, the sum, what was let through
    At at;
    bool early;  // somebody reads what was let through before batch norm's gradient
    std::size_t calls, inputs;
  };
  constexpr int k_nothing = -1, k_sum = 7, k_passed = 8;
  const Case cases[] = {
      {k_nothing, At::nowhere, false, 1, 7},
      {k_nothing, At::nowhere, true, 1, 7},
      {0, At::before_mask, false, 1, 6},
      {1, At::before_norm, false, 1, 6},
      {2, At::before_mask, false, 1, 7},
      {2, At::before_norm, false, 0, 0},
      {2, At::before_norm, true, 1, 7},
      {3, At::before_norm, false, 1, 7},
      {3, At::before_norm, true, 0, 0},
      {5, At::before_norm, true, 0, 0},
      {k_sum, At::before_mask, false, 1, 6},
      {k_sum, At::before_norm, false, 0, 0},
      {k_passed, At::before_norm, false, 0, 0}};
  for (const Case& c : cases) {
    CAPTURE(c.written, static_cast<int>(c.at), c.early);
    Tracer tracer;
    const Arrays in =
        abstract_inputs(tracer, {like.a, like.b, like.y, like.x, like.gamma, like.mean, like.inv_std}, gpu(0));
    const Graph made = with_norm_residuals(tracer.trace([&] {
      Arrays all(in.begin(), in.end());
      const auto write = [&](At at) {
        if (c.at == at && c.written >= 0)
          all[static_cast<std::size_t>(c.written)].slice(0, 0, 1).assign(1);
      };
      all.push_back(all[0] + all[1]);
      write(At::before_mask);
      all.push_back(detail::relu_gradient(all[k_sum], all[2], {}));
      NDArray early;
      if (c.early)
        early = exp(all[k_passed]);
      write(At::before_norm);
      Arrays results =
          invoke(detail::batch_norm_backward_op, Arrays{all[k_passed], all[3], all[4], all[5], all[6]}, how, {});
      results.push_back(all[k_passed] * 2.0);
      if (c.early)
        results.push_back(early);
      return results;
    }));
    verify(made);
    CHECK(static_cast<std::size_t>(count(made, k_name)) == c.calls);
    CHECK(count(made, "relu_backward") == (c.calls == 0 ? 1 : 0));
    CHECK(count(made, "add") == (c.calls == 1 && c.inputs == 7 ? 0 : 1));
    if (c.calls == 1)
      CHECK(only(made).inputs.size() == c.inputs);
  }
}

TEST_CASE("A sum that others read too is a head of a residual block's gradient", "[graph][norm]") {
  SLUICE_NEEDS_GPU_KERNELS();
  const Attributes how = Attributes::of(detail::BatchNormAttributes{});
  const Operands like({3, 4, 3, 2}, float32, cpu());
  enum class Head { returned, read, broadcast, spread, spread_alone, fails };
  for (const Head head : {Head::returned, Head::read, Head::broadcast, Head::spread, Head::spread_alone, Head::fails}) {
    CAPTURE(static_cast<int>(head));
    Tracer tracer;
    const Arrays in =
        abstract_inputs(tracer, {like.a, like.b, like.y, like.x, like.gamma, like.mean, like.inv_std}, gpu(0));
    const NDArray places = tracer.input({{3}, int32, gpu(0)});
    const Graph made = with_norm_residuals(tracer.trace([&] {
      const NDArray one = in[4].reshape({1, 4, 1, 1}), spread = one.broadcast_to(in[0].shape());
      const NDArray other = head == Head::broadcast ? one : head == Head::spread ? spread : in[1];
      const NDArray sum = in[0] + other;
      const NDArray passed = detail::relu_gradient(head == Head::spread_alone ? spread : sum, in[2], {});
      const NDArray x = head == Head::fails ? take(in[3], places, 0) : in[3];
      Arrays results = invoke(detail::batch_norm_backward_op, Arrays{passed, x, in[4], in[5], in[6]}, how, {});
      results.push_back(passed);
      if (head == Head::returned || head == Head::spread_alone)
        results.push_back(sum);
      if (head == Head::read)
        results.push_back(exp(sum));
      return results;
    }));
    verify(made);
    CHECK(count(made, "add") == 1);
    // What is added has a gradient though x has none; a head that is spread out would be copied.
    if (head == Head::fails || head == Head::spread_alone)
      CHECK(count(made, k_name) == 0);
    else
      CHECK(only(made).inputs.size() == 6);
  }
}

TEST_CASE("Residual blocks on a GPU give as a plan what they give by hand", "[graph][norm][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {float32, float16, bfloat16}) {
    for (const Shape& shape : {Shape{3, 8, 6, 4}, Shape{2, 3, 5, 3}, Shape{0, 4, 2, 2}}) {
      CAPTURE(dtype, to_string(shape));
      const Arrays in = draw_inputs(shape, dtype, float32, gpu());
      Arrays last = in;
      for (const std::size_t i : {0, 5, 6})
        last[i] = channels_as_neighbours(in[i]);
      for (const Network& network : k_networks) {
        for (const bool in_order : {false, true}) {
          check_same_bits(in, network, {.share_in_order = in_order});
          check_same_bits(last, network, {.share_in_order = in_order});
        }
      }
    }
  }
}
