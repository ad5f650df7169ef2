#pragma once

#include <cstdint>
#include <span>

// The headers that kernels compiled at run time are made of: those of the rows, as they were when the library was
// built.
namespace sluice::fused {

struct EmbeddedHeader {
  const char* name;  // as it is included
  const char* text;
};

std::span<const EmbeddedHeader> embedded_headers() noexcept;
/// Tells one version of all of them from another.
std::uint64_t hash_of_headers() noexcept;

}  // namespace sluice::fused
