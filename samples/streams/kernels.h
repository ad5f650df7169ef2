#pragma once

#include <cstdint>

// What the tasks of the sample enqueue; `stream` is the cudaStream_t of Queue::stream(). Integers, so that the host can
// say what must come out, bit for bit.
namespace samples {

/// words[i] = start + i.
void enqueue_fill(void* stream, std::uint32_t* words, std::uint32_t start, int n);
/// Each word goes `turns` steps on in the sequence word * k_factor + k_summand.
void enqueue_advance(void* stream, std::uint32_t* words, int n, int turns);
/// to = from + number.
void enqueue_fork(void* stream, std::uint32_t* to, const std::uint32_t* from, std::uint32_t number, int n);
/// to = 3 * to + from: the order of two joins shows.
void enqueue_join(void* stream, std::uint32_t* to, const std::uint32_t* from, int n);

inline constexpr std::uint32_t k_factor = 1664525, k_summand = 1013904223;

/// Many steps of the sequence at once, for the host.
struct Steps {
  std::uint32_t factor = 1, summand = 0;

  static Steps of(int turns) {
    Steps all;
    for (int i = 0; i < turns; ++i)
      all = {all.factor * k_factor, all.summand * k_factor + k_summand};
    return all;
  }
  std::uint32_t operator()(std::uint32_t word) const { return word * factor + summand; }
};

}  // namespace samples
