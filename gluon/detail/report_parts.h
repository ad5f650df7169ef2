#pragma once

#include <string>

#include <sluice/gluon/estimator/report_page.h>

// The parts of a page that are more than a line.
namespace sluice::gluon::detail {

/// The style sheet.
const char* report_style();
/// "%.3f" and the like, of one number.
std::string number_text(const char* format, double value);
/// One curve as a drawing in a section of its own; "" without a finite value.
std::string curve_drawing(const estimator::Curve& curve);
std::string confusion_matrix(
    const estimator::ConfusionCounts& counts, const std::vector<std::string>& names, const std::string& noun);
std::string score_table(const estimator::ConfusionCounts& counts, const std::vector<std::string>& names);

}  // namespace sluice::gluon::detail
