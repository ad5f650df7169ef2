// Which recurrent layers go to kernels that keep weights in registers, and that they give there what they give
// elsewhere.
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tests/operator/recurrent_cases.h"
#include "tests/operator/traced.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
using sluice::detail::RnnProblem;

namespace {

constexpr int k_hopper = 90, k_processors = 132;

RnnProblem problem_of(const RecurrentCase& c, DType dtype = float16) {
  return {
      .mode = c.how.mode,
      .dtype = dtype,
      .steps = c.steps,
      .batch = c.batch,
      .input = c.input,
      .hidden = c.how.hidden_size,
      .layers = c.how.num_layers,
      .directions = c.how.bidirectional ? 2 : 1};
}

/// At the limits, within them.
std::vector<RecurrentCase> cases_within() {
  return {
      {{RnnMode::lstm, 128}, 1, 8, 128},
      {{RnnMode::lstm, 128}, 20, 128, 128},
      {{RnnMode::lstm, 256}, 20, 16, 384},
      {{RnnMode::lstm, 512}, 35, 64, 512},
      {{RnnMode::lstm, 1024}, 6, 128, 128},
      {{RnnMode::lstm, 1024}, 6, 8, 256, false},
      {{RnnMode::rnn_tanh, 128}, 20, 128, 128},
      {{RnnMode::rnn_tanh, 1024}, 6, 88, 128},
      {{RnnMode::rnn_relu, 768}, 3, 128, 128},
  };
}
/// One past each limit.
std::vector<RecurrentCase> cases_beyond() {
  return {
      {{RnnMode::lstm, 129}, 6, 8, 128},
      {{RnnMode::lstm, 120}, 6, 8, 128},
      {{RnnMode::lstm, 1152}, 3, 8, 128},
      {{RnnMode::lstm, 128}, 6, 8, 129},
      {{RnnMode::lstm, 128}, 6, 8, 64},
      {{RnnMode::lstm, 128}, 6, 9, 128},
      {{RnnMode::lstm, 128}, 6, 136, 128},
      {{RnnMode::lstm, 128, 2}, 6, 8, 128},
      {{RnnMode::lstm, 128, 1, true}, 6, 8, 128},
      {{RnnMode::gru, 128}, 6, 8, 128},
      {{RnnMode::rnn_tanh, 896}, 3, 96, 128},
      {{RnnMode::rnn_relu, 1024}, 3, 96, 128},
  };
}

#if SLUICE_CUDA
/// In float16, so that gates are neither open nor shut.
std::vector<NDArray> inputs_of(const RecurrentCase& c) {
  std::vector<NDArray> inputs = c.inputs(float32);
  inputs[1] = inputs[1] * (1.5 / std::sqrt(static_cast<double>(c.how.hidden_size)));
  for (NDArray& input : inputs)
    input = input.astype(float16);
  return inputs;
}

std::vector<NDArray> changed(const std::vector<NDArray>& inputs, const std::function<NDArray(const NDArray&)>& change) {
  std::vector<NDArray> all;
  for (const NDArray& input : inputs)
    all.push_back(change(input));
  return all;
}

// Results and gradients beside the CPU's in float32.
void check_values(const RecurrentCase& c) {
  CAPTURE(c.name(), c.input);
  const auto network = [&](const auto& in) { return call_rnn(c, in); };
  const std::vector<NDArray> inputs = inputs_of(c);
  const Arrays want = outcome(network, changed(inputs, [](const NDArray& x) { return x.astype(float32); }));
  const Arrays got = outcome(network, changed(inputs, [](const NDArray& x) { return x.to(gpu()); }));
  const std::size_t compared = has_kinks(c, float16) ? results_of(c) : want.size();
  for (std::size_t i = 0; i < compared; ++i) {
    CAPTURE(i);
    CHECK(differences(got[i].astype(float32).to(cpu()), want[i], sums_tolerance(float16, want[i])) == "");
  }
}

void check_bits(const Arrays& got, const Arrays& want) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    CHECK(differences(got[i].to(cpu()), want[i].to(cpu()), {0, 0}) == "");
}
#endif

}  // namespace

TEST_CASE("Weights are kept in registers within limits of sizes, types and GPUs, and not one past them", "[rnn]") {
  using sluice::detail::suits_persistent_kernels;
  for (const RecurrentCase& c : cases_within()) {
    CAPTURE(c.name(), c.input);
    const RnnProblem p = problem_of(c);
    CHECK(suits_persistent_kernels(p, k_hopper, k_processors));
    CHECK(suits_persistent_kernels(p, 80, 98));
    CHECK_FALSE(suits_persistent_kernels(p, 80, 97));
    CHECK_FALSE(suits_persistent_kernels(p, 75, k_processors));
    CHECK_FALSE(suits_persistent_kernels(p, 86, k_processors));
    for (const DType dtype : {float32, float64, bfloat16})
      CHECK_FALSE(suits_persistent_kernels(problem_of(c, dtype), k_hopper, k_processors));
  }
  for (const RecurrentCase& c : cases_beyond()) {
    CAPTURE(c.name(), c.input);
    CHECK_FALSE(suits_persistent_kernels(problem_of(c), k_hopper, k_processors));
  }
}

#if SLUICE_CUDA
#define SLUICE_NEEDS_ROOM()                                                         \
  do {                                                                              \
    if (!sluice::detail::rnn_asks_persistent(gpu(), problem_of(cases_within()[0]))) \
      SLUICE_SKIP("needs a GPU of 8.0 or later with 98 processors");                \
  } while (false)

TEST_CASE(
    "cuDNN keeps weights in registers where it is asked to, and there alone", "[rnn][persistent][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  SLUICE_NEEDS_ROOM();
  for (const RecurrentCase& c : cases_within()) {
    CAPTURE(c.name(), c.input);
    CHECK(sluice::detail::rnn_is_persistent(gpu(), problem_of(c)));
  }
  for (const RecurrentCase& c : cases_beyond()) {
    CAPTURE(c.name(), c.input);
    CHECK_FALSE(sluice::detail::rnn_is_persistent(gpu(), problem_of(c)));
  }
}

TEST_CASE(
    "Layers whose weights stay in registers are the CPU's, and so are those one past the limits",
    "[rnn][persistent][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  SLUICE_NEEDS_ROOM();
  for (const RecurrentCase& c : cases_within())
    check_values(c);
  for (const RecurrentCase& c : cases_beyond())
    check_values(c);
}

TEST_CASE(
    "Layers whose weights stay in registers have the same bits whenever they run, and in a plan",
    "[rnn][persistent][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  SLUICE_NEEDS_ROOM();
  for (const RecurrentCase& c :
       {RecurrentCase{{RnnMode::lstm, 512}, 35, 64, 512}, {{RnnMode::rnn_tanh, 256}, 9, 16, 128}}) {
    CAPTURE(c.name());
    const auto network = [&](const auto& in) { return call_rnn(c, in); };
    const std::vector<NDArray> inputs = changed(inputs_of(c), [](const NDArray& x) { return x.to(gpu()); });
    const Arrays first = outcome(network, inputs);
    for (int i = 0; i < 5; ++i)
      check_bits(outcome(network, inputs), first);
    graph::Tracer tracer;
    std::vector<NDArray> abstract;
    for (const NDArray& input : inputs)
      abstract.push_back(tracer.input({input.shape(), input.dtype(), input.device()}));
    graph::Plan plan(tracer.trace([&] { return network(abstract); }));
    const Arrays want = network(inputs);
    for (int i = 0; i < 4; ++i)  // some are captured, some replayed
      check_bits(plan.run(inputs), want);
  }
}

// Kernels that wait for their own blocks must have all of them on the GPU at once.
TEST_CASE(
    "Layers whose weights stay in registers run beside one another, by hand and in a plan",
    "[rnn][persistent][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  SLUICE_NEEDS_ROOM();
  const RecurrentCase c{{RnnMode::lstm, 1024}, 50, 64, 128};
  const std::vector<NDArray> inputs = changed(inputs_of(c), [](const NDArray& x) { return x.to(gpu()); });
  constexpr int k_branches = 6;
  const auto branches = [&](const std::vector<NDArray>& in) {
    Arrays all;
    for (int i = 0; i < k_branches; ++i) {
      std::vector<NDArray> own = in;
      own[0] = in[0] * (1.0 + 0.1 * i);
      all.push_back(call_rnn(c, own)[0]);
    }
    return all;
  };
  Arrays want;
  for (int i = 0; i < k_branches; ++i) {
    std::vector<NDArray> own = inputs;
    own[0] = inputs[0] * (1.0 + 0.1 * i);
    want.push_back(call_rnn(c, own)[0]);
    Engine::current().wait_all();  // alone
  }
  graph::Tracer tracer;
  std::vector<NDArray> abstract;
  for (const NDArray& input : inputs)
    abstract.push_back(tracer.input({input.shape(), input.dtype(), input.device()}));
  graph::Plan plan(tracer.trace([&] { return branches(abstract); }));
  for (int i = 0; i < 10; ++i) {
    check_bits(branches(inputs), want);
    check_bits(plan.run(inputs), want);
  }
}
#endif
