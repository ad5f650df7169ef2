#pragma once

// Sinks of calls for tests: one that runs each call and looks at it, one that runs none.
#include <set>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

namespace sluice::test {

inline std::string describe(const ArraySpec& spec) {
  return message(spec.dtype, " ", spec.shape, " on ", spec.device);
}
inline std::string describe(const NDArray& array) {
  return describe(ArraySpec{array.shape(), array.dtype(), array.device()});
}

/// "add (float32 (2,) on cpu(0)) -> float32 (2,) on cpu(0)": what of a call does not depend on how it is run.
inline std::string describe(const OperatorCall& call) {
  std::string text = call.op.name;
  for (const NDArray& input : call.inputs)
    text += message(" (", describe(input), ")");
  text += " [" + to_string(call.attributes) + "] ->";
  for (const ArraySpec& spec : call.outputs)
    text += " " + describe(spec);
  if (call.view != nullptr)
    text += message(" strides ", call.view->strides);
  return text + (call.destinations.empty() ? "" : " into") + (call.recorded ? " recorded" : "");
}

/// Runs every call, and compares what inference said with what came.
class RunningSink : public CallSink {
 public:
  Arrays take(const OperatorCall& call) override {
    calls.push_back(describe(call));
    names.insert(call.op.name);
    Engine& engine = Engine::current();
    const auto before = engine.counters().pushed;
    const Arrays made = invoke(call.op, call.inputs, call.attributes, call.site, call.destinations);
    pushed += engine.counters().pushed - before;
    if (!call.destinations.empty())
      return made;
    check(made.size() == call.outputs.size(), call, "number of outputs");
    for (std::size_t i = 0; i < made.size() && i < call.outputs.size(); ++i)
      check(describe(made[i]) == describe(call.outputs[i]), call, describe(made[i]).c_str());
    if (call.view != nullptr)
      check(made[0].strides() == call.view->strides, call, "strides of a view");
    Specs specs;
    for (const NDArray& input : call.inputs)
      specs.push_back({input.shape(), input.dtype(), input.device()});
    if (call.view == nullptr || call.inputs[0].is_contiguous()) {
      const Specs alone = infer(call.op, specs, call.attributes);
      for (std::size_t i = 0; i < made.size() && i < alone.size(); ++i)
        check(describe(made[i]) == describe(alone[i]), call, "infer()");
    }
    return made;
  }

  std::vector<std::string> calls = {};
  std::set<std::string> names = {};
  std::vector<std::string> wrong = {};
  std::uint64_t pushed = 0;  // tasks, while calls were running

 private:
  void check(bool holds, const OperatorCall& call, const char* what) {
    if (!holds)
      wrong.push_back(describe(call) + ": " + what);
  }
};

/// Runs none.
class AbstractSink : public CallSink {
 public:
  Arrays take(const OperatorCall& call) override {
    calls.push_back(describe(call));
    return abstract_results(call);
  }
  std::vector<std::string> calls = {};
};

}  // namespace sluice::test
