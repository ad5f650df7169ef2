// Networks that MXNet exported run as blocks, and give what they gave there.
#include <cmath>

#include <sluice/storage/storage.h>

#include "tests/gluon/mxnet_files.h"
#include "tests/gluon/support.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;
using gluon::formats::MxnetSymbol;

namespace {

std::vector<std::uint8_t> bytes_of(const std::string& digits) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  return bytes;
}

/// The files in a folder, the symbol changed perhaps.
class Exported {
 public:
  explicit Exported(std::string symbol = k_mxnet_symbol) {
    write_file(folder_ / "net-symbol.json", {symbol.begin(), symbol.end()});
    write_file(folder_ / "net-0000.params", bytes_of(k_mxnet_parameters));
  }
  MxnetSymbol imports(const std::vector<std::string>& inputs = {"data"}) const {
    return MxnetSymbol::imports(folder_ / "net-symbol.json", inputs, folder_ / "net-0000.params");
  }
  const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
};

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), by);
}

/// A symbol of one operator on "data" and on parameters that the file has.
std::string of_one(const std::string& op, const std::string& attributes, const std::string& inputs = "[[0,0,0]]") {
  return R"({"nodes":[{"op":"null","name":"data","inputs":[]},{"op":"null","name":"fc_bias","inputs":[]},{"op":")" +
         op + R"(","name":"the_node","attrs":{)" + attributes + R"(},"inputs":)" + inputs + R"(}],"heads":[[2,0,0]]})";
}

NDArray run_one(const std::string& op, const std::string& attributes, const NDArray& x, bool with_bias = false) {
  const Exported exported(of_one(op, attributes, with_bias ? "[[0,0,0],[1,0,0]]" : "[[0,0,0]]"));
  return exported.imports()(x);
}

const std::vector<float> k_given = {
    0.011980684f, 8.9224734e-05f, 0.982894f, 0.0050361911f, 0.022436909f, 0.0046726842f, 0.44386494f, 0.5290255f};

}  // namespace

TEST_CASE("A network that MXNet exported gives what it gave there", "[gluon][formats]") {
  const Exported exported;
  MxnetSymbol net = exported.imports();
  const NDArray x = pattern_array({2, 2, 5, 5});
  check_near(values(net(x)), k_given);
  CHECK(net.collect_params().size() == 8);
  // Hybridized, for another batch, and as a file of Sluice's own.
  const auto plain = values(net(x));
  net.hybridize();
  CHECK(values(net(x)) == plain);
  CHECK(values(net(x[{{0, 1}}])).size() == 4);
  net.export_to(exported.folder() / "ours", {x});
  CHECK(values(gluon::SymbolBlock::imports(exported.folder() / "ours.json")(x)) == plain);
}

TEST_CASE("What was imported from MXNet is trained, but for running statistics", "[gluon][formats]") {
  const Exported exported;
  MxnetSymbol net = exported.imports();
  const NDArray x = pattern_array({2, 2, 5, 5}), labels = array<std::int32_t>({1, 3});
  Trainer trainer(net.collect_params(), Adam({.learning_rate = 0.05}));
  const SoftmaxCrossEntropyLoss cost({.from_logits = true});
  double first = 0, last = 0;
  for (int i = 0; i < 30; ++i) {
    NDArray loss;
    {
      const autograd::RecordScope record;
      loss = cost(log(net(x)), labels);
    }
    loss.backward();
    trainer.step(2);
    last = mean(loss).item<double>();
    first = i == 0 ? last : first;
  }
  CHECK(last < first / 3);
  int untrained = 0;
  for (const auto& [name, parameter] : net.collect_params())
    untrained += parameter.grad_req() == GradReq::null ? 1 : 0;
  CHECK(untrained == 2);
  const MxnetSymbol fresh = exported.imports();
  CHECK(values(net.own_parameter("norm_moving_mean").data()) != values(fresh.own_parameter("norm_moving_mean").data()));
  net.save_parameters(exported.folder() / "trained.params");
  MxnetSymbol other = exported.imports();
  other.load_parameters(exported.folder() / "trained.params");
  CHECK(values(other(x)) == values(net(x)));
}

TEST_CASE("Operators of MXNet's mean what they mean there", "[gluon][formats]") {
  const NDArray x = random_array({2, 3, 4, 4}, 1, -2, 2), flat = x.reshape({2, 48});
  const auto check = [](const NDArray& found, const NDArray& wanted) {
    CHECK(found.shape() == wanted.shape());
    CHECK(differences(found, wanted, {1e-6, 1e-6}) == "");
  };
  check(run_one("Activation", R"x("act_type":"softrelu")x", x), softplus(x));
  check(run_one("Activation", R"x("act_type":"sigmoid")x", x), sigmoid(x));
  check(run_one("Activation", R"x("act_type":"softsign")x", x), softsign(x));
  check(run_one("LeakyReLU", R"x("act_type":"leaky","slope":"0.1")x", x), leaky_relu(x, 0.1));
  check(run_one("LeakyReLU", R"x("act_type":"selu")x", x), selu(x));
  check(run_one("LeakyReLU", R"x("act_type":"gelu")x", x), gelu(x));
  check(run_one("Pooling", R"x("global_pool":"True","pool_type":"avg","kernel":"(7, 7)")x", x), mean(x, {2, 3}, true));
  check(run_one("Pooling", R"x("kernel":"(2, 2)","stride":"(1, 1)")x", x), max_pool2d(x, {.stride = {1, 1}}));
  check(
      run_one("Pooling", R"x("kernel":"(3, 3)","pad":"(1, 1)","pool_type":"avg","count_include_pad":"False")x", x),
      avg_pool2d(x, {.kernel = {3, 3}, .stride = {1, 1}, .pad = {1, 1}, .count_include_pad = false}));
  check(run_one("Reshape", R"x("shape":"(-1, 0)")x", x), x.reshape({32, 3}));
  check(run_one("Reshape", R"x("shape":"(0, 0, -1)")x", x), x.reshape({2, 3, 16}));
  check(run_one("transpose", R"x("axes":"(0, 2, 3, 1)")x", x), x.transpose({0, 2, 3, 1}));
  check(run_one("transpose", "", x), x.T());
  check(run_one("space_to_depth", R"x("block_size":"2")x", x), space_to_depth(x, 2));
  check(run_one("depth_to_space", R"x("block_size":"2")x", space_to_depth(x, 2)), x);
  check(run_one("expand_dims", R"x("axis":"1")x", x), x.expand_dims(1));
  check(run_one("slice_axis", R"x("axis":"2","begin":"1","end":"None")x", x), x.slice(2, 1, 4));
  check(run_one("slice_axis", R"x("axis":"-1","begin":"0","end":"-1")x", x), x.slice(3, 0, 3));
  check(run_one("SliceChannel", R"x("num_outputs":"3","squeeze_axis":"1")x", x), x.slice(1, 0, 1).squeeze(1));
  check(run_one("mean", R"x("axis":"1")x", x), mean(x, {1}));
  check(run_one("max", R"x("axis":"()","keepdims":"False")x", x), max(x).reshape({1}));
  check(run_one("mean", "", x), mean(x).reshape({1}));
  check(run_one("sum", R"x("axis":"[1, 2]")x", x), sum(x, {1, 2}));
  check(run_one("softmax", R"x("axis":"1","temperature":"2.0")x", x), softmax(x / 2, 1));
  check(run_one("log_softmax", "", x), log_softmax(x));
  check(run_one("SoftmaxOutput", R"x("multi_output":"True","__ctx__":"x")x", x), softmax(x, 1));
  check(run_one("LogisticRegressionOutput", R"x("grad_scale":"2.0")x", x), sigmoid(x));
  check(run_one("Flatten", "", x), flat);
  check(run_one("Dropout", R"x("p":"0.5","cudnn_off":"False","mode":"training")x", x), x);
  check(run_one("_rminus_scalar", R"x("scalar":"3")x", x), 3 - x);
  check(run_one("_rdiv_scalar", R"x("scalar":"3")x", x), 3 / x);
  check(run_one("_power_scalar", R"x("scalar":"2")x", x), x * x);
  check(run_one("_div_scalar", R"x("scalar":"4","is_int":"True")x", x), x / 4);
  const NDArray bias = Exported().imports().own_parameter("fc_bias").data();
  check(run_one("broadcast_sub", "", x, true), x - bias);
  check(run_one("elemwise_mul", "", x, true), x * bias);
  check(run_one("broadcast_maximum", "", x, true), maximum(x, bias));
  check(run_one("_Div", "", x, true), x / bias);
  const NDArray x1 = random_array({2, 1, 9}, 2);
  const Exported one(of_one(
      "Convolution",
      R"x("kernel":"(4,)","num_filter":"1","no_bias":"True","pad":"(1,)","stride":"()")x",
      "[[0,0],[1,0]]"));
  gluon::formats::save_any(one.folder() / "net-0000.params", {{"fc_bias", bias.reshape({1, 1, 4})}});
  check(one.imports()(x1), convolution1d(x1, bias.reshape({1, 1, 4}), {}, {.pad = {1}}));
}

TEST_CASE("Whole numbers of MXNet's operators keep all their digits", "[gluon][formats]") {
  using Whole = std::vector<std::int64_t>;
  const Whole given{16777217, 7, -7, 9007199254740993};
  const NDArray whole = array(given, {4});
  const auto of_whole = [&](const std::string& op, const std::string& attributes) {
    return run_one(op, attributes, whole).to_vector<std::int64_t>();
  };
  CHECK(of_whole("_div_scalar", R"x("scalar":"1")x") == given);
  CHECK(of_whole("_div_scalar", R"x("scalar":"-2")x") == Whole{-8388608, -3, 3, -4503599627370496});
  CHECK(of_whole("_rdiv_scalar", R"x("scalar":"33554435")x") == Whole{2, 4793490, -4793490, 0});
  CHECK(of_whole("clip", R"x("a_min":"-1.5","a_max":"1e300")x") == Whole{16777217, 7, -1, 9007199254740993});
  const NDArray bytes = array<std::int8_t>({-128, 101, 127});
  const NDArray clipped = run_one("clip", R"x("a_min":"-200","a_max":"100")x", bytes);
  CHECK(clipped.to_vector<std::int8_t>() == std::vector<std::int8_t>{-128, 100, 100});
}

TEST_CASE("Weights of another kernel are refused, and indices beyond a table are its nearest", "[gluon][formats]") {
  const NDArray bias = Exported().imports().own_parameter("fc_bias").data();
  const Exported one(of_one("Convolution", R"x("kernel":"(4,)","num_filter":"1","no_bias":"True")x", "[[0,0],[1,0]]"));
  gluon::formats::save_any(one.folder() / "net-0000.params", {{"fc_bias", bias.reshape({1, 2, 2})}});
  CHECK_THROWS_WITH(one.imports()(ones({2, 1, 9})), contains("a weight of shape (1, 2, 2) is not of the kernel (4,)"));
  const Exported vectors(of_one("Embedding", R"x("input_dim":"2","output_dim":"2")x", "[[0,0],[1,0]]"));
  gluon::formats::save_any(vectors.folder() / "net-0000.params", {{"fc_bias", bias.reshape({2, 2})}});
  const NDArray places = array({0.0f, 1.0f, 2.0f, -1.0f});  // the last two are not there
  CHECK(values(vectors.imports()(places)) == values(take(bias.reshape({2, 2}), array({0, 1, 1, 0}))));
}

TEST_CASE("What an operator of MXNet's does unless told otherwise is what it does there", "[gluon][formats]") {
  const auto check = [](const NDArray& found, const std::vector<float>& wanted, const Shape& shape, DType dtype) {
    CHECK(found.shape() == shape);
    CHECK(found.dtype() == dtype);
    check_near(found.to_vector<float>(), wanted);
  };
  // Classes of an output layer are all that is not a sample.
  const NDArray logs = log(array<float>({1, 2, 3, 4, 3, 3, 3, 3}, {2, 2, 2}));
  check(run_one("SoftmaxOutput", "", logs), {.1f, .2f, .3f, .4f, .25f, .25f, .25f, .25f}, {2, 2, 2}, float32);
  check(run_one("_plus_scalar", "", ones({2})), {2, 2}, {2}, float32);
  check(run_one("_rminus_scalar", "", ones({2})), {0, 0}, {2}, float32);
  // Whole numbers stay whole, to the last one.
  const NDArray whole = array<std::int32_t>({7, 16777217});
  check(run_one("_plus_scalar", R"x("scalar":"3")x", whole), {10, 16777220}, {2}, int32);
  check(run_one("_div_scalar", R"x("scalar":"2")x", whole), {3, 8388608}, {2}, int32);
  check(run_one("_rdiv_scalar", R"x("scalar":"15","is_int":"True")x", array<std::int32_t>({4})), {3}, {1}, int32);
  check(run_one("_mul_scalar", R"x("scalar":"2.5","is_int":"False")x", array<std::int32_t>({3})), {7.5}, {1}, float32);
}

TEST_CASE("Layers of MXNet's have its defaults", "[gluon][formats]") {
  const NDArray x = array<float>({-2, 4, 8, -16}, {1, 1, 2, 2});
  check_near(values(run_one("LeakyReLU", "", x)), {-0.5f, 4, 8, -4});
  CHECK(values(run_one("LeakyReLU", R"x("act_type":"elu")x", x))[0] == Approx(0.25 * std::expm1(-2)));
  check_near(
      values(run_one("Pooling", R"x("kernel":"(3, 3)","pad":"(1, 1)","pool_type":"avg")x", x)),
      std::vector<float>(4, -6 / 9.f));
  const Exported twice(of_one("Concat", "", "[[0,0],[0,0]]"));
  CHECK(twice.imports()(x).shape() == Shape{1, 2, 2, 2});
  std::string nodes = R"({"nodes":[{"op":"null","name":"data","inputs":[]})";
  for (const char* const name : {"gamma", "beta", "mean", "var"})
    nodes += message(R"(,{"op":"null","name":")", name, R"(","inputs":[]})");
  const Exported norm(
      nodes + R"(,{"op":"BatchNorm","name":"b","inputs":[[0,0],[1,0],[2,0],[3,0],[4,0]]}],"heads":[[5,0]]})");
  const auto one = [](float value) { return array<float>({value}); };
  gluon::formats::save_any(
      norm.folder() / "net-0000.params", {{"gamma", one(7)}, {"beta", one(1)}, {"mean", one(2)}, {"var", one(0.003f)}});
  const MxnetSymbol net = norm.imports();
  // gamma counts as 1, eps is a thousandth, and a tenth of a batch's statistics is taken over.
  CHECK(values(net(x))[1] == Approx(1 + 2 / std::sqrt(0.004)));
  {
    const autograd::RecordScope record;
    net(x);
  }
  CHECK(values(net.own_parameter("mean").data())[0] == Approx(0.9 * 2 - 0.1 * 1.5));
}

TEST_CASE("Windows of nothing, which MXNet's pooling fills with something, are refused", "[gluon][formats]") {
  const NDArray x = random_array({1, 1, 9, 11}, 1);
  const auto pool = [&](const std::string& of) {
    return run_one("Pooling", of + R"x(,"pooling_convention":"full")x", x);
  };
  CHECK(pool(R"x("kernel":"(3, 3)","stride":"(2, 2)")x").shape() == Shape{1, 1, 4, 5});
  CHECK(pool(R"x("kernel":"(2, 2)","stride":"(2, 2)")x").shape() == Shape{1, 1, 5, 6});
  CHECK_THROWS_AS(pool(R"x("kernel":"(1, 1)","stride":"(3, 3)")x"), UnsupportedError);
  CHECK_THROWS_AS(pool(R"x("kernel":"(3, 2)","stride":"(2, 2)","pad":"(1, 1)")x"), UnsupportedError);
  CHECK(run_one("Pooling", R"x("kernel":"(1, 1)","stride":"(3, 3)")x", x).shape() == Shape{1, 1, 3, 4});
}

TEST_CASE("What keeps samples in MXNet is traced once for batches of any size", "[gluon][formats][hybrid]") {
  const auto check = [](const std::string& op, const std::string& attributes) {
    CAPTURE(op, attributes);
    const Exported exported(of_one(op, attributes));
    MxnetSymbol net = exported.imports();
    std::vector<std::vector<float>> plain;
    const auto run = [&](std::int64_t batch) { return net(random_array({batch, 3, 4}, 1)); };
    for (const std::int64_t batch : {2, 5, 3, 7})
      plain.push_back(values(run(batch)));
    net.hybridize();
    for (std::size_t i = 0; const std::int64_t batch : {2, 5, 3, 7})
      CHECK(values(run(batch)) == plain[i++]);
    CHECK(net.hybrid_traces() == 1);
  };
  check("Reshape", R"x("shape":"(0, -1)")x");
  check("Reshape", R"x("shape":"(0, 2, -1, 3)")x");
  check("Reshape", R"x("shape":"(0, 0, 4)")x");
  check("SoftmaxOutput", "");
  check("mean", R"x("axis":"1")x");
  // An extent of 0 that stays, and shapes that do not fit.
  CHECK(run_one("Reshape", R"x("shape":"(0, 0, 2, 2)")x", zeros({0, 3, 4})).shape() == Shape{0, 3, 2, 2});
  CHECK_THROWS_AS(run_one("Reshape", R"x("shape":"(0, 5)")x", zeros({2, 3})), ShapeError);
  CHECK_THROWS_AS(run_one("Reshape", R"x("shape":"(0, 4611686018427387904, 4)")x", zeros({2, 3})), ShapeError);
}

TEST_CASE("Results that no node of a symbol needs any more give their memory back", "[gluon][formats]") {
  Engine engine({.cpu_policy = CpuMode::serial});
  const EngineScope scope(engine);
  std::string nodes = R"({"nodes":[{"op":"null","name":"data","inputs":[]})";
  constexpr int k_nodes = 24;
  for (int i = 0; i < k_nodes; ++i) {
    nodes += R"(,{"op":"_plus_scalar","name":"n)" + std::to_string(i) + R"(","inputs":[[)" + std::to_string(i) +
             R"(,0],[0,0]]})";
  }
  const Exported exported(nodes + R"(],"heads":[[24,0],[2,0]]})");
  const MxnetSymbol net = exported.imports();
  const NDArray x = zeros({1 << 20});
  engine.wait_all();
  Storage::of(engine).pool(cpu()).reset_peaks();
  const std::uint64_t before = memory_stats(cpu()).allocated, size = 4 << 20;
  const Arrays found = net.call(std::vector<NDArray>{x});
  engine.wait_all();
  CHECK(found[0].slice(0, 0, 1).item<float>() == k_nodes);
  CHECK(found[1].slice(0, 0, 1).item<float>() == 2);
  CHECK(memory_stats(cpu()).peak_allocated <= before + 5 * size);
}

TEST_CASE("Gradients stop where MXNet's do", "[gluon][formats]") {
  const Exported exported(of_one("BlockGrad", ""));
  const MxnetSymbol net = exported.imports();
  NDArray x = ones({2});
  x.attach_grad();
  NDArray y;
  {
    const autograd::RecordScope record;
    y = net(x) * x;
  }
  y.backward();
  CHECK(values(x.grad()) == std::vector<float>{1, 1});
}

TEST_CASE("Symbols without a counterpart, damaged or without values are refused", "[gluon][formats]") {
  const auto check = [](const std::string& symbol, const char* why, bool is_unsupported = false) {
    const Exported exported(symbol);
    std::string error;
    try {
      exported.imports();
    } catch (const UnsupportedError& found) {
      CHECK(is_unsupported);
      error = found.what();
    } catch (const FileError& found) {
      CHECK_FALSE(is_unsupported);
      error = found.what();
    }
    CAPTURE(error);
    CHECK(error.find(why) != std::string::npos);
  };
  check(replaced(k_mxnet_symbol, "\"_mul_scalar\"", "\"Custom\""), "\"_mulscalar0\": MXNet's operator Custom", true);
  check(
      of_one("Pooling", R"x("kernel":"(2, 2)","pool_type":"lp")x"), "\"the_node\": Pooling with pool_type = lp", true);
  check(of_one("Convolution", R"x("kernel":"(1, 1)","layout":"NHWC")x", "[[0,0],[1,0]]"), "layout = NHWC", true);
  check(of_one("relu", R"x("new":"1")x"), "relu with new = 1", true);
  check(of_one("Activation", R"x("act_type":"swoosh")x"), "\"the_node\": Activation with act_type = swoosh", true);
  check(of_one("LeakyReLU", R"x("act_type":"prelu")x", "[[0,0],[1,0]]"), "LeakyReLU with act_type = prelu", true);
  check(of_one("Reshape", R"x("shape":"(-3, 0)")x"), "\"the_node\": Reshape to (-3, 0)", true);
  check(of_one("Pooling", R"x("kernel":"(2, 2, 2)")x"), "Pooling with a kernel of (2, 2, 2)", true);
  check(of_one("Convolution", R"x("kernel":"(2, 2, 2)")x", "[[0,0],[1,0]]"), "a kernel of (2, 2, 2)", true);
  check(of_one("expand_dims", R"x("axis":"one")x"), "net-symbol.json: node \"the_node\": axis cannot be \"one\"");
  check(of_one("clip", R"x("a_min":"low","a_max":"1")x"), "a_min cannot be");
  check(of_one("clip", R"x("a_min":"0")x"), "clip does not say a_max");
  check(of_one("transpose", R"x("axes":"(0, x)")x"), "axes cannot be");
  check(of_one("transpose", R"x("axes":"(0,1,2,3,4,5,6,7,8)")x"), "axes cannot be");
  check(of_one("Pooling", R"x("global_pool":"Maybe")x"), "global_pool cannot be");
  check(of_one("Pooling", R"x("kernel":"(2, 2)","stride":"(2,)")x"), "stride (2,) is not of the kernel's axes");
  check(of_one("Convolution", R"x("kernel":"(2,)","pad":"(1, 1)")x", "[[0,0],[1,0]]"), "pad (1, 1) is not");
  check(of_one("FullyConnected", "", "[[0,0],[1,0]]"), "has neither a bias nor no_bias");
  check(of_one("elemwise_add", ""), "takes 2 arrays, it has 1");
  check(of_one("relu", "", "[[2,0,0]]"), "names result 0 of node 2");
  check(of_one("relu", "", "[[0]]"), "names no result");
  check(of_one("relu", "", "[[-1,0]]"), "names result 0 of node -1");
  check(of_one("relu", "", "1"), "no list of inputs");
  check(replaced(of_one("relu", ""), "[[2,0,0]]}", "[[3,0,0]]}"), "a head names result 0 of node 3");
  check(replaced(of_one("relu", ""), "[[2,0,0]]}", "[]}"), "has no heads");
  check(replaced(of_one("relu", ""), "\"data\",\"inputs\":[]", "\"data\",\"inputs\":[[0,0]]"), "names result");
  check(replaced(k_mxnet_symbol, "\"fc_weight\"", "\"fc_other\""), "\"fc_other\" is no input");
  check("{\"nodes\":", "is no symbol");
  check("[]", "is no symbol");
  check("{}", "no list of nodes");
  check(R"({"nodes":[{"op":"null"}],"heads":[]})", "node 0 has no name");
  CHECK_THROWS_AS(Exported().imports({"data", "more"}), ValueError);
  CHECK_THROWS_AS(Exported().imports({}), FileError);
  CHECK_THROWS_AS(MxnetSymbol::imports("/nowhere/net-symbol.json"), FileError);
}

TEST_CASE("Attributes that do not fit the array are found when the node runs", "[gluon][formats]") {
  const NDArray x = random_array({2, 3, 4, 4}, 1);
  CHECK_THROWS_AS(run_one("softmax", R"x("axis":"4294967297")x", x), FileError);
  CHECK_THROWS_AS(run_one("Concat", R"x("dim":"(0, 1)")x", x), FileError);
  CHECK_THROWS_AS(run_one("SwapAxis", R"x("dim1":"-9223372036854775808","dim2":"1")x", x), FileError);
  CHECK_THROWS_AS(run_one("Reshape", R"x("shape":"(0, 0, 0, 0, 0)")x", x), ShapeError);
  CHECK_THROWS_AS(run_one("SliceChannel", R"x("num_outputs":"2")x", x), ValueError);
  const Exported second(replaced(of_one("relu", ""), "\"heads\":[[2,0,0]]", "\"heads\":[[2,1,0]]"));
  CHECK_THROWS_AS(second.imports()(x), FileError);
  CHECK_THROWS_AS(Exported().imports()({x, x}), ValueError);
}
