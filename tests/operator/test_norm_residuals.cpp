// The gradient of batch norm, a sum and a relu as one call: the operator, the pass that makes it, and that bits stay.
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/elementwise/in_place.h>
#include <sluice/operator/graph/memory_plan.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/graph/plan.h>
#include <sluice/operator/norm/kernels.h>

#include "tests/operator/norm_steps.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
using graph::Graph;
using graph::Tracer;

namespace {

const char* const k_name = "batch_norm_add_relu_backward";

NDArray channels_as_neighbours(const NDArray& array) {
  return array.transpose({0, 2, 3, 1}).copy().transpose({0, 3, 1, 2});
}

/// The same numbers where no vector begins.
NDArray beside_vectors(const NDArray& array) {
  NDArray longer = zeros({array.size() + 1}, {.dtype = array.dtype(), .device = array.device()});
  longer.slice(0, 1, array.size() + 1).assign(array.reshape({array.size()}));
  return longer.slice(0, 1, array.size() + 1).reshape(array.shape());
}

/// Two heads, the result, x, gamma, mean, 1 / std; not numbers and infinities among them.
struct Operands {
  NDArray a, b, y, x, gamma, mean, inv_std;

  Operands(const Shape& shape, DType dtype, Device device) {
    const DType wide = dtype == float64 ? float64 : float32;
    const Shape channels{shape[1]};
    x = random_array(shape, 1, -2, 2, dtype).to(device);
    a = random_array(shape, 2, -1, 1, dtype).to(device);
    b = random_array(shape, 3, -1, 1, dtype).to(device);
    y = relu(random_array(shape, 4, -1, 1, dtype).to(device));
    gamma = random_array(channels, 5, -1, 2, wide).to(device);
    mean = random_array(channels, 6, -1, 1, wide).to(device);
    inv_std = random_array(channels, 7, 0.5, 2, wide).to(device);
    if (shape.size() == 0)
      return;
    y.slice(0, 0, 1).slice(1, 0, 1).assign(NAN);
    y.slice(0, 0, 1).slice(1, 2, 3).assign(0);
    a.slice(0, 1, 2).slice(1, 1, 2).assign(INFINITY);
    b.slice(0, 0, 1).slice(1, 2, 3).assign(NAN);
  }
};

Arrays at_once(const Operands& of, const Attributes& how, bool two) {
  Arrays inputs{of.a, of.x, of.gamma, of.mean, of.inv_std, of.y};
  if (two)
    inputs.push_back(of.b);
  return invoke(detail::batch_norm_add_relu_backward_op, inputs, how, {});
}

Arrays one_by_one(const Operands& of, const Attributes& how, bool two) {
  const NDArray passed = detail::relu_gradient(two ? of.a + of.b : of.a, of.y, {});
  const Arrays inputs{passed, of.x, of.gamma, of.mean, of.inv_std};
  Arrays made = invoke(detail::batch_norm_backward_op, inputs, how, {});
  made.push_back(passed);
  return made;
}

void check_operator(const Operands& of) {
  for (const bool two : {false, true}) {
    for (const detail::BatchNormAttributes& each :
         {detail::BatchNormAttributes{}, detail::BatchNormAttributes{.fix_gamma = true, .batch_stats = false}}) {
      CAPTURE(two, each.fix_gamma);
      const Attributes how = Attributes::of(each);
      CHECK((all_bytes(at_once(of, how, two), true) == all_bytes(one_by_one(of, how, two), true)));
    }
  }
}

void check_operators(Device device) {
  for (const DType dtype : {float32, float16, bfloat16, float64}) {
    for (const Shape& shape :
         {Shape{3, 8, 5, 4},
          Shape{4, 3, 2, 3},
          Shape{2, 16, 1, 1},
          Shape{0, 4, 2, 2},
          Shape{7, 5},
          Shape{2, 3, 5, 7},
          Shape{9, 16, 8, 8},
          Shape{2, 3, 96, 48}}) {
      CAPTURE(dtype, to_string(shape));
      const Operands given(shape, dtype, device);
      check_operator(given);
      if (shape.ndim() != 4)
        continue;
      Operands other = given;
      for (NDArray* const head : {&other.a, &other.b, &other.y})
        *head = shape.size() == 0 ? *head : beside_vectors(*head);
      check_operator(other);
      other = given;
      other.x = channels_as_neighbours(given.x);
      check_operator(other);  // heads are brought into its order
      for (NDArray* const head : {&other.a, &other.b, &other.y})
        *head = channels_as_neighbours(*head);
      check_operator(other);
      other.x = given.x;
      check_operator(other);
    }
  }
}

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

const graph::Node& only(const Graph& graph) {
  REQUIRE(count(graph, k_name) == 1);
  return *std::find_if(graph.nodes.begin(), graph.nodes.end(), [](const graph::Node& node) {
    return node.op->name == std::string(k_name);
  });
}

Arrays abstract_inputs(Tracer& tracer, const Arrays& like, Device device) {
  Arrays given;
  for (const NDArray& input : like)
    given.push_back(tracer.input({input.shape(), input.dtype(), device}));
  return given;
}

}  // namespace

TEST_CASE("The gradient of batch norm, a sum and a relu is that of the three, to the last bit", "[norm]") {
  check_operators(cpu());
}
TEST_CASE(
    "The gradient of batch norm, a sum and a relu is that of the three on a GPU, to the last bit", "[norm][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_operators(gpu());
}

TEST_CASE("The gradient of batch norm, a sum and a relu refuses what does not fit, by name", "[norm]") {
  const Operands in({3, 4, 3, 2}, float32, cpu());
  const auto call = [&](const Arrays& inputs) {
    return invoke(detail::batch_norm_add_relu_backward_op, inputs, Attributes::of(detail::BatchNormAttributes{}), {});
  };
  const auto says = sluice::test::contains(k_name);
  CHECK_THROWS_AS(call({in.a, in.x, in.gamma, in.mean, in.inv_std}), ValueError);
  CHECK_THROWS_AS(call({in.a, in.x, in.gamma, in.mean, in.inv_std, in.y, in.b, in.b}), ValueError);
  CHECK_THROWS_AS(call({in.a, in.x, in.gamma, in.mean, in.inv_std, ones({3, 4, 3, 1})}), ShapeError);
  CHECK_THROWS_WITH(call({in.a, in.x, in.gamma, in.mean, in.inv_std, in.y, ones({4})}), says);
  CHECK_THROWS_AS(call({in.a, in.x, in.gamma, in.mean, in.inv_std, in.y, in.b.astype(float64)}), DTypeError);
}

TEST_CASE("The gradient of batch norm, a sum and a relu may go where heads and result were", "[norm][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const Attributes how = Attributes::of(detail::BatchNormAttributes{});
  for (const DType dtype : {float32, bfloat16}) {
    for (const Shape& shape : {Shape{9, 16, 8, 8}, Shape{2, 3, 5, 7}}) {
      CAPTURE(dtype, to_string(shape));
      const Operands given(shape, dtype, gpu());
      const auto want = all_bytes(one_by_one(given, how, true), true);
      for (const bool turned : {false, true}) {
        Operands own = given;
        own.a = given.a.copy();
        own.b = given.b.copy();
        own.y = given.y.copy();
        const Arrays outside{own.a, own.b, own.y, own.x};
        Tracer tracer;
        const Arrays in = abstract_inputs(tracer, outside, gpu());
        const Graph made = tracer.trace([&] {
          Operands of = own;  // new memory, which nobody wants behind the call
          of.a = in[0] * 1.0;
          of.b = turned ? own.b : in[1] * 1.0;
          of.y = in[2] * 1.0;
          of.x = in[3];
          const Arrays all = at_once(of, how, true);
          return Arrays{all[0] * 1.0, all[1], all[2], all[3] * 1.0};
        });
        const graph::Node& call = only(made);
        const graph::MemoryPlan memory = plan_memory(made, values_apart(made), graph::Sharing::in_order);
        const auto slot_of = [&](graph::ValueId value) { return memory.slot_of[made.root(value)]; };
        const auto dx = slot_of(call.results[0].value), passed = slot_of(call.results[3].value);
        CHECK(dx != passed);
        for (const auto& slot : {dx, passed}) {
          const std::array heads{slot_of(call.inputs[0]), slot_of(call.inputs[5]), slot_of(call.inputs[6])};
          CHECK(std::find(heads.begin(), heads.end(), slot) != heads.end());
        }
        graph::Plan plan(made, {.optimise = false, .share_in_order = true});
        for (int run = 0; run < 2; ++run)
          CHECK((all_bytes(plan.run(outside), true) == want));
      }
    }
  }
}

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
