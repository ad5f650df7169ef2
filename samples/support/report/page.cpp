#include <fmt/format.h>

#include <sluice/gluon/estimator/report_page.h>

#include "samples/support/report/report.h"
#include "samples/support/terminal.h"

namespace samples {

using sluice::gluon::estimator::Curve;
using sluice::gluon::estimator::ReportPage;

namespace {

void add_figures(ReportPage& page, const Report& report) {
  ReportPage::Pairs figures;
  if (const Evaluation* evaluation = report.evaluation; evaluation != nullptr) {
    const std::int64_t wrong = evaluation->size() - evaluation->hits();
    figures.emplace_back(fmt::format("{:.2f}%", 100 * evaluation->accuracy()), "test accuracy");
    figures.emplace_back(fmt::format("{:.4f}", evaluation->loss), "test loss");
    figures.emplace_back(fmt::format("{}", wrong), fmt::format("of {} images wrong", evaluation->size()));
  }
  if (!report.history.empty()) {
    figures.emplace_back(fmt::format("{:.0f}", report.history.back().images_per_second), "images/s in training");
    figures.emplace_back(
        clock_text(report.seconds), fmt::format("{} epochs, {} steps", report.history.size(), report.steps));
  }
  page.add_figures(figures);
}

void add_curves(ReportPage& page, const History& history) {
  std::vector<Curve> curves{{.name = "Loss"}, {.name = "Accuracy"}};
  for (const EpochRecord& epoch : history) {
    curves[0].training.push_back(epoch.loss);
    curves[0].validation.push_back(epoch.validation_loss);
    curves[1].training.push_back(epoch.accuracy);
    curves[1].validation.push_back(epoch.validation_accuracy);
  }
  page.add_curves(curves);
}

void add_epochs(ReportPage& page, const History& history) {
  if (history.empty())
    return;
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < history.size(); ++i) {
    const EpochRecord& epoch = history[i];
    rows.push_back(
        {fmt::format("{}", i + 1),
         fmt::format("{:.4f}", epoch.loss),
         fmt::format("{:.4f}", epoch.accuracy),
         fmt::format("{:.4f}", epoch.validation_loss),
         fmt::format("{:.4f}", epoch.validation_accuracy),
         fmt::format("{:.3g}", epoch.learning_rate),
         fmt::format("{:.0f}", epoch.images_per_second),
         fmt::format("{:.1f} s", epoch.seconds)});
  }
  page.add_table(
      "Epochs",
      {"epoch", "loss", "accuracy", "validation loss", "validation accuracy", "learning rate", "images/s", "time"},
      rows);
}

}  // namespace

std::string report_page(const Report& report) {
  ReportPage page(report.title, "What was trained, how well it does, and where it goes wrong.");
  if (!report.note.empty())
    page.add_note(report.note);
  add_figures(page, report);
  add_curves(page, report.history);
  if (report.evaluation != nullptr) {
    page.add_confusions(report.evaluation->confusions(), report.classes, "images");
    page.add_html(report_parts::mistakes(report));
  }
  add_epochs(page, report.history);
  page.add_list("Settings", report.settings);
  return page.html("Written by Sluice's samples.");
}

}  // namespace samples
