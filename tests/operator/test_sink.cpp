// The seam of invoke(): what a sink is given, arrays without memory, and inference against what is run.
#include <deque>
#include <filesystem>
#include <optional>
#include <sstream>
#include <thread>

#include <sluice/ndarray/detail/array_object.h>

#include "tests/operator/elementwise_rows.h"
#include "tests/operator/every_case.h"
#include "tests/operator/random_and_update_calls.h"
#include "tests/operator/reduction_rows.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/sinks.h"

using namespace sluice;
using namespace sluice::test;

namespace {

// Other tests of this program register some of their own.
const std::vector<const Operator*> k_built_in = operators();

NDArray abstract(const Shape& shape, DType dtype = float32) {
  return abstract_array({shape, dtype, cpu()});
}

struct Node {
  std::string name;
  std::vector<std::uint64_t> inputs, outputs;
  std::string attributes;
  bool recorded = false;
  SourceLocation site;
};

/// Makes a graph of calls that are not run.
class Graph : public CallSink {
 public:
  Arrays take(const OperatorCall& call) override {
    Node& node = nodes.emplace_back(Node{call.op.name, {}, {}, to_string(call.attributes), call.recorded, call.site});
    for (const NDArray& input : call.inputs)
      node.inputs.push_back(abstract_value(input));
    const Arrays made = abstract_results(call);
    for (const NDArray& output : made)
      node.outputs.push_back(abstract_value(output));
    return made;
  }
  std::deque<Node> nodes;
};

void call_fused_reduction(const NDArray& a) {
  const NamedValue taken_in[] = {
      {"program", std::string("float32; %1 = relu(%0) float32; -> %1")},
      {"reduction", std::string("sum")},
      {"axes", std::vector<std::int64_t>{1}}};
  const Operator& op = *find_operator("fused_reduction");
  invoke(op, {&a, 1}, make_attributes(op, taken_in), {});
}

// What is taken in parts where gradients are recorded.
void call_for_places(const NDArray& a, const NDArray& index) {
  argmax(a, 1);
  argmin(a, 0, true);
  one_hot(index, 5);
  diff(a);
  argsort(a);
  searchsorted(a, a);
  bincount(index, 3);
}

void call_what_plans_call(const NDArray& a) {
  const auto call = [](const char* name, const Arrays& inputs, const char* attributes) {
    const Operator& op = *find_operator(name);
    invoke(op, inputs, parse_attributes(op, attributes), {});
  };
  call("matmul_relu_backward", {a, ones({4, 2}), ones({3, 2})}, "transpose_a=false, transpose_b=false");
  call("softmax_cross_entropy_both", {a, zeros({3}, {.dtype = int32}), ones({3})}, "axis=1");
  call("dense_backward_bias", {a}, "");
  for (const char* op : {"gelu_backward_bias", "gelu_tanh_backward_bias", "silu_backward_bias"})
    call(op, {a, a}, "");
  call(
      "convolution_fused",
      {ones({1, 2, 3, 3}), ones({4, 2, 3, 3}), ones({4}), ones({4}), ones({1, 4, 1, 1})},
      "stride=(1, 1), pad=(0, 0), dilation=(1, 1), groups=1, scale=true, shift=true, residual=true, relu=true");
  const NDArray image = ones({2, 3, 2, 2}), three = ones({3});
  const char* const how = "eps=0.001, momentum=0.9, axis=1, fix_gamma=false, batch_stats=true";
  call("batch_norm_relu", {image, three, three, three.copy(), three.copy(), image}, how);
  call("batch_norm_relu_backward", {image, image, three, three, three, three}, how);
  call("batch_norm_add_relu_backward", {image, image, three, three, three, image, image}, how);
  const NDArray of_rows = ones({3});
  call("add_layer_norm", {a, a, ones({4}), ones({4})}, "axis=1");
  call("add_rms_norm", {a, a, ones({4})}, "axis=1");
  call("add_layer_norm_backward", {a, a, ones({4}), of_rows, of_rows, a}, "axis=1");
  call("add_rms_norm_backward", {a, a, ones({4}), of_rows, a}, "axis=1");
  call("batch_norm_fold", {ones({3}), ones({3}), ones({3}), ones({3})}, "eps=0.001, fix_gamma=false");
}

void call_plain_cases(Device device) {
  for (const PlainCase& c : every_plain_case()) {
    for (const DType dtype : {float32, int32}) {
      Arrays inputs;
      for (const auto& [shape, own] : c.inputs)
        inputs.push_back(random_array(shape, 3 + inputs.size(), c.low, c.high, own.value_or(dtype)).to(device));
      try {
        c.f(inputs, dtype);
      } catch (const Error&) {  // not of this type
      }
    }
  }
}

// A call of every operator that differentiable_cases.h does not reach, forward or backward.
void call_the_rest(Device device) {
  const ArrayOptions there{.device = device};
  const NDArray a = ones({3, 4}, there), b = full({3, 4}, 2, there);
  for (const UnaryCase& row : unary_cases())
    row(a);
  for (const BinaryCase& row : binary_cases()) {
    row(a, b);
    row(a, 2);
    row(2, a);
  }
  const NDArray bits = a.astype(int32);
  for (const UnaryCase& row : rows_of(all_unary_cases(), true))
    row(bits);
  for (const BinaryCase& row : rows_of(all_binary_cases(), true)) {
    row(bits, bits);
    row(bits, 2);
    row(2, bits);
  }
  const NDArray index = zeros({3}, {.dtype = int32, .device = device});
  for (const ReductionCase& row : reduction_cases())
    row.run(a, {1}, false);
  call_for_places(a, index);
  const autograd::TrainScope train;
  invoke_one(*find_operator("detach"), {a}, {}, SourceLocation::current());
  arange(0, 5, 1, there);
  fill(a, 3);
  a.assign(a.T().copy().T());
  copy_into(a, zeros({3, 4}, {.dtype = float64, .device = device}));
  invoke_one(*find_operator("to"), {a}, make_attributes(*find_operator("to"), {}), {});
  const NamedValue program{
      "program", std::string("float32; %1 = relu(%0) float32; %2 = greater(%1, %0) bool; -> %1, %2")};
  invoke(*find_operator("fused"), {&a, 1}, make_attributes(*find_operator("fused"), {&program, 1}), {});
  call_fused_reduction(a);
  call_random_and_updates(device);
  const NamedValue words[] = {{"words", std::vector<std::int64_t>{4, 5}}, {"shape", std::vector<std::int64_t>{2}}};
  invoke(*find_operator("words"), {}, make_attributes(*find_operator("words"), words), {});
  call_plain_cases(device);
  call_what_plans_call(a);
}

// Forward, backward, and backward of that.
void run_case(const DifferentiableCase& c, const std::vector<NDArray>& inputs) {
  std::vector<NDArray> variables = inputs;
  for (NDArray& variable : variables)
    variable.attach_grad();
  std::vector<NDArray> first;
  {
    const autograd::RecordScope record;
    const NDArray y = c.f(variables);
    first = autograd::grad({&y, 1}, variables, {}, {.create_graph = true});
  }
  std::vector<NDArray> on_tape;
  for (const NDArray& gradient : first) {
    if (autograd::on_tape(gradient))
      on_tape.push_back(gradient);
  }
  if (!on_tape.empty())
    autograd::backward(on_tape);
  const autograd::RecordScope record;
  c.f(variables).backward();
}

}  // namespace

TEST_CASE("A sink is given what a graph needs, and nothing runs", "[sink]") {
  Engine engine({.workers = 1});
  const EngineScope scope(engine);
  const NDArray labels = array<std::int32_t>({1, 0});
  engine.wait_all();
  const auto before = engine.counters().pushed;
  Graph graph;
  const CallSinkScope taken(&graph);
  NDArray x = abstract({2, 3}), weight = abstract({4, 3}), bias = abstract({4});
  weight.attach_grad();
  graph.nodes.clear();
  NDArray loss;
  int line = 0;
  {
    const autograd::RecordScope record;
    const NDArray hidden = relu(dense(x, weight, bias));
    line = __LINE__ - 1;
    loss = softmax_cross_entropy(hidden, labels);
  }
  CHECK(engine.counters().pushed == before);
  REQUIRE(graph.nodes.size() == 3);
  const Node &dense = graph.nodes[0], &relu = graph.nodes[1], &entropy = graph.nodes[2];
  CHECK(dense.name == "dense");
  CHECK(dense.inputs == std::vector{abstract_value(x), abstract_value(weight), abstract_value(bias)});
  CHECK(dense.attributes == "flatten=true, relu=false");
  CHECK(dense.recorded);
  CHECK(dense.site.line == line);
  CHECK(relu.name == "relu");
  CHECK(relu.inputs == dense.outputs);
  CHECK(entropy.name == "softmax_cross_entropy");
  CHECK(entropy.inputs == std::vector{relu.outputs[0], std::uint64_t{0}});
  CHECK(entropy.outputs.size() == 2);
  CHECK(loss.shape() == Shape{2});

  // The tape was kept: gradients are calls too, on the values that forward gave.
  const std::size_t forward = graph.nodes.size();
  loss.backward();
  REQUIRE(graph.nodes.size() > forward + 3);
  CHECK(graph.nodes[forward].name == "fill");
  CHECK(graph.nodes[forward + 1].name == "softmax_cross_entropy_backward");
  CHECK(graph.nodes[forward + 1].inputs[0] == relu.outputs[0]);
  CHECK(graph.nodes[forward + 1].inputs[2] == entropy.outputs[1]);
  CHECK(graph.nodes.back().name == "copy");  // into the gradient
  CHECK(engine.counters().pushed == before);
}

TEST_CASE("Inference says what every operator gives", "[sink]") {
  RunningSink sink;
  {
    const CallSinkScope taken(&sink);
    for (const DifferentiableCase& c : every_differentiable_case()) {
      std::vector<NDArray> inputs;
      for (const Shape& shape : c.shapes)
        inputs.push_back(full(shape, 0.5 * (c.low + c.high) + 0.125 * (c.high - c.low)));
      run_case(c, inputs);
    }
    call_the_rest(cpu());
  }
  CHECK(sink.wrong == std::vector<std::string>());
  std::string missing;
  for (const Operator* op : k_built_in) {
    CHECK((op->infer != nullptr || op->view != nullptr));
    if (sink.names.count(op->name) == 0)
      missing += message(missing.empty() ? "" : ", ", op->name);
  }
  CHECK(missing == "");
}

TEST_CASE("A program makes the same calls on arrays without memory as on arrays with", "[sink]") {
  for (const DifferentiableCase& c : every_differentiable_case()) {
    CAPTURE(c.name);
    std::vector<NDArray> real, none;
    for (const Shape& shape : c.shapes) {
      real.push_back(full(shape, 0.5 * (c.low + c.high)));
      none.push_back(abstract(shape));
    }
    RunningSink running;
    {
      const CallSinkScope taken(&running);
      run_case(c, real);
    }
    AbstractSink sink;
    {
      const CallSinkScope taken(&sink);
      run_case(c, none);
    }
    CHECK(sink.calls == running.calls);
  }
}

TEST_CASE("Arrays without memory say so wherever data is looked at", "[sink]") {
  const NDArray x = abstract({2, 3}), real = ones({2, 3}), one = abstract({});
  const auto says = sluice::test::contains("no memory");
  CHECK_THROWS_WITH(one.item<float>(), says && sluice::test::contains("item"));
  CHECK_THROWS_WITH(x.to_vector<float>(), says);
  CHECK_THROWS_WITH(x.to_string(), says);
  CHECK_THROWS_WITH(std::ostringstream() << x, says);
  CHECK_THROWS_WITH(x.wait_to_read(), says);
  CHECK_THROWS_WITH(x.wait_to_write(), says);
  CHECK_THROWS_WITH(x.object()->data(), says);
  CHECK_THROWS_WITH(copy_into(x, real), says);
  CHECK_THROWS_WITH(copy_into(real, x), says);
  CHECK_THROWS_WITH(fill(x, 1), says);
  CHECK_THROWS_WITH(x.assign(real), says);
  CHECK_THROWS_WITH(real.assign(x), says);
  CHECK_THROWS_WITH(x + real, says && sluice::test::contains("add"));
  CHECK_THROWS_WITH(real + x, says);
  CHECK_THROWS_WITH(x.astype(float64), says);
  CHECK_THROWS_WITH(batch_norm(ones({2, 3}), ones({3}), ones({3}), abstract({3}), ones({3})), says);
  const std::vector<NDArray> w = {real}, none = {x};
  CHECK_THROWS_WITH(sgd_update(none, w, {}, {}), says);
  CHECK_THROWS_WITH(sgd_update(w, none, {}, {}), says);
  CHECK_THROWS_WITH(save(std::filesystem::temp_directory_path() / "abstract.npz", {{"x", x}}), says);
  NDArray into = real.copy();
  CHECK_THROWS_WITH(into += x, says);
  // Shapes, types, views are known without.
  CHECK(x.T().shape() == Shape{3, 2});
  CHECK(x.slice(1, 0, -1).strides() == Shape{3, 1});
  CHECK(x.T().expand_dims(1).squeeze(1).T().reshape({-1}).shape() == Shape{6});
  CHECK(zeros_like(x).to_vector<float>() == std::vector<float>(6, 0));
  CHECK(abstract_value(x) != 0);
  CHECK(abstract_value(x.detach()) == abstract_value(x));
  CHECK(abstract_value(real) == 0);
}

TEST_CASE("A sink's results are checked, its errors reach the caller, and its scope ends", "[sink]") {
  struct Given : CallSink {
    std::optional<NDArray> result;
    Arrays take(const OperatorCall&) override {
      if (!result)
        throw UnsupportedError("not taken");
      return {*result};
    }
  };
  Given sink;
  const NDArray x = ones({2}), inputs[] = {x, x}, to[] = {zeros({3}), zeros({2}, {.dtype = int32})};
  {
    const CallSinkScope taken(&sink);
    CHECK_THROWS_AS(x + x, UnsupportedError);
  }
  sink.result = zeros({3});
  {
    const CallSinkScope taken(&sink);
    CHECK_THROWS_WITH(x + x, sluice::test::contains("add") && sluice::test::contains("(3,)"));
    sink.result = NDArray();
    CHECK_THROWS_AS(x + x, ValueError);
    for (const NDArray& wrong : to)
      CHECK_THROWS_WITH(
          invoke(*find_operator("add"), inputs, {}, SourceLocation::current(), {&wrong, 1}),
          sluice::test::contains("add"));
    {
      const CallSinkScope nobody(nullptr);
      CHECK((x + x).to_vector<float>() == std::vector<float>{2, 2});
    }
    std::vector<float> elsewhere;
    std::thread([&] { elsewhere = (x + x).to_vector<float>(); }).join();
    CHECK(elsewhere == std::vector<float>{2, 2});
    CHECK_THROWS_AS(x + x, ValueError);
  }
  CHECK((x + x).to_vector<float>() == std::vector<float>{2, 2});
}

TEST_CASE("An update of any number of arrays says which of them it writes", "[sink]") {
  struct Written : CallSink {
    std::vector<bool> written;
    Arrays take(const OperatorCall& call) override {
      for (std::size_t i = 0; i < call.inputs.size(); ++i)
        written.push_back(call.mutates(i));
      return {};
    }
  };
  Written sink;
  std::vector<NDArray> w, g, m;
  for (int i = 0; i < 40; ++i) {
    w.push_back(ones({2}));
    g.push_back(ones({2}));
    m.push_back(zeros({2}));
  }
  {
    const CallSinkScope taken(&sink);
    sgd_update(w, g, m, {.momentum = 0.9});
  }
  std::vector<bool> wanted(120, true);
  std::fill(wanted.begin() + 40, wanted.begin() + 80, false);
  CHECK(sink.written == wanted);
  CHECK(w[39].to_vector<float>() == std::vector<float>{1, 1});
  // Masters too, which the half weight alone has, but not a guard behind them.
  sink.written.clear();
  const ArrayOptions half{.dtype = bfloat16};
  const std::vector<NDArray> mixed{ones({2}, half), ones({3})}, grads{ones({2}, half), ones({3})}, masters{zeros({2})};
  const NDArray guard = gradient_guard(grads, {});
  {
    const CallSinkScope taken(&sink);
    optimizer_update(update_rules::Sgd{}, mixed, grads, {}, {.masters = masters, .guard = guard});
  }
  CHECK(sink.written == std::vector<bool>{true, true, false, false, true, false});
}

TEST_CASE("A sink takes the calls of the body that it was opened in, not of tasks that run on top of it") {
  for (const CpuMode mode : {CpuMode::serial, CpuMode::chaos}) {
    Engine engine({.cpu_policy = mode});
    const EngineScope scope(engine);
    const NDArray a = ones({3});
    AbstractSink outside, inside;
    const CallSinkScope taken(&outside);
    engine
        .push(
            {.name = "body"},
            [&] {
              CHECK((a + a).to_vector<float>() == std::vector<float>(3, 2.0F));
              const CallSinkScope own(&inside);
              (void)(a * a);
              engine.push({.name = "child"}, [&] { CHECK((a - a).to_vector<float>() == std::vector<float>(3, 0.0F)); })
                  .wait();
              (void)(a * a);
            })
        .wait();
    (void)(a / a);
    CHECK(outside.calls.size() == 1);
    CHECK(inside.calls.size() == 2);
  }
}
