#pragma once

#include <cstdint>

namespace sluice::detail {

/// V neighbours in one load or store.
template <class T, int V>
struct alignas(sizeof(T) * V) Neighbours {
  T at[V];
};
/// As many as 16 bytes hold.
template <class T>
inline constexpr int k_neighbours = static_cast<int>(16 / sizeof(T));

/// Whether V neighbours can be loaded from there at once.
template <class T, int V>
bool starts_neighbours(const void* data) noexcept {
  return reinterpret_cast<std::uintptr_t>(data) % sizeof(Neighbours<T, V>) == 0;
}

}  // namespace sluice::detail
