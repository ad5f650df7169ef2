// What a C++ function gives an operator a program may give it by name: the same axes counted from the back, the same
// operands of other types, with the same results and the same refusals.
#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/every_case.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/sinks.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct Seen {
  const Operator* op;
  std::vector<NDArray> inputs;
  std::string attributes;
};

/// Runs every call that comes and keeps what it was given: what normalise left, for a graph holds that.
class KeepingSink : public CallSink {
 public:
  Arrays take(const OperatorCall& call) override {
    if (call.destinations.empty())
      calls.push_back({&call.op, {call.inputs.begin(), call.inputs.end()}, to_string(call.attributes)});
    return invoke(call.op, call.inputs, call.attributes, call.site, call.destinations);
  }
  std::vector<Seen> calls = {};
};

struct Outcome {
  Arrays results = {};
  std::string error = {};
};

template <class F>
Outcome outcome_of(const F& f) {
  Outcome outcome;
  try {
    for (const NDArray& result : f()) {
      result.wait_to_read();
      outcome.results.push_back(result);
    }
  } catch (const Error& error) {
    outcome = {{}, typeid(error).name()};
  }
  return outcome;
}

std::string difference(const Outcome& got, const Outcome& want) {
  if (got.error != want.error || got.results.size() != want.results.size())
    return message("'", got.error, "', ", got.results.size(), " results; '", want.error, "', ", want.results.size());
  for (std::size_t i = 0; i < want.results.size(); ++i) {
    if (got.results[i].dtype() != want.results[i].dtype())
      return message("result ", i, " is ", got.results[i].dtype(), ", not ", want.results[i].dtype());
    if (std::string found = differences(got.results[i], want.results[i]); !found.empty())
      return message("result ", i, ": ", found);
  }
  return {};
}

Outcome by_name(const Operator& op, const std::vector<NDArray>& inputs, const std::string& attributes) {
  return outcome_of([&] { return invoke(op, inputs, parse_attributes(op, attributes), SourceLocation::current()); });
}

// Of the cases: widens the scales beside half types before it calls the function.
constexpr std::string_view k_casts_itself = "convolution_fused";

// Draws, writes what it is given, or calls what cannot be written as text.
bool may_be_called_again(const Operator& op) {
  const std::set<std::string> bodies = {
      "foreach",
      "while_loop",
      "cond",
      "fused",
      "fused_reduction",
      "random_choice",
      "random_permutation",
      "sample_multinomial"};
  return op.random == nullptr && op.mutated_inputs == k_none && op.mutates == nullptr && bodies.count(op.name) == 0;
}

/// `text` with every axis, of "axis" or "axes", counted from the back of so many; as it is without any.
std::string from_the_back(const std::string& text, int ndim) {
  std::string made = text;
  for (const std::string name : {"axis=", "axes=("}) {
    std::size_t at = made.find(name);
    if (at == std::string::npos || (at != 0 && made[at - 1] != ' '))
      continue;
    at += name.size();
    while (at < made.size() && (std::isdigit(static_cast<unsigned char>(made[at])) != 0 || made[at] == ' ')) {
      at += made[at] == ' ' ? 1 : 0;
      std::size_t length = 0;
      const int axis = std::stoi(made.substr(at), &length);
      const std::string counted = std::to_string(axis - ndim);
      made.replace(at, length, counted);
      at += counted.size();
      at += at < made.size() && made[at] == ',' && name == "axes=(" ? 1 : 0;
    }
  }
  return made;
}

// Of which operand axes are counted is the operator's; a new one among them makes one more.
std::string axis_difference(const Seen& call, bool& has_axes) {
  std::set<int> counts;
  bool has_elements = !call.inputs.empty();
  for (const NDArray& input : call.inputs) {
    counts.insert({input.ndim(), input.ndim() + 1});
    has_elements = has_elements && input.size() != 0;
  }
  if (!has_elements)  // what norms keep of rows of nothing is not written
    return {};
  const Outcome want = by_name(*call.op, call.inputs, call.attributes);
  std::string found;
  for (const int ndim : counts) {
    const std::string attributes = from_the_back(call.attributes, ndim);
    if (attributes == call.attributes)
      return {};
    has_axes = true;
    const std::string differs = difference(by_name(*call.op, call.inputs, attributes), want);
    if (differs.empty())
      return {};
    found += message(" [", attributes, "] ", differs);
  }
  return message(call.op->name, " [", call.attributes, "]: from the back:", found);
}

std::vector<NDArray> inputs_of(const DifferentiableCase& c) {
  std::vector<NDArray> inputs;
  for (const Shape& shape : c.shapes)
    inputs.push_back(random_array(shape, 10 + inputs.size(), c.low, c.high));
  return inputs;
}

std::vector<Seen> calls_of(const DifferentiableCase& c, const std::vector<NDArray>& inputs) {
  KeepingSink sink;
  const CallSinkScope taken(&sink);
  c.f(inputs);
  return sink.calls;
}

bool are_same(const std::vector<NDArray>& a, const std::vector<NDArray>& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(), [](const NDArray& x, const NDArray& y) { return x.same(y); });
}

}  // namespace

TEST_CASE("Operators count axes from the back in any call by name", "[normalise]") {
  std::set<std::string> counted;
  for (const DifferentiableCase& c : every_differentiable_case()) {
    for (const Seen& call : calls_of(c, inputs_of(c))) {
      bool has_axes = false;
      if (may_be_called_again(*call.op))
        CHECK(axis_difference(call, has_axes) == "");
      if (has_axes)
        counted.insert(call.op->name);
    }
  }
  CHECK(counted.size() > 50);
  CHECK(counted.count("softmax") + counted.count("sum") + counted.count("concat") == 3);
}

TEST_CASE("Operators take in any call by name the types that their functions take", "[normalise]") {
  std::set<std::string> compared;
  for (const DifferentiableCase& c : every_differentiable_case()) {
    const std::vector<NDArray> inputs = inputs_of(c);
    const std::vector<Seen> calls = calls_of(c, inputs);
    const bool is_function = calls.size() == 1 && are_same(calls[0].inputs, inputs);
    if (!is_function || !may_be_called_again(*calls[0].op) || c.name.starts_with(k_casts_itself))
      continue;
    for (const DType dtype : {int32, bool_, float16, uint64}) {
      std::vector<NDArray> others, mixed = inputs;
      for (const NDArray& input : inputs)
        others.push_back(input.astype(dtype));
      mixed.back() = others.back();
      for (const std::vector<NDArray>& given : {others, mixed}) {
        CAPTURE(c.name, dtype);
        const Outcome function = outcome_of([&] { return Arrays{c.f(given)}; });
        Outcome named = by_name(*calls[0].op, given, calls[0].attributes);
        named.results.resize(std::min(named.results.size(), function.results.size()));
        CHECK(difference(named, function) == "");
      }
    }
    compared.insert(calls[0].op->name);
  }
  CHECK(compared.size() > 150);
}
