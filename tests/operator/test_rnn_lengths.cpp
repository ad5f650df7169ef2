// Sequences of several lengths through rnn(): each is what it is alone, and what lies beyond it reaches nothing.
#include <cmath>
#include <cstdint>
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

using Lengths = std::vector<std::int64_t>;

const RnnMode k_modes[] = {RnnMode::rnn_relu, RnnMode::rnn_tanh, RnnMode::lstm, RnnMode::gru};
constexpr double k_nan = std::numeric_limits<double>::quiet_NaN();

// None, all, one, and what is between, mixed.
Lengths lengths_for(const RecurrentCase& c) {
  Lengths made;
  for (std::int64_t n = 0; n < c.batch; ++n)
    made.push_back(n == 0 ? c.steps : n == 1 ? 0 : n * 7 % (c.steps + 1));
  return made;
}

NDArray array_of(const Lengths& lengths, Device device = cpu()) {
  return array(lengths, {static_cast<std::int64_t>(lengths.size())}).to(device);
}

// x with NaN beyond the lengths.
NDArray spoilt(const NDArray& x, const Lengths& lengths) {
  return sequence_mask(x, array_of(lengths), k_nan);
}

// Each sample by itself, cut to its length.
Arrays each_alone(const RecurrentCase& c, const Lengths& lengths, const std::vector<NDArray>& in) {
  std::vector<std::vector<NDArray>> all(1 + c.states());
  for (std::int64_t n = 0; n < c.batch; ++n) {
    const std::int64_t length = lengths[static_cast<std::size_t>(n)];
    const DType dtype = in[0].dtype();
    const Shape state{c.how.num_layers * (c.how.bidirectional ? 2 : 1), 1, c.how.hidden_size};
    std::vector<NDArray> given{in[0].slice(1, n, n + 1).slice(0, 0, length), in[1]};
    for (std::size_t i = 2; i < in.size(); ++i)
      given.push_back(in[i].slice(1, n, n + 1));
    const Shape rest{c.steps - length, 1, c.how.hidden_size * (c.how.bidirectional ? 2 : 1)};
    const NDArray padding = zeros(rest, {.dtype = dtype});
    Arrays made;
    if (length > 0) {
      made = call_rnn(c, given);
      made[0] = concat({made[0], padding}, 0);
    } else {
      made.push_back(padding);
      for (std::size_t i = 0; i < c.states(); ++i)
        made.push_back(c.has_states ? given[2 + i] : zeros(state, {.dtype = dtype}));
    }
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i].push_back(made[i]);
  }
  Arrays results;
  for (const std::vector<NDArray>& parts : all)
    results.push_back(concat(parts, 1));
  return results;
}

Arrays by_lengths(const RecurrentCase& c, const NDArray& lengths, const std::vector<NDArray>& in) {
  return rnn(in[0], in[1], Arrays(in.begin() + 2, in.end()), lengths, c.how);
}

using AnyComposition =
    Arrays (*)(std::span<const NDArray> inputs, const sluice::detail::RnnAttributes& how, SourceLocation site);

Arrays composed(
    AnyComposition composition, const RecurrentCase& c, const NDArray& lengths, const std::vector<NDArray>& in) {
  std::vector<NDArray> inputs = in;
  inputs.insert(inputs.begin() + 2, lengths);
  const sluice::detail::RnnAttributes how{
      sluice::detail::rnn_mode_name(c.how.mode), c.how.hidden_size, c.how.num_layers, c.how.bidirectional};
  return composition(inputs, how, SourceLocation::current());
}

using Network = std::function<Arrays(const std::vector<NDArray>&)>;

// Results and gradients of `network`, given x that is spoilt beyond the lengths, are those of each sample alone, whose
// inputs are float64; gradients there are 0. Empty where they are.
std::string differences_from_alone(
    const RecurrentCase& c, const Lengths& lengths, DType dtype, Device device, const Network& network) {
  std::vector<NDArray> wide, narrow;
  for (const NDArray& input : c.inputs(dtype)) {
    wide.push_back(input.astype(float64));
    narrow.push_back((narrow.empty() ? spoilt(input, lengths) : input).to(device));
  }
  const Arrays want = outcome([&](const auto& in) { return each_alone(c, lengths, in); }, wide);
  const Arrays got = outcome(network, narrow), unrecorded = network(narrow);
  const std::size_t compared = has_kinks(c, dtype) ? results_of(c) : want.size();
  for (std::size_t i = 0; i < compared; ++i) {
    Tolerance close = recurrent_tolerance(dtype);
    close.absolute *= c.batch > 20 ? 4 : 1;  // gradients of parameters add up more
    const std::string found = differences(got[i].to(cpu()), want[i], close);
    if (!found.empty())
      return message(c.name(), ", ", dtype, ", array ", i, ": ", found);
  }
  for (std::size_t i = 0; i < results_of(c); ++i) {  // where nothing is kept for gradients
    if (!differences(unrecorded[i].to(cpu()), want[i], recurrent_tolerance(dtype)).empty())
      return message(c.name(), ", ", dtype, ", unrecorded result ", i, " differs");
  }
  const NDArray beyond = got[results_of(c)] - sequence_mask(got[results_of(c)], array_of(lengths, device));
  return differences(beyond.to(cpu()), zeros(beyond.shape(), {.dtype = dtype}), {0, 0});
}

void check_all(Device device) {
  for (const RecurrentCase& c : recurrent_cases()) {
    const Lengths lengths = lengths_for(c);
    for (const DType dtype : {float32, float64, float16, bfloat16}) {
      if ((dtype == float16 || dtype == bfloat16) && c.how.hidden_size != 5)
        continue;
      const NDArray given = array_of(lengths, device);
      const Network network = [&](const auto& in) { return by_lengths(c, given, in); };
      CHECK(differences_from_alone(c, lengths, dtype, device, network) == "");
    }
  }
}

}  // namespace

TEST_CASE("rnn gives each of several lengths what it gets alone, with all gradients", "[rnn][lengths]") {
  check_all(cpu());
}

TEST_CASE("rnn on a GPU gives each of several lengths what it gets alone, with all gradients", "[rnn][lengths][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_all(gpu());
}

TEST_CASE(
    "Sequences of several lengths are, step by step and by runs over all steps, what they are alone",
    "[rnn][lengths]") {
  for (const AnyComposition composition :
       {&sluice::detail::rnn_lengths_by_steps, &sluice::detail::rnn_lengths_by_runs}) {
    for (const RecurrentCase& c : recurrent_cases()) {
      if (c.batch > 13)
        continue;
      const Lengths lengths = lengths_for(c);
      const Network network = [&](const auto& in) { return composed(composition, c, array_of(lengths), in); };
      CHECK(differences_from_alone(c, lengths, float64, cpu(), network) == "");
      if (c.how.hidden_size == 5) {  // as a GPU runs them: what keeps states in padding fits narrow types
        CHECK(differences_from_alone(c, lengths, float16, cpu(), network) == "");
        CHECK(differences_from_alone(c, lengths, bfloat16, cpu(), network) == "");
      }
    }
  }
}

TEST_CASE(
    "Gradients of the gradients of sequences of several lengths agree with finite differences", "[rnn][lengths]") {
  for (const RnnMode mode : {RnnMode::rnn_tanh, RnnMode::lstm, RnnMode::gru}) {
    const RecurrentCase c{{mode, 2, 2, true}, 3, 3, 2};
    CAPTURE(c.name());
    const NDArray lengths = array_of({2, 0, 3});
    const auto first = [&](const std::vector<NDArray>& in) {
      return recorded_gradients([&](const auto& given) { return by_lengths(c, lengths, given); }, in);
    };
    CHECK(gradient_differences(first, c.inputs(float64), {.tolerance = {1e-5, 1e-7}}) == "");
  }
}

TEST_CASE(
    "Sequences that all have all steps have rnn's bits, of any type of lengths that lie anyhow", "[rnn][lengths]") {
  for (const RnnMode mode : k_modes) {
    const RecurrentCase c{{mode, 5, 2, true}, 4, 3, 2};
    CAPTURE(c.name());
    const std::vector<NDArray> inputs = c.inputs(float32);
    const auto alike = [&](const NDArray& lengths, const Arrays& want) {
      const Arrays got = outcome([&](const auto& in) { return by_lengths(c, lengths, in); }, inputs);
      for (std::size_t i = 0; i < want.size(); ++i)
        CHECK(differences(got[i], want[i], {0, 0}) == "");
    };
    const Arrays plain = outcome([&](const auto& in) { return call_rnn(c, in); }, inputs);
    alike(array_of({4, 4, 4}), plain);
    alike(full({}, 4, {.dtype = int32}).broadcast_to({3}), plain);  // stride 0
    const Arrays uneven = outcome([&](const auto& in) { return by_lengths(c, array_of({1, 4, 3}), in); }, inputs);
    for (const DType dtype : {uint8, int8, int16, int32, uint16, uint32, uint64})
      alike(array_of({1, 4, 3}).astype(dtype), uneven);
    alike(array_of({1, 9, 4, 9, 3}).slice(0, 0, 5, 2), uneven);
    for (const int workers : {1, 4}) {
      Engine engine({.workers = workers});
      const EngineScope scope(engine);
      const Arrays got = outcome(
          [&](const auto& in) {
            return by_lengths(c, array_of({1, 4, 3}), in);
          },
          c.inputs(float32));
      for (std::size_t i = 0; i < got.size(); ++i)
        CHECK(differences(got[i], uneven[i], {0, 0}) == "");
    }
  }
}

TEST_CASE("Sequences of several lengths have gradients where forward kept nothing for them", "[rnn][lengths]") {
  for (const RnnMode mode : k_modes) {
    const RecurrentCase c{{mode, 5, 2, true}, 4, 3, 2};
    const Lengths lengths{2, 0, 4};
    const Network by_name = [&](const std::vector<NDArray>& in) {
      std::vector<NDArray> given = in;
      given.insert(given.begin() + 2, array_of(lengths));
      const sluice::detail::RnnAttributes how{sluice::detail::rnn_mode_name(mode), 5, 2, true, false};
      Arrays all = invoke(*find_operator("rnn_lengths"), given, Attributes::of(how), SourceLocation::current());
      CHECK(all.back().size() == 0);
      all.pop_back();
      return all;
    };
    CHECK(differences_from_alone(c, lengths, float64, cpu(), by_name) == "");
  }
}

// A state that doubles each step, and an own length after which it would pass all numbers.
TEST_CASE("What would grow beyond all numbers in padding reaches nothing", "[rnn][lengths]") {
  const RecurrentCase c{{RnnMode::rnn_relu, 3, 1, true}, 100, 2, 2};
  std::vector<NDArray> inputs = c.inputs(float32);
  inputs[1] = full(inputs[1].shape(), 40.0);
  const NDArray lengths = array_of({3, 2});
  for (const AnyComposition composition :
       {&sluice::detail::rnn_lengths_by_steps, &sluice::detail::rnn_lengths_by_runs}) {
    const Arrays got = outcome([&](const auto& in) { return composed(composition, c, lengths, in); }, inputs);
    const Arrays want = outcome([&](const auto& in) { return by_lengths(c, lengths, in); }, inputs);
    CHECK_FALSE(all(isfinite(call_rnn(c, inputs)[0])).item<bool>());
    for (std::size_t i = 0; i < got.size(); ++i) {
      CHECK(all(isfinite(want[i])).item<bool>());
      CHECK(differences(got[i], want[i], {1e-4, 1e-3}) == "");
    }
  }
}

TEST_CASE("Sequences of several lengths are in graphs what they are by hand, dropped out and cast", "[rnn][lengths]") {
  for (const RnnMode mode : k_modes) {
    RecurrentCase c{{mode, 4, 2, true}, 3, 3, 3};
    CAPTURE(c.name());
    const Lengths list{2, 3, 0};
    std::vector<NDArray> inputs = c.inputs(float32);
    inputs[0] = spoilt(inputs[0], list);
    std::vector<NDArray> all = inputs;
    all.push_back(array_of(list));
    const auto network = [&](const std::vector<NDArray>& in) {
      return by_lengths(c, in.back(), {in.begin(), in.end() - 1})[0];
    };
    CHECK(traced_differences(network, all) == "");
    const NDArray want = each_alone(c, list, inputs)[0];
    CHECK(differences(network(all), want, {1e-4, 1e-5}) == "");
    {
      const amp::AutocastScope half(bfloat16);
      CHECK(network(all).dtype() == bfloat16);
      CHECK(differences(network(all).astype(float32), want, {0.05, 0.05}) == "");
    }
    const autograd::TrainScope training;
    c.how.dropout = 1e-12;  // layer by layer, and nothing dropped
    CHECK(differences(network(all), want, {1e-4, 1e-5}) == "");
    c.how.dropout = 1;
    CHECK(differences(network(all), want, {1e-4, 1e-5}) != "");
  }
}

TEST_CASE("No sequences, and lengths that do not fit, are refused by name and values", "[rnn][lengths]") {
  const RecurrentCase c{{RnnMode::lstm, 4, 2}, 3, 2, 5};
  const std::vector<NDArray> in = c.inputs(float32);
  const auto run = [&](const NDArray& lengths) { return by_lengths(c, lengths, in)[0]; };
  CHECK_THROWS_WITH(run(array_of({3})), contains("rnn_lengths") && contains("(1,)") && contains("(2,)"));
  CHECK_THROWS_AS(run(array_of({3, 3}).reshape({2, 1})), ShapeError);
  CHECK_THROWS_WITH(run(ones({2})), contains("rnn_lengths") && contains("float32"));
  CHECK_THROWS_AS(run(ones({2}, {.dtype = bool_})), DTypeError);
  CHECK_THROWS_AS(run(NDArray()), ValueError);
  for (const std::int64_t wrong : {std::int64_t{4}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::min()}) {
    const NDArray lengths = array_of({3, wrong});
    CHECK_THROWS_WITH(
        run(lengths).to_vector<double>(),
        contains("rnn_lengths: length " + std::to_string(wrong)) && contains("sequence 1"));
    CHECK_THROWS_AS(run(lengths).to_vector<double>(), IndexError);
  }
  for (const RnnMode mode : k_modes) {
    const RecurrentCase each{{mode, 4}, 3, 2, 5};
    CAPTURE(each.name());
    for (const AnyComposition composition :
         {&sluice::detail::rnn_lengths_by_steps, &sluice::detail::rnn_lengths_by_runs}) {
      for (const std::int64_t wrong : {4, -1}) {
        const Arrays made = composed(composition, each, array_of({3, wrong}), each.inputs(float32));
        for (const NDArray& result : made)
          CHECK_THROWS_WITH(result.to_vector<double>(), contains("sequence_reverse: length " + std::to_string(wrong)));
      }
    }
  }
  const Operator& op = *find_operator("rnn_lengths");
  CHECK_THROWS_WITH(
      invoke(op, std::vector<NDArray>{in[0], in[1]}, parse_attributes(op, "state_size=4, num_layers=2"), {}),
      contains("lengths"));
  for (const RnnMode mode : k_modes) {
    const RecurrentCase none{{mode, 3, 2, true}, 4, 0, 2};
    const auto check = [&](const Network& network) {
      const Arrays got = outcome(network, none.inputs(float32));
      CHECK(got[0].shape() == Shape{4, 0, 6});
      CHECK(got[1].shape() == Shape{4, 0, 3});
      const NDArray& of_parameters = got[none.states() + 2];
      CHECK(differences(of_parameters, zeros(of_parameters.shape()), {0, 0}) == "");
    };
    check([&](const auto& inputs) { return by_lengths(none, array_of({}), inputs); });
    check(
        [&](const auto& inputs) { return composed(&sluice::detail::rnn_lengths_by_runs, none, array_of({}), inputs); });
  }
}

TEST_CASE(
    "Several lengths through cuDNN's kernels, of sizes that fill them, are the CPU's",
    "[rnn][lengths][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  for (const RnnMode mode : k_modes) {
    for (const DType dtype : {float32, float16, bfloat16}) {
      const RecurrentCase c{{mode, 128, 2, true}, 20, 16, 64};
      CAPTURE(c.name(), name_of(dtype));
      const Lengths lengths = lengths_for(c);
      std::vector<NDArray> wide, narrow;
      for (const NDArray& input : c.inputs(float32)) {
        const NDArray small = (wide.size() == 1 ? input * 0.2 : input).astype(dtype);
        wide.push_back(wide.empty() ? spoilt(small, lengths).astype(float32) : small.astype(float32));
        narrow.push_back(wide.back().astype(dtype).to(gpu()));
      }
      const auto run = [&](const std::vector<NDArray>& in) {
        return outcome([&](const auto& given) { return by_lengths(c, array_of(lengths, in[0].device()), given); }, in);
      };
      const Arrays want = run(wide), got = run(narrow);
      const std::size_t compared = has_kinks(c, dtype) ? results_of(c) : want.size();
      for (std::size_t i = 0; i < compared; ++i) {
        CAPTURE(i);
        CHECK(differences(got[i].astype(float32).to(cpu()), want[i], sums_tolerance(dtype, want[i])) == "");
      }
    }
  }
}

TEST_CASE("A length beyond all steps is found on a GPU at the wait, in each result", "[rnn][lengths][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const RnnMode mode : k_modes) {
    const RecurrentCase c{{mode, 4}, 3, 2, 5};
    CAPTURE(c.name());
    std::vector<NDArray> in;
    for (const NDArray& input : c.inputs(float32))
      in.push_back(input.to(gpu()));
    for (const std::int64_t wrong : {4, -1}) {
      for (std::size_t i = 0; i < results_of(c); ++i)
        CHECK_THROWS_AS(by_lengths(c, array_of({3, wrong}, gpu()), in)[i].to(cpu()).to_vector<double>(), IndexError);
    }
    const NDArray y = by_lengths(c, array_of({3, 2}, gpu()), in)[0];
    CHECK(all(isfinite(y)).item<bool>());
  }
}
