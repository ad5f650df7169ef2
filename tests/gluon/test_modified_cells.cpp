// Cells that change what others do, and loops over cells.
#include <algorithm>
#include <vector>

#include "tests/gluon/reference.h"

using namespace sluice;
using namespace sluice::test;
namespace rnn = gluon::rnn;

namespace {

std::shared_ptr<rnn::GRUCell> small_cell() {
  auto cell = std::make_shared<rnn::GRUCell>(3, rnn::CellOptions{.input_size = 2});
  random::seed(5);
  cell->initialize(gluon::init::Uniform(0.7));
  return cell;
}

/// Twice what the cell gives.
class Doubled : public rnn::ModifierCell {
 public:
  explicit Doubled(std::shared_ptr<rnn::Cell> cell) : ModifierCell(std::move(cell)) {}

 protected:
  Arrays forward_all(std::span<const NDArray> inputs) const override {
    Arrays results = ModifierCell::forward_all(inputs);
    results[0] = results[0] * 2;
    return results;
  }
};

/// What is 0 in all steps of (N, T, C), one flag for each sample and channel; it fails where steps differ.
std::vector<bool> dropped(const NDArray& all) {
  const Shape shape = all.shape();
  const std::vector<float> found = values(all);
  std::vector<bool> flags;
  for (std::int64_t n = 0; n < shape[0]; ++n) {
    for (std::int64_t c = 0; c < shape[2]; ++c) {
      int zeros = 0;
      for (std::int64_t t = 0; t < shape[1]; ++t)
        zeros += found[static_cast<std::size_t>((n * shape[1] + t) * shape[2] + c)] == 0 ? 1 : 0;
      CHECK((zeros == 0 || zeros == shape[1]));
      flags.push_back(zeros > 0);
    }
  }
  return flags;
}

/// All steps of (N, T, C), samples of their lengths if they are given.
class Unrolling : public gluon::Block {
 public:
  explicit Unrolling(std::shared_ptr<rnn::Cell> cell) : cell_(child("cell", std::move(cell))) {}

 protected:
  Arrays forward_all(std::span<const NDArray> inputs) const override {
    rnn::DynamicUnrollOptions options{.layout = rnn::Layout::NTC};
    if (inputs.size() > 1)
      options.valid_length = inputs[1];
    const rnn::Unrolled all = rnn::dynamic_unroll(*cell_, inputs[0], {}, options);
    Arrays results{all.outputs};
    results.insert(results.end(), all.states.begin(), all.states.end());
    return results;
  }

 private:
  gluon::Child<rnn::Cell> cell_;
};

}  // namespace

TEST_CASE("A cell of one's own changes what another one gives, step by step and unrolled", "[gluon][rnn]") {
  const auto inner = small_cell();
  const Doubled cell(inner);
  const NDArray x = pattern_array({2, 4, 2});
  CHECK(cell.num_states() == 1);
  CHECK(cell.begin_state(2)[0].shape() == Shape{2, 3});
  const NDArray plain = inner->unroll(4, x).outputs;
  check_near(values(cell.unroll(4, x).outputs), values(plain * 2));
  CHECK(cell.collect_params().names().find("cell.i2h_weight") == 0);
}

TEST_CASE("Variational dropout drops the same entries at all steps, and none in prediction", "[gluon][rnn]") {
  const auto inner = small_cell();
  const NDArray x = abs(pattern_array({64, 5, 2})) + 0.1;
  const rnn::Unrolled plain = inner->unroll(5, x);
  const rnn::VariationalDropoutCell all(inner, {.inputs = 0.3, .states = 0.3, .outputs = 0.3});
  CHECK(values(all.unroll(5, x).outputs) == values(plain.outputs));
  Arrays step{x.slice(1, 0, 1).squeeze(1), plain.states[0]};
  CHECK(values(all.call(step)[0]) == values(inner->call(step)[0]));

  const autograd::ModeScope training(false, true);
  const rnn::VariationalDropoutCell outputs(inner, {.outputs = 0.4});
  const NDArray y = outputs.unroll(5, x).outputs;
  const std::vector<bool> flags = dropped(y);
  const auto share =
      static_cast<double>(std::count(flags.begin(), flags.end(), true)) / static_cast<double>(flags.size());
  CHECK(share == Approx(0.4).margin(0.1));
  const std::vector<float> kept = values(y), before = values(plain.outputs);
  for (std::size_t i = 0; i < kept.size(); ++i)
    CHECK((kept[i] == 0 || kept[i] == Approx(before[i] / 0.6f)));

  // Of inputs: what the cell gives of masked ones, whose masks are to be found in a cell that hands them on.
  const rnn::VariationalDropoutCell handed(std::make_shared<rnn::DropoutCell>(0), {.inputs = 0.5});
  const std::vector<bool> masked = dropped(handed.unroll(5, x).outputs);
  CHECK(std::count(masked.begin(), masked.end(), true) > 30);
  CHECK(std::count(masked.begin(), masked.end(), false) > 30);
}

TEST_CASE("Variational dropout of states is one mask on the first state", "[gluon][rnn]") {
  // Each step gives its state, and the next one is that and 1: masked ones are 0 before each step.
  class Counting : public rnn::Cell {
   public:
    std::size_t num_states() const override { return 1; }
    Arrays begin_state(std::int64_t batch_size, Device device = cpu()) const override {
      return {ones({batch_size, 2}, {.device = device})};
    }

   protected:
    Arrays forward_all(std::span<const NDArray> inputs) const override { return {inputs[1], inputs[1] * 0 + 1}; }
  };
  const autograd::ModeScope training(false, true);
  const rnn::VariationalDropoutCell cell(std::make_shared<Counting>(), {.states = 0.5});
  const NDArray y = cell.unroll(4, zeros({50, 4, 2})).outputs;
  const std::vector<bool> flags = dropped(y);
  CHECK(std::count(flags.begin(), flags.end(), true) > 20);
  CHECK(std::count(flags.begin(), flags.end(), false) > 20);
  CHECK(max(y).item<float>() == 2);
  CHECK_THROWS_AS(rnn::VariationalDropoutCell(small_cell(), {.inputs = 1.5}), ValueError);
  CHECK_THROWS_AS(rnn::VariationalDropoutCell(small_cell(), {.states = -0.5}), ValueError);
}

TEST_CASE("dynamic_unroll gives what unroll gives, gradients too, in a graph as by hand", "[gluon][rnn]") {
  const auto cell = small_cell();
  for (const rnn::Layout layout : {rnn::Layout::TNC, rnn::Layout::NTC}) {
    for (const std::int64_t steps : {3, 40}) {
      const bool is_first = layout == rnn::Layout::TNC;
      const Shape shape = is_first ? Shape{steps, 2, 2} : Shape{2, steps, 2};
      const auto gradients = [&](auto&& unrolled) {
        NDArray x = pattern_array(shape), loss;
        x.attach_grad();
        cell->zero_grad();
        rnn::Unrolled all;
        {
          const autograd::RecordScope record;
          all = unrolled(x);
          loss = sum(square(all.outputs)) + sum(all.states[0]);
        }
        loss.backward();
        std::vector<float> found = values(all.outputs);
        for (const NDArray& one : {all.states[0], x.grad(), cell->own_parameter("h2h_weight").grad()}) {
          const std::vector<float> more = values(one);
          found.insert(found.end(), more.begin(), more.end());
        }
        return found;
      };
      const std::vector<float> wanted = gradients([&](const NDArray& x) { return cell->unroll(steps, x, {}, layout); });
      check_near(
          gradients([&](const NDArray& x) { return rnn::dynamic_unroll(*cell, x, {}, {.layout = layout}); }), wanted);
      gluon::nn::Lambda graph(
          [&](const NDArray& x) { return rnn::dynamic_unroll(*cell, x, {}, {.layout = layout}).outputs; });
      graph.hybridize();
      const NDArray x = pattern_array(shape);
      check_near(values(graph(x)), values(cell->unroll(steps, x, {}, layout).outputs));
    }
  }
}

TEST_CASE("dynamic_unroll ends each sequence at its length, and drops the same entries at all steps", "[gluon][rnn]") {
  const auto cell = small_cell();
  const NDArray x = pattern_array({3, 5, 2}), lengths = array<std::int64_t>({5, 2, 0});
  const Arrays begin{pattern_array({3, 3}, 4)};
  const rnn::Unrolled all = rnn::dynamic_unroll(*cell, x, begin, {.layout = rnn::Layout::NTC, .valid_length = lengths});
  for (std::int64_t n = 0; n < 3; ++n) {
    const std::int64_t length = std::vector<std::int64_t>{5, 2, 0}[static_cast<std::size_t>(n)];
    const NDArray own = all.outputs.slice(0, n, n + 1);
    CHECK(sum(abs(own.slice(1, length, 5))).item<float>() == 0);
    const Arrays from{begin[0].slice(0, n, n + 1)};
    if (length == 0) {
      CHECK(values(all.states[0].slice(0, n, n + 1)) == values(from[0]));
      continue;
    }
    const rnn::Unrolled one = cell->unroll(length, x.slice(0, n, n + 1).slice(1, 0, length), from);
    check_near(values(own.slice(1, 0, length)), values(one.outputs));
    check_near(values(all.states[0].slice(0, n, n + 1)), values(one.states[0]));
  }
  const autograd::ModeScope training(false, true);
  const NDArray many = abs(pattern_array({40, 4, 2})) + 0.1;
  const NDArray y = rnn::dynamic_unroll(*cell, many, {}, {.layout = rnn::Layout::NTC, .drop_outputs = 0.5}).outputs;
  const std::vector<bool> flags = dropped(y);
  CHECK(std::count(flags.begin(), flags.end(), true) > 30);
  CHECK_THROWS_AS(rnn::dynamic_unroll(*cell, many, {}, {.drop_inputs = 2}), ValueError);
  CHECK_THROWS_AS(rnn::dynamic_unroll(*cell, ones({3})), ShapeError);
}

TEST_CASE("dynamic_unroll of no samples gives none, in a graph as by hand", "[gluon][rnn]") {
  const auto cell = small_cell();
  Unrolling net(cell);
  for (const bool hybrid : {false, true}) {
    net.hybridize(hybrid);
    const Arrays none = net.call(Arrays{zeros({0, 5, 2})});
    CHECK(none[0].shape() == Shape{0, 5, 3});
    CHECK(none[1].shape() == Shape{0, 3});
  }
}

TEST_CASE("An exported dynamic_unroll serves batches of all sizes, as one node and step by step", "[gluon][rnn]") {
  const TemporaryFolder folder;
  const auto lstm = std::make_shared<rnn::LSTMCell>(3, rnn::CellOptions{.input_size = 2});
  const auto projected = std::make_shared<rnn::LSTMPCell>(4, 3, rnn::LSTMPCellOptions{.input_size = 2});
  for (const std::shared_ptr<rnn::Cell>& cell :
       std::vector<std::shared_ptr<rnn::Cell>>{small_cell(), lstm, projected}) {
    cell->initialize(gluon::init::Uniform(0.7));
    Unrolling net(cell);
    for (const std::int64_t steps : {3, 40}) {
      for (const bool has_lengths : {false, true}) {
        const auto inputs = [&](std::int64_t batch) {
          Arrays made{pattern_array({batch, steps, 2}, static_cast<int>(batch))};
          if (has_lengths)
            made.push_back(arange(0, static_cast<double>(batch), 1, {.dtype = int64}));
          return made;
        };
        net.export_to(folder / "net", inputs(4));
        const auto same = gluon::SymbolBlock::imports(folder / "net.json");
        CAPTURE(cell->num_states(), steps, has_lengths);
        CHECK(same.inputs()[0].batch);
        for (const std::int64_t batch : {4, 1, 2, 7}) {
          CAPTURE(batch);
          const Arrays found = same.call(inputs(batch)), wanted = net.call(inputs(batch));
          REQUIRE(found.size() == wanted.size());
          for (std::size_t i = 0; i < found.size(); ++i) {
            CHECK(found[i].shape() == wanted[i].shape());
            check_near(values(found[i]), values(wanted[i]));
          }
        }
      }
    }
  }
}
