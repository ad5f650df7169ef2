#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/gluon/support.h"

// Layers against loops that are written out here: values, and gradients against differences of the loops.
namespace sluice::test {

/// Numbers row by row.
struct Table {
  Shape shape = {};
  std::vector<double> values = {};

  double& at(const std::vector<std::int64_t>& place) { return values[offset(place)]; }
  double at(const std::vector<std::int64_t>& place) const { return values[offset(place)]; }

 private:
  std::size_t offset(const std::vector<std::int64_t>& place) const {
    std::int64_t all = 0;
    for (int axis = 0; axis < shape.ndim(); ++axis)
      all = all * shape[axis] + place[static_cast<std::size_t>(axis)];
    return static_cast<std::size_t>(all);
  }
};

using Tables = std::vector<Table>;
/// What a loop makes of the inputs, and the parameters behind them in the order of collect_params().
using Loop = std::function<std::vector<double>(const Tables& given)>;

inline Table table_of(const NDArray& array) {
  return {array.shape(), array.astype(float64).to_vector<double>()};
}

/// Calls `visit` with every place of an array of that shape.
inline void for_each_place(
    const Shape& shape, const std::function<void(const std::vector<std::int64_t>& place)>& visit) {
  std::vector<std::int64_t> place(static_cast<std::size_t>(shape.ndim()));
  for (std::int64_t i = 0; i < shape.size(); ++i) {
    std::int64_t rest = i;
    for (int axis = shape.ndim(); axis-- > 0; rest /= shape[axis])
      place[static_cast<std::size_t>(axis)] = rest % shape[axis];
    visit(place);
  }
}

inline void check_all_near(const std::vector<double>& found, const std::vector<double>& wanted, double tolerance) {
  REQUIRE(found.size() == wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO("element " << i);
    CHECK(found[i] == Approx(wanted[i]).epsilon(tolerance).margin(tolerance));
  }
}

inline std::vector<double> joined(const Arrays& arrays) {
  std::vector<double> all;
  for (const NDArray& array : arrays) {
    const std::vector<double> one = array.astype(float64).to_vector<double>();
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

/// Of sum(y * weights), all results side by side.
inline double weighed_sum(const std::vector<double>& all) {
  double sum = 0;
  for (std::size_t i = 0; i < all.size(); ++i)
    sum += all[i] * (static_cast<double>(i * 29 % 17) - 7.5) / 8;
  return sum;
}

/// Values and gradients of a call of `block`, whose parameters are initialised and float64 as the inputs are.
inline void check_against(
    const std::function<Arrays(const Arrays&)>& call,
    const ParameterDict& parameters,
    const Arrays& examples,
    const Loop& loop,
    double tolerance = 1e-6) {
  Arrays inputs;
  Tables given;
  for (const NDArray& example : examples) {
    inputs.push_back(example.copy());
    if (is_floating(example.dtype()))
      inputs.back().attach_grad();
    given.push_back(table_of(example));
  }
  for (const auto& [name, parameter] : parameters)
    given.push_back(table_of(parameter.data()));
  NDArray loss;
  {
    const autograd::RecordScope record(false);
    const Arrays outputs = call(inputs);
    const std::vector<double> found = joined(outputs);
    check_all_near(found, loop(given), 1e-9);
    std::size_t at = 0;
    for (const NDArray& output : outputs) {
      std::vector<double> weights;
      for (std::int64_t i = 0; i < output.size(); ++i, ++at)
        weights.push_back((static_cast<double>(at * 29 % 17) - 7.5) / 8);
      const NDArray part = sum(output * array(weights, output.shape()));
      loss = loss.defined() ? loss + part : part;
    }
  }
  loss.backward();
  for (std::size_t i = 0; i < given.size(); ++i) {
    const bool is_input = i < inputs.size();
    const std::size_t number = i - inputs.size();
    if (is_input && !is_floating(inputs[i].dtype()))
      continue;
    const auto parameter = is_input ? parameters.begin() : parameters.begin() + static_cast<std::ptrdiff_t>(number);
    if (!is_input && parameter->second.grad_req() == GradReq::null)
      continue;
    INFO((is_input ? "gradient of input " + std::to_string(i) : "gradient of " + parameter->first));
    const std::vector<double> found =
        (is_input ? inputs[i].grad() : parameter->second.grad()).astype(float64).to_vector<double>();
    std::vector<double> wanted;
    for (double& value : given[i].values) {
      const double before = value, step = 1e-5;
      value = before + step;
      const double above = weighed_sum(loop(given));
      value = before - step;
      const double below = weighed_sum(loop(given));
      value = before;
      wanted.push_back((above - below) / (2 * step));
    }
    check_all_near(found, wanted, tolerance);
  }
}

/// A block by hand and as a graph against the loop, and what is exported against the block.
inline void check_block(
    gluon::Block& block, const Arrays& examples, const Loop& loop, bool exports = true, double tolerance = 1e-6) {
  const auto call = [&](const Arrays& inputs) { return block.call(inputs); };
  call(examples);  // shapes of parameters
  check_against(call, block.collect_params(), examples, loop, tolerance);
  const std::vector<double> by_hand = joined(call(examples));
  block.hybridize();
  check_against(call, block.collect_params(), examples, loop, tolerance);
  CHECK(joined(call(examples)) == by_hand);
  block.hybridize(false);
  if (!exports)
    return;
  const TemporaryFolder folder(quick_folder());
  block.export_to(folder / "net", examples);
  CHECK(joined(gluon::SymbolBlock::imports(folder / "net.json").call(examples)) == by_hand);
}

inline NDArray numbers(const Shape& shape, int start = 0) {
  return pattern_array(shape, start).astype(float64);
}

/// Parameters of numbers that differ, those of running statistics too.
inline void fill_parameters(const gluon::Block& block, double scale = 0.2) {
  int start = 3;
  for (const auto& [name, parameter] : block.collect_params())
    parameter.set_data(numbers(parameter.shape(), start += 11) * scale);
}

}  // namespace sluice::test
