#include <array>
#include <cstdio>

#include <sluice/engine/detail/trace_text.h>
#include <sluice/gluon/detail/report_parts.h>

namespace sluice::gluon::estimator {

namespace {

using gluon::detail::confusion_matrix;
using gluon::detail::curve_drawing;
using gluon::detail::score_table;

std::vector<std::string> names_of(std::size_t classes, const std::vector<std::string>& given) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < classes; ++i)
    names.push_back(i < given.size() ? given[i] : std::to_string(i));
  return names;
}

}  // namespace

std::string ReportPage::escaped(std::string_view text) {
  return sluice::detail::xml_text(text);
}

ReportPage::ReportPage(std::string title, const std::string& subtitle)
    : title_(std::move(title)), body_("<p class=\"quiet\">" + escaped(subtitle) + "</p>\n") {}

void ReportPage::add_note(const std::string& text) {
  body_ += "<p><b>" + escaped(text) + "</b></p>\n";
}

void ReportPage::add_figures(const Pairs& values_and_names) {
  body_ += "<div class=\"figures\">\n";
  for (const auto& [value, name] : values_and_names)
    body_ += "<div class=\"figure\"><b>" + escaped(value) + "</b><span>" + escaped(name) + "</span></div>\n";
  body_ += "</div>\n";
}

void ReportPage::add_curves(const std::vector<Curve>& curves) {
  std::string drawings;
  for (const Curve& curve : curves)
    drawings += curve_drawing(curve);
  if (!drawings.empty())
    body_ += "<div class=\"pair\">" + drawings + "</div>\n";
}

void ReportPage::add_confusions(
    const ConfusionCounts& counts, const std::vector<std::string>& classes, const std::string& noun) {
  const std::vector<std::string> names = names_of(counts.size(), classes);
  const std::string scores = score_table(counts, names);  // which looks at the counts
  body_ += confusion_matrix(counts, names, noun) + scores;
}

void ReportPage::add_table(
    const std::string& title, const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows) {
  body_ += "<section><h2>" + escaped(title) + "</h2><div class=\"scroll\"><table class=\"list\"><thead><tr>";
  for (const std::string& cell : head)
    body_ += "<th>" + escaped(cell) + "</th>";
  body_ += "</tr></thead><tbody>\n";
  for (const auto& row : rows) {
    body_ += "<tr>";
    for (const std::string& cell : row)
      body_ += "<td>" + escaped(cell) + "</td>";
    body_ += "</tr>\n";
  }
  body_ += "</tbody></table></div></section>\n";
}

void ReportPage::add_list(const std::string& title, const Pairs& names_and_values) {
  body_ += "<section><h2>" + escaped(title) + "</h2><dl>\n";
  for (const auto& [name, value] : names_and_values)
    body_ += "<dt>" + escaped(name) + "</dt><dd>" + escaped(value) + "</dd>\n";
  body_ += "</dl></section>\n";
}

std::string ReportPage::html(const std::string& footer) const {
  const std::string title = escaped(title_);
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>" +
         title + "</title>\n<style>" + gluon::detail::report_style() + "</style>\n</head>\n<body>\n<main>\n<h1>" +
         title + "</h1>\n" + body_ + "<footer>" + escaped(footer) + "</footer>\n</main>\n</body>\n</html>\n";
}

}  // namespace sluice::gluon::estimator

namespace sluice::gluon::detail {

std::string number_text(const char* format, double value) {
  std::array<char, 400> text{};  // the largest number has 309 digits
  const int size = std::snprintf(text.data(), text.size(), format, value);
  return {text.data(), static_cast<std::size_t>(size)};
}

}  // namespace sluice::gluon::detail
