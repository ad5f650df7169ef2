#pragma once

#include <initializer_list>
#include <vector>

#include <sluice/engine/options.h>

namespace sluice::test {

/// CPU policies with workers of their own, and all.
inline constexpr std::initializer_list<CpuMode> k_threaded = {CpuMode::pool, CpuMode::chaos_pool};
inline constexpr std::initializer_list<CpuMode> k_all = {
    CpuMode::serial, CpuMode::pool, CpuMode::chaos, CpuMode::chaos_pool};

inline bool has_workers(CpuMode policy) {
  return policy == CpuMode::pool || policy == CpuMode::chaos_pool;
}

/// Of an engine with so many workers, where it has any.
inline EngineOptions options_of(CpuMode policy, int workers = 2) {
  return {.workers = has_workers(policy) ? workers : 0, .cpu_policy = policy};
}

/// What ran, in order: written by tasks that exclude each other.
using Order = std::vector<int>;

/// A body that says its number.
inline auto says(Order& order, int number) {
  return [&order, number] { order.push_back(number); };
}

}  // namespace sluice::test
