#include "samples/support/progress.h"

#include <algorithm>

#include <fmt/format.h>

#include "samples/support/terminal.h"

namespace samples {

namespace {

constexpr std::size_t k_least_bar = 10, k_most_bar = 40;
constexpr double k_redraw = 0.1;

std::string bar(std::int64_t done, std::int64_t steps, std::size_t width) {
  const auto inside = static_cast<std::int64_t>(width) - 2;
  const auto filled =
      static_cast<std::size_t>(std::clamp<std::int64_t>(inside * done / std::max<std::int64_t>(steps, 1), 0, inside));
  return '[' + std::string(filled, '=') + std::string(static_cast<std::size_t>(inside) - filled, ' ') + ']';
}

// "-" where nothing was measured yet.
std::string figure(bool known, double value, int digits) {
  return known ? fmt::format("{:.{}f}", value, digits) : "-";
}

}  // namespace

Progress::Progress(const Epoch& epoch, double every, const Pace& pace) : epoch_(epoch), every_(every), pace_(pace) {
  show(epoch.before);
}

void Progress::show(const Sums& sums) {
  sums_ = sums;
  const double time = pace_.epoch_seconds();
  if (sums.images > 0 && time > 0)
    images_per_second_ = static_cast<double>(sums.images) / time;
}

void Progress::step() {
  ++epoch_.done;
  const double passed = std::chrono::duration<double>(Clock::now() - drawn_).count();
  if (passed < std::min(k_redraw, every_))
    return;
  const std::size_t room = line_room();
  if (room > 0 && passed >= k_redraw) {
    put(fmt::format("\r{}\033[K", terminal_line(room)));
  } else if (room == 0 && passed >= every_) {
    put(log_line() + '\n');
  } else {
    return;
  }
  drawn_ = Clock::now();
}

std::string Progress::terminal_line(std::size_t room) const {
  const auto left = pace_.left();
  const bool known = sums_.images > 0;
  const std::string rate = figure(images_per_second_.has_value(), images_per_second_.value_or(0), 0);
  const auto line_with = [&](std::size_t bar_width) {
    return fit(
        {{1, fmt::format("epoch {}/{}", epoch_.number, epoch_.of), fmt::format("{}/{}", epoch_.number, epoch_.of)},
         {4, bar(epoch_.done, epoch_.steps, bar_width)},
         {6, fmt::format("{}/{}", epoch_.done, epoch_.steps)},
         {0, "loss " + figure(known, sums_.mean_loss(), 4), figure(known, sums_.mean_loss(), 2)},
         {2, "accuracy " + figure(known, sums_.accuracy(), 4)},
         {5, rate + " images/s"},
         {3, left ? clock_text(*left) + " left" : ""}},
        room);
  };
  const std::string line = line_with(k_least_bar);
  const std::size_t wider = std::min(k_most_bar, k_least_bar + room - line.size());
  return line.find('[') == std::string::npos ? line : line_with(wider);
}

std::string Progress::log_line() const {
  const auto left = pace_.left();
  return fmt::format(
      "epoch {}/{}  step {}/{}  loss {}  accuracy {}  {} images/s  {} elapsed{}",
      epoch_.number,
      epoch_.of,
      epoch_.done,
      epoch_.steps,
      figure(sums_.images > 0, sums_.mean_loss(), 4),
      figure(sums_.images > 0, sums_.accuracy(), 4),
      figure(images_per_second_.has_value(), images_per_second_.value_or(0), 0),
      clock_text(pace_.elapsed()),
      left ? "  " + clock_text(*left) + " left" : "");
}

void Progress::stop() const {
  clear_line();
  say(log_line());
}

void Progress::clear_line() const {
  if (terminal_width() > 0)
    put("\r\033[K");
}

void Progress::finish(const EpochRecord& record) const {
  clear_line();
  const std::string first = fmt::format(
      "epoch {}/{}  loss {:.4f}  accuracy {:.4f}  learning rate {:.3g}  {:.0f} images/s",
      epoch_.number,
      epoch_.of,
      record.loss,
      record.accuracy,
      record.learning_rate,
      record.images_per_second);
  const std::string second = fmt::format(
      "validation loss {:.4f}  accuracy {:.4f}  {} elapsed{}",
      record.validation_loss,
      record.validation_accuracy,
      clock_text(pace_.elapsed()),
      epoch_.number < epoch_.of && pace_.left() ? "  " + clock_text(*pace_.left()) + " left" : "");
  const std::size_t room = line_room();
  const bool one_line = room == 0 || first.size() + second.size() + 2 <= room;
  put(wrap(first, room) + (one_line ? "  " + second : '\n' + wrap("  " + second, room)) + '\n');
}

}  // namespace samples
