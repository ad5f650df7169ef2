#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/gluon/detail/loader_numbers.h>
#include <sluice/gluon/estimator/training_state.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/file.h>

namespace sluice::gluon::estimator {

namespace {

using Arrays = std::map<std::string, NDArray>;

constexpr std::int64_t k_format = 1;
constexpr std::int64_t k_most = std::int64_t{1} << 53;  // of anything that is counted on
constexpr std::string_view k_loss = "@loss.", k_optimizer = "@optimizer.", k_metric = "@metric.",
                           k_handler = "@handler.";

template <class T>
NDArray list(const std::vector<T>& values) {
  return array(values, {std::ssize(values)});
}
NDArray text_array(std::string_view text) {
  return list(std::vector<std::uint8_t>(text.begin(), text.end()));
}
std::int64_t bits(std::uint64_t value) {
  return std::bit_cast<std::int64_t>(value);
}
RandomBlock block_of(std::int64_t seed, std::int64_t offset) {
  return {std::bit_cast<std::uint64_t>(seed), std::bit_cast<std::uint64_t>(offset)};
}

/// Names that may hold anything, dots too, as a path of two: the first part with its length in front.
std::string path_of(std::string_view prefix, std::string_view first, std::string_view second) {
  return message(prefix, first.size(), ':', first, '.', second);
}

/// A file's arrays, each of which has to be there, of its type and length.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : file_(path.string()), arrays_(load(path, cpu(), nullptr, {})) {}

  template <class T>
  std::vector<T> values(const std::string& name, std::int64_t size = -1) const {
    const auto found = arrays_.find(name);
    require<FileError>(found != arrays_.end(), [&] {
      return message(file_, ": has no entry '", name, "': it is no checkpoint of an Estimator");
    });
    const NDArray& array = found->second;
    require<FileError>(array.dtype() == dtype_of<T> && array.ndim() == 1 && (size < 0 || array.size() == size), [&] {
      return message(file_, ": its entry '", name, "' is ", array.dtype(), ' ', array.shape(), ", which cannot be");
    });
    return array.to_vector<T>();
  }
  std::string text(const std::string& name) const {
    const auto bytes = values<std::uint8_t>(name);
    return {bytes.begin(), bytes.end()};
  }
  Arrays below(std::string_view prefix) const {
    Arrays found;
    for (const auto& [name, value] : arrays_) {
      if (name.starts_with(prefix))
        found.emplace(name.substr(prefix.size()), value);
    }
    return found;
  }
  const Arrays& arrays() const { return arrays_; }
  const std::string& file() const { return file_; }
  [[noreturn]] void refuse(const std::string& entry, const std::string& why) const {
    throw FileError(message(file_, ": its entry '", entry, "' ", why));
  }

 private:
  std::string file_;
  Arrays arrays_;
};

/// What path_of() joined.
std::pair<std::string, std::string> split_path(const Reader& reader, std::string_view prefix, const std::string& path) {
  const std::size_t colon = path.find(':');
  std::size_t length = 0;
  bool is_number = colon != std::string::npos && colon > 0 && colon < 7;
  for (std::size_t i = 0; is_number && i < colon; ++i) {
    is_number = path[i] >= '0' && path[i] <= '9';
    length = length * 10 + static_cast<std::size_t>(path[i] - '0');
  }
  if (!is_number || path.size() - colon - 1 <= length || path[colon + 1 + length] != '.')
    reader.refuse(std::string(prefix) + path, "has a name that cannot be");
  return {path.substr(colon + 1, length), path.substr(colon + length + 2)};
}

void add_loader(Arrays& to, const data::DataLoaderState& state) {
  to["@loader"] = list<std::int64_t>(
      {state.num_samples,
       state.batch_size,
       state.shuffle ? 1 : 0,
       state.epochs,
       state.position,
       bits(state.order.seed),
       bits(state.order.offset)});
  to["@loader.last_batch"] = text_array(state.last_batch);
  to["@loader.carried"] = list(state.carried);
}

data::DataLoaderState loader_of(const Reader& reader) {
  const auto numbers = reader.values<std::int64_t>("@loader", 7);
  return {
      .num_samples = numbers[0],
      .batch_size = numbers[1],
      .shuffle = numbers[2] != 0,
      .last_batch = reader.text("@loader.last_batch"),
      .epochs = numbers[3],
      .position = numbers[4],
      .order = block_of(numbers[5], numbers[6]),
      .carried = reader.values<std::int64_t>("@loader.carried")};
}

// One after another: fit, place, how many numbers follow, these.
void add_left_loaders(Arrays& to, const TrainingState& state) {
  std::vector<std::int64_t> all;
  for (const LeftLoader& left : state.left_loaders) {
    const std::vector<std::int64_t> numbers = gluon::detail::numbers_of(left.state);
    all.insert(all.end(), {left.fit, left.place, std::ssize(numbers)});
    all.insert(all.end(), numbers.begin(), numbers.end());
  }
  if (!all.empty())
    to["@left_loaders"] = list(all);
}

std::vector<LeftLoader> left_loaders_of(const Reader& reader) {
  std::vector<LeftLoader> loaders;
  if (!reader.arrays().contains("@left_loaders"))
    return loaders;
  const auto all = reader.values<std::int64_t>("@left_loaders");
  std::span<const std::int64_t> rest(all);
  while (!rest.empty()) {
    std::optional<data::DataLoaderState> state;
    if (rest.size() >= 3 && rest[2] >= 0 && rest[2] <= std::ssize(rest) - 3)
      state = gluon::detail::loader_state_of(rest.subspan(3, static_cast<std::size_t>(rest[2])));
    if (!state || rest[0] < 1 || rest[1] < 0)
      reader.refuse("@left_loaders", "holds numbers that cannot be");
    loaders.push_back({.fit = rest[0], .place = rest[1], .state = std::move(*state)});
    rest = rest.subspan(3 + static_cast<std::size_t>(rest[2]));
  }
  return loaders;
}

void add_progress(Arrays& to, const TrainingState& state) {
  const Progress& at = state.progress;
  to["@progress"] = list<std::int64_t>(
      {at.epochs,
       at.batches,
       at.batch_in_epoch,
       at.fits,
       at.total_epochs,
       at.total_batches,
       at.total_samples,
       state.epoch_size,
       state.validations});
}

void read_progress(const Reader& reader, TrainingState& to) {
  const auto n = reader.values<std::int64_t>("@progress", 9);
  const bool possible =
      std::all_of(n.begin(), n.begin() + 7, [](std::int64_t count) { return count >= 0 && count <= k_most; }) &&
      n[3] >= 1 && n[2] <= n[1] && n[1] <= n[5] && n[0] <= n[4] && n[7] >= -1 && n[8] >= 0 && n[8] <= k_most &&
      (n[7] < 0 || n[2] <= n[7]);
  if (!possible)
    reader.refuse("@progress", "holds counts that cannot be");
  to.progress = {
      .epochs = n[0],
      .batches = n[1],
      .batch_in_epoch = n[2],
      .fits = n[3],
      .total_epochs = n[4],
      .total_batches = n[5],
      .total_samples = n[6]};
  to.epoch_size = n[7];
  to.validations = n[8];
}

void add_figures(Arrays& to, const std::vector<metric::Figure>& figures) {
  std::string names;
  std::vector<double> values;
  for (const auto& [name, value] : figures) {
    names += name + '\n';
    values.push_back(value);
  }
  to["@validation"] = list(values);
  to["@validation.names"] = text_array(names);
}

std::vector<metric::Figure> figures_of(const Reader& reader) {
  const std::string names = reader.text("@validation.names");
  const auto values = reader.values<double>("@validation");
  std::vector<metric::Figure> figures;
  std::size_t at = 0;
  for (const double value : values) {
    const std::size_t end = names.find('\n', at);
    if (end == std::string::npos)
      reader.refuse("@validation.names", "names too few figures");
    figures.emplace_back(names.substr(at, end - at), value);
    at = end + 1;
  }
  return figures;
}

void add_names(Arrays& to, const std::string& entry, const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names)
    all += name + '\n';
  if (!all.empty())
    to[entry] = text_array(all);
}

std::vector<std::string> names_of(const Reader& reader, const std::string& entry) {
  std::vector<std::string> names;
  if (!reader.arrays().contains(entry))
    return names;
  const std::string all = reader.text(entry);
  for (std::size_t at = 0, end = 0; (end = all.find('\n', at)) != std::string::npos; at = end + 1)
    names.push_back(all.substr(at, end - at));
  return names;
}

void add_metrics(Arrays& to, const TrainingState& state) {
  for (const auto& [name, metric] : state.metrics) {
    to[path_of(k_metric, name, "count")] = list<std::int64_t>({metric.count, std::ssize(metric.arrays)});
    for (std::size_t i = 0; i < metric.arrays.size(); ++i)
      to[path_of(k_metric, name, std::to_string(i))] = metric.arrays[i];
  }
}

void read_metrics(const Reader& reader, TrainingState& to) {
  const Arrays entries = reader.below(k_metric);
  for (const auto& [path, value] : entries) {
    const auto [name, entry] = split_path(reader, k_metric, path);
    if (entry != "count")
      continue;
    const auto counts = reader.values<std::int64_t>(std::string(k_metric) + path, 2);
    if (counts[1] < 0 || counts[1] >= std::ssize(entries))
      reader.refuse(std::string(k_metric) + path, "holds counts that cannot be");
    metric::Metric::State& state = to.metrics[name];
    state.count = counts[0];
    for (std::int64_t i = 0; i < counts[1]; ++i) {
      const std::string of_array = path_of("", name, std::to_string(i));
      const auto found = entries.find(of_array);
      if (found == entries.end())
        reader.refuse(std::string(k_metric) + of_array, "is missing");
      state.arrays.push_back(found->second);
    }
  }
}

}  // namespace

void write_state(const std::filesystem::path& path, const TrainingState& state) {
  Arrays all = state.parameters;
  for (const auto& [name, value] : all) {
    require(!name.starts_with('@'), [&, &name = name] {
      return message("the parameter '", name, "' has a name of checkpoints' own entries, which begin with '@'");
    });
  }
  const auto add_below = [&](std::string_view prefix, const Arrays& arrays) {
    for (const auto& [name, value] : arrays)
      all[std::string(prefix) + name] = value;
  };
  add_below(k_loss, state.loss_parameters);
  add_below(k_optimizer, state.optimizer);
  all["@format"] = list<std::int64_t>({k_format});
  all["@learning_rate"] = list<double>({state.learning_rate});
  all["@random"] = list<std::int64_t>(
      {bits(state.random.seed),
       bits(state.random.offset),
       bits(state.random_of_epoch.seed),
       bits(state.random_of_epoch.offset)});
  add_progress(all, state);
  add_figures(all, state.validation_figures);
  add_names(all, "@without_values", state.without_values);
  add_names(all, "@without_values.loss", state.loss_without_values);
  if (state.has_loader)
    add_loader(all, state.loader);
  add_left_loaders(all, state);
  add_metrics(all, state);
  for (const auto& [name, entries] : state.handlers) {
    for (const auto& [entry, value] : entries)
      all[path_of(k_handler, name, entry)] = value;
  }
  save(path, all, {});
}

TrainingState read_state(const std::filesystem::path& path) {
  const Reader reader(path);
  const std::int64_t format = reader.values<std::int64_t>("@format", 1)[0];
  require<UnsupportedError>(format == k_format, [&] {
    return message(reader.file(), ": has format ", format, ", this library reads format ", k_format);
  });
  const auto random = reader.values<std::int64_t>("@random", 4);
  TrainingState to{
      .path = path,
      .loss_parameters = reader.below(k_loss),
      .optimizer = reader.below(k_optimizer),
      .learning_rate = reader.values<double>("@learning_rate", 1)[0],
      .random = block_of(random[0], random[1]),
      .random_of_epoch = block_of(random[2], random[3]),
      .has_loader = reader.arrays().contains("@loader"),
      .validation_figures = figures_of(reader)};
  for (const auto& [name, value] : reader.arrays()) {
    if (!name.starts_with('@'))
      to.parameters.emplace(name, value);
  }
  if (to.has_loader)
    to.loader = loader_of(reader);
  to.left_loaders = left_loaders_of(reader);
  to.without_values = names_of(reader, "@without_values");
  to.loss_without_values = names_of(reader, "@without_values.loss");
  read_progress(reader, to);
  read_metrics(reader, to);
  for (const auto& [joined, value] : reader.below(k_handler)) {
    auto [name, entry] = split_path(reader, k_handler, joined);
    to.handlers[std::move(name)].emplace(std::move(entry), value);
  }
  return to;
}

}  // namespace sluice::gluon::estimator
