#include "samples/support/summary.h"

#include <algorithm>

#include <fmt/format.h>

#include "samples/support/terminal.h"

namespace samples {

using sluice::gluon::estimator::class_scores;
using sluice::gluon::estimator::ClassScore;
using sluice::gluon::estimator::ConfusionCounts;

namespace {

constexpr std::size_t k_worst = 3;

std::size_t digits_of(const ConfusionCounts& counts) {
  std::int64_t largest = 0;
  for (const auto& row : counts)
    largest = std::max(largest, *std::max_element(row.begin(), row.end()));
  return fmt::format("{}", largest).size();
}

void print_matrix(const Evaluation& evaluation, const std::vector<std::string>& classes) {
  const ConfusionCounts counts = evaluation.confusions();
  const std::size_t n = counts.size();
  const std::size_t column = std::max(digits_of(counts), std::size_t{2}) + 2;
  std::size_t names = 0;
  for (const std::string& name : classes)
    names = std::max(names, name.size());
  const std::size_t needed = 3 + names + n * column, room = line_room();
  if (room > 0 && needed > room) {
    say(fmt::format("(The confusion matrix takes {} columns; --report FOLDER draws it.)", needed + 1));
    return;
  }
  say("confusion matrix: rows are labels, columns guesses");
  std::string header(3 + names, ' ');
  for (std::size_t guess = 0; guess < n; ++guess)
    header += fmt::format("{:>{}}", guess, column);
  put(header + '\n');
  for (std::size_t label = 0; label < n; ++label) {
    std::string row = fmt::format("{:>2} {:<{}}", label, classes.at(label), names);
    for (std::size_t guess = 0; guess < n; ++guess) {
      const std::int64_t count = counts[label][guess];
      row += fmt::format("{:>{}}", count == 0 ? "." : fmt::format("{}", count), column);
    }
    put(row + '\n');
  }
}

}  // namespace

void print_summary(const Evaluation& evaluation, const std::vector<std::string>& classes) {
  if (evaluation.size() == 0)
    return;
  print_matrix(evaluation, classes);
  const std::vector<ClassScore> scores = class_scores(evaluation.confusions());
  for (std::size_t i = 0; i < std::min(k_worst, scores.size()); ++i) {
    const ClassScore& score = scores[i];
    if (score.samples == 0)
      return;
    std::string line = fmt::format(
        "{} {}: precision {:.3f}, recall {:.3f}",
        i == 0 ? "worst classes:" : "              ",
        classes.at(static_cast<std::size_t>(score.label)),
        score.precision,
        score.recall);
    if (score.taken_for >= 0) {
      line += fmt::format(
          ", taken for {} {} time{}",
          classes.at(static_cast<std::size_t>(score.taken_for)),
          score.times,
          score.times == 1 ? "" : "s");
    }
    say(line);
  }
}

}  // namespace samples
