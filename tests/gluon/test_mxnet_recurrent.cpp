// MXNet's recurrent nodes as Gluon and Module write them, against plain loops.
#include <limits>
#include <string>
#include <vector>

#include "tests/gluon/recurrent_loops.h"
#include "tests/gluon/support.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;
using gluon::formats::MxnetSymbol;

namespace {

/// A -symbol.json that grows node by node.
class Symbol {
 public:
  std::size_t add(
      const std::string& op,
      const std::string& name,
      const std::string& attributes,
      const std::vector<std::size_t>& inputs = {}) {
    std::string taken;
    for (const std::size_t input : inputs)
      taken += message(taken.empty() ? "" : ",", "[", input, ",0,0]");
    nodes_ += message(nodes_.empty() ? "" : ",", R"({"op":")", op, R"(","name":")", name, R"(","attrs":{)", attributes);
    nodes_ += message("},\"inputs\":[", taken, "]}");
    return count_++;
  }
  std::size_t array(const std::string& name) { return add("null", name, ""); }
  std::string text(const std::string& heads) const {
    return message(R"({"nodes":[)", nodes_, R"(],"heads":)", heads, "}");
  }

 private:
  std::string nodes_;
  std::size_t count_ = 0;
};

struct Network {
  std::string kind;  // of looped()
  bool both = false;
  std::int64_t layers = 1;
  bool turns = false;  // Gluon's layout NTC
  bool has_states = true, has_lengths = false;
  std::string more = {};  // attributes
  std::int64_t input = 3, hidden = 4;

  std::string mode() const {
    return kind == "LSTM" ? "lstm" : kind == "GRU" ? "gru" : kind == "relu" ? "rnn_relu" : "rnn_tanh";
  }
  std::int64_t rows() const { return hidden * (kind == "LSTM" ? 4 : kind == "GRU" ? 3 : 1); }
  std::int64_t directions() const { return both ? 2 : 1; }
  std::size_t states() const { return kind == "LSTM" ? 2 : 1; }
  std::string prefix(std::int64_t layer, std::int64_t direction) const {
    return message("net_", direction == 0 ? "l" : "r", layer, "_");
  }
  template <class Each>
  void each(const Each& run) const {
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      for (std::int64_t direction = 0; direction < directions(); ++direction)
        run(layer, direction, prefix(layer, direction));
    }
  }

  gluon::formats::NamedArrays parameters() const {
    gluon::formats::NamedArrays all;
    each([&](std::int64_t layer, std::int64_t /*direction*/, const std::string& name) {
      const auto add = [&](const char* what, const Shape& shape) {
        all.emplace_back(name + what, random_array(shape, 10 + all.size(), -0.7, 0.7));
      };
      add("i2h_weight", {rows(), layer == 0 ? input : hidden * directions()});
      add("h2h_weight", {rows(), hidden});
      add("i2h_bias", {rows()});
      add("h2h_bias", {rows()});
    });
    return all;
  }
  WeightsAt weights() const {
    return [all = parameters(), this](std::size_t layer, std::size_t direction) -> RecurrentWeightsOf {
      const std::size_t first = 4 * (layer * static_cast<std::size_t>(directions()) + direction);
      const auto values_of = [&](std::size_t i) { return all[first + i].second.to_vector<double>(); };
      return {values_of(0), values_of(1), values_of(2), values_of(3)};
    };
  }

  // As rnn_layer.py writes it.
  std::string symbol(bool with_states_out = true) const {
    Symbol s;
    const std::size_t data = s.array("data");
    const std::size_t x = turns ? s.add("SwapAxis", "first", R"("dim1":"0","dim2":"1")", {data}) : data;
    std::vector<std::size_t> parts;
    for (const char* const kind_of : {"weight", "bias"}) {
      each([&](std::int64_t /*layer*/, std::int64_t /*direction*/, const std::string& name) {
        for (const char* const group : {"i2h_", "h2h_"}) {
          const std::size_t parameter = s.array(name + group + kind_of);
          parts.push_back(s.add("Reshape", message("flat", parts.size()), R"("shape":"-1")", {parameter}));
        }
      });
    }
    std::vector<std::size_t> taken{
        x, s.add("_rnn_param_concat", "all", message(R"("dim":"0","num_args":")", parts.size(), '"'), parts)};
    const std::string open = message(
        R"x("__layout__":"LNC","dtype":"float32","shape":"()x", layers * directions(), ", 0, ", hidden, R"x()")x");
    for (std::size_t i = 0; i < states(); ++i)
      taken.push_back(has_states ? s.array(i == 0 ? "h" : "c") : s.add("_zeros", message("begin", i), open));
    if (has_lengths)
      taken.push_back(s.array("lengths"));
    const std::string attributes = message(
        R"("bidirectional":")",
        both ? "True" : "False",
        R"(","lstm_state_clip_max":"None","lstm_state_clip_nan":)",
        R"("False","mode":")",
        mode(),
        R"(","num_layers":")",
        layers,
        R"(","p":"0.3","projection_size":"None",)",
        R"("state_outputs":")",
        with_states_out ? "True" : "False",
        R"(","state_size":")",
        hidden,
        R"(","use_sequence_length":")",
        has_lengths ? "True" : "False",
        '"',
        more);
    const std::size_t made = s.add("RNN", "the_rnn", attributes, taken);
    const std::size_t y = turns ? s.add("SwapAxis", "last", R"("dim1":"0","dim2":"1")", {made}) : made;
    const std::string ends =
        states() == 2 ? message(",[", made, ",1,0],[", made, ",2,0]") : message(",[", made, ",1,0]");
    return s.text(message("[[", y, ",0,0]", has_states ? ends : "", "]"));
  }

  std::vector<std::string> inputs() const {
    std::vector<std::string> names{"data"};
    for (std::size_t i = 0; has_states && i < states(); ++i)
      names.emplace_back(i == 0 ? "h" : "c");
    if (has_lengths)
      names.emplace_back("lengths");
    return names;
  }
  MxnetSymbol imported(const std::string& text) const {
    const TemporaryFolder folder;
    write_file(folder / "net-symbol.json", {text.begin(), text.end()});
    gluon::formats::save_mxnet(folder / "net-0000.params", parameters());
    return MxnetSymbol::imports(folder / "net-symbol.json", inputs(), folder / "net-0000.params");
  }
  MxnetSymbol imported() const { return imported(symbol()); }

  Shape state_shape(std::int64_t batch) const { return {layers * directions(), batch, hidden}; }
};

constexpr Tolerance k_close{2e-5, 2e-6};

template <class Each>
void each_network(const Each& run) {
  for (const std::string& kind : k_recurrent_kinds) {
    for (const bool both : {false, true}) {
      for (const std::int64_t layers : {1, 3})
        run(Network{.kind = kind, .both = both, .layers = layers});
    }
  }
}

}  // namespace

TEST_CASE("MXNet's RNN gives what loops give: modes, layers, directions, layouts, states", "[gluon][formats][rnn]") {
  each_network([](Network n) {
    for (const bool turns : {false, true}) {
      n.turns = turns;
      CAPTURE(n.kind, n.both, n.layers, n.turns);
      const NDArray x = random_array({5, 2, n.input}, 1), h = random_array(n.state_shape(2), 2),
                    c = random_array(n.state_shape(2), 3);
      const Looped want = looped(n.kind, n.weights(), x, h, c, n.both);
      const MxnetSymbol net = n.imported();
      const NDArray given = turns ? x.swapaxes(0, 1) : x;
      const Arrays got = n.states() == 2 ? net({given, h, c}) : net({given, h});
      REQUIRE(got.size() == 1 + n.states());
      CHECK(differences(turns ? got[0].swapaxes(0, 1) : got[0], want.y, k_close) == "");
      CHECK(differences(got[1], want.h, k_close) == "");
      if (n.states() == 2)
        CHECK(differences(got[2], want.c, k_close) == "");
    }
  });
}

TEST_CASE("Gluon's zeros of an open batch are states of zeros, for any batch, hybridized", "[gluon][formats][rnn]") {
  each_network([](Network n) {
    n.has_states = false;
    n.turns = true;
    CAPTURE(n.kind, n.both, n.layers);
    MxnetSymbol net = n.imported();
    for (const bool hybrid : {false, true}) {
      if (hybrid)
        net.hybridize();
      for (const std::int64_t batch : {2, 7, 1}) {
        const NDArray x = random_array({3, batch, n.input}, 1), none = zeros(n.state_shape(batch));
        const NDArray want = looped(n.kind, n.weights(), x, none, none, n.both).y;
        CHECK(differences(net(x.swapaxes(0, 1)).swapaxes(0, 1), want, k_close) == "");
      }
    }
    CHECK(net(zeros({0, 3, n.input})).shape() == Shape{0, 3, n.hidden * n.directions()});
  });
}

TEST_CASE("MXNet's lengths of sequences, of floats too, are lengths here", "[gluon][formats][rnn][lengths]") {
  each_network([](Network n) {
    n.has_lengths = true;
    CAPTURE(n.kind, n.both, n.layers);
    const std::vector<std::int64_t> list{2, 5, 0, 3};
    const NDArray lengths = array(list, {4});
    NDArray x = random_array({5, 4, n.input}, 1);
    const NDArray h = random_array(n.state_shape(4), 2), c = random_array(n.state_shape(4), 3);
    const Looped want = looped(n.kind, n.weights(), x, h, c, n.both, list);
    x = sequence_mask(x, lengths, std::numeric_limits<double>::quiet_NaN());
    const MxnetSymbol net = n.imported();
    for (const DType dtype : {float32, int32}) {
      const NDArray given = lengths.astype(dtype);
      const Arrays got = n.states() == 2 ? net({x, h, c, given}) : net({x, h, given});
      CHECK(differences(got[0], want.y, k_close) == "");
      CHECK(differences(got[1], want.h, k_close) == "");
      if (n.states() == 2)
        CHECK(differences(got[2], want.c, k_close) == "");
    }
  });
}

TEST_CASE(
    "MXNet's recurrent networks are trained and dropped out, parameters as one array too", "[gluon][formats][rnn]") {
  const Network n{.kind = "GRU", .both = true, .layers = 2, .has_states = false};
  MxnetSymbol net = n.imported();
  const NDArray x = random_array({4, 6, 3}, 1), target = random_array({4, 6, 8}, 2, -0.5, 0.5);
  {
    const autograd::TrainScope training;
    CHECK(differences(net(x), net(x)) != "");
  }
  L2Loss loss;
  Trainer trainer(net.collect_params(), Adam({.learning_rate = 0.05}));
  gluon::TrainStep step(net, loss, trainer);
  const double first = mean(step(x, target).losses).item<double>();
  for (int i = 0; i < 60; ++i)
    step(x, target);
  CHECK(mean(step(x, target).losses).item<double>() < 0.7 * first);
  // As Module has it: one array of all parameters.
  const TemporaryFolder folder;
  Symbol s;
  const std::size_t data = s.array("data"), all = s.array("net_parameters"), h = s.array("h");
  s.add("RNN", "net", R"("mode":"rnn_tanh","num_layers":"1","state_size":"4")", {data, all, h});
  const std::string text = s.text("[[3,0,0]]");
  write_file(folder / "net-symbol.json", {text.begin(), text.end()});
  const NDArray parameters = random_array({4 * 3 + 4 * 4 + 2 * 4}, 5);
  gluon::formats::save_mxnet(folder / "net.params", {{"net_parameters", parameters}});
  const auto plain = MxnetSymbol::imports(folder / "net-symbol.json", {"data", "h"}, folder / "net.params");
  const auto weights = [&](std::size_t, std::size_t) -> RecurrentWeightsOf {
    const auto part = [&](std::int64_t begin, std::int64_t end) {
      return parameters.slice(0, begin, end).to_vector<double>();
    };
    return {part(0, 12), part(12, 28), part(28, 32), part(32, 36)};
  };
  const NDArray begin = random_array({1, 6, 4}, 6);
  CHECK(differences(plain({x, begin})[0], looped("tanh", weights, x, begin, begin, false).y, k_close) == "");
}

TEST_CASE("Recurrent nodes without a counterpart, or damaged, are refused", "[gluon][formats][rnn]") {
  Network n{.kind = "LSTM"};
  const auto with = [&](const std::string& more) {
    n.more = more;
    return n.imported();
  };
  CHECK_NOTHROW(with(""));
  CHECK_THROWS_WITH(with(R"(,"projection_size":"2")"), contains("the_rnn") && contains("projection_size = 2"));
  CHECK_THROWS_AS(with(R"(,"projection_size":"2")"), UnsupportedError);
  CHECK_THROWS_WITH(with(R"(,"lstm_state_clip_min":"-1")"), contains("lstm_state_clip_min = -1"));
  CHECK_THROWS_WITH(with(R"(,"lstm_state_clip_nan":"True")"), contains("lstm_state_clip_nan"));
  CHECK_THROWS_WITH(with(R"(,"mode":"elman")"), contains("mode = elman"));
  CHECK_THROWS_WITH(with(R"(,"mode":"gru")"), contains("gru") && contains("takes 3 arrays, not 4"));
  CHECK_THROWS_WITH(with(R"(,"use_sequence_length":"True")"), contains("lengths") && contains("5 arrays, not 4"));
  CHECK_THROWS_AS(with(R"(,"mode":"gru")"), FileError);
  CHECK_THROWS_WITH(with(R"(,"state_size":"0")"), contains("state_size is 0"));
  CHECK_THROWS_WITH(with(R"(,"num_layers":"-1")"), contains("num_layers is -1"));
  CHECK_THROWS_WITH(with(R"(,"num_layers":"two")"), contains("num_layers") && contains("two"));
  CHECK_THROWS_WITH(with(R"(,"bidirectional":"perhaps")"), contains("bidirectional"));
  n.more.clear();
  const auto changed = [&](std::string text, const std::string& what, const std::string& by) {
    const std::size_t at = text.find(what);
    REQUIRE(at != std::string::npos);
    return n.imported(text.replace(at, what.size(), by));
  };
  CHECK_THROWS_WITH(changed(n.symbol(), R"("dim":"0")", R"("dim":"1")"), contains("dim = 1"));
  CHECK_THROWS_WITH(changed(n.symbol(), R"("dim":"0",)", ""), contains("does not say dim"));
  const NDArray x = ones({2, 2, 3}), state = ones({1, 2, 4});
  CHECK_THROWS_WITH(n.imported(n.symbol(false))({x, state, state}), contains("has no result 1"));
  CHECK_THROWS_WITH(n.imported()({x, state, ones({1, 3, 4})}), contains("(1, 2, 4)") && contains("(1, 3, 4)"));
  n.has_states = false;
  CHECK_THROWS_WITH(changed(n.symbol(), "(1, 0, 4)", "(1, 2, 4)"), contains("_zeros") && contains("(1, 2, 4)"));
}
