#include <fmt/format.h>

#include "samples/support/report/report.h"
#include "samples/support/terminal.h"

namespace samples {

namespace parts = report_parts;

std::string report_parts::escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

namespace {

std::string figure(const std::string& value, const std::string& what) {
  return "<div class=\"figure\"><b>" + value + "</b><span>" + what + "</span></div>\n";
}

std::string figures(const Report& report) {
  std::string text = "<div class=\"figures\">\n";
  if (const Evaluation* evaluation = report.evaluation; evaluation != nullptr) {
    const std::int64_t wrong = evaluation->size() - evaluation->hits();
    text += figure(fmt::format("{:.2f}%", 100 * evaluation->accuracy()), "test accuracy");
    text += figure(fmt::format("{:.4f}", evaluation->loss), "test loss");
    text += figure(fmt::format("{}", wrong), fmt::format("of {} images wrong", evaluation->size()));
  }
  if (!report.history.empty()) {
    text += figure(fmt::format("{:.0f}", report.history.back().images_per_second), "images/s in training");
    text += figure(clock_text(report.seconds), fmt::format("{} epochs, {} steps", report.history.size(), report.steps));
  }
  return text + "</div>\n";
}

std::string settings(const Report& report) {
  std::string text = "<section><h2>Settings</h2><dl>\n";
  for (const auto& [name, value] : report.settings)
    text += "<dt>" + parts::escaped(name) + "</dt><dd>" + parts::escaped(value) + "</dd>\n";
  return text + "</dl></section>\n";
}

std::string epochs(const History& history) {
  if (history.empty())
    return "";
  std::string text =
      "<section><h2>Epochs</h2><div class=\"scroll\"><table class=\"list\"><thead><tr><th>epoch</th><th>loss</th>"
      "<th>accuracy</th><th>validation loss</th><th>validation accuracy</th><th>learning rate</th><th>images/s</th>"
      "<th>time</th></tr></thead><tbody>\n";
  for (std::size_t i = 0; i < history.size(); ++i) {
    const EpochRecord& epoch = history[i];
    text += fmt::format(
        "<tr><td>{}</td><td>{:.4f}</td><td>{:.4f}</td><td>{:.4f}</td><td>{:.4f}</td><td>{:.3g}</td><td>{:.0f}</td>"
        "<td>{:.1f} s</td></tr>\n",
        i + 1,
        epoch.loss,
        epoch.accuracy,
        epoch.validation_loss,
        epoch.validation_accuracy,
        epoch.learning_rate,
        epoch.images_per_second,
        epoch.seconds);
  }
  return text + "</tbody></table></div></section>\n";
}

// What the last weights are judged by, with what they took for what.
std::string judgement(const Report& report) {
  if (report.evaluation == nullptr)
    return "";
  return parts::confusion_matrix(*report.evaluation, report.classes) +
         parts::score_table(*report.evaluation, report.classes) + parts::mistakes(report);
}

std::string note(const std::string& text) {
  return text.empty() ? "" : "<p><b>" + parts::escaped(text) + "</b></p>\n";
}

}  // namespace

std::string report_page(const Report& report) {
  const std::string title = parts::escaped(report.title);
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>" +
         title + "</title>\n<style>" + parts::style() + "</style>\n</head>\n<body>\n<main>\n<h1>" + title + "</h1>\n" +
         "<p class=\"quiet\">What was trained, how well it does, and where it goes wrong.</p>\n" + note(report.note) +
         figures(report) + parts::curves(report.history) + judgement(report) + epochs(report.history) +
         settings(report) + "<footer>Written by Sluice's samples.</footer>\n</main>\n</body>\n</html>\n";
}

}  // namespace samples
