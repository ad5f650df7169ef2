// What an operator does not take is said by the right type: a DTypeError, wherever only the type of an input is wrong.
#include <set>
#include <string>

#include <sluice/operator/api.h>

#include "tests/operator/elementwise_rows.h"
#include "tests/operator/every_case.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

// Asks of each call that comes, gradients' too, what inference says where one input is of another type.
class OtherTypes final : public CallSink {
 public:
  Arrays take(const OperatorCall& call) override {
    if (call.op.infer != nullptr && asked_.insert(message(call.op.name, ' ', call.inputs.size())).second)
      ask(call);
    return invoke(call.op, call.inputs, call.attributes, call.site, call.destinations);
  }

  std::set<std::string> wrong = {};

 private:
  void ask(const OperatorCall& call) {
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      for (const DType dtype : k_every_dtype) {
        Specs specs;
        for (const NDArray& input : call.inputs)
          specs.push_back({input.shape(), input.dtype(), input.device()});
        specs[i].dtype = dtype;
        try {
          infer(call.op, specs, call.attributes);
        } catch (const DTypeError&) {
        } catch (const std::exception& error) {
          wrong.insert(message(call.op.name, ", input ", i, " of ", dtype, ": ", error.what(), '\n'));
        }
      }
    }
  }

  std::set<std::string> asked_ = {};
};

std::string listed(const std::set<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines)
    text += line;
  return text;
}

}  // namespace

TEST_CASE("A type that an operator does not take is a DTypeError: calls without a gradient", "[dtype]") {
  OtherTypes types;
  const CallSinkScope here(&types);
  for (const PlainCase& c : every_plain_case()) {
    for (const DType dtype : {float32, int32}) {
      Arrays given;
      for (const auto& [shape, own] : c.inputs)
        given.push_back(random_array(shape, 3, c.low, c.high, own.value_or(dtype)));
      try {
        c.f(given, dtype);
      } catch (const Error&) {  // a case of other types
      }
    }
  }
  CHECK(listed(types.wrong) == "");
}

TEST_CASE(
    "A type that an operator does not take is a DTypeError: calls with a gradient, and the gradients", "[dtype]") {
  OtherTypes types;
  const CallSinkScope here(&types);
  for (const DifferentiableCase& c : every_differentiable_case()) {
    std::vector<NDArray> given;
    for (const Shape& shape : c.shapes) {
      given.push_back(random_array(shape, 3, c.low, c.high, float32));
      given.back().attach_grad();
    }
    const autograd::RecordScope record;
    const NDArray result = c.f(given);
    if (autograd::on_tape(result))
      result.backward();
  }
  CHECK(listed(types.wrong) == "");
}
