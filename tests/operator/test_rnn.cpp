// rnn() against the composition in float64: values, gradients, gradients of these, and what it refuses.
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tests/operator/recurrent_cases.h"
#include "tests/operator/traced.h"
#include "tests/support/catch.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

const RnnMode k_modes[] = {RnnMode::rnn_relu, RnnMode::rnn_tanh, RnnMode::lstm, RnnMode::gru};

std::vector<std::uint32_t> bits_of(const Arrays& arrays) {
  std::vector<std::uint32_t> all;
  for (const NDArray& array : arrays) {
    const std::vector<float> values = array.to(cpu()).to_vector<float>();
    const std::size_t before = all.size();
    all.resize(before + values.size());
    std::memcpy(all.data() + before, values.data(), values.size() * sizeof(float));
  }
  return all;
}

std::vector<NDArray> on(Device device, const std::vector<NDArray>& inputs) {
  std::vector<NDArray> there;
  for (const NDArray& input : inputs)
    there.push_back(input.to(device));
  return there;
}

void check_all(Device device) {
  for (const RecurrentCase& c : recurrent_cases()) {
    for (const DType dtype : {float32, float64, float16, bfloat16}) {
      if ((dtype == float16 || dtype == bfloat16) && c.how.hidden_size != 5)
        continue;
      CHECK(recurrent_differences(c, dtype, device) == "");
    }
  }
}

}  // namespace

TEST_CASE("rnn gives what its composition gives, with all gradients: modes, layers, directions, states", "[rnn]") {
  check_all(cpu());
}

TEST_CASE("rnn gives on a GPU what its composition gives on the CPU, with all gradients", "[rnn][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_all(gpu());
}

TEST_CASE("cuDNN's recurrent layers are the CPU's, of sizes that fill its kernels", "[rnn][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  for (const RnnMode mode : k_modes) {
    for (const bool both : {false, true}) {
      for (const DType dtype : {float32, float16, bfloat16}) {
        RecurrentCase c{{mode, 128, 2, both}, 20, 16, 64};
        std::vector<NDArray> inputs = c.inputs(float32);
        inputs[1] = inputs[1] * 0.2;
        std::vector<NDArray> narrow;
        for (NDArray& input : inputs)
          narrow.push_back(input.astype(dtype).to(gpu()));
        const Arrays want = outcome([&](const auto& in) { return call_rnn(c, in); }, inputs);
        const Arrays got = outcome([&](const auto& in) { return call_rnn(c, in); }, narrow);
        const std::size_t compared = has_kinks(c, dtype) ? results_of(c) : want.size();
        for (std::size_t i = 0; i < compared; ++i) {
          CAPTURE(c.name(), name_of(dtype), i);
          CHECK(differences(got[i].astype(float32).to(cpu()), want[i], sums_tolerance(dtype, want[i])) == "");
        }
      }
    }
  }
}

TEST_CASE("Recurrent layers on a GPU give the same bits whenever they run, and in a plan", "[rnn][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const RnnMode mode : k_modes) {
    const RecurrentCase c{{mode, 64, 2, true}, 12, 8, 32};
    CAPTURE(c.name());
    const std::vector<NDArray> inputs = on(gpu(), c.inputs(float32));
    const auto once = [&] { return bits_of(outcome([&](const auto& in) { return call_rnn(c, in); }, inputs)); };
    const auto first = once();
    for (int i = 0; i < 3; ++i)
      CHECK(once() == first);
    graph::Tracer tracer;
    std::vector<NDArray> abstract;
    for (const NDArray& input : inputs)
      abstract.push_back(tracer.input({input.shape(), input.dtype(), input.device()}));
    graph::Plan plan(tracer.trace([&] { return call_rnn(c, abstract); }));
    const auto want = bits_of(call_rnn(c, inputs));
    for (int i = 0; i < 4; ++i)  // some are captured, some replayed
      CHECK(bits_of(plan.run(inputs)) == want);
  }
}

TEST_CASE("Gradients of rnn's gradients agree with finite differences", "[rnn]") {
  for (const RnnMode mode : {RnnMode::rnn_tanh, RnnMode::lstm, RnnMode::gru}) {
    const RecurrentCase c{{mode, 2, 2, true}, 2, 2, 3};
    CAPTURE(c.name());
    const std::vector<NDArray> inputs = c.inputs(float64);
    const auto first = [&](const std::vector<NDArray>& in) {
      return recorded_gradients([&](const auto& given) { return call_rnn(c, given); }, in);
    };
    CHECK(gradient_differences(first, inputs, {.tolerance = {1e-5, 1e-7}}) == "");
  }
}

TEST_CASE(
    "rnn has gradients where forward kept nothing for them, of some results and of inputs that lie oddly", "[rnn]") {
  for (const RnnMode mode : k_modes) {
    const RecurrentCase c{{mode, 5, 2, true}, 4, 3, 2};
    CAPTURE(c.name());
    const std::vector<NDArray> inputs = c.inputs(float64);
    const auto by_name = [&](const std::vector<NDArray>& in) {
      Arrays all = invoke(
          *find_operator("rnn"),
          in,
          Attributes::of(sluice::detail::RnnAttributes{sluice::detail::rnn_mode_name(mode), 5, 2, true, false}),
          SourceLocation::current());
      CHECK(all.back().size() == 0);
      all.pop_back();
      return all;
    };
    const Arrays want = outcome([&](const auto& in) { return compose_rnn(c, in); }, inputs);
    const Arrays got = outcome(by_name, inputs);
    for (std::size_t i = 0; i < want.size(); ++i)
      CHECK(differences(got[i], want[i], {1e-11, 1e-12}) == "");
    // The last state alone, with a head of stride 0; x turned over, parameters of every second number.
    const NDArray turned = inputs[0].swapaxes(0, 2).copy().swapaxes(0, 2);
    const NDArray spread = stack({inputs[1], inputs[1]}, 1).slice(1, 0, 1).squeeze(1);
    const auto last = [&](auto&& network, NDArray x, NDArray parameters) {
      x = x.detach();
      parameters = parameters.detach();
      x.attach_grad();
      parameters.attach_grad();
      NDArray loss;
      {
        const autograd::RecordScope record;
        loss = sum(network(c, std::vector<NDArray>{x, parameters}).back());
      }
      loss.backward();
      return Arrays{loss.detach(), x.grad(), parameters.grad()};
    };
    const Arrays plain = last(compose_rnn, inputs[0], inputs[1]), odd = last(call_rnn, turned, spread);
    for (std::size_t i = 0; i < plain.size(); ++i)
      CHECK(differences(odd[i], plain[i], {1e-11, 1e-12}) == "");
  }
}

TEST_CASE("rnn gives the same bits for any number of workers", "[rnn]") {
  for (const RnnMode mode : {RnnMode::lstm, RnnMode::gru}) {
    const RecurrentCase c{{mode, 100, 2, true}, 6, 110, 40};
    std::vector<std::vector<std::uint32_t>> all;
    for (const int workers : {1, 2, 4}) {
      Engine engine({.workers = workers});
      const EngineScope scope(engine);
      all.push_back(bits_of(outcome([&](const auto& in) { return call_rnn(c, in); }, c.inputs(float32))));
    }
    CHECK(all[0] == all[1]);
    CHECK(all[0] == all[2]);
  }
}

TEST_CASE("rnn of no samples gives nothing, and gradients of parameters that are zeros", "[rnn]") {
  for (const RnnMode mode : k_modes) {
    for (const Device device : {cpu(), gpu()}) {
      if (device.is_gpu() && num_gpus() == 0)
        continue;
      const RecurrentCase c{{mode, 3, 2, true}, 4, 0, 2};
      const Arrays got = outcome([&](const auto& in) { return call_rnn(c, in); }, on(device, c.inputs(float32)));
      CHECK(got[0].shape() == Shape{4, 0, 6});
      CHECK(got[1].shape() == Shape{4, 0, 3});
      const NDArray& of_parameters = got[c.states() + 2];
      CHECK(differences(of_parameters.to(cpu()), zeros(of_parameters.shape()), {0, 0}) == "");
    }
  }
}

TEST_CASE("Numbers that are none and infinities go through rnn as through its parts", "[rnn]") {
  const double odd[] = {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), -1e30};
  for (const RnnMode mode : k_modes) {
    for (const double value : odd) {
      const RecurrentCase c{{mode, 3}, 4, 2, 2};
      CAPTURE(c.name(), value);
      std::vector<NDArray> inputs = c.inputs(float32);
      std::vector<double> x = inputs[0].to_vector<double>();
      x[7] = value;  // the second sample of the second step
      inputs[0] = array(x, inputs[0].shape()).astype(float32);
      const NDArray got = call_rnn(c, inputs)[0], want = compose_rnn(c, inputs)[0];
      CHECK(differences(got, want, {1e-4, 1e-5}) == "");
      const NDArray first = got.slice(1, 0, 1);
      CHECK(all(isfinite(first)).item<bool>());  // samples do not see each other
    }
  }
}

TEST_CASE("Dropout between layers is drawn as everywhere, and in training alone", "[rnn]") {
  const RecurrentCase c{{RnnMode::lstm, 4, 3, true, 0.5}, 3, 2, 3};
  RecurrentCase whole = c;
  whole.how.dropout = 0;
  const std::vector<NDArray> inputs = c.inputs(float32);
  CHECK(bits_of(call_rnn(c, inputs)) == bits_of(call_rnn(whole, inputs)));
  const autograd::TrainScope training;
  random::seed(7);
  const Arrays first = call_rnn(c, inputs), second = call_rnn(c, inputs);
  CHECK(bits_of(first) != bits_of(second));
  random::seed(7);
  CHECK(bits_of(call_rnn(c, inputs)) == bits_of(first));
  CHECK(first[1].shape() == Shape{6, 2, 4});
  whole.how.dropout = 1e-12;  // layer by layer, and nothing dropped
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(differences(call_rnn(whole, inputs)[i], compose_rnn(whole, inputs)[i], {1e-4, 1e-5}) == "");
}

TEST_CASE("rnn is in graphs what it is by hand, and takes what autocast makes of its inputs", "[rnn]") {
  for (const RnnMode mode : k_modes) {
    const RecurrentCase c{{mode, 4, 2}, 3, 2, 3};
    const std::vector<NDArray> inputs = c.inputs(float32);
    CHECK(traced_differences([&](const auto& in) { return call_rnn(c, in)[0]; }, inputs) == "");
    graph::Tracer tracer;
    std::vector<NDArray> abstract;
    for (const NDArray& input : inputs)
      abstract.push_back(tracer.input({input.shape(), input.dtype(), input.device()}));
    const graph::Graph made = tracer.trace([&] { return call_rnn(c, abstract); });
    CHECK(made.nodes.size() == 1);
    CHECK(graph::flops(made) == 2 * 3 * 2 * inputs[1].size());
    const amp::AutocastScope half(bfloat16);
    const NDArray y = call_rnn(c, inputs)[0];
    CHECK(y.dtype() == bfloat16);
    CHECK(differences(y.astype(float32), compose_rnn(c, inputs)[0].astype(float32), {0.05, 0.05}) == "");
  }
}

// The simulated GPU's library does not take 13 units.
TEST_CASE(
    "A composed rnn takes what autocast makes of its inputs, and gives the types that a kernel gives", "[rnn][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const RnnMode mode : k_modes) {
    const RecurrentCase c{{mode, 13, 2, true}, 3, 2, 3};
    CAPTURE(c.name());
    std::vector<NDArray> inputs = c.inputs(float32);
    const Arrays want = outcome([&](const auto& in) { return compose_rnn(c, in); }, inputs);
    inputs[0] = inputs[0].astype(bfloat16);  // as what a layer before gives
    for (const Device device : {cpu(), gpu()}) {
      const auto network = [&](const auto& in) {
        const amp::AutocastScope half(bfloat16);
        return call_rnn(c, in);
      };
      const Arrays got = outcome(network, on(device, inputs));
      for (std::size_t i = 0; i < got.size(); ++i) {
        CAPTURE(to_string(device), i);
        CHECK(got[i].dtype() == (i <= results_of(c) ? bfloat16 : float32));
        if (i < results_of(c))
          CHECK(differences(got[i].astype(float32).to(cpu()), want[i], {0.1, 0.15}) == "");
      }
      const amp::AutocastScope half(bfloat16);
      std::vector<NDArray> wide = on(device, inputs);
      wide[1] = wide[1].astype(float64);
      CHECK_THROWS_AS(call_rnn(c, wide), DTypeError);  // float64 stays, and the others with it
    }
  }
}

TEST_CASE("rnn refuses what does not fit, by name and values", "[rnn]") {
  const RecurrentCase c{{RnnMode::lstm, 4, 2}, 3, 2, 5};
  const std::vector<NDArray> in = c.inputs(float32);
  CHECK(rnn_parameter_size(5, c.how) == 4 * 4 * (5 + 4 + 2) + 4 * 4 * (4 + 4 + 2));
  RnnOptions both = c.how;
  both.bidirectional = true;
  CHECK(rnn_parameter_size(5, both) == 2 * (4 * 4 * (5 + 4 + 2) + 4 * 4 * (8 + 4 + 2)));
  const auto run = [&](const NDArray& x, const NDArray& parameters, const Arrays& states, RnnOptions how) {
    return rnn(x, parameters, states, how)[0];
  };
  CHECK_THROWS_WITH(run(in[0][0], in[1], {}, c.how), contains("rnn") && contains("(2, 5)"));
  CHECK_THROWS_WITH(run(in[0], in[1].slice(0, 1, 336), {}, c.how), contains("(336,)") && contains("(335,)"));
  CHECK_THROWS_AS(run(in[0], in[1], {in[2]}, c.how), ValueError);
  CHECK_THROWS_WITH(run(in[0], in[1], {in[2], in[3].slice(1, 0, 1)}, c.how), contains("(2, 2, 4)"));
  CHECK_THROWS_AS(run(in[0].astype(float64), in[1], {}, c.how), DTypeError);
  CHECK_THROWS_AS(run(in[0].astype(int32), in[1].astype(int32), {}, c.how), DTypeError);
  CHECK_THROWS_AS(run(in[0], in[1], {in[2].astype(float64), in[3]}, c.how), DTypeError);
  CHECK_THROWS_AS(run(in[0].slice(0, 0, 0), in[1], {}, c.how), ShapeError);
  CHECK_THROWS_AS(run(in[0].slice(2, 0, 0), in[1], {}, c.how), ShapeError);
  CHECK_THROWS_AS(run(NDArray(), in[1], {}, c.how), ValueError);
  for (const double rate : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
    RnnOptions how = c.how;
    how.dropout = rate;
    CHECK_THROWS_AS(run(in[0], in[1], {}, how), ValueError);
  }
  RnnOptions none = c.how, many = c.how, deep = c.how;
  none.hidden_size = 0;
  many.hidden_size = (std::int64_t{1} << 31) - 1;
  deep.num_layers = std::int64_t{1} << 62;
  CHECK_THROWS_AS(rnn_parameter_size(5, none), ValueError);
  CHECK_THROWS_AS(rnn_parameter_size(0, c.how), ValueError);
  CHECK_THROWS_WITH(rnn_parameter_size(5, many), contains("2147483647") && contains("counted"));
  CHECK_THROWS_AS(rnn_parameter_size(5, deep), ValueError);
  CHECK_THROWS_AS(run(in[0], in[1], {}, many), ValueError);
  many.hidden_size = std::int64_t{1} << 31;
  CHECK_THROWS_AS(rnn_parameter_size(5, many), ValueError);
  const Operator &op = *find_operator("rnn"), &backward = *find_operator("rnn_backward");
  const SourceLocation here = SourceLocation::current();
  const auto invoked = [&](const Operator& which, const std::vector<NDArray>& inputs, const char* how) {
    return invoke(which, inputs, parse_attributes(which, how), here);
  };
  CHECK_THROWS_WITH(
      invoked(op, {in[0], in[1]}, "mode=\"elman\", state_size=4, num_layers=2"), contains("elman") && contains("gru"));
  CHECK_THROWS_AS(invoked(op, {in[0]}, "state_size=4, num_layers=2"), ValueError);
  CHECK_THROWS_AS(invoked(backward, {in[0], in[1]}, "state_size=4, num_layers=2"), ValueError);
  const Arrays made = invoked(op, {in[0], in[1]}, "state_size=4, num_layers=2, keep=true");
  REQUIRE(made.size() == 4);
  const NDArray dy = ones(made[0].shape()), dh = ones(made[1].shape());
  CHECK(invoked(backward, {in[0], in[1], made[0], made[3], dy, dh, dh}, "state_size=4, num_layers=2").size() == 4);
  CHECK_THROWS_WITH(
      invoked(backward, {in[0], in[1], made[0], made[3].slice(0, 0, 1), dy, dh, dh}, "state_size=4, num_layers=2"),
      contains("kept"));
  CHECK_THROWS_AS(
      invoked(backward, {in[0], in[1], made[0], made[3], dh, dh, dh}, "state_size=4, num_layers=2"), ShapeError);
}
