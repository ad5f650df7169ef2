#include <fmt/format.h>

#include <sluice/gluon/estimator/report_page.h>

#include "samples/support/report/report.h"

namespace samples::report_parts {

namespace {

using sluice::gluon::estimator::ReportPage;

constexpr std::size_t k_most_mistakes = 25;
constexpr std::int64_t k_least_side = 112;  // small images are made larger, a pixel a square

std::string base64(const std::vector<std::uint8_t>& bytes) {
  static constexpr char k_letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t here = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8 | (j < here ? bytes[i + j] : 0u);
    for (std::size_t j = 0; j < 4; ++j)
      text += j <= here ? k_letters[group >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

Image enlarged(const Image& image) {
  const std::int64_t side = std::max<std::int64_t>({image.height, image.width, 1});
  const std::int64_t factor = (k_least_side + side - 1) / side;
  Image large{.height = image.height * factor, .width = image.width * factor, .channels = image.channels, .pixels = {}};
  large.pixels.reserve(image.pixels.size() * static_cast<std::size_t>(factor * factor));
  for (std::int64_t y = 0; y < large.height; ++y) {
    for (std::int64_t x = 0; x < large.width; ++x) {
      const std::int64_t from = (y / factor * image.width + x / factor) * image.channels;
      for (std::int64_t c = 0; c < image.channels; ++c)
        large.pixels.push_back(image.pixels[static_cast<std::size_t>(from + c)]);
    }
  }
  return large;
}

std::string figure(const Report& report, std::int64_t index) {
  const Evaluation& evaluation = *report.evaluation;
  const auto label = static_cast<std::size_t>(evaluation.labels[static_cast<std::size_t>(index)]);
  const auto guess = static_cast<std::size_t>(evaluation.guess(index));
  const std::string is = ReportPage::escaped(report.classes.at(label)),
                    taken_for = ReportPage::escaped(report.classes.at(guess));
  return fmt::format(
      "<figure><img src=\"data:image/png;base64,{}\" alt=\"{}, taken for {}\" title=\"test image {}\"/>"
      "<figcaption><b>{}</b> {:.1f}%<br/><span class=\"quiet\">is {}, {:.1f}%</span></figcaption></figure>\n",
      base64(encode_png(enlarged(report.image(index)))),
      is,
      taken_for,
      index,
      taken_for,
      100 * evaluation.probabilities(index)[guess],
      is,
      100 * evaluation.probabilities(index)[label]);
}

}  // namespace

std::string mistakes(const Report& report) {
  const std::vector<std::int64_t> images = confident_mistakes(*report.evaluation, k_most_mistakes);
  if (images.empty()) {
    const bool none = report.evaluation->hits() == report.evaluation->size();
    return std::string("<section><h2>Mistakes</h2><p class=\"quiet\">") +
           (none ? "There are none." : "None has a probability that is a number.") + "</p></section>\n";
  }
  std::string text = "<section><h2>The most confident mistakes</h2><div class=\"mistakes\">\n";
  for (const std::int64_t index : images)
    text += figure(report, index);
  return text + "</div></section>\n";
}

}  // namespace samples::report_parts
