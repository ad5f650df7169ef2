#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include <sluice/gluon/detail/report_parts.h>

namespace sluice::gluon::detail {

namespace {

constexpr int k_width = 480, k_height = 280, k_left = 52, k_right = 14, k_top = 12, k_bottom = 34;
constexpr std::size_t k_most_points = 60;  // beyond that dots would hide the line

struct Axis {
  double low = 0, high = 1, step = 0.2;
};

// A range that ends on round numbers, with about five lines in it.
Axis round_axis(double low, double high) {
  const double apart = std::max(std::max(std::abs(low), std::abs(high)) * 1e-9, 1e-300);
  if (!(high - low > apart)) {
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

/// Two lines over the epochs.
class Chart {
 public:
  explicit Chart(const estimator::Curve& curve)
      : curve_(curve), epochs_(std::max(curve.training.size(), curve.validation.size())) {}

  /// "" where no value can be drawn.
  std::string draw() {
    double low = std::numeric_limits<double>::max(), high = std::numeric_limits<double>::lowest();
    for (const auto* values : {&curve_.training, &curve_.validation}) {
      for (const double value : *values) {
        if (can_be_drawn(value)) {
          low = std::min(low, value);
          high = std::max(high, value);
        }
      }
    }
    if (low > high)
      return "";
    axis_ = round_axis(low, high);
    return "<svg viewBox=\"0 0 " + std::to_string(k_width) + ' ' + std::to_string(k_height) +
           "\" role=\"img\" aria-label=\"" + estimator::ReportPage::escaped(curve_.name) + " of each epoch\">\n" +
           grid() + line(curve_.training, "train", "training") + line(curve_.validation, "test", "validation") +
           "</svg>\n";
  }

 private:
  // What axes of doubles can be made for.
  static bool can_be_drawn(double value) { return std::abs(value) < 1e300; }

  std::string x(std::size_t epoch) const {
    const double inside = k_width - k_left - k_right;
    const double share = epochs_ == 1 ? 0.5 : static_cast<double>(epoch) / static_cast<double>(epochs_ - 1);
    return number_text("%.1f", k_left + inside * share);
  }
  std::string y(double value, double below = 0) const {
    const double inside = k_height - k_top - k_bottom;
    return number_text("%.1f", k_top + inside * (axis_.high - value) / (axis_.high - axis_.low) + below);
  }

  std::string grid() const {
    std::string text;
    const std::string left = std::to_string(k_left), right = std::to_string(k_width - k_right),
                      bottom = std::to_string(k_height - k_bottom);
    const auto lines = static_cast<int>(std::lround((axis_.high - axis_.low) / axis_.step));
    for (int i = 0; i <= lines; ++i) {
      const double value = axis_.low + i * axis_.step;
      text += "<line class=\"grid\" x1=\"" + left + "\" x2=\"" + right + "\" y1=\"" + y(value) + "\" y2=\"" + y(value) +
              "\"/><text x=\"" + std::to_string(k_left - 9) + "\" y=\"" + y(value, 4) + "\" text-anchor=\"end\">" +
              number_text("%.4g", std::abs(value) < axis_.step * 1e-6 ? 0.0 : value) + "</text>\n";
    }
    const std::size_t every = std::max<std::size_t>(1, (epochs_ + 9) / 10);
    for (std::size_t i = 0; i < epochs_; i += every)
      text += "<text x=\"" + x(i) + "\" y=\"" + std::to_string(k_height - k_bottom + 20) +
              "\" text-anchor=\"middle\">" + std::to_string(i + 1) + "</text>\n";
    return text + "<line class=\"axis\" x1=\"" + left + "\" x2=\"" + right + "\" y1=\"" + bottom + "\" y2=\"" + bottom +
           "\"/>\n";
  }

  // A line ends where a value is missing, and goes on behind it.
  std::string line(const std::vector<double>& values, const std::string& kind, const std::string& name) const {
    std::string points, lines, dots;
    const auto end_line = [&] {
      if (!points.empty())
        lines += "<polyline class=\"" + kind + "\" points=\"" + points + "\"/>\n";
      points.clear();
    };
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!can_be_drawn(values[i])) {
        end_line();
        continue;
      }
      points += (points.empty() ? "" : " ") + x(i) + ',' + y(values[i]);
      if (epochs_ <= k_most_points)
        dots += "<circle class=\"" + kind + "\" cx=\"" + x(i) + "\" cy=\"" + y(values[i]) +
                "\" r=\"3.5\"><title>epoch " + std::to_string(i + 1) + ", " + name + ": " +
                number_text("%.4f", values[i]) + "</title></circle>\n";
    }
    end_line();
    return lines + dots;
  }

  const estimator::Curve& curve_;
  std::size_t epochs_;
  Axis axis_;
};

}  // namespace

std::string curve_drawing(const estimator::Curve& curve) {
  const std::string drawing = Chart(curve).draw();
  if (drawing.empty())
    return "";
  return "<section><h2>" + estimator::ReportPage::escaped(curve.name) +
         " by epoch</h2><div class=\"legend\"><span><i style=\"background:var(--train)\"></i>training</span>"
         "<span><i style=\"background:var(--test)\"></i>validation</span></div>\n" +
         drawing + "</section>\n";
}

}  // namespace sluice::gluon::detail
