#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "samples/support/report/report.h"

namespace samples::report_parts {

namespace {

// Shares of a row spread over the colours so that a few per cent of mistakes can be seen beside the diagonal.
double shade(double share, bool right) {
  return right ? share : std::min(1.0, 1.4 * std::sqrt(share));
}

std::string cell(std::int64_t count, std::int64_t in_row, bool right, const std::string& hint) {
  if (count == 0)
    return "<td class=\"none\">·</td>";
  const double colour = shade(static_cast<double>(count) / static_cast<double>(in_row), right);
  return fmt::format(
      "<td{} style=\"background:rgba(var(--{}),{:.3f})\" title=\"{}\">{}</td>",
      colour > 0.55 ? " class=\"strong\"" : "",
      right ? "right" : "wrong",
      std::max(colour, 0.06),
      hint,
      count);
}

}  // namespace

std::string confusion_matrix(const Evaluation& evaluation, const std::vector<std::string>& classes) {
  const std::vector<std::int64_t> counts = evaluation.confusion();
  const auto n = static_cast<std::size_t>(evaluation.classes);
  std::string text =
      "<section><h2>Confusion matrix</h2><div class=\"scroll\"><table class=\"matrix\"><thead><tr>"
      "<th>label ↓ &nbsp; guess →</th>";
  for (std::size_t i = 0; i < n; ++i)
    text += "<th scope=\"col\"><span>" + escaped(classes.at(i)) + "</span></th>";
  text += "</tr></thead><tbody>\n";
  for (std::size_t label = 0; label < n; ++label) {
    const auto row = counts.begin() + static_cast<std::ptrdiff_t>(label * n);
    std::int64_t in_row = 0;
    for (std::size_t guess = 0; guess < n; ++guess)
      in_row += row[static_cast<std::ptrdiff_t>(guess)];
    text += "<tr><th scope=\"row\">" + escaped(classes.at(label)) + "</th>";
    for (std::size_t guess = 0; guess < n; ++guess) {
      const std::int64_t count = row[static_cast<std::ptrdiff_t>(guess)];
      const std::string hint = fmt::format(
          "{} of {} images of {} taken for {}", count, in_row, escaped(classes.at(label)), escaped(classes.at(guess)));
      text += cell(count, in_row, label == guess, hint);
    }
    text += "</tr>\n";
  }
  return text + "</tbody></table></div></section>\n";
}

std::string score_table(const Evaluation& evaluation, const std::vector<std::string>& classes) {
  const auto share = [](const ClassScore& score, double value) -> std::string {
    if (score.images == 0)
      return "<td class=\"quiet\">-</td>";
    return fmt::format("<td>{:.3f}<span class=\"bar\"><i style=\"width:{:.1f}%\"></i></span></td>", value, 100 * value);
  };
  std::string text =
      "<section><h2>Classes, the worst first</h2><div class=\"scroll\"><table class=\"list\"><thead><tr><th>class</th>"
      "<th>precision</th><th>recall</th><th>most often taken for</th></tr></thead><tbody>\n";
  for (const ClassScore& score : class_scores(evaluation)) {
    text += "<tr><th scope=\"row\">" + escaped(classes.at(static_cast<std::size_t>(score.label))) + "</th>" +
            share(score, score.precision) + share(score, score.recall) + "<td>";
    if (score.taken_for >= 0)
      text += escaped(classes.at(static_cast<std::size_t>(score.taken_for))) +
              fmt::format(" <span class=\"quiet\">{} times</span>", score.times);
    text += "</td></tr>\n";
  }
  return text + "</tbody></table></div></section>\n";
}

}  // namespace samples::report_parts
