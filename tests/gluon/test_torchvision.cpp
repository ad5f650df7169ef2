// State dicts of torchvision: layers are found by the order that their names tell, whatever the order of the file, and
// what does not fit is refused. tests/compare/zoo.py has torchvision's own models and results.
#include <algorithm>
#include <iterator>
#include <map>
#include <random>

#include "tests/gluon/support.h"
#include "tests/gluon/torchvision_names.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;
using namespace sluice::gluon;
using formats::NamedArrays;
using model_zoo::load_torchvision;

namespace {

/// The arrays in another order, which is the same each time.
NamedArrays shuffled(NamedArrays arrays) {
  std::shuffle(arrays.begin(), arrays.end(), std::mt19937(3));
  return arrays;
}

/// Layers of a weight of one number, as many as asked.
nn::Sequential row_of_layers(std::size_t count) {
  nn::Sequential net;
  for (std::size_t i = 0; i < count; ++i)
    net.add(nn::Dense(1, {.use_bias = false, .in_units = 1}));
  net.initialize(init::Zero());
  return net;
}

void check_order(const Names& names) {
  CAPTURE(names.front(), names.size());
  const TemporaryFolder folder;
  NamedArrays arrays;
  for (const std::string& name : names)
    arrays.emplace_back(name + ".weight", full({1, 1}, static_cast<double>(arrays.size())));
  formats::save_any(folder / "net.safetensors", shuffled(arrays));
  nn::Sequential net = row_of_layers(names.size());
  load_torchvision(net, folder / "net.safetensors");
  double number = 0;
  for (const auto& [path, parameter] : net.collect_params())
    CHECK(parameter.data().item<float>() == number++);
}

/// Every parameter another number.
void fill(Block& net) {
  std::uint64_t seed = 1;
  for (const auto& [path, parameter] : net.collect_params())
    parameter.set_data(random_array(parameter.shape(), ++seed));
}

/// What torchvision would save of the network if its layers had these names.
NamedArrays state_dict(const Block& net, const Names& layers) {
  NamedArrays arrays;
  std::size_t at = 0;
  std::string before;
  for (const auto& [path, parameter] : net.collect_params()) {
    const std::string layer = path.substr(0, path.rfind('.')), leaf = path.substr(path.rfind('.') + 1);
    at += !before.empty() && layer != before ? 1 : 0;
    before = layer;
    const std::string theirs = leaf == "gamma" ? "weight" : leaf == "beta" ? "bias" : leaf;
    arrays.emplace_back(layers.at(at) + "." + theirs, parameter.data());
    if (leaf == "running_var")
      arrays.emplace_back(layers.at(at) + ".num_batches_tracked", full({}, 4, {.dtype = int64}));
  }
  CHECK(at + 1 == layers.size());
  return arrays;
}

void check_same(const Block& found, const Block& wanted) {
  for (const auto& [path, parameter] : wanted.collect_params()) {
    CAPTURE(path);
    CHECK(values(found.collect_params()[path].data()) == values(parameter.data()));
  }
}

nn::Sequential small_net() {
  nn::Sequential net;
  net.add(nn::Conv2D(2, 1, {.use_bias = false, .in_channels = 2}), nn::BatchNorm({.in_channels = 2}));
  net.add(nn::Dense(3, {.in_units = 2}));
  net.initialize();
  return net;
}
const Names k_small{"conv1", "bn1", "fc"};

std::string error_of(Block& net, const std::filesystem::path& path, const LoadOptions& options = {}) {
  try {
    load_torchvision(net, path, options);
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find(path.string()) != std::string::npos);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("Layers of torchvision's models are taken in the order of their networks", "[gluon][formats][torchvision]") {
  Names with_output = resnet({2, 2, 2, 2}, 2);
  with_output.push_back("fc");
  check_order(with_output);
  check_order(resnet({3, 4, 36, 3}, 3));
  check_order(densenet());
  check_order(squeezenet());
  check_order(inception());
  check_order(segmentation());
  check_order(transformer(12));
  check_order(
      {"features.0", "features.3", "features.8", "features.10", "classifier.1", "classifier.4", "classifier.6"});
  check_order({"features.0", "features.1", "features.28", "features.29", "classifier.0", "classifier.3"});
  check_order(
      {"features.1.conv.0.0", "features.1.conv.0.1", "features.1.conv.1", "features.1.conv.2", "features.18.0"});
  check_order(numbered("features.", 12));
  check_order(numbered("features.3.", 11));
}

TEST_CASE(
    "Weights and statistics of torchvision's names are those of the layers here", "[gluon][formats][torchvision]") {
  const TemporaryFolder folder;
  Names names{"features.0.0", "features.0.1"};
  const std::vector<int> depths{4, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4};
  for (std::size_t i = 0; i < depths.size(); ++i) {
    int part = 0;
    const bool widens = i > 0, squeezes = i != 1 && i != 2;
    const std::string block = message("features.", i + 1, ".block.");
    for (int convolution = widens ? 0 : 1; convolution < 3; ++convolution) {
      if (squeezes && convolution == 2)
        append(names, message(block, part++), {".fc1", ".fc2"});
      append(names, message(block, part++), {".0", ".1"});
    }
  }
  append(names, "", {"features.12.0", "features.12.1", "classifier.0", "classifier.3"});
  const auto made = [] {
    model_zoo::vision::Classifier net = model_zoo::vision::mobilenet_v3_small(0.3, {.classes = 4});
    net.initialize();
    net.summary(abstract_array({{1, 3, 32, 32}, float32, cpu()}));
    fill(net);
    return net;
  };
  model_zoo::vision::Classifier first = made(), second = made();
  second.initialize(init::Zero(), cpu(), true);
  formats::save_any(folder / "net.safetensors", shuffled(state_dict(first, names)));
  load_torchvision(second, folder / "net.safetensors");
  check_same(second, first);
  // Other files than .safetensors, too.
  second.initialize(init::Zero(), cpu(), true);
  formats::save_any(folder / "net.npz", state_dict(first, names));
  load_torchvision(second, folder / "net.npz");
  check_same(second, first);
}

TEST_CASE("Projections of torchvision's attention are taken apart", "[gluon][formats][torchvision]") {
  const TemporaryFolder folder;
  const auto made = [] {
    model_zoo::ViT net({.image = 8, .patch = 4, .units = 4, .hidden = 6, .layers = 2, .heads = 2, .classes = 3});
    net.initialize();
    net(ones({1, 3, 8, 8}));
    fill(net);
    return net;
  };
  model_zoo::ViT first = made(), second = made();
  Names names = transformer(2);
  names.insert(names.begin(), "class_token");
  std::map<std::string, NDArray> by_name;
  for (const auto& [name, array] : state_dict(first, names))
    by_name.emplace(name, array);
  NamedArrays arrays;
  for (const auto& [name, array] : by_name) {
    const std::size_t query = name.find("query.");
    if (query != std::string::npos) {
      const std::string layer = name.substr(0, query), leaf = name.substr(query + 6);
      arrays.emplace_back(
          layer + "in_proj_" + leaf,
          concat({array, by_name.at(layer + "key." + leaf), by_name.at(layer + "value." + leaf)}, 0));
    } else if (name == "encoder.pos_embedding.weight") {
      arrays.emplace_back("encoder.pos_embedding", array.expand_dims(0));
    } else if (name == "class_token.class_token") {
      arrays.emplace_back("class_token", array);
    } else if (name.find("key.") == std::string::npos && name.find("value.") == std::string::npos) {
      arrays.emplace_back(name, array);
    }
  }
  formats::save_any(folder / "vit.safetensors", arrays);
  second.initialize(init::Zero(), cpu(), true);
  load_torchvision(second, folder / "vit.safetensors");
  check_same(second, first);
  for (auto& [name, array] : arrays) {
    if (name.find("in_proj_bias") != std::string::npos)
      array = ones({13});
  }
  formats::save_any(folder / "odd.safetensors", arrays);
  CHECK(error_of(second, folder / "odd.safetensors").find("of shape (13,) is not of three parts") != std::string::npos);
  check_same(second, first);
}

TEST_CASE("Auxiliary heads are left out where the network has none", "[gluon][formats][torchvision]") {
  const TemporaryFolder folder;
  NamedArrays arrays;
  for (const char* const name : {"backbone.conv1", "classifier.4", "aux_classifier.0", "AuxLogits.fc"})
    arrays.emplace_back(message(name, ".weight"), full({1, 1}, static_cast<double>(arrays.size())));
  formats::save_any(folder / "net.safetensors", arrays);
  nn::Sequential two = row_of_layers(2), three = row_of_layers(3), four = row_of_layers(4);
  load_torchvision(two, folder / "net.safetensors");
  CHECK(two.collect_params()["1.weight"].data().item<float>() == 1);
  load_torchvision(three, folder / "net.safetensors");
  CHECK(three.collect_params()["2.weight"].data().item<float>() == 2);
  CHECK(error_of(four, folder / "net.safetensors").find("has 2 layers with parameters") != std::string::npos);
}

TEST_CASE("State dicts of other networks are refused, and nothing is set", "[gluon][formats][torchvision]") {
  const TemporaryFolder folder;
  nn::Sequential net = small_net(), kept = small_net();
  fill(net);
  kept.load_dict([&] {
    std::map<std::string, NDArray> all;
    for (const auto& [path, parameter] : net.collect_params())
      all.emplace(path, parameter.data());
    return all;
  }());
  const NamedArrays whole = state_dict(small_net(), k_small);
  const auto refused = [&](const NamedArrays& arrays, const char* why, const LoadOptions& options = {}) {
    formats::save_any(folder / "net.safetensors", arrays);
    const std::string error = error_of(net, folder / "net.safetensors", options);
    CAPTURE(error, why);
    CHECK(error.find(why) != std::string::npos);
    check_same(net, kept);
  };
  const auto without = [&](const std::string& name) {
    NamedArrays some;
    std::copy_if(
        whole.begin(), whole.end(), std::back_inserter(some), [&](const auto& each) { return each.first != name; });
    return some;
  };
  const auto with = [&](const std::string& name, const NDArray& array) {
    NamedArrays more = without(name);
    more.emplace_back(name, array);
    return more;
  };
  refused({}, "has 0 layers with parameters");
  refused(with("layer1.0.conv1.weight", ones({1})), "has 4 layers with parameters, 'conv1' to 'fc', the network has 3");
  refused(without("bn1.running_var"), "'bn1' has no running_var, which the network's '1.running_var' would be");
  refused(with("conv1.bias", ones({2})), "'conv1' has bias, weight, more than the network's layer '0' can take");
  refused(with("fc.weight", ones({5, 2})), "'2.weight' has shape (5, 2)");
  refused(with("fc.weight", ones({3, 2}).astype(float16)), "cast_dtype");
  CHECK(error_of(net, folder / "absent").find("absent") != std::string::npos);
  // Asked for, these do.
  formats::save_any(folder / "less.safetensors", without("bn1.running_var"));
  load_torchvision(net, folder / "less.safetensors", {.allow_missing = true});
  formats::save_any(folder / "more.safetensors", with("conv1.bias", ones({2})));
  load_torchvision(net, folder / "more.safetensors", {.ignore_extra = true});
  formats::save_any(folder / "half.safetensors", with("fc.weight", ones({3, 2}).astype(float16)));
  load_torchvision(net, folder / "half.safetensors", {.cast_dtype = true});
  CHECK(net.collect_params()["2.weight"].data().dtype() == float32);
}

TEST_CASE("load_dict sets parameters to arrays, all or none", "[gluon][formats]") {
  nn::Sequential net = small_net();
  std::map<std::string, NDArray> arrays;
  for (const auto& [path, parameter] : net.collect_params())
    arrays.emplace(path, random_array(parameter.shape(), arrays.size()));
  const auto strided = random_array({3, 4}, 9);
  arrays["2.weight"] = strided.slice(1, 0, 4, 2);
  net.load_dict(arrays);
  for (const auto& [path, array] : arrays)
    CHECK(values(net.collect_params()[path].data()) == values(array));
  std::map<std::string, NDArray> other = arrays;
  other["0.weight"] = ones({2, 2, 1, 1});
  other["2.bias"] = NDArray();
  CHECK_THROWS_AS(net.load_dict(other), ValueError);
  other["2.bias"] = ones({4});
  CHECK_THROWS_AS(net.load_dict(other), ShapeError);
  other.erase("2.bias");
  CHECK_THROWS_AS(net.load_dict(other), ValueError);
  CHECK(values(net.collect_params()["0.weight"].data()) == values(arrays["0.weight"]));
  net.load_dict(other, {.allow_missing = true});
  CHECK(values(net.collect_params()["0.weight"].data()) == std::vector<float>(4, 1));
  other["no.such"] = ones({1});
  try {
    net.load_dict(other, {.allow_missing = true}, "my weights");
    FAIL("no error");
  } catch (const ValueError& error) {
    CHECK(std::string(error.what()).find("my weights: has a parameter 'no.such'") == 0);
  }
}

TEST_CASE("State dicts with damaged names and shapes are refused or load, and nothing else", "[gluon][formats][fuzz]") {
  const TemporaryFolder folder;
  nn::Sequential net = small_net();
  formats::save_any(folder / "net.safetensors", state_dict(small_net(), k_small));
  std::ifstream file(folder / "net.safetensors", std::ios::binary);
  const std::vector<std::uint8_t> whole(std::istreambuf_iterator<char>(file), {});
  const std::string letters = ".0123456789\"{}[],:abcdefghijklmnopqrstuvwxyz_";
  std::mt19937 draw(11);
  int loaded = 0, refused = 0;
  for (int variant = 0; variant < 2000; ++variant) {
    std::vector<std::uint8_t> bytes = whole;
    for (unsigned change = 0; change <= draw() % 3; ++change) {
      const std::size_t at = draw() % 4 == 0 ? draw() % bytes.size() : 8 + draw() % 600 % (bytes.size() - 8);
      bytes[at] = draw() % 4 == 0 ? static_cast<std::uint8_t>(draw())
                                  : static_cast<std::uint8_t>(letters[draw() % letters.size()]);
    }
    if (draw() % 16 == 0)
      bytes.resize(draw() % bytes.size());
    write_file(folder / "damaged", bytes);
    try {
      load_torchvision(net, folder / "damaged", {.allow_missing = variant % 2 == 0, .ignore_extra = variant % 3 == 0});
      ++loaded;
    } catch (const Error&) {
      ++refused;
    }
  }
  CHECK(loaded > 50);
  CHECK(refused > 600);
}
