// Every operator that has no gradient, in all types, with inputs that lie in memory in all ways, against the same
// numbers lying densely on the CPU. Those with a gradient: test_head_gradients.cpp. Between them no operator is left
// out.
#include <map>
#include <set>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/elementwise_rows.h"
#include "tests/operator/every_case.h"
#include "tests/operator/layouts.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct Setting {
  Device device;
  DType dtype;
  Layout layout;
  bool views;  // false: the same numbers, copied into dense arrays
};

struct Outcome {
  Arrays results;
  std::string error;  // where it threw, what
};

Outcome run(const PlainCase& c, const Setting& s) {
  random::seed(7);
  Outcome outcome;
  try {
    Arrays given;
    std::uint64_t seed = 10;
    for (const auto& [shape, dtype] : c.inputs) {
      const NDArray base = random_array(base_shape(s.layout, shape), ++seed, c.low, c.high, dtype.value_or(s.dtype));
      const NDArray view = view_of(s.layout, base.to(s.device), shape);
      given.push_back(s.views ? view : view.copy());
    }
    for (const NDArray& result : c.f(given, s.dtype))
      outcome.results.push_back(result.to(cpu()));
    for (const NDArray& result : outcome.results)
      result.wait_to_read();
  } catch (const Error& error) {
    outcome.error = error.what();
    outcome.results.clear();
  }
  return outcome;
}

Tolerance loose(DType dtype, bool on_gpu) {
  Tolerance tolerance = tolerance_of(dtype);
  tolerance.relative *= on_gpu ? 5 : 1;
  tolerance.absolute *= on_gpu ? 5 : 1;
  return is_floating(dtype) ? tolerance : Tolerance{0, 0};
}

// Empty if all layouts on `device` give what dense arrays on the CPU give, or refuse as these do. `ran`: whether any
// ran.
std::string plain_differences(const PlainCase& c, Device device, DType dtype, bool& ran) {
  for (const auto& [layout, name] : k_layouts) {
    const Outcome want = run(c, {cpu(), dtype, layout, false}), got = run(c, {device, dtype, layout, true});
    const auto where = [&, in = name](const std::string& what) {
      return message(c.op, " of ", dtype, ", ", in, ": ", what);
    };
    if (want.error.empty() != got.error.empty())
      return where(message("threw '", got.error, "', expected '", want.error, "'"));
    ran = ran || want.error.empty();
    for (std::size_t i = 0; i < want.results.size(); ++i) {
      const Tolerance tolerance = loose(want.results[i].dtype(), device.is_gpu());
      std::string found = differences(got.results[i], want.results[i], tolerance);
      if (got.results[i].dtype() != want.results[i].dtype())
        found = message("type ", got.results[i].dtype(), ", expected ", want.results[i].dtype());
      if (!found.empty())
        return where(message("array ", i, ": ", found));
    }
  }
  return {};
}

void check_all(Device device) {
  std::map<std::string, bool> ran;
  for (const PlainCase& c : every_plain_case()) {
    for (const DType dtype : k_every_dtype)
      CHECK(plain_differences(c, device, dtype, ran[c.op]) == "");
  }
  for (const auto& [op, once] : ran) {
    CAPTURE(op);
    CHECK(once);
  }
}

// Before other tests add operators of theirs.
const std::vector<const Operator*> k_ours = operators();

}  // namespace

TEST_CASE("Operators without a gradient take all types and layouts that they take densely", "[plain]") {
  check_all(cpu());
}

TEST_CASE("Operators without a gradient give on a GPU what they give on the CPU", "[plain][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_all(gpu());
}

TEST_CASE("There is a case for every operator without a gradient", "[plain]") {
  std::set<std::string> covered;
  for (const PlainCase& c : every_plain_case())
    covered.insert(c.op);
  std::string missing;
  for (const Operator* op : k_ours) {
    if (op->gradient == nullptr && covered.count(op->name) == 0)
      missing += message(' ', op->name);
  }
  CHECK(missing == "");  // these need a row in plain_cases.h or plain_made_cases.h
}
