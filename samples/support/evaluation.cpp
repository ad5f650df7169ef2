#include "samples/support/evaluation.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "samples/support/interrupt.h"

namespace samples {

using namespace sluice;

namespace {

constexpr std::size_t k_batches_unread = 4;  // enough to keep the device at work

struct Judged {
  NDArray labels, predictions, losses;
};

void read(const Judged& batch, Evaluation& into) {
  const auto labels = batch.labels.to_vector<std::int32_t>();
  const auto predictions = batch.predictions.astype(float32).to_vector<float>();
  into.classes = batch.predictions.shape()[1];
  into.labels.insert(into.labels.end(), labels.begin(), labels.end());
  into.predictions.insert(into.predictions.end(), predictions.begin(), predictions.end());
  for (const float loss : batch.losses.astype(float32).to_vector<float>())
    into.loss += static_cast<double>(loss);
}

}  // namespace

Evaluation evaluate(const gluon::Block& net, const gluon::loss::Loss& loss, gluon::data::DataLoader& loader) {
  Evaluation evaluation{.complete = true};
  std::deque<Judged> unread;
  const auto read_all_but = [&](std::size_t batches) {
    for (; unread.size() > batches; unread.pop_front())
      read(unread.front(), evaluation);
  };
  for (auto [x, y] : loader) {
    if (interrupted()) {
      evaluation.complete = false;
      break;
    }
    const NDArray predictions = net(x);
    unread.push_back({y, predictions, loss(predictions, y)});
    read_all_but(k_batches_unread);
  }
  read_all_but(0);
  if (evaluation.size() > 0)
    evaluation.loss /= static_cast<double>(evaluation.size());
  return evaluation;
}

std::int32_t Evaluation::guess(std::int64_t image) const {
  const auto row = predictions.begin() + image * classes;
  return static_cast<std::int32_t>(std::max_element(row, row + classes) - row);
}

std::vector<double> Evaluation::probabilities(std::int64_t image) const {
  const auto row = predictions.begin() + image * classes;
  const double largest = static_cast<double>(*std::max_element(row, row + classes));
  std::vector<double> shares(row, row + classes);
  double sum = 0;
  for (double& share : shares)
    sum += share = std::exp(share - largest);
  for (double& share : shares)
    share /= sum;
  return shares;
}

std::int64_t Evaluation::hits() const {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < size(); ++i)
    count += guess(i) == labels[static_cast<std::size_t>(i)] ? 1 : 0;
  return count;
}

double Evaluation::accuracy() const {
  return size() > 0 ? static_cast<double>(hits()) / static_cast<double>(size()) : 0;
}

gluon::estimator::ConfusionCounts Evaluation::confusions() const {
  const auto n = static_cast<std::size_t>(classes);
  gluon::estimator::ConfusionCounts counts(n, std::vector<std::int64_t>(n));
  for (std::int64_t i = 0; i < size(); ++i)
    ++counts[static_cast<std::size_t>(labels[static_cast<std::size_t>(i)])][static_cast<std::size_t>(guess(i))];
  return counts;
}

std::vector<std::int64_t> confident_mistakes(const Evaluation& evaluation, std::size_t most) {
  std::vector<std::pair<double, std::int64_t>> wrong;
  for (std::int64_t i = 0; i < evaluation.size(); ++i) {
    const std::int32_t guess = evaluation.guess(i);
    if (guess == evaluation.labels[static_cast<std::size_t>(i)])
      continue;
    const double probability = evaluation.probabilities(i)[static_cast<std::size_t>(guess)];
    if (std::isfinite(probability))
      wrong.emplace_back(-probability, i);
  }
  std::sort(wrong.begin(), wrong.end());
  std::vector<std::int64_t> images;
  for (std::size_t i = 0; i < std::min(most, wrong.size()); ++i)
    images.push_back(wrong[i].second);
  return images;
}

}  // namespace samples
