#include <algorithm>
#include <string>
#include <string_view>

#include <sluice/engine/error.h>
#include <sluice/operator/library/nvrtc.h>
#include <sluice/operator/rtc/code.h>

namespace sluice::rtc {

namespace {

constexpr const char* k_file = "rtc.cu";  // in what NVRTC says

/// Other files are part of the program then.
bool option_brings_files(const std::string& option) {
  return option.starts_with("-I") || option.starts_with("--include-path") || option.starts_with("-include") ||
         option.starts_with("--pre-include") || option.starts_with("--pch") || option.starts_with("-pch") ||
         option.starts_with("--use-pch") || option.starts_with("--create-pch");
}

/// As the preprocessor sees it: lines that end with a backslash go on in the next one.
std::string with_joined_lines(std::string_view text) {
  std::string joined;
  joined.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\\') {
      const std::size_t end = text.find_first_not_of(" \t\r", at + 1);
      if (end != text.npos && text[end] == '\n') {
        at = end;
        continue;
      }
    }
    joined += text[at];
  }
  return joined;
}

/// Whether the text may take in a file from a folder, or ask whether one is there: anything but #include <name> and
/// __has_include(<name>), which are NVRTC's own where no option says otherwise. Behind a comment an "include" counts
/// too: to look once more costs little. Trigraphs may spell # and \.
bool text_brings_files(std::string_view given) {
  if (given.find("?\?=") != given.npos || given.find("?\?/") != given.npos)
    return true;
  const std::string joined = with_joined_lines(given);
  const std::string_view text = joined;
  constexpr std::string_view k_blank = " \t\r\n\v\f", k_word = "include", k_asks = "__has_";
  for (std::size_t at = text.find(k_word); at != text.npos; at = text.find(k_word, at + 1)) {
    const bool asks = text.substr(0, at).ends_with(k_asks);
    const std::size_t before = text.substr(0, at).find_last_not_of(k_blank);
    if (!asks && (before == text.npos || std::string_view("#:/").find(text[before]) == std::string_view::npos))
      continue;
    std::size_t name = text.find_first_not_of(k_blank, at + k_word.size());
    if (asks && name != text.npos && text[name] == '(')
      name = text.find_first_not_of(k_blank, name + 1);
    if (name == text.npos || text[name] != '<' || text.substr(name + 1, 1) == "/" || text.substr(name + 1, 1) == ".")
      return true;
  }
  return false;
}

}  // namespace

std::string key_of(const UserSource& source, int target) {
  const bool by_options = std::any_of(source.options.begin(), source.options.end(), option_brings_files);
  if (by_options || text_brings_files(source.text))
    return "";
  std::string key = message("rtc: NVRTC ", detail::nvrtc_version(), " sm_", target);
  for (const std::string& option : source.options)
    key += message('\n', option.size(), ' ', option);
  return message(key, '\n', source.text);
}

std::string machine_code(const UserSource& source, int target, const fused::KeptCode& kept) {
  const std::string key = key_of(source, target);
  if (!key.empty()) {
    if (auto found = kept.find(key))
      return std::move(*found);
  }
  std::vector<const char*> flags;
  for (const std::string& option : source.options)
    flags.push_back(option.c_str());
  std::string refusal;
  std::string code = detail::nvrtc_compile({.text = source.text, .name = k_file, .flags = flags}, target, refusal);
  require<ValueError>(refusal.empty(), [&] { return message("rtc: the source does not compile:\n", refusal); });
  if (!key.empty())
    kept.keep(key, code);
  return code;
}

}  // namespace sluice::rtc
