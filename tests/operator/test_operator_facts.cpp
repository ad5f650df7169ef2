// What the registry and the cases of the other tests say of every operator, for the page docs/operators.md: its script
// runs this case, which is hidden otherwise.
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/sink.h>

#include "tests/operator/elementwise_rows.h"
#include "tests/operator/every_case.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

// Before other tests add operators of theirs.
const std::vector<const Operator*> k_ours = operators();

/// Runs the calls that it is given, and notes of which types those were that did not throw.
class Observer final : public CallSink {
 public:
  std::map<std::string, std::set<DType>> types;

  Arrays take(const OperatorCall& call) override {
    Arrays results = invoke(call.op, call.inputs, call.attributes, call.site, call.destinations);
    for (const NDArray& result : results)
      result.wait_to_read();
    const std::span<const NDArray> taken = call.inputs.empty() ? std::span<const NDArray>(results) : call.inputs;
    if (!taken.empty() && taken[0].defined())
      types[call.op.name].insert(taken[0].dtype());
    return results;
  }
};

template <class F>
void observe(Observer& observer, const F& f) {
  const CallSinkScope here(&observer);
  try {
    f();
  } catch (const Error&) {  // not of this type
  }
}

void run(const PlainCase& c, DType dtype) {
  Arrays given;
  std::uint64_t seed = 10;
  for (const auto& [shape, own] : c.inputs)
    given.push_back(random_array(shape, ++seed, c.low, c.high, own.value_or(dtype)));
  c.f(given, dtype);
}

void run(const DifferentiableCase& c, DType dtype) {
  std::vector<NDArray> given;
  for (std::size_t i = 0; i < c.shapes.size(); ++i)
    given.push_back(random_array(c.shapes[i], 10 + i, c.low, c.high, dtype));
  c.f(given);
  if (!is_floating(dtype))
    return;
  for (NDArray& x : given)
    x.attach_grad();
  NDArray result;
  {
    const autograd::RecordScope training;
    result = c.f(given);
  }
  result.backward();
}

std::string devices_of(const Operator& op) {
  const bool everywhere = op.view != nullptr || op.issue != nullptr || op.composition != nullptr;
  const bool cpu = everywhere || op.kernels[DeviceKind::cpu] != nullptr;
  const bool gpu = everywhere || op.kernels[DeviceKind::gpu] != nullptr;
  return message(cpu ? "CPU" : "", cpu && gpu ? " " : "", gpu ? "GPU" : "");
}

// Of a composition those have gradients that it is made of.
const char* gradient_of(const Operator& op) {
  return op.gradient != nullptr ? "yes" : op.composition != nullptr || op.view != nullptr ? "parts" : "no";
}

std::string attributes_of(const Operator& op) {
  std::string text;
  for (const NamedValue& field : op.attributes->make(op.name, {}).values())
    text += message(text.empty() ? "" : ", ", field.name, '=', to_string(field.value));
  return text;
}

}  // namespace

TEST_CASE("Facts of all operators", "[.operator_facts]") {
  const char* const path = std::getenv("SLUICE_OPERATOR_FACTS");
  REQUIRE(path != nullptr);
  Observer observer;
  for (const DType dtype : k_all_dtypes) {
    for (const PlainCase& c : every_plain_case())
      observe(observer, [&] { run(c, dtype); });
    for (const DifferentiableCase& c : every_differentiable_case())
      observe(observer, [&] { run(c, dtype); });
  }
  std::ofstream file(path);
  for (const Operator* op : k_ours) {
    std::string types;
    for (const DType dtype : observer.types[op->name])
      types += message(types.empty() ? "" : " ", dtype);
    file << op->name << '\t' << op->inputs << '\t' << op->outputs << '\t' << attributes_of(*op) << '\t' << types << '\t'
         << devices_of(*op) << '\t' << gradient_of(*op) << '\n';
  }
  REQUIRE(file.flush());
}

namespace {

// Of results once they are there.
template <class Case>
std::string error_of(const Case& c, DType dtype) {
  try {
    run(c, dtype);
    Engine::current().wait_all();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

template <class Case>
void check_stored(const std::string& name, const Case& c) {
  // Programs name their types, and no number of 64 bits is right of these two.
  const std::set<std::string> programs{"fused", "fused_reduction"}, narrow{"gcd", "lcm"};
  if (programs.contains(name) || error_of(c, int32) != "")
    return;
  for (const DType dtype : {int16, uint16, uint32, uint64}) {
    CAPTURE(name, dtype);
    const bool refused = dtype == uint64 && narrow.contains(name);
    CHECK((error_of(c, dtype) == "") == !refused);
  }
}

}  // namespace

TEST_CASE("What takes int32 takes the stored types too", "[stored]") {
  for (const PlainCase& c : every_plain_case())
    check_stored(c.op, c);
  for (const DifferentiableCase& c : every_differentiable_case())
    check_stored(c.name, c);
}

namespace {

template <class Case>
int refusals(const std::string& name, const Case& c) {
  // Matrices of rounded numbers are not definite; the case of cond gives bodies of two types.
  if (name == "cholesky" || name == "cond")
    return 0;
  int count = 0;
  for (const DType dtype : k_all_dtypes) {
    CAPTURE(name, dtype);
    try {
      run(c, dtype);
      Engine::current().wait_all();
    } catch (const DTypeError& error) {
      ++count;
      CHECK_THAT(error.what(), contains(message(dtype)));
    } catch (const Error& error) {
      FAIL_CHECK("not a DTypeError: " << error.what());
    }
  }
  return count;
}

}  // namespace

TEST_CASE("A type that an operator does not take is a DTypeError that names it", "[errors]") {
  int count = 0;
  for (const PlainCase& c : every_plain_case())
    count += refusals(c.op, c);
  for (const DifferentiableCase& c : every_differentiable_case())
    count += refusals(c.name, c);
  CHECK(count > 1000);
}
