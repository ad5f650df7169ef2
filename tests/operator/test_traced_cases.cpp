// Every operator by hand and as a plan: the passes, shared memory, calls that became one and reductions that took their
// terms in change no bit of a result, of a gradient or of a gradient's gradient. Before and behind each case stand
// calls that a pass may join with it.
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include <sluice/operator/graph/plan.h>
#include <sluice/operator/graph/trace.h>

#include "tests/operator/case_step.h"
#include "tests/operator/elementwise_rows.h"
#include "tests/operator/every_case.h"
#include "tests/operator/extents.h"
#include "tests/operator/random_program.h"
#include "tests/support/bytes.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using Program = std::function<Arrays(const std::vector<NDArray>&)>;

constexpr std::size_t k_gpu_part = 7;  // of the cases one, in CI, where a GPU is simulated

// The same numbers, of calls that a pass may join with what reads them.
NDArray just_made(const NDArray& x) {
  return x.dtype() == bool_ ? logical_not(logical_not(x)) : -(-x);
}

// Beside results what a pass may join with what gives them.
Arrays with_readers(Arrays made) {
  const std::size_t count = made.size();
  for (std::size_t i = 0; i < count; ++i)
    made.push_back(made[i].dtype() == bool_ ? logical_not(made[i]) : abs(made[i]) * 3);
  return made;
}

// Empty if a plan of it gives, in two runs, what it gives by hand; where it does not run, `ran` stays as it is.
std::string plan_differences(const Program& program, const std::vector<NDArray>& inputs, int& ran) {
  const auto seeded = [](const auto& run) {
    random::seed(7);
    return all_bytes(run(), true);
  };
  std::vector<std::string> want;
  try {
    want = seeded([&] { return program(inputs); });
  } catch (const Error&) {  // not of this type
    return {};
  }
  try {
    graph::Tracer tracer;
    std::vector<NDArray> abstract;
    for (const NDArray& input : inputs)
      abstract.push_back(tracer.input({input.shape(), input.dtype(), input.device()}));
    const graph::Graph traced = tracer.trace([&] { return program(abstract); });
    graph::Plan plan(traced, {.reductions = graph::TakenReductions::all});
    ++ran;
    for (int run = 0; run < 3; ++run) {  // on a GPU by hand, captured, replayed
      const std::vector<std::string> got = seeded([&] { return plan.run(inputs); });
      if (got.size() != want.size())
        return message(got.size(), " results, expected ", want.size());
      for (std::size_t i = 0; i < want.size(); ++i) {
        if (got[i] != want[i])
          return message("run ", run, ", result ", i, ": ", first_difference(got[i], want[i]));
      }
    }
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

// Every so many of the cases; which, says the type. How many ran.
int check_differentiable(Device device, std::initializer_list<DType> types, std::size_t every = 1) {
  int ran = 0;
  const std::vector<DifferentiableCase>& cases = every_differentiable_case();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const DifferentiableCase& c = cases[i];
    const Program program = [&c](const std::vector<NDArray>& in) {
      std::vector<NDArray> given;
      for (const NDArray& x : in)
        given.push_back(just_made(x));
      return with_readers(results_of(c, given));
    };
    for (const DType dtype : types) {
      if ((i + static_cast<std::size_t>(dtype)) % every != 0)
        continue;
      CAPTURE(c.name, c.shapes, dtype);
      CHECK(plan_differences(program, inputs_of(c, dtype, device), ran) == "");
    }
  }
  return ran;
}

int check_forward(Device device, std::size_t every = 1) {
  int ran = 0;
  const std::vector<PlainCase> cases = every_forward_case();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const PlainCase& c = cases[i];
    for (const DType dtype : k_every_dtype) {
      if ((i + static_cast<std::size_t>(dtype)) % every != 0)
        continue;
      const Program program = [&](const std::vector<NDArray>& in) {
        Arrays given;
        for (const NDArray& x : in)
          given.push_back(just_made(x));
        return with_readers(c.f(given, dtype));
      };
      CAPTURE(c.op, dtype);
      CHECK(plan_differences(program, inputs_of(c, dtype, device), ran) == "");
    }
  }
  return ran;
}

}  // namespace

TEST_CASE(
    "Every operator and its gradients give in a plan what they give by hand, to the last bit", "[graph][traced]") {
  CHECK(check_differentiable(cpu(), {float32, float64, bfloat16}) > 1000);
}

TEST_CASE("Forward of every operator gives in a plan what it gives by hand, of all types", "[graph][traced]") {
  CHECK(check_forward(cpu()) > 5000);
}

TEST_CASE("Operators and their gradients give in a plan on a GPU what they give by hand", "[graph][traced][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  CHECK(check_differentiable(gpu(0), {float32, float64, bfloat16, float16}, k_gpu_part) > 100);
  CHECK(check_forward(gpu(0), k_gpu_part) > 500);
}

TEST_CASE(
    "Every operator gives in a plan on a GPU what it gives by hand, of all types", "[graph][traced][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  CHECK(check_differentiable(gpu(0), {float32, float64, bfloat16, float16}) > 1000);
  CHECK(check_forward(gpu(0)) > 5000);
}
