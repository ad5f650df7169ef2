#include <sluice/engine/error.h>
#include <sluice/operator/fused/compiled.h>
#include <sluice/operator/fused/headers.h>
#include <sluice/operator/library/nvrtc.h>

namespace sluice::fused {

std::string key_of(const Source& source, int target) {
  std::string key = message("NVRTC ", sluice::detail::nvrtc_version(), " sm_", target);
  for (const char* const flag : sluice::detail::nvrtc_flags())
    key += message(' ', flag);
  return message(key, " headers ", hash_of_headers(), '\n', source.text);
}

std::string code_of(const Source& source, int target, const KeptCode& kept) {
  const std::string key = key_of(source, target);
  if (auto found = kept.find(key))
    return std::move(*found);
  try {
    std::string code = sluice::detail::nvrtc_compile(source.text, embedded_headers(), target);
    kept.keep(key, code);
    return code;
  } catch (const LibraryError& error) {
    throw LibraryError(message(error.message(), "\nof the source\n", source.text));
  }
}

}  // namespace sluice::fused
