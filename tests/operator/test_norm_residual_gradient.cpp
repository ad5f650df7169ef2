// The gradient of batch norm, a sum and a relu as one call: bits, and where results may go.
#include <algorithm>
#include <array>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/detail/destination.h>
#include <sluice/operator/graph/memory_plan.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/graph/plan.h>

#include "tests/operator/norm_residuals.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
using graph::Graph;
using graph::Tracer;

namespace {

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
          of.x = in[3] * 1.0;
          const Arrays all = at_once(of, how, true);
          return Arrays{all[0] * 1.0, all[1], all[2], all[3] * 1.0};
        });
        const graph::Node& call = only(made);
        const graph::MemoryPlan memory = plan_memory(made, values_apart(made), graph::Sharing::in_order);
        const auto slot_of = [&](graph::ValueId value) { return memory.slot_of[made.root(value)]; };
        const auto dx = slot_of(call.results[0].value), passed = slot_of(call.results[3].value);
        CHECK(dx != passed);
        CHECK(passed != slot_of(call.inputs[1]));  // x is read behind it
        for (const auto& slot : {dx, passed}) {
          const std::array free{
              slot_of(call.inputs[0]), slot_of(call.inputs[1]), slot_of(call.inputs[5]), slot_of(call.inputs[6])};
          CHECK(std::find(free.begin(), free.end(), slot) != free.end());
        }
        graph::Plan plan(made, {.optimise = false, .share_in_order = true});
        for (int run = 0; run < 2; ++run)
          CHECK((all_bytes(plan.run(outside), true) == want));
      }
    }
  }
}

TEST_CASE("What batch norm's gradients are written over is what nothing reads behind it", "[norm]") {
  using Places = std::vector<std::size_t>;
  const auto free_for = [](const Operator& op, std::size_t result) {
    Places inputs;
    for (std::size_t input = 0; input < 7; ++input) {
      if (detail::writes_over(op, input, result))
        inputs.push_back(input);
    }
    return inputs;
  };
  CHECK(free_for(detail::batch_norm_backward_op, 0) == Places{0, 1});
  CHECK(free_for(detail::batch_norm_relu_backward_op, 0) == Places{0, 1});
  const Operator& adds = detail::batch_norm_add_relu_backward_op;
  CHECK(free_for(adds, 0) == Places{0, 1, 5, 6});
  CHECK(free_for(adds, 3) == Places{0, 5, 6});  // x is read once what is let through is written
  for (const std::size_t sums : {1, 2})
    CHECK(free_for(adds, sums).empty());
}

TEST_CASE("The gradient of batch norm may go where x or its head was", "[norm][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const Attributes how = Attributes::of(detail::BatchNormAttributes{});
  for (const Operator* const op : {&detail::batch_norm_backward_op, &detail::batch_norm_relu_backward_op}) {
    for (const Device device : {cpu(), gpu()}) {
      for (const Shape& shape : {Shape{9, 16, 8, 8}, Shape{2, 3, 5, 7}, Shape{40, 24, 1, 1}}) {
        for (const DType dtype : {float32, bfloat16}) {
          CAPTURE(op->name, device, to_string(shape), dtype);
          const Operands given(shape, dtype, device);
          const auto call = [&](const NDArray& dy, const NDArray& x) {
            Arrays inputs{dy, x, given.gamma, given.mean, given.inv_std};
            if (op->inputs == 6)
              inputs.push_back(given.gamma);
            return invoke(*op, inputs, how, {});
          };
          for (const bool over_x : {false, true}) {
            CAPTURE(over_x);
            Tracer tracer;
            const Arrays in = abstract_inputs(tracer, {given.b, given.x}, device);
            const Graph made = tracer.trace([&] {
              const NDArray other =
                  over_x ? in[1] * 1.0 : in[0] * 1.0;  // new memory, which nobody wants behind the call
              const Arrays all = over_x ? call(in[0], other) : call(other, in[1]);
              return Arrays{all[0] * 1.0, all[1], all[2]};
            });
            const graph::Node& node = *std::find_if(
                made.nodes.begin(), made.nodes.end(), [&](const graph::Node& each) { return each.op == op; });
            const graph::MemoryPlan memory = plan_memory(made, values_apart(made), graph::Sharing::in_order);
            CHECK(memory.slot_of[node.results[0].value].has_value());
            CHECK(memory.slot_of[node.results[0].value] == memory.slot_of[node.inputs[over_x ? 1 : 0]]);
            graph::Plan plan(made, {.optimise = false, .share_in_order = true});
            const auto want = all_bytes(call(given.b, given.x), true);
            CHECK((all_bytes(plan.run(Arrays{given.b, given.x}), true) == want));
          }
        }
      }
    }
  }
}
