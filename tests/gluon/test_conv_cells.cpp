// Convolutional cells against loops, and cells that are made of cells.
#include <cmath>
#include <vector>

#include "tests/gluon/reference.h"

using namespace sluice;
using namespace sluice::test;
namespace rnn = gluon::rnn;

namespace {

using Numbers = std::vector<double>;
using Place = std::vector<std::int64_t>;

double logistic(double x) {
  return 1 / (1 + std::exp(-x));
}

/// A convolution of x (N, C, ..) in any number of axes.
Table convolved(const Table& x, const Table& weight, const Table& bias, const Shape& pad, const Shape& dilation) {
  const int axes = x.shape.ndim() - 2;
  Shape kernel, window{x.shape[1]}, result{x.shape[0], weight.shape[0]};
  for (int axis = 0; axis < axes; ++axis) {
    kernel.push_back(weight.shape[axis + 2]);
    window.push_back(kernel[axis]);
    result.push_back(x.shape[axis + 2] + 2 * pad[axis] - dilation[axis] * (kernel[axis] - 1));
  }
  Table y{result, {}};
  for_each_place(result, [&](const Place& at) {
    double sum = bias.at({at[1]});
    for_each_place(window, [&](const Place& tap) {
      Place from{at[0], tap[0]}, of{at[1], tap[0]};
      bool inside = true;
      for (int axis = 0; axis < axes; ++axis) {
        const auto i = static_cast<std::size_t>(axis);
        from.push_back(at[i + 2] + tap[i + 1] * dilation[axis] - pad[axis]);
        of.push_back(tap[i + 1]);
        inside = inside && from.back() >= 0 && from.back() < x.shape[axis + 2];
      }
      if (inside)
        sum += x.at(from) * weight.at(of);
    });
    y.values.push_back(sum);
  });
  return y;
}

struct Windows {
  Shape pad, dilation, h2h_pad, h2h_dilation;
};

/// A step: output, h and, of an LSTM, c. `given`: x, states, i2h_weight, h2h_weight, i2h_bias, h2h_bias.
Numbers stepped(RnnMode mode, const Tables& given, const Windows& w, double (*activation)(double)) {
  const std::size_t states = mode == RnnMode::lstm ? 2 : 1;
  const Table from_x = convolved(given[0], given[1 + states], given[3 + states], w.pad, w.dilation);
  const Table from_h = convolved(given[1], given[2 + states], given[4 + states], w.h2h_pad, w.h2h_dilation);
  const std::int64_t hidden = given[1].shape[1];
  Numbers h, c;
  for_each_place(given[1].shape, [&](const Place& at) {
    const auto gate = [&](const Table& all, std::int64_t i) {
      Place place = at;
      place[1] += i * hidden;
      return all.at(place);
    };
    const auto sum = [&](std::int64_t i) { return gate(from_x, i) + gate(from_h, i); };
    if (mode == RnnMode::lstm) {
      c.push_back(logistic(sum(1)) * given[2].at(at) + logistic(sum(0)) * activation(sum(2)));
      h.push_back(logistic(sum(3)) * activation(c.back()));
    } else if (mode == RnnMode::gru) {
      const double fresh = activation(gate(from_x, 2) + logistic(sum(0)) * gate(from_h, 2)), update = logistic(sum(1));
      h.push_back((1 - update) * fresh + update * given[1].at(at));
    } else {
      h.push_back(activation(sum(0)));
    }
  });
  Numbers all = h;
  all.insert(all.end(), h.begin(), h.end());
  all.insert(all.end(), c.begin(), c.end());
  return all;
}

double hyperbolic(double x) {
  return std::tanh(x);
}

template <class Cell>
void check_cell(
    RnnMode mode,
    const Shape& input,
    const Shape& i2h,
    const Shape& h2h,
    const rnn::ConvCellOptions& options,
    const Windows& windows,
    double (*activation)(double) = hyperbolic) {
  Cell cell(input, 2, i2h, h2h, options);
  cell.initialize();
  fill_parameters(cell);
  Shape x = input;
  x.insert(0, 2);
  Arrays given{numbers(x)};
  for (const NDArray& state : cell.begin_state(2))
    given.push_back(numbers(state.shape(), static_cast<int>(7 * given.size())));
  CHECK(cell.num_states() == given.size() - 1);
  check_block(cell, given, [&](const Tables& all) { return stepped(mode, all, windows, activation); });
}

double softsign_of(double x) {
  return x / (1 + std::abs(x));
}

}  // namespace

TEST_CASE("Convolutional cells of one axis step as loops do", "[gluon][rnn]") {
  const rnn::ConvCellOptions plain{.dtype = float64};
  check_cell<rnn::Conv1DRNNCell>(RnnMode::rnn_tanh, {3, 5}, {2}, {3}, plain, {{0}, {1}, {1}, {1}});
  check_cell<rnn::Conv1DLSTMCell>(
      RnnMode::lstm, {2, 4}, {3}, {1}, {.i2h_pad = {1}, .dtype = float64}, {{1}, {1}, {0}, {1}});
  check_cell<rnn::Conv1DGRUCell>(
      RnnMode::gru,
      {2, 6},
      {2},
      {3},
      {.i2h_dilate = {2}, .h2h_dilate = {2}, .activation = "softsign", .dtype = float64},
      {{0}, {2}, {2}, {2}},
      softsign_of);
}

TEST_CASE("Convolutional cells of two axes step as loops do", "[gluon][rnn]") {
  const rnn::ConvCellOptions padded{.i2h_pad = {1, 0}, .dtype = float64};
  const Windows windows{{1, 0}, {1, 1}, {1, 0}, {1, 1}};
  check_cell<rnn::Conv2DRNNCell>(RnnMode::rnn_tanh, {2, 3, 4}, {3, 2}, {3, 1}, padded, windows);
  check_cell<rnn::Conv2DLSTMCell>(RnnMode::lstm, {2, 3, 4}, {3, 2}, {3, 1}, padded, windows);
  check_cell<rnn::Conv2DGRUCell>(RnnMode::gru, {2, 3, 4}, {3, 2}, {3, 1}, padded, windows);
}

TEST_CASE("Convolutional cells of three axes step as loops do", "[gluon][rnn]") {
  const rnn::ConvCellOptions plain{.dtype = float64};
  const Windows windows{{0, 0, 0}, {1, 1, 1}, {0, 1, 0}, {1, 1, 1}};
  check_cell<rnn::Conv3DRNNCell>(RnnMode::rnn_tanh, {2, 2, 3, 2}, {1, 2, 2}, {1, 3, 1}, plain, windows);
  check_cell<rnn::Conv3DLSTMCell>(RnnMode::lstm, {1, 2, 3, 2}, {1, 2, 2}, {1, 3, 1}, plain, windows);
  check_cell<rnn::Conv3DGRUCell>(RnnMode::gru, {1, 2, 3, 2}, {1, 2, 2}, {1, 3, 1}, plain, windows);
}

TEST_CASE("A convolutional cell unrolled is its steps, and refuses what does not fit", "[gluon][rnn]") {
  rnn::Conv2DLSTMCell cell({2, 4, 4}, 3, {3, 3}, {3, 3}, {.i2h_pad = {1, 1}});
  cell.initialize(gluon::init::Xavier());
  const NDArray x = pattern_array({2, 3, 2, 4, 4});
  const rnn::Unrolled all = cell.unroll(3, x);
  CHECK(all.outputs.shape() == Shape{2, 3, 3, 4, 4});
  Arrays states = cell.begin_state(2);
  for (std::int64_t t = 0; t < 3; ++t) {
    Arrays given{x.slice(1, t, t + 1).squeeze(1)};
    given.insert(given.end(), states.begin(), states.end());
    const Arrays after = cell.call(given);
    CHECK(values(all.outputs.slice(1, t, t + 1)) == values(after[0]));
    states.assign(after.begin() + 1, after.end());
  }
  CHECK(values(all.states[1]) == values(states[1]));
  CHECK_THROWS_AS(cell.call(Arrays{ones({2, 2, 4, 5}), states[0], states[1]}), ShapeError);
  CHECK_THROWS_AS(cell.call(Arrays{ones({2, 2, 4, 4}), states[0], ones({2, 3, 4, 3})}), ShapeError);
  CHECK_THROWS_AS(rnn::Conv2DRNNCell({2, 4, 4}, 3, {3, 3}, {2, 3}), ValueError);
  CHECK_THROWS_AS(rnn::Conv2DRNNCell({2, 4}, 3, {3, 3}, {3, 3}), ValueError);
  CHECK_THROWS_AS(rnn::Conv1DRNNCell({2, 4}, 0, {3}, {3}), ValueError);
  CHECK_THROWS_AS(rnn::Conv1DRNNCell({2, 4}, 1, {5}, {3}), ValueError);
  CHECK_THROWS_AS(rnn::Conv1DRNNCell({2, 4}, 1, {3}, {3}, {.activation = "none"}), ValueError);
  CHECK_THROWS_AS(rnn::Conv1DRNNCell({2, 4}, 1, {3}, {3}, {.i2h_pad = {-1}}), ValueError);
}
