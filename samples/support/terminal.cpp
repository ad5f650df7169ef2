#include "samples/support/terminal.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <sstream>
#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>

namespace samples {

namespace {

constexpr int k_usual_width = 80;

int width_of(int stream) {
  if (isatty(stream) != 1)
    return 0;
  winsize size{};
  if (ioctl(stream, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return size.ws_col;
  const char* columns = std::getenv("COLUMNS");
  const int named = columns == nullptr ? 0 : std::atoi(columns);
  return named > 0 ? named : k_usual_width;
}

std::size_t room_of(int width) {
  return width == 0 ? 0 : static_cast<std::size_t>(std::max(width - 1, 1));
}

}  // namespace

int terminal_width() {
  return width_of(STDOUT_FILENO);
}

std::size_t line_room() {
  return room_of(terminal_width());
}

std::string fit(const std::vector<Part>& parts, std::size_t width) {
  std::vector<std::size_t> by_rank(parts.size());
  std::iota(by_rank.begin(), by_rank.end(), std::size_t{0});
  std::stable_sort(
      by_rank.begin(), by_rank.end(), [&](std::size_t a, std::size_t b) { return parts[a].rank < parts[b].rank; });
  std::vector<std::string> chosen(parts.size());
  std::size_t used = 0;
  for (const std::size_t i : by_rank) {
    for (const std::string* text : {&parts[i].text, &parts[i].shorter}) {
      const std::size_t needed = text->size() + (used > 0 ? 2 : 0);
      if (text->empty() || used + needed > width)
        continue;
      chosen[i] = *text;
      used += needed;
      break;
    }
  }
  std::string line;
  for (const std::string& text : chosen) {
    if (!text.empty())
      line += (line.empty() ? "" : "  ") + text;
  }
  return line;
}

std::string wrap(const std::string& text, std::size_t width, std::size_t indent) {
  if (width == 0 || text.size() <= width)
    return text;
  std::string lines, line;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = text.find(' ', text.find_first_not_of(' ', at));
    end = std::min(end, text.size());
    std::string word = text.substr(at, end - at);
    if (!line.empty() && line.size() + word.size() > width) {
      lines += line + '\n';
      line = std::string(indent, ' ');
      word.erase(0, word.find_first_not_of(' '));
    }
    if (line.empty() && word.size() > width)  // an indentation that leaves no room
      word.erase(0, std::min(word.find_first_not_of(' '), word.size() - width));
    line += word;
    at = end;
  }
  return lines + line;
}

void put(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void complain(const std::string& text) {
  std::fflush(stdout);
  const std::size_t room = room_of(width_of(STDERR_FILENO));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    std::fputs((wrap(line, room) + '\n').c_str(), stderr);
}

void say(const std::string& text) {
  put(wrap(text, line_room()) + '\n');
}

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::max(0.0, seconds) + 0.5);
  const std::int64_t hours = whole / 3600, minutes = whole / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
                   : fmt::format("{}:{:02}", minutes, whole % 60);
}

}  // namespace samples
