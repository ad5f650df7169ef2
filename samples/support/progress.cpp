#include "samples/support/progress.h"

#include <algorithm>
#include <cstdio>
#include <unistd.h>

#include <fmt/format.h>

namespace samples {

namespace {
constexpr int k_bar_width = 24;
constexpr auto k_redraw = std::chrono::milliseconds(100);
}  // namespace

Progress::Progress(int epoch, int epochs, std::int64_t steps)
    : terminal_(isatty(STDOUT_FILENO) == 1), title_(fmt::format("epoch {}/{}", epoch, epochs)), steps_(steps) {}

void Progress::step(std::int64_t images) {
  ++done_;
  images_ += images;
  if (terminal_ && Clock::now() - drawn_ >= k_redraw) {
    draw();
    drawn_ = Clock::now();
  }
}

void Progress::stop_clock() {
  stop_ = Clock::now();
}

double Progress::images_per_second() const {
  const Clock::time_point end = stop_ == Clock::time_point{} ? Clock::now() : stop_;
  const double seconds = std::chrono::duration<double>(end - start_).count();
  return seconds > 0 ? static_cast<double>(images_) / seconds : 0;
}

std::string Progress::figures() const {
  return fmt::format("loss {:.4f}  accuracy {:.4f}  {:.0f} images/s", loss_, accuracy_, images_per_second());
}

void Progress::draw() const {
  const auto filled = static_cast<int>(k_bar_width * done_ / std::max<std::int64_t>(steps_, 1));
  const std::string bar = std::string(static_cast<std::size_t>(filled), '=') +
                          std::string(static_cast<std::size_t>(std::max(0, k_bar_width - filled)), ' ');
  fmt::print("\r{} [{}] {}/{}  {}\033[K", title_, bar, done_, steps_, figures());
  std::fflush(stdout);
}

void Progress::clear_line() const {
  if (terminal_)
    fmt::print("\r\033[K");
}

void Progress::finish(double validation) {
  clear_line();
  fmt::print("{}  {}", title_, figures());
  if (validation >= 0)
    fmt::print("  validation accuracy {:.4f}", validation);
  fmt::print("\n");
  std::fflush(stdout);
}

}  // namespace samples
