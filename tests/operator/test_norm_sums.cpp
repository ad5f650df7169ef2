// The gradient of layer norm that takes along another one: the operators beside calls one by one.
#include <optional>

#include <sluice/operator/detail/destination.h>
#include <sluice/operator/graph/memory_plan.h>

#include "tests/operator/norm_sums.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
using graph::Graph;
using graph::Tracer;

namespace {

void check_rows(const NormRowsOf& rows, DType dtype, DType head, bool centred, Device device) {
  const NormOperands given(rows, dtype, head, centred, device);
  for (const std::optional<DType> half : {std::optional<DType>(), std::optional(bfloat16), std::optional(float16)}) {
    if (half && dtype != float32)
      continue;
    CAPTURE(half.has_value(), half.value_or(dtype));
    const LayerAttributes how{rows.axis_in_front(), 1e-5, half};
    CHECK((all_bytes(given.at_once(how), true) == all_bytes(given.one_by_one(how), true)));
    NormOperands other = given;
    if (given.other.size() != 0)
      other.other = beside_vectors(given.other);
    CHECK((all_bytes(other.at_once(how), true) == all_bytes(given.one_by_one(how), true)));
  }
}

void check_all(Device device) {
  for (const NormRowsOf& rows : k_norm_rows) {
    for (const bool centred : {true, false}) {
      CAPTURE(to_string(rows.shape), rows.axis, centred);
      check_rows(rows, float32, float32, centred, device);
      check_rows(rows, float32, centred ? bfloat16 : float16, centred, device);
      if (rows.shape.size() > 1000)
        continue;
      for (const DType dtype : {float64, float16, bfloat16})
        check_rows(rows, dtype, dtype, centred, device);
    }
  }
}

}  // namespace

TEST_CASE("The gradient of layer norm with a sum behind it is that of the two, to the last bit", "[norm]") {
  check_all(cpu());
}

TEST_CASE("The gradient of layer norm with a sum behind it is that of the two on a GPU", "[norm][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_all(gpu());
}

TEST_CASE("The gradient of layer norm with a sum behind it refuses what does not fit, by name", "[norm]") {
  for (const bool centred : {true, false}) {
    const NormOperands given({{3, 8}}, float32, float32, centred, cpu());
    const auto with = [&](const NDArray& other, std::optional<DType> half = {}) {
      NormOperands of = given;
      of.other = other;
      return of.at_once({1, 1e-5, half});
    };
    const auto says = sluice::test::contains(centred ? "add_layer_norm_backward" : "add_rms_norm_backward");
    CHECK(with(given.other).size() == (centred ? 3 : 2));
    CHECK(with(given.other, bfloat16).size() == (centred ? 4 : 3));
    CHECK_THROWS_AS(with(ones({8})), ShapeError);
    CHECK_THROWS_WITH(with(ones({3, 4})), says);
    CHECK_THROWS_AS(with(given.other.astype(bfloat16)), DTypeError);
    CHECK_THROWS_AS(with(given.other, float32), DTypeError);
    CHECK_THROWS_WITH(with(given.other, float64), says);
    CHECK_THROWS_AS(with(given.other, int32), DTypeError);
    const NormOperands halves({{3, 8}}, float16, float16, centred, cpu());
    CHECK_THROWS_AS(halves.at_once({1, 1e-5, bfloat16}), DTypeError);
  }
}

TEST_CASE("The sum of two gradients may go where the second one was", "[norm][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const Device device : {cpu(), gpu()}) {
    for (const NormRowsOf& rows :
         {NormRowsOf{{6, 64}}, NormRowsOf{{5, 768}}, NormRowsOf{{5, 7}}, NormRowsOf{{2, 4100}}}) {
      CAPTURE(device, to_string(rows.shape));
      const NormOperands given(rows, float32, bfloat16, true, device);
      const LayerAttributes how{1, 1e-5, bfloat16};
      Tracer tracer;
      const Arrays in = abstract_inputs(tracer, {given.other}, device);
      const Graph made = tracer.trace([&] {
        NormOperands of = given;
        of.other = in[0] * 1.0;  // new memory, which nobody wants behind the call
        Arrays results = of.at_once(how);
        results[0] = results[0] * 1.0;
        return results;
      });
      const graph::Node& call = *std::find_if(made.nodes.begin(), made.nodes.end(), [](const graph::Node& node) {
        return node.op == &detail::add_layer_norm_backward_op;
      });
      const graph::MemoryPlan memory = plan_memory(made, values_apart(made), graph::Sharing::in_order);
      CHECK(memory.slot_of[call.results[0].value].has_value());
      CHECK(memory.slot_of[call.results[0].value] == memory.slot_of[call.inputs[5]]);
      graph::Plan plan(made, {.optimise = false, .share_in_order = true});
      const auto want = all_bytes(given.one_by_one(how), true);
      for (int run = 0; run < 2; ++run)
        CHECK((all_bytes(plan.run(Arrays{given.other}), true) == want));
    }
  }
}

TEST_CASE("The sum of two gradients is written over nothing that is read behind it", "[norm]") {
  for (const Operator* const op : {&detail::add_layer_norm_backward_op, &detail::add_rms_norm_backward_op}) {
    for (std::size_t input = 0; input < static_cast<std::size_t>(op->inputs); ++input) {
      for (std::size_t result = 0; result < 4; ++result) {
        const bool is_sum = result == 0 && input + 1 == static_cast<std::size_t>(op->inputs);
        CHECK(detail::writes_over(*op, input, result) == is_sum);
      }
    }
  }
}
