// Which rule autocast() has for each operator, and that calls come as it says.
#include <algorithm>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/autocast.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/sink.h>

#include "tests/operator/every_case.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;
using amp::CastRule;
using sluice::detail::is_half;

namespace {

// Before other tests add operators of theirs.
const std::vector<const Operator*> k_ours = operators();

constexpr CastRule k_rules[] = {CastRule::neutral, CastRule::low, CastRule::float32, CastRule::widest};

bool is_gradient(std::string_view name) {
  return name.find("_backward") != std::string_view::npos;
}

std::set<DType> floating_types(std::span<const NDArray> arrays) {
  std::set<DType> types;
  for (const NDArray& one : arrays) {
    if (is_floating(one.dtype()))
      types.insert(one.dtype());
  }
  return types;
}

/// Runs the calls as they come behind autocast(), and notes those that came otherwise than their rule says.
class Watch final : public CallSink {
 public:
  explicit Watch(DType low) : low_(low) {}

  std::set<std::string, std::less<>> seen = {};
  std::vector<std::string> offences = {};

  Arrays take(const OperatorCall& call) override {
    const std::set<DType> types = floating_types(call.inputs);
    const CastRule rule = amp::cast_rule(call.op.name);
    if (!types.empty() && call.destinations.empty())
      seen.insert(call.op.name);
    if (!types.empty() && call.destinations.empty() && call.op.widened == nullptr && !is_as_said(rule, types))
      offences.push_back(message(call.op.name, " of ", *types.begin(), " to ", *types.rbegin()));
    Arrays results = invoke(call.op, call.inputs, call.attributes, call.site, call.destinations);
    const bool gives_low = rule != CastRule::low || types.count(float64) != 0 || results[0].dtype() == low_;
    const bool gives_float32 = rule != CastRule::float32 || !is_half(results[0].dtype());
    if (!types.empty() && (!gives_low || !gives_float32))
      offences.push_back(message(call.op.name, " gives ", results[0].dtype()));
    return results;
  }

 private:
  bool is_as_said(CastRule rule, const std::set<DType>& types) const {
    switch (rule) {
      case CastRule::low:
        return types.count(float64) != 0 || (types.size() == 1 && *types.begin() == low_);
      case CastRule::float32:
        return std::none_of(types.begin(), types.end(), is_half);
      case CastRule::widest:
        return types.size() == 1;
      default:
        return true;
    }
  }

  DType low_;
};

// The case's inputs are of type `dtype`, the first of `first`.
template <class Case>
void run_watched(Watch& watch, DType low, const std::string& name, const Case& run) {
  const CallSinkScope here(&watch);
  const auto cast = amp::autocast(low);
  try {
    run();
  } catch (const Error&) {  // not of this type
  }
  CHECK(watch.offences == std::vector<std::string>());
  if (!watch.offences.empty())
    UNSCOPED_INFO(name);
  watch.offences.clear();
}

void watch_cases(Watch& watch, DType low, DType first, DType dtype) {
  for (const PlainCase& c : every_plain_case()) {
    Arrays given;
    for (const auto& [shape, own] : c.inputs)
      given.push_back(
          random_array(shape, 11 + given.size(), c.low, c.high, own.value_or(given.empty() ? first : dtype)));
    run_watched(watch, low, c.op, [&] { c.f(given, dtype); });
  }
  for (const DifferentiableCase& c : every_differentiable_case()) {
    std::vector<NDArray> given;
    for (const Shape& shape : c.shapes)
      given.push_back(random_array(shape, 11 + given.size(), c.low, c.high, given.empty() ? first : dtype));
    run_watched(watch, low, c.name, [&] { c.f(given); });
  }
}

}  // namespace

TEST_CASE("Every operator but gradients stands in one list of autocast, and nothing else does", "[operator][amp]") {
  std::vector<std::string> listed, known;
  for (const CastRule rule : k_rules) {
    for (const std::string_view name : amp::operators_with(rule)) {
      listed.emplace_back(name);
      CHECK(amp::cast_rule(name) == rule);
    }
  }
  for (const Operator* const op : k_ours) {
    if (!is_gradient(op->name))
      known.emplace_back(op->name);
  }
  std::sort(listed.begin(), listed.end());
  std::vector<std::string> missing, unknown;
  std::set_difference(known.begin(), known.end(), listed.begin(), listed.end(), std::back_inserter(missing));
  for (const std::string& name : listed) {  // of operators that tests added some may have a rule
    if (!std::binary_search(known.begin(), known.end(), name) && find_operator(name) == nullptr)
      unknown.push_back(name);
  }
  CHECK(missing == std::vector<std::string>());
  CHECK(unknown == std::vector<std::string>());
  CHECK(std::adjacent_find(listed.begin(), listed.end()) == listed.end());
}

TEST_CASE("Under autocast calls of every operator come and give what its list says", "[operator][amp]") {
  const DType low = GENERATE(bfloat16, float16);
  Watch watch(low);
  watch_cases(watch, low, float32, float32);
  watch_cases(watch, low, low, low);
  watch_cases(watch, low, low, float32);
  watch_cases(watch, low, float32, low);
  watch_cases(watch, low, float64, float32);
  for (const CastRule rule : {CastRule::low, CastRule::float32, CastRule::widest}) {
    for (const std::string_view name : amp::operators_with(rule)) {
      INFO(name);
      CHECK((watch.seen.count(name) == 1 || std::none_of(k_ours.begin(), k_ours.end(), [&](const Operator* op) {
               return op->name == name;
             })));
    }
  }
}

TEST_CASE("A call with relu is cast as the one without", "[operator][amp]") {
  constexpr std::string_view end = "_relu";
  int pairs = 0;
  for (const Operator* op : k_ours) {
    const std::string_view name = op->name;
    if (!name.ends_with(end))
      continue;
    const std::string_view plain = name.substr(0, name.size() - end.size());
    if (find_operator(plain) == nullptr)
      continue;
    ++pairs;
    INFO(name);
    CHECK(amp::cast_rule(name) == amp::cast_rule(plain));
  }
  CHECK(pairs >= 3);
}
