#include <sluice/engine/error.h>
#include <sluice/operator/fused/compiled.h>
#include <sluice/operator/fused/headers.h>
#include <sluice/operator/library/nvrtc.h>

namespace sluice::fused {

std::string key_of(const KernelSource& source, int target) {
  std::string key = message("NVRTC ", sluice::detail::nvrtc_version(), " sm_", target);
  for (const char* const flag : sluice::detail::nvrtc_flags())
    key += message(' ', flag);
  return message(key, " headers ", hash_of_headers(), '\n', source.text);
}

std::string code_of(const KernelSource& source, int target, const KeptCode& kept) {
  const std::string key = key_of(source, target);
  if (auto found = kept.find(key))
    return std::move(*found);
  std::string refusal;
  std::string code = sluice::detail::nvrtc_compile(
      {.text = source.text, .name = "fused.cu", .headers = embedded_headers(), .flags = sluice::detail::nvrtc_flags()},
      target,
      refusal);
  require<LibraryError>(
      refusal.empty(), [&] { return message("NVRTC:\n", refusal, "\nof the source\n", source.text); });
  kept.keep(key, code);
  return code;
}

}  // namespace sluice::fused
