// The small parts of the formats that traces are written in.
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <sluice/engine/detail/trace_text.h>
#include <sluice/engine/error.h>
#include <sluice/engine/origin.h>

namespace sluice::detail {

namespace {

// Bytes of the UTF-8 character at the start of `text`, 0 if there is none (Unicode 15, table 3-7).
std::size_t character(std::string_view text) {
  auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  auto follows = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
    return byte(i) >= low && byte(i) <= high;
  };
  const unsigned first = byte(0);
  if (first < 0x80)
    return 1;
  if (first >= 0xC2 && first <= 0xDF)
    return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF)
    return follows(1, first == 0xE0 ? 0xA0 : 0x80, first == 0xED ? 0x9F : 0xBF) && follows(2) ? 3 : 0;
  if (first >= 0xF0 && first <= 0xF4)
    return follows(1, first == 0xF0 ? 0x90 : 0x80, first == 0xF4 ? 0x8F : 0xBF) && follows(2) && follows(3) ? 4 : 0;
  return 0;
}

// Each character through `ascii` if it is one, the rest as it stands or as U+FFFD.
template <class Ascii>
std::string each_character(std::string_view text, Ascii&& ascii) {
  std::string written;
  while (!text.empty()) {
    const std::size_t size = character(text);
    if (size == 1) {
      ascii(written, text.front());
    } else if (size == 0) {
      written += "\xEF\xBF\xBD";
    } else {
      written += text.substr(0, size);
    }
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return written;
}

// In quotes, with those and backslashes escaped; characters without a glyph through `control`.
template <class Control>
std::string quoted(std::string_view text, Control&& control) {
  return '"' +
         each_character(
             text,
             [&](std::string& out, char c) {
               if (c == '"' || c == '\\') {
                 out += {'\\', c};
               } else if (static_cast<unsigned char>(c) < 0x20) {
                 control(out, c);
               } else {
                 out += c;
               }
             }) +
         '"';
}

}  // namespace

std::string json_string(std::string_view text) {
  return quoted(text, [](std::string& out, char c) {
    std::array<char, 8> code{};
    std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(c));
    out += code.data();
  });
}

std::string dot_string(std::string_view text) {
  return quoted(text, [](std::string& out, char c) { out += c == '\n' ? "\\n" : " "; });
}

std::string xml_text(std::string_view text) {
  return each_character(text, [](std::string& out, char c) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\n':
        out += c;
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  });
}

std::string microseconds(std::int64_t nanoseconds) {
  const std::string digits = std::to_string(1000 + nanoseconds % 1000);
  return std::to_string(nanoseconds / 1000) + "." + digits.substr(1);
}

std::string short_site(const SourceLocation& site) {
  const std::string line = std::filesystem::path(site.file).filename().string() + ":" + std::to_string(site.line);
  const Origin* const origin = Origin::of(site);
  return origin == nullptr ? line : origin->what() + ", " + line;
}

const char* name_of(Priority priority) noexcept {
  constexpr const char* k_names[] = {"urgent", "high", "normal", "background"};
  return k_names[static_cast<std::size_t>(priority)];
}

const char* name_of(AccessMode mode) noexcept {
  constexpr const char* k_names[] = {"read", "write", "out", "commute"};
  return k_names[static_cast<std::size_t>(mode)];
}

void write_file(const std::filesystem::path& path, const std::function<void(std::ostream&)>& write) {
  const auto refuse = [&](int why) {
    const std::string reason = why == 0 ? "" : std::string(": ") + std::strerror(why);
    throw FileError(message("trace: ", path.string(), " cannot be written", reason));
  };
  errno = 0;
  std::ofstream out(path, std::ios::binary);
  if (!out.is_open())
    refuse(errno);
  write(out);
  out.close();
  if (!out.fail())
    return;
  const int why = errno;
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored))  // a device stays
    std::filesystem::remove(path, ignored);
  refuse(why);
}

}  // namespace sluice::detail
