// Every differentiable operator, forward and backward, with inputs and head gradients that lie in memory in all ways,
// against the same numbers lying densely on the CPU. Reductions give gradients that are broadcast, transposes
// transposed ones: a kernel that refuses them fails ordinary programs.
#include <exception>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "tests/operator/every_case.h"
#include "tests/operator/layouts.h"
#include "tests/operator/recurrent_cases.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct Setting {
  Device device;
  DType dtype;
  Layout inputs, heads;
  bool views = true;  // false: the same numbers, copied into dense arrays
};

// A variable and the array that a function is given of it.
struct Drawn {
  NDArray variable, given;
};

Drawn draw(const Setting& s, Layout layout, const Shape& shape, std::uint64_t seed, double low, double high) {
  Drawn drawn;
  drawn.variable = random_array(base_shape(layout, shape), seed, low, high, s.dtype).to(s.device).detach();
  drawn.variable.attach_grad();
  drawn.given = view_of(layout, drawn.variable, shape);
  if (!s.views)
    drawn.given = drawn.given.copy();
  return drawn;
}

void collect_names(const autograd::Entry& entry, std::set<const autograd::Node*>& seen, std::set<std::string>& names) {
  if (!entry.node || !seen.insert(entry.node.get()).second)
    return;
  names.insert(entry.node->name());
  for (const autograd::Entry& input : entry.node->inputs)
    collect_names(input, seen, names);
}

std::set<std::string>& exercised() {
  static std::set<std::string> names;
  return names;
}

void note_operators(const std::vector<NDArray>& results) {
  std::set<const autograd::Node*> seen;
  for (const NDArray& result : results)
    collect_names(autograd::entry_of(result), seen, exercised());
}

// The result and the gradients of the inputs; `twice`: the gradients, and the gradients of those, of the first head
// gradient too.
std::vector<NDArray> run(const DifferentiableCase& c, const Setting& s, bool twice) {
  random::seed(7);
  std::vector<NDArray> variables, given, results, heads;
  {
    const autograd::RecordScope record;
    for (std::size_t i = 0; i < c.shapes.size(); ++i) {
      const Drawn drawn = draw(s, s.inputs, c.shapes[i], 10 + i, c.low, c.high);
      variables.push_back(drawn.variable);
      given.push_back(drawn.given);
    }
    results.push_back(c.f(given));
    Setting of_head = s;
    of_head.dtype = results[0].dtype();
    of_head.device = results[0].device();
    const Drawn head = draw(of_head, s.heads, results[0].shape(), 30, 0.5, 1.5);
    heads.push_back(head.given);
    if (twice) {
      results = autograd::grad(results, variables, heads, {.create_graph = true});
      // What does not depend on the inputs any more, as the gradient of sign, is off the tape.
      std::erase_if(results, [](const NDArray& result) { return !autograd::on_tape(result); });
      variables.push_back(head.variable);
      heads.clear();
      for (std::size_t i = 0; i < results.size(); ++i)
        heads.push_back(draw(s, s.heads, results[i].shape(), 40 + i, 0.5, 1.5).given);
    }
  }
  note_operators(results);
  if (!results.empty())
    autograd::backward(results, heads);
  for (const NDArray& variable : variables)
    results.push_back(variable.grad());
  return results;
}

// One of those that are not dense, each of one other.
Layout layout_after(Layout layout) {
  constexpr std::size_t count = std::size(k_layouts);
  for (std::size_t i = 0; i < count; ++i) {
    if (k_layouts[i].first == layout) {
      const Layout next = k_layouts[(i + 1) % count].first;
      return next != Layout::dense ? next : layout_after(next);
    }
  }
  return layout;
}

// Empty if all layouts on `device` give what dense arrays on the CPU give.
std::string layout_differences(const DifferentiableCase& c, Device device, DType dtype, Tolerance tolerance) {
  // Half types take the ways of the others: inputs as heads lie, and gradients of gradients in test_half_gradients.cpp.
  const bool half = size_of(dtype) < sizeof(float);
  for (const bool twice : half ? std::vector{false} : std::vector{false, true}) {
    for (const auto& [inputs, inputs_name] : k_layouts) {
      for (const auto& [heads, heads_name] : k_layouts) {
        // One of the two at a time, both where they are alike, and two that differ once for each.
        const bool both = inputs != Layout::dense && heads != Layout::dense && inputs != heads;
        if (half ? inputs != heads : both && (twice || dtype != float32 || heads != layout_after(inputs)))
          continue;
        const auto where = [&, in = inputs_name, head = heads_name](const std::string& what) {
          return message(c.name, twice ? " twice" : "", ", inputs ", in, ", head gradients ", head, ": ", what);
        };
        try {
          const auto want = run(c, {cpu(), dtype, inputs, heads, false}, twice);
          const auto got = run(c, {device, dtype, inputs, heads, true}, twice);
          std::vector<NDArray> here;  // all under way before the first is waited for
          for (const NDArray& array : got)
            here.push_back(array.to(cpu()));
          for (std::size_t i = 0; i < want.size(); ++i) {
            const std::string found = differences(here[i], want[i], tolerance);
            if (!found.empty())
              return where(message("array ", i, ": ", found));
          }
        } catch (const std::exception& error) {
          return where(error.what());
        }
      }
    }
  }
  return {};
}

// The gradients of all inputs by a backward that is recorded, or not: often other formulas.
std::vector<NDArray> gradients(const DifferentiableCase& c, Device device, DType dtype, bool recorded) {
  random::seed(7);
  const autograd::RecordScope record;
  std::vector<NDArray> variables, given;
  for (std::size_t i = 0; i < c.shapes.size(); ++i) {
    const Drawn drawn =
        draw({device, dtype, Layout::dense, Layout::dense}, Layout::dense, c.shapes[i], 10 + i, c.low, c.high);
    variables.push_back(drawn.variable);
    given.push_back(drawn.given);
  }
  const std::vector<NDArray> results{c.f(given)};
  const std::vector<NDArray> heads{
      random_array(results[0].shape(), 30, 0.5, 1.5, results[0].dtype()).to(results[0].device())};
  return autograd::grad(results, variables, heads, {.create_graph = recorded});
}

void check_recorded(const DifferentiableCase& c, Device device, DType dtype, Tolerance tolerance) {
  CAPTURE(c.name, device, dtype);
  const std::vector<NDArray> want = gradients(c, device, dtype, false), got = gradients(c, device, dtype, true);
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    CAPTURE(i);
    CHECK(differences(got[i].to(cpu()), want[i].to(cpu()), tolerance) == "");
  }
}

Tolerance loose(const DifferentiableCase& c, DType dtype, double factor) {
  if (size_of(dtype) < sizeof(float)) {
    const Tolerance half = tolerance_of(dtype);
    const double sums = 4 * factor * c.noise;  // of numbers that were rounded before
    return {sums * half.relative, sums * half.absolute};
  }
  const double error = c.noise * (dtype == float64 && !c.in_float32 ? 1e-10 : factor * 2e-5);
  return {error, error};
}

// Before tests register theirs.
const std::vector<const Operator*> k_ours = operators();

// Differentiable operators that no run so far had on its tape.
std::string not_exercised() {
  std::string missing;
  for (const Operator* op : k_ours) {
    if (op->gradient != nullptr && exercised().count(op->name) == 0)
      missing += message(missing.empty() ? "" : ", ", op->name);
  }
  return missing;
}

}  // namespace

TEST_CASE("operators and their gradients take inputs and head gradients of all layouts", "[head]") {
  for (const DType dtype : {float32, float64, float16, bfloat16}) {
    for (const DifferentiableCase& c : every_differentiable_case())
      CHECK(layout_differences(c, cpu(), dtype, loose(c, dtype, 1)) == "");
  }
  const std::string missing = not_exercised();
  INFO(missing);
  CHECK((missing == "" || missing == "to"));  // see the GPU case; others need a row in differentiable_cases.h
}

TEST_CASE("operators and their gradients take all layouts on a GPU", "[head][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {float32, float64, float16, bfloat16}) {
    for (const DifferentiableCase& c : every_differentiable_case())
      CHECK(layout_differences(c, gpu(), dtype, loose(c, dtype, 5)) == "");
  }
  CHECK(not_exercised() == "");
}

TEST_CASE("Gradients that are recorded are those that are not", "[head]") {
  for (const DType dtype : {float32, float64}) {
    for (const DifferentiableCase& c : every_differentiable_case())
      check_recorded(c, cpu(), dtype, loose(c, dtype, 5));
  }
}

TEST_CASE("Gradients that are recorded are those that are not on a GPU", "[head][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DifferentiableCase& c : every_differentiable_case())
    check_recorded(c, gpu(), float32, loose(c, float32, 5));
}

TEST_CASE("Gradients of every operator, and gradients of these, agree with finite differences", "[head]") {
  for (const DifferentiableCase& c : every_differentiable_case()) {
    if (c.in_float32 || c.name == "embedding")  // whose row of padding has no gradient on purpose
      continue;
    CAPTURE(c.name);
    std::vector<NDArray> inputs;
    for (std::size_t i = 0; i < c.shapes.size(); ++i)
      inputs.push_back(random_array(c.shapes[i], 10 + i, c.low, c.high, float64));
    const auto value = [&c](const std::vector<NDArray>& in) {
      random::seed(7);
      return c.f(in);
    };
    CHECK(gradient_differences(value, inputs) == "");
    // Beside the inputs: what does not depend on them any more, as the gradient of sign, would be off the tape.
    const auto beside = [&](const std::vector<NDArray>& in) {
      Arrays all(in.begin(), in.end());
      all.push_back(value(in));
      return all;
    };
    const auto first = [&](const std::vector<NDArray>& in) { return recorded_gradients(beside, in); };
    CHECK(gradient_differences(first, inputs, {.tolerance = {1e-4, 1e-6}}) == "");
  }
}
