// What a file of an exported network says of its layers.
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>

#include <sluice/operator/graph/file.h>

#include "tests/engine/expect.h"
#include "tests/gluon/exported.h"
#include "tests/gluon/exported_1.h"

using namespace sluice;
using namespace sluice::test;
using gluon::SymbolBlock;
using graph::FileLayer;

namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<std::string> names_and_types(const std::vector<FileLayer>& layers) {
  std::vector<std::string> all;
  for (const FileLayer& layer : layers)
    all.push_back(layer.name + '=' + layer.type);
  return all;
}

AttributeValue option(const FileLayer& layer, const std::string& name) {
  for (const NamedValue& one : layer.options) {
    if (one.name == name)
      return one.value;
  }
  FAIL(layer.name << " has no option " << name);
  return {};
}

gluon::nn::Sequential network() {
  gluon::nn::Sequential body;
  body.add(gluon::nn::Dropout(0.3), gluon::nn::Dense(4, {.activation = "relu"}));
  gluon::nn::Sequential net;
  net.add(gluon::nn::BatchNorm({.momentum = 0.75}), std::move(body), gluon::nn::Dense(2, {.use_bias = false}));
  net.initialize();
  return net;
}

// A file of one value, which is input and output.
graph::GraphFile file_of(std::vector<FileLayer> layers) {
  graph::GraphFile file;
  graph::Tracer tracer;
  const NDArray x = tracer.input({{2}, float32, cpu()});
  file.graph = tracer.trace([&] { return Arrays{x}; });
  file.inputs = {{"x"}};
  file.outputs = {"y"};
  file.layers = std::move(layers);
  return file;
}

// The text with `from` as `to`, and the checksum of that.
std::string changed(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  const std::string key = "\"checksum\": \"";
  text.replace(text.find(key) + key.size(), 8, graph::checksum_text(graph::text_checksum(text)));
  return text;
}

}  // namespace

TEST_CASE("a file of a network names its layers with all their options", "[gluon][export]") {
  const TemporaryFolder folder;
  const gluon::nn::Sequential net = network();
  net.export_to(folder / "net", {ones({3, 5})});
  const SymbolBlock same = SymbolBlock::imports(folder / "net.json");
  const std::vector<FileLayer>& layers = same.layers();
  REQUIRE(
      names_and_types(layers) ==
      std::vector<std::string>{"=Sequential", "0=BatchNorm", "1=Sequential", "1.0=Dropout", "1.1=Dense", "2=Dense"});
  // No node says what training alone does; the sizes of inputs have come with the example.
  CHECK(option(layers[3], "rate") == AttributeValue(0.3));
  CHECK(option(layers[1], "momentum") == AttributeValue(0.75));
  CHECK(option(layers[4], "activation") == AttributeValue(std::string("relu")));
  CHECK(option(layers[4], "in_units") == AttributeValue(std::int64_t{5}));
  CHECK(option(layers[5], "use_bias") == AttributeValue(false));
  CHECK(layers[1].options == net[0]->options());
  CHECK(layers[4].options == (*net[1].as<gluon::nn::Sequential>())[1]->options());
}

TEST_CASE("what was imported is written with the layers that it had", "[gluon][export]") {
  const TemporaryFolder folder;
  network().export_to(folder / "net", {ones({3, 5})});
  const SymbolBlock first = SymbolBlock::imports(folder / "net.json");
  first.export_to(folder / "again", {ones({3, 5})});
  const SymbolBlock again = SymbolBlock::imports(folder / "again.json");
  CHECK(names_and_types(again.layers()) == names_and_types(first.layers()));
  CHECK(again.layers()[3].options == first.layers()[3].options);

  gluon::nn::Sequential outer;
  outer.add(SymbolBlock::imports(folder / "net.json"), gluon::nn::Activation("tanh"));
  outer.export_to(folder / "outer", {ones({3, 5})});
  CHECK(
      names_and_types(SymbolBlock::imports(folder / "outer.json").layers()) == std::vector<std::string>{
                                                                                   "=Sequential",
                                                                                   "0=Sequential",
                                                                                   "0.0=BatchNorm",
                                                                                   "0.1=Sequential",
                                                                                   "0.1.0=Dropout",
                                                                                   "0.1.1=Dense",
                                                                                   "0.2=Dense",
                                                                                   "1=Activation"});
}

TEST_CASE("a network from a file that names no layers is one layer where it is written again", "[gluon][export]") {
  const TemporaryFolder folder;
  network().export_to(folder / "net", {ones({3, 5})});
  std::string text = text_of(folder / "net.json");
  const std::size_t begin = text.find("\"layers\""), end = text.find("\"inputs\"", begin);
  REQUIRE(end != std::string::npos);
  text = changed(text, text.substr(begin, end - begin), "");
  std::ofstream(folder / "net.json", std::ios::binary) << text;
  gluon::nn::Sequential outer;
  outer.add(SymbolBlock::imports(folder / "net.json"));
  outer.export_to(folder / "outer", {ones({3, 5})});
  CHECK(
      names_and_types(SymbolBlock::imports(folder / "outer.json").layers()) ==
      std::vector<std::string>{"=Sequential", "0=SymbolBlock"});
}

TEST_CASE("options of every kind go through a file", "[gluon][export]") {
  const double infinite = std::numeric_limits<double>::infinity();
  const std::vector<NamedValue> options{
      {"none", {}},
      {"flag", true},
      {"count", std::int64_t{-7}},
      {"text", std::string("a \"b\"\n\\")},
      {"tenth", 0.1},
      {"least", -infinite},
      {"type", bfloat16},
      {"place", cpu()},
      {"sizes", std::vector<std::int64_t>{3, 0, -1}},
      {"reals", std::vector<double>{0.5, infinite}}};
  const std::string text = to_json(file_of({{"", "Own<int>", options}, {"a", "Empty", {}}}));
  const graph::GraphFile back = graph::from_json(text, "a file");
  REQUIRE(back.layers.size() == 2);
  CHECK(back.layers[0].type == "Own<int>");
  CHECK(back.layers[0].options == options);
  CHECK(back.layers[1].name == "a");
  CHECK(back.layers[1].options.empty());
  CHECK(to_json(back) == text);
  // Layers and outputs may be called as an input is.
  graph::GraphFile alike = file_of({{"", "T", {}}, {"x", "T", {}}});
  alike.outputs = {"x"};
  CHECK(to_json(graph::from_json(to_json(alike), "a file")) == to_json(alike));
  const graph::GraphFile odd = graph::from_json(to_json(file_of({{"", "T", {{"x", NAN}}}})), "a file");
  CHECK(std::isnan(std::get<double>(odd.layers[0].options[0].value)));
  CHECK_THROWS_AS(to_json(file_of({{"", "T", {{"x", std::string("\xff")}}}})), ValueError);
  CHECK_THROWS_AS(to_json(file_of({{"a", "T", {}}, {"a", "T", {}}})), ValueError);
}

TEST_CASE("a file without layers is read as before, damaged ones are refused with their place", "[gluon][export]") {
  const graph::GraphFile old = graph::from_json(exported_1::k_graph, "old");
  CHECK(old.layers.empty());
  CHECK(to_json(old).find("\"layers\"") == std::string::npos);

  const std::string good = to_json(file_of({{"", "Net", {}}, {"a", "Dense", {{"units", std::int64_t{4}}}}}));
  const auto said = [&](const std::string& from, const std::string& to) {
    std::string what;
    expect_error<FileError>(
        [&] { graph::from_json(changed(good, from, to), "net.json"); },
        [&](const FileError& error) { what = error.what(); });
    return what;
  };
  CHECK_THAT(said("\"name\": \"a\"", "\"name\": \"\""), contains("net.json: layers[1].name: '' is a name twice"));
  CHECK_THAT(said("\"type\": \"Dense\"", "\"type\": 3"), contains("layers[1].type: is no text"));
  CHECK_THAT(said("{\"units\": 4}", "[4]"), contains("layers[1].options: is no object"));
  CHECK_THAT(said("\"units\": 4", "\"units\": 0.5"), contains("layers[1].options.units"));
  CHECK_THAT(said("\"units\": 4", "\"units\": {\"reals\": 4}"), contains("layers[1].options.units.reals"));
  CHECK_THAT(
      said("\"units\": 4", R"("units": {"graph": {"inputs": [], "nodes": [], "outputs": []}})"),
      contains("layers[1].options.units: is a graph"));
  CHECK_THAT(said("\"type\": \"Net\", ", ""), contains("layers[0]: has no \"type\""));
}
