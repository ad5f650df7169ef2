#pragma once

// Recurrent networks for tests: all modes, layers, directions, with states and without, and what they give.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/rnn/problem.h>

#include "tests/support/compare.h"

namespace sluice::test {

struct RecurrentCase {
  RnnOptions how;
  std::int64_t steps = 5, batch = 3, input = 4;
  bool has_states = true;

  std::string name() const {
    return message(
        sluice::detail::rnn_mode_name(how.mode),
        ", ",
        how.num_layers,
        how.bidirectional ? " layers both ways, " : " layers, ",
        how.hidden_size,
        " units, ",
        steps,
        " steps of ",
        batch,
        has_states ? " with states" : "");
  }
  std::size_t states() const { return how.mode == RnnMode::lstm ? 2 : 1; }

  /// x, parameters, states; numbers of that type, on the CPU.
  std::vector<NDArray> inputs(DType dtype) const {
    const Shape state{how.num_layers * (how.bidirectional ? 2 : 1), batch, how.hidden_size};
    std::vector<NDArray> made{
        random_array({steps, batch, input}, 1, -1, 1, dtype),
        random_array({rnn_parameter_size(input, how)}, 2, -0.5, 0.5, dtype)};
    for (std::size_t i = 0; has_states && i < states(); ++i)
      made.push_back(random_array(state, 3 + i, -1, 1, dtype));
    return made;
  }
};

inline std::vector<RecurrentCase> recurrent_cases() {
  std::vector<RecurrentCase> cases;
  for (const RnnMode mode : {RnnMode::rnn_relu, RnnMode::rnn_tanh, RnnMode::lstm, RnnMode::gru}) {
    for (const bool both : {false, true}) {
      for (const std::int64_t layers : {1, 3}) {
        for (const bool has_states : {false, true})
          cases.push_back({{mode, 5, layers, both}, 5, 3, 4, has_states});
      }
    }
    cases.push_back({{mode, 1}, 1, 1, 1});       // one of everything
    cases.push_back({{mode, 33}, 3, 13, 7});     // one past a block of units and of rows
    cases.push_back({{mode, 65, 2}, 2, 97, 5});  // one past two blocks
    cases.push_back({{mode, 3}, 2, 129, 2});     // more samples than one part has, which are not cut evenly
    cases.push_back({{mode, 3}, 2, 192, 2});     // and which are
  }
  return cases;
}

/// Results, then gradients of all inputs for heads that are no copies of one another.
template <class F>
Arrays outcome(const F& network, const std::vector<NDArray>& inputs) {
  std::vector<NDArray> variables;
  for (const NDArray& input : inputs) {
    variables.push_back(input.detach());
    variables.back().attach_grad();
  }
  Arrays results;
  {
    const autograd::RecordScope record;
    results = network(variables);
  }
  std::vector<NDArray> heads;
  for (std::size_t i = 0; i < results.size(); ++i)
    heads.push_back(
        random_array(results[i].shape(), 20 + i, -1, 1, float64).astype(results[i].dtype()).to(results[i].device()));
  autograd::backward(std::vector<NDArray>(results.begin(), results.end()), heads);
  Arrays all;
  for (const NDArray& result : results)
    all.push_back(result.detach());
  for (const NDArray& variable : variables)
    all.push_back(variable.grad());
  return all;
}

/// Gradients of the sum of all results' squares, one behind the other, which have gradients themselves.
template <class F>
NDArray recorded_gradients(const F& network, const std::vector<NDArray>& inputs) {
  std::vector<NDArray> variables;
  for (const NDArray& x : inputs) {
    variables.push_back(autograd::on_tape(x) ? x : x.detach());
    if (!autograd::on_tape(x))
      variables.back().attach_grad();
  }
  const autograd::RecordScope record;
  NDArray total = zeros({1}, {.dtype = float64});
  for (const NDArray& y : network(variables))
    total = total + sum(square(y));
  const std::vector<NDArray> heads{total};
  std::vector<NDArray> parts;
  for (const NDArray& g : autograd::grad(heads, variables, {}, {.create_graph = true}))
    parts.push_back(g.reshape({-1}));
  return concat(parts);
}

inline Arrays call_rnn(const RecurrentCase& c, const std::vector<NDArray>& inputs) {
  return rnn(inputs[0], inputs[1], Arrays(inputs.begin() + 2, inputs.end()), c.how);
}
/// The same made of other operators.
inline Arrays compose_rnn(const RecurrentCase& c, const std::vector<NDArray>& inputs) {
  const sluice::detail::RnnAttributes how{
      sluice::detail::rnn_mode_name(c.how.mode), c.how.hidden_size, c.how.num_layers, c.how.bidirectional};
  return sluice::detail::rnn_composed(inputs, how, SourceLocation::current());
}

inline Tolerance recurrent_tolerance(DType dtype) {
  return dtype == float64   ? Tolerance{1e-11, 1e-12}
         : dtype == float32 ? Tolerance{1e-4, 2e-5}
         : dtype == float16 ? Tolerance{2e-2, 2e-2}
                            : Tolerance{1e-1, 1.5e-1};
}

/// The same of long sums: they lose what the largest one of them loses.
inline Tolerance sums_tolerance(DType dtype, const NDArray& want) {
  Tolerance close = recurrent_tolerance(dtype);
  close.absolute *= std::max(1.0, max(abs(want)).item<double>());
  return close;
}

/// How many results come first in outcome().
inline std::size_t results_of(const RecurrentCase& c) {
  return 1 + c.states();
}
/// Whether gradients can be compared: a sum that a half type rounds to the other side of 0 has another slope.
inline bool has_kinks(const RecurrentCase& c, DType dtype) {
  return c.how.mode == RnnMode::rnn_relu && size_of(dtype) < sizeof(float);
}

/// Empty where the operator on that device gives, in that type, what the composition gives in float64 on the CPU.
inline std::string recurrent_differences(const RecurrentCase& c, DType dtype, Device device) {
  std::vector<NDArray> wide, narrow;
  for (const NDArray& input : c.inputs(dtype)) {
    wide.push_back(input.astype(float64));
    narrow.push_back(input.to(device));
  }
  const Arrays want = outcome([&](const auto& in) { return compose_rnn(c, in); }, wide);
  const Arrays got = outcome([&](const auto& in) { return call_rnn(c, in); }, narrow);
  if (got.size() != want.size())
    return message(got.size(), " arrays, not ", want.size());
  const std::size_t compared = has_kinks(c, dtype) ? results_of(c) : want.size();
  for (std::size_t i = 0; i < compared; ++i) {
    if (got[i].dtype() != dtype)
      return message("array ", i, " is ", got[i].dtype());
    const std::string found = differences(got[i].to(cpu()), want[i], recurrent_tolerance(dtype));
    if (!found.empty())
      return message(c.name(), ", ", dtype, ", array ", i, ": ", found);
  }
  return {};
}

}  // namespace sluice::test
