// An operator in a shared object that the library knows nothing of: y = x to a power, and its gradient.
#include <cmath>
#include <memory>

#include <sluice/sluice.h>

namespace {

using namespace sluice;

struct PowerAttributes {
  std::int64_t power = 1;

  template <class V>
  void visit(V&& v) {
    v.field("power", power);
  }
};

/// What the plugin keeps beside: a factor that it was made with.
struct Power : Operator {
  double factor = 1;
};

Specs infer(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  require<DTypeError>(
      inputs[0].dtype == float32, [&] { return message(op.name, ": takes float32, not ", inputs[0].dtype); });
  return {inputs[0]};
}

void run(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  const auto power = static_cast<float>(call.attributes.as<PowerAttributes>().power);
  const auto factor = static_cast<float>(static_cast<const Power&>(call.op).factor);
  for (std::int64_t i = 0; i < x.size; ++i)
    y.as<float>()[i] = factor * std::pow(x.as<float>()[i], power);
}

Arrays gradient(const GradientCall& call) {
  const std::int64_t power = call.attributes.as<PowerAttributes>().power;
  const NDArray lower =
      invoke_one(call.op, {call.inputs[0]}, Attributes::of(PowerAttributes{power - 1}), SourceLocation::current());
  return {call.output_grads[0] * lower * static_cast<double>(power)};
}

const bool registered = [] {
  auto op = std::make_shared<Power>();
  op->name = "plugin_power";
  op->attributes = &attribute_type<PowerAttributes>;
  op->infer = infer;
  op->kernels = {on_cpu(run)};
  op->gradient = gradient;
  op->saved_inputs = k_all;
  op->factor = 2;
  register_operator(op);
  return true;
}();

}  // namespace
