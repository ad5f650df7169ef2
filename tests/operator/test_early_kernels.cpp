// Kernels that begin while the one before them ends: each operator's, behind another kernel in one graph. On the
// simulated GPU a kernel that may begin early and does not wait fails its case.
#include <string>
#include <vector>

#include <sluice/operator/graph/plan.h>
#include <sluice/operator/graph/trace.h>

#include "tests/operator/every_case.h"
#include "tests/operator/heavy_reference.h"
#include "tests/operator/random_program.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// The result and the gradients of a case, of inputs that a kernel has made just before.
Arrays step(const DifferentiableCase& c, const Arrays& given) {
  std::vector<NDArray> inputs;
  for (const NDArray& each : given) {
    inputs.push_back((-(-each)).detach());
    inputs.back().attach_grad();
  }
  NDArray y;
  {
    const autograd::RecordScope record;
    y = c.f(inputs);
  }
  Arrays made{y};
  if (!autograd::on_tape(y))
    return made;
  for (const NDArray& gradient : autograd::grad({&y, 1}, inputs, {})) {
    if (gradient.defined())
      made.push_back(gradient);
  }
  return made;
}

}  // namespace

TEST_CASE("Every operator behind another kernel in a graph gives what it gives by itself", "[graph][early][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {float32, float16}) {
    for (const DifferentiableCase& c : every_differentiable_case()) {
      if (c.name.starts_with("dropout") || (dtype == float16 && c.in_float32))  // draws anew each time
        continue;
      CAPTURE(c.name, dtype);
      Arrays inputs;
      for (std::size_t i = 0; i < c.shapes.size(); ++i)
        inputs.push_back(random_array(c.shapes[i], 7 + i, c.low, c.high, dtype).to(gpu()));
      Arrays by_hand;
      graph::Tracer tracer;
      Arrays given;
      for (const NDArray& input : inputs)
        given.push_back(tracer.input({input.shape(), input.dtype(), input.device()}));
      graph::Graph traced;
      try {
        by_hand = step(c, inputs);
        traced = tracer.trace([&] { return step(c, given); });
      } catch (const Error&) {  // of another type, or one that looks at values
        continue;
      }
      graph::Plan plan(traced, {.optimise = false});
      const auto wanted = all_bytes(by_hand, true);
      for (int run = 0; run < 3; ++run)
        CHECK((all_bytes(plan.run(inputs), true) == wanted));
    }
  }
}
