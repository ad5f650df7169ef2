#pragma once

#include <vector>

#include <sluice/engine/options.h>

namespace sluice::test {

/// CPU policies with workers of their own, and all.
inline constexpr CpuMode k_threaded[] = {CpuMode::pool, CpuMode::chaos_pool};
inline constexpr CpuMode k_all[] = {CpuMode::serial, CpuMode::pool, CpuMode::chaos, CpuMode::chaos_pool};

/// What ran, in order: written by tasks that exclude each other.
using Order = std::vector<int>;

/// A body that says its number.
inline auto says(Order& order, int number) {
  return [&order, number] { order.push_back(number); };
}

}  // namespace sluice::test
