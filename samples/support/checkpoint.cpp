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

constexpr const char* k_session = "samples";  // whose state ours is, as a handler's would be
constexpr std::size_t k_record_fields = 7;

template <class T>
NDArray list(const std::vector<T>& values) {
  return array(values, {static_cast<std::int64_t>(values.size())});
}

/// What stands in a file beside an Estimator's state.
class Beside {
 public:
  Beside(const std::filesystem::path& path, const gluon::estimator::TrainingState& state) : file_(path.string()) {
    const auto found = state.handlers.find(k_session);
    require<FileError>(found != state.handlers.end(), [&] {
      return message(file_, ": is a checkpoint that --save did not write (--load takes parameters)");
    });
    arrays_ = found->second;
  }

  template <class T>
  std::vector<T> values(const std::string& name, std::int64_t size = -1) const {
    const auto found = arrays_.find(name);
    require<FileError>(found != arrays_.end(), [&] { return message(file_, ": has no entry '", name, "'"); });
    const NDArray& array = found->second;
    require<FileError>(array.dtype() == dtype_of<T> && array.ndim() == 1 && (size < 0 || array.size() == size), [&] {
      return message(file_, ": its entry '", name, "' is ", array.dtype(), ' ', array.shape(), ", which cannot be");
    });
    return array.to_vector<T>();
  }
  const std::string& file() const { return file_; }

 private:
  std::string file_;
  gluon::estimator::HandlerState arrays_;
};

NDArray array_of(const History& history) {
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
  return list(values);
}

History history_of(const Beside& beside) {
  const auto values = beside.values<double>("history");
  require<FileError>(values.size() % k_record_fields == 0, [&] {
    return message(beside.file(), ": its entry 'history' has ", values.size(), " values, which cannot be");
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

// Of parameters alone it says who takes them.
gluon::estimator::TrainingState state_of(const std::filesystem::path& path) {
  try {
    return gluon::estimator::read_state(path);
  } catch (const FileError&) {
    const Arrays arrays = load(path);  // throws for what is no .npz
    if (arrays.contains("@format"))
      throw;
    throw FileError(message(path.string(), ": is no file that --save wrote (--load takes parameters)"));
  }
}

}  // namespace

void write_checkpoint(const std::filesystem::path& path, const Checkpoint& from) {
  const std::string settings = lines_of(from.settings);
  gluon::estimator::TrainingState state = from.state;
  state.handlers[k_session] = {
      {"settings", list(std::vector<std::uint8_t>(settings.begin(), settings.end()))},
      {"images", list<std::int64_t>({std::bit_cast<std::int64_t>(from.images)})},
      {"epoch.counts", list<std::int64_t>({from.epoch.hits, from.epoch.images})},
      {"epoch.loss", list<double>({from.epoch.loss, from.first_loss})},
      {"seconds", list<double>({from.seconds, from.epoch_seconds})},
      {"history", array_of(from.history)}};
  // A link is followed: the file that it names is replaced, not the link.
  write_state(behind_links(path), state);
}

Checkpoint read_checkpoint(const std::filesystem::path& path) {
  gluon::estimator::TrainingState state = state_of(path);
  const Beside beside(path, state);
  const auto settings = beside.values<std::uint8_t>("settings");
  const auto counts = beside.values<std::int64_t>("epoch.counts", 2);
  const auto losses = beside.values<double>("epoch.loss", 2), seconds = beside.values<double>("seconds", 2);
  return {
      .state = std::move(state),
      .settings = settings_of({settings.begin(), settings.end()}),
      .images = std::bit_cast<std::uint64_t>(beside.values<std::int64_t>("images", 1)[0]),
      .first_loss = losses[1],
      .seconds = seconds[0],
      .epoch = {.loss = losses[0], .hits = counts[0], .images = counts[1]},
      .epoch_seconds = seconds[1],
      .history = history_of(beside)};
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
  Arrays arrays = load(path);
  std::erase_if(arrays, [](const auto& entry) { return entry.first.starts_with('@'); });
  return arrays;
}

}  // namespace samples
