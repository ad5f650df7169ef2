#include "samples/support/checkpoint.h"

#include <bit>
#include <sstream>
#include <utility>
#include <vector>

#include "samples/support/safe_file.h"

namespace samples {

using namespace sluice;
using Arrays = Checkpoint::Arrays;

namespace {

constexpr const char* k_optimizer = "@optimizer.";
constexpr const char* k_scaler = "@scaler.";
constexpr std::int64_t k_format = 1;
constexpr std::size_t k_record_fields = 7;

template <class T>
NDArray list(const std::vector<T>& values) {
  return array(values, {static_cast<std::int64_t>(values.size())});
}
NDArray text_array(const std::string& text) {
  return list(std::vector<std::uint8_t>(text.begin(), text.end()));
}
std::int64_t bits(std::uint64_t value) {
  return std::bit_cast<std::int64_t>(value);
}
std::uint64_t unsigned_of(std::int64_t value) {
  return std::bit_cast<std::uint64_t>(value);
}

/// A file's arrays, each of which has to be there, of its type and length.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : file_(path.string()), arrays_(load(path)) {}

  template <class T>
  std::vector<T> values(const std::string& name, std::int64_t size = -1) const {
    const auto found = arrays_.find(name);
    require<FileError>(found != arrays_.end(), [&] {
      return message(file_, ": has no entry '", name, "': it is no file that --save wrote (--load takes parameters)");
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
  const Arrays& arrays() const { return arrays_; }
  const std::string& file() const { return file_; }

 private:
  std::string file_;
  Arrays arrays_;
};

void add_loader(Arrays& to, const gluon::data::DataLoaderState& state) {
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

gluon::data::DataLoaderState loader_of(const Reader& reader) {
  const auto numbers = reader.values<std::int64_t>("@loader", 7);
  return {
      .num_samples = numbers[0],
      .batch_size = numbers[1],
      .shuffle = numbers[2] != 0,
      .last_batch = reader.text("@loader.last_batch"),
      .epochs = numbers[3],
      .position = numbers[4],
      .order = {unsigned_of(numbers[5]), unsigned_of(numbers[6])},
      .carried = reader.values<std::int64_t>("@loader.carried")};
}

void add_history(Arrays& to, const History& history) {
  std::vector<double> values;
  for (const EpochRecord& epoch : history) {
    for (const double value :
         {epoch.learning_rate,
          epoch.loss,
          epoch.accuracy,
          epoch.validation_loss,
          epoch.validation_accuracy,
          epoch.seconds,
          epoch.images_per_second})
      values.push_back(value);
  }
  to["@history"] = list(values);
}

History history_of(const Reader& reader) {
  const auto values = reader.values<double>("@history");
  require<FileError>(values.size() % k_record_fields == 0, [&] {
    return message(reader.file(), ": its entry '@history' has ", values.size(), " values, which cannot be");
  });
  History history;
  for (std::size_t i = 0; i < values.size(); i += k_record_fields)
    history.push_back(
        {values[i], values[i + 1], values[i + 2], values[i + 3], values[i + 4], values[i + 5], values[i + 6]});
  return history;
}

std::string lines_of(const std::map<std::string, std::string>& settings) {
  std::string text;
  for (const auto& [name, value] : settings)
    text += name + ' ' + value + '\n';
  return text;
}

std::map<std::string, std::string> settings_of(const std::string& text) {
  std::map<std::string, std::string> settings;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (const std::size_t space = line.find(' '); space != std::string::npos)
      settings[line.substr(0, space)] = line.substr(space + 1);
  }
  return settings;
}

Arrays without_the_rest(const Arrays& arrays) {
  Arrays parameters;
  for (const auto& [name, value] : arrays) {
    if (!name.starts_with('@'))
      parameters.emplace(name, value);
  }
  return parameters;
}

}  // namespace

void write_checkpoint(const std::filesystem::path& path, const Checkpoint& from) {
  Arrays arrays = from.parameters;
  for (const auto& [name, value] : from.optimizer)
    arrays[k_optimizer + name] = value;
  for (const auto& [name, value] : from.scaler)
    arrays[k_scaler + name] = value;
  arrays["@format"] = list<std::int64_t>({k_format});
  arrays["@settings"] = text_array(lines_of(from.settings));
  arrays["@random"] = list<std::int64_t>({bits(from.random.seed), bits(from.random.offset)});
  arrays["@images"] = list<std::int64_t>({bits(from.images)});
  arrays["@steps"] = list<std::int64_t>({from.steps});
  arrays["@epoch.counts"] = list<std::int64_t>({from.epoch.hits, from.epoch.images});
  arrays["@epoch.loss"] = list<double>({from.epoch.loss, from.first_loss});
  arrays["@seconds"] = list<double>({from.seconds, from.epoch_seconds});
  add_loader(arrays, from.loader);
  add_history(arrays, from.history);
  // A link is followed: the file that it names is replaced, not the link.
  save(behind_links(path), arrays);
}

Checkpoint read_checkpoint(const std::filesystem::path& path) {
  const Reader reader(path);
  const std::int64_t format = reader.values<std::int64_t>("@format", 1)[0];
  require<FileError>(format == k_format, [&] {
    return message(reader.file(), ": has format ", format, ", this program reads format ", k_format);
  });
  const std::int64_t steps = reader.values<std::int64_t>("@steps", 1)[0];
  require<FileError>(
      steps >= 0, [&] { return message(reader.file(), ": its entry '@steps' is ", steps, ", which cannot be"); });
  const auto random = reader.values<std::int64_t>("@random", 2);
  const auto counts = reader.values<std::int64_t>("@epoch.counts", 2);
  const auto losses = reader.values<double>("@epoch.loss", 2), seconds = reader.values<double>("@seconds", 2);
  Checkpoint to{
      .settings = settings_of(reader.text("@settings")),
      .parameters = without_the_rest(reader.arrays()),
      .optimizer = {},
      .scaler = {},
      .random = {unsigned_of(random[0]), unsigned_of(random[1])},
      .loader = loader_of(reader),
      .images = unsigned_of(reader.values<std::int64_t>("@images", 1)[0]),
      .steps = steps,
      .first_loss = losses[1],
      .seconds = seconds[0],
      .epoch = {.loss = losses[0], .hits = counts[0], .images = counts[1]},
      .epoch_seconds = seconds[1],
      .history = history_of(reader)};
  for (const auto& [name, value] : reader.arrays()) {
    if (name.starts_with(k_optimizer))
      to.optimizer[name.substr(std::string(k_optimizer).size())] = value;
    if (name.starts_with(k_scaler))
      to.scaler[name.substr(std::string(k_scaler).size())] = value;
  }
  return to;
}

void set_parameters(gluon::Block& net, const Arrays& arrays, const std::filesystem::path& path, Device on) {
  const gluon::ParameterDict parameters = net.collect_params();
  const std::string file = path.string();
  for (const auto& [name, parameter] : parameters) {
    require(arrays.contains(name), [&, &name = name] {
      return message(file, ": has no parameter '", name, "', which this network has: it is of another network");
    });
  }
  for (const auto& [name, value] : arrays) {
    require(parameters.contains(name), [&, &name = name] {
      return message(file, ": has a parameter '", name, "', which this network lacks; it has ", parameters.names());
    });
  }
  for (const auto& [name, parameter] : parameters) {
    try {
      parameter.set_data(arrays.at(name));
    } catch (const ShapeError& error) {
      throw ShapeError(message(file, ": '", name, "': ", error.message()));
    }
    parameter.to(on);
  }
}

Arrays read_parameters(const std::filesystem::path& path) {
  return without_the_rest(load(path));
}

}  // namespace samples
