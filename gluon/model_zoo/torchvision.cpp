#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/gluon/detail/called.h>
#include <sluice/gluon/formats/formats.h>
#include <sluice/gluon/model_zoo/torchvision.h>

// A state dict in a file is ordered by names, as .safetensors have it. Layers are brought into the order of the
// network, and taken one by one for those here: models here have theirs in the same order.
namespace sluice::gluon::model_zoo {

namespace {

/// Parts of names that have something before or behind them where the alphabet says otherwise.
constexpr std::string_view k_first[] = {
    // clang-format off
    "class_token", "conv_proj", "features", "backbone",
    "conv0", "norm0", "norm1", "conv1", "bn1", "norm2", "conv2", "bn2", "conv3", "bn3", "downsample",
    "denseblock1", "transition1", "denseblock2", "transition2", "denseblock3", "transition3", "denseblock4", "norm5",
    "norm", "conv", "bn", "squeeze", "branch1x1", "branch5x5_1", "branch5x5_2",
    "pos_embedding", "self_attention", "query", "key", "value", "out_proj", "ln_1", "mlp", "ln_2",
    // clang-format on
};
constexpr std::string_view k_last[] = {"fc", "classifier", "aux_classifier"};

std::ptrdiff_t rank(std::string_view part) {
  const std::ptrdiff_t first = std::find(std::begin(k_first), std::end(k_first), part) - std::begin(k_first);
  if (first < std::ssize(k_first))
    return first;
  return first +
         (std::find(std::begin(k_last), std::end(k_last), part) - std::begin(k_last) + 1) % (std::ssize(k_last) + 1);
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Takes the digits at the front of `text`, without zeros before them.
std::string_view take_number(std::string_view& text) {
  const std::size_t length =
      static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_digit) - text.begin());
  std::string_view number = text.substr(0, length);
  text.remove_prefix(length);
  number.remove_prefix(std::min(number.find_first_not_of('0'), number.size()));
  return number;
}

/// Below, at or above zero; numbers in texts count as numbers.
int compare_parts(std::string_view a, std::string_view b) {
  const std::string_view whole_a = a, whole_b = b;
  while (!a.empty() && !b.empty()) {
    if (is_digit(a.front()) && is_digit(b.front())) {
      const std::string_view first = take_number(a), second = take_number(b);
      if (first.size() != second.size())
        return first.size() < second.size() ? -1 : 1;
      if (const int order = first.compare(second); order != 0)
        return order;
    } else {
      if (a.front() != b.front())
        return static_cast<unsigned char>(a.front()) < static_cast<unsigned char>(b.front()) ? -1 : 1;
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  if (a.empty() != b.empty())
    return a.empty() ? -1 : 1;
  return whole_a.compare(whole_b);
}

/// The order of layers in networks, by their names.
struct LayerOrder {
  bool operator()(std::string_view a, std::string_view b) const {
    while (!a.empty() && !b.empty()) {
      const std::string_view first = take_part(a), second = take_part(b);
      if (first == second)
        continue;
      const std::ptrdiff_t here = rank(first), there = rank(second);
      return here != there ? here < there : compare_parts(first, second) < 0;
    }
    return a.empty() && !b.empty();
  }

 private:
  static std::string_view take_part(std::string_view& name) {
    const std::size_t dot = std::min(name.find('.'), name.size());
    const std::string_view part = name.substr(0, dot);
    name.remove_prefix(std::min(dot + 1, name.size()));
    return part;
  }
};

/// Parameters of a layer by what they are called in it.
using Layer = std::map<std::string, NDArray>;
using Layers = std::map<std::string, Layer, LayerOrder>;

/// A parameter beside all layers is one of its own.
std::pair<std::string, std::string> layer_and_leaf(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string::npos)
    return {name, name};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

/// The arrays of a file as layers, torchvision's attention and positions as those here.
class StateDict {
 public:
  explicit StateDict(const std::filesystem::path& path) : file_(path.string()) {
    for (const auto& [name, array] : formats::load_any(path)) {
      const auto [layer, leaf] = layer_and_leaf(name);
      if (leaf == "num_batches_tracked" || name.starts_with("AuxLogits."))
        continue;
      if (leaf == "in_proj_weight" || leaf == "in_proj_bias")
        add_projections(layer, leaf.substr(std::string_view("in_proj_").size()), array);
      else if (leaf == "pos_embedding" && array.ndim() == 3 && array.shape()[0] == 1)
        add(name, "weight", array.slice(0, 0, 1).squeeze(0));
      else
        add(layer, leaf, array);
    }
  }

  const std::string& file() const { return file_; }
  const Layers& layers() const { return layers_; }
  void forget_auxiliary() {
    std::erase_if(layers_, [](const auto& layer) { return layer.first.starts_with("aux_classifier."); });
  }

 private:
  void add(const std::string& layer, const std::string& leaf, const NDArray& array) {
    require<FileError>(layers_[layer].emplace(leaf, array).second, [&] {
      return message(file_, ": has two arrays '", layer, ".", leaf, "'");
    });
  }
  void add_projections(const std::string& layer, const std::string& leaf, const NDArray& array) {
    require<ShapeError>(array.ndim() >= 1 && array.shape()[0] % 3 == 0, [&] {
      return message(file_, ": '", layer, ".in_proj_", leaf, "' of shape ", array.shape(), " is not of three parts");
    });
    const std::int64_t rows = array.shape()[0] / 3;
    constexpr std::array<const char*, 3> parts = {".query", ".key", ".value"};
    for (std::int64_t i = 0; i < 3; ++i)
      add(layer + parts[static_cast<std::size_t>(i)], leaf, array.slice(0, i * rows, (i + 1) * rows));
  }

  std::string file_;
  Layers layers_;
};

std::string their_leaf(const std::string& leaf) {
  return leaf == "gamma" ? "weight" : leaf == "beta" ? "bias" : leaf;
}

/// Parameters of one layer here, and their names in the network.
struct OwnLayer {
  std::string name;
  std::vector<std::pair<std::string, std::string>> leaves = {};
};

std::vector<OwnLayer> own_layers(const Block& net) {
  std::vector<OwnLayer> layers;
  for (const auto& [name, parameter] : net.collect_params()) {
    const auto [layer, leaf] = layer_and_leaf(name);
    if (layers.empty() || layers.back().name != layer)
      layers.push_back({layer});
    layers.back().leaves.emplace_back(their_leaf(leaf), name);
  }
  return layers;
}

/// Adds the arrays of `there` under the names that the network has for them.
void take_layer(
    const std::string& file,
    const OwnLayer& here,
    const Layers::value_type& there,
    const LoadOptions& options,
    std::map<std::string, NDArray>& into) {
  std::size_t taken = 0;
  for (const auto& [leaf, name] : here.leaves) {
    const auto found = there.second.find(leaf);
    require(found != there.second.end() || options.allow_missing, [&, &leaf = leaf, &name = name] {
      return message(file, ": '", there.first, "' has no ", leaf, ", which the network's '", name, "' would be");
    });
    if (found == there.second.end())
      continue;
    into.emplace(name, found->second);
    ++taken;
  }
  require(taken == there.second.size() || options.ignore_extra, [&] {
    std::string leaves;
    for (const auto& [leaf, array] : there.second)
      leaves += (leaves.empty() ? "" : ", ") + leaf;
    return message(
        file, ": '", there.first, "' has ", leaves, ", more than the network's layer '", here.name, "' can take");
  });
}

}  // namespace

void load_torchvision(Block& net, const std::filesystem::path& path, const LoadOptions& options, SourceLocation site) {
  gluon::detail::called("load_torchvision of " + path.string(), site, [&] {
    StateDict state(path);
    const std::vector<OwnLayer> own = own_layers(net);
    if (own.size() != state.layers().size())
      state.forget_auxiliary();
    const Layers& theirs = state.layers();
    require(own.size() == theirs.size(), [&] {
      return message(
          state.file(),
          ": has ",
          theirs.size(),
          " layers with parameters, '",
          theirs.empty() ? "" : theirs.begin()->first,
          "' to '",
          theirs.empty() ? "" : theirs.rbegin()->first,
          "', the network has ",
          own.size(),
          "; is it of the same model?");
    });
    std::map<std::string, NDArray> arrays;
    auto there = theirs.begin();
    for (const OwnLayer& here : own)
      take_layer(state.file(), here, *there++, options, arrays);
    net.load_dict(arrays, options, state.file(), site);
  });
}

}  // namespace sluice::gluon::model_zoo
