#include <algorithm>

#include <sluice/engine/error.h>
#include <sluice/operator/library/nvrtc.h>
#include <sluice/operator/rtc/code.h>

namespace sluice::rtc {

namespace {

constexpr const char* k_file = "rtc.cu";  // in what NVRTC says

/// Other files are part of the program then.
bool brings_files(const std::string& option) {
  return option.starts_with("-I") || option.starts_with("--include-path") || option.starts_with("-include") ||
         option.starts_with("--pre-include");
}

}  // namespace

std::string key_of(const Source& source, int target) {
  if (std::any_of(source.options.begin(), source.options.end(), brings_files))
    return "";
  std::string key = message("rtc: NVRTC ", detail::nvrtc_version(), " sm_", target);
  for (const std::string& option : source.options)
    key += message('\n', option.size(), ' ', option);
  return message(key, '\n', source.text);
}

std::string machine_code(const Source& source, int target, const fused::KeptCode& kept) {
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
