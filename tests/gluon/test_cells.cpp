// Cells made of cells: what they give is what their parts give, put together by hand.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "tests/gluon/recurrent_loops.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;
namespace rnn = gluon::rnn;

namespace {

const Tolerance k_close{2e-5, 2e-6};
constexpr std::int64_t k_batch = 2, k_steps = 5, k_size = 3;

template <class C>
std::shared_ptr<C> filled(std::int64_t hidden, std::int64_t inputs, std::uint64_t seed) {
  auto cell = std::make_shared<C>(hidden, rnn::CellOptions{.input_size = inputs});
  cell->initialize();
  for (const auto& [name, parameter] : cell->collect_params())
    parameter.set_data(random_array(parameter.shape(), seed++, -0.8, 0.8));
  return cell;
}

/// Output and states of `cell`, step by step.
std::pair<NDArray, Arrays> steps_of(const rnn::Cell& cell, const NDArray& x, Arrays states) {
  Arrays outputs;
  for (std::int64_t t = 0; t < x.shape()[1]; ++t) {
    Arrays given{x.slice(1, t, t + 1).squeeze(1)};
    given.insert(given.end(), states.begin(), states.end());
    const Arrays after = cell.call(given);
    outputs.push_back(after[0].expand_dims(1));
    states.assign(after.begin() + 1, after.end());
  }
  return {concat(outputs, 1), states};
}

/// In either layout and from states of its own a cell unrolls to its steps.
void check_unrolled(const rnn::Cell& cell, const NDArray& x) {
  Arrays begin = cell.begin_state(k_batch);
  CHECK(begin.size() == cell.num_states());
  for (const bool zero : {true, false}) {
    for (std::size_t i = 0; !zero && i < begin.size(); ++i)
      begin[i] = random_array(begin[i].shape(), 40 + i);
    const auto [outputs, states] = steps_of(cell, x, begin);
    const rnn::Unrolled plain = cell.unroll(k_steps, x, zero ? Arrays() : begin);
    CHECK(differences(plain.outputs, outputs, k_close) == "");
    const rnn::Unrolled turned = cell.unroll(k_steps, x.swapaxes(0, 1), begin, rnn::Layout::TNC);
    CHECK(differences(turned.outputs.swapaxes(0, 1), outputs, k_close) == "");
    REQUIRE(plain.states.size() == states.size());
    for (std::size_t i = 0; i < states.size(); ++i) {
      CHECK(differences(plain.states[i], states[i], k_close) == "");
      CHECK(differences(turned.states[i], states[i], k_close) == "");
    }
  }
}

/// The outputs of a cell that is unrolled, as a layer.
class Unrolling : public gluon::Block {
 public:
  explicit Unrolling(std::shared_ptr<rnn::Cell> cell) : cell_(child("cell", std::move(cell))) {}

 protected:
  NDArray forward(const NDArray& x) const override { return cell_->unroll(k_steps, x).outputs; }

 private:
  gluon::Child<rnn::Cell> cell_;
};

}  // namespace

TEST_CASE("Cells one on the other are the one's outputs given to the other", "[gluon][rnn]") {
  const auto lstm = filled<rnn::LSTMCell>(4, k_size, 10);
  const auto gru = filled<rnn::GRUCell>(2, 4, 20);
  rnn::SequentialRNNCell both;
  both.add(lstm);
  both.add(rnn::DropoutCell(0.5));
  both.add(gru);
  CHECK(both.size() == 3);
  CHECK(both.collect_params().names().starts_with("0.i2h_weight, "));
  CHECK(both.collect_params().find("2.h2h_bias").has_value());
  const NDArray x = random_array({k_batch, k_steps, k_size}, 1);
  const rnn::Unrolled all = both.unroll(k_steps, x);
  const rnn::Unrolled first = lstm->unroll(k_steps, x);
  CHECK(values(all.outputs) == values(gru->unroll(k_steps, first.outputs).outputs));
  CHECK(values(all.states[1]) == values(first.states[1]));
  check_unrolled(both, x);
  CHECK_THROWS_AS(both.call(Arrays{ones({2, 3})}), ValueError);
  CHECK_THROWS_WITH(both.unroll(k_steps, x, {ones({2, 4})}), contains("takes 3 states") && contains("not 1"));
}

TEST_CASE("A residual cell adds its input, a cell of dropout drops in training alone", "[gluon][rnn]") {
  const auto gru = filled<rnn::GRUCell>(k_size, k_size, 10);
  const rnn::ResidualCell residual(gru);
  const NDArray x = random_array({k_batch, k_steps, k_size}, 1);
  CHECK(values(residual.unroll(k_steps, x).outputs) == values(gru->unroll(k_steps, x).outputs + x));
  CHECK(residual.collect_params().find("cell.i2h_weight").has_value());
  check_unrolled(residual, x);

  const rnn::DropoutCell half(0.5), none(0), all(1);
  CHECK(values(half.unroll(k_steps, x).outputs) == values(x));
  check_unrolled(half, x);
  const autograd::TrainScope training;
  CHECK(values(none.call(Arrays{x})[0]) == values(x));
  CHECK(values(all.unroll(k_steps, x).outputs) == std::vector<float>(static_cast<std::size_t>(x.size()), 0));
  const std::vector<float> whole = values(ones({100, 10, 10})),
                           left = values(half.unroll(10, ones({100, 10, 10})).outputs);
  const auto kept = std::count(left.begin(), left.end(), 2.0f);
  CHECK(kept + std::count(left.begin(), left.end(), 0.0f) == std::ssize(whole));
  CHECK((kept > 4700 && kept < 5300));
  CHECK_THROWS_WITH(rnn::DropoutCell(1.5), contains("rnn::DropoutCell: rate 1.5"));
}

TEST_CASE("A bidirectional cell is a bidirectional layer", "[gluon][rnn]") {
  const rnn::BidirectionalCell cell(rnn::LSTMCell(4, {.input_size = k_size}), rnn::LSTMCell(4, {.input_size = k_size}));
  rnn::LSTM layer(4, {.layout = rnn::Layout::NTC, .bidirectional = true, .input_size = k_size});
  layer.initialize();
  std::uint64_t seed = 3;
  for (const auto& [name, parameter] : cell.collect_params()) {
    parameter.set_data(random_array(parameter.shape(), seed++, -0.8, 0.8));
    const std::string of_layer = (name.starts_with("l_cell.") ? "l0_" : "r0_") + name.substr(std::size("l_cell.") - 1);
    layer.collect_params()[of_layer].set_data(parameter.data());
  }
  const NDArray x = random_array({k_batch, k_steps, k_size}, 1);
  CHECK(differences(cell.unroll(k_steps, x).outputs, layer(x), k_close) == "");
  const NDArray h = random_array({2, k_batch, 4}, 5), c = random_array({2, k_batch, 4}, 6);
  const auto part = [](const NDArray& all, std::int64_t i) { return all.slice(0, i, i + 1).squeeze(0); };
  const rnn::Unrolled from =
      cell.unroll(k_steps, x.swapaxes(0, 1), {part(h, 0), part(c, 0), part(h, 1), part(c, 1)}, rnn::Layout::TNC);
  const Arrays want = layer({x, h, c});
  CHECK(differences(from.outputs.swapaxes(0, 1), want[0], k_close) == "");
  CHECK(differences(from.states[0], part(want[1], 0), k_close) == "");
  CHECK(differences(from.states[3], part(want[2], 1), k_close) == "");
  CHECK_THROWS_AS(cell.call(Arrays{ones({2, 3})}), UnsupportedError);
}

TEST_CASE("Zoneout keeps elements of outputs and states in training, none otherwise", "[gluon][rnn]") {
  const auto make = [](rnn::ZoneoutOptions options) {
    auto cell = std::make_shared<rnn::ZoneoutCell>(rnn::LSTMCell(4, {.input_size = k_size}), options);
    cell->initialize();
    std::uint64_t seed = 10;
    for (const auto& [name, parameter] : cell->collect_params())
      parameter.set_data(random_array(parameter.shape(), seed++, -0.8, 0.8));
    return cell;
  };
  const auto plain = filled<rnn::LSTMCell>(4, k_size, 10);
  const NDArray x = random_array({k_batch, k_steps, k_size}, 1);
  const auto both = make({.outputs = 0.5, .states = 0.3});
  CHECK(both->num_states() == 3);
  CHECK(values(both->unroll(k_steps, x).outputs) == values(plain->unroll(k_steps, x).outputs));
  check_unrolled(*both, x);

  const autograd::TrainScope training;
  const rnn::Unrolled still = make({.outputs = 1, .states = 1})->unroll(k_steps, x);
  for (const NDArray& array : {still.outputs, still.states[0], still.states[1], still.states[2]})
    CHECK(values(array) == std::vector<float>(static_cast<std::size_t>(array.size()), 0));
  CHECK(make({.states = 0.5})->num_states() == 2);
  const NDArray many = random_array({500, k_size}, 2);
  const Arrays before = {random_array({500, 4}, 3), random_array({500, 4}, 4), random_array({500, 4}, 5)};
  const Arrays fresh = plain->call(Arrays{many, before[0], before[1]});
  const Arrays got = both->call(Arrays{many, before[0], before[1], before[2]});
  REQUIRE(got.size() == 4);
  CHECK(values(got[3]) == values(got[0]));
  const auto share_kept = [](const NDArray& now, const NDArray& old, const NDArray& is) {
    const std::vector<float> a = values(now), b = values(old), c = values(is);
    double kept = 0;
    for (std::size_t i = 0; i < c.size(); ++i) {
      CHECK((c[i] == a[i] || c[i] == b[i]));
      kept += c[i] == b[i] ? 1 : 0;
    }
    return kept / static_cast<double>(c.size());
  };
  CHECK(share_kept(fresh[0], before[2], got[0]) == Approx(0.5).margin(0.06));
  CHECK(share_kept(fresh[1], before[0], got[1]) == Approx(0.3).margin(0.06));
  CHECK(share_kept(fresh[2], before[1], got[2]) == Approx(0.3).margin(0.06));
  CHECK_THROWS_WITH(make({.outputs = -1}), contains("rnn::ZoneoutCell: outputs -1"));
  CHECK_THROWS_WITH(make({.states = 2}), contains("states 2"));
}

TEST_CASE("Cells of cells have the gradients of their parts, by hand and as graphs", "[gluon][rnn]") {
  const auto lower = filled<rnn::LSTMCell>(k_size, k_size, 10);
  const auto upper = filled<rnn::GRUCell>(k_size, k_size, 20);
  const auto stack = std::make_shared<rnn::SequentialRNNCell>();
  stack->add(lower);
  stack->add(std::make_shared<rnn::ResidualCell>(upper));
  Unrolling net(stack);
  const auto run = [&](std::int64_t n) {
    NDArray x = random_array({n, k_steps, k_size}, 1), y;
    x.attach_grad();
    net.zero_grad();
    {
      const autograd::RecordScope record;
      y = net(x);
    }
    y.backward();
    return std::vector{values(y), values(x.grad()), values(lower->collect_params()["h2h_weight"].grad())};
  };
  std::vector<std::vector<std::vector<float>>> by_hand;
  for (const std::int64_t n : {2, 4})
    by_hand.push_back(run(n));
  net.hybridize();
  CHECK(run(2) == by_hand[0]);
  CHECK(run(4) == by_hand[1]);
  CHECK(net.hybrid_traces() >= 1);
  const auto loss_of = [&](const std::vector<NDArray>& v) { return net(v[0]).reshape({-1}); };
  net.cast(float64);
  CHECK(gradient_differences(loss_of, {random_array({2, k_steps, k_size}, 1, -1, 1, float64)}) == "");
}
