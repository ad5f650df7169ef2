// Operators that a program adds: with a state of their own, seen by inference, kernel and gradient.
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/support/catch.h"

using namespace sluice;

namespace {

/// y = scale * x, followed by `extra` copies of y's last row. Both are the operator's own.
struct Widened : Operator {
  float scale = 1;
  std::int64_t extra = 0;
};

const Widened& widened(const Operator& op) {
  return static_cast<const Widened&>(op);
}

Specs infer_widened(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  ArraySpec spec = inputs[0];
  spec.shape[0] += widened(op).extra;
  return {spec};
}

void widened_cpu(const KernelCall& call) {
  const Widened& op = widened(call.op);
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  for (std::int64_t i = 0; i < y.size; ++i)
    y.as<float>()[i] = op.scale * x.as<float>()[std::min(i, x.size - 1)];
}

Arrays widened_gradient(const GradientCall& call) {
  const Widened& op = widened(call.op);
  return {call.output_grads[0].slice(0, 0, call.input_specs[0].shape[0]) * op.scale};
}

std::shared_ptr<Widened> make_widened(const char* name, float scale, std::int64_t extra) {
  auto op = std::make_shared<Widened>();
  op->name = name;
  op->infer = infer_widened;
  op->kernels = {on_cpu(widened_cpu)};
  op->gradient = widened_gradient;
  op->scale = scale;
  op->extra = extra;
  return op;
}

std::string refused(std::shared_ptr<const Operator> op) {
  try {
    register_operator(std::move(op));
  } catch (const ValueError& error) {
    return error.message();
  }
  return "";
}

}  // namespace

TEST_CASE("a registered operator is found, listed, run and differentiated with its own state", "[operator][registry]") {
  const std::size_t before = operators().size();
  register_operator(make_widened("widened_by_2", 3, 2));
  register_operator(make_widened("widened_by_0", 5, 0));
  const std::vector<const Operator*> all = operators();
  REQUIRE(all.size() == before + 2);
  CHECK(std::is_sorted(
      all.begin(), all.end(), [](const Operator* a, const Operator* b) { return std::string(a->name) < b->name; }));
  const Operator* op = find_operator("widened_by_2");
  REQUIRE(op != nullptr);
  CHECK(std::find(all.begin(), all.end(), op) != all.end());

  NDArray x = array({1.0F, 2.0F, 4.0F});
  x.attach_grad();
  NDArray y;
  {
    const autograd::RecordScope record;
    y = invoke_one(*op, {x}, {}, {});
  }
  CHECK(y.to_vector<float>() == std::vector<float>{3, 6, 12, 12, 12});
  y.backward();
  CHECK(x.grad().to_vector<float>() == std::vector<float>{3, 3, 3});
  CHECK(invoke_one(*find_operator("widened_by_0"), {x}, {}, {}).to_vector<float>() == std::vector<float>{5, 10, 20});
}

TEST_CASE("what cannot be an operator is refused, and nothing of it is kept", "[operator][registry]") {
  const std::size_t before = operators().size();
  CHECK(refused(nullptr) == "register_operator: an operator has no name");
  CHECK(refused(std::make_shared<Operator>()) == "register_operator: an operator has no name");
  CHECK(refused(make_widened("", 1, 0)) == "register_operator: an operator has no name");
  CHECK(refused(make_widened("sum", 1, 0)) == "register_operator: there is an operator sum already");
  const auto with = [](auto change) {
    auto op = make_widened("not_an_operator", 1, 0);
    change(*op);
    return refused(op);
  };
  CHECK(with([](Operator& op) { op.kernels = {}; }).find("no kernel, composition or view") != std::string::npos);
  CHECK(with([](Operator& op) { op.infer = nullptr; }).find("a kernel but no inference") != std::string::npos);
  CHECK(with([](Operator& op) { op.attributes = nullptr; }).find("names no struct of attributes") != std::string::npos);
  CHECK(with([](Operator& op) { op.inputs = -2; }).find("cannot have -2 inputs") != std::string::npos);
  CHECK(with([](Operator& op) { op.outputs = 0; }).find("0 outputs") != std::string::npos);
  CHECK(with([](Operator& op) { op.attributes = nullptr; }) != "");
  CHECK(with([](Operator& op) { op.name = "a=b"; }).find("\"a=b\" is no name") != std::string::npos);
  CHECK(with([](Operator& op) { op.name = "a b"; }) != "");
  CHECK(with([](Operator& op) {
          op.saved_inputs = 0b10;
        }) == "register_operator: not_an_operator's saved_inputs names number 1, from 0 on, of 1");
  CHECK(with([](Operator& op) { op.saved_outputs = 0b100; }).find("saved_outputs") != std::string::npos);
  CHECK(with([](Operator& op) { op.mutated_inputs = 0b100; }).find("mutated_inputs") != std::string::npos);
  CHECK(operators().size() == before);
  CHECK(find_operator("not_an_operator") == nullptr);
  CHECK(find_operator("") == nullptr);
}

TEST_CASE("an operator that gives another number of results than it says is refused by name", "[operator][registry]") {
  const NDArray x = array({1.0F, 2.0F});
  const auto message_of = [&](const Operator& op) {
    try {
      invoke_one(op, {x}, {}, {});
    } catch (const ValueError& error) {
      return error.message();
    }
    return std::string();
  };
  Operator op = *make_widened("of_one", 1, 0);
  op.infer = [](const Operator&, std::span<const ArraySpec>, const Attributes&) { return Specs(); };
  CHECK(message_of(op) == "of_one: inference says 0 results, the operator has 1");
  op.infer = [](const Operator&, std::span<const ArraySpec> in, const Attributes&) { return Specs{in[0], in[0]}; };
  CHECK(message_of(op) == "of_one: inference says 2 results, the operator has 1");
  op.kernels = {};
  op.composition = [](std::span<const NDArray>, const Attributes&, SourceLocation) { return Arrays(); };
  CHECK(message_of(op) == "of_one: its composition made 0 results, the operator has 1");
}

TEST_CASE("an operator of other operators alone refuses in its own words, before any of them", "[operator][registry]") {
  Operator op = *make_widened("of_pairs", 1, 0);
  op.infer = [](const Operator& of, std::span<const ArraySpec> in, const Attributes&) {
    require<ValueError>(
        in[0].shape[0] % 2 == 0, [&] { return message(of.name, ": ", in[0].shape[0], " are no pairs"); });
    return Specs{{{in[0].shape[0] / 2, 2}, in[0].dtype, in[0].device}};
  };
  op.kernels = {};
  op.gradient = nullptr;
  op.composition = [](std::span<const NDArray> in, const Attributes&, SourceLocation) {
    return Arrays{in[0].reshape({-1, 2})};
  };
  CHECK(invoke_one(op, {array({1.0F, 2.0F})}, {}, {}).shape() == Shape{1, 2});
  CHECK_THROWS_WITH(
      invoke_one(op, {array({1.0F, 2.0F, 4.0F})}, {}, {}), sluice::test::contains("of_pairs: 3 are no pairs"));
}

TEST_CASE("what an operator's author forgot to keep, and a type that there is not, are said", "[operator][registry]") {
  auto op = *make_widened("forgetful", 1, 0);
  op.gradient = [](const GradientCall& call) { return Arrays{call.output_grads[0] * call.inputs[0]}; };
  NDArray x = array({1.0F, 2.0F});
  x.attach_grad();
  NDArray y;
  {
    const autograd::RecordScope record;
    y = invoke_one(op, {x}, {}, {});
  }
  CHECK_THROWS_WITH(
      y.backward(),
      sluice::test::contains("undefined NDArray") && sluice::test::contains("in the gradient of forgetful") &&
          sluice::test::contains("saved_inputs"));
  op.infer = [](const Operator&, std::span<const ArraySpec> in, const Attributes&) {
    return Specs{{in[0].shape, static_cast<DType>(99)}};
  };
  CHECK_THROWS_WITH(invoke_one(op, {x}, {}, {}), "forgetful: DType(99) is no element type");
  const ArraySpec spec{{2}};
  CHECK_THROWS_AS(infer(op, {&spec, 1}, {}), DTypeError);
}

TEST_CASE("operators are registered and looked for by several threads at once", "[operator][registry][concurrent]") {
  constexpr int k_threads = 4, k_each = 25;
  static std::vector<std::string> names;  // an operator's name lives as long as the operator
  for (int i = 0; i < k_threads * k_each; ++i)
    names.push_back("of_a_thread_" + std::to_string(i));
  std::atomic<int> unseen{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < k_threads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < k_each; ++i) {
        const std::string& name = names[static_cast<std::size_t>(t * k_each + i)];
        register_operator(make_widened(name.c_str(), 1, 0));
        unseen += find_operator(name) == nullptr || find_operator("sum") == nullptr ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  CHECK(unseen == 0);
  for (const std::string& name : names)
    CHECK(find_operator(name) != nullptr);
}

TEST_CASE("NumPy's names of operators that are called otherwise lead to them", "[operator][registry]") {
  for (const auto& [name, own] :
       {std::pair{"remainder", "mod"},
        {"var", "variance"},
        {"std", "standard_deviation"},
        {"absolute", "abs"},
        {"amin", "min"},
        {"true_divide", "divide"},
        {"rint", "round"}}) {
    CAPTURE(name);
    CHECK(find_operator(name) == find_operator(own));
    CHECK(find_operator(own) != nullptr);
  }
  CHECK(refused(make_widened("remainder", 1, 0)).find("remainder") != std::string::npos);
}
