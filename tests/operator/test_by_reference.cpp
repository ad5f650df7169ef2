// What changes from run to run of one call is read from memory when it runs: the numbers of an optimizer's step and the
// state of random numbers. And no attribute holds an extent of a batch.
#include <string>
#include <vector>

#include <sluice/engine/region.h>
#include <sluice/operator/api.h>
#include <sluice/operator/update/corrections.h>

#include "tests/operator/rule_references.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/sinks.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using List = std::vector<NDArray>;

NDArray in_memory(const std::vector<double>& numbers, Device device) {
  return array(numbers, {static_cast<std::int64_t>(numbers.size())}, device);
}

NDArray state_of(const RandomBlock& block, Device device) {
  return array<std::int64_t>(
      {static_cast<std::int64_t>(block.seed), static_cast<std::int64_t>(block.offset)}, {2}, device);
}

void check_updates(Device device) {
  const ArrayOptions there{.device = device};
  const auto start = [&] { return List{ones({3}, there), full({2}, 2.0, there)}; };
  const List grads = {full({3}, 0.5, there), full({2}, 0.25, there)};
  const auto state = [&] { return List{zeros({3}, there), zeros({2}, there)}; };
  const auto values = [](const List& w) { return concat({w[0], w[1]}).to_vector<float>(); };
  AdamUpdate adam{.learning_rate = 0.1, .rescale_grad = 0.5, .learning_rate_multipliers = {1, 2}};
  const List w1 = start(), w2 = start(), m1 = state(), m2 = state(), v1 = state(), v2 = state();
  const NDArray numbers = zeros({3}, {.dtype = float64, .device = device});
  for (std::int64_t step = 1; step <= 3; ++step) {
    adam.steps = {step, step + 1};
    adam.learning_rate = 0.1 / static_cast<double>(step);
    adam_update(w1, grads, m1, v1, adam);
    copy_into(in_memory(update_numbers(adam), device), numbers);
    adam_update(w2, grads, m2, v2, {.learning_rate_multipliers = {1, 2}, .numbers = numbers});
    CHECK(values(w2) == values(w1));
  }
  SgdUpdate sgd{.learning_rate = 0.1, .momentum = 0.5, .rescale_grad = 2};
  sgd_update(w1, grads, m1, sgd);
  sgd_update(w2, grads, m2, {.momentum = 0.5, .numbers = in_memory(update_numbers(sgd, 2), device)});
  CHECK(values(w2) == values(w1));
  CHECK_THROWS_AS(sgd_update(w2, grads, m2, {.momentum = 0.5, .numbers = ones({3}, there)}), DTypeError);
  CHECK_THROWS_AS(sgd_update(w2, grads, m2, {.momentum = 0.5, .numbers = in_memory({1, 2}, device)}), ShapeError);
}

// A step that a region records, beside the same steps pushed one by one: with numbers in memory the rates of each run
// count; without, those of the recording would (as Region says of scalars), so that the test can tell.
void check_replayed_update(bool by_reference) {
  const ArrayOptions there{.device = gpu()};
  const auto of = [&](double value) { return List{full({5}, value, there)}; };
  const List grads = of(0.5), w1 = of(1), m1 = of(0), v1 = of(0), w2 = of(1), m2 = of(0), v2 = of(0);
  const NDArray numbers = zeros({2}, {.dtype = float64, .device = gpu()});
  Region region(Engine::current(), gpu(0), "adam");
  for (std::int64_t step = 1; step <= 4; ++step) {
    AdamUpdate adam{.learning_rate = 0.1 / static_cast<double>(step * step), .rescale_grad = 1.0 / step};
    adam.steps = {step};
    adam_update(w1, grads, m1, v1, adam);
    copy_into(in_memory(update_numbers(adam), gpu()), numbers);
    if (by_reference)
      adam = {.numbers = numbers};
    region.run(0, [&] { adam_update(w2, grads, m2, v2, adam); });
    CHECK((w2[0].to_vector<float>() == w1[0].to_vector<float>()) == (by_reference || step == 1));
  }
  CHECK(region.counts().captured == 1);
  CHECK(region.counts().launched == 4);
}

void check_random(Device device) {
  Storage::of(Engine::current()).pool(device).trim();  // one engine's cache is none for another
  Engine engine({.seed = 11});
  const EngineScope scope(engine);
  for (const char* name : {"random_uniform", "random_normal", "random_bernoulli", "random_randint"}) {
    CAPTURE(name);
    const Operator& op = *find_operator(name);
    const bool whole = std::string(name) == "random_randint";
    const auto attributes = parse_attributes(
        op,
        message(
            "shape=(37,), dtype=",
            whole ? "int32" : "float32",
            ", device=",
            device.is_gpu() ? "gpu(0)" : "cpu(0)",
            ", first=",
            whole ? "0" : "0.25",
            ", second=",
            whole ? "100" : "0.5"));
    const RandomBlock before = engine.random_state();
    const auto drawn = invoke_one(op, {}, attributes, {}).to_vector<double>();
    const RandomBlock after = engine.random_state();
    CHECK(after.offset > before.offset);
    const NDArray state = state_of(before, device);
    CHECK(invoke_one(op, {state}, attributes, {}).to_vector<double>() == drawn);
    // Another state in the same memory, another run: other numbers, and the engine's are left alone.
    copy_into(state_of(after, device), state);
    CHECK(invoke_one(op, {state}, attributes, {}).to_vector<double>() != drawn);
    CHECK(engine.random_state().offset == after.offset);
    CHECK_THROWS_AS(invoke_one(op, {ones({2}, {.device = device})}, attributes, {}), DTypeError);
    CHECK_THROWS_AS(invoke_one(op, {zeros({3}, {.dtype = int64, .device = device})}, attributes, {}), ShapeError);
  }
}

void check_dropout(Device device) {
  NDArray x = ones({100}, {.device = device});
  x.attach_grad();
  const Operator& op = *find_operator("dropout");
  const NDArray state = state_of({5, 1000}, device);
  std::vector<float> first;
  for (const std::uint64_t offset : {1000, 2000}) {
    copy_into(state_of({5, offset}, device), state);
    const NDArray inputs[] = {x, state};
    Arrays made;
    {
      const autograd::RecordScope record;
      made = invoke(op, inputs, parse_attributes(op, "rate=0.5"), {});
    }
    copy_into(state_of({5, 1}, device), state);  // backward has what forward used
    made[0].backward();
    const auto y = made[0].to_vector<float>();
    CHECK(x.grad().to_vector<float>() == y);
    CHECK(made[1].to_vector<std::int64_t>() == std::vector<std::int64_t>{5, static_cast<std::int64_t>(offset)});
    CHECK(y != first);
    first = y;
  }
}

// The calls of forward and backward of a network with `batch` samples, without shapes of arrays.
std::vector<std::string> attributes_of_step(std::int64_t batch) {
  struct Names : CallSink {
    std::vector<std::string> calls;
    Arrays take(const OperatorCall& call) override {
      calls.push_back(message(call.op.name, " ", to_string(call.attributes)));
      return abstract_results(call);
    }
  };
  Names sink;
  const CallSinkScope taken(&sink);
  const auto variable = [](const Shape& shape) {
    NDArray made = abstract_array({shape, float32, cpu()});
    made.attach_grad();
    return made;
  };
  const NDArray labels = abstract_array({{batch}, int32, cpu()});
  NDArray x = variable({batch, 2, 8, 8}), kernel = variable({4, 2, 3, 3}), weight = variable({10, 6});
  const autograd::RecordScope record;
  const NDArray planes = max_pool2d(relu(convolution(x, kernel, {})));
  const NDArray hidden = dropout(avg_pool2d(planes, {.kernel = {2, 2}, .stride = {1, 1}}), 0.5);
  const NDArray scores =
      dense(hidden.slice(2, 0, 1).transpose({0, 1, 3, 2}).contiguous().flatten().slice(1, 0, 6), weight, {});
  const NDArray taken_scores = pick(log_softmax(scores), labels) + negative_log_likelihood(log_softmax(scores), labels);
  const NDArray heads[] = {softmax_cross_entropy(scores, labels), taken_scores.expand_dims(1).squeeze(1)};
  autograd::backward(heads);
  return sink.calls;
}

}  // namespace

TEST_CASE("Steps read learning rates and rescaling from memory where they are given there", "[reference]") {
  check_updates(cpu());
}
TEST_CASE("Steps on a GPU read learning rates and rescaling from its memory", "[reference][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_updates(gpu());
}

namespace {

// Numbers of a late step times what corrects them on a device are those of the steps.
template <class Rule>
void check_corrections(const Rule& rule) {
  UpdateOptions late{.learning_rate = 0.5}, now = late;
  late.steps.assign(6, k_late_step);  // as many parameters as rules have flags
  now.steps = {1, 7, 400, 2, 1, 30};
  const NDArray corrections = step_corrections(rule, array(now.steps, {6}).astype(float64), SourceLocation::current());
  REQUIRE(corrections.defined() == corrects_steps(rule));
  std::vector<double> made = update_numbers(rule, late, 6);
  const std::vector<double> by =
      corrections.defined() ? corrections.to_vector<double>() : std::vector<double>(made.size() - 1, 1);
  REQUIRE(by.size() + 1 == made.size());
  for (std::size_t i = 0; i < by.size(); ++i)
    made[i] *= by[i];
  const std::vector<double> wanted = update_numbers(rule, now, 6);
  CHECK(differences(in_memory(made, cpu()), in_memory(wanted, cpu()), {1e-12, 0}) == "");
}

}  // namespace

TEST_CASE("Rates that a device corrects are those of the steps, of every rule", "[update]") {
  each_rule([](const char* name, const auto& rule) {
    INFO(name);
    check_corrections(rule);
  });
}

TEST_CASE("A step that a region replays takes the learning rate and number of each run", "[reference][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_replayed_update(true);
  check_replayed_update(false);
}

TEST_CASE("Random numbers are drawn from a state in memory where a call brings one", "[reference]") {
  check_random(cpu());
}
TEST_CASE("Random numbers of a GPU are drawn from a state in its memory", "[reference][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_random(gpu());
}

TEST_CASE("Dropout notes the state that it drew from, and its gradient reads that", "[reference]") {
  check_dropout(cpu());
}
TEST_CASE("Dropout on a GPU notes the state that it drew from", "[reference][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_dropout(gpu());
}

TEST_CASE("A sink that runs dropout itself leaves its gradient the right mask", "[reference]") {
  NDArray x = ones({64});
  x.attach_grad();
  NDArray y;
  RunningSink sink;
  {
    const CallSinkScope taken(&sink);
    const autograd::RecordScope record;
    y = dropout(x, 0.5);
  }
  y.backward();
  CHECK(x.grad().to_vector<float>() == y.to_vector<float>());
}

TEST_CASE("No attribute of a training step depends on the number of samples", "[reference]") {
  CHECK(attributes_of_step(2) == attributes_of_step(7));
}

TEST_CASE("max_pool2d gives the same whether it is recorded or not", "[reference]") {
  NDArray x = random_array({1, 1, 4, 4}, 3);
  x.attach_grad();
  const Operator& op = *find_operator("max_pool2d");
  const Attributes how = parse_attributes(op, "");
  const Arrays plain = invoke(op, {&x, 1}, how, {});
  const autograd::RecordScope record;
  const Arrays recorded = invoke(op, {&x, 1}, how, {});
  REQUIRE(plain.size() == recorded.size());
  for (std::size_t i = 0; i < plain.size(); ++i)
    CHECK(differences(plain[i], recorded[i]) == "");
}
