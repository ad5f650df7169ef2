#include <utility>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/gluon/detail/event_file.h>
#include <sluice/gluon/estimator/estimator.h>
#include <sluice/gluon/estimator/tensorboard.h>

namespace sluice::gluon::estimator {

namespace {

// TensorBoard groups by what stands before the stroke.
std::string tag_of(std::string name) {
  if (const std::size_t space = name.find(' '); space != std::string::npos)
    name[space] = '/';
  return name;
}

}  // namespace

TensorBoardHandler::TensorBoardHandler(TensorBoardOptions options) : options_(std::move(options)) {
  require(!options_.folder.empty() && options_.every_batches >= 0, [&] {
    return message(
        "TensorBoardHandler: figures each ",
        options_.every_batches,
        " batches in '",
        options_.folder.string(),
        "' cannot be");
  });
}

void TensorBoardHandler::train_begin(Estimator& estimator) {
  if (file_ == nullptr)
    file_ = std::make_shared<gluon::detail::EventFile>(options_.folder);
  seen_validations_ = estimator.validations();
  written_at_ = -1;
}

void TensorBoardHandler::train_resumed(Estimator& estimator) {
  file_->add_restart(estimator.progress().total_batches + 1);
  seen_validations_ = estimator.validations();
}

void TensorBoardHandler::batch_end(Estimator& estimator, const data::Batch& /*batch*/, const StepResult& /*result*/) {
  if (options_.every_batches > 0 && estimator.progress().total_batches % options_.every_batches == 0)
    write(estimator);
}

void TensorBoardHandler::epoch_end(Estimator& estimator) {
  if (options_.every_batches == 0 || estimator.validations() != seen_validations_)
    write(estimator);
}

void TensorBoardHandler::write(Estimator& estimator) {
  std::vector<std::pair<std::string, double>> values;
  const std::int64_t now = estimator.progress().total_batches;
  if (written_at_ != now) {  // else validation alone came since
    for (const auto& [name, value] : estimator.training_figures())
      values.emplace_back(tag_of(name), value);
    values.emplace_back("learning_rate", estimator.trainer().learning_rate());
  }
  if (estimator.validations() != seen_validations_) {
    for (const auto& [name, value] : estimator.validation_figures())
      values.emplace_back(tag_of(name), value);
  }
  file_->add_scalars(now, values);
  written_at_ = now;
  seen_validations_ = estimator.validations();
}

std::filesystem::path TensorBoardHandler::file() const {
  return file_ == nullptr ? std::filesystem::path() : file_->path();
}

}  // namespace sluice::gluon::estimator
