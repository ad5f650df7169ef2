#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include <sluice/engine/error.h>
#include <sluice/gluon/detail/report_parts.h>

namespace sluice::gluon::estimator {

std::vector<ClassScore> class_scores(const ConfusionCounts& counts) {
  for (const auto& row : counts) {
    require(row.size() == counts.size(), [&] {
      return message("class_scores: ", counts.size(), " labels, but ", row.size(), " guesses of one of them");
    });
  }
  const auto share = [](std::int64_t part, std::int64_t all) {
    return all > 0 ? static_cast<double>(part) / static_cast<double>(all) : 0;
  };
  std::vector<ClassScore> scores;
  for (std::size_t label = 0; label < counts.size(); ++label) {
    ClassScore score{.label = static_cast<std::int64_t>(label)};
    std::int64_t guessed = 0;
    for (std::size_t other = 0; other < counts.size(); ++other) {
      score.samples += counts[label][other];
      guessed += counts[other][label];
      if (other != label && counts[label][other] > score.times) {
        score.taken_for = static_cast<std::int64_t>(other);
        score.times = counts[label][other];
      }
    }
    const std::int64_t right = counts[label][label];
    score.precision = share(right, guessed);
    score.recall = share(right, score.samples);
    score.f1 = share(2 * right, score.samples + guessed);
    scores.push_back(score);
  }
  std::stable_sort(scores.begin(), scores.end(), [](const auto& a, const auto& b) {
    return (a.samples > 0) != (b.samples > 0) ? a.samples > 0 : a.f1 < b.f1;
  });
  return scores;
}

}  // namespace sluice::gluon::estimator

namespace sluice::gluon::detail {

using estimator::ClassScore;
using estimator::ConfusionCounts;
using estimator::ReportPage;

namespace {

// Shares of a row spread over the colours so that a few per cent of mistakes can be seen beside the diagonal.
double shade(double share, bool right) {
  return right ? share : std::min(1.0, 1.4 * std::sqrt(share));
}

std::string cell(std::int64_t count, std::int64_t in_row, bool right, const std::string& hint) {
  if (count == 0)
    return "<td class=\"none\">·</td>";
  const double colour = shade(static_cast<double>(count) / static_cast<double>(in_row), right);
  return std::string("<td") + (colour > 0.55 ? " class=\"strong\"" : "") + " style=\"background:rgba(var(--" +
         (right ? "right" : "wrong") + ")," + number_text("%.3f", std::max(colour, 0.06)) + ")\" title=\"" + hint +
         "\">" + std::to_string(count) + "</td>";
}

std::string share_cell(const ClassScore& score, double value) {
  if (score.samples == 0)
    return "<td class=\"quiet\">-</td>";
  return "<td>" + number_text("%.3f", value) +
         "<span class=\"bar\"><i style=\"width:" + number_text("%.1f", 100 * value) + "%\"></i></span></td>";
}

}  // namespace

std::string confusion_matrix(
    const ConfusionCounts& counts, const std::vector<std::string>& names, const std::string& noun) {
  std::string text =
      "<section><h2>Confusion matrix</h2><div class=\"scroll\"><table class=\"matrix\"><thead><tr>"
      "<th>label ↓ &nbsp; guess →</th>";
  for (const std::string& name : names)
    text += "<th scope=\"col\"><span>" + ReportPage::escaped(name) + "</span></th>";
  text += "</tr></thead><tbody>\n";
  for (std::size_t label = 0; label < counts.size(); ++label) {
    const std::string name = ReportPage::escaped(names[label]);
    const std::int64_t in_row = std::accumulate(counts[label].begin(), counts[label].end(), std::int64_t{0});
    text += "<tr><th scope=\"row\">" + name + "</th>";
    for (std::size_t guess = 0; guess < counts.size(); ++guess) {
      const std::int64_t count = counts[label][guess];
      const std::string hint = std::to_string(count) + " of " + std::to_string(in_row) + ' ' +
                               ReportPage::escaped(noun) + " of " + name + " taken for " +
                               ReportPage::escaped(names[guess]);
      text += cell(count, in_row, label == guess, hint);
    }
    text += "</tr>\n";
  }
  return text + "</tbody></table></div></section>\n";
}

std::string score_table(const ConfusionCounts& counts, const std::vector<std::string>& names) {
  std::string text =
      "<section><h2>Classes, the worst first</h2><div class=\"scroll\"><table class=\"list\"><thead><tr><th>class</th>"
      "<th>precision</th><th>recall</th><th>most often taken for</th></tr></thead><tbody>\n";
  for (const ClassScore& score : estimator::class_scores(counts)) {
    text += "<tr><th scope=\"row\">" + ReportPage::escaped(names[static_cast<std::size_t>(score.label)]) + "</th>" +
            share_cell(score, score.precision) + share_cell(score, score.recall) + "<td>";
    if (score.taken_for >= 0)
      text += ReportPage::escaped(names[static_cast<std::size_t>(score.taken_for)]) + " <span class=\"quiet\">" +
              std::to_string(score.times) + " times</span>";
    text += "</td></tr>\n";
  }
  return text + "</tbody></table></div></section>\n";
}

}  // namespace sluice::gluon::detail
