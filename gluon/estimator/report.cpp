#include <algorithm>
#include <cmath>
#include <limits>
#include <system_error>
#include <utility>

#include <sluice/engine/error.h>
#include <sluice/gluon/detail/file_text.h>
#include <sluice/gluon/detail/report_parts.h>
#include <sluice/gluon/estimator/estimator.h>
#include <sluice/gluon/estimator/report.h>
#include <sluice/ndarray/create.h>

namespace sluice::gluon::estimator {

namespace {

using gluon::detail::number_text;

constexpr double k_missing = std::numeric_limits<double>::quiet_NaN();
const std::string k_training = "training ", k_validation = "validation ", k_figure = "figure ";

std::string figure_text(double value) {
  return std::isnan(value) ? "-" : number_text("%.4g", value);
}

std::size_t place_of(const std::vector<std::string>& names, const std::string& name) {
  return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

std::vector<double> column(const HandlerState& state, const std::string& name, std::size_t epochs) {
  const auto found = state.find(name);
  require(
      found != state.end() && found->second.dtype() == float64 &&
          found->second.shape() == Shape{static_cast<std::int64_t>(epochs)},
      [&] { return message("ReportHandler: the state has no '", name, "' of ", epochs, " epochs"); });
  return found->second.to_vector<double>();
}

}  // namespace

ReportHandler::ReportHandler(ReportOptions options) : options_(std::move(options)) {
  require(!options_.folder.empty(), [] { return "ReportHandler: a page in '' cannot be"; });
}

void ReportHandler::train_begin(Estimator& estimator) {
  std::error_code error;
  std::filesystem::create_directories(options_.folder, error);
  require<FileError>(std::filesystem::is_directory(options_.folder, error), [&] {
    return message(options_.folder.string(), ": the folder cannot be made");
  });
  seen_validations_ = estimator.validations();
}

void ReportHandler::train_resumed(Estimator& estimator) {
  seen_validations_ = estimator.validations();
}

void ReportHandler::epoch_begin(Estimator& estimator) {
  samples_ = estimator.progress().total_samples;
  began_ = std::chrono::steady_clock::now();
}

// Epochs that are there keep their figures, wherever these stand now.
void ReportHandler::take_names(std::vector<std::string> names) {
  if (names == names_)
    return;
  for (Epoch& epoch : epochs_) {
    std::vector<double> figures;
    for (const std::string& name : names) {
      const std::size_t before = place_of(names_, name);
      figures.push_back(before < names_.size() ? epoch.figures[before] : k_missing);
    }
    epoch.figures = std::move(figures);
  }
  names_ = std::move(names);
}

void ReportHandler::epoch_end(Estimator& estimator) {
  take_names(estimator.figure_names());
  Epoch epoch{.learning_rate = estimator.trainer().learning_rate()};
  for (const std::string& name : names_) {
    const bool is_old = name.starts_with(k_validation) && estimator.validations() == seen_validations_;
    epoch.figures.push_back(is_old ? k_missing : estimator.figure(name));
  }
  seen_validations_ = estimator.validations();
  // The figures waited for the epoch's last batch.
  epoch.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  epoch.samples = static_cast<double>(estimator.progress().total_samples - samples_);
  epochs_.push_back(std::move(epoch));
  write(estimator, "");
}

void ReportHandler::train_end(Estimator& estimator) {
  write(estimator, estimator.failed() ? "This training ended with an error." : "");
}

std::vector<Curve> ReportHandler::curves() const {
  std::vector<Curve> all;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const bool is_validation = names_[i].starts_with(k_validation);
    const std::string name = names_[i].substr(is_validation ? k_validation.size() : k_training.size());
    auto curve = std::find_if(all.begin(), all.end(), [&](const Curve& one) { return one.name == name; });
    if (curve == all.end())
      curve = all.insert(all.end(), Curve{.name = name});
    std::vector<double>& values = is_validation ? curve->validation : curve->training;
    for (const Epoch& epoch : epochs_)
      values.push_back(epoch.figures[i]);
  }
  return all;
}

void ReportHandler::add_figures(ReportPage& page) const {
  if (epochs_.empty())
    return;
  ReportPage::Pairs figures;
  for (std::size_t i = 0; i < names_.size(); ++i)
    figures.emplace_back(figure_text(epochs_.back().figures[i]), names_[i]);
  double seconds = 0;
  for (const Epoch& epoch : epochs_)
    seconds += epoch.seconds;
  figures.emplace_back(number_text("%.1f s", seconds), message("in ", epochs_.size(), " epochs"));
  page.add_figures(figures);
}

void ReportHandler::add_epochs(ReportPage& page) const {
  std::vector<std::string> head{"epoch"};
  head.insert(head.end(), names_.begin(), names_.end());
  head.insert(head.end(), {"learning rate", "samples/s", "time"});
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < epochs_.size(); ++i) {
    const Epoch& epoch = epochs_[i];
    std::vector<std::string> row{std::to_string(i + 1)};
    for (const double value : epoch.figures)
      row.push_back(figure_text(value));
    row.push_back(number_text("%.3g", epoch.learning_rate));
    row.push_back(epoch.seconds > 0 ? number_text("%.0f", epoch.samples / epoch.seconds) : "-");
    row.push_back(number_text("%.1f s", epoch.seconds));
    rows.push_back(std::move(row));
  }
  if (!rows.empty())
    page.add_table("Epochs", head, rows);
}

void ReportHandler::add_settings(ReportPage& page, Estimator& estimator) const {
  const Progress& at = estimator.progress();
  ReportPage::Pairs all = options_.settings;
  all.emplace_back("optimizer", estimator.trainer().optimizer().name());
  all.emplace_back("learning rate", number_text("%.3g", estimator.trainer().learning_rate()));
  all.emplace_back("batches", std::to_string(at.total_batches));
  all.emplace_back("samples", std::to_string(at.total_samples));
  if (!estimator.stop_reason().empty() && !estimator.failed())
    all.emplace_back("ended", estimator.stop_reason());
  page.add_list("Settings", all);
}

void ReportHandler::write(Estimator& estimator, const std::string& note) {
  ReportPage made(options_.title, "What was trained, and how well it does.");
  if (!note.empty())
    made.add_note(note);
  add_figures(made);
  made.add_curves(curves());
  if (options_.confusions != nullptr && options_.confusions->count() > 0)
    made.add_confusions(options_.confusions->matrix(), options_.classes);
  add_epochs(made);
  add_settings(made, estimator);
  gluon::detail::write_text(page(), made.html("Written by Sluice's estimator."));
}

HandlerState ReportHandler::state() const {
  if (epochs_.empty())
    return {};
  const auto list = [&](const auto& value_of) {
    std::vector<double> values;
    for (const Epoch& epoch : epochs_)
      values.push_back(value_of(epoch));
    return array(values, {std::ssize(values)});
  };
  HandlerState state{
      {"samples", list([](const Epoch& epoch) { return epoch.samples; })},
      {"seconds", list([](const Epoch& epoch) { return epoch.seconds; })},
      {"learning_rate", list([](const Epoch& epoch) { return epoch.learning_rate; })}};
  for (std::size_t i = 0; i < names_.size(); ++i)
    state.emplace(k_figure + names_[i], list([&](const Epoch& epoch) { return epoch.figures[i]; }));
  return state;
}

void ReportHandler::load_state(const HandlerState& state) {
  std::vector<Epoch> epochs;
  std::vector<std::string> names;
  if (!state.empty()) {
    const auto samples = state.find("samples");
    epochs.resize(samples == state.end() ? 0 : static_cast<std::size_t>(samples->second.size()));
    const auto take = [&](const std::string& name, const auto& place_in) {
      const std::vector<double> values = column(state, name, epochs.size());
      for (std::size_t i = 0; i < epochs.size(); ++i)
        place_in(epochs[i]) = values[i];
    };
    take("samples", [](Epoch& epoch) -> double& { return epoch.samples; });
    take("seconds", [](Epoch& epoch) -> double& { return epoch.seconds; });
    take("learning_rate", [](Epoch& epoch) -> double& { return epoch.learning_rate; });
    for (const auto& [name, values] : state) {
      if (!name.starts_with(k_figure))
        continue;
      names.push_back(name.substr(k_figure.size()));
      take(name, [](Epoch& epoch) -> double& { return epoch.figures.emplace_back(); });
    }
  }
  epochs_ = std::move(epochs);
  names_ = std::move(names);
}

}  // namespace sluice::gluon::estimator
