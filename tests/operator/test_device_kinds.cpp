// How a third kind of device joins: operators bring kernels for it, those that are there are given some, and what it
// lacks is said by name. No engine runs its tasks; calls on such arrays go to a sink.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <sluice/ndarray/api.h>
#include <sluice/operator/api.h>

#include "tests/support/catch.h"

using namespace sluice;

namespace {

constexpr auto k_third = DeviceKind{2};
constexpr Device k_device{k_third, 1};

Specs infer_same_as_input(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  require<DTypeError>(inputs[0].dtype == float32, [&] { return message(op.name, ": not ", inputs[0].dtype); });
  return {inputs[0]};
}

void tripled(const KernelCall& call) {
  for (std::int64_t i = 0; i < call.outputs[0].size; ++i)
    call.outputs[0].as<float>()[i] = 3 * call.inputs[0].as<float>()[i];
}

void nothing(const KernelCall&) {}

Arrays doubled(std::span<const NDArray> inputs, const Attributes&, SourceLocation) {
  return {inputs[0] + inputs[0]};
}

std::shared_ptr<Operator> named(const char* name) {
  auto op = std::make_shared<Operator>();
  op->name = name;
  op->infer = infer_same_as_input;
  return op;
}

/// What runs on a device of the third kind: here, what is written down.
class ThirdDevice : public CallSink {
 public:
  Arrays take(const OperatorCall& call) override {
    calls.push_back(call.op.name);
    return abstract_results(call);
  }
  std::vector<std::string> calls;
};

NDArray there() {
  return abstract_array({.shape = {2, 3}, .device = k_device});
}

template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.message();
  }
  return "";
}

}  // namespace

TEST_CASE("A plugin's operator with a kernel for a third kind of device is taken there", "[operator][kinds]") {
  auto op = named("of_the_third_kind");
  op->kernels.set(k_third, nothing);
  register_operator(op);
  ThirdDevice device;
  const CallSinkScope scope(&device);
  const NDArray y = invoke_one(*op, {there()}, {}, {});
  CHECK(device.calls == std::vector<std::string>{"of_the_third_kind"});
  CHECK(y.device() == k_device);
  CHECK(y.shape() == Shape{2, 3});
  CHECK(message_of<UnsupportedError>([&] {
          invoke_one(*op, {ones({2})}, {}, {});
        }) == "of_the_third_kind: no kernel for arrays on cpu(0) (float32)");
}

TEST_CASE("Operators without a kernel for a kind of device say which and where", "[operator][kinds]") {
  ThirdDevice device;
  const CallSinkScope scope(&device);
  const NDArray x = there();
  CHECK(message_of<UnsupportedError>([&] {
          (void)(x + x);
        }) == "add: no kernel for arrays on device_2(1) (float32, float32)");
  CHECK(message_of<UnsupportedError>([&] {
          (void)softmax(x);
        }) == "softmax: no kernel for arrays on device_2(1) (float32)");
  CHECK(device.calls.empty());
  CHECK(x.T().device() == k_device);  // views need no kernel
  const NDArray beyond = abstract_array({.shape = {2}, .device = {DeviceKind{200}, 0}});
  CHECK(message_of<UnsupportedError>([&] {
          (void)exp(beyond);
        }) == "exp: no kernel for arrays on device_200(0) (float32)");
}

TEST_CASE("Operators that are there are given kernels for a third kind of device", "[operator][kinds]") {
  register_kernel("sigmoid", k_third, nothing);
  ThirdDevice device;
  const CallSinkScope scope(&device);
  NDArray x = there();
  CHECK(sigmoid(x).device() == k_device);
  CHECK(device.calls == std::vector<std::string>{"sigmoid"});
  CHECK(message_of<ValueError>([] { register_kernel("sigmoid", k_third, nothing); }) != "");
  CHECK(message_of<ValueError>([] {
          register_kernel("sigmoid", DeviceKind::cpu, nothing);
        }) == "register_kernel: sigmoid has a kernel for CPUs already");
  CHECK(message_of<ValueError>([] {
          register_kernel("sigmoid", DeviceKind{3}, nullptr);
        }) == "register_kernel: the kernel of sigmoid for devices of kind 3 is null");
  CHECK(message_of<ValueError>([] {
          register_kernel("sigmoid", DeviceKind{4}, nothing);
        }) == "register_kernel: sigmoid has no place for devices of kind 4, kinds are below 4");
  CHECK(message_of<ValueError>([] { register_kernel("sigmoidal", k_third, nothing); }) != "");
  CHECK(message_of<ValueError>([] {
          register_kernel("reshape", k_third, nothing);
        }).find("is a view") != std::string::npos);
  CHECK(message_of<ValueError>([] {
          register_kernel("sgd_update", k_third, nothing);
        }).find("pushes its tasks") != std::string::npos);
}

TEST_CASE("A kernel that an operator was given runs in place of its composition", "[operator][kinds]") {
  auto op = named("doubled_or_tripled");
  op->composition = doubled;
  register_operator(op);
  const NDArray x = array({1.0F, 2.0F});
  CHECK(invoke_one(*op, {x}, {}, {}).to_vector<float>() == std::vector<float>{2, 4});
  register_kernel("doubled_or_tripled", DeviceKind::cpu, tripled);
  CHECK(invoke_one(*op, {x}, {}, {}).to_vector<float>() == std::vector<float>{3, 6});
}

TEST_CASE("A kernel that an operator was given leaves the gradient of its composition", "[operator][kinds]") {
  auto op = named("doubled_with_a_slope");
  op->composition = doubled;
  register_operator(op);
  register_kernel("doubled_with_a_slope", DeviceKind::cpu, tripled);
  NDArray x = array({1.0F, 2.0F});
  x.attach_grad();
  NDArray y;
  {
    const autograd::RecordScope record;
    y = invoke_one(*op, {x}, {}, {});
    CHECK(invoke_one(*op, {x.detach()}, {}, {}).to_vector<float>() == std::vector<float>{3, 6});
  }
  CHECK(y.to_vector<float>() == std::vector<float>{2, 4});
  y.backward();
  CHECK(x.grad().to_vector<float>() == std::vector<float>{2, 2});
  CHECK(invoke_one(*op, {x}, {}, {}).to_vector<float>() == std::vector<float>{3, 6});  // nobody records
}

TEST_CASE("There is no memory and no task of a kind of device that the engine does not know", "[operator][kinds]") {
  CHECK(
      message_of<DeviceError>([] { (void)ones({2}, {.device = k_device}); }).find("device_2(1)") != std::string::npos);
  CHECK_THROWS_AS(empty({2}, {.device = {k_third, 0}}), DeviceError);
  Task task;
  task.name = "elsewhere";
  task.device = k_device;
  CHECK(message_of<DeviceError>([&] { Engine::current().push(task, [] {}); }).find("device_2(1)") != std::string::npos);
}
