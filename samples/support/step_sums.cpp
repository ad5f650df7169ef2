#include "samples/support/step_sums.h"

#include <utility>

#include <fmt/format.h>

#include "samples/support/terminal.h"

namespace samples {

using namespace sluice;

namespace {

constexpr std::size_t k_groups_late = 1;  // groups that stay unread

NDArray joined(const std::vector<NDArray>& arrays) {
  return arrays.size() == 1 ? arrays.front() : concat(arrays);
}

}  // namespace

// A GPU reads rarely, so that its stream is never short of work; steps of a CPU take longer and hold more memory.
StepSums::StepSums(Device device, std::int64_t step, int print, DivergenceWatch& watch)
    : group_steps_(device.is_gpu() ? 16 : 4),
      step_(step),
      first_step_(step),
      print_until_(step + print),
      watch_(watch) {}

void StepSums::step(const NDArray& losses, const NDArray& labels, const NDArray& predictions, Progress& progress) {
  if (!losses_.empty() && losses_.front().shape() != losses.shape())
    close_group();
  losses_.push_back(losses);
  labels_.push_back(labels);
  predictions_.push_back(predictions);
  if (losses_.size() == group_steps_)
    close_group();
  while (groups_.size() > k_groups_late)
    read_oldest(progress);
}

void StepSums::close_group() {
  const NDArray labels = joined(labels_);
  const NDArray guesses = argmax(joined(predictions_), 1).astype(labels.dtype());
  groups_.push_back(
      {joined(losses_),
       sum(equal(guesses, labels)),
       static_cast<std::int64_t>(losses_.size()),
       losses_.front().size()});
  losses_.clear();
  labels_.clear();
  predictions_.clear();
}

void StepSums::read_oldest(Progress& progress) {
  const Group group = std::move(groups_.front());
  groups_.pop_front();
  const std::vector<float> losses = group.losses.to_vector<float>();
  sums_.hits += group.hits.item<std::int64_t>();
  sums_.images += group.steps * group.batch;
  // Added up here, one by one: the sum does not hang on where groups begin and end.
  std::vector<double> means;
  for (std::int64_t i = 0; i < group.steps; ++i) {
    double step_loss = 0;
    for (std::int64_t j = 0; j < group.batch; ++j)
      step_loss += static_cast<double>(losses[static_cast<std::size_t>(i * group.batch + j)]);
    sums_.loss += step_loss;
    means.push_back(step_loss / static_cast<double>(group.batch));
  }
  progress.show(sums_);  // first, so that the line says what the watch complains of
  for (const double mean : means) {
    if (++step_ <= print_until_) {
      progress.clear_line();
      put(fmt::format("loss {} {:.9g}\n", step_, static_cast<float>(mean)));
    }
    watch_.look(step_, mean);
  }
}

void StepSums::finish(Progress& progress) {
  if (!losses_.empty())
    close_group();
  while (!groups_.empty())
    read_oldest(progress);
}

}  // namespace samples
