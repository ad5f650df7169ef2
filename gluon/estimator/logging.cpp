#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

#include <sluice/engine/error.h>
#include <sluice/gluon/estimator/estimator.h>
#include <sluice/gluon/estimator/logging.h>

namespace sluice::gluon::estimator {

namespace {

constexpr std::chrono::milliseconds k_between_drawings{100};
constexpr std::int64_t k_bar = 20;  // characters

std::string short_number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

std::string clock_text(std::chrono::steady_clock::duration passed) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(passed).count();
  const auto two = [](long long n) { return message(n < 10 ? "0" : "", n); };
  if (seconds < 3600)
    return message(seconds / 60, ':', two(seconds % 60));
  return message(seconds / 3600, ':', two(seconds / 60 % 60), ':', two(seconds % 60));
}

std::string text_of(const std::vector<metric::Figure>& figures) {
  std::string text;
  for (const auto& [name, value] : figures)
    text += message("  ", name, ' ', short_number(value));
  return text;
}

// Those that there is room for, none of them cut.
std::string whole_figures(const std::string& text, std::size_t room) {
  if (text.size() <= room)
    return text;
  const std::size_t end = text.rfind("  ", room);
  return text.substr(0, end == std::string::npos ? 0 : end);
}

std::string bar_of(std::int64_t done, std::int64_t of) {
  const std::int64_t full = of > 0 ? std::min(k_bar, k_bar * done / of) : 0;
  return '[' + std::string(static_cast<std::size_t>(full), '=') +
         std::string(static_cast<std::size_t>(k_bar - full), ' ') + ']';
}

}  // namespace

LoggingHandler::LoggingHandler(LoggingOptions options) : options_(std::move(options)) {
  require(options_.columns.value_or(1) >= 1, [&] {
    return message("LoggingHandler: a terminal of ", *options_.columns, " columns cannot be");
  });
  require(options_.every_batches >= 0 && options_.figures_every >= 0, [&] {
    return message(
        "LoggingHandler: each ",
        options_.every_batches,
        " batches, or ",
        options_.figures_every,
        " seconds, cannot be");
  });
  is_terminal_ = options_.is_terminal.value_or(options_.print == nullptr && isatty(STDOUT_FILENO) == 1);
}

void LoggingHandler::print(const std::string& text) const {
  if (options_.print != nullptr)
    return options_.print(text);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

// A line that fills a terminal to the last column goes on in the next one, where "\r" does not reach it.
std::size_t LoggingHandler::room() const {
  constexpr int k_usual_columns = 80;
  winsize size{};
  int columns = options_.columns.value_or(0);
  if (columns == 0 && options_.print == nullptr && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
    columns = size.ws_col;
  return static_cast<std::size_t>(std::max((columns > 0 ? columns : k_usual_columns) - 1, 1));
}

void LoggingHandler::train_begin(Estimator& /*estimator*/) {
  began_ = epoch_began_ = drawn_ = read_ = Clock::now();
  samples_ = 0;
  figures_.clear();
  is_drawn_ = false;
}

void LoggingHandler::train_resumed(Estimator& estimator) {
  const Progress& at = estimator.progress();
  print(message("going on after ", at.epochs, " epochs and ", at.batch_in_epoch, " batches of the next\n"));
}

void LoggingHandler::epoch_begin(Estimator& /*estimator*/) {
  epoch_began_ = Clock::now();
  samples_ = 0;
  figures_.clear();  // the next ones are of this epoch
}

std::string LoggingHandler::begin_of_line(const Estimator& estimator, std::int64_t epoch) const {
  std::string text = message("epoch ", epoch);
  if (estimator.last_epoch())
    text += message('/', *estimator.last_epoch());
  return text;
}

std::string LoggingHandler::end_of_line() const {
  const double seconds = std::chrono::duration<double>(Clock::now() - epoch_began_).count();
  std::string text;
  if (seconds > 0)
    text = message("  ", std::llround(static_cast<double>(samples_) / seconds), " samples/s");
  return text + "  " + clock_text(Clock::now() - began_);
}

void LoggingHandler::batch_end(Estimator& estimator, const data::Batch& batch, const StepResult& /*result*/) {
  samples_ += batch.data.shape()[0];
  const Progress& at = estimator.progress();
  if (is_terminal_)
    return draw(estimator);
  if (options_.every_batches == 0 || at.batch_in_epoch % options_.every_batches != 0)
    return;
  std::string line = message(begin_of_line(estimator, at.epochs + 1), "  batch ", at.batch_in_epoch);
  if (const auto size = estimator.epoch_size())
    line += message('/', *size);
  line += text_of(estimator.training_figures());
  print(line + end_of_line() + '\n');
}

void LoggingHandler::draw(Estimator& estimator) {
  const Clock::time_point now = Clock::now();
  if (is_drawn_ && now - drawn_ < k_between_drawings)
    return;
  if (now - read_ >= std::chrono::duration<double>(options_.figures_every)) {
    figures_ = text_of(estimator.training_figures());
    read_ = Clock::now();
  }
  const Progress& at = estimator.progress();
  const std::int64_t size = estimator.epoch_size().value_or(0);
  const std::string begin = begin_of_line(estimator, at.epochs + 1), end = end_of_line();
  std::string line =
      begin + (size > 0 ? message(' ', bar_of(at.batch_in_epoch, size), ' ', at.batch_in_epoch, '/', size)
                        : message(" batch ", at.batch_in_epoch));
  // The bar gives way to the figures, these to the rate and the time, and all to the edge.
  const std::size_t width = room();
  if (size > 0 && line.size() + figures_.size() + end.size() > width)
    line = message(begin, " batch ", at.batch_in_epoch, '/', size);
  const std::size_t used = line.size() + end.size();
  line += whole_figures(figures_, used < width ? width - used : 0) + end;
  print("\r\033[K" + line.substr(0, width));
  drawn_ = now;
  is_drawn_ = true;
}

void LoggingHandler::epoch_end(Estimator& estimator) {
  std::string line = std::exchange(is_drawn_, false) ? "\r\033[K" : "";
  line += begin_of_line(estimator, estimator.progress().epochs) + text_of(estimator.training_figures()) +
          text_of(estimator.validation_figures());
  print(line + end_of_line() + '\n');
}

void LoggingHandler::train_end(Estimator& estimator) {
  const std::string begin = std::exchange(is_drawn_, false) ? "\n" : "";
  const std::string why = estimator.failed() ? "an error" : estimator.stop_reason();
  print(begin + "training ends after " + clock_text(Clock::now() - began_) + ": " + why + '\n');
}

}  // namespace sluice::gluon::estimator
