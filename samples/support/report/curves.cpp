#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "samples/support/report/report.h"

namespace samples::report_parts {

namespace {

constexpr double k_width = 480, k_height = 280;
constexpr double k_left = 52, k_right = 14, k_top = 12, k_bottom = 34;
constexpr std::size_t k_most_points = 60;  // beyond that dots would hide the line

struct Axis {
  double low = 0, high = 1, step = 0.2;
};

// A range that ends on round numbers, with about five lines in it.
Axis round_axis(double low, double high) {
  if (high - low < 1e-9) {
    low -= std::max(std::abs(low) * 0.05, 0.01);
    high += std::max(std::abs(high) * 0.05, 0.01);
  }
  const double rough = (high - low) / 5, power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.5, 2.0, 1.0}) {
    if (factor * power >= rough)
      step = factor * power;
  }
  return {std::floor(low / step + 1e-9) * step, std::ceil(high / step - 1e-9) * step, step};
}

/// One drawing: two lines over the epochs.
class Chart {
 public:
  Chart(const History& history, std::string label) : history_(history), label_(std::move(label)) {}

  template <class First, class Second>
  std::string draw(First train, Second test) {
    double low = std::numeric_limits<double>::max(), high = std::numeric_limits<double>::lowest();
    for (const EpochRecord& epoch : history_) {
      low = std::min({low, train(epoch), test(epoch)});
      high = std::max({high, train(epoch), test(epoch)});
    }
    axis_ = round_axis(low, high);
    return fmt::format(
               "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{} of each epoch\">\n",
               k_width,
               k_height,
               label_) +
           grid() + line(train, "train", "training") + line(test, "test", "validation") + "</svg>\n";
  }

 private:
  double x(std::size_t epoch) const {
    const double inside = k_width - k_left - k_right;
    if (history_.size() == 1)
      return k_left + inside / 2;
    return k_left + inside * static_cast<double>(epoch) / static_cast<double>(history_.size() - 1);
  }
  double y(double value) const {
    return k_top + (k_height - k_top - k_bottom) * (axis_.high - value) / (axis_.high - axis_.low);
  }

  std::string grid() const {
    std::string text;
    const auto lines = static_cast<int>(std::lround((axis_.high - axis_.low) / axis_.step));
    for (int i = 0; i <= lines; ++i) {
      const double value = axis_.low + i * axis_.step;
      text += fmt::format(
          "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
          "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.4g}</text>\n",
          k_left,
          k_width - k_right,
          y(value),
          y(value),
          k_left - 9,
          y(value) + 4,
          std::abs(value) < axis_.step * 1e-6 ? 0.0 : value);
    }
    const std::size_t every = std::max<std::size_t>(1, (history_.size() + 9) / 10);
    for (std::size_t i = 0; i < history_.size(); i += every)
      text += fmt::format(
          "<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", x(i), k_height - k_bottom + 20, i + 1);
    return text + fmt::format(
                      "<line class=\"axis\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>\n",
                      k_left,
                      k_width - k_right,
                      k_height - k_bottom,
                      k_height - k_bottom);
  }

  template <class Value>
  std::string line(Value value, const char* kind, const char* name) const {
    std::string points, dots;
    for (std::size_t i = 0; i < history_.size(); ++i) {
      const double at = value(history_[i]);
      points += fmt::format("{}{:.1f},{:.1f}", i > 0 ? " " : "", x(i), y(at));
      if (history_.size() <= k_most_points)
        dots += fmt::format(
            "<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"><title>epoch {}, {}: {:.4f}</title></circle>\n",
            kind,
            x(i),
            y(at),
            i + 1,
            name,
            at);
    }
    return fmt::format("<polyline class=\"{}\" points=\"{}\"/>\n", kind, points) + dots;
  }

  const History& history_;
  std::string label_;
  Axis axis_;
};

std::string card(const std::string& title, const std::string& drawing) {
  return "<section><h2>" + title +
         "</h2><div class=\"legend\"><span><i style=\"background:var(--train)\"></i>training</span>"
         "<span><i style=\"background:var(--test)\"></i>validation</span></div>\n" +
         drawing + "</section>\n";
}

}  // namespace

std::string curves(const History& history) {
  if (history.empty())
    return "";
  const std::string loss = Chart(history, "Loss")
                               .draw(
                                   [](const EpochRecord& epoch) { return epoch.loss; },
                                   [](const EpochRecord& epoch) { return epoch.validation_loss; });
  const std::string accuracy = Chart(history, "Accuracy")
                                   .draw(
                                       [](const EpochRecord& epoch) { return epoch.accuracy; },
                                       [](const EpochRecord& epoch) { return epoch.validation_accuracy; });
  return "<div class=\"pair\">" + card("Loss by epoch", loss) + card("Accuracy by epoch", accuracy) + "</div>\n";
}

}  // namespace samples::report_parts
