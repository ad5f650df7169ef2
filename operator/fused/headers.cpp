#include <sluice/operator/fused/checksum.h>
#include <sluice/operator/fused/headers.h>

namespace sluice::fused {

namespace {

constexpr EmbeddedHeader k_headers[] = {
#include <fused_headers.inc>
};

}  // namespace

std::span<const EmbeddedHeader> embedded_headers() noexcept {
  return k_headers;
}

std::uint64_t hash_of_headers() noexcept {
  static const std::uint64_t hash = [] {
    std::uint64_t all = checksum("");
    for (const EmbeddedHeader& header : k_headers)
      all = checksum(header.text, checksum(header.name, all));
    return all;
  }();
  return hash;
}

}  // namespace sluice::fused
